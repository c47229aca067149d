//! The generic store: every write of every kind passes through this module.

mod admit;
mod delete;
mod follow_up;
mod own_writes;
mod ownership;
mod refusals;
mod validate;

use std::borrow::Cow;
use std::future::Future;
use std::mem;
use std::ops::Deref;
use std::sync::Arc;

use futures::FutureExt;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::admission;
use crate::auth::Requester;
use crate::cancellation;
use crate::clock::rfc3339;
use crate::field_manager::Writer;
use crate::meta::object::{self, copy_field, is_terminating, meta, meta_mut};
use crate::registry::catalog::ResourceInfo;
use crate::registry::{Context, Passes, Strategy, conduct};
use crate::request::options::Preconditions;
use crate::schema;
use crate::status::{ApiError, FieldErrors, FieldPath};
use crate::storage::{Change, Commit, ObjectKey, Snapshot, StoredObject, Table};
use refusals::{check_name, parse_rv};

pub(crate) use admit::View;
pub(crate) use delete::Deleted;

/// How often `generateName` draws a suffix before it gives up, as upstream.
const GENERATE_NAME_TRIES: u32 = 8;

/// Which half of an object a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything but the status, where there is a status subresource.
    Main,
    /// The status and nothing else.
    Status,
    /// A subresource that changes the object by rules of its own: nothing is kept for it.
    Whole,
    /// A write past the strategy, which does not even count the generation.
    Raw,
}

/// The server's state that writes use.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) admission: admission::State,
    /// The gate `MaxUnavailableStatefulSet`.
    pub(crate) max_unavailable_stateful_set: bool,
    /// The passes of the controller of FlowSchema conditions.
    pub(crate) flow_schema_passes: Passes,
    /// The server's own controllers, which run after each write.
    pub(crate) after_write: &'static [AfterWrite],
}

/// A controller of the server that runs after a write of an object of a resource.
pub(crate) type AfterWrite = fn(&State, &ResourceInfo);

impl State {
    /// The state of a server that begins with `admission`, a fork of this one's.
    pub(crate) fn forked(&self, admission: admission::State) -> Self {
        Self {
            admission,
            max_unavailable_stateful_set: self.max_unavailable_stateful_set,
            flow_schema_passes: Passes::default(),
            after_write: self.after_write,
        }
    }
}

impl Deref for State {
    type Target = admission::State;

    fn deref(&self) -> &admission::State {
        &self.admission
    }
}

/// Writes objects of one resource on behalf of one request.
#[derive(Clone, Copy)]
pub(crate) struct Store<'a> {
    pub(crate) state: &'a State,
    pub(crate) resource: &'a ResourceInfo,
    pub(crate) strategy: &'a dyn Strategy,
    pub(crate) user_agent: &'a Arc<str>,
    /// The new owner of changed fields; without a writer, the owners stay unchanged.
    pub(crate) writer: Option<Writer<'a>>,
    /// The collector of warnings; `None` if no client is warned.
    pub(crate) warnings: Option<&'a Mutex<Vec<String>>>,
    /// Whether a uid in the object guards the write, as in a PUT; a patch may not change it at all.
    pub(crate) guards_uid: bool,
    pub(crate) dry_run: bool,
    /// The user of the request, as admission webhooks see it; without a requester, no webhook is
    /// called.
    pub(crate) requester: Option<Requester<'a>>,
    /// The form of the objects that webhooks see, if it differs from the objects.
    pub(crate) view: Option<&'a dyn View>,
}

/// The result of a write: the stored object, or the last state after a dry run or a removal.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    Stored(Arc<StoredObject>),
    Unstored(Arc<Value>),
}

/// Returns the result of a write that calls no webhook and so never waits.
pub(crate) fn at_once<T>(write: impl Future<Output = T>) -> T {
    let written = write.now_or_never();
    written.expect("a write without a requester waits for nobody")
}

impl Written {
    pub(crate) fn value(&self) -> Arc<Value> {
        match self {
            Self::Stored(object) => object.value(),
            Self::Unstored(value) => Arc::clone(value),
        }
    }
}

