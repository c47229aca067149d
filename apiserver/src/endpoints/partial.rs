//! `PartialObjectMetadata`: an object reduced to its metadata.

use std::borrow::Borrow;

use crate::json::{Value, json};
use crate::meta::fields;
use crate::registry::apps::conversion;

/// The metadata of `object`, in `version` of `meta.k8s.io` (`v1` or `v1beta1`).
#[must_use]
pub(crate) fn partial_object_metadata(object: &Value, version: &str) -> Value {
    let metadata = object.get("metadata").cloned();
    let mut metadata = metadata.unwrap_or_else(|| json!({}));
    fields::unfold(&mut metadata);
    conversion::hide_internal(&mut metadata, object);
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": metadata,
    })
}

/// The metadata of each of `objects`, as a list with the metadata `list_metadata`.
#[must_use]
pub(crate) fn partial_object_metadata_list(
    objects: impl IntoIterator<Item: Borrow<Value>>,
    list_metadata: &Value,
    version: &str,
) -> Value {
    let items: Vec<Value> = objects
        .into_iter()
        .map(|object| partial_object_metadata(object.borrow(), version))
        .collect();
    // An empty list is null here, as upstream's encoder of a Go slice that nothing was added to.
    let items = if items.is_empty() {
        Value::Null
    } else {
        Value::Array(items)
    };
    json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": list_metadata,
        "items": items,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_metadata_is_left() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"},
        });
        let partial = json!({
            "apiVersion": "meta.k8s.io/v1beta1", "kind": "PartialObjectMetadata",
            "metadata": {"name": "a"},
        });
        assert_eq!(partial_object_metadata(&object, "v1beta1"), partial);
        let list = partial_object_metadata_list([&object], &json!({"resourceVersion": "7"}), "v1");
        assert_eq!(list["items"][0]["metadata"], json!({"name": "a"}));
        assert_eq!(list["metadata"], json!({"resourceVersion": "7"}));
        let generation = json!({"deprecated.daemonset.template.generation": "1"});
        let metadata = json!({"name": "a", "annotations": generation});
        let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata});
        let partial = partial_object_metadata(&set, "v1");
        assert_eq!(partial["metadata"], json!({"name": "a"}));
    }

    #[test]
    fn a_list_without_items_is_null() {
        let list = partial_object_metadata_list(
            Vec::<Value>::new(),
            &json!({"resourceVersion": "7"}),
            "v1",
        );
        assert_eq!(list["items"], Value::Null);
    }
}
