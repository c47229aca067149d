//! The identity of a pod with an ordinal: name, labels, storage; and the creation of such a pod.

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kubeproof_runtime::pod::{Pod, REVISION_LABEL, SharedPodSpec, parent_and_ordinal};

use crate::workload::claim::claim_name;

const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// The ordinal in a pod's name, whatever its parent.
pub(crate) fn ordinal(pod: &Pod) -> Option<i32> {
    parent_and_ordinal(pod.metadata.name.as_deref()?)?.1
}

/// The properties that a set gives to its pods in addition to the template.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity<'a> {
    /// The set's name.
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) service_name: Option<&'a str>,
    pub(crate) claim_templates: &'a [PersistentVolumeClaim],
    /// Whether pods are labeled with their ordinal.
    pub(crate) has_index_label: bool,
}

impl Identity<'_> {
    /// The name of the pod with `ordinal`.
    pub(crate) fn pod_name(&self, ordinal: i32) -> String {
        format!("{}-{ordinal}", self.name)
    }

    /// Whether the pod's name says that it belongs to the set.
    pub(crate) fn has_member(&self, pod: &Pod) -> bool {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        parent_and_ordinal(name).is_some_and(|(parent, _)| parent == self.name)
    }

    /// The pod of `ordinal`, made from a revision's `template`.
    pub(crate) fn new_pod(
        &self,
        owner: OwnerReference,
        revision: &str,
        template: &PodTemplateSpec,
        ordinal: i32,
    ) -> Pod {
        let template_meta = template.metadata.clone().unwrap_or_default();
        let mut pod = Pod {
            metadata: ObjectMeta {
                generate_name: Some(format!("{}-", self.name)),
                labels: template_meta.labels,
                annotations: template_meta.annotations,
                finalizers: template_meta.finalizers,
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            spec: template.spec.clone().map(SharedPodSpec::from),
            status: None,
        };
        self.give(&mut pod, ordinal);
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert(REVISION_LABEL.to_owned(), revision.to_owned());
        let spec = pod.spec.get_or_insert_default();
        spec.hostname.clone_from(&pod.metadata.name);
        // An empty name is left out, as Go's encoder does.
        let subdomain = self.service_name.filter(|name| !name.is_empty());
        spec.subdomain = subdomain.map(str::to_owned);
        self.give_storage(&mut pod, ordinal);
        pod
    }

    /// Whether name, namespace and pod-name label are those of the pod's ordinal.
    pub(crate) fn matches(&self, pod: &Pod) -> bool {
        let Some(ordinal) = ordinal(pod) else {
            return false;
        };
        let name = self.pod_name(ordinal);
        let labels = pod.metadata.labels.as_ref();
        pod.metadata.name.as_deref() == Some(&name)
            && pod.metadata.namespace.as_deref() == Some(self.namespace)
            && labels.and_then(|labels| labels.get(POD_NAME_LABEL)) == Some(&name)
    }

    /// Gives the pod the name, namespace and labels of `ordinal`.
    pub(crate) fn give(&self, pod: &mut Pod, ordinal: i32) {
        let name = self.pod_name(ordinal);
        pod.metadata.namespace = Some(self.namespace.to_owned());
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert(POD_NAME_LABEL.to_owned(), name.clone());
        if self.has_index_label {
            labels.insert(POD_INDEX_LABEL.to_owned(), ordinal.to_string());
        }
        pod.metadata.name = Some(name);
    }

    /// Whether the pod mounts its claim of each claim template.
    pub(crate) fn storage_matches(&self, pod: &Pod) -> bool {
        let Some(ordinal) = ordinal(pod) else {
            return false;
        };
        let volumes = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.volumes.as_deref())
            .unwrap_or_default();
        self.claim_volumes(ordinal).iter().all(|wanted| {
            volumes.iter().any(|volume| {
                volume.name == wanted.name && source_name(volume) == source_name(wanted)
            })
        })
    }

    /// Mounts the claims of `ordinal` ahead of the pod's other volumes.
    pub(crate) fn give_storage(&self, pod: &mut Pod, ordinal: i32) {
        mount_claims(pod, self.claim_volumes(ordinal));
    }

    /// The names of the claims of `ordinal`, in the order of their templates.
    pub(crate) fn claim_names(&self, ordinal: i32) -> Vec<String> {
        let templates = self.claim_templates.iter();
        let name = |template| claim_name(template_name(template), self.name, ordinal);
        templates.map(name).collect()
    }

    fn claim_volumes(&self, ordinal: i32) -> Vec<Volume> {
        let named = self.claim_templates.iter().zip(self.claim_names(ordinal));
        let volumes = named.map(|(template, claim)| claim_volume(template_name(template), claim));
        volumes.collect()
    }
}

fn template_name(template: &PersistentVolumeClaim) -> &str {
    template.metadata.name.as_deref().unwrap_or_default()
}

/// The volume `name` that is the claim `claim`.
pub(crate) fn claim_volume(name: &str, claim: String) -> Volume {
    Volume {
        name: name.to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim,
            // False is the zero value, which Go leaves out.
            read_only: None,
        }),
        ..Volume::default()
    }
}

/// Prepends the volumes of claims to the pod's others; they replace volumes of equal name.
pub(crate) fn mount_claims(pod: &mut Pod, mut volumes: Vec<Volume>) {
    if volumes.is_empty() {
        return;
    }
    let spec = pod.spec.get_or_insert_default();
    let mut others = spec.volumes.take().unwrap_or_default();
    others.retain(|volume| volumes.iter().all(|claim| claim.name != volume.name));
    volumes.append(&mut others);
    spec.volumes = Some(volumes);
}

fn source_name(volume: &Volume) -> Option<&str> {
    volume
        .persistent_volume_claim
        .as_ref()
        .map(|source| source.claim_name.as_str())
}
