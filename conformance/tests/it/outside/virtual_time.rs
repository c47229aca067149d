//! Programs under virtual time.

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::Controller;
use kube::runtime::controller::Action;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use kubeproof_apiserver::Clock;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::roles::{Copying, copy_watched};
use super::settling::COPIED_AT_ONCE;
use super::{GOLDEN, in_role};
use crate::support::process::{file, output, stdout};

/// The time in which each of these tests is over, although its scenarios take days.
const SECONDS_MAX: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const QUARTER: Duration = Duration::from_secs(900);
const NINE_MINUTES: Duration = Duration::from_secs(540);
/// How long a lease is held without renewal.
const LEASE: Duration = Duration::from_secs(15);
/// The period in which a lease is looked at, and renewed.
const RETRY: Duration = Duration::from_secs(2);
/// The number of renewals after which the first leader stops.
const RENEWALS: usize = 5;
/// The pause of a program that asks again and again.
const ASKING: Duration = Duration::from_millis(200);
/// How often it asks in a step that is over when it has seen everything twice. A minute has 300 rounds.
const ROUNDS: std::ops::Range<u32> = 2..10;
/// The number of requests in parts.
const REQUESTS: usize = 20;

/// Acts as a controller of this kind, for as long as the process lives.
pub(super) async fn act(role: &str, client: &Client) {
    match role {
        "resyncs" => resync(client).await,
        "backs-off" => back_off(client).await,
        "asks" => ask(client).await,
        "races" => race(client).await,
        "asks-always" => ask_always(client).await,
        "copies" => copy_watched(&Api::default_namespaced(client.clone()), Copying::Dated).await,
        "creates-late" => create_late(client).await,
        "waits-for-moment" => wait_for_moment(client).await,
        "writes-in-parts" => write_in_parts(client).await,
        identity => lead(client, identity).await,
    }
}

async fn note(client: &Client, name: &str, data: serde_json::Value) -> Result<(), kube::Error> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    let params = PatchParams::apply("noter").force();
    maps.patch(name, &params, &Patch::Apply(map))
        .await
        .map(drop)
}

/// Counts how often each ConfigMap that asks for it is reconciled: when it changes, and each ten hours.
async fn resync(client: &Client) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let wanted = watcher::Config::default().labels("copy=yes");
    let count = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let reconcile = |_: Arc<ConfigMap>, context: Arc<(Client, _)>| async move {
        let (client, count): &(Client, Arc<std::sync::atomic::AtomicU32>) = &context;
        let count = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        let time = format!("{:.0}", Clock::real().now());
        note(
            client,
            "resyncs",
            json!({"count": count.to_string(), "time": time}),
        )
        .await?;
        Ok::<_, kube::Error>(Action::requeue(10 * HOUR))
    };
    let on_error = |_: Arc<ConfigMap>, _: &kube::Error, _| Action::requeue(HOUR);
    let context = Arc::new((client.clone(), count));
    let controller = Controller::new(maps, wanted);
    controller
        .run(reconcile, on_error, context)
        .for_each(|_| async {})
        .await;
}

/// Creates an object again and again that the server refuses at first, with a back-off that doubles up to 16 minutes.
async fn back_off(client: &Client) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let mut copy = ConfigMap::default();
    copy.metadata.name = Some("late".to_owned());
    let mut delay = Duration::from_secs(1);
    let mut tries = 1;
    maps.get_opt("late").await.unwrap();
    // The fault comes in the first minutes.
    tokio::time::sleep(Duration::from_secs(600)).await;
    while let Err(error) = maps.create(&PostParams::default(), &copy).await {
        println!("{error}");
        tokio::time::sleep(delay).await;
        delay = (2 * delay).min(16 * 60 * Duration::from_secs(1));
        tries += 1;
    }
    note(client, "tries", json!({"count": tries.to_string()}))
        .await
        .unwrap();
    std::future::pending().await
}

/// Reads all ConfigMaps five times a second, and counts how often it sees `a` before `b`.
async fn ask(client: &Client) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let mut rounds = 0;
    loop {
        let read = maps.list(&ListParams::default()).await.unwrap();
        let has = |name| read.iter().any(|map| map.name_any() == name);
        match (has("a"), has("b")) {
            (false, _) => {}
            (true, false) => rounds += 1,
            (true, true) => break,
        }
        tokio::time::sleep(ASKING).await;
    }
    let is_few = ROUNDS.contains(&rounds);
    note(
        client,
        "rounds",
        json!({"few": is_few.to_string(), "count": rounds.to_string()}),
    )
    .await
    .unwrap();
    std::future::pending().await
}

