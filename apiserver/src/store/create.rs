//! Creation of an object.

use std::mem;
use std::sync::Arc;

use serde_json::Value;

use super::refusals::parse_rv;
use super::{Store, Written};
use crate::admission;
use crate::cancellation;
use crate::clock::rfc3339;
use crate::meta::object::{self, is_terminating, meta, meta_mut};
use crate::schema;
use crate::status::ApiError;
use crate::storage::{Change, Commit};

/// How often `generateName` draws a suffix before it gives up, as upstream.
const GENERATE_NAME_TRIES: u32 = 8;

impl Store<'_> {
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

    /// The prefix cut so that the suffix fits into 63 characters, and five drawn characters.
    fn generate_name(&self, object: &Value) -> String {
        let prefix: String = meta(object, "generateName").chars().take(58).collect();
        format!("{prefix}{}", self.state.entropy.name_suffix())
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
}
