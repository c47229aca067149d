//! Decodes objects that are read without the Rust type of their kind: as a tree, or their metadata alone.
//!
//! kube's own decoding reads both through serde's `flatten`, which first copies each field into a buffer, even if it is
//! dropped afterwards.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::core::{DynamicObject, PartialObjectMeta, TypeMeta};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// Decodes an object. If metadata is all that `K` has, it comes without its types, labels, annotations, `selfLink` and
/// `managedFields`.
pub(super) fn decode<K: DeserializeOwned + 'static>(text: &str) -> serde_json::Result<K> {
    let mut object: Option<K> = None;
    let untyped: &mut dyn Any = &mut object;
    if let Some(partial) = untyped.downcast_mut::<Option<PartialObjectMeta<DynamicObject>>>() {
        *partial = Some(metadata_alone(text)?);
    } else if let Some(dynamic) = untyped.downcast_mut::<Option<DynamicObject>>() {
        *dynamic = Some(serde_json::from_str(text).map(|Dynamic(object)| object)?);
    }
    match object {
        Some(object) => Ok(object),
        None => serde_json::from_str(text),
    }
}

/// Reads an object as far as its metadata.
fn metadata_alone(text: &str) -> serde_json::Result<PartialObjectMeta<DynamicObject>> {
    let mut metadata = None;
    let read = serde_json::Deserializer::from_str(text).deserialize_map(UpTo(&mut metadata));
    let metadata: Metadata = match metadata {
        Some(metadata) => metadata,
        None => read.map(|()| Metadata::default())?,
    };
    Ok(PartialObjectMeta {
        types: None,
        metadata: metadata.into(),
        _phantom: PhantomData,
    })
}

/// Reads an object as far as its metadata, which becomes a `T`. It skips the rest, which is most of the text; serde_json
/// then returns an error, which says nothing about the object.
pub(super) struct UpTo<'t, T>(pub(super) &'t mut Option<T>);

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    Metadata,
    #[serde(other)]
    Other,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for UpTo<'_, T> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        while let Some(field) = object.next_key()? {
            match field {
                Field::Metadata => {
                    *self.0 = Some(object.next_value()?);
                    break;
                }
                Field::Other => {
                    object.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// The metadata that is read where metadata is all of an object.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    generate_name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
}

impl From<Metadata> for ObjectMeta {
    fn from(read: Metadata) -> Self {
        Self {
            name: read.name,
            generate_name: read.generate_name,
            namespace: read.namespace,
            uid: read.uid,
            resource_version: read.resource_version,
            generation: read.generation,
            creation_timestamp: read.creation_timestamp,
            deletion_timestamp: read.deletion_timestamp,
            deletion_grace_period_seconds: read.deletion_grace_period_seconds,
            owner_references: read.owner_references,
            finalizers: read.finalizers,
            ..Self::default()
        }
    }
}

/// An object as a tree.
struct Dynamic(DynamicObject);

impl<'de> Deserialize<'de> for Dynamic {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(DynamicVisitor)
    }
}

struct DynamicVisitor;

impl<'de> Visitor<'de> for DynamicVisitor {
    type Value = Dynamic;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Dynamic, A::Error> {
        let (mut api_version, mut kind, mut metadata) = (None, None, ObjectMeta::default());
        let mut data = Map::new();
        while let Some(field) = object.next_key::<String>()? {
            match field.as_str() {
                "apiVersion" => api_version = Some(object.next_value()?),
                "kind" => kind = Some(object.next_value()?),
                "metadata" => metadata = object.next_value()?,
                _ => {
                    data.insert(field, object.next_value()?);
                }
            }
        }
        let types = api_version.zip(kind);
        Ok(Dynamic(DynamicObject {
            types: types.map(|(api_version, kind)| TypeMeta { api_version, kind }),
            metadata,
            data: Value::Object(data),
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object() -> Value {
        let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "2" });
        json!({
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {
                "annotations": { "b": "c" }, "creationTimestamp": "2020-01-01T00:00:00Z",
                "deletionGracePeriodSeconds": 0, "deletionTimestamp": "2020-01-01T00:00:01Z",
                "finalizers": ["d/e"], "generateName": "w", "generation": 2, "labels": { "f": "g" },
                "managedFields": [{ "manager": "m" }], "name": "w1", "namespace": "n",
                "ownerReferences": [owner], "resourceVersion": "7", "uid": "1",
            },
            "spec": { "metadata": { "name": "x" }, "list": [1, { "a": null }] },
            "status": {},
        })
    }

    #[test]
    fn trees_are_read_as_kube_reads_them() {
        let bare = json!({ "metadata": { "name": "a" } });
        for object in [object(), bare, json!({ "spec": {} })] {
            let text = object.to_string();
            let expected: DynamicObject = serde_json::from_str(&text).unwrap();
            assert_eq!(decode::<DynamicObject>(&text).unwrap(), expected);
        }
        for wrong in ["[]", r#"{"metadata":{"name":7}}"#, r#"{"metadata":{}"#] {
            assert!(decode::<DynamicObject>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn metadata_is_read_as_kube_reads_it_without_what_is_dropped() {
        let text = object().to_string();
        let mut expected: PartialObjectMeta = serde_json::from_str(&text).unwrap();
        expected.metadata.labels = None;
        expected.metadata.annotations = None;
        expected.metadata.managed_fields = None;
        let read = decode::<PartialObjectMeta>(&text).unwrap();
        assert_eq!(read.metadata, expected.metadata);
        assert_eq!(read.types, None);
        let without = r#"{"spec":{"metadata":{"name":"x"}}}"#;
        let read = decode::<PartialObjectMeta>(without).unwrap();
        assert_eq!(read.metadata, ObjectMeta::default());
        for wrong in ["[]", r#"{"metadata":{"name":7}}"#, r#"{"spec":"#] {
            assert!(decode::<PartialObjectMeta>(wrong).is_err(), "{wrong}");
        }
    }
}