/// Writes the order in which four threads come that meet from time to time.
async fn race(client: &Client) {
    let (order, meeting) = (Mutex::new(String::new()), Barrier::new(4));
    std::thread::scope(|scope| {
        for name in ['a', 'b', 'c', 'd'] {
            let (order, meeting) = (&order, &meeting);
            scope.spawn(move || {
                for _ in 0..50 {
                    meeting.wait();
                    order.lock().push(name);
                }
            });
        }
    });
    println!("order {}", order.into_inner());
    note(client, "raced", json!({"of": "four"})).await.unwrap();
    std::future::pending().await
}

/// Reads all ConfigMaps five times a second, and writes the ConfigMap `made` if it sees `a` alone.
async fn ask_always(client: &Client) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    loop {
        let read = maps.list(&ListParams::default()).await.unwrap();
        let has = |name| read.iter().any(|map| map.name_any() == name);
        if has("a") && !has("made") {
            note(client, "made", json!({"of": "a"})).await.unwrap();
        }
        tokio::time::sleep(ASKING).await;
    }
}

/// Holds the lease `leader` while it is free or expired, as client-go does. The process of the identity `first` is stopped after
/// some renewals; others begin when it leads.
async fn lead(client: &Client, identity: &str) {
    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    let mut renewals = 0;
    let mut seen: Option<(Option<String>, Instant)> = None;
    loop {
        let now =
            json!({"holderIdentity": identity, "renewTime": format!("{:.6}", Clock::real().now())});
        let found = leases.get_opt("leader").await.unwrap();
        let record = found.as_ref().and_then(|lease| lease.resource_version());
        if seen.as_ref().is_none_or(|(last, _)| *last != record) {
            seen = Some((record, Instant::now()));
        }
        let holder = found
            .as_ref()
            .and_then(|lease| lease.spec.clone()?.holder_identity);
        if holder.is_none() && identity != "first" {
            tokio::time::sleep(RETRY).await;
            continue;
        }
        let is_expired = seen.as_ref().is_some_and(|(_, at)| at.elapsed() >= LEASE);
        if holder.is_none() || holder.as_deref() == Some(identity) || is_expired {
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "leader"}, "spec": now,
            });
            let params = PatchParams::apply("elector").force();
            leases
                .patch("leader", &params, &Patch::Apply(lease))
                .await
                .unwrap();
            if holder.as_deref() != Some(identity) {
                let name = format!("leader-{identity}");
                note(client, &name, beginning(found.as_ref()))
                    .await
                    .unwrap();
            }
            renewals += 1;
            if identity == "first" && renewals > RENEWALS {
                let own = Pid::from_raw(i32::try_from(std::process::id()).unwrap()).unwrap();
                kill_process(own, Signal::STOP).unwrap();
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// The day on which an instance begins to lead, and whether the last renewal of the one before, which is stopped, was then as long ago
/// as a lease lasts.
fn beginning(before: Option<&Lease>) -> serde_json::Value {
    let now = Clock::real().now();
    let renewed = before.and_then(|lease| lease.spec.as_ref()?.renew_time.clone());
    let waited = renewed.map(|renewed| Duration::try_from(now.duration_since(renewed.0)).unwrap());
    let lease = LEASE..LEASE + Duration::from_secs(5);
    json!({
        "day": now.strftime("%F").to_string(),
        "afterLease": waited.is_some_and(|waited| lease.contains(&waited)).to_string(),
    })
}

/// Notes how many seconds of the monotonic clock have passed when that of real time shows a moment in nine minutes.
async fn wait_for_moment(client: &Client) {
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create,
        timerfd_settime,
    };
    let moment = Clock::real().now() + NINE_MINUTES;
    let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::empty()).unwrap();
    let spec = Itimerspec {
        it_interval: Duration::ZERO.try_into().unwrap(),
        it_value: Duration::from_secs(moment.as_second().unsigned_abs())
            .try_into()
            .unwrap(),
    };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &spec).unwrap();
    note(client, "ready", json!({"of": "timer"})).await.unwrap();
    let began = Instant::now();
    rustix::io::read(&timer, &mut [0; 8]).unwrap();
    let passed = began.elapsed().as_secs().to_string();
    note(client, "woken", json!({"after": passed}))
        .await
        .unwrap();
    std::future::pending().await
}

/// Creates an object a quarter of an hour after it began, and only then.
async fn create_late(client: &Client) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    maps.get_opt("late").await.unwrap();
    tokio::time::sleep(QUARTER).await;
    note(client, "late", json!({"of": "timer"})).await.unwrap();
    std::future::pending().await
}

