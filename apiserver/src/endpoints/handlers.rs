//! Handlers, one file for each verb. A handler decides nothing about kinds: it reads the request,
//! calls the store, and makes the response.

mod apply;
mod binding;
mod connect;
mod continue_token;
mod create;
mod custom;
mod decode;
mod delete;
mod delete_collection;
mod eviction;
mod finalize;
mod get;
mod kubelet;
pub(crate) mod list;
mod list_body;
mod list_options;
mod metrics;
mod named_create;
mod owner_references;
mod page;
mod part;
mod patch;
mod port_forward;
mod proxy;
mod remote_command;
mod renewal;
mod review;
mod scale;
mod subresource;
mod token;
mod update;
mod watch;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Response};
use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;

use super::body::ResponseBody;
use super::negotiation::{self, Accepted, ContentType, Produces, Transform, content_type};
use super::selectors::Selectors;
use super::table::{IncludeObject, TableOptions};
use super::{partial, response, table};
use crate::audit::Record;
use crate::auth::{RequestAttributes, User};
use crate::endpoints::State;
use crate::fault::{RequestFacts, View};
use crate::field_manager::{FieldManager, Writer};
use crate::json::Value;
use crate::meta::GroupVersionKind;
use crate::metrics::{Listed, RequestMeter};
use crate::nesting;
use crate::patch::PatchType;
use crate::registry::apiextensions::custom_resource::{Conversion, CustomResource};
use crate::registry::catalog::ResourceInfo;
use crate::registry::rest::{CreateRest, ReadRest};
use crate::request::options::Query;
use crate::request::{RequestInfo, Verb};
use crate::schema::scheme;
use crate::status::ApiError;
use crate::storage::StoredObject;
use crate::store::{Store, WriteResult};
use crate::webhook::{WebhookCalls, conversion};

/// Whether the work of a request may need a stack for deeply nested documents.
pub(crate) fn may_nest(headers: &HeaderMap, info: &RequestInfo, body: &[u8]) -> bool {
    if body.is_empty() {
        return false;
    }
    if info.verb == Some(Verb::Patch) {
        return match PatchType::of(headers) {
            Ok(PatchType::Json) => nesting::may_deepen(body),
            Ok(PatchType::Merge | PatchType::StrategicMerge) => nesting::is_deep_json(body),
            Ok(PatchType::Apply) => nesting::may_nest_yaml(body),
            Err(_) => false,
        };
    }
    match content_type(headers) {
        Ok(ContentType::Json) => nesting::is_deep_json(body),
        Ok(ContentType::Yaml) => nesting::may_nest_yaml(body),
        Ok(ContentType::Protobuf) => nesting::may_nest_protobuf(body),
        Err(_) => false,
    }
}

/// The result of a handler: a response, or an error that becomes a `Status`.
pub(crate) type Answer = Result<Response<ResponseBody>, ApiError>;

/// A request for a resource, read and not yet answered.
pub(crate) struct Request<'a> {
    pub(crate) state: &'a State,
    pub(crate) info: RequestInfo,
    pub(crate) resource: Arc<ResourceInfo>,
    pub(crate) query: Query,
    pub(crate) user: Arc<User>,
    pub(crate) headers: HeaderMap,
    pub(crate) user_agent: Arc<str>,
    pub(crate) body: Bytes,
    pub(crate) accepted: Accepted,
    /// The connection, if the client may ask for another protocol on it.
    pub(crate) upgrade: Mutex<Option<OnUpgrade>>,
    /// Texts for `Warning` headers, in the order they came up.
    pub(crate) warnings: Mutex<Vec<String>>,
    /// The meter of the request.
    pub(crate) meter: RequestMeter,
    /// The nanoseconds spent waiting for admission webhooks.
    pub(crate) webhooks: AtomicU64,
    /// The calls of admission webhooks.
    pub(crate) calls: Arc<WebhookCalls>,
    /// The record of the request, if it is audited.
    pub(crate) audit: Option<Arc<Record>>,
    /// The counts behind a list, for its metrics.
    pub(crate) listed: OnceLock<Listed>,
}

