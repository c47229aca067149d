//! Watches: of all objects, and of one that a field selects.

use std::time::Instant;

use futures::future::join_all;
use serde_json::Value;

use crate::calls::{Call, Clients, create_namespace, running_pods};
use crate::client::{Connection, Target, Watch};
use crate::objects::config_map;
use crate::options::Options;
use crate::rows::{Row, Servers, Unit};
use crate::size::sized;

/// Open watches.
fn open_watches() -> usize {
    sized(200)
}

/// Watches that see every write.
pub(crate) async fn of_all(options: &Options) {
    let servers = Servers::start(options);
    let watches = open_watches();
    let row = |what: &str| {
        Row::new(
            &format!("{what} events to {watches} watches"),
            Unit::PerSecond,
        )
    };
    let (mut small, mut large) = (row("ConfigMap"), row("pod"));
    let count = sized(2000);
    for (_, turn) in servers.turns() {
        for (side, target) in turn {
            let maps = create_namespace(target, "watch").await + "/configmaps";
            let create = |index| Call::create(&maps, &config_map(index));
            small.add(side, watched(target, &maps, count, create).await);
            let pods = running_pods(target, "watch", count).await;
            let patch = |index| Call::status_patch(&pods, index, 1);
            large.add(side, watched(target, &pods, count, patch).await);
        }
    }
    small.print();
    large.print();
}

/// Watches of `metadata.name=web-0`, while other pods are written, too.
pub(crate) async fn of_one(options: &Options) {
    let servers = Servers::start(options);
    let (watches, count) = (open_watches(), sized(2000));
    let name = format!("{watches} watches of one of {count} pods, each to its first event");
    let mut opened = Row::new(&name, Unit::Milliseconds);
    let name = format!("deletes of other pods while {watches} watch one");
    let mut deletes = Row::new(&name, Unit::PerSecond);
    let mut slowest = Row::new("  99 % of these deletes take at most", Unit::Milliseconds);
    let name = format!("events of one pod to its {watches} watches");
    let mut events = Row::new(&name, Unit::PerSecond);
    for (_, turn) in servers.turns() {
        for (side, target) in turn {
            let pods = running_pods(target, "one", count).await;
            let path = format!("{pods}?watch=1&fieldSelector=metadata.name%3Dweb-0");
            let connections = join_all((0..watches).map(|_| Connection::open(target))).await;
            let started = Instant::now();
            let open = connections.into_iter().map(|connection| {
                let path = path.clone();
                tokio::spawn(async move {
                    let mut watch = connection.watch(&path).await;
                    assert_eq!(watch.next().await, 1, "the pod is there");
                    watch
                })
            });
            let open = join_all(open.collect::<Vec<_>>()).await;
            opened.add(side, started.elapsed().as_secs_f64() * 1e3);
            let open = open.into_iter().map(|watch| watch.expect("it is served"));

            let mut clients = Clients::open(target).await;
            let others = count - 1;
            let took = clients
                .send(others, |index| Call::delete(&pods, index + 1))
                .await;
            deletes.add(side, took.rate());
            slowest.add(side, took.p99_ms());

            let (started, changes) = (Instant::now(), sized(1000));
            let seen = count_events(open.collect(), changes);
            clients
                .send(changes, |index| Call::status_patch(&pods, 0, index + 1))
                .await;
            seen.await;
            let seconds = started.elapsed().as_secs_f64();
            events.add(side, (changes * watches) as f64 / seconds);
        }
    }
    for row in [opened, deletes, slowest, events] {
        row.print();
    }
}

/// Completes when each of the watches has seen `count` events.
fn count_events(watches: Vec<Watch>, count: usize) -> impl Future<Output = ()> {
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
    async move {
        for watch in join_all(watches).await {
            watch.expect("it has seen every event");
        }
    }
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
    let seen = count_events(watches, count);
    clients.send(count, write).await;
    seen.await;
    (count * open_watches()) as f64 / started.elapsed().as_secs_f64()
}