/// Sends requests in two small parts, of which the kernel holds back the second until the first is acknowledged. Notes how many answers
/// are not there within a second.
async fn write_in_parts(client: &Client) {
    let url = std::env::var("KUBEPROOF_URL").unwrap();
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let mut connection = TcpStream::connect(address).await.unwrap();
    let mut late = 0;
    for _ in 0..REQUESTS {
        for part in [
            "GET /healthz HTTP/1.1\r\n",
            &format!("Host: {address}\r\n\r\n"),
        ] {
            connection.write_all(part.as_bytes()).await.unwrap();
        }
        let mut answer = answered(&mut connection).boxed();
        if tokio::time::timeout(Duration::from_secs(1), &mut answer)
            .await
            .is_err()
        {
            late += 1;
            answer.await;
        }
    }
    note(client, "parts", json!({"late": late.to_string()}))
        .await
        .unwrap();
    std::future::pending().await
}

/// Reads an answer that says that the server is well.
async fn answered(connection: &mut TcpStream) {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nok") {
        let read = connection.read_buf(&mut answer).await.unwrap();
        assert!(read > 0, "{}", answer.escape_ascii());
    }
}

/// Runs a scenario with programs of these roles under virtual time; it has to pass in seconds.
fn lives(name: &str, scenario: &str, roles: &[&str]) {
    lives_with(name, scenario, roles, &[]);
}

/// Runs such a scenario with more arguments.
fn lives_with(name: &str, scenario: &str, roles: &[&str], more: &[&str]) {
    let scenario = file(&format!("{name}/copy.yaml"), scenario);
    file(&format!("{name}/snapshots/{name}__copy.snap"), GOLDEN);
    let commands = roles.iter().map(|role| in_role(&format!("virtual-{role}")));
    let commands: Vec<String> = commands.collect();
    let programs = commands
        .iter()
        .flat_map(|command| ["--program", command.as_str()]);
    let fixed = ["run", scenario.to_str().unwrap(), "--virtual-time"];
    let arguments = fixed
        .into_iter()
        .chain(programs)
        .chain(more.iter().copied());
    let began = Instant::now();
    let ran = output(&arguments.collect::<Vec<_>>());
    let said = stdout(&ran) + &String::from_utf8_lossy(&ran.stderr);
    assert!(said.ends_with("1 passed, 0 failed\n"), "{said}");
    let took = began.elapsed();
    assert!(took < SECONDS_MAX, "{took:?}");
}

