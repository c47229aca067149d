//! Informers over a loopback socket whose watches break and are compacted at random: they see every
//! event once and in order, and end up with the server's objects.
//!
//! `KUBEPROOF_EVENTS=1000000 cargo test --profile bench -p kubeproof-apiserver --test it informers::` runs a
//! million.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, WatchControl, serve};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const PATH: &str = "/api/v1/namespaces/default/configmaps";
/// Writes of a run unless `KUBEPROOF_EVENTS` says otherwise.
const EVENTS: usize = 4000;
/// The number of rounds after which all informers catch up and are compared with the server.
const CHECKPOINT: u64 = 10;
const INFORMERS: usize = 4;
const NAMES: u64 = 20;
const WINDOW_EVENTS: usize = 64;
/// An event that has not come by then will not come.
const LOST: Duration = Duration::from_secs(20);

fn number(draw: &mut ChaCha8Rng, below: u64) -> u64 {
    draw.next_u64() % below
}

fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.unwrap().parse().unwrap()
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// Writes in process, one commit at a time, and keeps account of them.
struct Writer {
    server: ApiServer,
    /// Version, type and name of every event there was.
    ledger: Vec<(u64, String, String)>,
    objects: BTreeMap<String, u64>,
}

impl Writer {
    async fn write(&mut self, random: &mut ChaCha8Rng) {
        let name = format!("name-{}", number(random, NAMES));
        let path = format!("{PATH}/{name}");
        let exists = self.objects.contains_key(&name);
        let (method, path, event) = match (exists, number(random, 4)) {
            (false, _) => ("POST", PATH, "ADDED"),
            (true, 0) => ("DELETE", path.as_str(), "DELETED"),
            (true, _) => ("PUT", path.as_str(), "MODIFIED"),
        };
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
            "data": { "after": self.server.resource_version().to_string() },
        });
        let body = match method {
            "DELETE" => Bytes::new(),
            _ => object.to_string().into(),
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(Full::new(body));
        let response = self.server.handle(request.unwrap()).await;
        assert!(response.status().is_success());
        let version = self.server.resource_version().get();
        match method {
            "DELETE" => self.objects.remove(&name),
            _ => self.objects.insert(name.clone(), version),
        };
        self.ledger.push((version, event.to_owned(), name));
    }
}

/// An open watch on a connection of its own.
struct Watch {
    body: Incoming,
    connection: JoinHandle<()>,
    read: Vec<u8>,
}

impl Drop for Watch {
    /// The socket closes with the connection, in the middle of whatever is being sent.
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Watch {
    /// The next event; `None` when the server has dropped the connection.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(LOST, self.body.frame()).await;
            let frame = frame.expect("an event that is due comes");
            let frame = frame.expect("a watch does not end by itself").ok()?;
            self.read.extend_from_slice(frame.data_ref().unwrap());
        }
    }
}

async fn get(address: SocketAddr, path: &str) -> (http::Response<Incoming>, JoinHandle<()>) {
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    let connection = tokio::spawn(async move { drop(connection.await) });
    let request = Request::get(path).header("host", "localhost");
    let answer = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap());
    (answer.await.unwrap(), connection)
}

struct Informer {
    address: SocketAddr,
    watch: Option<Watch>,
    /// The version of the last event or list; `None` asks for a list.
    version: Option<u64>,
    objects: BTreeMap<String, u64>,
    seen: usize,
    relists: usize,
}

impl Informer {
    async fn list(&mut self) -> u64 {
        let (response, _connection) = get(self.address, PATH).await;
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let list: Value = serde_json::from_slice(&body).unwrap();
        let items = list["items"].as_array().unwrap();
        self.objects = items
            .iter()
            .map(|item| (name(item), version(item)))
            .collect();
        self.relists += 1;
        version(&list)
    }

    /// The events of the ledger that are still to come.
    fn due(&self, ledger: &[(u64, String, String)]) -> usize {
        let seen = self.version.unwrap_or(0);
        ledger.len() - ledger.partition_point(|(version, _, _)| *version <= seen)
    }

