//! Common bugs, planted in small controllers: the testbed reports each, and no bug hangs it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use kubeproof::LivelockLimits;
use kubeproof::explore::{self, Kind, Options, Plan};
use kubeproof::testbed::{Testbed, TestbedBuilder, TestbedError};
use serde_json::json;

const AGENT: &str = "beater";
const OBJECT: &str =
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: beat}, data: {'n': \"0\"}}";
const QUIET: Duration = Duration::from_secs(60);

/// Reconciles every ConfigMap with `reconcile`.
async fn control<F>(client: Client, reconcile: impl Fn(Api<ConfigMap>, Arc<ConfigMap>) -> F + Send)
where
    F: Future<Output = Result<Action, kube::Error>> + Send + 'static,
{
    let api = Api::<ConfigMap>::default_namespaced(client);
    let given = api.clone();
    Controller::new(api, watcher::Config::default())
        .run(
            move |object, _: Arc<()>| reconcile(given.clone(), object),
            |_, _, _| Action::requeue(Duration::from_secs(5)),
            Arc::new(()),
        )
        .for_each(|_| async {})
        .await;
}

async fn count(api: Api<ConfigMap>, object: Arc<ConfigMap>) -> Result<Action, kube::Error> {
    let data = object.data.clone().unwrap_or_default();
    let beats: u32 = data.get("n").and_then(|n| n.parse().ok()).unwrap_or(0);
    let patch = Patch::Merge(json!({"data": {"n": (beats + 1).to_string()}}));
    let params = PatchParams::default();
    api.patch(&object.name_any(), &params, &patch).await?;
    Ok(Action::await_change())
}

fn wakes_itself() -> TestbedBuilder {
    Testbed::builder().controller(AGENT, |client| control(client, count))
}

/// Returns the error of `settle` after `OBJECT` in a testbed of `builder`.
async fn settle_error(builder: TestbedBuilder) -> TestbedError {
    let testbed = builder.start().await.unwrap();
    testbed.apply(OBJECT).await.unwrap();
    let error = testbed.settle(QUIET).await.unwrap_err();
    testbed.shutdown().await;
    error
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_wakes_itself_is_named_with_what_it_writes() {
    let error = settle_error(wakes_itself()).await;
    assert!(matches!(error, TestbedError::Livelock(_)), "{error:?}");
    insta::assert_snapshot!(error, @r#"
    no write loops: beater sent 501 requests to patch configmaps default/beat within one instant
    the last versions of configmaps default/beat:
    --- resourceVersion 688
    +++ resourceVersion 689
    @@ -2,3 +2,3 @@
     data:
    -  "n": "498"
    +  "n": "499"
     kind: ConfigMap
    --- resourceVersion 689
    +++ resourceVersion 690
    @@ -2,3 +2,3 @@
     data:
    -  "n": "499"
    +  "n": "500"
     kind: ConfigMap
    "#);
}

#[tokio::test(start_paused = true)]
async fn two_controllers_that_undo_each_other_are_a_livelock() {
    let set = |colour: &'static str| {
        move |client: Client| {
            control(client, move |api, object| async move {
                let is_set = object.data.as_ref().is_some_and(|data| data["n"] == colour);
                if !is_set {
                    let patch = Patch::Merge(json!({"data": {"n": colour}}));
                    let params = PatchParams::default();
                    api.patch(&object.name_any(), &params, &patch).await?;
                }
                Ok(Action::await_change())
            })
        }
    };
    let bed = Testbed::builder();
    let bed = bed.controller("red", set("red"));
    let error = settle_error(bed.controller("blue", set("blue"))).await;
    assert!(matches!(error, TestbedError::Livelock(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("-  \"n\": blue\n+  \"n\": red"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_asks_without_end_is_a_livelock() {
    let bed = Testbed::builder().controller(AGENT, |client| {
        control(client, |api, object| async move {
            api.get(&object.name_any()).await?;
            Ok(Action::requeue(Duration::ZERO))
        })
    });
    let error = settle_error(bed).await;
    assert_eq!(
        error.to_string(),
        "no write loops: beater sent 501 requests to get configmaps default/beat within one instant, and wrote nothing meanwhile"
    );
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_always_busy_is_reported() {
    let bed = Testbed::builder().controller(AGENT, |_| async {
        loop {
            tokio::task::yield_now().await;
        }
    });
    let error = settle_error(bed).await;
    assert_eq!(
        error.to_string(),
        "a controller keeps the runtime busy without sending requests: virtual time has stood still for 5s; the controllers under test are beater"
    );
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_panics_or_returns_is_an_error() {
    let panics = Testbed::builder().controller(AGENT, |client| {
        control(client, |_, object| async move {
            assert!(object.name_any() != "beat", "oops");
            Ok(Action::await_change())
        })
    });
    let error = settle_error(panics).await;
    let TestbedError::ControllerEnded(ended) = &error else {
        panic!("{error:?}");
    };
    assert_eq!(ended.name, AGENT);
    let panic = ended.panic.as_deref().unwrap_or_default();
    assert!(panic.contains("oops"), "{panic}");
    let returns = || Testbed::builder().controller(AGENT, |_| async {});
    let error = settle_error(returns()).await;
    assert_eq!(
        error.to_string(),
        "controller beater returned; TestbedBuilder::may_end allows a controller to return"
    );
    let testbed = returns().may_end(AGENT).start().await.unwrap();
    testbed.settle(QUIET).await.unwrap();
    testbed.shutdown().await;
    let unknown = returns().may_end("beeter").start().await.err().unwrap();
    assert_eq!(
        unknown.to_string(),
        "no controller under test is named beeter; there are: beater"
    );
}

/// Creates this many ConfigMaps in one instant.
async fn create(client: Client, count: u32) {
    let api = Api::<ConfigMap>::default_namespaced(client);
    let object = json!({"metadata": {"generateName": "copy-"}});
    let object: ConfigMap = serde_json::from_value(object).unwrap();
    for _ in 0..count {
        api.create(&PostParams::default(), &object).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn requests_for_different_objects_have_a_limit_of_their_own() {
    let bed = |count| {
        let limits = LivelockLimits {
            same_request: 10,
            requests: 100,
        };
        let bed = Testbed::builder().livelock_limits(limits);
        bed.controller(AGENT, move |client| create(client, count))
            .may_end(AGENT)
    };
    let error = settle_error(bed(u32::MAX)).await;
    let text = error.to_string();
    let first = "no write loops: beater sent 101 requests within one instant, the last to create configmaps";
    assert!(text.starts_with(first), "{text}");
    let testbed = bed(100).start().await.unwrap();
    testbed.settle(QUIET).await.unwrap();
    testbed.shutdown().await;
}

fn states(builder: TestbedBuilder) -> TestbedBuilder {
    let property = "
name: beats stay low
expression: event.resource != 'configmaps' || object.data.n < '5'
";
    builder.property(serde_saphyr::from_str(property).unwrap())
}

#[tokio::test(start_paused = true)]
async fn settle_reports_violations_once() {
    let testbed = states(Testbed::builder()).start().await.unwrap();
    testbed.apply(&OBJECT.replace('0', "7")).await.unwrap();
    let error = testbed.settle(QUIET).await.unwrap_err();
    assert!(error.to_string().contains("beats stay low"), "{error}");
    testbed.settle(QUIET).await.unwrap();
    assert_eq!(testbed.violations().len(), 1);
    testbed.shutdown().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "beats stay low")]
async fn a_testbed_dropped_with_violations_that_nobody_has_seen_fails_its_test() {
    let testbed = states(Testbed::builder()).start().await.unwrap();
    testbed.apply(&OBJECT.replace('0', "7")).await.unwrap();
    drop(testbed);
}

#[tokio::test(start_paused = true)]
async fn violations_may_be_ignored() {
    let testbed = states(Testbed::builder()).ignore_violations();
    let testbed = testbed.start().await.unwrap();
    testbed.apply(&OBJECT.replace('0', "7")).await.unwrap();
    testbed.settle(QUIET).await.unwrap();
}

#[tokio::test]
async fn a_testbed_asks_for_paused_time() {
    let refused = Testbed::builder().start().await;
    assert!(matches!(refused, Err(TestbedError::NotPaused)));
    let testbed = Testbed::builder().real_time().start().await.unwrap();
    testbed.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn settling_has_a_limit_of_ones_own() {
    let beats = |client: Client| async move {
        let api = Api::<ConfigMap>::default_namespaced(client);
        loop {
            tokio::time::sleep(Duration::from_secs(30)).await;
            let object = api.get("beat").await.unwrap();
            count(api.clone(), Arc::new(object)).await.unwrap();
        }
    };
    let testbed = Testbed::builder().controller(AGENT, beats);
    let testbed = testbed.start().await.unwrap();
    testbed.apply(OBJECT).await.unwrap();
    let within = Duration::from_secs(300);
    let error = testbed.settle_within(QUIET, within).await.unwrap_err();
    let said = error.to_string();
    let begins = "the cluster did not settle within 5m: the last write is configmaps beat by beater; no write loops: \
                  beater wrote configmaps beat 10 times in a row";
    assert!(said.starts_with(begins), "{said}");
    testbed.shutdown().await;
}

#[test]
fn an_exploration_goes_on_behind_a_loop() {
    // After a refused write it counts without end.
    let bed = Testbed::builder().controller(AGENT, |client| {
        let failed = Arc::new(AtomicBool::new(false));
        control(client, move |api, object| {
            let failed = Arc::clone(&failed);
            async move {
                if failed.load(Ordering::Relaxed) {
                    return count(api, object).await;
                }
                let patch = Patch::Merge(json!({"metadata": {"labels": {"seen": "yes"}}}));
                let params = PatchParams::default();
                let patched = api.patch(&object.name_any(), &params, &patch).await;
                failed.store(patched.is_err(), Ordering::Relaxed);
                patched.map(|_| Action::await_change())
            }
        })
    });
    let options = Options {
        kinds: [Kind::Refuse].into(),
        ..Options::default()
    };
    let report = explore::testbed(&bed, &options, async |testbed: &Testbed| {
        testbed.apply(OBJECT).await?;
        Ok(())
    });
    let report = report.unwrap();
    assert_eq!((report.runs, report.diverged.len()), (2, 2), "{report}");
    let (plan, divergence) = &report.diverged[0];
    assert_eq!(
        plan.to_string(),
        "refuse patch configmaps default/beat from beater"
    );
    assert!(
        divergence.outcome.contains("no write loops: beater"),
        "{}",
        divergence.outcome
    );
}

/// Labels the object; when that fails, `failed` decides what comes of the controller.
fn labels(failed: fn(kube::Error)) -> TestbedBuilder {
    Testbed::builder().controller(AGENT, move |client| {
        control(client, move |api, object| async move {
            let patch = Patch::Merge(json!({"metadata": {"labels": {"seen": "yes"}}}));
            let params = PatchParams::default();
            let patched = api.patch(&object.name_any(), &params, &patch).await;
            patched.map_or_else(failed, drop);
            Ok(Action::await_change())
        })
    })
}

#[test]
fn panics_of_the_script_and_of_controllers_under_faults_are_differences() {
    let options = Options {
        kinds: [Kind::Refuse].into(),
        ..Options::default()
    };
    let script = async |testbed: &Testbed| {
        testbed.apply(OBJECT).await?;
        testbed.settle(QUIET).await?;
        let objects = kube::Api::<ConfigMap>::default_namespaced(testbed.client());
        let seen = objects.get("beat").await?.labels().contains_key("seen");
        assert!(seen, "nobody has seen it");
        Ok(())
    };
    for (failed, reason) in [
        (
            drop as fn(kube::Error),
            "the run panicked: nobody has seen it",
        ),
        (|_| panic!("refused"), "controller beater panicked: "),
    ] {
        let report = explore::testbed(&labels(failed), &options, script).unwrap();
        let (plan, divergence) = &report.diverged[0];
        assert_eq!(
            plan.to_string(),
            "refuse patch configmaps default/beat from beater"
        );
        let outcome = &divergence.outcome;
        assert!(outcome.contains(reason), "{outcome}");
    }
}

#[test]
fn a_plan_is_replayed_and_one_that_never_strikes_is_an_error() {
    let bed = Testbed::builder().controller(AGENT, |client| {
        control(client, |api, object| async move {
            let patch = Patch::Merge(json!({"metadata": {"labels": {"seen": "yes"}}}));
            let params = PatchParams::default();
            api.patch(&object.name_any(), &params, &patch).await?;
            Ok(Action::await_change())
        })
    });
    let script = async |testbed: &Testbed| {
        testbed.apply(OBJECT).await?;
        Ok(())
    };
    let plan: Plan = "refuse patch configmaps default/beat from beater"
        .parse()
        .unwrap();
    let run = explore::replay(&bed, &plan, script).unwrap();
    assert!(run.violations.is_empty());
    assert!(run.timeline.contains("+10m5s"), "{}", run.timeline);
    let plan: Plan = "crash-after create pods default/web from beater"
        .parse()
        .unwrap();
    let error = explore::replay(&bed, &plan, script).unwrap_err();
    assert_eq!(
        error.to_string(),
        "these faults of the plan did not strike: crash-after create pods default/web from beater"
    );
    let options = Options {
        from: ["nobody".to_owned()].into(),
        ..Options::default()
    };
    let error = explore::testbed(&bed, &options, script).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no requests come from nobody; the clients are: beater"
    );
    let idle = Testbed::builder();
    let error = explore::testbed(&idle, &Options::default(), script).unwrap_err();
    assert!(
        error.to_string().starts_with("no fault is possible"),
        "{error}"
    );
}

#[test]
fn an_exploration_is_of_the_controllers_of_the_builder() {
    let bed = Testbed::builder()
        .controllers(["garbage-collector", "root-ca-certificate-publisher"])
        .controller(AGENT, |client| {
            control(client, |_, _| async { Ok(Action::await_change()) })
        });
    let script = async |testbed: &Testbed| {
        testbed
            .apply("{apiVersion: v1, kind: Namespace, metadata: {name: a}}")
            .await?;
        testbed.apply(OBJECT).await?;
        Ok(())
    };
    let options = Options {
        kinds: [Kind::Break].into(),
        ..Options::default()
    };
    let report = explore::testbed(&bed, &options, script).unwrap();
    assert!(report.runs > 0 && report.diverged.is_empty(), "{report}");
    let from = report
        .plans
        .iter()
        .flat_map(|plan| plan.faults())
        .map(|one| &*one.point().from);
    assert!(
        from.clone().all(|agent| agent == AGENT),
        "{:?}",
        from.collect::<Vec<_>>()
    );
}
