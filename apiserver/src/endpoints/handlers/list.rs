//! GET of a collection: a snapshot, filtered, in pages of one version.

use std::sync::Arc;

use serde_json::{Value, json};

use super::continue_token::ContinueToken;
use super::list_body::ListBody;
use super::list_options::{ListOptions, ReadAt};
use super::{Answer, Request};
use crate::endpoints::compression::accepts_gzip;
use crate::endpoints::negotiation::Transform;
use crate::endpoints::watch::expired;
use crate::endpoints::{partial, response, table};
use crate::meta::object::name;
use crate::meta::selector::{FieldSelector, LabelSelector};
use crate::meta::validation::{dns1123_label, path_segment_name};
use crate::metrics::Listed;
use crate::registry::catalog::ResourceInfo;
use crate::status::ApiError;
use crate::storage::{ObjectKey, ResourceVersion, Snapshot, StoredObject, WindowError};
use crate::{cancellation, nesting};

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

    /// Reads the selectors of a request, and before them its numbers, as upstream does.
    pub(super) fn read(request: &Request<'_>) -> Result<Self, ApiError> {
        request.query.integer("timeoutSeconds")?;
        request.query.integer("limit")?;
        let query = |key: &str| request.query.get(key).unwrap_or_default();
        let (label, field) = (query("labelSelector"), query("fieldSelector"));
        Self::parse(label, field, Arc::clone(&request.resource))
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
    pub(super) fn check_fields(&self, request: &Request<'_>) -> Result<(), ApiError> {
        let resource = &request.resource;
        match self
            .field
            .fields()
            .find(|field| !resource.selects_by(field))
        {
            Some(unknown) => Err(ApiError::BadRequest(resource.field_label_error(unknown))),
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

    fn is_everything(&self) -> bool {
        self.label.is_everything() && self.field.is_everything()
    }

    /// The paths of the fields that [`Self::select`] reads.
    fn paths(&self) -> Vec<&str> {
        let fields = self.field.fields().flat_map(|field| match field {
            "source" => ["source", "reportingComponent"],
            "spec.host" => ["spec.nodeName", "metadata.name"],
            field => [field, "metadata.name"],
        });
        fields.chain(["metadata.name", "metadata.labels"]).collect()
    }

    /// Whether the object is in the namespace (any for `None`) and selected.
    pub(crate) fn matches(&self, namespace: Option<&str>, object: &StoredObject) -> bool {
        let in_namespace = namespace.is_none_or(|namespace| object.key.is_in_namespace(namespace));
        in_namespace && self.select(object)
    }

    fn select(&self, object: &StoredObject) -> bool {
        if self.name.is_none() && self.is_everything() {
            return true;
        }
        let object = &*match self.resource.shows_as_stored() {
            true => object.fields(&self.paths()),
            false => object.value(),
        };
        let object = &*self.resource.shown(object);
        let labels = &object["metadata"]["labels"];
        self.name
            .as_deref()
            .is_none_or(|wanted| name(object) == wanted)
            && (self.label.is_everything() || self.label.matches(labels))
            && (self.field.is_everything()
                || self.field.matches(|field| Some(field_value(object, field))))
    }
}

/// The value of a selectable field as text; absent booleans and numbers have their zero value.
fn field_value(object: &Value, field: &str) -> String {
    let value = match field {
        "source" => match &object["source"]["component"] {
            Value::Null => &object["reportingComponent"],
            component => component,
        },
        "status.successful" => &object["status"]["succeeded"],
        // The field's name before v1, which old clients send.
        "spec.host" => &object["spec"]["nodeName"],
        // The label is known, and no pod has a value for it.
        "status.podIPs" => &Value::Null,
        _ => field.split('.').fold(object, |value, part| &value[part]),
    };
    match value {
        Value::String(text) => text.clone(),
        Value::Null if matches!(field, "spec.hostNetwork" | "spec.unschedulable") => {
            "false".to_owned()
        }
        Value::Null if matches!(field, "status.replicas" | "status.successful") => "0".to_owned(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// One page of a collection.
pub(super) struct Page {
    pub(super) objects: Vec<Arc<StoredObject>>,
    rv: ResourceVersion,
    next: Option<String>,
    remaining: Option<usize>,
}

/// The query of a list.
pub(super) struct ListQuery {
    selectors: Selectors,
    options: ListOptions,
}

impl ListQuery {
    /// Reads and checks the query of a list.
    pub(super) fn parse(request: &Request<'_>) -> Result<Self, ApiError> {
        let selectors = Selectors::read(request)?;
        let options = ListOptions::parse(request)?;
        selectors.check_fields(request)?;
        Ok(Self { selectors, options })
    }

    /// The one object that can be selected, where its name and namespace are given.
    fn single(&self, request: &Request<'_>) -> Option<ObjectKey> {
        if self.options.continues() {
            return None;
        }
        let exact = |field: &str| self.selectors.field.requires_exact_match(field);
        let name = exact("metadata.name").filter(|name| path_segment_name(name).is_empty())?;
        if !request.resource.namespaced {
            return Some(ObjectKey::new(None, name));
        }
        let selected = exact("metadata.namespace").filter(|name| dns1123_label(name).is_empty());
        let namespace = request.namespace().or(selected)?;
        Some(ObjectKey::new(Some(namespace), name))
    }
}

pub(super) fn list(request: &Request<'_>) -> Answer {
    let page = page(request, &ListQuery::parse(request)?)?;
    answer(request, &page)
}

/// Reads the page that the request asks for.
pub(super) fn page(request: &Request<'_>, query: &ListQuery) -> Result<Page, ApiError> {
    let ListQuery { selectors, options } = query;
    let namespace = request.namespace().filter(|_| request.resource.namespaced);
    let single = query.single(request);
    let read_at = options.read_at(single.is_none())?;
    let snapshot = snapshot(request, &read_at, options.asks_for_latest())?;
    let store = request.store(false);
    let listed = |fetched: usize, returned: usize| {
        let is_consistent = options.asks_for_latest() && !options.continues();
        let awaits_version = match read_at {
            ReadAt::NotOlderThan(rv) => rv > ResourceVersion::ZERO || is_consistent,
            _ => false,
        };
        let listed = Listed {
            fetched,
            returned,
            is_consistent,
            awaits_version,
        };
        if request.resource.strategy().is_stored() {
            let _ = request.listed.set(listed);
        }
    };
    let mut page = Page {
        objects: Vec::new(),
        rv: snapshot.rv,
        next: None,
        remaining: None,
    };
    if let Some(key) = single {
        let found = snapshot.get(&key).filter(|object| selectors.select(object));
        page.objects
            .extend(found.map(|object| store.shown(Arc::clone(object))));
        listed(page.objects.len(), page.objects.len());
        return Ok(page);
    }
    let limit = options.page_size();
    let start = match &read_at {
        ReadAt::Continue(token) => Some(token.start(namespace)),
        _ => None,
    };
    let mut fetched = 0;
    let mut rest = snapshot.range(namespace, start.as_ref());
    while let Some(object) = rest.next() {
        cancellation::check()?;
        fetched += 1;
        if !selectors.select(object) {
            continue;
        }
        page.objects.push(store.shown(Arc::clone(object)));
        if limit > 0 && page.objects.len() == limit {
            // The remaining objects count, selected or not: they have not been inspected yet.
            let behind = rest.count();
            if behind > 0 {
                let token = ContinueToken::after(snapshot.rv, &object.key, namespace);
                page.next = Some(token.encode());
                page.remaining = selectors.is_everything().then_some(behind);
            }
            break;
        }
    }
    listed(fetched, page.objects.len());
    Ok(page)
}

fn snapshot(request: &Request<'_>, read_at: &ReadAt, latest: bool) -> Result<Snapshot, ApiError> {
    let table = request.store(false).table();
    match read_at {
        ReadAt::Continue(token) => {
            // A token without a version continues at whatever version there is.
            let Some(rv) = token.rv() else {
                return Ok(table.snapshot());
            };
            table.snapshot_at(rv).map_err(|error| match error {
                WindowError::Future { .. } => expired(rv, error),
                WindowError::Expired { .. } => ApiError::ExpiredContinue {
                    message: "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.".to_owned(),
                    next: token.inconsistent().encode(),
                },
            })
        }
        ReadAt::Exact(rv) => table.snapshot_at(*rv).map_err(|error| match error {
            WindowError::Future { .. } => expired(*rv, error),
            WindowError::Expired { .. } => ApiError::Expired(
                "The resourceVersion for the provided list is too old.".to_owned(),
            ),
        }),
        ReadAt::NotOlderThan(rv) => {
            let lag = match latest {
                true => 0,
                false => request.view().lag,
            };
            let snapshot = match lag {
                0 => table.snapshot(),
                lag => table.snapshot_behind(lag),
            };
            if *rv > snapshot.rv {
                let current = snapshot.rv;
                return Err(expired(*rv, WindowError::Future { current }));
            }
            Ok(snapshot)
        }
    }
}

/// A response with a page in the negotiated representation.
pub(super) fn answer(request: &Request<'_>, page: &Page) -> Answer {
    let mut metadata = json!({ "resourceVersion": page.rv.to_string() });
    if request.resource.custom.is_some() && request.accepted.transform == Transform::None {
        // A list without a Go type has no field that is left out when it is empty.
        metadata["continue"] = "".into();
    }
    if let Some(next) = &page.next {
        metadata["continue"] = next.as_str().into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    let accepted = request.accepted;
    let values = || page.objects.iter().map(|object| object.value());
    match accepted.transform {
        Transform::None => match ListBody::new(request, page, &metadata) {
            Some(body) => Ok(body.response(200, accepted, accepts_gzip(&request.headers))),
            None => {
                let body = ListBody::json(request, page, &metadata).joined();
                let list: Value = nesting::from_own(&body).expect("items are valid JSON");
                Ok(response::value(200, &list, accepted))
            }
        },
        Transform::Table => {
            let options = request.table_options()?;
            let list = table::table(&request.resource, values(), &metadata, options);
            Ok(response::value(200, &list, accepted))
        }
        Transform::PartialObjectMetadata => {
            Err(request.misfit("PartialObjectMetadata", "is a list", "List"))
        }
        Transform::PartialObjectMetadataList => {
            let list = partial::partial_object_metadata_list(values(), &metadata, accepted.version);
            Ok(response::value(200, &list, accepted))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_fields_are_selected_by_another_name_than_they_have() {
        let job = json!({ "status": { "succeeded": 2 } });
        assert_eq!(field_value(&job, "status.successful"), "2");
        assert_eq!(field_value(&json!({}), "status.successful"), "0");
        let event = json!({ "source": {}, "reportingComponent": "c" });
        assert_eq!(field_value(&event, "source"), "c");
        let event = json!({ "source": { "component": "d" }, "reportingComponent": "c" });
        assert_eq!(field_value(&event, "source"), "d");
        let pod = json!({ "status": { "podIPs": [{ "ip": "10.0.0.1" }] } });
        assert_eq!(field_value(&pod, "status.podIPs"), "");
    }
}
