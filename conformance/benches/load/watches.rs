//! Watches: of all objects, and of one that a field selects.

use std::time::Instant;

use futures::future::join_all;
use serde_json::Value;

use crate::bare::Answers;
use crate::calls::{Call, Clients, create_namespace, running_pods};
use crate::client::{Connection, Target, Watch};
use crate::objects::config_map;
use crate::options::Options;
use crate::rows::{Row, Servers, Side, Unit};
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
    let (mut of_maps, mut of_pods) = (None, None);
    for (_, turn) in servers.turns() {
        for (side, target) in turn {
            let maps = create_namespace((side, target), "watch").await + "/configmaps";
            let create = |index| Call::create(&maps, &config_map(index));
            let rate = watched(
                (side, &servers),
                target,
                &maps,
                (count, &create),
                &mut of_maps,
            );
            small.add(side, rate.await);
            let pods = running_pods((side, target), "watch", count).await;
            let patch = |index| Call::status_patch(&pods, index, 1);
            let rate = watched(
                (side, &servers),
                target,
                &pods,
                (count, &patch),
                &mut of_pods,
            );
            large.add(side, rate.await);
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
    // What this build's server answers with: a watch's first line, a delete and a patch.
    let (mut first, mut of_delete, mut of_patch) = (0, None, None);
    for (_, turn) in servers.turns() {
        for (side, target) in turn {
            let pods = running_pods((side, target), "one", count).await;
            if side == Side::Bare {
                let begin = Answers {
                    first,
                    ..Answers::of(200, 0)
                };
                servers.set_answers(begin).await;
            }
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
            let open: Vec<Watch> = open.collect();
            if side == Side::Ours {
                first = open[0].bytes;
            }

            let mut clients = Clients::open(target).await;
            let others = count - 1;
            if let (Side::Bare, Some(answers)) = (side, of_delete) {
                servers.set_answers(answers).await;
            }
            let delete = |index| Call::delete(&pods, index + 1);
            let took = clients.send(others, delete).await;
            deletes.add(side, took.rate());
            slowest.add(side, took.p99_ms());
            if side == Side::Ours {
                of_delete = Some(delete(0).answers(took.body));
            }

            if let (Side::Bare, Some(answers)) = (side, of_patch) {
                servers.set_answers(answers).await;
            }
            let (started, changes) = (Instant::now(), sized(1000));
            let seen = count_events(open, changes);
            let patch = |index| Call::status_patch(&pods, 0, index + 1);
            let took = clients.send(changes, patch).await;
            let bytes = seen.await;
            let seconds = started.elapsed().as_secs_f64();
            events.add(side, (changes * watches) as f64 / seconds);
            if side == Side::Ours {
                of_patch = Some(Answers {
                    event: (bytes - watches * first) / (watches * changes),
                    ..patch(0).answers(took.body)
                });
            }
        }
    }
    for row in [opened, deletes, slowest, events] {
        row.print();
    }
}

/// Completes when each of the watches has seen `count` events; returns the bytes of all events that they have seen ever.
fn count_events(watches: Vec<Watch>, count: usize) -> impl Future<Output = usize> {
    let watches = watches.into_iter().map(|mut watch| {
        tokio::spawn(async move {
            let mut seen = 0;
            while seen < count {
                seen += watch.next().await;
            }
            assert_eq!(seen, count, "each write is one event");
            watch.bytes
        })
    });
    let watches: Vec<_> = watches.collect();
    async move {
        let bytes = join_all(watches).await.into_iter();
        bytes
            .map(|bytes| bytes.expect("it has seen every event"))
            .sum()
    }
}

/// The rate at which all watches of `path` together see the events of `count` writes. `answers` are those of this
/// build's server, for the bare one.
async fn watched(
    (side, servers): (Side, &Servers),
    target: &Target,
    path: &str,
    (count, write): (usize, &impl Fn(usize) -> Call),
    answers: &mut Option<Answers>,
) -> f64 {
    let mut connection = Connection::open(target).await;
    let version = match (side, &answers) {
        (Side::Bare, Some(answers)) => {
            servers.set_answers(*answers).await;
            String::new()
        }
        _ => version(&mut connection, path).await,
    };
    let mut watches = Vec::new();
    for _ in 0..open_watches() {
        let connection = Connection::open(target).await;
        let path = format!("{path}?watch=1&resourceVersion={version}");
        watches.push(connection.watch(&path).await);
    }
    let mut clients = Clients::open(target).await;
    let started = Instant::now();
    let seen = count_events(watches, count);
    let took = clients.send(count, write).await;
    let bytes = seen.await;
    let seconds = started.elapsed().as_secs_f64();
    if side == Side::Ours {
        *answers = Some(Answers {
            event: bytes / (count * open_watches()),
            ..write(0).answers(took.body)
        });
    }
    (count * open_watches()) as f64 / seconds
}

/// The version of a collection.
async fn version(connection: &mut Connection, path: &str) -> String {
    let (_, list) = connection
        .request("GET", &format!("{path}?limit=1"), "", b"")
        .await;
    let list: Value = serde_json::from_slice(&list).expect("lists are JSON");
    let version = list["metadata"]["resourceVersion"].as_str();
    version.expect("a list has a version").to_owned()
}
