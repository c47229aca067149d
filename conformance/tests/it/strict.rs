//! Messages of testbeds and scenarios about objects with mistakes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kubeproof::Manifests;
use kubeproof::apiserver::FieldValidation;
use kubeproof::apiserver::fault::{Effect, Fault, Requests};
use kubeproof::explore;
use kubeproof::runner::{self, RunOptions};
use kubeproof::scenario::ScenarioFile;
use kubeproof::testbed::{Testbed, TestbedBuilder, TestbedError};

use crate::support::SITES;

const TYPO: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replica: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx, imagePolicy: Always}]}
";
const FAULTS: &str = "strict decoding error: unknown field \"spec.replica\", \
    unknown field \"spec.template.spec.containers[0].imagePolicy\"";
const SITE: &str =
    "{apiVersion: example.com/v1, kind: Site, metadata: {name: shop}, spec: {replicas: 2}}";
const REST: Duration = Duration::from_secs(60);

async fn refused(builder: TestbedBuilder, yaml: &str) -> String {
    let testbed = builder.start().await.unwrap();
    let refused = testbed.apply(yaml).await.unwrap_err();
    testbed.shutdown().await;
    refused.to_string()
}

fn lenient(validation: FieldValidation) -> TestbedBuilder {
    Testbed::builder().field_validation(validation)
}

