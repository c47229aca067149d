//! Creation of an object: one function of named steps, from the decoded body to the stored object.
//!
//! The type of the object says which steps it has passed: [`Received`], [`Admitted`], [`Named`],
//! [`Valid`]. `Table::commit` then makes the event for watchers.

use std::sync::Arc;

use super::refusals::parse_rv;
use super::{Store, WriteResult};
use crate::admission;
use crate::cancellation;
use crate::clock::{Entropy, rfc3339};
use crate::json::Value;
use crate::meta::GroupResource;
use crate::meta::ResourceVersion;
use crate::meta::object::{self, is_terminating, meta, meta_mut};
use crate::schema;
use crate::status::ApiError;
use crate::storage::{Change, Conflict, Transaction};

/// How often `generateName` draws a suffix before it gives up, as upstream.
const GENERATE_NAME_TRIES: u32 = 8;

/// The length of the prefix of a drawn name: with the suffix, 63 characters.
const NAME_PREFIX_MAX: usize = 58;

/// An object in its namespace, with defaults and managed fields.
struct Received(Value);

/// An object as admission plugins and mutating webhooks have left it, with its system fields.
struct Admitted(Value);

/// An object under the name that it is to have, as its strategy has prepared it.
struct Named {
    object: Value,
    name: String,
}

/// A valid object in its canonical form, which validating webhooks and quota let pass.
struct Valid(Named);

/// The outcome of an attempt to store an object under a name.
enum Attempt {
    Created(WriteResult),
    /// An object of this name exists.
    Exists {
        terminating: bool,
    },
    /// Another writer was faster.
    Conflict,
}

/// Removes the metadata that no client can set at creation. Mirrors `WipeObjectMetaSystemFields`.
pub(crate) fn wipe_system_fields(object: &mut Value) {
    let meta = meta_mut(object);
    for field in [
        "creationTimestamp",
        "uid",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ] {
        meta.remove(field);
    }
}

