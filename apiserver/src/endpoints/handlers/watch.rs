//! GET of a collection, or of one object, as a stream of changes.

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};

use super::list_options::{invalid, requested_version, validate};
use super::{Answer, Request};
use crate::clock::go_seconds;
use crate::endpoints::body::ResponseBody;
use crate::endpoints::negotiation::{
    Accepted, MediaType, PROTOBUF_STREAM, Transform, accepted_stream,
};
use crate::endpoints::selectors::Selection;
use crate::endpoints::table::{IncludeObject, TableOptions};
use crate::endpoints::watch::{INITIAL_EVENTS_END, Render, Start, WatchRequest, stream};
use crate::endpoints::{partial, table};
use crate::fault::RequestFacts;
use crate::json::{Map, Value, json};
use crate::meta::GroupVersionKind;
use crate::meta::RequestedVersion;
use crate::schema;
use crate::status::{ApiError, FieldErrors, FieldPath};

/// The duration of a watch that does not end.
const ENDLESS: Duration = Duration::from_nanos(i64::MAX.cast_unsigned());

/// Serves a watch. The order of the checks is upstream's, as the first failure is reported.
pub(super) fn watch(request: &Request<'_>) -> Answer {
    let selectors = request.selectors()?;
    let timeout_seconds = request.query.integer("timeoutSeconds")?;
    let initial_events = InitialEvents::parse(request)?;
    selectors.check_fields()?;
    let selectors = match &request.info.name {
        Some(name) => selectors.and_name(name)?,
        None => selectors,
    };
    if !request.resource.has_verb("watch") && request.resource.custom.is_none() {
        return Err(ApiError::MethodNotSupported {
            resource: request.resource.gvr().group_resource(),
            action: "watch".to_owned(),
        });
    }
    let requested = request.query.get("resourceVersion").unwrap_or_default();
    let requested = requested_version(requested)?;
    let render = render(request)?;
    let accepted = accepted_stream(request.accepted)?;
    let bookmarks = request.query.flag("allowWatchBookmarks");
    let namespace = request.namespace().filter(|_| request.resource.namespaced);
    let watch = WatchRequest {
        table: request.store(false).table(),
        resource: Arc::clone(&request.resource),
        scope: selectors.scope(namespace),
        selection: Selection {
            namespace: namespace.map(str::to_owned),
            selectors,
        },
        start: initial_events.start(requested, bookmarks),
        bookmarks,
        bookmark_period: request.state.bookmark_period,
        bookmark,
        timeout: timeout(request, timeout_seconds),
        render,
        media: accepted.media,
        client: request
            .resource
            .conversion()
            .map(|_| request.state.owned_webhook_client()),
        faults: RequestFacts::of(&request.info, &request.user_agent)
            .map(|watch| (request.state.faults.clone(), watch)),
        pacer: request.state.pacer.clone(),
        meter: request.meter.clone().watch(),
    };
    let mut response = Response::new(ResponseBody::stream(stream(watch)));
    let media = match accepted.media {
        MediaType::Protobuf => PROTOBUF_STREAM,
        other => other.as_str(),
    };
    let media = HeaderValue::from_static(media);
    response.headers_mut().insert(CONTENT_TYPE, media);
    Ok(response)
}

/// The duration of the watch; a negative one ends at once.
fn timeout(request: &Request<'_>, seconds: Option<i64>) -> Duration {
    let asked = go_seconds(seconds.unwrap_or(0));
    if asked.is_zero() {
        let least = request.state.timeouts.min_watch;
        let jitter = request.state.entropy.jitter();
        return match least.is_zero() {
            true => ENDLESS,
            false => least.saturating_add(least.mul_f64(jitter)).min(ENDLESS),
        };
    }
    Duration::try_from(asked).unwrap_or(Duration::ZERO)
}

/// `sendInitialEvents`, with upstream's default where it is unset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InitialEvents {
    /// Said or assumed of a request that has `watch` set.
    Set(bool),
    /// The legacy paths know nothing of it.
    Unset,
}

