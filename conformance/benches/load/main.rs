//! The server under load, as clients in another process see it: over TLS, with a token.
//!
//! `cargo bench -p kubeproof --bench load [-- [--plain] SECTION...]`

mod client;
mod objects;
mod server;
mod size;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use client::{Connection, Target};
use futures::future::join_all;
use objects::{config_map, pod, status_patch};
use serde_json::{Value, json};
use server::Server;
use size::sized;

/// Connections that send requests at the same time.
const CLIENTS: usize = 16;
/// The number of measurements of each rate; the median is reported.
fn rounds() -> usize {
    sized(5)
}

/// Starts and lists that are timed.
fn timed() -> usize {
    sized(21)
}

/// Pods in a list.
fn listed() -> usize {
    sized(2000)
}

/// Open watches.
fn open_watches() -> usize {
    sized(200)
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let tls = !arguments.iter().any(|argument| argument == "--plain");
    let named: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let wanted = |section: &str| named.is_empty() || named.contains(&section);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    runtime.block_on(async {
        if wanted("start") {
            start(tls).await;
        }
        if wanted("requests") {
            requests(tls).await;
        }
        if wanted("list") {
            list(tls).await;
        }
        if wanted("watch") {
            watch(tls).await;
        }
    });
}

async fn start(tls: bool) {
    let mut times = Vec::new();
    let mut resident = 0.0;
    for _ in 0..timed() {
        let started = Instant::now();
        let server = Server::start(tls);
        let mut connection = Connection::open(&server.target).await;
        let (code, _) = connection.request("GET", "/readyz", "", b"").await;
        assert_eq!(code, 200);
        times.push(started.elapsed().as_secs_f64() * 1e3);
        resident = server.resident_mb();
    }
    report("ready", "ms", &mut times);
    println!("resident when ready: {resident:.0} MB");
}

async fn requests(tls: bool) {
    let (created, got) = (sized(10_000), sized(50_000));
    let server = Server::start(tls);
    let mut clients = Clients::open(&server.target).await;
    let mut small = Rates::default();
    let mut creates = Rates::default();
    let mut gets = Rates::default();
    let mut patches = Rates::default();
    for round in 0..rounds() {
        let namespace = create_namespace(&server.target, &format!("round-{round}")).await;
        let maps = format!("{namespace}/configmaps");
        let create = |index| Call::create(&maps, &config_map(index));
        small.add(&server, &mut clients, created, create).await;
        let pods = format!("{namespace}/pods");
        let create = |index| Call::create(&pods, &pod(index));
        creates.add(&server, &mut clients, created, create).await;
        let get = |index| Call::get(format!("{pods}/web-{}", index * 7919 % created));
        gets.add(&server, &mut clients, got, get).await;
        let patch = |index| Call::status_patch(&pods, index, round);
        patches.add(&server, &mut clients, created, patch).await;
    }
    small.report("creates of ConfigMaps");
    creates.report("creates of pods");
    gets.report("gets of pods");
    patches.report("status patches of pods");
    let stored = rounds() * created;
    let resident = server.resident_mb();
    println!("resident with {stored} pods and {stored} ConfigMaps: {resident:.0} MB");
}

async fn list(tls: bool) {
    let server = Server::start(tls);
    let pods = running_pods(&server.target, listed()).await;
    let resident = server.resident_mb();
    println!("resident with {} pods: {resident:.0} MB", listed());
    let mut connection = Connection::open(&server.target).await;
    let mut times = Vec::new();
    let mut size = 0;
    for _ in 0..timed() {
        let started = Instant::now();
        let (code, body) = connection.request("GET", &pods, "", b"").await;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        assert_eq!(code, 200);
        size = body.len();
    }
    println!("bytes of a pod in it: {}", size / listed());
    report(&format!("list of {} pods", listed()), "ms", &mut times);
}

async fn watch(tls: bool) {
    let server = Server::start(tls);
    let maps = create_namespace(&server.target, "maps").await + "/configmaps";
    let mut rates = Vec::new();
    for round in 0..rounds() {
        let events = sized(4000);
        let create = |index| Call::create(&maps, &config_map(round * events + index));
        rates.push(watched(&server.target, &maps, events, create).await);
    }
    report(
        &format!("ConfigMap events to {} watches", open_watches()),
        "/s",
        &mut rates,
    );
    let pods = running_pods(&server.target, listed()).await;
    let mut rates = Vec::new();
    for round in 0..rounds() {
        let patch = |index| Call::status_patch(&pods, index, round + 1);
        rates.push(watched(&server.target, &pods, listed(), patch).await);
    }
    report(
        &format!("pod events to {} watches", open_watches()),
        "/s",
        &mut rates,
    );
}

