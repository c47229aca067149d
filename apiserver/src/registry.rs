//! Rules of each kind.
//!
//! Facts about kinds (names, columns, subresources) are data in `catalog`; behavior is a
//! [`Strategy`] in the kind's own file.

pub(crate) mod admissionregistration;
pub(crate) mod apiextensions;
pub(crate) mod apiregistration;
pub(crate) mod apps;
pub(crate) mod autoscaling;
pub(crate) mod batch;
pub(crate) mod bootstrap;
pub(crate) mod carried;
pub(crate) mod catalog;
pub(crate) mod certificates;
pub(crate) mod checks;
pub(crate) mod columns;
mod condition;
pub(crate) mod conduct;
pub(crate) mod coordination;
pub(crate) mod core;
pub(crate) mod discovery;
pub(crate) mod flowcontrol;
mod go_struct;
pub(crate) mod json_path;
mod net;
pub(crate) mod networking;
pub(crate) mod node;
mod passes;
pub(crate) mod policy;
pub(crate) mod rbac;
pub(crate) mod resource;
pub(crate) mod scheduling;
pub(crate) mod storage;
mod strategy;

use crate::meta::GroupResource;

pub(crate) use passes::Passes;
pub(crate) use strategy::{Context, Generic, Strategy};

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// The strategy of a built-in resource: its own, or the generic one.
fn strategy(resource: &GroupResource) -> &'static dyn Strategy {
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "namespaces") => &core::namespace::Namespace,
        ("", "nodes") => &core::node::Node,
        ("", "configmaps") => &core::config_map::ConfigMap,
        ("", "secrets") => &core::secret::Secret,
        ("", "replicationcontrollers") => &core::replication_controller::ReplicationController,
        ("apps", "deployments") => &apps::deployment::Deployment,
        ("apps", "replicasets") => &apps::replica_set::ReplicaSet,
        ("apps", "daemonsets") => &apps::daemon_set::DaemonSet,
        ("batch", "jobs") => &batch::job::Job,
        ("batch", "cronjobs") => &batch::cron_job::CronJob,
        (RBAC, "roles") => &rbac::role::Role { namespaced: true },
        (RBAC, "clusterroles") => &rbac::role::Role { namespaced: false },
        (RBAC, "rolebindings") => &rbac::role_binding::RoleBinding { namespaced: true },
        (RBAC, "clusterrolebindings") => &rbac::role_binding::RoleBinding { namespaced: false },
        ("scheduling.k8s.io", "priorityclasses") => &scheduling::priority_class::PriorityClass,
        ("node.k8s.io", "runtimeclasses") => &node::runtime_class::RuntimeClass,
        ("storage.k8s.io", "storageclasses") => &storage::storage_class::StorageClass,
        ("storage.k8s.io", "csidrivers") => &storage::csi_driver::CsiDriver,
        ("storage.k8s.io", "csistoragecapacities") => {
            &storage::csi_storage_capacity::CsiStorageCapacity
        }
        ("", "persistentvolumes") => &core::persistent_volume::PersistentVolume,
        ("networking.k8s.io", "ingressclasses") => &networking::ingress_class::IngressClass,
        ("networking.k8s.io", "networkpolicies") => &networking::network_policy::NetworkPolicy,
        ("discovery.k8s.io", "endpointslices") => &discovery::endpoint_slice::EndpointSlice,
        ("policy", "poddisruptionbudgets") => &policy::pod_disruption_budget::PodDisruptionBudget,
        ("autoscaling", "horizontalpodautoscalers") => {
            &autoscaling::horizontal_pod_autoscaler::HorizontalPodAutoscaler
        }
        (ADMISSION, "validatingwebhookconfigurations") => {
            &admissionregistration::webhook_configuration::WebhookConfiguration { mutating: false }
        }
        (ADMISSION, "mutatingwebhookconfigurations") => {
            &admissionregistration::webhook_configuration::WebhookConfiguration { mutating: true }
        }
        (ADMISSION, "validatingadmissionpolicies") => {
            &admissionregistration::admission_policy::AdmissionPolicy { mutating: false }
        }
        (ADMISSION, "mutatingadmissionpolicies") => {
            &admissionregistration::admission_policy::AdmissionPolicy { mutating: true }
        }
        (ADMISSION, "validatingadmissionpolicybindings") => {
            &admissionregistration::admission_policy::AdmissionPolicyBinding { mutating: false }
        }
        (ADMISSION, "mutatingadmissionpolicybindings") => {
            &admissionregistration::admission_policy::AdmissionPolicyBinding { mutating: true }
        }
        ("certificates.k8s.io", "certificatesigningrequests") => {
            &certificates::certificate_signing_request::CertificateSigningRequest {
                approval: false,
            }
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            &apiextensions::custom_resource_definition::CustomResourceDefinition
        }
        ("", "events") => &core::event::Event { strict: false },
        (core::event::GROUP, "events") => &core::event::Event { strict: true },
        ("", "limitranges") => &core::limit_range::LimitRange,
        ("", "endpoints") => &core::endpoints::Endpoints,
        ("", "podtemplates") => &core::pod_template::PodTemplate,
        ("", "resourcequotas") => &core::resource_quota::ResourceQuota,
        ("", "pods") => &core::pod::Pod,
        ("", "persistentvolumeclaims") => &core::persistent_volume_claim::PersistentVolumeClaim,
        ("", "services") => &core::service::Service,
        ("apps", "controllerrevisions") => &apps::controller_revision::ControllerRevision,
        ("apps", "statefulsets") => &apps::stateful_set::StatefulSet,
        ("coordination.k8s.io", "leases") => &coordination::lease::Lease,
        ("networking.k8s.io", "ingresses") => &networking::ingress::Ingress,
        ("networking.k8s.io", "servicecidrs") => &networking::service_cidr::ServiceCidr,
        ("apiregistration.k8s.io", "apiservices") => &apiregistration::api_service::ApiService,
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => {
            &flowcontrol::priority_level_configuration::PriorityLevel
        }
        ("resource.k8s.io", "resourceclaims") => &resource::resource_claim::ResourceClaim,
        ("resource.k8s.io", "resourceclaimtemplates") => {
            &resource::resource_claim::ResourceClaimTemplate
        }
        ("resource.k8s.io", "resourceslices") => &resource::resource_slice::ResourceSlice,
        ("resource.k8s.io", "deviceclasses") => &resource::device_class::DeviceClass,
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => &flowcontrol::flow_schema::FlowSchema,
        ("networking.k8s.io", "ipaddresses") => &networking::ip_address::IpAddress,
        ("storage.k8s.io", "csinodes") => &storage::csi_node::CsiNode,
        ("storage.k8s.io", "volumeattachments") => &storage::volume_attachment::VolumeAttachment,
        ("storage.k8s.io", "volumeattributesclasses") => {
            &storage::volume_attributes_class::VolumeAttributesClass
        }
        ("", "serviceaccounts") => &core::service_account::ServiceAccount,
        _ => &Generic { generation: false },
    }
}
