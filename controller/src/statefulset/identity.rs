//! What makes a pod the one of an ordinal: name, labels, storage; and how such a pod is made.

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::set::Set;
use crate::claim::claim_name;
use crate::pod::{REVISION_LABEL, parent_and_ordinal};

const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// The name of the pod with `ordinal`.
pub(crate) fn pod_name(set: &Set, ordinal: i32) -> String {
    format!("{}-{ordinal}", set.name())
}

/// The ordinal in a pod's name, whatever its parent.
pub(crate) fn ordinal(pod: &Pod) -> Option<i32> {
    parent_and_ordinal(pod.metadata.name.as_deref()?)?.1
}

/// Whether the pod's name says that it belongs to `set`.
pub(crate) fn is_member(set: &Set, pod: &Pod) -> bool {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    parent_and_ordinal(name).is_some_and(|(parent, _)| parent == set.name())
}

/// The pod of `ordinal`, made from a revision's `template`.
pub(crate) fn new_pod(set: &Set, revision: &str, template: &PodTemplateSpec, ordinal: i32) -> Pod {
    let template_meta = template.metadata.clone().unwrap_or_default();
    let mut pod = Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", set.name())),
            labels: template_meta.labels,
            annotations: template_meta.annotations,
            finalizers: template_meta.finalizers,
            owner_references: Some(vec![set.owner_ref()]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    };
    set_identity(set, &mut pod, ordinal);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(REVISION_LABEL.to_owned(), revision.to_owned());
    let spec = pod.spec.get_or_insert_default();
    spec.hostname.clone_from(&pod.metadata.name);
    // An empty name is left out, as Go's encoder does.
    spec.subdomain = set
        .spec()
        .service_name
        .clone()
        .filter(|name| !name.is_empty());
    set_storage(set, &mut pod, ordinal);
    pod
}

/// Whether name, namespace and pod-name label are those of the pod's ordinal.
pub(crate) fn identity_matches(set: &Set, pod: &Pod) -> bool {
    let Some(ordinal) = ordinal(pod) else {
        return false;
    };
    let name = pod_name(set, ordinal);
    let labels = pod.metadata.labels.as_ref();
    pod.metadata.name.as_deref() == Some(&name)
        && pod.metadata.namespace.as_deref() == Some(set.namespace())
        && labels.and_then(|labels| labels.get(POD_NAME_LABEL)) == Some(&name)
}

/// Gives the pod the name, namespace and labels of `ordinal`.
pub(crate) fn set_identity(set: &Set, pod: &mut Pod, ordinal: i32) {
    let name = pod_name(set, ordinal);
    pod.metadata.namespace = Some(set.namespace().to_owned());
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(POD_NAME_LABEL.to_owned(), name.clone());
    if !set.profile().is_old() {
        labels.insert(POD_INDEX_LABEL.to_owned(), ordinal.to_string());
    }
    pod.metadata.name = Some(name);
}

/// Whether the pod mounts its claim of each claim template.
pub(crate) fn storage_matches(set: &Set, pod: &Pod) -> bool {
    let Some(ordinal) = ordinal(pod) else {
        return false;
    };
    let volumes = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.volumes.as_deref())
        .unwrap_or_default();
    claim_volumes(set, ordinal).iter().all(|wanted| {
        volumes
            .iter()
            .any(|volume| volume.name == wanted.name && source_name(volume) == source_name(wanted))
    })
}

fn source_name(volume: &Volume) -> Option<&str> {
    volume
        .persistent_volume_claim
        .as_ref()
        .map(|source| source.claim_name.as_str())
}

/// Mounts the claims of `ordinal` ahead of the pod's other volumes.
pub(crate) fn set_storage(set: &Set, pod: &mut Pod, ordinal: i32) {
    let mut volumes = claim_volumes(set, ordinal);
    if volumes.is_empty() {
        return;
    }
    let spec = pod.spec.get_or_insert_default();
    let others = spec.volumes.take().unwrap_or_default();
    let is_replaced = |volume: &Volume| volumes.iter().any(|claim| claim.name == volume.name);
    let others: Vec<Volume> = others
        .into_iter()
        .filter(|volume| !is_replaced(volume))
        .collect();
    volumes.extend(others);
    spec.volumes = Some(volumes);
}

/// The names of the claims of `ordinal`, in the order of their templates.
pub(crate) fn claim_names(set: &Set, ordinal: i32) -> impl Iterator<Item = String> {
    let templates = set.claim_templates().iter();
    templates.map(move |template| {
        let template = template.metadata.name.as_deref().unwrap_or_default();
        claim_name(template, set.name(), ordinal)
    })
}

fn claim_volumes(set: &Set, ordinal: i32) -> Vec<Volume> {
    let templates = set.claim_templates().iter();
    let volume = |(template, claim_name): (&PersistentVolumeClaim, String)| Volume {
        name: template.metadata.name.clone().unwrap_or_default(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name,
            // False is the zero value, which Go leaves out.
            read_only: None,
        }),
        ..Volume::default()
    };
    let named = templates.zip(claim_names(set, ordinal));
    named.map(volume).collect()
}
