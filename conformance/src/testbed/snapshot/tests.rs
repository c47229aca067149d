use std::future::Future;
use std::time::Duration;

use kubeproof_apiserver::JournalEntry;
use kubeproof_apiserver::meta::ResourceVersion;

use super::Snapshot;
use crate::testbed::Testbed;

const WEB: &str = include_str!("../../../../fixtures/statefulset/web.yaml");
const MINUTE: Duration = Duration::from_secs(60);

/// Runs a test under virtual time of its own.
fn under_virtual_time<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(test)
}

fn set_up() -> Snapshot {
    under_virtual_time(async {
        let builder = Testbed::builder().nodes(2).controllers(["statefulset"]);
        let testbed = builder.start().await.unwrap();
        testbed.apply(WEB).await.unwrap();
        testbed.settle(MINUTE).await.unwrap();
        let snapshot = testbed.snapshot().unwrap();
        testbed.shutdown().await;
        snapshot
    })
}

/// Scales the set in a testbed that begins from `snapshot`; returns its final pods, its timeline and its journal.
fn scaled(snapshot: &Snapshot, replicas: u32) -> (Vec<String>, String, Vec<JournalEntry>) {
    under_virtual_time(async {
        let testbed = snapshot.start().await.unwrap();
        assert_eq!(testbed.now(), snapshot.time);
        let scaled = WEB.replace("replicas: 3", &format!("replicas: {replicas}"));
        testbed.apply(&scaled).await.unwrap();
        testbed.settle(MINUTE).await.unwrap();
        let outcome = testbed.outcome().await.unwrap();
        let pods = outcome.lines().map(str::trim);
        let pods = pods.filter(|line| line.starts_with("web-") && line.contains("Running"));
        let names = pods.map(|line| line.split_whitespace().next().unwrap_or_default());
        let names = names.map(|name| name.split('@').next().unwrap_or_default().to_owned());
        let seen = (names.collect(), testbed.timeline(), testbed.journal());
        testbed.shutdown().await;
        seen
    })
}

#[test]
fn many_tests_begin_where_one_set_up_ended() {
    let snapshot = set_up();
    let (up, up_timeline, journal) = scaled(&snapshot, 4);
    let given = "# given: 2 nodes; controllers: statefulset\n";
    assert!(up_timeline.starts_with(given), "{up_timeline}");
    assert_eq!(up, ["web-0", "web-1", "web-2", "web-3"], "{up_timeline}");
    let (down, timeline, _) = scaled(&snapshot, 1);
    assert_eq!(down, ["web-0"], "{timeline}");
    assert_eq!(scaled(&snapshot, 4).1, up_timeline, "the same each time");
    // Pods that were running go on running, and are not made again.
    assert!(!up_timeline.contains("web-0 deleted"), "{up_timeline}");
    let created = |name: &str| up_timeline.matches(&format!("pod {name} created")).count();
    assert_eq!(
        (created("web-0"), created("web-3")),
        (1, 1),
        "{up_timeline}"
    );
    let versions: Vec<ResourceVersion> = journal.iter().map(|entry| entry.rv).collect();
    assert!(versions.is_sorted(), "one history, set-up included");
    assert_eq!(journal[0].rv, snapshot.past.0[0].rv);
}

#[test]
fn a_snapshot_is_taken_of_one_that_began_from_another() {
    let first = set_up();
    let second = under_virtual_time(async {
        let testbed = first.start().await.unwrap();
        testbed.advance(MINUTE).await;
        testbed
            .apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
            .await
            .unwrap();
        let snapshot = testbed.snapshot().unwrap();
        testbed.shutdown().await;
        snapshot
    });
    assert_eq!(second.time.duration_since(first.time).as_secs(), 60);
    under_virtual_time(async {
        let testbed = second.start().await.unwrap();
        testbed.settle(MINUTE).await.unwrap();
        let timeline = testbed.timeline();
        assert!(timeline.contains("pod web-2 created"), "{timeline}");
        let versions: Vec<ResourceVersion> =
            testbed.journal().iter().map(|entry| entry.rv).collect();
        assert!(versions.is_sorted());
        testbed.shutdown().await;
    });
}
