//! Pods.

pub mod affinity;
pub mod app_armor;
pub mod binding;
pub mod connect;
pub mod container;
pub mod defaults;
mod image;
pub(crate) mod label_keys;
mod parts;
pub mod placement;
mod printer;
pub mod resources;
pub mod seccomp;
pub(crate) mod security_context;
mod status;
pub mod template;
pub mod validation;
pub(crate) mod volume_sources;
pub mod volumes;
pub mod warnings;

use crate::clock::rfc3339;
use crate::columns::Printable;
use crate::json::{Map, Value, json};
use crate::meta::object::{child_mut, copy_field, default};
use crate::request::options::DeleteOptions;
use crate::rest::{Connecter, ProxyTarget, Stream, SubresourceRest};
use crate::schema::quantity::Quantity;
use crate::status::{ApiError, FieldErrors};
use crate::unstructured::items_mut;
use crate::{Context, MetadataCheck, ResetFields, SelectableField, Strategy};
use defaults::default_pod_spec;
use status::validate_pod_status;

/// The strategy of Pods.
#[derive(Debug)]
pub struct Pod;

impl Strategy for Pod {
    fn selectable_field(&self, name: &str) -> Option<SelectableField> {
        let (paths, default): (&[&str], _) = match name {
            // The field's name before v1, which old clients send.
            "spec.host" => (&["spec.nodeName"], ""),
            "spec.hostNetwork" => (&["spec.hostNetwork"], "false"),
            // The label is known, and no pod has a value for it.
            "status.podIPs" => (&[], ""),
            _ => return None,
        };
        Some(SelectableField { paths, default })
    }

    fn subresource_rest(&self, name: &str) -> Option<SubresourceRest> {
        let stream = |stream, options| Some(SubresourceRest::Stream(Connecter { stream, options }));
        match name {
            "status" => Some(SubresourceRest::Status),
            "ephemeralcontainers" => Some(SubresourceRest::Part(&parts::EphemeralContainers)),
            "resize" => Some(SubresourceRest::Part(&parts::Resize)),
            "binding" => Some(SubresourceRest::Binding),
            "eviction" => Some(SubresourceRest::Eviction),
            "exec" => stream(Stream::Exec, connect::exec_options),
            "attach" => stream(Stream::Attach, connect::attach_options),
            "portforward" => stream(Stream::PortForward, connect::port_forward_options),
            "log" => Some(SubresourceRest::Log),
            "proxy" => Some(SubresourceRest::Proxy(ProxyTarget::Pod)),
            _ => None,
        }
    }

    fn return_deleted_object(&self) -> bool {
        true
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMetaUpdate, MetadataCheck::ObjectMeta]
    }

    fn status_update_keeps(&self, field: &str) -> bool {
        field == "ownerReferences"
    }

    fn reset_fields(&self, subresource: &str) -> ResetFields {
        match subresource {
            "status" => &[
                &["spec"],
                &["metadata", "deletionTimestamp"],
                &["metadata", "ownerReferences"],
            ],
            // The fields that these subresources drop are still owned by their callers.
            "ephemeralcontainers" | "resize" => &[],
            _ => &[&["status"]],
        }
    }

    fn has_table(&self, subresource: &str) -> bool {
        !matches!(
            subresource,
            "binding" | "ephemeralcontainers" | "eviction" | "resize"
        )
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn default(&self, pod: &mut Value) {
        let spec = child_mut(pod, "spec");
        default(spec, "enableServiceLinks", true);
        for list in ["containers", "initContainers"] {
            for container in spec
                .get_mut(list)
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                requests_from_limits(container);
            }
        }
        resources::default_resources(&mut pod["spec"]);
        default_pod_spec(&mut pod["spec"]);
        default_host_ports(&mut pod["spec"]);
        if let Some(status) = pod.get_mut("status").filter(|status| status.is_object()) {
            agree_on_ip(status);
        }
    }

    /// Only the QoS class of a new pod's status is kept.
    fn brings_status(&self) -> bool {
        true
    }

    fn begin_create(
        &self,
        pod: &mut Value,
        _context: Context<'_>,
    ) -> Result<FieldErrors, ApiError> {
        let mut warnings = Vec::new();
        label_keys::merge(pod);
        app_armor::synchronize(pod, &mut warnings);
        Ok(FieldErrors::with_warnings(warnings))
    }

    fn prepare_for_create(&self, pod: &mut Value, context: Context<'_>) {
        let sent = pod["status"]["qosClass"].as_str();
        let qos = match sent.filter(|class| !class.is_empty()) {
            None => qos_class(pod).into(),
            Some(class) => Value::from(class),
        };
        pod["status"] = json!({ "phase": "Pending", "qosClass": qos });
        let gated = pod["spec"]["schedulingGates"]
            .as_array()
            .is_some_and(|gates| !gates.is_empty());
        if gated {
            pod["status"]["conditions"] = json!([{
                "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": null, "lastTransitionTime": rfc3339(context.now),
            }]);
        }
    }

    fn validate(&self, pod: &Value) -> FieldErrors {
        validation::validate_new_pod(pod)
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        // Updates of pods return no warnings: few clients that update pods would read them.
        if old.is_none() {
            warnings::warn_of_name(new, "the Pod's hostname", &mut warnings);
            warnings::warn_of_pod(new, &mut warnings);
        }
        warnings
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> FieldErrors {
        validate_pod_status(new, old)
    }

    /// Keeps the QoS class if the update leaves it out.
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _context: Context<'_>) {
        drop_gated_status(child_mut(new, "status"));
        if new["status"]["qosClass"]
            .as_str()
            .unwrap_or_default()
            .is_empty()
        {
            copy_field(&mut new["status"], &old["status"], "qosClass");
        }
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        validation::validate_pod_update(new, old)
    }

    /// Returns the grace period of the request, or else of the pod; 0 for a pod that is unbound or
    /// has finished. A negative period counts as 1.
    fn grace_period_seconds(&self, pod: &Value, options: &DeleteOptions) -> Option<i64> {
        let unbound = pod["spec"]["nodeName"]
            .as_str()
            .unwrap_or_default()
            .is_empty();
        let done = matches!(
            pod["status"]["phase"].as_str(),
            Some("Failed" | "Succeeded")
        );
        if unbound || done {
            return Some(0);
        }
        let own = || {
            pod["spec"]["terminationGracePeriodSeconds"]
                .as_i64()
                .unwrap_or(0)
        };
        let grace = options.grace_period_seconds.unwrap_or_else(own);
        Some(if grace < 0 { 1 } else { grace })
    }

    fn cells(&self, pod: Printable<'_>) -> Option<Vec<Value>> {
        Some(printer::cells(pod))
    }

    /// A pod that ended is marked as completed, so that clients may gray it out.
    fn row_conditions(&self, pod: &Value) -> Vec<Value> {
        printer::row_conditions(pod)
    }
}

