//! GET of a collection, or of one object, as a stream of changes.

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};

use super::list::Selectors;
use super::list_options::{invalid, storage_rv};
use super::{Answer, Request};
use crate::endpoints::body::ResponseBody;
use crate::endpoints::negotiation::{MediaType, Transform};
use crate::endpoints::table::TableOptions;
use crate::endpoints::watch::{Render, WatchRequest, stream};
use crate::endpoints::{partial, table};
use crate::meta::GroupVersionKind;
use crate::status::{ApiError, FieldErrors, FieldPath};

/// How long a watch lasts unless the client says: upstream draws between 30 and 60 minutes.
const TIMEOUT: Duration = Duration::from_secs(45 * 60);

pub(super) fn watch(request: &Request<'_>) -> Answer {
    let mut selectors = Selectors::parse(request)?;
    if let Some(name) = &request.info.name {
        selectors = selectors.and_name(name);
    }
    let send_initial_events = initial_events(request)?;
    let rv = storage_rv(request.query.get("resourceVersion").unwrap_or_default())?;
    let table = request.store(false).table();
    let namespace = request.namespace().filter(|_| request.resource.namespaced);
    // From a version on: no initial events. From unset or 0: the present state first.
    let from_present = matches!(rv, None | Some(0)) || send_initial_events == Some(true);
    let (rv, initial) = if from_present {
        let snapshot = table.snapshot();
        let wanted = send_initial_events != Some(false);
        let initial = snapshot
            .range(namespace, None)
            .filter(|object| wanted && selectors.matches(namespace, object))
            .cloned()
            .collect();
        (snapshot.rv, initial)
    } else {
        (rv.unwrap_or_default(), Vec::new())
    };
    let timeout = match request.query.integer("timeoutSeconds")? {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs()),
        _ => TIMEOUT,
    };
    let bookmarks = request.query.flag("allowWatchBookmarks");
    let watch = WatchRequest {
        table,
        gvk: bookmark_kind(request),
        namespace: namespace.map(str::to_owned),
        selectors,
        rv,
        initial,
        ends_initial_events: send_initial_events == Some(true) && bookmarks,
        bookmarks,
        timeout,
        render: render(request)?,
    };
    let mut response = Response::new(ResponseBody::stream(stream(watch)));
    let media = HeaderValue::from_static(MediaType::Json.as_str());
    response.headers_mut().insert(CONTENT_TYPE, media);
    Ok(response)
}

/// `sendInitialEvents`, with what must come along with it.
fn initial_events(request: &Request<'_>) -> Result<Option<bool>, ApiError> {
    let rv_match = request
        .query
        .get("resourceVersionMatch")
        .unwrap_or_default();
    let asked = request
        .query
        .get("sendInitialEvents")
        .filter(|value| !value.is_empty());
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("resourceVersionMatch");
    if asked.is_some() {
        if rv_match != "NotOlderThan" {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.forbidden(&path, detail);
        }
    } else if !rv_match.is_empty() {
        let detail =
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        errors.forbidden(&path, detail);
    }
    invalid(errors)?;
    Ok(asked.map(|_| request.query.flag("sendInitialEvents")))
}

/// The kind of bookmarks: that of the objects, as they are shown.
fn bookmark_kind(request: &Request<'_>) -> GroupVersionKind {
    match request.accepted.transform {
        Transform::None | Transform::Table => request.resource.gvk().clone(),
        Transform::PartialObjectMetadata | Transform::PartialObjectMetadataList => {
            GroupVersionKind {
                group: "meta.k8s.io".to_owned(),
                version: request.accepted.version.to_owned(),
                kind: "PartialObjectMetadata".to_owned(),
            }
        }
    }
}

fn render(request: &Request<'_>) -> Result<Option<Render>, ApiError> {
    let version = request.accepted.version;
    let resource = Arc::clone(&request.resource);
    let render: Option<Render> = match request.accepted.transform {
        Transform::None if resource.is_converted() => Some(Arc::new(move |object, _| {
            resource.shown(&object.value).into_owned()
        })),
        Transform::None => None,
        Transform::PartialObjectMetadata | Transform::PartialObjectMetadataList => {
            Some(Arc::new(move |object, _| {
                partial::partial_object_metadata(&resource.shown(&object.value), version)
            }))
        }
        Transform::Table => {
            let options = request.table_options()?;
            let clock = request.core.clock.clone();
            Some(Arc::new(move |object, first| {
                let options = TableOptions {
                    now: clock.now(),
                    column_definitions: first,
                    ..options
                };
                table::table_of_one(&resource, &resource.shown(&object.value), options)
            }))
        }
    };
    Ok(render)
}
