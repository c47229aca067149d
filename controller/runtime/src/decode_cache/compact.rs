//! Gives back the memory that decoded objects have to spare.
//!
//! A list is decoded into a vector with room for four items at least, and a container is a kilobyte. Pods are the objects
//! that there are most of. Controllers that take in the metadata of all objects want to know their owners.

use std::any::Any;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{DynamicObject, PartialObjectMeta};

/// Makes the lists of a pod as long as they have to be. Drops labels and annotations if metadata is all that was decoded.
/// It leaves other objects alone.
pub(super) fn shrink<K: 'static>(object: &mut K) {
    let object: &mut dyn Any = object;
    if let Some(partial) = object.downcast_mut::<PartialObjectMeta<DynamicObject>>() {
        (partial.metadata.labels, partial.metadata.annotations) = (None, None);
        shrink_meta(&mut partial.metadata);
    }
    if let Some(pod) = object.downcast_mut::<Pod>() {
        shrink_pod(pod);
    }
}

fn shrink_pod(pod: &mut Pod) {
    shrink_meta(&mut pod.metadata);
    if let Some(spec) = &mut pod.spec {
        shrink_spec(spec);
    }
    if let Some(status) = &mut pod.status {
        shrink_status(status);
    }
}

fn shrink_meta(meta: &mut ObjectMeta) {
    fit(&mut meta.owner_references);
    fit(&mut meta.finalizers);
}

fn shrink_spec(spec: &mut PodSpec) {
    spec.containers.shrink_to_fit();
    fit(&mut spec.init_containers);
    fit(&mut spec.ephemeral_containers);
    fit(&mut spec.tolerations);
    fit(&mut spec.volumes);
    let init = spec.init_containers.iter_mut().flatten();
    spec.containers
        .iter_mut()
        .chain(init)
        .for_each(shrink_container);
}

fn shrink_container(container: &mut Container) {
    fit(&mut container.args);
    fit(&mut container.command);
    fit(&mut container.env);
    fit(&mut container.ports);
    fit(&mut container.volume_mounts);
}

fn shrink_status(status: &mut PodStatus) {
    fit(&mut status.conditions);
    fit(&mut status.container_statuses);
    fit(&mut status.init_container_statuses);
    fit(&mut status.host_ips);
    fit(&mut status.pod_ips);
}

fn fit<T>(list: &mut Option<Vec<T>>) {
    if let Some(list) = list {
        list.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_lists_of_a_pod_have_no_room_to_spare() {
        let container = json!({ "name": "c", "env": [{ "name": "A" }] });
        let ready = json!({ "type": "Ready", "status": "True" });
        let text = json!({
            "spec": { "containers": [container] },
            "status": { "conditions": [ready], "podIPs": [{ "ip": "10.0.0.1" }] },
        });
        let mut pod: Pod = serde_json::from_str(&text.to_string()).unwrap();
        let before = pod.clone();
        shrink(&mut pod);
        assert_eq!(pod, before);
        let spec = pod.spec.unwrap();
        assert_eq!(spec.containers.capacity(), 1);
        assert_eq!(spec.containers[0].env.as_ref().unwrap().capacity(), 1);
        let status = pod.status.unwrap();
        assert_eq!(status.conditions.unwrap().capacity(), 1);
        assert_eq!(status.pod_ips.unwrap().capacity(), 1);
        let mut map = ConfigMap::default();
        shrink(&mut map);
        assert_eq!(map, ConfigMap::default());
    }

    #[test]
    fn metadata_alone_comes_without_labels() {
        let metadata = json!({
            "name": "a", "labels": { "a": "b" }, "annotations": { "c": "d" }, "finalizers": ["e/f"],
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "1" }],
        });
        let text = json!({ "metadata": metadata }).to_string();
        let mut partial: PartialObjectMeta = serde_json::from_str(&text).unwrap();
        let before = partial.metadata.clone();
        shrink(&mut partial);
        let owners = partial.metadata.owner_references.as_ref();
        assert_eq!(owners.unwrap().capacity(), 1);
        assert_eq!(
            (partial.metadata.labels, partial.metadata.annotations),
            (None, None)
        );
        assert_eq!(partial.metadata.finalizers, before.finalizers);
    }
}
