//! Objects as the cells of a Table's row: what `kubectl get` prints.

mod admission;
mod batch;
mod cluster;
mod config;
mod custom;
mod event;
mod networking;
mod node;
mod pod;
mod service;
mod storage;
mod view;
mod workload;

use std::borrow::Borrow;

use jiff::Timestamp;
use serde_json::Value;

use super::catalog::ResourceInfo;
use view::View;

pub(crate) use custom::{PrinterColumn, printer_columns};
pub(crate) use view::human_duration;

/// The cells of `object`, one for each of `info`'s columns, as of `now`.
///
/// A resource without rules of its own shows name and age; its other columns are null.
#[must_use]
pub(crate) fn cells(info: &ResourceInfo, object: &Value, now: Timestamp) -> Vec<Value> {
    if let Some(custom) = &info.custom {
        return custom.cells(object, now);
    }
    let view = View { object, now };
    let gvk = info.gvk();
    own_cells(&gvk.group, &gvk.kind, view).unwrap_or_else(|| {
        let cell = |name: &str| match name {
            "Name" => view.name(),
            "Age" => view.age(),
            "Created At" => view.created(),
            _ => Value::Null,
        };
        info.columns
            .iter()
            .map(|column| cell(&column.name))
            .collect()
    })
}

/// Sorts the rows of resources with an order of their own: flow schemas are listed in the order in
/// which requests are matched.
pub(crate) fn sort(info: &ResourceInfo, objects: &mut [impl Borrow<Value>]) {
    if info.gvk().kind == "FlowSchema" {
        objects.sort_by(|a, b| cluster::flow_schema_order(a.borrow(), b.borrow()));
    }
}

/// Conditions of a row: a pod that ended is marked as completed, so that clients may grey it out.
#[must_use]
pub(crate) fn row_conditions(info: &ResourceInfo, object: &Value) -> Vec<Value> {
    match (info.gvk().group.as_str(), info.gvk().kind.as_str()) {
        ("", "Pod") => pod::row_conditions(object),
        _ => Vec::new(),
    }
}

fn own_cells(group: &str, kind: &str, view: View<'_>) -> Option<Vec<Value>> {
    Some(match (group, kind) {
        ("", "ComponentStatus") => cluster::component_status(view),
        ("", "ConfigMap") => config::config_map(view),
        ("", "Endpoints") => networking::endpoints(view),
        ("" | "events.k8s.io", "Event") => event::event(view),
        ("", "Namespace") => cluster::namespace(view),
        ("", "Node") => node::node(view),
        ("", "PersistentVolume") => storage::persistent_volume(view),
        ("", "PersistentVolumeClaim") => storage::persistent_volume_claim(view),
        ("", "Pod") => pod::pod(view),
        ("", "PodTemplate") => workload::pod_template(view),
        ("", "ReplicationController") => workload::replication_controller(view),
        ("", "ResourceQuota") => config::resource_quota(view),
        ("", "Secret") => config::secret(view),
        ("", "Service") => service::service(view),
        ("apiregistration.k8s.io", "APIService") => cluster::api_service(view),
        ("apps", "ControllerRevision") => workload::controller_revision(view),
        ("apps", "DaemonSet") => workload::daemon_set(view),
        ("apps", "Deployment") => workload::deployment(view),
        ("apps", "ReplicaSet") => workload::replica_set(view),
        ("apps", "StatefulSet") => workload::stateful_set(view),
        ("autoscaling", "HorizontalPodAutoscaler") => workload::horizontal_pod_autoscaler(view),
        ("autoscaling", "Scale") => workload::scale(view),
        ("batch", "CronJob") => batch::cron_job(view),
        ("batch", "Job") => batch::job(view),
        ("certificates.k8s.io", "CertificateSigningRequest") => cluster::signing_request(view),
        ("networking.k8s.io", "Ingress") => networking::ingress(view),
        ("networking.k8s.io", "IngressClass") => networking::ingress_class(view),
        ("networking.k8s.io", "IPAddress") => networking::ip_address(view),
        ("networking.k8s.io", "NetworkPolicy") => networking::network_policy(view),
        ("networking.k8s.io", "ServiceCIDR") => networking::service_cidr(view),
        ("discovery.k8s.io", "EndpointSlice") => networking::endpoint_slice(view),
        ("policy", "PodDisruptionBudget") => workload::pod_disruption_budget(view),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            admission::role_binding(view)
        }
        ("admissionregistration.k8s.io", kind) => return admission::configuration(kind, view),
        ("scheduling.k8s.io", "PriorityClass") => config::priority_class(view),
        ("coordination.k8s.io", "Lease") => config::lease(view),
        ("node.k8s.io", "RuntimeClass") => config::runtime_class(view),
        ("storage.k8s.io", kind) => return storage::storage_group(kind, view),
        ("resource.k8s.io", "ResourceClaim") => cluster::resource_claim(view),
        ("resource.k8s.io", "ResourceSlice") => cluster::resource_slice(view),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => cluster::flow_schema(view),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => {
            cluster::priority_level(view)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod printed;
#[cfg(test)]
mod tests;