impl Request<'_> {
    /// The view of the server that faults give this list.
    fn view(&self) -> View {
        let faults = &self.state.faults;
        if faults.is_idle() {
            return View::default();
        }
        let asked = RequestFacts::of(&self.info, &self.user_agent);
        asked.map_or_else(View::default, |asked| faults.view(&asked))
    }

    fn store(&self, dry_run: bool) -> Store<'_> {
        let strategy = self.resource.strategy();
        let subresource = self.info.subresource.as_deref();
        let of_subresource = subresource.and_then(|name| strategy.subresource(name));
        Store {
            state: self.state,
            resource: &self.resource,
            strategy: of_subresource.unwrap_or(strategy),
            user_agent: &self.user_agent,
            writer: Some(self.writer()),
            warnings: Some(&self.warnings),
            guards_uid: self.info.verb != Some(Verb::Patch),
            dry_run,
            request_attributes: Some(self.request_attributes()),
            view: None,
        }
    }

    /// The store of the resource for objects that come with their managed fields, and the manager that sets these.
    fn store_and_manager(&self, dry_run: bool) -> (Store<'_>, FieldManager) {
        let store = self.store(dry_run);
        let manager = store.field_manager().expect("every request has a writer");
        let store = Store {
            writer: None,
            ..store
        };
        (store, manager)
    }

    /// The store of the resource, for a DELETE with these options in its body.
    fn store_for_deletion<'a>(&'a self, dry_run: bool, options: Option<&'a Value>) -> Store<'a> {
        let request_attributes = RequestAttributes {
            delete_options: options,
            ..self.request_attributes()
        };
        Store {
            request_attributes: Some(request_attributes),
            ..self.store(dry_run)
        }
    }

    /// The definition of `gvk`, if that is the requested custom kind.
    fn custom(&self, gvk: &GroupVersionKind) -> Option<&CustomResource> {
        let custom = self.resource.custom.as_deref();
        custom.filter(|custom| custom.gvk == *gvk)
    }

    /// The representation of a failure.
    pub(crate) fn accepted_failure(&self) -> Accepted {
        negotiation::accepted_failure(&self.headers, self.query.get("pretty"))
    }

    /// The facts of the request that admission webhooks see.
    fn request_attributes(&self) -> RequestAttributes<'_> {
        RequestAttributes {
            user: &self.user,
            verb: self.info.verb.map_or("", Verb::as_str),
            query: &self.query,
            namespace: self.namespace().unwrap_or_default(),
            name: self.name(),
            subresource: self.info.subresource.as_deref().unwrap_or_default(),
            kind: self.resource.gvk(),
            delete_options: None,
            audit: self.audit.as_deref(),
            waited: &self.webhooks,
            calls: &self.calls,
        }
    }

    fn writer(&self) -> Writer<'_> {
        Writer {
            field_manager: self.query.get("fieldManager").unwrap_or_default(),
            user_agent: &self.user_agent,
            subresource: self.info.subresource.as_deref().unwrap_or_default(),
        }
    }

    /// Reads the selectors of a list or watch, and before them its numbers, as upstream does.
    fn selectors(&self) -> Result<Selectors, ApiError> {
        self.query.integer("timeoutSeconds")?;
        self.query.integer("limit")?;
        let query = |key: &str| self.query.get(key).unwrap_or_default();
        let (label, field) = (query("labelSelector"), query("fieldSelector"));
        Selectors::parse(label, field, Arc::clone(&self.resource))
    }

    fn namespace(&self) -> Option<&str> {
        self.info.namespace.as_deref()
    }

    fn name(&self) -> &str {
        self.info.name.as_deref().unwrap_or_default()
    }

    fn warn(&self, warning: String) {
        self.warnings.lock().push(warning);
    }

    /// A stored object in the version of the request.
    async fn converted(&self, stored: &Value) -> Result<Value, ApiError> {
        loop {
            let misses = self.resource.conversion().map(Conversion::misses);
            let shown = self.resource.shown(stored).into_owned();
            match self.resource.conversion() {
                Some(conversion) if Some(conversion.misses()) != misses => {
                    let client = self.state.webhook_client();
                    conversion::fill(conversion, &client, Some(&self.calls)).await?;
                }
                _ => return Ok(shown),
            }
        }
    }

    /// A response with a stored object in the negotiated representation.
    fn object(&self, code: u16, object: &StoredObject) -> Answer {
        match self.accepted.transform {
            Transform::None => Ok(response::stored(code, object, self.accepted)),
            _ => self.value(code, &object.value()),
        }
    }

    /// The error for a client that asked for a list of one object, or for one object of a list.
    fn misfit(&self, asked: &str, what: &str, suffix: &str) -> ApiError {
        let gvk = self.resource.gvk();
        if self.resource.custom.is_some() {
            return ApiError::NotAcceptableKind(format!(
                "you requested {asked}, but the requested object {what} (*unstructured.Unstructured{suffix})"
            ));
        }
        let package = scheme::package(&gvk.group);
        ApiError::NotAcceptableKind(format!(
            "you requested {asked}, but the requested object {what} (*{package}.{}{suffix})",
            gvk.kind
        ))
    }

    fn patch_type(&self) -> Result<PatchType, ApiError> {
        PatchType::of(&self.headers)
    }

    /// Whether a patch is a dry run; the audit record notes it from here on.
    fn patch_options(&self, patch_type: PatchType) -> Result<bool, ApiError> {
        let dry_run = self.query.patch_options(patch_type)?;
        if let Some(record) = &self.audit {
            record.request_patch(&self.body);
        }
        Ok(dry_run)
    }

    /// The options of a table response.
    fn table_options(&self) -> Result<TableOptions<'static>, ApiError> {
        let include = self.query.get("includeObject").unwrap_or_default();
        Ok(TableOptions {
            include_object: IncludeObject::parse(include)?,
            version: self.accepted.version,
            ..TableOptions::new(self.state.clock.now())
        })
    }

    fn written(&self, code: u16, written: &WriteResult) -> Answer {
        match written {
            WriteResult::Stored(object) => self.object(code, object),
            WriteResult::Unstored(value) => self.value(code, value),
        }
    }

    /// A response with an object that is not stored in this form, in the negotiated representation.
    fn value(&self, code: u16, object: &Value) -> Answer {
        self.value_of(&self.resource, code, object)
    }

    /// Answers an object, in a table with the columns of `kind`.
    fn value_of(&self, kind: &ResourceInfo, code: u16, object: &Value) -> Answer {
        let transformed = match self.accepted.transform {
            Transform::None => return Ok(response::value(code, object, self.accepted)),
            Transform::Table => table::table_of_one(kind, object, self.table_options()?),
            Transform::PartialObjectMetadataList => {
                return Err(self.misfit("PartialObjectMetadataList", "is not a list", ""));
            }
            Transform::PartialObjectMetadata => {
                partial::partial_object_metadata(object, self.accepted.version)
            }
        };
        Ok(response::value(code, &transformed, self.accepted))
    }
}