#[tokio::test(start_paused = true)]
async fn a_typo_in_a_fixture_is_refused_in_the_servers_words() {
    let cannot = "cannot apply apps/v1 Deployment web: 400 BadRequest: Deployment in version \"v1\" \
        cannot be handled as a Deployment: ";
    let error = refused(Testbed::builder(), TYPO).await;
    assert_eq!(error, format!("{cannot}{FAULTS}"));
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("typo.yaml");
    std::fs::write(&file, TYPO).unwrap();
    let testbed = Testbed::builder().start().await.unwrap();
    let manifests = Manifests::new().read(&file).unwrap();
    let error = testbed.apply_manifests(manifests).await.unwrap_err();
    let wanted = format!("{}: apps/v1 Deployment web: 400", file.display());
    assert!(error.to_string().contains(&wanted), "{error}");
    let given = Manifests::new().read(&file).unwrap();
    let error = Testbed::builder()
        .manifests(given)
        .start()
        .await
        .err()
        .unwrap();
    let wanted = format!("{}: cannot create Deployment.v1.apps web: ", file.display());
    assert!(error.to_string().starts_with(&wanted), "{error}");
    assert!(error.to_string().ends_with(FAULTS), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_typo_in_a_custom_resource_is_refused_too() {
    let bed = || Testbed::builder().manifests(Manifests::new().yaml(SITES).unwrap());
    let error = refused(bed(), &SITE.replace("replicas", "replica")).await;
    let wanted = "cannot apply example.com/v1 Site shop: 400 BadRequest: Site in version \"v1\" \
        cannot be handled as a Site: strict decoding error: unknown field \"spec.replica\"";
    assert_eq!(error, wanted);
    let testbed = bed().start().await.unwrap();
    testbed.apply(SITE).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn duplicate_fields_are_refused() {
    let twice = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1', x: '2'}";
    let error = refused(Testbed::builder(), twice).await;
    let wanted =
        "cannot apply v1 ConfigMap a: strict decoding error: line 4: key \"x\" already set in map";
    assert_eq!(error, wanted);
    let testbed = lenient(FieldValidation::Ignore).start().await.unwrap();
    testbed.apply(twice).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_dropped_where_the_builder_says_so() {
    for validation in [FieldValidation::Warn, FieldValidation::Ignore] {
        let given = Manifests::new().yaml(&TYPO.replace("name: web}\nspec", "name: given}\nspec"));
        let testbed = lenient(validation).manifests(given.unwrap());
        let testbed = testbed.start().await.unwrap();
        testbed.apply(TYPO).await.unwrap();
        let api = Api::<Deployment>::default_namespaced(testbed.client());
        for name in ["given", "web"] {
            let spec = api.get(name).await.unwrap().spec.unwrap();
            assert_eq!(spec.replicas, Some(1));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_apply_owns_what_it_says_and_takes_back_what_it_no_longer_says() {
    let testbed = Testbed::builder().start().await.unwrap();
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: '1', z: '1'}}";
    testbed.apply(map).await.unwrap();
    testbed.apply(&map.replace(", z: '1'", "")).await.unwrap();
    let api = Api::<ConfigMap>::default_namespaced(testbed.client());
    let object = api.get("a").await.unwrap();
    let data = object.data.unwrap();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["x"]);
    let entries = object.metadata.managed_fields.unwrap();
    let owners = entries
        .iter()
        .map(|entry| (entry.manager.as_deref(), entry.operation.as_deref()));
    assert_eq!(owners.collect::<Vec<_>>(), [(Some("test"), Some("Apply"))]);
    testbed.settle(REST).await.unwrap();
    insta::assert_snapshot!(testbed.timeline(), @r"
    # given: no nodes; no controllers
      +0s      test                        configmap a created
      +0s      test                        configmap a data.z 1 → unset
    ");
}

#[tokio::test(start_paused = true)]
async fn several_documents_are_applied_in_order() {
    let testbed = Testbed::builder().start().await.unwrap();
    let documents = format!("{SITES}\n---\n# nothing\n---\n{SITE}");
    testbed.apply(&documents).await.unwrap();
    testbed.apply(SITE).await.unwrap();
    let timeline = testbed.timeline();
    assert_eq!(
        timeline.matches("site shop created").count(),
        1,
        "{timeline}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_nothing_or_no_object_is_refused() {
    for (yaml, wanted) in [
        (
            "",
            "there is nothing to apply: no document, or only empty ones and comments",
        ),
        (
            "# a\n---\n",
            "there is nothing to apply: no document, or only empty ones and comments",
        ),
        (
            "metadata: {name: a}",
            "document 1 is not an object: apiVersion not set, kind not set",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\nhello world",
            "document 2 is not an object: it is a string",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: a-}}",
            "cannot apply v1 ConfigMap without a name: metadata.name not set",
        ),
        (
            SITE,
            "cannot apply example.com/v1 Site shop: the server has no resource \"example.com/v1 Site\"; \
             is its definition among the manifests?",
        ),
        ("a: [1", "yaml: line 1: did not find expected ',' or ']'"),
    ] {
        assert_eq!(refused(Testbed::builder(), yaml).await, wanted);
    }
}

/// The error or transcript of a scenario.
fn run(given: &str, steps: &str) -> Result<String, String> {
    let text = format!(
        "title: t\nsource: s\ngiven: {{controllers: [], nodes: 0, {given}}}\nsteps: {steps}\n"
    );
    let read = |file: &str| match file {
        "maps.yaml" => Ok(
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n\
            {apiVersion: v1, kind: ConfigMap, metadata: {name: b}, dota: {}}\n"
                .to_owned(),
        ),
        other => Err(format!("there is no {other}")),
    };
    let file = ScenarioFile::parse("own/own".to_owned(), text, read)?;
    runner::run(&file.scenario, &RunOptions::default()).map_err(|error| error.to_string())
}

#[test]
fn objects_of_scenarios_are_strict_unless_they_say_otherwise() {
    let fault = "400 BadRequest: ConfigMap in version \"v1\" cannot be handled as a ConfigMap: \
        strict decoding error: unknown field \"dota\"";
    let given = run("objects: [maps.yaml]", "[]").unwrap_err();
    assert_eq!(given, format!("given: configmap b (maps.yaml): {fault}"));
    for verb in ["create", "apply"] {
        let error = run("", &format!("[{verb}: maps.yaml]")).unwrap_err();
        let wanted = format!(
            "step 1 ({verb} configmap a, configmap b (maps.yaml)): configmap b (maps.yaml): {fault}"
        );
        assert_eq!(error, wanted);
    }
    run("objects: [maps.yaml], fieldValidation: Ignore", "[]").unwrap();
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, dota: {}}";
    for step in [
        format!("update: {{target: configmap/a, object: {map}}}"),
        "patch: {target: configmap/a, type: merge, patch: {dota: {}}}".to_owned(),
    ] {
        let object = "objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]";
        let error = run(object, &format!("[{{{step}}}]")).unwrap_err();
        assert!(
            error.contains("strict decoding error: unknown field \"dota\""),
            "{error}"
        );
        run(object, &format!("[{{{step}, fieldValidation: Ignore}}]")).unwrap();
        let warned = run(object, &format!("[{{{step}, fieldValidation: Warn}}]")).unwrap();
        assert!(
            warned.contains("\n  Warning: unknown field \"dota\"\n"),
            "{warned}"
        );
    }
    let misplaced = run("", "[{advance: 1s, fieldValidation: Ignore}]").unwrap_err();
    assert!(
        misplaced.contains("fieldValidation is for apply, create, update and patch"),
        "{misplaced}"
    );
}

#[test]
fn a_fault_that_can_never_strike_is_refused() {
    for (on, why) in [
        (
            "{resource: pod}",
            "the server serves no resource \"pod\"; did you mean \"pods\"? there are: ",
        ),
        (
            "{resource: statefulsets.app}",
            "the server serves no resource \"statefulsets.app\"; did you mean \"statefulsets.apps\"?",
        ),
        (
            "{resource: statefulsets/state}",
            "statefulsets has no subresource \"state\"; did you mean \"status\"? there are: scale, status",
        ),
        (
            "{resource: pods/status, verb: create}",
            "no request for pods/status has the verb \"create\"; there are: get, patch, update",
        ),
    ] {
        let refused = run("", &format!("[fault: {{name: f, on: {on}, hold: true}}]")).unwrap_err();
        let wanted = format!(": the fault matches no request: {why}");
        assert!(refused.contains(&wanted), "{refused}");
    }
    let unknown = run("", "[fault: {name: f, on: {verb: creat}, hold: true}]").unwrap_err();
    assert!(
        unknown.contains("there is no verb \"creat\"; did you mean \"create\"?"),
        "{unknown}"
    );
    run(
        "",
        "[fault: {name: f, on: {resource: statefulsets, verb: watch}, hold: true}]",
    )
    .unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_unwrap_prints_is_the_message() {
    let testbed = Testbed::builder().start().await.unwrap();
    let error = testbed.apply(TYPO).await.unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
    let fault = Fault {
        name: "f".to_owned(),
        requests: Requests {
            verb: Some("creat".to_owned()),
            ..Requests::default()
        },
        after: 0,
        times: None,
        lasts: None,
        effect: Effect::Hold,
    };
    let error = testbed.inject(fault).unwrap_err();
    let message = format!("{error:?}");
    let wanted =
        "the fault matches no request: there is no verb \"creat\"; did you mean \"create\"?";
    assert!(message.starts_with(wanted), "{message}");
    let error = testbed.api().get(("pod", "a"), None).await.unwrap_err();
    assert_eq!(format!("{error:?}"), "404 NotFound: pods \"a\" not found");
}

#[test]
fn a_testbed_outside_of_a_runtime_says_what_to_write() {
    let started = Testbed::builder().start().now_or_never();
    let error = started.unwrap().err().unwrap();
    assert_eq!(
        format!("{error:?}"),
        "there is no tokio runtime: call this from an async function under \
         #[tokio::test(start_paused = true)]"
    );
}

#[test]
fn a_testbed_that_has_left_its_runtime_says_what_to_write() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    let testbed = runtime.block_on(Testbed::builder().start()).unwrap();
    let settled = testbed.settle(REST).now_or_never().unwrap();
    assert!(matches!(settled, Err(TestbedError::NoRuntime)));
    let client = || drop(testbed.client());
    let advance = || assert_eq!(testbed.advance(REST).now_or_never(), None);
    for call in [&client as &dyn Fn(), &advance] {
        let panicked = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
        let message = panicked.downcast_ref::<String>().unwrap();
        assert!(
            message.starts_with("there is no tokio runtime: "),
            "{message}"
        );
    }
    runtime.block_on(testbed.shutdown());
}

#[tokio::test(start_paused = true)]
#[should_panic(
    expected = "explore::testbed starts runtimes of its own: call it from a plain #[test]"
)]
async fn an_exploration_within_a_runtime_says_where_to_call_it() {
    let script = async |_: &Testbed| Ok(());
    let _ = explore::testbed(&Testbed::builder(), &explore::Options::default(), script);
}

#[tokio::test(start_paused = true)]
#[should_panic(
    expected = "explore::replay starts runtimes of its own: call it from a plain #[test]"
)]
async fn a_replay_within_a_runtime_says_where_to_call_it() {
    let script = async |_: &Testbed| Ok(());
    let _ = explore::replay(&Testbed::builder(), &explore::Plan::default(), script);
}
