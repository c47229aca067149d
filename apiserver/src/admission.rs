//! The default admission plugins of a cluster, in upstream's order.

pub(crate) mod attributes;
mod authorizer;
mod certificates;
pub(crate) mod chain;
pub(crate) mod claim_status;
mod configuration;
pub(crate) mod devices;
mod enabled;
mod ingress_class;
mod limit_ranger;
pub(crate) mod listers;
pub(crate) mod optional;
pub(crate) mod plugins;
mod pod_security;
pub(crate) mod policy;
mod priority;
pub(crate) mod quota;
pub(crate) mod request;
mod runtime_class;
mod service_account;
mod service_account_secrets;
mod storage;
pub(crate) mod topology;
pub(crate) mod webhook;

use std::ops::Deref;
use std::sync::Arc;

use crate::auth;
use crate::json::{Value, json};
use crate::metrics::admission::Plugin;
use chain::Chain;
pub use configuration::{AdmissionConfiguration, AdmissionConfigurationError};
pub use enabled::{AdmissionFlags, AdmissionPlugins};
use listers::Listers;
use optional::event_rate_limit::Buckets;
use webhook::Configurations;

use crate::meta::object::{
    child_mut, finalizers, is_terminating, meta, name, namespace, set_finalizers,
};
use crate::meta::{GroupResource, GroupVersionResource};
use crate::registry::catalog::ResourceInfo;

use crate::status::{ApiError, Cause};
use crate::storage::ObjectKey;

/// What admission takes.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) auth: auth::State,
    /// The admission webhooks configured.
    pub(crate) webhooks: Configurations,
    /// The tables that the built-in plugins read.
    pub(crate) listers: Listers,
    /// The plugins that are on.
    pub(crate) plugins: AdmissionPlugins,
    pub(crate) configuration: Arc<AdmissionConfiguration>,
    /// The events counted by EventRateLimit.
    pub(crate) event_buckets: Buckets,
}

impl State {
    /// The state of a server that begins with `auth`, a fork of this one's.
    pub(crate) fn forked(&self, auth: auth::State) -> Self {
        Self {
            auth,
            webhooks: Configurations::default(),
            listers: Listers::default(),
            plugins: self.plugins,
            configuration: Arc::clone(&self.configuration),
            event_buckets: Buckets::default(),
        }
    }
}

impl Deref for State {
    type Target = auth::State;

    fn deref(&self) -> &auth::State {
        &self.auth
    }
}

/// Namespaces that no client may delete.
const PROTECTED_NAMESPACES: [&str; 3] = ["default", "kube-public", "kube-system"];

/// Admits the creation of `object`, defaulted and not yet validated.
///
/// # Errors
/// `NotFound` or `Forbidden` for a namespace that is absent or terminating.
pub(crate) fn admit_create(
    state: &State,
    resource: &ResourceInfo,
    object: &mut Value,
    chain: &mut Chain<'_>,
) -> Result<(), ApiError> {
    if resource.namespaced {
        chain.run(Plugin::NamespaceLifecycle, || {
            admit_into(state, resource, namespace(object), name(object))
        })?;
    }
    if is_core(resource, "pods") {
        admit_new_pod(state, object, chain)?;
    }
    match (
        resource.gvr().group.as_str(),
        resource.gvr().resource.as_str(),
    ) {
        ("", "persistentvolumeclaims") => {
            chain.change(Plugin::StorageObjectInUseProtection, || {
                protect(object, "kubernetes.io/pvc-protection");
            });
            chain.change(Plugin::DefaultStorageClass, || {
                storage::default_class(state, object);
            });
        }
        ("", "nodes") => chain.change(Plugin::TaintNodesByCondition, || taint_new_node(object)),
        ("networking.k8s.io", "ingresses") => chain.change(Plugin::DefaultIngressClass, || {
            ingress_class::default_class(state, object);
        }),
        ("scheduling.k8s.io", "priorityclasses") => {
            chain.run_ahead(Plugin::Priority, || priority::admit_class(state, object))?;
        }
        ("", "persistentvolumes") => chain.change(Plugin::StorageObjectInUseProtection, || {
            protect(object, "kubernetes.io/pv-protection");
        }),
        ("storage.k8s.io", "volumeattributesclasses") => {
            chain.change(Plugin::StorageObjectInUseProtection, || {
                protect(object, "kubernetes.io/vac-protection");
            });
        }
        _ => {}
    }
    Ok(())
}

