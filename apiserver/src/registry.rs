//! Rules of each kind.
//!
//! Facts about kinds (names, columns, subresources) are data in `catalog`; behavior is a
//! [`Strategy`] in the kind's own file.

pub(crate) mod admission_policy;
mod api_service;
mod app_armor;
pub(crate) mod bootstrap;
pub(crate) mod carried;
pub(crate) mod catalog;
pub(crate) mod certificate_signing_request;
pub(crate) mod checks;
pub(crate) mod columns;
pub(crate) mod component_status;
mod condition;
pub(crate) mod conduct;
mod config_map;
mod container_validation;
mod controller_revision;
mod cron_job;
mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
pub(crate) mod custom_resource;
mod daemon_set;
pub(crate) mod definition;
pub(crate) mod definitions;
mod deployment;
mod device_class;
mod devices;
pub mod embedded;
mod endpoint_slice;
mod endpoints;
pub(crate) mod event;
pub(crate) mod flow_schema;
mod go_struct;
mod horizontal_pod_autoscaler;
mod image;
mod ingress;
mod ingress_class;
mod ip_address;
mod job;
pub(crate) mod json_path;
mod label_keys;
mod lease;
mod limit_range;
pub(crate) mod namespace;
mod net;
mod network_policy;
mod node;
mod node_labels;
mod passes;
mod persistent_volume;
mod persistent_volume_claim;
pub(crate) mod pod;
mod pod_affinity;
mod pod_disruption_budget;
mod pod_placement;
pub(crate) mod pod_resources;
mod pod_status;
mod pod_template;
mod pod_template_resource;
mod pod_validation;
mod pod_warnings;
mod priority_class;
mod priority_level;
mod replica_set;
mod replication_controller;
mod resource_claim;
mod resource_names;
mod resource_quota;
mod resource_slice;
mod role;
mod role_binding;
mod runtime_class;
mod seccomp;
mod secret;
mod security_context;
mod service;
mod service_account;
mod service_cidr;
mod statefulset;
mod storage_class;
mod strategy;
mod volume_attachment;
mod volume_attributes_class;
mod volume_sources;
mod volume_validation;
mod webhook_configuration;
mod workload;

use crate::meta::GroupResource;

pub(crate) use passes::Passes;
pub(crate) use strategy::{Context, Generic, Strategy};

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// The strategy of a built-in resource: its own, or the generic one.
fn strategy(resource: &GroupResource) -> &'static dyn Strategy {
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "namespaces") => &namespace::Namespace,
        ("", "nodes") => &node::Node,
        ("", "configmaps") => &config_map::ConfigMap,
        ("", "secrets") => &secret::Secret,
        ("", "replicationcontrollers") => &replication_controller::ReplicationController,
        ("apps", "deployments") => &deployment::Deployment,
        ("apps", "replicasets") => &replica_set::ReplicaSet,
        ("apps", "daemonsets") => &daemon_set::DaemonSet,
        ("batch", "jobs") => &job::Job,
        ("batch", "cronjobs") => &cron_job::CronJob,
        (RBAC, "roles") => &role::Role { namespaced: true },
        (RBAC, "clusterroles") => &role::Role { namespaced: false },
        (RBAC, "rolebindings") => &role_binding::RoleBinding { namespaced: true },
        (RBAC, "clusterrolebindings") => &role_binding::RoleBinding { namespaced: false },
        ("scheduling.k8s.io", "priorityclasses") => &priority_class::PriorityClass,
        ("node.k8s.io", "runtimeclasses") => &runtime_class::RuntimeClass,
        ("storage.k8s.io", "storageclasses") => &storage_class::StorageClass,
        ("storage.k8s.io", "csidrivers") => &csi_driver::CsiDriver,
        ("storage.k8s.io", "csistoragecapacities") => &csi_storage_capacity::CsiStorageCapacity,
        ("", "persistentvolumes") => &persistent_volume::PersistentVolume,
        ("networking.k8s.io", "ingressclasses") => &ingress_class::IngressClass,
        ("networking.k8s.io", "networkpolicies") => &network_policy::NetworkPolicy,
        ("discovery.k8s.io", "endpointslices") => &endpoint_slice::EndpointSlice,
        ("policy", "poddisruptionbudgets") => &pod_disruption_budget::PodDisruptionBudget,
        ("autoscaling", "horizontalpodautoscalers") => {
            &horizontal_pod_autoscaler::HorizontalPodAutoscaler
        }
        (ADMISSION, "validatingwebhookconfigurations") => {
            &webhook_configuration::WebhookConfiguration { mutating: false }
        }
        (ADMISSION, "mutatingwebhookconfigurations") => {
            &webhook_configuration::WebhookConfiguration { mutating: true }
        }
        (ADMISSION, "validatingadmissionpolicies") => {
            &admission_policy::AdmissionPolicy { mutating: false }
        }
        (ADMISSION, "mutatingadmissionpolicies") => {
            &admission_policy::AdmissionPolicy { mutating: true }
        }
        (ADMISSION, "validatingadmissionpolicybindings") => {
            &admission_policy::AdmissionPolicyBinding { mutating: false }
        }
        (ADMISSION, "mutatingadmissionpolicybindings") => {
            &admission_policy::AdmissionPolicyBinding { mutating: true }
        }
        ("certificates.k8s.io", "certificatesigningrequests") => {
            &certificate_signing_request::CertificateSigningRequest { approval: false }
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            &definition::CustomResourceDefinition
        }
        ("", "events") => &event::Event { strict: false },
        (event::GROUP, "events") => &event::Event { strict: true },
        ("", "limitranges") => &limit_range::LimitRange,
        ("", "endpoints") => &endpoints::Endpoints,
        ("", "podtemplates") => &pod_template_resource::PodTemplate,
        ("", "resourcequotas") => &resource_quota::ResourceQuota,
        ("", "pods") => &pod::Pod,
        ("", "persistentvolumeclaims") => &persistent_volume_claim::PersistentVolumeClaim,
        ("", "services") => &service::Service,
        ("apps", "controllerrevisions") => &controller_revision::ControllerRevision,
        ("apps", "statefulsets") => &statefulset::StatefulSet,
        ("coordination.k8s.io", "leases") => &lease::Lease,
        ("networking.k8s.io", "ingresses") => &ingress::Ingress,
        ("networking.k8s.io", "servicecidrs") => &service_cidr::ServiceCidr,
        ("apiregistration.k8s.io", "apiservices") => &api_service::ApiService,
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => {
            &priority_level::PriorityLevel
        }
        ("resource.k8s.io", "resourceclaims") => &resource_claim::ResourceClaim,
        ("resource.k8s.io", "resourceclaimtemplates") => &resource_claim::ResourceClaimTemplate,
        ("resource.k8s.io", "resourceslices") => &resource_slice::ResourceSlice,
        ("resource.k8s.io", "deviceclasses") => &device_class::DeviceClass,
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => &flow_schema::FlowSchema,
        ("networking.k8s.io", "ipaddresses") => &ip_address::IpAddress,
        ("storage.k8s.io", "csinodes") => &csi_node::CsiNode,
        ("storage.k8s.io", "volumeattachments") => &volume_attachment::VolumeAttachment,
        ("storage.k8s.io", "volumeattributesclasses") => {
            &volume_attributes_class::VolumeAttributesClass
        }
        ("", "serviceaccounts") => &service_account::ServiceAccount,
        _ => &Generic { generation: false },
    }
}
