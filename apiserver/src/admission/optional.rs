//! The admission plugins that are off unless a flag switches them on.
//!
//! Source: `plugin/pkg/admission`, a folder for each plugin.

pub(crate) mod event_rate_limit;
mod images;
mod namespaces;
mod node_selector;
mod owner_references;
mod tolerations;

use super::attributes::Attributes;
use super::chain::Chain;
use crate::admission::State;
use crate::auth;
use crate::json::Value;
use crate::meta::object::name;
use crate::metrics::admission::Plugin;
use crate::registry::catalog::ResourceInfo;
use crate::status::ApiError;

pub(crate) use namespaces::{check as check_namespace, is_provisioned};

/// Lets plugins change a new pod that come before those for tolerations.
///
/// # Errors
/// The first refusal.
pub(super) fn admit_new_pod(
    state: &State,
    pod: &mut Value,
    chain: &mut Chain<'_>,
) -> Result<(), ApiError> {
    chain.change(Plugin::AlwaysPullImages, || images::pull_always(pod));
    chain.run(Plugin::PodNodeSelector, || node_selector::admit(state, pod))
}

/// Lets plugins change a pod that replaces `old`.
pub(super) fn admit_changed_pod((pod, old): (&mut Value, &Value), chain: &mut Chain<'_>) {
    chain.change(Plugin::AlwaysPullImages, || {
        if images::are_new(pod, old) {
            images::pull_always(pod);
        }
    });
}

/// Lets plugins change the tolerations of a pod; an update replaces `old`.
///
/// # Errors
/// The first refusal.
pub(super) fn admit_tolerations(
    state: &State,
    (pod, old): (&mut Value, Option<&Value>),
    chain: &mut Chain<'_>,
) -> Result<(), ApiError> {
    chain.run(Plugin::PodTolerationRestriction, || {
        tolerations::admit(state, pod, old)
    })?;
    chain.change(Plugin::ExtendedResourceToleration, || {
        tolerations::tolerate_devices(pod);
    });
    Ok(())
}

/// Checks a valid object that is about to be stored.
///
/// # Errors
/// The first refusal.
pub(super) async fn check(
    attributes: Attributes<'_>,
    chain: &mut Chain<'_>,
) -> Result<(), ApiError> {
    chain.run(Plugin::NamespaceExists, || {
        check_namespace(attributes.state, attributes.resource, attributes.object)
    })?;
    let dry_run = chain.origin().dry_run;
    let gvr = attributes.resource.gvr();
    match (gvr.group.as_str(), gvr.resource.as_str()) {
        ("", "pods") if attributes.subresource.is_empty() => check_pod(attributes, chain)?,
        ("" | "events.k8s.io", "events") => chain.run(Plugin::EventRateLimit, || {
            event_rate_limit::check(attributes, dry_run)
        })?,
        ("", "services") if attributes.subresource.is_empty() => {
            chain.run(Plugin::DenyServiceExternalIPs, || check_service(attributes))?;
        }
        _ => {}
    }
    const OWNERS: Plugin = Plugin::OwnerReferencesPermissionEnforcement;
    if !attributes.state.plugins.has(OWNERS) {
        return Ok(());
    }
    let check = || owner_references::check(attributes);
    let checked = auth::resolved(attributes.state, check).await;
    chain.asked(OWNERS, checked)
}

fn check_pod(attributes: Attributes<'_>, chain: &mut Chain<'_>) -> Result<(), ApiError> {
    let (pod, state) = (attributes.object, attributes.state);
    chain.run(Plugin::LimitPodHardAntiAffinityTopology, || {
        check_anti_affinity(attributes)
    })?;
    chain.run(Plugin::AlwaysPullImages, || match attributes.old {
        Some(old) if !images::are_new(pod, old) => Ok(()),
        _ => images::check(attributes),
    })?;
    if attributes.old.is_none() {
        chain.run(Plugin::PodNodeSelector, || node_selector::check(state, pod))?;
    }
    chain.run(Plugin::PodTolerationRestriction, || {
        tolerations::check(state, pod)
    })
}

/// Refuses pods that keep others off more than their node.
fn check_anti_affinity(attributes: Attributes<'_>) -> Result<(), ApiError> {
    const HOSTNAME: &str = "kubernetes.io/hostname";
    const TERMS: &str =
        "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let terms = attributes.object.pointer(TERMS).and_then(Value::as_array);
    let mut keys = terms.into_iter().flatten().map(|term| {
        let key = term["topologyKey"].as_str();
        key.unwrap_or_default()
    });
    match keys.find(|key| *key != HOSTNAME) {
        None => Ok(()),
        Some(key) => Err(attributes.forbidden(format!(
            "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key \
             {HOSTNAME} is allowed"
        ))),
    }
}

/// Refuses external addresses that the service did not have before.
fn check_service(attributes: Attributes<'_>) -> Result<(), ApiError> {
    let addresses = |service: &Value| -> Vec<Value> {
        let own = service["spec"]["externalIPs"].as_array();
        own.cloned().unwrap_or_default()
    };
    let before = attributes.old.map(addresses).unwrap_or_default();
    let own = addresses(attributes.object);
    match own.iter().all(|own| before.contains(own)) {
        true => Ok(()),
        false => {
            Err(attributes
                .forbidden("Use of external IPs is denied by admission control".to_owned()))
        }
    }
}

/// Ends a step of admission.
///
/// # Errors
/// The refusal of `AlwaysDeny`.
pub(crate) fn deny(
    chain: &mut Chain<'_>,
    resource: &ResourceInfo,
    object: Option<&Value>,
) -> Result<(), ApiError> {
    let Some(request) = chain.origin().request else {
        return Ok(());
    };
    chain.run(Plugin::AlwaysDeny, || {
        let own = object.map_or("", name);
        let generated = object.and_then(|object| object["metadata"]["generateName"].as_str());
        let names = [request.name, own, generated.unwrap_or_default(), "Unknown"];
        let name = names.into_iter().find(|name| !name.is_empty());
        Err(ApiError::Forbidden {
            resource: resource.gvr().group_resource(),
            name: name.unwrap_or_default().to_owned(),
            message: "admission control is denying all modifications".to_owned(),
            causes: Vec::new(),
        })
    })
}