/// Drops status fields whose feature gates are disabled.
fn drop_gated_status(status: &mut Map) {
    status.remove("nodeAllocatableResourceClaimStatuses");
    for list in [
        "containerStatuses",
        "initContainerStatuses",
        "ephemeralContainerStatuses",
    ] {
        for container in items_mut(status, list) {
            for mount in items_mut(container, "volumeMounts") {
                mount.remove("volumeStatus");
            }
        }
    }
}

/// In the network of the host a port is the same inside and outside.
fn default_host_ports(spec: &mut Value) {
    if spec["hostNetwork"] != true {
        return;
    }
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let ports = container.get_mut("ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
                if let Some(number) = port.get("containerPort").cloned() {
                    default(port, "hostPort", number);
                }
            }
        }
    }
}

/// The address and the first of all addresses are one; the single field decides.
fn agree_on_ip(status: &mut Value) {
    let first = status["podIPs"][0]["ip"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let own = status["podIP"].as_str().unwrap_or_default().to_owned();
    if own == first {
        return;
    }
    if own.is_empty() {
        status["podIP"] = first.into();
    } else {
        status["podIPs"] = json!([{ "ip": own }]);
    }
}

fn requests_from_limits(container: &mut Value) {
    let Some(limits) = container["resources"]["limits"].as_object().cloned() else {
        return;
    };
    let requests = child_mut(&mut container["resources"], "requests");
    for (resource, quantity) in limits {
        requests.entry(resource).or_insert(quantity);
    }
}

/// Guaranteed when every container's limits equal its requests for CPU and memory, BestEffort when
/// none has any, else Burstable. The amounts of the pod itself count in their place.
pub fn qos_class(pod: &Value) -> &'static str {
    let spec = &pod["spec"];
    let all: Vec<&Value> = match resources::are_stated(spec) {
        true => vec![&spec["resources"]],
        false => ["containers", "initContainers"]
            .iter()
            .flat_map(|list| spec[*list].as_array().into_iter().flatten())
            .map(|container| &container["resources"])
            .collect(),
    };
    let compute = ["cpu", "memory"];
    // An amount of zero counts as absent.
    let amount = |own: &Value, half: &str, resource: &str| {
        let own = Quantity::parse(own[half][resource].as_str()?).ok()?;
        (!own.is_zero() && !own.is_negative()).then_some(own)
    };
    let has = |own: &&&Value| {
        compute.iter().any(|resource| {
            ["requests", "limits"]
                .iter()
                .any(|half| amount(own, half, resource).is_some())
        })
    };
    if all.iter().find(has).is_none() {
        return "BestEffort";
    }
    let guaranteed = all.iter().all(|own| {
        compute.iter().all(|resource| {
            let [limit, request] = ["limits", "requests"].map(|half| amount(own, half, resource));
            let pair = limit.zip(request);
            pair.is_some_and(|(limit, request)| limit.compare(&request).is_eq())
        })
    });
    if guaranteed {
        "Guaranteed"
    } else {
        "Burstable"
    }
}