impl Store<'_> {
    /// Creates `object`, decoded and not yet defaulted.
    ///
    /// # Errors
    /// `AlreadyExists`, `Invalid`, what admission refuses, `BadRequest` on a foreign namespace.
    pub(crate) async fn create(
        &self,
        namespace: Option<&str>,
        object: Value,
    ) -> Result<WriteResult, ApiError> {
        let received = self.receive(object, namespace).await?;
        let admitted = self.admit(received).await?;
        let mut names = Names::of(admitted);
        while let Some(object) = names.next(&self.state.entropy) {
            let named = self.prepare(object)?;
            named.name.clone_into(&mut names.last);
            let valid = self.validate(named).await?;
            match self.insert(valid, namespace).await? {
                Attempt::Created(written) => return Ok(written),
                Attempt::Exists { terminating } => names.terminating = terminating,
                Attempt::Conflict => {}
            }
        }
        Err(names.exhausted(self.resource.gvr().group_resource()))
    }

    /// Puts `object` into its namespace, and gives it defaults and managed fields.
    async fn receive(
        &self,
        mut object: Value,
        namespace: Option<&str>,
    ) -> Result<Received, ApiError> {
        wipe_system_fields(&mut object);
        self.set_namespace(&mut object, namespace)?;
        self.strategy.default(&mut object);
        self.check_escalation(&object, None).await?;
        self.manage_created(&mut object);
        admission::check_definition(self.resource, &object)?;
        Ok(Received(object))
    }

    /// Lets admission change the object, then sets the fields that no client may set.
    async fn admit(&self, Received(mut object): Received) -> Result<Admitted, ApiError> {
        self.admit_new(&mut object).await?;
        self.fill_system_fields(&mut object);
        if self.resource.subresource("status").is_some() && !self.strategy.brings_status() {
            self.clear_status(&mut object);
        }
        Ok(Admitted(object))
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
        meta.insert("uid", uid.into());
        meta.insert("creationTimestamp", now.into());
        if counts_generation {
            meta.insert("generation", 1.into());
        }
    }

    /// Resets the status to that of a new object: empty, except for fields that are never omitted.
    fn clear_status(&self, object: &mut Value) {
        let Some(fields) = object.as_object_mut() else {
            return;
        };
        let schema = schema::builtin(self.resource.gvk());
        match schema.and_then(|schema| schema.field("status")?.unset()) {
            Some(status) => fields.insert("status", status),
            None => fields.remove("status"),
        };
    }

    /// Lets the strategy of the kind prepare the object, whose name is known.
    fn prepare(&self, mut object: Value) -> Result<Named, ApiError> {
        let table = self.table();
        let context = self.context(&table);
        let faults = self.strategy.begin_create(&mut object, context)?;
        self.invalid(object::name(&object), faults)?;
        self.strategy.prepare_for_create(&mut object, context);
        self.strategy.default(&mut object);
        let name = object::name(&object).to_owned();
        Ok(Named { object, name })
    }

    /// Validates the object, brings it into its canonical form, and runs the validating admission.
    async fn validate(&self, mut named: Named) -> Result<Valid, ApiError> {
        self.validate_new(&named.object, &named.name)?;
        self.warn(&named.object, None);
        self.forget_empty_lists(&mut named.object);
        self.strategy.canonicalize(&mut named.object);
        self.approve_stored(&named.object, None).await?;
        Ok(Valid(named))
    }

    /// Stores the object unless its name is taken.
    async fn insert(
        &self,
        Valid(Named { mut object, name }): Valid,
        namespace: Option<&str>,
    ) -> Result<Attempt, ApiError> {
        let rv = parse_rv(meta(&object, "resourceVersion"));
        if rv.is_ok_and(|rv| rv != ResourceVersion::ZERO) && !self.dry_run {
            // This error comes from upstream's storage and so has no reason.
            let message = "resourceVersion should not be set on objects to be created";
            return Err(ApiError::Unknown(message.to_owned()));
        }
        let key = self.key(namespace, &name);
        let table = self.table();
        if let Some(existing) = table.get(&key) {
            let terminating = is_terminating(&existing.value());
            return Ok(Attempt::Exists { terminating });
        }
        if self.dry_run {
            self.fill_read_defaults(&mut object);
            return Ok(Attempt::Created(WriteResult::Unstored(Arc::new(object))));
        }
        meta_mut(&mut object).remove("resourceVersion");
        let commit = Transaction {
            key: &key,
            expected: None,
            change: Change::Put(self.stored_form(object).await?),
            time: self.state.clock.now(),
            user_agent: self.user_agent,
        };
        cancellation::check()?;
        match self.commit(&table, commit) {
            Ok(stored) => {
                let shown = self.converted(stored).await?;
                Ok(Attempt::Created(WriteResult::Stored(shown)))
            }
            Err(Conflict) => Ok(Attempt::Conflict),
        }
    }

    /// Fills in what reading a stored custom resource fills in, for an object that is not stored.
    fn fill_read_defaults(&self, object: &mut Value) {
        if let Some(custom) = &self.resource.custom {
            custom.schema().fill_defaults(object);
        }
    }
}

/// The names to try for an object: its own, or several that are drawn.
struct Names {
    object: Value,
    draws: bool,
    tries: u32,
    /// Whether `generateName` is set. Together with a name it changes the error, although no name
    /// is drawn.
    prefixed: bool,
    /// The name tried last.
    last: String,
    /// Whether an object that exists under a tried name is terminating.
    terminating: bool,
}

impl Names {
    fn of(Admitted(object): Admitted) -> Self {
        let prefixed = !meta(&object, "generateName").is_empty();
        let draws = prefixed && object::name(&object).is_empty();
        Self {
            object,
            draws,
            tries: if draws { GENERATE_NAME_TRIES } else { 1 },
            prefixed,
            last: String::new(),
            terminating: false,
        }
    }

    /// The object under the next name; `None` if there is no other name to try.
    fn next(&mut self, entropy: &Entropy) -> Option<Value> {
        self.tries = self.tries.checked_sub(1)?;
        if !self.draws {
            return Some(self.object.take());
        }
        // Prepared fields may contain the name, so each try starts from the admitted object.
        let mut object = self.object.clone();
        let prefix = meta(&object, "generateName").chars();
        let prefix: String = prefix.take(NAME_PREFIX_MAX).collect();
        let name = format!("{prefix}{}", entropy.name_suffix());
        meta_mut(&mut object).insert("name", name.into());
        Some(object)
    }

    /// The error when each name is taken.
    fn exhausted(self, resource: GroupResource) -> ApiError {
        let (name, terminating) = (self.last, self.terminating);
        match (self.prefixed, terminating) {
            (true, _) => ApiError::GenerateNameConflict {
                resource,
                name,
                terminating,
            },
            (false, true) => ApiError::AlreadyExistsTerminating { resource, name },
            (false, false) => ApiError::AlreadyExists { resource, name },
        }
    }
}