#[test]
fn a_controller_of_kube_rs_with_a_resync_of_ten_hours_lives_a_day_in_seconds() {
    let scenario = "
title: A ConfigMap is reconciled each ten hours
source: none
given:
  nodes: 0
  objects:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {copy: \"yes\"}}}
steps:
- wait: {for: configmap/resyncs, field: .data.count, is: \"1\"}
- advance: 24h
- wait: {for: configmap/resyncs, field: .data.count, is: \"3\", timeout: 1s}
- wait: {for: configmap/resyncs, field: .data.time, is: \"2026-01-01T20:00:00Z\", timeout: 1s}
";
    lives("virtual-day", scenario, &["resyncs"]);
}

#[test]
fn a_back_off_of_minutes_is_over_in_seconds() {
    let scenario = "
title: An object is created when the server accepts it
source: none
given:
  nodes: 0
steps:
- fault: {name: down, on: {from: copier, verb: create, resource: configmaps}, for: 30m, refuse: {code: 500, reason: InternalError}}
- wait: {for: configmap/tries, field: .data.count, is: \"12\", timeout: 1h}
";
    lives("virtual-back-off", scenario, &["backs-off"]);
}

#[test]
fn a_program_that_asks_again_and_again_settles_when_it_has_seen_everything_twice() {
    let scenario = "
title: The second step begins soon
source: none
given: {nodes: 0}
steps:
- create: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
- create: {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
- wait: {for: configmap/rounds, field: .data.few, is: \"true\", timeout: 1s}
";
    lives("virtual-asks", scenario, &["asks"]);
}

#[test]
fn threads_of_a_sequential_program_interleave_in_the_same_way() {
    let scenario = "
title: Threads race
source: none
given: {nodes: 0}
steps:
- wait: {for: configmap/raced, field: .data.of, timeout: 1m}
";
    let order = |name: &str| {
        let kept = file(&format!("{name}/kept/none"), "").with_file_name("");
        let kept = kept.to_str().unwrap();
        let more = ["--sequential", "--program-output", kept];
        lives_with(name, scenario, &["races"], &more);
        let log = std::path::Path::new(kept).join(format!("{name}__copy.program-1.log"));
        let said = std::fs::read_to_string(log).unwrap();
        let order = said.lines().find_map(|line| line.strip_prefix("order "));
        order.unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    let first = order("virtual-turns");
    assert_eq!(first.len(), 200);
    assert_eq!(order("virtual-turns-again"), first);
}

#[test]
fn a_lease_of_a_stopped_leader_is_taken_over_after_its_fifteen_seconds() {
    let scenario = "
title: The second instance leads when the first one is stopped
source: none
given: {nodes: 0}
steps:
- wait: {for: configmap/leader-second, field: .data.afterLease, is: \"true\", timeout: 60s}
- wait: {for: configmap/leader-second, field: .data.day, is: \"2026-01-01\", timeout: 1s}
";
    lives("virtual-leader", scenario, &["first", "second"]);
}

#[test]
fn a_pause_for_settling_may_be_longer_than_the_usual_one() {
    let scenario = "
title: The object that comes late is there when the cluster has settled
source: none
given: {nodes: 0}
steps:
- wait: {for: configmap/late, field: .data.of, timeout: 1s}
";
    lives_with(
        "virtual-late",
        scenario,
        &["creates-late"],
        &["--settle-after", "20m"],
    );
}

#[test]
fn a_clock_that_is_set_forward_wakes_a_program_before_time_passes() {
    // The step of the fault is over after a minute.
    let scenario = "
title: The clock is set forward past a moment for which the program waits
source: none
given: {nodes: 0}
steps:
- wait: {for: configmap/ready, field: .data.of}
- fault: {name: skew, on: {from: kubeproof-scenario, verb: create, resource: configmaps}, jump: 10m}
- create: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
- wait: {for: configmap/woken, field: .data.after, is: \"60\", timeout: 1s}
";
    lives("virtual-skew", scenario, &["waits-for-moment"]);
}

#[test]
fn time_stands_still_while_bytes_are_on_their_way() {
    let scenario = "
title: All requests are answered in time
source: none
given: {nodes: 0}
steps:
- wait: {for: configmap/parts, field: .data.late, is: \"0\", timeout: 60s}
";
    lives("virtual-parts", scenario, &["writes-in-parts"]);
}

#[test]
fn an_exploration_takes_seconds_although_faults_last_as_long_as_ever() {
    // The program has made the copies on the first day of virtual time.
    let day =
        "- wait: {for: configmap/b-copy, field: .data.day, is: \"2026-01-01\", timeout: 1s}\n";
    let scenario = file(
        "virtual-explore/copy.yaml",
        &format!("{COPIED_AT_ONCE}{day}"),
    );
    let faults = "crash-before,crash-after,lose-answer,miss,late,expire,restart";
    let began = Instant::now();
    let ran = output(&[
        "explore",
        scenario.to_str().unwrap(),
        "--virtual-time",
        "--program",
        &in_role("virtual-copies"),
        "--faults",
        faults,
    ]);
    let said = stdout(&ran);
    assert!(said.ends_with(" runs, 0 diverged\n"), "{said}");
    assert!(!said.ends_with("\n0 runs, 0 diverged\n"), "{said}");
    let took = began.elapsed();
    assert!(took < SECONDS_MAX, "{took:?}");
}

/// A minute with a late replica has 300 rounds of such a program, which would be reported as a loop.
#[test]
fn a_late_replica_is_up_to_date_when_a_program_that_asks_again_and_again_has_read_everything_twice()
{
    let scenario = "
title: A program is restarted, and reads the past
source: none
given: {nodes: 0}
steps:
- create: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
- wait: {for: configmap/made, field: .data.of, timeout: 10s}
";
    let scenario = file("virtual-stale/copy.yaml", scenario);
    let ran = output(&[
        "explore",
        scenario.to_str().unwrap(),
        "--virtual-time",
        "--program",
        &in_role("virtual-asks-always"),
        "--faults",
        "stale-restart",
    ]);
    let said = stdout(&ran);
    assert!(said.ends_with("runs, 0 diverged\n"), "{said}");
    assert!(!said.ends_with("\n0 runs, 0 diverged\n"), "{said}");
}

#[test]
fn real_time_is_offered_where_programs_cannot_be_traced() {
    // A program that is traced cannot trace another one.
    let scenario = file("virtual-nested/copy.yaml", super::SCENARIO);
    let (scenario, own) = (scenario.to_str().unwrap(), env!("CARGO_BIN_EXE_kubeproof"));
    let nested = format!("{own} run {scenario} --virtual-time --program true");
    let ran = output(&["run", scenario, "--virtual-time", "--program", &nested]);
    let said = stdout(&ran);
    for words in [
        "without --virtual-time they run in real time",
        "programs cannot run under virtual time here",
    ] {
        assert!(said.contains(words), "{said}");
    }
}
