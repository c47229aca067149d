//! OpenKruise's daemon of all simulated nodes: one for all of them, where upstream has one on each.
//!
//! - `container_meta`: tells of the containers of updated pods, and starts anew those with old variables
//! - `container_recreate`: starts containers anew that a ContainerRecreateRequest names
//! - `image_pull`: pulls what NodeImages ask for
//! - `pod_probe`: probes what NodePodProbes ask for
//!
//! Each part serves one resource and begins when that is defined. What is asked for is up to the
//! manager, upstream's or another.
//!
//! Source: openkruise/kruise pkg/daemon.

pub(crate) mod container_meta;
mod container_recreate;
mod image_pull;
mod pod_probe;

use futures::StreamExt;
use futures::future::join;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event, watcher};

use super::{GROUP, Gates};
use crate::context::Context;
use crate::mirror;
use crate::node::Containers;

/// Serves what is defined until the future is dropped.
pub(crate) async fn run(ctx: Context, containers: Containers, gates: Gates) {
    let ctx = ctx.for_component("kruise-daemon");
    let told = async {
        let pending = std::future::pending::<()>();
        match gates.env_from_metadata {
            true => drop(defined(&ctx, "clonesets").await),
            false => pending.await,
        }
        container_meta::run(ctx.clone(), containers.clone()).await;
    };
    let recreated = async {
        let resource = defined(&ctx, "containerrecreaterequests").await;
        container_recreate::run(ctx.clone(), containers.clone(), resource).await;
    };
    let pulled = async {
        let resource = defined(&ctx, "nodeimages").await;
        image_pull::run(ctx.clone(), containers.clone(), resource).await;
    };
    let probed = async {
        let resource = defined(&ctx, "nodepodprobes").await;
        pod_probe::run(ctx.clone(), containers.clone(), resource).await;
    };
    join(join(told, recreated), join(pulled, probed)).await;
}

/// Waits until the resource is defined; returns it in the version in which it is stored, which nobody
/// has to convert.
async fn defined(ctx: &Context, plural: &str) -> ApiResource {
    let api: Api<CustomResourceDefinition> = Api::all(ctx.client.clone());
    let name = format!("{plural}.{GROUP}");
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let events = mirror::patient(move || watcher(api.clone(), config.clone()));
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(definition) | Event::InitApply(definition)) => {
                if let Some(resource) = served(&definition) {
                    return resource;
                }
            }
            Ok(_) => {}
            Err(error) => mirror::warn_of(&name, &error),
        }
    }
    // A patient watch has no end.
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