/// Answers a request for a resource.
///
/// # Errors
/// The refusal of the verb; `MethodNotAllowed` and `NoSuchPath` for a route that is not served.
pub(crate) async fn handle(request: &Request<'_>) -> Answer {
    if request.resource.custom.is_some() {
        custom::check(request)?;
    }
    let read = request.resource.strategy().read_rest();
    if read != ReadRest::Store {
        return metrics::answer(request, read);
    }
    let verb = route(&request.info, &request.resource, &request.query)?;
    // The whole future of a request is moved once, so that of a read has no room for a write.
    let write: BoxFuture<'_, Answer> = match (&request.info.subresource, verb) {
        (Some(name), _) => Box::pin(subresource::handle(request, name, verb)),
        (None, Verb::Get) => return looked_up(request, get::get).await,
        (None, Verb::List) => return looked_up(request, list::list).await,
        (None, Verb::Watch) => return watch::watch(request),
        (None, Verb::Create) => match request.resource.strategy().create_rest() {
            CreateRest::Store => Box::pin(create::create(request)),
            CreateRest::Binding => Box::pin(binding::create(request)),
            CreateRest::Review(review) => Box::pin(review::answer(request, review)),
        },
        (None, Verb::Update) => Box::pin(renewal::update(request)),
        (None, Verb::Patch) => Box::pin(renewal::patch(request)),
        (None, Verb::Delete) => Box::pin(delete::delete(request)),
        (None, Verb::DeleteCollection) => Box::pin(delete_collection::delete_collection(request)),
    };
    write.await
}

