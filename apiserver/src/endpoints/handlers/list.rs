//! GET of a collection: a snapshot, filtered, in pages of one version.

use std::sync::Arc;

use super::continue_token::ContinueToken;
use super::list_body::ListBody;
use super::list_options::{ListOptions, ReadAt};
use super::page::Page;
use super::{Answer, Request};
use crate::endpoints::compression::accepts_gzip;
use crate::endpoints::negotiation::Transform;
use crate::endpoints::selectors::Selectors;
use crate::endpoints::watch::expired;
use crate::endpoints::{partial, response, table};
use crate::json::{Value, json};
use crate::meta::ResourceVersion;
use crate::metrics::Listed;
use crate::status::ApiError;
use crate::storage::{ObjectKey, Snapshot, WindowError};
use crate::{cancellation, nesting};

/// The query of a list.
pub(super) struct ListQuery {
    selectors: Selectors,
    options: ListOptions,
}

impl ListQuery {
    /// Reads and checks the query of a list.
    pub(super) fn parse(request: &Request<'_>) -> Result<Self, ApiError> {
        let selectors = request.selectors()?;
        let options = ListOptions::parse(request)?;
        selectors.check_fields()?;
        Ok(Self { selectors, options })
    }

    /// The one object that can be selected, where its name and namespace are given.
    fn single(&self, request: &Request<'_>) -> Option<ObjectKey> {
        match self.options.continues() {
            true => None,
            false => self.selectors.single(request.namespace()),
        }
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
            table.snapshot_at_version(rv).map_err(|error| match error {
                WindowError::Future { .. } => expired(rv, error),
                WindowError::Expired { .. } => ApiError::ExpiredContinue {
                    message: "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.".to_owned(),
                    next: token.inconsistent().encode(),
                },
            })
        }
        ReadAt::Exact(rv) => table.snapshot_at_version(*rv).map_err(|error| match error {
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
