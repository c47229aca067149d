//! The operator. Nothing in it knows of kubeproof.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{Event, EventType, Recorder};
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Signs the operator's requests, and manages the fields that it applies.
pub(crate) const NAME: &str = "webapp-operator";
/// Held until the host of a `WebApp` is given back.
const FINALIZER: &str = "example.com/dns";
/// The ConfigMap that stands for a DNS zone. Its keys are hosts, its values names of a `WebApp`.
const ZONE: &str = "dns";
/// The time until a failed reconciliation is tried again.
const RETRY: Duration = Duration::from_secs(10);

/// A web application that is found under a host.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "WebApp",
    namespaced,
    status = "WebAppStatus",
    printcolumn = r#"{"name": "Host", "type": "string", "jsonPath": ".spec.host"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"}"#
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebAppSpec {
    image: String,
    host: String,
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    replicas: i32,
}

/// The status that the operator reports.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebAppStatus {
    observed_generation: i64,
    #[serde(default)]
    ready_replicas: i32,
    conditions: Vec<Condition>,
}

/// A condition of a `WebApp`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
}

/// Why a `WebApp` could not be brought about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The API server refused a request, or did not answer.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// The finalizer could not be set or removed.
    #[error(transparent)]
    Finalizer(#[from] Box<finalizer::Error<kube::Error>>),
}

fn one() -> i32 {
    1
}

/// Runs the operator until the process ends.
pub(crate) async fn run(client: Client) {
    let apps = Api::<WebApp>::all(client.clone());
    let context = Arc::new(Context {
        recorder: Recorder::new(client.clone(), NAME.into()),
        client: client.clone(),
    });
    let owned = watcher::Config::default();
    Controller::new(apps, watcher::Config::default())
        .owns(Api::<Deployment>::all(client.clone()), owned.clone())
        .owns(Api::<Service>::all(client.clone()), owned.clone())
        .owns(Api::<ConfigMap>::all(client), owned)
        .run(reconcile, |_, _, _| Action::requeue(RETRY), context)
        .for_each(|_| async {})
        .await;
}

struct Context {
    client: Client,
    recorder: Recorder,
}

async fn reconcile(app: Arc<WebApp>, context: Arc<Context>) -> Result<Action, Failure> {
    let apps = context.api::<WebApp>(&app);
    let done = finalizer(&apps, FINALIZER, app, |event| async {
        match event {
            finalizer::Event::Apply(app) => context.bring_about(&app).await,
            finalizer::Event::Cleanup(app) => {
                context.own_in_zone(&app, json!({})).await?;
                Ok(Action::await_change())
            }
        }
    });
    Ok(done.await.map_err(Box::new)?)
}

impl Context {
    async fn bring_about(&self, app: &WebApp) -> Result<Action, kube::Error> {
        let entries = json!({&app.spec.host: app.name_any()});
        if let Err(error) = self.own_in_zone(app, json!({"data": entries})).await {
            let kube::Error::Api(status) = &error else {
                return Err(error);
            };
            if !status.is_conflict() {
                return Err(error);
            }
            self.report(app, 0, ("False", "HostTaken")).await?;
            return Ok(Action::requeue(RETRY));
        }
        let config = json!({"data": {"host": app.spec.host}});
        self.apply::<ConfigMap>(app, config).await?;
        let labels = json!({"app": app.name_any()});
        let service = json!({"spec": {"selector": labels, "ports": [{"port": 80}]}});
        self.apply::<Service>(app, service).await?;
        let container = json!({"name": "web", "image": app.spec.image});
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
        let spec = json!({
            "replicas": app.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": template,
        });
        let deployment: Deployment = self.apply(app, json!({"spec": spec})).await?;
        let status = deployment.status.unwrap_or_default();
        let is_current = status.observed_generation == deployment.metadata.generation;
        let ready = status.ready_replicas.unwrap_or(0);
        let updated = status.updated_replicas.unwrap_or(0);
        let wanted = app.spec.replicas;
        let condition = match is_current && ready >= wanted && updated >= wanted {
            true => ("True", "Available"),
            false => ("False", "Progressing"),
        };
        self.report(app, ready, condition).await?;
        Ok(Action::await_change())
    }

    /// Applies `fields` of the zone for `app`, and gives back those that it applied before. An entry of another app
    /// is a conflict.
    async fn own_in_zone(&self, app: &WebApp, mut fields: Value) -> Result<(), kube::Error> {
        fields["apiVersion"] = json!("v1");
        fields["kind"] = json!("ConfigMap");
        fields["metadata"] = json!({"name": ZONE});
        let manager = PatchParams::apply(&format!("{NAME}/{}", app.name_any()));
        let zones = self.api::<ConfigMap>(app);
        zones.patch(ZONE, &manager, &Patch::Apply(fields)).await?;
        Ok(())
    }

    /// Applies an object of `app`, which has its name and goes with it.
    async fn apply<K>(&self, app: &WebApp, mut object: Value) -> Result<K, kube::Error>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        object["apiVersion"] = json!(K::api_version(&()));
        object["kind"] = json!(K::kind(&()));
        object["metadata"] = json!({
            "name": app.name_any(),
            "ownerReferences": [app.controller_owner_ref(&())],
        });
        let (name, manager) = (app.name_any(), PatchParams::apply(NAME).force());
        let api = self.api::<K>(app);
        api.patch(&name, &manager, &Patch::Apply(object)).await
    }

    /// Writes the status of `app` if it is another, and an event when its readiness changes.
    async fn report(
        &self,
        app: &WebApp,
        ready_replicas: i32,
        (status, reason): (&str, &str),
    ) -> Result<(), kube::Error> {
        let condition = Condition {
            kind: "Ready".to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
        };
        let before = app.status.clone().unwrap_or_default();
        let is_news = !before.conditions.contains(&condition);
        let now = WebAppStatus {
            observed_generation: app.metadata.generation.unwrap_or_default(),
            ready_replicas,
            conditions: vec![condition],
        };
        if now != before {
            let patch = Patch::Merge(json!({"status": now}));
            let apps = self.api::<WebApp>(app);
            let params = PatchParams::default();
            apps.patch_status(&app.name_any(), &params, &patch).await?;
        }
        if is_news {
            let event = Event {
                type_: match reason {
                    "HostTaken" => EventType::Warning,
                    _ => EventType::Normal,
                },
                reason: reason.to_owned(),
                note: Some(format!("the host is {}", app.spec.host)),
                action: "Reconcile".to_owned(),
                secondary: None,
            };
            self.recorder.publish(&event, &app.object_ref(&())).await?;
        }
        Ok(())
    }

    fn api<K>(&self, app: &WebApp) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &app.namespace().unwrap_or_default())
    }
}
