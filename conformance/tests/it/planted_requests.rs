//! Common bugs that a settled cluster does not show, planted in small controllers: the testbed names
//! each, with the controller, the object and what to do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, WatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use kubeproof::Manifests;
use kubeproof::testbed::{Testbed, TestbedBuilder, TestbedError};
use serde_json::json;

const AGENT: &str = "beater";
const OBJECT: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: beat}}";
const QUIET: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

type Reconciled = Result<Action, kube::Error>;

/// Reconciles the ConfigMaps of `api` with `reconcile`.
async fn control<F>(api: Api<ConfigMap>, reconcile: impl Fn(Api<ConfigMap>, Arc<ConfigMap>) -> F)
where
    F: Future<Output = Reconciled> + Send + 'static,
{
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

/// A testbed with a controller that reconciles the ConfigMaps of the default namespace.
fn bed<F>(
    reconcile: impl Fn(Api<ConfigMap>, Arc<ConfigMap>) -> F + Copy + Send + Sync + 'static,
) -> TestbedBuilder
where
    F: Future<Output = Reconciled> + Send + 'static,
{
    Testbed::builder().controller(AGENT, move |client| {
        control(Api::default_namespaced(client), reconcile)
    })
}

async fn rest(_: Api<ConfigMap>, _: Arc<ConfigMap>) -> Reconciled {
    Ok(Action::await_change())
}

/// Returns the report of `settle` about `OBJECT`, with the rule named; empty where that rule may be broken.
async fn settle_report(builder: TestbedBuilder, rule: &str) -> String {
    report_after(builder, rule, async |_| {}).await
}

/// Returns the report of `settle` about `OBJECT` after `script`, with the rule named.
async fn report_after(
    builder: TestbedBuilder,
    rule: &str,
    script: impl AsyncFn(&Testbed),
) -> String {
    let settled = async |builder: TestbedBuilder| {
        let testbed = builder.start().await.unwrap();
        testbed.apply(OBJECT).await.unwrap();
        testbed.advance(Duration::from_secs(5)).await;
        script(&testbed).await;
        let settled = testbed.settle(QUIET).await;
        testbed.shutdown().await;
        settled
    };
    settled(builder.clone().allow(rule)).await.unwrap();
    let error = settled(builder).await.unwrap_err();
    assert!(matches!(error, TestbedError::Violated(_)), "{error:?}");
    error.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_never_waits_for_a_change_is_reported() {
    let bed = bed(|api, object| async move {
        api.get(&object.name_any()).await?;
        Ok(Action::requeue(Duration::from_secs(1)))
    });
    insta::assert_snapshot!(settle_report(bed, "no hot requeue").await, @"no hot requeue: beater repeated `get configmaps default/beat` 40 times in 39s while nothing changed; wait for a change, or back off (revision 190)");
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_asks_now_and_then_is_none_that_never_waits() {
    let bed = bed(|api, object| async move {
        api.get(&object.name_any()).await?;
        Ok(Action::requeue(Duration::from_secs(15)))
    });
    let testbed = bed.start().await.unwrap();
    testbed.apply(OBJECT).await.unwrap();
    testbed.advance(HOUR).await;
    testbed.settle(QUIET).await.unwrap();
    testbed.shutdown().await;
}

fn definition(name: &str) -> ApiResource {
    let kind = GroupVersionKind::gvk("example.com", "v1", name);
    ApiResource::from_gvk(&kind)
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_is_missing_is_reported() {
    let bed = Testbed::builder().controller(AGENT, |client: Client| async move {
        let sites = Api::<DynamicObject>::default_namespaced_with(client, &definition("Site"));
        let sites = watcher(sites, watcher::Config::default()).default_backoff();
        sites.for_each(|_| async {}).await;
    });
    insta::assert_snapshot!(settle_report(bed, "resources are served").await, @"resources are served: beater lists or watches sites.example.com in version v1, which the server does not serve; is its definition among the manifests? (revision 190)");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_does_not_exist_is_reported() {
    let writes = bed(|api, object| async move {
        let copy = json!({"metadata": {"name": object.name_any()}});
        let copy = serde_json::from_value(copy).unwrap();
        let elsewhere = Api::<ConfigMap>::namespaced(api.into_client(), "prod");
        elsewhere.create(&PostParams::default(), &copy).await?;
        Ok(Action::await_change())
    });
    insta::assert_snapshot!(settle_report(writes, "namespaces exist").await, @"namespaces exist: beater tries to create configmaps in namespace prod, which does not exist; create it, or check which namespace the controller uses (revision 190)");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_not_the_one_is_reported() {
    let watches = Testbed::builder().controller(AGENT, |client| {
        control(Api::namespaced(client, "kube-public"), rest)
    });
    insta::assert_snapshot!(settle_report(watches, "objects of the test are seen").await, @"objects of the test are seen: beater lists or watches configmaps only in namespace kube-public, and the test has written configmaps default/beat; check which namespace the controller uses (revision 190)");
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_is_never_removed_is_reported() {
    let holds = bed(|api, object| async move {
        if object.finalizers().is_empty() {
            let patch = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/beat"]}}));
            let params = PatchParams::default();
            api.patch(&object.name_any(), &params, &patch).await?;
        }
        Ok(Action::await_change())
    });
    let deleted = async |testbed: &Testbed| {
        let api = Api::<ConfigMap>::default_namespaced(testbed.client());
        api.delete("beat", &DeleteParams::default()).await.unwrap();
    };
    let settle_report = report_after(holds, "finalizers are removed", deleted).await;
    insta::assert_snapshot!(settle_report, @"finalizers are removed: configmaps default/beat was deleted but still has finalizer example.com/beat; beater has to remove it once deletionTimestamp is set (revision 192)");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_in_the_foreground_without_a_garbage_collector_is_reported() {
    let deleted = async |testbed: &Testbed| {
        let api = Api::<ConfigMap>::default_namespaced(testbed.client());
        api.delete("beat", &DeleteParams::foreground())
            .await
            .unwrap();
    };
    let settle_report = report_after(bed(rest), "finalizers are removed", deleted).await;
    insta::assert_snapshot!(settle_report, @"finalizers are removed: configmaps default/beat was deleted but still has finalizer foregroundDeletion; add garbage-collector to TestbedBuilder::controllers (revision 191)");
    let testbed = bed(rest)
        .controllers(["garbage-collector"])
        .start()
        .await
        .unwrap();
    testbed.apply(OBJECT).await.unwrap();
    deleted(&testbed).await;
    testbed.settle(QUIET).await.unwrap();
    testbed.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_of_the_tests_own_is_its_own_affair() {
    let testbed = bed(rest).start().await.unwrap();
    let held = OBJECT.replace("beat}", "beat, finalizers: [example.com/hold]}");
    testbed.apply(&held).await.unwrap();
    let api = Api::<ConfigMap>::default_namespaced(testbed.client());
    api.delete("beat", &DeleteParams::default()).await.unwrap();
    testbed.settle(QUIET).await.unwrap();
    testbed.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_leaked_is_reported() {
    let leaks = bed(|api, object| async move {
        if object.name_any() != "kube-root-ca.crt" {
            let leaked = api.watch(&WatchParams::default(), "0").await?.boxed();
            tokio::spawn(async move { leaked.for_each(|_| async {}).await });
        }
        Ok(Action::await_change())
    });
    let changes = async |testbed: &Testbed| {
        for change in 0..40 {
            let data = format!("beat}}, data: {{change: '{change}'}}}}");
            testbed
                .apply(&OBJECT.replace("beat}}", &data))
                .await
                .unwrap();
            testbed.advance(Duration::from_millis(100)).await;
        }
    };
    let settle_report = report_after(leaks, "no leaked watches", changes).await;
    insta::assert_snapshot!(settle_report, @"no leaked watches: beater has more than 30 equal watches open: watch configmaps in namespace default; share one, or drop the streams that are no longer read (revision 219)");
}

#[tokio::test(start_paused = true)]
async fn a_status_written_without_a_change_is_reported() {
    let bed = bed(|api, object| async move {
        let services = Api::<Service>::default_namespaced(api.into_client());
        let ready = json!({"type": "Ready", "status": "True", "reason": "", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let patch = Patch::Merge(json!({"status": {"conditions": [ready]}}));
        let params = PatchParams::default();
        services
            .patch_status(&object.name_any(), &params, &patch)
            .await?;
        Ok(Action::requeue(Duration::from_secs(300)))
    });
    let service =
        "{apiVersion: v1, kind: Service, metadata: {name: beat}, spec: {ports: [{port: 80}]}}";
    let bed = bed.manifests(Manifests::new().yaml(service).unwrap());
    let resyncs = async |testbed: &Testbed| testbed.advance(HOUR).await;
    let settle_report = report_after(bed, "no idle writes", resyncs).await;
    insta::assert_snapshot!(settle_report, @"no idle writes: beater repeated `patch services/status default/beat` 10 times without changing anything; compare with the object as read before writing (revision 192)");
}

#[tokio::test(start_paused = true)]
async fn a_server_side_apply_may_be_repeated() {
    let bed = bed(|api, object| async move {
        let patch = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"ready": "yes"}});
        let params = PatchParams::apply(AGENT);
        api.patch(&object.name_any(), &params, &Patch::Apply(patch))
            .await?;
        Ok(Action::requeue(Duration::from_secs(300)))
    });
    let testbed = bed.start().await.unwrap();
    testbed.apply(OBJECT).await.unwrap();
    testbed.advance(HOUR * 2).await;
    testbed.settle(QUIET).await.unwrap();
    testbed.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_there_is_not_cannot_be_broken() {
    let error = Testbed::builder().allow("no leaks").start().await.err();
    let settle_report = error.unwrap().to_string();
    assert!(settle_report.starts_with("there is no rule \"no leaks\"; the rules are: "));
    assert!(
        settle_report.contains("no leaked watches"),
        "{settle_report}"
    );
}
