//! The pod of the API as controllers hold it.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use super::shared_spec::SharedPodSpec;

/// A pod whose spec is in memory once for all pods that have the same one.
///
/// A pod of k8s-openapi with one container takes 8 kB, of which the spec is three quarters. The pods of a set differ in
/// little of it, and no update of their status changes it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// The pod's metadata.
    pub metadata: ObjectMeta,
    /// The desired behavior. The API server has it in each pod.
    pub spec: Option<SharedPodSpec>,
    /// The state of the pod as its kubelet last reported it.
    pub status: Option<core_v1::PodStatus>,
}

impl k8s_openapi::Resource for Pod {
    const API_VERSION: &'static str = <core_v1::Pod as k8s_openapi::Resource>::API_VERSION;
    const GROUP: &'static str = <core_v1::Pod as k8s_openapi::Resource>::GROUP;
    const KIND: &'static str = <core_v1::Pod as k8s_openapi::Resource>::KIND;
    const VERSION: &'static str = <core_v1::Pod as k8s_openapi::Resource>::VERSION;
    const URL_PATH_SEGMENT: &'static str =
        <core_v1::Pod as k8s_openapi::Resource>::URL_PATH_SEGMENT;
    type Scope = NamespaceResourceScope;
}

impl k8s_openapi::Metadata for Pod {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Serialize for Pod {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use k8s_openapi::Resource;
        let fields = 3 + usize::from(self.spec.is_some()) + usize::from(self.status.is_some());
        let mut pod = serializer.serialize_struct(Self::KIND, fields)?;
        pod.serialize_field("apiVersion", Self::API_VERSION)?;
        pod.serialize_field("kind", Self::KIND)?;
        pod.serialize_field("metadata", &self.metadata)?;
        if let Some(spec) = &self.spec {
            pod.serialize_field("spec", spec)?;
        }
        if let Some(status) = &self.status {
            pod.serialize_field("status", status)?;
        }
        pod.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decode::{from_value, to_value};

    #[test]
    fn a_pod_is_written_as_that_of_k8s_openapi() {
        let status = json!({ "phase": "Running" });
        let spec = json!({ "nodeName": "n", "containers": [{ "name": "c" }] });
        for pod in [
            json!({}),
            json!({ "metadata": { "name": "a" }, "status": status }),
            json!({ "kind": "Pod", "metadata": { "name": "a" }, "spec": spec, "status": status }),
            json!({ "spec": null, "status": null }),
        ] {
            let theirs: core_v1::Pod = from_value(&pod).unwrap();
            let ours: Pod = from_value(&pod).unwrap();
            let texts = (serde_json::to_string(&ours), serde_json::to_string(&theirs));
            assert_eq!(texts.0.unwrap(), texts.1.unwrap());
            assert_eq!(from_value::<Pod>(to_value(&ours).unwrap()).unwrap(), ours);
        }
    }
}
