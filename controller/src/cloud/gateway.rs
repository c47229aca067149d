//! The controller of Gateways: says in the statuses of the Gateway API what a load balancer would say, once the API is
//! defined. It routes no traffic.
//!
//! It serves the classes that have its name as `spec.controllerName`. Listeners are for HTTP and HTTPS, routes are HTTPRoutes
//! and GRPCRoutes.
//!
//! Source: the Gateway API's reference, `apis/v1` of kubernetes-sigs/gateway-api.

mod api;
mod listeners;
mod routes;
mod status;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::IpAddr;
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::{Namespace, Secret, Service};
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicResourceScope};
use kube::runtime::watcher;
use kube::{Api, Resource, ResourceExt};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;

use api::{CustomResourceDefinition, Gateway, GatewayClass, ReferenceGrant, Route, RouteKind};
use status::{Identity, World};

/// The controller's name: its user agent.
const NAME: &str = "gateway-controller";
/// The classes whose Gateways are simulated, unless another name is given.
pub const CONTROLLER_NAME: &str = "kubeproof.dev/gateway-controller";

struct Controller {
    ctx: Context,
    identity: Identity,
    queue: WorkQueue<ObjectKey>,
    /// The names of established definitions.
    established: watch::Sender<BTreeSet<String>>,
    definitions: Informer<CustomResourceDefinition>,
    classes: Informer<GatewayClass>,
    gateways: Informer<Gateway>,
    http_routes: Informer<Route>,
    grpc_routes: Informer<Route>,
    grants: Informer<ReferenceGrant>,
    namespaces: Informer<Namespace>,
    services: Informer<Service>,
    secrets: Informer<Secret>,
}

/// Keeps the statuses of the classes named `name`, of their Gateways and of these routes, until the future is dropped. Each
/// Gateway has all of `addresses`.
pub(super) async fn run(ctx: Context, name: String, addresses: Vec<IpAddr>) {
    let controller = Controller {
        ctx: ctx.for_component(NAME),
        identity: Identity { name, addresses },
        queue: WorkQueue::new(),
        established: watch::Sender::default(),
        definitions: Informer::new(),
        classes: Informer::new(),
        gateways: Informer::new(),
        http_routes: Informer::new(),
        grpc_routes: Informer::new(),
        grants: Informer::new(),
        namespaces: Informer::new(),
        services: Informer::new(),
        secrets: Informer::new(),
    };
    let client = &controller.ctx.client;
    let definitions = Api::all_with(client.clone(), &api::definitions());
    Informers::new(client)
        .add_with(
            &controller.definitions,
            definitions,
            watcher::Config::default(),
            |change| controller.definition_changed(change),
        )
        .with(controller.follow(&controller.classes, api::classes()))
        .with(controller.follow(&controller.gateways, api::gateways()))
        .with(controller.follow(&controller.http_routes, RouteKind::Http.resource()))
        .with(controller.follow(&controller.grpc_routes, RouteKind::Grpc.resource()))
        .with(controller.follow(&controller.grants, api::grants()))
        .with(controller.follow_built_in())
        .run(controller.work())
        .await;
}

/// The key of all work: a status may follow from any of the objects.
fn everything() -> ObjectKey {
    ObjectKey {
        namespace: String::new(),
        name: String::new(),
    }
}

/// The name of the definition of a resource.
fn definition(resource: &ApiResource) -> String {
    format!("{}.{}", resource.plural, resource.group)
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let mut conditions = definition
        .status
        .iter()
        .flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == "Established" && condition.status == "True")
}

impl Controller {
    fn definition_changed(&self, change: &Change<CustomResourceDefinition>) {
        let definition = change.object();
        if definition.name_any().ends_with(api::GROUP) && is_established(definition) {
            let name = definition.name_any();
            self.established
                .send_if_modified(|established| established.insert(name));
        }
    }

    /// Waits until `resource` is defined.
    async fn defined(&self, resource: &ApiResource) {
        let mut established = self.established.subscribe();
        let name = definition(resource);
        // The sender lives as long as `self`.
        let _ = established.wait_for(|names| names.contains(&name)).await;
    }