/// Checks that custom objects are still to be created: upstream refuses them before admission.
///
/// # Errors
/// `Forbidden` while the definition is terminating.
pub(crate) fn check_definition(resource: &ResourceInfo, object: &Value) -> Result<(), ApiError> {
    let custom = resource.custom.as_ref();
    if !custom.is_some_and(|custom| custom.terminating) {
        return Ok(());
    }
    Err(ApiError::Forbidden {
        resource: resource.gvr().group_resource(),
        name: name(object).to_owned(),
        message: "create not allowed while custom resource definition is terminating".to_owned(),
        causes: Vec::new(),
    })
}

fn admit_new_pod(state: &State, object: &mut Value, chain: &mut Chain<'_>) -> Result<(), ApiError> {
    chain.change(Plugin::LimitRanger, || {
        limit_ranger::default_pod(state, object);
    });
    chain.run(Plugin::ServiceAccount, || {
        service_account::admit_pod(state, object)
    })?;
    let has_optional = state.plugins.has_optional();
    if has_optional {
        optional::admit_new_pod(state, object, chain)?;
    }
    chain.run(Plugin::Priority, || priority::admit_pod(state, object))?;
    chain.change(Plugin::DefaultTolerationSeconds, || {
        default_toleration_seconds(object);
    });
    if has_optional {
        optional::admit_tolerations(state, (object, None), chain)?;
    }
    chain.run(Plugin::RuntimeClass, || {
        runtime_class::admit_pod(state, object)
    })?;
    chain.change(Plugin::PodTopologyLabels, || {
        let node = object["spec"]["nodeName"].as_str().map(str::to_owned);
        topology::label(state, &node.unwrap_or_default(), object);
    });
    Ok(())
}

/// Runs the default plugins on an update. `object` has been defaulted.
///
/// # Errors
/// `Forbidden` for a second default priority class, or a claim whose volume can't grow.
pub(crate) fn admit_update(
    state: &State,
    resource: &ResourceInfo,
    (object, old): (&mut Value, &Value),
    chain: &mut Chain<'_>,
) -> Result<(), ApiError> {
    if is_core(resource, "pods") {
        let has_optional = state.plugins.has_optional();
        if has_optional {
            optional::admit_changed_pod((object, old), chain);
        }
        chain.change(Plugin::Priority, || keep_priority(object, old));
        chain.change(Plugin::DefaultTolerationSeconds, || {
            default_toleration_seconds(object);
        });
        if has_optional {
            optional::admit_tolerations(state, (object, Some(old)), chain)?;
        }
    }
    match (
        resource.gvr().group.as_str(),
        resource.gvr().resource.as_str(),
    ) {
        ("", "persistentvolumeclaims") => chain
            .run_ahead(Plugin::PersistentVolumeClaimResize, || {
                storage::admit_growth(state, object, old)
            }),
        ("scheduling.k8s.io", "priorityclasses") => {
            chain.run_ahead(Plugin::Priority, || priority::admit_class(state, object))
        }
        _ => Ok(()),
    }
}

fn keep_priority(pod: &mut Value, old: &Value) {
    for field in ["priority", "preemptionPolicy"] {
        if pod["spec"][field].is_null() && !old["spec"][field].is_null() {
            pod["spec"][field] = old["spec"][field].clone();
        }
    }
}

/// Admits a deletion.
///
/// # Errors
/// `Forbidden` for the namespaces and priority classes a cluster can't do without.
pub(crate) fn admit_delete(
    resource: &ResourceInfo,
    object: &Value,
    chain: &mut Chain<'_>,
) -> Result<(), ApiError> {
    if is_core(resource, "namespaces") {
        chain.run(Plugin::NamespaceLifecycle, || {
            match PROTECTED_NAMESPACES.contains(&name(object)) {
                false => Ok(()),
                true => Err(ApiError::Forbidden {
                    resource: resource.gvr().group_resource(),
                    name: name(object).to_owned(),
                    message: "this namespace may not be deleted".to_owned(),
                    causes: Vec::new(),
                }),
            }
        })?;
    }
    let (group, plural) = ("scheduling.k8s.io", "priorityclasses");
    let class = resource.gvr().group == group && resource.gvr().resource == plural;
    if class && name(object).starts_with("system-") {
        let message = "this is a system priority class and cannot be deleted";
        return Err(forbidden(group, plural, name(object), message.to_owned()));
    }
    Ok(())
}

