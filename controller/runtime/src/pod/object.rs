//! The pod of the API as controllers hold it.

use std::borrow::Cow;

use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{NamespaceResourceScope, Resource};
use serde::de::{Error, Unexpected};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::shared_spec::SharedPodSpec;
use super::status::PodStatus;

/// A pod that shares its spec in memory with the pods of equal spec, and most of its status.
///
/// A pod of k8s-openapi with one container takes 8 kB, of which the spec is three quarters. The pods of a set differ in
/// little of it, and no update of their status changes it. Only serde_json can decode a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// The pod's metadata.
    pub metadata: ObjectMeta,
    /// The desired behavior. The API server has it in each pod.
    pub spec: Option<SharedPodSpec>,
    /// The state of the pod as its kubelet last reported it.
    pub status: Option<PodStatus>,
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

/// The fields of a pod as they are written.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Written<'a> {
    #[serde(borrow)]
    api_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    metadata: Option<ObjectMeta>,
    spec: Option<SharedPodSpec>,
    status: Option<PodStatus>,
}

impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        for (field, expected) in [
            (written.api_version, <Self as Resource>::API_VERSION),
            (written.kind, <Self as Resource>::KIND),
        ] {
            if let Some(other) = field.filter(|field| field != expected) {
                return Err(D::Error::invalid_value(Unexpected::Str(&other), &expected));
            }
        }
        Ok(Self {
            metadata: written.metadata.unwrap_or_default(),
            spec: written.spec,
            status: written.status,
        })
    }
}

impl Serialize for Pod {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
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
            json!({ "metadata": null, "spec": null, "status": null }),
        ] {
            let theirs: core_v1::Pod = from_value(&pod).unwrap();
            let ours: Pod = from_value(&pod).unwrap();
            let texts = (serde_json::to_string(&ours), serde_json::to_string(&theirs));
            assert_eq!(texts.0.unwrap(), texts.1.unwrap());
            assert_eq!(from_value::<Pod>(to_value(&ours).unwrap()).unwrap(), ours);
        }
    }

    #[test]
    fn another_kind_is_refused_as_by_k8s_openapi() {
        for other in [
            json!({ "kind": "Status", "apiVersion": "v1" }),
            json!({ "kind": "Pod", "apiVersion": "v2" }),
        ] {
            let theirs = from_value::<core_v1::Pod>(&other).unwrap_err();
            let ours = from_value::<Pod>(&other).unwrap_err();
            assert_eq!(ours.to_string(), theirs.to_string());
        }
    }
}