    /// Runs an informer of a resource from its definition on.
    async fn follow<K>(&self, informer: &Informer<K>, resource: ApiResource)
    where
        K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>
            + Clone
            + DeserializeOwned
            + Debug
            + Send
            + Sync
            + 'static,
    {
        self.defined(&resource).await;
        let api = Api::all_with(self.ctx.client.clone(), &resource);
        let config = watcher::Config::default();
        informer
            .run(api, config, |_| self.queue.add(everything()))
            .await;
    }

    /// Runs the informers of what Gateways and routes name, from the definition of Gateways on.
    async fn follow_built_in(&self) {
        self.defined(&api::gateways()).await;
        let add = || self.queue.add(everything());
        Informers::new(&self.ctx.client)
            .add(&self.namespaces, |_| add())
            .add(&self.services, |_| add())
            .add(&self.secrets, |_| add())
            .run(std::future::pending())
            .await;
    }

    async fn work(&self) {
        self.classes.synced().await;
        self.gateways.synced().await;
        self.namespaces.synced().await;
        self.services.synced().await;
        self.secrets.synced().await;
        for (resource, synced) in [
            (
                RouteKind::Http.resource(),
                self.http_routes.synced().boxed(),
            ),
            (
                RouteKind::Grpc.resource(),
                self.grpc_routes.synced().boxed(),
            ),
            (api::grants(), self.grants.synced().boxed()),
        ] {
            if self.established.borrow().contains(&definition(&resource)) {
                synced.await;
            }
        }
        worker::run(self, &self.queue, 1).await;
    }

    fn world(&self) -> World {
        let key = |namespace: Option<String>, name: String| (namespace.unwrap_or_default(), name);
        let routes = |kind: RouteKind, informer: &Informer<Route>| {
            let routes = informer.all().into_iter();
            routes.map(move |route| (kind, route)).collect::<Vec<_>>()
        };
        let mut all_routes = routes(RouteKind::Http, &self.http_routes);
        all_routes.extend(routes(RouteKind::Grpc, &self.grpc_routes));
        let namespaces = self.namespaces.all().into_iter();
        let namespaces =
            namespaces.map(|namespace| (namespace.name_any(), namespace.labels().clone()));
        let services = self.services.all().into_iter();
        let secrets = self.secrets.all().into_iter();
        World {
            classes: self.classes.all(),
            gateways: self.gateways.all(),
            routes: all_routes,
            grants: self.grants.all(),
            namespaces: namespaces.collect(),
            services: services
                .map(|service| key(service.namespace(), service.name_any()))
                .collect(),
            secrets: secrets
                .map(|secret| (key(secret.namespace(), secret.name_any()), secret))
                .collect(),
        }
    }

    /// Writes the status of an object in the version that it was computed from.
    async fn write<K>(&self, api: Api<K>, object: &K, status: Value) -> Result<(), Error>
    where
        K: Resource + Clone + DeserializeOwned + Debug,
    {
        let version = &object.meta().resource_version;
        let patch = json!({ "metadata": { "resourceVersion": version }, "status": status });
        let params = PatchParams::default();
        let answer = api
            .patch_status(&object.name_any(), &params, &Patch::Merge(patch))
            .await;
        match answer.map_err(Error::from) {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    fn namespaced<K>(&self, object: &K, resource: &ApiResource) -> Api<K>
    where
        K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
    {
        let namespace = object.meta().namespace.as_deref().unwrap_or_default();
        Api::namespaced_with(self.ctx.client.clone(), namespace, resource)
    }
}

impl Reconcile for Controller {
    async fn reconcile(&self, _key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let changed = status::changed(&self.world(), &self.identity, (self.ctx.now)());
        for (class, status) in changed.classes {
            let api = Api::all_with(self.ctx.client.clone(), &api::classes());
            self.write(api, &*class, json!(status)).await?;
        }
        for (gateway, status) in changed.gateways {
            let api = self.namespaced(&*gateway, &api::gateways());
            self.write(api, &*gateway, json!(status)).await?;
        }
        for (kind, route, status) in changed.routes {
            let api = self.namespaced(&*route, &kind.resource());
            self.write(api, &*route, json!(status)).await?;
        }
        Ok(None)
    }
}
