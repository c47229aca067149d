//! The objects that a list or watch selects.

use std::fmt;
use std::sync::Arc;

use crate::json::Value;
use crate::meta::selector::{FieldSelector, LabelSelector};
use crate::meta::validation::{dns1123_label, path_segment_name};
use crate::registry::catalog::ResourceInfo;
use crate::status::ApiError;
use crate::storage::{Filter, ObjectKey, StoredObject};

/// The selection of objects in a collection by a request.
pub(crate) struct Selectors {
    label: LabelSelector,
    field: FieldSelector,
    /// Only the object of this name: a watch of one object.
    name: Option<String>,
    /// The resource of the objects, in whose version they are selected.
    resource: Arc<ResourceInfo>,
}

impl Selectors {
    /// Narrowed to the object called `name`, for a watch of one object.
    ///
    /// # Errors
    /// `BadRequest` when the field selector means anything else.
    pub(super) fn and_name(self, name: &str) -> Result<Self, ApiError> {
        let says = self.field.requires_exact_match("metadata.name");
        if !self.field.is_everything() && says != Some(name) {
            return Err(ApiError::BadRequest(
                "fieldSelector metadata.name doesn't match requested name".to_owned(),
            ));
        }
        Ok(Self {
            name: Some(name.to_owned()),
            ..self
        })
    }

    /// Parses selectors of objects of `resource`; empty ones select every object.
    ///
    /// # Errors
    /// `BadRequest`.
    pub(crate) fn parse(
        label: &str,
        field: &str,
        resource: Arc<ResourceInfo>,
    ) -> Result<Self, ApiError> {
        let label =
            LabelSelector::parse(label).map_err(|error| ApiError::BadRequest(error.to_string()))?;
        let field =
            FieldSelector::parse(field).map_err(|error| ApiError::BadRequest(error.to_string()))?;
        Ok(Self {
            label,
            field,
            name: None,
            resource,
        })
    }

    /// Whether the kind can be selected by the fields named.
    ///
    /// # Errors
    /// `BadRequest`, which names the first that it cannot be selected by.
    pub(super) fn check_fields(&self) -> Result<(), ApiError> {
        let mut fields = self.field.fields();
        match fields.find(|field| !self.resource.selects_by(field)) {
            Some(unknown) => Err(ApiError::BadRequest(
                self.resource.field_label_error(unknown),
            )),
            None => Ok(()),
        }
    }

    /// The scope of the selection, as metrics call it: one name, one namespace, or the cluster.
    pub(super) fn scope(&self, namespace: Option<&str>) -> &'static str {
        let exact = |field: &str| self.field.requires_exact_match(field);
        let has_name = self.name.is_some() || exact("metadata.name").is_some();
        match namespace.or(exact("metadata.namespace")) {
            _ if has_name => "resource",
            Some(_) => "namespace",
            None => "cluster",
        }
    }

    /// Whether every object is selected.
    pub(super) fn is_everything(&self) -> bool {
        self.name.is_none() && self.label.is_everything() && self.field.is_everything()
    }

    /// The one object of `namespace` (of all for `None`) that can be selected, if its name and
    /// namespace are given.
    pub(super) fn single(&self, namespace: Option<&str>) -> Option<ObjectKey> {
        let exact = |field: &str| self.field.requires_exact_match(field);
        let name = self.name.as_deref().or_else(|| exact("metadata.name"));
        let name = name.filter(|name| path_segment_name(name).is_empty())?;
        if !self.resource.namespaced {
            return Some(ObjectKey::new(None, name));
        }
        let selected = exact("metadata.namespace").filter(|name| dns1123_label(name).is_empty());
        let namespace = namespace.or(selected)?;
        Some(ObjectKey::new(Some(namespace), name))
    }

    /// Whether the object is selected. Name, namespace and labels are known without its value; other
    /// fields are read from the value once, and then known, too.
    pub(super) fn select(&self, object: &StoredObject) -> bool {
        let (_, name) = object.key.parts();
        let is_named = self.name.as_deref().is_none_or(|wanted| wanted == name);
        is_named && self.selects_labels(object) && self.selects_fields(object)
    }

    fn selects_labels(&self, object: &StoredObject) -> bool {
        if self.label.is_everything() {
            return true;
        }
        if self.resource.conversion().is_none() {
            return self.label.matches_by(|key| object.label(key));
        }
        // A webhook may change labels, too.
        let value = object.value();
        let shown = self.resource.shown(&value);
        self.label.matches(&shown["metadata"]["labels"])
    }

    fn selects_fields(&self, object: &StoredObject) -> bool {
        let (namespace, name) = object.key.parts();
        self.field.matches(|field| match field {
            "metadata.name" => name.into(),
            "metadata.namespace" => namespace.unwrap_or_default().into(),
            field if self.resource.shows_as_stored() => {
                let known = object.selectable(field, |object| self.read_fields(object));
                let other = || self.field_value(&object.fields(&self.paths(field)), field);
                known.map_or_else(|| other().into(), Into::into)
            }
            field => {
                let value = object.value();
                self.field_value(&self.resource.shown(&value), field).into()
            }
        })
    }

    /// The selectable fields of an object that is shown as it is stored, but name and namespace.
    fn read_fields(&self, object: &StoredObject) -> Vec<(&str, String)> {
        let labels = self.resource.field_labels().iter().map(String::as_str);
        let labels = labels.filter(|label| !label.starts_with("metadata."));
        let read: Vec<&str> = labels.clone().flat_map(|label| self.paths(label)).collect();
        let value = object.fields(&read);
        labels
            .map(|label| (label, self.field_value(&value, label)))
            .collect()
    }

    /// The paths from which [`Self::field_value`] reads a selectable field.
    fn paths<'f>(&self, field: &'f str) -> Vec<&'f str> {
        match self.resource.strategy().selectable_field(field) {
            Some(own) => own.paths.to_vec(),
            None => vec![field],
        }
    }

    /// The value of a selectable field as text.
    fn field_value(&self, object: &Value, field: &str) -> String {
        let own = self.resource.strategy().selectable_field(field);
        let default = own.map_or("", |own| own.default);
        let at = |path: &str| path.split('.').fold(object, |value, part| &value[part]);
        let paths = self.paths(field).into_iter();
        match paths.map(at).find(|value| !value.is_null()) {
            None => default.to_owned(),
            Some(Value::String(text)) => text.to_string(),
            Some(other) => other.to_string(),
        }
    }
}

