//! Waits until a kind is defined.

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::reflector;

use super::GROUP;

/// Waits until the resource is defined; returns it in its storage version, which needs no
/// conversion.
pub(crate) async fn defined(ctx: &Context, plural: &str) -> ApiResource {
    let api = Api::all(ctx.client.clone());
    let config = watcher::Config::default().fields(&format!("metadata.name={plural}.{GROUP}"));
    let mut events = std::pin::pin!(reflector::events::<CustomResourceDefinition>(api, config));
    while let Some(event) = events.next().await {
        if let Ok(Event::Apply(definition) | Event::InitApply(definition)) = event
            && let Some(resource) = served(&definition)
        {
            return resource;
        }
    }
    // The watch has no end.
    std::future::pending().await
}

/// The resource that an established definition serves.
fn served(definition: &CustomResourceDefinition) -> Option<ApiResource> {
    let status = definition.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let is_established = |type_: &str, status: &str| type_ == "Established" && status == "True";
    conditions.find(|one| is_established(&one.type_, &one.status))?;
    let spec = &definition.spec;
    let version = spec.versions.iter().find(|version| version.storage)?;
    Some(ApiResource {
        group: spec.group.clone(),
        version: version.name.clone(),
        api_version: format!("{}/{}", spec.group, version.name),
        kind: spec.names.kind.clone(),
        plural: spec.names.plural.clone(),
    })
}