/// The result of a read; it is repeated after the conversion of objects that it missed.
async fn looked_up<T>(
    request: &Request<'_>,
    read: impl Fn(&Request<'_>) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    let Some(conversion) = request.resource.conversion() else {
        return read(request);
    };
    loop {
        let misses = conversion.misses();
        let answer = read(request);
        if conversion.misses() == misses {
            return answer;
        }
        let client = request.state.webhook_client();
        Box::pin(conversion::fill(conversion, &client, Some(&request.calls))).await?;
    }
}

/// The verb of a request that there is a route for.
///
/// # Errors
/// `NoSuchPath` or `MethodNotAllowed`.
pub(crate) fn route(
    info: &RequestInfo,
    resource: &ResourceInfo,
    query: &Query,
) -> Result<Verb, ApiError> {
    let proxies = info.subresource.as_deref() == Some("proxy");
    if !is_path(info, resource) || (!info.rest.is_empty() && !proxies) {
        return Err(ApiError::NoSuchPath);
    }
    let verb = info.verb.ok_or(ApiError::MethodNotAllowed)?;
    if let Some(name) = &info.subresource {
        // Below `watch` no resource has subresources.
        let served = resource.subresource(name).filter(|_| verb != Verb::Watch);
        let mut verbs = served.ok_or(ApiError::NoSuchPath)?.verbs.iter();
        return match verbs.any(|served| served == verb.as_str()) {
            true => Ok(verb),
            false => Err(ApiError::MethodNotAllowed),
        };
    }
    let named = info.name.is_some();
    let fits = match verb {
        Verb::Create => !named,
        Verb::Update | Verb::Patch => named,
        _ => true,
    };
    let all_namespaces = resource.namespaced && info.namespace.is_none();
    let is_read = matches!(verb, Verb::List | Verb::Watch);
    // Discovery is not the limit of what a custom resource serves while its definition goes.
    let is_served = resource.custom.is_some()
        || resource.has_verb(verb.as_str())
        // The route of a list takes the query of a watch and refuses it itself.
        || (verb == Verb::Watch && query.flag("watch") && resource.has_verb("list"));
    if verb == Verb::Watch && !is_served && !query.flag("watch") {
        // A path below `watch` exists for what can be watched only.
        return Err(ApiError::NoSuchPath);
    }
    match fits && is_served && (is_read || !all_namespaces) {
        true => Ok(verb),
        false => Err(ApiError::MethodNotAllowed),
    }
}

/// Whether some method is served at the path.
fn is_path(info: &RequestInfo, resource: &ResourceInfo) -> bool {
    let in_namespace = info.namespace.is_some();
    let verbs: &[&str] = match (info.name.is_some(), resource.namespaced, in_namespace) {
        (_, false, true) | (true, true, false) => &[],
        // All namespaces together support only a list.
        (false, true, false) => &["list"],
        (false, _, _) => &["list", "create", "deletecollection"],
        // A resource may have subresources only.
        (true, _, _) if info.subresource.is_some() => return true,
        (true, _, _) => &["get", "update", "patch", "delete"],
    };
    verbs.iter().any(|verb| resource.has_verb(verb))
}

/// Agrees on a representation; watches offer stream forms as well.
///
/// # Errors
/// `NotAcceptable`.
pub(crate) fn negotiate(
    headers: &HeaderMap,
    query: &Query,
    info: &RequestInfo,
    resource: &ResourceInfo,
) -> Result<Accepted, ApiError> {
    let pretty = query.get("pretty");
    match resource.strategy().read_rest() {
        ReadRest::Store if resource.custom.is_none() => {}
        // Metrics have no messages in protobuf here, as custom resources have none.
        ReadRest::Store | ReadRest::NodeMetrics | ReadRest::PodMetrics => {
            return negotiation::accepted_custom(headers, pretty);
        }
        ReadRest::CustomMetrics | ReadRest::ExternalMetrics => {
            return negotiation::accepted_json(headers, pretty);
        }
    }
    let produces = match info.verb {
        Some(Verb::List | Verb::Watch) => Produces::Streams,
        _ if info.subresource.as_deref() == Some("log") => Produces::Text,
        _ => Produces::Objects,
    };
    let subresource = info.subresource.as_deref().unwrap_or_default();
    let has_table = resource.strategy().has_table(subresource);
    negotiation::accepted(headers, pretty, produces, has_table)
}
