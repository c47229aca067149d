//! Tests of the operator: a golden, four behaviors, an exploration, and a property that all of them are held to.

use std::error::Error;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, CustomResourceExt};
use kubeproof::explore;
use kubeproof::prelude::*;
use serde_json::json;

use crate::operator::{self, WebApp};

type Outcome = Result<(), Box<dyn Error>>;

/// Everything counts as settled after this long without a write.
const QUIET: Duration = Duration::from_secs(60);
const SHOP: &str = "
apiVersion: example.com/v1
kind: WebApp
metadata: {name: shop}
spec: {image: 'shop:1', host: shop.example.com, replicas: 2}
";

const READY_APPS_HAVE_THEIR_HOSTS: &str = "
    objects.WebApp.all(app,
        has(app.metadata.deletionTimestamp)
        || !has(app.status)
        || app.status.conditions[0].status != 'True'
        || objects.ConfigMap.exists(zone,
            zone.metadata.name == 'dns'
            && zone.?data[?app.spec.host].orValue('') == app.metadata.name))";

/// A cluster with a node, the operator, and the controllers that it relies on.
fn cluster() -> Result<TestbedBuilder, Box<dyn Error>> {
    let controllers = ["deployment", "replicaset", "garbage-collector"];
    Ok(operator_alone()?.nodes(1).controllers(controllers))
}

/// A cluster with the operator and nothing else.
fn operator_alone() -> Result<TestbedBuilder, Box<dyn Error>> {
    Ok(Testbed::builder()
        .manifests(Manifests::new().object(&WebApp::crd())?)
        .controller(operator::NAME, operator::run)
        .property(Declaration {
            message: "a WebApp is ready whose host is not in the zone".to_owned(),
            ..Declaration::new("ready apps have their hosts", READY_APPS_HAVE_THEIR_HOSTS)
        }))
}

/// A cluster in which the shop is up.
async fn shop() -> Result<Testbed, Box<dyn Error>> {
    let testbed = cluster()?.start().await?;
    testbed.apply(SHOP).await?;
    testbed.settle(QUIET).await?;
    Ok(testbed)
}

async fn hosts(testbed: &Testbed) -> kube::Result<String> {
    let zones = Api::<ConfigMap>::default_namespaced(testbed.client());
    let data = zones.get("dns").await?.data.unwrap_or_default();
    let entries = data.iter().map(|(host, app)| format!("{host} is {app}"));
    Ok(entries.collect::<Vec<_>>().join(", "))
}

/// The first test that README and the guide show, with nothing factored out.
#[tokio::test(start_paused = true)]
async fn a_shop_comes_up() -> Result<(), Box<dyn std::error::Error>> {
    let testbed = Testbed::builder()
        .nodes(1)
        .controllers(["deployment", "replicaset"])
        .manifests(Manifests::new().object(&WebApp::crd())?)
        .controller("webapp-operator", operator::run)
        .start()
        .await?;
    testbed.apply(SHOP).await?;
    testbed.settle(Duration::from_secs(60)).await?;
    insta::assert_snapshot!(testbed.timeline());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_second_reconcile_writes_nothing() -> Outcome {
    let testbed = Testbed::builder()
        .manifests(Manifests::new().object(&WebApp::crd())?)
        .controller("webapp-operator", operator::run)
        .general_properties()
        .start()
        .await?;
    testbed.apply(SHOP).await?;
    testbed.settle(Duration::from_secs(60)).await?;
    testbed.reconcile_again(Duration::from_secs(60)).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_shop_comes_up_and_goes() -> Outcome {
    let testbed = shop().await?;
    let apps = Api::<WebApp>::default_namespaced(testbed.client());
    apps.delete("shop", &DeleteParams::default()).await?;
    testbed.settle(QUIET).await?;
    insta::assert_snapshot!(testbed.timeline());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_image_is_rolled_out() -> Outcome {
    let testbed = shop().await?;
    testbed.apply(&SHOP.replace("shop:1", "shop:2")).await?;
    testbed.settle(QUIET).await?;
    insta::assert_snapshot!(testbed.outcome().await?);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_changes_is_changed_back() -> Outcome {
    let testbed = shop().await?;
    let deployments = Api::<Deployment>::default_namespaced(testbed.client());
    let patch = Patch::Merge(json!({"spec": {"replicas": 7}}));
    deployments
        .patch("shop", &PatchParams::default(), &patch)
        .await?;
    testbed.settle(QUIET).await?;
    let replicas = deployments
        .get("shop")
        .await?
        .spec
        .and_then(|spec| spec.replicas);
    assert_eq!(replicas, Some(2));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_host_belongs_to_one_app_until_it_goes() -> Outcome {
    let testbed = shop().await?;
    testbed
        .apply(&SHOP.replace("name: shop", "name: copy"))
        .await?;
    testbed.settle(QUIET).await?;
    assert_eq!(hosts(&testbed).await?, "shop.example.com is shop");

    let apps = Api::<WebApp>::default_namespaced(testbed.client());
    apps.delete("shop", &DeleteParams::default()).await?;
    testbed.settle(QUIET).await?;
    assert_eq!(hosts(&testbed).await?, "shop.example.com is copy");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_typo_is_refused() -> Outcome {
    let testbed = cluster()?.start().await?;
    let refused = testbed.apply(&SHOP.replace("replicas", "replica")).await;
    insta::assert_snapshot!(refused.unwrap_err(), @r#"cannot apply example.com/v1 WebApp shop: 400 BadRequest: WebApp in version "v1" cannot be handled as a WebApp: strict decoding error: unknown field "spec.replica""#);
    Ok(())
}

/// The operator crashes before and after each of its writes, its answers get lost, its watches break: whatever goes
/// wrong once, the outcome is the same.
#[test]
fn no_single_fault_changes_the_outcome() -> Outcome {
    let options = explore::Options::default();
    let report = explore::testbed(&operator_alone()?, &options, async |testbed| {
        testbed.apply(SHOP).await?;
        testbed.settle(QUIET).await?;
        let apps = Api::<WebApp>::default_namespaced(testbed.client());
        apps.delete("shop", &DeleteParams::default()).await?;
        Ok(())
    })?;
    assert!(report.diverged.is_empty(), "{report}");
    Ok(())
}