/// The objects that a watch is about.
pub(crate) struct Selection {
    /// `None` for all namespaces.
    pub(crate) namespace: Option<String>,
    pub(crate) selectors: Selectors,
}

impl Selection {
    /// Whether every object of the resource is selected.
    pub(super) fn is_everything(&self) -> bool {
        self.namespace.is_none() && self.selectors.is_everything()
    }

    /// Whether objects are selected by what is stored, which needs no call of a webhook.
    pub(super) fn reads_stored(&self) -> bool {
        self.selectors.resource.conversion().is_none()
    }
}

impl Filter for Selection {
    fn name(&self) -> String {
        let Selectors {
            label,
            field,
            name,
            resource,
        } = &self.selectors;
        let namespace = &self.namespace;
        let version = &resource.gvr().version;
        let group = &resource.gvr().group;
        format!(
            "{group}/{version} {namespace:?} {name:?} {:?} {:?}",
            label.to_string(),
            field.to_string()
        )
    }

    fn key(&self) -> Option<ObjectKey> {
        self.selectors.single(self.namespace.as_deref())
    }

    fn selects(&self, object: &StoredObject) -> bool {
        let namespace = self.namespace.as_deref();
        let in_namespace = namespace.is_none_or(|namespace| object.key.is_in_namespace(namespace));
        in_namespace && self.selectors.select(object)
    }
}

impl fmt::Debug for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Selection").field(&self.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;
    use crate::registry::catalog::Catalog;

    #[test]
    fn some_fields_are_selected_by_another_name_than_they_have() {
        let value = |group: &str, plural: &str, object: Value, field: &str| {
            let resource = Catalog::builtin().resource(group, "v1", plural).unwrap();
            let selectors = Selectors::parse("", "", Arc::clone(resource)).unwrap();
            selectors.field_value(&object, field)
        };
        let job = json!({ "status": { "succeeded": 2 } });
        assert_eq!(value("batch", "jobs", job, "status.successful"), "2");
        assert_eq!(value("batch", "jobs", json!({}), "status.successful"), "0");
        let event = json!({ "source": {}, "reportingComponent": "c" });
        assert_eq!(value("", "events", event, "source"), "c");
        let event = json!({ "source": { "component": "d" }, "reportingComponent": "c" });
        assert_eq!(value("", "events", event, "source"), "d");
        let pod =
            json!({ "spec": { "nodeName": "n" }, "status": { "podIPs": [{ "ip": "10.0.0.1" }] } });
        assert_eq!(value("", "pods", pod.clone(), "status.podIPs"), "");
        assert_eq!(value("", "pods", pod.clone(), "spec.host"), "n");
        assert_eq!(value("", "pods", pod, "spec.hostNetwork"), "false");
    }
}