fn is_core(resource: &ResourceInfo, plural: &str) -> bool {
    resource.gvr().group.is_empty() && resource.gvr().resource == plural
}

/// Admits the creation of `name` in a namespace, or of something below it such as an eviction.
///
/// # Errors
/// `NotFound` or `Forbidden` for a namespace that is absent or terminating.
pub(crate) fn admit_into(
    state: &State,
    resource: &ResourceInfo,
    own: &str,
    name: &str,
) -> Result<(), ApiError> {
    let namespaces = GroupVersionResource {
        group: String::new(),
        version: "v1".to_owned(),
        resource: "namespaces".to_owned(),
    };
    let found = state
        .storage
        .table(&namespaces)
        .get(&ObjectKey::new(None, own));
    let Some(found) = found else {
        let resource = GroupResource {
            group: String::new(),
            resource: "namespaces".to_owned(),
        };
        return Err(ApiError::NotFound {
            resource,
            name: own.to_owned(),
        });
    };
    if !is_terminating(&found.value()) {
        return Ok(());
    }
    Err(ApiError::Forbidden {
        resource: resource.gvr().group_resource(),
        name: name.to_owned(),
        message: format!(
            "unable to create new content in namespace {own} because it is being terminated"
        ),
        causes: vec![Cause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {own} is being terminated"),
            field: "metadata.namespace".to_owned(),
        }],
    })
}

/// Pods tolerate a node that is not ready or unreachable for five minutes unless they say otherwise.
fn default_toleration_seconds(pod: &mut Value) {
    const SECONDS: i64 = 300;
    let tolerates = |pod: &Value, taint: &str| {
        pod["spec"]["tolerations"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|toleration| {
                let key = toleration["key"].as_str().unwrap_or("");
                let effect = toleration["effect"].as_str().unwrap_or("");
                (key == taint || key.is_empty()) && matches!(effect, "NoExecute" | "")
            })
    };
    for taint in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        if tolerates(pod, taint) {
            continue;
        }
        let toleration = json!({
            "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS,
        });
        let spec = child_mut(pod, "spec");
        match spec.get_mut("tolerations").and_then(Value::as_array_mut) {
            Some(tolerations) => tolerations.push(toleration),
            None => {
                spec.insert("tolerations", json!([toleration]));
            }
        }
    }
}

/// A new node takes no pods until a controller has seen that it is ready.
fn taint_new_node(node: &mut Value) {
    let taint = json!({ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" });
    let spec = child_mut(node, "spec");
    match spec.get_mut("taints").and_then(Value::as_array_mut) {
        Some(taints) => {
            let same = |own: &Value| own["key"] == taint["key"] && own["effect"] == taint["effect"];
            if !taints.iter().any(same) {
                taints.push(taint);
            }
        }
        None => {
            spec.insert("taints", json!([taint]));
        }
    }
}

/// Every object of a cluster-scoped resource of version `v1`.
fn all_of(state: &State, group: &str, resource: &str) -> Vec<Arc<Value>> {
    let gvr = GroupVersionResource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
    };
    let snapshot = state.storage.table(&gvr).snapshot();
    snapshot
        .range(None, None)
        .map(|object| object.value())
        .collect()
}

/// The name of an object in refusals. Those before names are generated show the prefix. Mirrors `extractResourceName`.
fn shown_name(object: &Value) -> &str {
    let names = [name(object), meta(object, "generateName")];
    let name = names.into_iter().find(|name| !name.is_empty());
    name.unwrap_or("Unknown")
}

fn forbidden(group: &str, resource: &str, name: &str, message: String) -> ApiError {
    ApiError::Forbidden {
        resource: GroupResource {
            group: group.to_owned(),
            resource: resource.to_owned(),
        },
        name: name.to_owned(),
        message,
        causes: Vec::new(),
    }
}

fn protect(object: &mut Value, finalizer: &str) {
    let mut all: Vec<String> = finalizers(object).map(str::to_owned).collect();
    if !all.iter().any(|own| own == finalizer) {
        all.push(finalizer.to_owned());
        set_finalizers(object, all);
    }
}