/// The rate at which all watches of `path` together see the events of `count` writes.
async fn watched(target: &Target, path: &str, count: usize, write: impl Fn(usize) -> Call) -> f64 {
    let mut connection = Connection::open(target).await;
    let (_, list) = connection
        .request("GET", &format!("{path}?limit=1"), "", b"")
        .await;
    let list: Value = serde_json::from_slice(&list).expect("lists are JSON");
    let version = list["metadata"]["resourceVersion"].as_str();
    let version = version.expect("a list has a version");
    let mut watches = Vec::new();
    for _ in 0..open_watches() {
        let connection = Connection::open(target).await;
        let path = format!("{path}?watch=1&resourceVersion={version}");
        watches.push(connection.watch(&path).await);
    }
    let mut clients = Clients::open(target).await;
    let started = Instant::now();
    let watches = watches.into_iter().map(|mut watch| {
        tokio::spawn(async move {
            let mut seen = 0;
            while seen < count {
                seen += watch.next().await;
            }
            assert_eq!(seen, count, "each write is one event");
        })
    });
    let watches: Vec<_> = watches.collect();
    clients.rate(count, write).await;
    for watch in watches {
        watch.await.expect("it has seen every event");
    }
    (count * open_watches()) as f64 / started.elapsed().as_secs_f64()
}

/// Creates pods of a StatefulSet that a kubelet has reported as running; returns their path.
async fn running_pods(target: &Target, count: usize) -> String {
    let pods = create_namespace(target, "running").await + "/pods";
    let mut clients = Clients::open(target).await;
    clients
        .rate(count, |index| Call::create(&pods, &pod(index)))
        .await;
    clients
        .rate(count, |index| Call::status_patch(&pods, index, 0))
        .await;
    pods
}

/// Answers the path of the namespace.
async fn create_namespace(target: &Target, name: &str) -> String {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
    });
    let call = Call::create("/api/v1/namespaces", &namespace);
    call.send(&mut Connection::open(target).await).await;
    format!("/api/v1/namespaces/{name}")
}

/// A request, and the code that it is to be answered with.
struct Call {
    method: &'static str,
    path: String,
    content_type: &'static str,
    body: Vec<u8>,
    code: u16,
}

impl Call {
    fn create(path: &str, object: &Value) -> Self {
        Self {
            method: "POST",
            path: path.to_owned(),
            content_type: "application/json",
            body: object.to_string().into_bytes(),
            code: 201,
        }
    }

    fn get(path: String) -> Self {
        Self {
            method: "GET",
            path,
            content_type: "",
            body: Vec::new(),
            code: 200,
        }
    }

    fn status_patch(pods: &str, ordinal: usize, restarts: usize) -> Self {
        Self {
            method: "PATCH",
            path: format!("{pods}/web-{ordinal}/status"),
            content_type: "application/strategic-merge-patch+json",
            body: status_patch(ordinal, restarts).to_string().into_bytes(),
            code: 200,
        }
    }

    async fn send(&self, connection: &mut Connection) {
        let (code, body) = connection
            .request(self.method, &self.path, self.content_type, &self.body)
            .await;
        assert_eq!(code, self.code, "{}", String::from_utf8_lossy(&body));
    }
}

/// Connections that share out the requests among them.
struct Clients(Vec<Connection>);

impl Clients {
    async fn open(target: &Target) -> Self {
        Self(join_all((0..CLIENTS).map(|_| Connection::open(target))).await)
    }

    /// Sends `count` requests, each connection one at a time; answers how many a second.
    ///
    /// The requests are made before the time begins.
    async fn rate(&mut self, count: usize, call: impl Fn(usize) -> Call) -> f64 {
        let calls: Arc<Vec<Call>> = Arc::new((0..count).map(call).collect());
        let next = Arc::new(AtomicUsize::new(0));
        let started = Instant::now();
        let tasks = self.0.drain(..).map(|mut connection| {
            let (calls, next) = (Arc::clone(&calls), Arc::clone(&next));
            tokio::spawn(async move {
                while let Some(call) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
                    call.send(&mut connection).await;
                }
                connection
            })
        });
        let tasks: Vec<_> = tasks.collect();
        for task in tasks {
            self.0.push(task.await.expect("every request succeeds"));
        }
        count as f64 / started.elapsed().as_secs_f64()
    }
}

/// The requests per second and the server's processor time for each request, by round.
#[derive(Default)]
struct Rates {
    rates: Vec<f64>,
    processor_us: Vec<f64>,
}

impl Rates {
    async fn add(
        &mut self,
        server: &Server,
        clients: &mut Clients,
        count: usize,
        call: impl Fn(usize) -> Call,
    ) {
        let before = server.processor_us();
        self.rates.push(clients.rate(count, call).await);
        let taken = server.processor_us() - before;
        self.processor_us.push(taken / count as f64);
    }

    fn report(mut self, what: &str) {
        report(what, "/s", &mut self.rates);
        self.processor_us.sort_by(f64::total_cmp);
        let middle = self.processor_us[self.processor_us.len() / 2];
        println!("    {middle:.0} µs of the server's processor time each");
    }
}

/// Prints the middle of what has been measured, and the ends.
fn report(what: &str, unit: &str, measured: &mut [f64]) {
    measured.sort_by(f64::total_cmp);
    let (least, most) = (measured[0], measured[measured.len() - 1]);
    let middle = measured[measured.len() / 2];
    let digits = if unit == "ms" { 1 } else { 0 };
    println!("{what}: {middle:.digits$} {unit} ({least:.digits$} to {most:.digits$})");
}