    /// Takes up to `count` events, listing again if the server has forgotten them.
    async fn take(&mut self, count: usize, ledger: &[(u64, String, String)]) {
        for _ in 0..count {
            let version = match self.version {
                Some(version) => version,
                None => self.list().await,
            };
            self.version = Some(version);
            let due = self.due(ledger);
            if due == 0 {
                return;
            }
            if self.watch.is_none() {
                let path = format!("{PATH}?watch=1&resourceVersion={version}");
                let (response, connection) = get(self.address, &path).await;
                self.watch = Some(Watch {
                    body: response.into_body(),
                    connection,
                    read: Vec::new(),
                });
            }
            let Some(event) = self.watch.as_mut().unwrap().next().await else {
                self.watch = None;
                continue;
            };
            if event["type"] == "ERROR" {
                assert_eq!(event["object"]["code"], 410, "{event}");
                self.watch = None;
                self.version = None;
                continue;
            }
            self.handle(&event, &ledger[ledger.len() - due]);
        }
    }

    fn handle(&mut self, event: &Value, expected: &(u64, String, String)) {
        let (object, kind) = (&event["object"], event["type"].as_str().unwrap());
        let seen = (version(object), kind.to_owned(), name(object));
        assert_eq!(seen, *expected, "the next commit is the next event");
        let (version, _, name) = seen;
        let held = match kind {
            "DELETED" => self.objects.remove(&name),
            _ => self.objects.insert(name, version),
        };
        assert_eq!(held.is_none(), kind == "ADDED", "an object is added once");
        assert!(held.is_none_or(|held| held < version), "versions ascend");
        self.version = Some(version);
        self.seen += 1;
    }
}

#[tokio::test]
async fn informers_stay_in_sync_over_dropped_and_compacted_watches() {
    let server = ApiServer::builder()
        .watch_window_events(WINDOW_EVENTS)
        .build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(serve(server.clone(), listener, async {
        drop(stopped.await);
    }));
    let mut random = ChaCha8Rng::seed_from_u64(36);
    let mut writer = Writer {
        server: server.clone(),
        ledger: Vec::new(),
        objects: BTreeMap::new(),
    };
    let informer = |_| Informer {
        address,
        watch: None,
        version: None,
        objects: BTreeMap::new(),
        seen: 0,
        relists: 0,
    };
    let mut informers: Vec<Informer> = (0..INFORMERS).map(informer).collect();
    let events = std::env::var("KUBEPROOF_EVENTS").ok();
    let events = events.map_or(EVENTS, |events| events.parse().unwrap());
    let mut round = 0_u64;
    while writer.ledger.len() < events || !round.is_multiple_of(CHECKPOINT) {
        round += 1;
        for _ in 0..number(&mut random, 24) {
            writer.write(&mut random).await;
        }
        match number(&mut random, 16) {
            0 | 1 => server.compact(),
            2 => server.control_watches(WatchControl::Drop, None),
            _ => {}
        }
        for informer in &mut informers {
            if number(&mut random, 3) == 0 {
                informer.watch = None;
            }
            let mut count = number(&mut random, 32) as usize;
            if round.is_multiple_of(CHECKPOINT) {
                // Each event, the list before them, and the refusal and the drop before that.
                count = writer.ledger.len() + 3;
            }
            informer.take(count, &writer.ledger).await;
            if round.is_multiple_of(CHECKPOINT) {
                assert_eq!(informer.objects, writer.objects, "in round {round}");
            }
        }
    }
    let seen: usize = informers.iter().map(|informer| informer.seen).sum();
    let relists: usize = informers.iter().map(|informer| informer.relists).sum();
    assert!(seen > writer.ledger.len(), "most events come over watches");
    assert!(
        relists > 2 * INFORMERS,
        "watches are refused and start over"
    );
    drop(informers);
    drop(stop);
    served.await.unwrap().unwrap();
}