impl InitialEvents {
    /// Reads the option with those that it goes together with.
    fn parse(request: &Request<'_>) -> Result<Self, ApiError> {
        let query = |key: &str| request.query.get(key).unwrap_or_default();
        let asked = request
            .query
            .get("sendInitialEvents")
            .map(|_| request.query.flag("sendInitialEvents"));
        let is_legacy = !request.query.flag("watch");
        if is_legacy {
            // Nothing in the query says that this is a watch, so it is checked as a list.
            validate(
                query("resourceVersion"),
                query("resourceVersionMatch"),
                query("continue"),
                asked.is_some(),
            )?;
            return Ok(Self::Unset);
        }
        let from_present = matches!(query("resourceVersion"), "" | "0");
        // A watch that begins with the present objects is read as if it had asked for them.
        let (asks, rv_match) = match (asked, query("resourceVersionMatch")) {
            (None, "") if from_present => (true, NOT_OLDER_THAN),
            (asked, rv_match) => (asked.is_some(), rv_match),
        };
        validate_watch(asks, rv_match, query("continue"))?;
        Ok(match asked {
            Some(asked) => Self::Set(asked),
            None if from_present => Self::Set(true),
            None => Self::Unset,
        })
    }

    /// The start of a watch from the `requested` version.
    fn start(self, requested: RequestedVersion, bookmarks: bool) -> Start {
        let present = |ends_with_bookmark| Start::Present {
            not_older_than: requested.not_older_than(),
            any: requested == RequestedVersion::Any,
            ends_with_bookmark,
        };
        match (self, requested) {
            (Self::Set(true), _) => present(bookmarks),
            (Self::Set(false) | Self::Unset, RequestedVersion::At(rv)) => Start::After(rv),
            (Self::Unset, RequestedVersion::MostRecent | RequestedVersion::Any) => present(false),
            (Self::Set(false), RequestedVersion::MostRecent | RequestedVersion::Any) => Start::Now,
        }
    }
}

const NOT_OLDER_THAN: &str = "NotOlderThan";

fn validate_watch(initial_events: bool, rv_match: &str, token: &str) -> Result<(), ApiError> {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("resourceVersionMatch");
    if initial_events && rv_match != NOT_OLDER_THAN {
        let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.forbidden(&path, detail);
    }
    if !rv_match.is_empty() {
        if !initial_events {
            let detail =
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.forbidden(&path, detail);
        }
        if rv_match != NOT_OLDER_THAN {
            errors.not_supported(&path, &rv_match.into(), &[NOT_OLDER_THAN]);
        }
        if !token.is_empty() {
            let detail = "resourceVersionMatch is forbidden when continue is provided";
            errors.forbidden(&path, detail);
        }
    }
    invalid(errors)
}

/// The object in bookmarks: an object of the kind with zero values.
fn bookmark(gvk: &GroupVersionKind) -> Value {
    let mut object = schema::builtin(gvk).map_or_else(Map::new, |kind| kind.zero());
    object.insert("kind", gvk.kind.as_str().into());
    object.insert("apiVersion", gvk.api_version().into());
    object.insert("metadata", json!({}));
    Value::Object(object)
}

fn render(request: &Request<'_>) -> Result<Option<Render>, ApiError> {
    let Accepted {
        version, transform, ..
    } = request.accepted;
    let named = |options: &str, show| Render {
        name: format!(
            "{transform:?} {version} {:?} {options}",
            request.resource.gvr()
        ),
        clock: request.state.clock.clone(),
        show,
    };
    Ok(match transform {
        Transform::None => None,
        Transform::PartialObjectMetadata => Some(named(
            "",
            Box::new(move |object, _, _| Some(partial::partial_object_metadata(object, version))),
        )),
        // No event is a list.
        Transform::PartialObjectMetadataList => Some(named("", Box::new(|_, _, _| None))),
        Transform::Table => {
            let options = request.table_options()?;
            let resource = Arc::clone(&request.resource);
            let show = move |object: &Value, now, first| {
                let ends = !object["metadata"]["annotations"][INITIAL_EVENTS_END].is_null();
                let include_object = match options.include_object {
                    IncludeObject::None if ends => IncludeObject::Metadata,
                    asked => asked,
                };
                let options = TableOptions {
                    now,
                    column_definitions: first,
                    include_object,
                    ..options
                };
                Some(table::table_of_one(&resource, object, options))
            };
            let name = format!("{:?}", options.include_object);
            Some(named(&name, Box::new(show)))
        }
    })
}
