//! Custom resources of Rust types: their definitions are derived, given to the builder, and served.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Client, CustomResource, CustomResourceExt};
use kubeproof::testbed::{Testbed, TestbedOptions};
use kubeproof_apiserver::{ApiServer, Clock, LoadError, Manifests};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Where an application is served.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[kube(
    group = "sites.example.com",
    version = "v1",
    kind = "Site",
    namespaced,
    status = "SiteStatus",
    shortname = "st",
    category = "web",
    printcolumn = r#"{"name": "Host", "type": "string", "jsonPath": ".spec.host"}"#,
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas"
    ),
    validation = Rule::new("self.spec.replicas <= 9 || self.spec.tier == 'Paid'")
        .message("a free site has at most 9 replicas")
)]
#[serde(rename_all = "camelCase")]
struct SiteSpec {
    /// The name under which it is found.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z.]+$"))]
    host: String,
    /// How many pods serve it.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    replicas: i32,
    #[serde(default)]
    tier: Tier,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate: Option<Certificate>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    paths: Vec<Path>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
enum Tier {
    #[default]
    Free,
    Paid,
}

/// From where a certificate comes; one of them.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
enum Certificate {
    SecretName(String),
    Issuer { name: String, days: u16 },
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
struct Path {
    prefix: String,
    #[schemars(length(min = 1))]
    service: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
struct SiteStatus {
    replicas: i32,
}

fn one() -> i32 {
    1
}

fn site(name: &str, spec: Value) -> Site {
    let spec = serde_json::from_value(spec).expect("the spec is one of a site");
    Site::new(name, spec)
}

async fn server() -> ApiServer {
    let manifests = Manifests::new().object(&Site::crd());
    let manifests = manifests.expect("definitions have a form in JSON");
    let epoch = "2026-01-01T00:00:00Z".parse().expect("a time");
    let builder = ApiServer::builder().clock(Clock::simulated(epoch));
    let server = builder.build_with(manifests).await;
    server.expect("the definition is valid")
}

/// The message of a refusal.
fn refusal<T: std::fmt::Debug>(answer: kube::Result<T>) -> String {
    match answer.expect_err("it is refused") {
        kube::Error::Api(status) => status.message.clone(),
        other => panic!("{other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_derived_definition_is_served_from_the_start() {
    let server = server().await;
    let client = Client::new(server, "default");
    let sites: Api<Site> = Api::default_namespaced(client);
    let created = sites
        .create(
            &PostParams::default(),
            &site("a", json!({ "host": "a.example" })),
        )
        .await
        .expect("it is valid");
    assert_eq!((created.spec.replicas, created.spec.tier), (1, Tier::Free));
    let status = json!({ "status": { "replicas": 1 } });
    let patched = sites
        .patch_status("a", &PatchParams::default(), &Patch::Merge(status))
        .await
        .expect("it has a status");
    assert_eq!(patched.status, Some(SiteStatus { replicas: 1 }));
    let scale = sites.get_scale("a").await.expect("it has a scale");
    assert_eq!(scale.status.map(|status| status.replicas), Some(1));
    let listed = sites
        .list(&ListParams::default())
        .await
        .expect("it is served");
    assert_eq!(listed.items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_the_types_do_not_allow_is_refused() {
    let client = Client::new(server().await, "default");
    let sites: Api<Site> = Api::default_namespaced(client);
    for (spec, message) in [
        (
            json!({ "host": "A" }),
            "spec.host: Invalid value: \"A\": spec.host in body should match '^[a-z.]+$'",
        ),
        (
            json!({ "host": "a", "paths": [{ "prefix": "/", "service": "" }] }),
            "spec.paths[0].service: Invalid value: \"\": spec.paths[0].service in body should be at \
             least 1 chars long",
        ),
        (
            json!({ "host": "a", "replicas": 10 }),
            "<nil>: Invalid value: a free site has at most 9 replicas",
        ),
    ] {
        let created = sites.create(&PostParams::default(), &site("a", spec)).await;
        let said = refusal(created);
        assert!(said.ends_with(&format!("is invalid: {message}")), "{said}");
    }
    let both = json!({
        "apiVersion": "sites.example.com/v1", "kind": "Site", "metadata": { "name": "a" },
        "spec": { "host": "a", "certificate": { "secretName": "s", "issuer": {} } },
    });
    let apply = PatchParams::apply("test").validation_strict();
    let said = refusal(sites.patch("a", &apply, &Patch::Apply(both)).await);
    assert!(said.contains("spec.certificate"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_testbed_holds_what_it_is_given_before_controllers_run() {
    let object = site("a", json!({ "host": "a.example" }));
    // The order does not matter.
    let manifests = Manifests::new()
        .object(&object)
        .and_then(|manifests| manifests.object(&Site::crd()))
        .expect("both have a form in JSON");
    let options = TestbedOptions {
        manifests,
        ..TestbedOptions::default()
    };
    let testbed = Testbed::start(options).await.expect("all is valid");
    let sites: Api<Site> = Api::default_namespaced(testbed.client());
    let got = sites.get("a").await.expect("it was given");
    assert_eq!(got.spec, object.spec);
    testbed.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_definition_whose_names_are_taken_does_not_load() {
    let mut rival = Site::crd();
    rival.metadata = ObjectMeta {
        name: Some("places.sites.example.com".into()),
        ..ObjectMeta::default()
    };
    rival.spec.names.plural = "places".into();
    rival.spec.names.singular = None;
    let server = server().await;
    let manifests = Manifests::new()
        .object(&rival)
        .expect("it has a form in JSON");
    let Err(LoadError::NotServed { object, message }) = server.load(manifests).await else {
        panic!("the kind is taken");
    };
    assert_eq!(
        object,
        "CustomResourceDefinition.v1.apiextensions.k8s.io places.sites.example.com"
    );
    assert!(
        message.starts_with("\"SiteList\" is already in use"),
        "{message}"
    );
    let definitions: Api<CustomResourceDefinition> = Api::all(Client::new(server, "default"));
    let listed = definitions
        .list(&ListParams::default())
        .await
        .expect("they are served");
    assert_eq!(listed.items.len(), 2);
}