impl Store<'_> {
    pub(crate) fn table(&self) -> Arc<Table> {
        self.state.storage.table(self.resource.gvr())
    }

    pub(crate) fn key(&self, namespace: Option<&str>, name: &str) -> ObjectKey {
        ObjectKey::new(namespace.filter(|_| self.resource.namespaced), name)
    }

    /// Reads one object.
    ///
    /// # Errors
    /// `NotFound`.
    pub(crate) fn get(
        &self,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Arc<StoredObject>, ApiError> {
        check_name(name)?;
        self.table()
            .get(&self.key(namespace, name))
            .map(|stored| self.shown(stored))
            .ok_or_else(|| self.not_found(name))
    }

    /// A stored object in the shape of this resource.
    pub(crate) fn shown(&self, stored: Arc<StoredObject>) -> Arc<StoredObject> {
        if self.resource.shows_as_stored() {
            return stored;
        }
        match self.resource.shown(&stored.value()) {
            Cow::Borrowed(_) => stored.clone(),
            Cow::Owned(value) => Arc::new(StoredObject::new(stored.key.clone(), stored.rv, value)),
        }
    }

    /// Creates `object`, decoded and not yet defaulted.
    ///
    /// # Errors
    /// `AlreadyExists`, `Invalid`, what admission refuses, `BadRequest` on a foreign namespace.
    pub(crate) async fn create(
        &self,
        namespace: Option<&str>,
        mut object: Value,
    ) -> Result<Written, ApiError> {
        self.set_namespace(&mut object, namespace)?;
        self.strategy.default(&mut object);
        self.check_escalation(&object, None)?;
        self.own_created(&mut object);
        admission::check_definition(self.resource, &object)?;
        self.admit_new(&mut object).await?;
        self.fill_system_fields(&mut object);
        if self.resource.subresource("status").is_some() && !self.strategy.brings_status() {
            self.clear_status(&mut object);
        }
        let generated =
            object::name(&object).is_empty() && !meta(&object, "generateName").is_empty();
        let tries = if generated { GENERATE_NAME_TRIES } else { 1 };
        // A `generateName` given together with a name changes the error text, although no name was
        // drawn.
        let prefixed = !meta(&object, "generateName").is_empty();
        // Prepared fields may contain the name, so each try starts from the given object.
        let given = generated.then(|| object.clone());
        let mut name = String::new();
        let mut terminating = false;
        for _ in 0..tries {
            if let Some(given) = &given {
                object.clone_from(given);
                let drawn = self.generate_name(&object);
                meta_mut(&mut object).insert("name".to_owned(), drawn.into());
            }
            self.prepare_for_create(&mut object)?;
            self.strategy.default(&mut object);
            object::name(&object).clone_into(&mut name);
            self.validate_new(&object, &name)?;
            self.warn(&object, None);
            self.forget_empty_lists(&mut object);
            self.strategy.canonicalize(&mut object);
            self.approve_stored(&object, None).await?;
            let rv = parse_rv(meta(&object, "resourceVersion"));
            if rv.is_ok_and(|rv| rv != 0) && !self.dry_run {
                // This error comes from upstream's storage and so has no reason.
                let message = "resourceVersion should not be set on objects to be created";
                return Err(ApiError::Unknown(message.to_owned()));
            }
            let key = self.key(namespace, &name);
            let table = self.table();
            if let Some(own) = table.get(&key) {
                terminating = is_terminating(&own.value());
                continue;
            }
            if self.dry_run {
                self.fill_read_defaults(&mut object);
                return Ok(Written::Unstored(Arc::new(object)));
            }
            meta_mut(&mut object).remove("resourceVersion");
            let put = mem::take(&mut object);
            let commit = Commit {
                key: &key,
                expected: None,
                change: Change::Put(self.stored_form(put).await?),
                time: self.state.clock.now(),
                user_agent: self.user_agent,
            };
            cancellation::check()?;
            if let Ok(stored) = self.commit(&table, commit) {
                return Ok(Written::Stored(self.converted(stored).await?));
            }
        }
        let resource = self.resource.gvr().group_resource();
        Err(match (prefixed, terminating) {
            (true, _) => ApiError::GenerateNameConflict {
                resource,
                name,
                terminating,
            },
            (false, true) => ApiError::AlreadyExistsTerminating { resource, name },
            (false, false) => ApiError::AlreadyExists { resource, name },
        })
    }

    fn prepare_for_create(&self, object: &mut Value) -> Result<(), ApiError> {
        let siblings = self.table().snapshot();
        let context = self.context(&siblings);
        let faults = self.strategy.begin_create(object, context)?;
        self.invalid(object::name(object), faults)?;
        self.strategy.prepare_for_create(object, context);
        Ok(())
    }

    fn context<'b>(&'b self, siblings: &'b Snapshot) -> Context<'b> {
        Context {
            siblings,
            now: self.state.clock.now(),
            max_unavailable_stateful_set: self.state.max_unavailable_stateful_set,
            dry_run: self.dry_run,
            entropy: &self.state.entropy,
        }
    }

    /// The prefix cut so that the suffix fits into 63 characters, and five drawn characters.
    fn generate_name(&self, object: &Value) -> String {
        let prefix: String = meta(object, "generateName").chars().take(58).collect();
        format!("{prefix}{}", self.state.entropy.name_suffix())
    }

    /// Puts `object` into the namespace of the request.
    ///
    /// # Errors
    /// `BadRequest` if it says that it is in another one.
    pub(crate) fn set_namespace(
        &self,
        object: &mut Value,
        namespace: Option<&str>,
    ) -> Result<(), ApiError> {
        let Some(namespace) = namespace.filter(|_| self.resource.namespaced) else {
            if !self.resource.namespaced {
                meta_mut(object).remove("namespace");
            }
            return Ok(());
        };
        let own = object::namespace(object);
        if !own.is_empty() && own != namespace {
            return Err(ApiError::foreign_namespace());
        }
        meta_mut(object).insert("namespace".to_owned(), namespace.into());
        Ok(())
    }

    /// Resets the status to that of a new object: empty, except for fields that are never omitted.
    fn clear_status(&self, object: &mut Value) {
        let Some(fields) = object.as_object_mut() else {
            return;
        };
        let schema = schema::builtin(self.resource.gvk());
        match schema.and_then(|schema| schema.field("status")?.unset()) {
            Some(status) => fields.insert("status".to_owned(), status),
            None => fields.remove("status"),
        };
    }

    /// Fills in what reading a stored custom resource fills in, for an object that is not stored.
    fn fill_read_defaults(&self, object: &mut Value) {
        if let Some(custom) = &self.resource.custom {
            custom.schema().fill_defaults(object);
        }
    }

    fn fill_system_fields(&self, object: &mut Value) {
        let counts_generation = self.strategy.counts_generation();
        let uid = self.state.entropy.uid();
        let now = rfc3339(self.state.clock.now());
        let meta = meta_mut(object);
        for field in [
            "selfLink",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ] {
            meta.remove(field);
        }
        meta.insert("uid".to_owned(), uid.into());
        meta.insert("creationTimestamp".to_owned(), now.into());
        if counts_generation {
            meta.insert("generation".to_owned(), 1.into());
        }
    }

    /// Replaces an object by the result of `change`; runs `change` again if another writer was
    /// faster.
    ///
    /// An update that changes nothing writes nothing. One that takes the last finalizer from a
    /// terminating object removes it.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` on a foreign `resourceVersion` or uid, `Invalid`, and the errors of
    /// `change`.
    pub(crate) async fn update(
        &self,
        namespace: Option<&str>,
        name: &str,
        part: Part,
        mut change: impl FnMut(&Value) -> Result<Value, ApiError>,
    ) -> Result<Written, ApiError> {
        check_name(name)?;
        let key = self.key(namespace, name);
        let table = self.table();
        loop {
            let held = table.get(&key).ok_or_else(|| self.not_found(name))?;
            let shown = self.converted(Arc::clone(&held)).await?;
            let current = &*shown.value();
            let mut next = change(current)?;
            self.strategy.default(&mut next);
            self.own_updated(current, &mut next);
            self.set_namespace(&mut next, namespace)?;
            self.check_escalation(&next, Some(current))?;
            self.admit_changed(&mut next, current, part).await?;
            self.check_preconditions(&next, current, name)?;
            self.keep_system_fields(&mut next, current, part);
            self.prepare_for_update(&mut next, current, part)?;
            self.bump_generation(&mut next, current, part);
            self.validate_changed(&next, current, name, part)?;
            self.forget_empty_lists(&mut next);
            if part == Part::Main {
                self.warn(&next, Some(current));
            }
            self.approve_stored(&next, Some(current)).await?;
            if ownership::is_no_change(&mut next, current) {
                return Ok(Written::Stored(shown));
            }
            if self.dry_run {
                return Ok(Written::Unstored(Arc::new(next)));
            }
            let gone = is_terminating(&next)
                && object::finalizers(&next).next().is_none()
                && !self.strategy.is_held(&next)
                && next["metadata"]["deletionGracePeriodSeconds"]
                    .as_i64()
                    .unwrap_or(0)
                    == 0;
            // The deletion removes the stored object; its event shows the last stored state.
            let change = if gone {
                Change::Remove((*held.value()).clone())
            } else {
                Change::Put(self.stored_form(mem::take(&mut next)).await?)
            };
            let commit = Commit {
                key: &key,
                expected: Some(&held),
                change,
                time: self.state.clock.now(),
                user_agent: self.user_agent,
            };
            cancellation::check()?;
            if let Ok(stored) = self.commit(&table, commit) {
                return Ok(if gone {
                    Written::Unstored(Arc::new(next))
                } else {
                    Written::Stored(self.converted(stored).await?)
                });
            }
        }
    }

    fn prepare_for_update(
        &self,
        next: &mut Value,
        old: &Value,
        part: Part,
    ) -> Result<(), ApiError> {
        if matches!(part, Part::Whole | Part::Raw) {
            return Ok(());
        }
        let siblings = self.table().snapshot();
        let context = self.context(&siblings);
        if part == Part::Status {
            self.strategy.prepare_for_status_update(next, old, context);
            return Ok(());
        }
        let faults = self.strategy.begin_update(next, old, context)?;
        self.invalid(object::name(old), faults)?;
        self.strategy.prepare_for_update(next, old, context);
        Ok(())
    }

    fn check_preconditions(
        &self,
        next: &Value,
        current: &Value,
        name: &str,
    ) -> Result<(), ApiError> {
        let uid =
            Some(meta(next, "uid").to_owned()).filter(|uid| self.guards_uid && !uid.is_empty());
        if let Some(message) = (Preconditions { uid, rv: None }).violation(current) {
            return Err(self.storage_conflict(object::namespace(current), name, &message));
        }
        let rv = meta(next, "resourceVersion");
        if parse_rv(rv)? == 0 {
            let unconditional =
                conduct::allows_unconditional_update(&self.resource.gvr().group_resource());
            if unconditional && self.resource.custom.is_none() {
                return Ok(());
            }
            let mut errors = FieldErrors::new();
            let path = FieldPath::new("metadata.resourceVersion");
            errors.invalid(&path, &0.into(), "must be specified for an update");
            return self.invalid_resource(name, errors);
        }
        if rv != meta(current, "resourceVersion") {
            let message = "the object has been modified; please apply your changes to the latest version and try again";
            return Err(self.conflict(name, message));
        }
        Ok(())
    }

    /// Returns `current` with a status write applied: the status, and the metadata that a status
    /// write may change. Other sent fields are dropped.
    fn with_sent_status(&self, current: &Value, mut sent: Value) -> Value {
        let resource = self.resource.gvr().group_resource();
        let own = [
            "labels",
            "annotations",
            "finalizers",
            "generateName",
            "ownerReferences",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "managedFields",
        ];
        let keeps = |field: &str| match self.resource.custom {
            Some(_) => field != "managedFields",
            None => conduct::keeps_on_status(&resource, field),
        };
        let own = own.map(|field| (field, !keeps(field)));
        let is_own = |field: &str| own.contains(&(field, true));
        let fields = |value: &mut Value| value.as_object_mut().map(mem::take).unwrap_or_default();
        let mut sent = fields(&mut sent);
        let status = sent.remove("status");
        let metadata = sent.remove("metadata").as_mut().map(fields);
        let metadata = revert(metadata.unwrap_or_default(), &current["metadata"], is_own);
        // Only a kind without a Go type can lose its status.
        let loses = status.is_some() || self.resource.custom.is_some();
        let is_other = |field: &str| field == "metadata" || (field == "status" && loses);
        let mut next = revert(sent, current, is_other);
        next.insert("metadata".to_owned(), Value::Object(metadata));
        if let Some(status) = status {
            next.insert("status".to_owned(), status);
        }
        Value::Object(next)
    }

    /// Keeps the fields that this request may not write: server-owned metadata and the other half.
    fn keep_system_fields(&self, next: &mut Value, current: &Value, part: Part) {
        if self.resource.subresource("status").is_some() {
            match part {
                Part::Main => copy_field(next, current, "status"),
                Part::Status => {
                    let sent = mem::take(next);
                    *next = self.with_sent_status(current, sent);
                }
                Part::Whole | Part::Raw => {}
            }
        }
        let system = [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
        ];
        let kept = &current["metadata"];
        for field in system {
            let set = &next["metadata"][field];
            let forced = match field {
                "deletionTimestamp" => !kept[field].is_null(),
                // A dry run returns the sent object, which is never stored.
                "selfLink" => !self.dry_run,
                field => matches!(field, "resourceVersion" | "creationTimestamp"),
            };
            if set.is_null() || forced {
                copy_field(&mut next["metadata"], kept, field);
            }
        }
        copy_field(&mut next["metadata"], kept, "generation");
        for field in ["kind", "apiVersion"] {
            copy_field(next, current, field);
        }
    }

    fn bump_generation(&self, next: &mut Value, current: &Value, part: Part) {
        if !self.strategy.counts_generation() || matches!(part, Part::Status | Part::Raw) {
            return;
        }
        let counts_status = self.resource.custom.is_some();
        let is_spec = |name: &str| match name {
            "metadata" | "kind" | "apiVersion" => false,
            "status" => counts_status,
            _ => true,
        };
        let fields = |object: &'_ Value| {
            let fields = object.as_object().into_iter().flatten();
            fields.filter(|(name, _)| is_spec(name)).count()
        };
        let same = next.as_object().into_iter().flatten().all(|(name, value)| {
            let before = current.get(name.as_str());
            // To upstream a list without entries is the same as none.
            let is_none = before.is_some_and(is_empty_list) && is_empty_list(value);
            !is_spec(name) || before == Some(value) || is_none
        });
        let annotations = |object: &Value| object["metadata"]["annotations"].clone();
        let annotated =
            self.strategy.counts_annotations() && annotations(next) != annotations(current);
        if !same || fields(next) != fields(current) || annotated {
            let generation = current["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            meta_mut(next).insert("generation".to_owned(), generation.into());
        }
    }
}

fn is_empty_list(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// `sent` with all fields but its own as they are `held`. What is the same is not copied.
fn revert(
    mut sent: Map<String, Value>,
    held: &Value,
    is_own: impl Fn(&str) -> bool,
) -> Map<String, Value> {
    sent.retain(|field, value| is_own(field) || held.get(field) == Some(value));
    for (field, value) in held.as_object().into_iter().flatten() {
        if !is_own(field) && !sent.contains_key(field) {
            sent.insert(field.clone(), value.clone());
        }
    }
    sent
}
