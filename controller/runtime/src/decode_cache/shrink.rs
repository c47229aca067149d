//! Makes decoded objects small: drops the memory that lists have to spare.

use std::any::Any;

use kube::core::{DynamicObject, PartialObjectMeta};

use crate::compact;
use crate::pod::{Pod, PodStatus};

/// Makes the lists of a pod, and of an object of which only metadata was decoded, as long as they have to be; those of a
/// pod's spec are so already. It leaves other objects alone.
pub(super) fn shrink<K: 'static>(object: &mut K) {
    let object: &mut dyn Any = object;
    if let Some(partial) = object.downcast_mut::<PartialObjectMeta<DynamicObject>>() {
        compact::meta(&mut partial.metadata);
    }
    if let Some(pod) = object.downcast_mut::<Pod>() {
        compact::meta(&mut pod.metadata);
        pod.status.iter_mut().for_each(PodStatus::shrink_to_fit);
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
    fn the_lists_of_metadata_alone_have_no_room_to_spare() {
        let metadata = json!({
            "name": "a", "finalizers": ["e/f"],
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "1" }],
        });
        let text = json!({ "metadata": metadata }).to_string();
        let mut partial: PartialObjectMeta = serde_json::from_str(&text).unwrap();
        let before = partial.metadata.clone();
        shrink(&mut partial);
        assert_eq!(partial.metadata, before);
        let owners = partial.metadata.owner_references.unwrap();
        assert_eq!(owners.capacity(), 1);
    }
}
