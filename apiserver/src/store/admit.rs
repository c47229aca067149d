//! Admission of writes by plugins and webhooks.

use std::sync::Arc;

use super::{Store, Subresource, at_once};
use crate::admission::attributes::Attributes;
use crate::admission::chain::{Chain, Origin};
use crate::admission::claim_status;
use crate::admission::optional;
use crate::admission::plugins;
use crate::admission::quota::Charge;
use crate::admission::request::Admission;
use crate::auth::{RequestAttributes, escalation, resolved};
use crate::field_manager::Writer;
use crate::json::{Value, json};
use crate::meta::GroupVersionKind;
use crate::meta::object::{default, meta_mut, name, namespace};
use crate::metrics::admission::{Plugin, Step};
use crate::registry::Generic;
use crate::request::Operation;
use crate::status::ApiError;
use crate::storage::StoredObject;
use crate::webhook::{WebhookCalls, conversion};
use crate::{admission, field_manager, nesting, schema};

/// The form of an object in a subresource, which admission webhooks see.
pub(crate) trait View: Sync {
    /// Returns the subresource's form of `object`.
    ///
    /// # Errors
    /// The form cannot be computed.
    fn of(&self, object: &Value) -> Result<Value, ApiError>;

    /// Writes the changed form `seen` back into `object`.
    ///
    /// # Errors
    /// The form cannot be written.
    fn write(&self, seen: &Value, object: &mut Value) -> Result<(), ApiError>;
}

impl Store<'_> {
    /// Returns a stored object in the version of this resource, converted by webhook if necessary.
    ///
    /// # Errors
    /// When it can't be converted.
    pub(super) async fn converted(
        &self,
        stored: Arc<StoredObject>,
    ) -> Result<Arc<StoredObject>, ApiError> {
        let Some(conversion) = self.resource.conversion() else {
            return Ok(self.shown(stored));
        };
        loop {
            let misses = conversion.misses();
            let shown = self.shown(Arc::clone(&stored));
            if conversion.misses() == misses {
                return Ok(shown);
            }
            let client = self.state.webhook_client();
            conversion::fill(conversion, &client, self.webhook_calls()).await?;
        }
    }

    /// Returns the stored form of an object, converted by webhook if necessary.
    ///
    /// # Errors
    /// When it can't be converted.
    pub(super) async fn stored_form(&self, object: Value) -> Result<Value, ApiError> {
        if let (Some(custom), Some(conversion)) =
            (&self.resource.custom, self.resource.conversion())
        {
            let versions = &custom.versions;
            if versions.version_of(&object) != versions.storage {
                let client = (&self.state.webhook_client(), self.webhook_calls());
                let to = &versions.storage;
                let converted = conversion::convert(conversion, client, vec![object], to);
                let converted = converted.await?.pop();
                let converted = converted.expect("there are as many objects as were posted");
                return storable(versions.coerced(converted, &versions.storage));
            }
        }
        storable(self.resource.stored(object))
    }

    /// The calls of webhooks of the request, if the store is used for one.
    fn webhook_calls(&self) -> Option<&WebhookCalls> {
        self.request_attributes.map(|request| request.calls)
    }

    /// Begins a step of admission.
    pub(super) fn chain(&self, step: Step, operation: Operation) -> Chain<'_> {
        let origin = Origin {
            request: self.request_attributes,
            dry_run: self.dry_run,
        };
        Chain::start(&self.state.admission, origin, (step, operation))
    }

    /// Admits an object that is about to be created.
    ///
    /// # Errors
    /// The refusals of plugins and webhooks.
    pub(super) async fn admit_new(&self, object: &mut Value) -> Result<(), ApiError> {
        let mut chain = self.chain(Step::Admit, Operation::Create);
        let mut admitted = chain.run(Plugin::NamespaceAutoProvision, || self.provide(object));
        if admitted.is_ok() {
            admitted = admission::admit_create(self.state, self.resource, object, &mut chain);
        }
        let admitted = match admitted {
            Ok(()) => self.mutate(object, None, &mut chain).await,
            Err(error) => Err(error),
        };
        self.end(chain, admitted, Some(object))
    }

    /// Admits an object that is about to replace `old`.
    ///
    /// # Errors
    /// The refusals of plugins and webhooks.
    pub(super) async fn admit_changed(
        &self,
        object: &mut Value,
        old: &Value,
        subresource: Subresource,
    ) -> Result<(), ApiError> {
        let mut chain = self.chain(Step::Admit, Operation::Update);
        // Built-in plugins do not handle subresources.
        let admitted = match subresource {
            Subresource::None => {
                let attributes = (&mut *object, old);
                admission::admit_update(self.state, self.resource, attributes, &mut chain)
            }
            _ => Ok(()),
        };
        let admitted = match admitted {
            Ok(()) => self.mutate(object, Some(old), &mut chain).await,
            Err(error) => Err(error),
        };
        self.end(chain, admitted, Some(object))
    }

    /// Ends a step with the plugin that comes last.
    ///
    /// # Errors
    /// The error in `outcome`, and the refusal of `AlwaysDeny`.
    fn end(
        &self,
        mut chain: Chain<'_>,
        outcome: Result<(), ApiError>,
        object: Option<&Value>,
    ) -> Result<(), ApiError> {
        let outcome = outcome.and_then(|()| optional::deny(&mut chain, self.resource, object));
        chain.end(outcome)
    }

    /// Creates the namespace of a client's new object if it does not exist.
    ///
    /// # Errors
    /// The refusal of the namespace.
    fn provide(&self, object: &Value) -> Result<(), ApiError> {
        let is_due = self.request_attributes.is_some()
            && !self.dry_run
            && optional::is_provisioned(self.state, self.resource, object);
        if !is_due {
            return Ok(());
        }
        let namespaces = self.state.catalog.resource("", "v1", "namespaces");
        let namespaces = namespaces.expect("namespaces are built in");
        let writer = Writer {
            field_manager: "",
            user_agent: "kube-apiserver",
            subresource: "",
        };
        let store = Store::of_server(self.state, namespaces, self.user_agent, writer);
        let namespace = json!({ "metadata": { "name": namespace(object) } });
        at_once(store.create(None, namespace)).map(drop)
    }

    /// Lets mutating webhooks change an object that is about to be written. The stored object may
    /// change while a webhook runs: the write is still decided from `old` alone, and so starts over
    /// at its commit.
    ///
    /// # Errors
    /// The refusal of a webhook, and a failure to ask one that must be asked.
    async fn mutate(
        &self,
        object: &mut Value,
        old: Option<&Value>,
        chain: &mut Chain<'_>,
    ) -> Result<(), ApiError> {
        let Some(admission) = self.admission(chain.operation(), Some(object), old) else {
            return Ok(());
        };
        let Some(view) = self.view else {
            let held = object["metadata"].get("managedFields").cloned();
            admission.mutate(Some(object), old, chain).await?;
            self.mend_managed_fields(object, held);
            return Ok(());
        };
        let mut seen = view.of(object)?;
        let before = seen.clone();
        let old = old.map(|old| view.of(old)).transpose()?;
        let admitted = admission.mutate(Some(&mut seen), old.as_ref(), chain);
        admitted.await?;
        match seen == before {
            true => Ok(()),
            false => view.write(&seen, object),
        }
    }

    /// Puts managed fields back that webhooks have left in disorder, and warns of it.
    fn mend_managed_fields(&self, object: &mut Value, held: Option<Value>) {
        let fault = field_manager::managed_fields_fault(&object["metadata"]["managedFields"]);
        let (Some(fault), Some(_)) = (fault, self.writer) else {
            return;
        };
        let meta = meta_mut(object);
        match held {
            Some(held) => meta.insert("managedFields", held),
            None => meta.remove("managedFields"),
        };
        if let Some(warnings) = self.warnings {
            warnings.lock().push(format!(
                ".metadata.managedFields was in an invalid state after admission; this could be \
                 caused by an outdated mutating admission controller; please fix your requests: \
                 {fault}"
            ));
        }
    }

    /// Checks that the requester may grant the permissions of a role or binding.
    ///
    /// # Errors
    /// `Forbidden`, and `NotFound` for a binding to no role.
    pub(super) async fn check_escalation(
        &self,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        let Some(request_attributes) = self.request_attributes else {
            return Ok(());
        };
        let check =
            || escalation::check(self.state, request_attributes, self.resource, object, old);
        resolved(self.state, check).await
    }

    /// Checks that the requester may change what is changed of a claim's status. Upstream does so within validation.
    ///
    /// # Errors
    /// `Invalid`.
    pub(super) async fn check_claim_status(
        &self,
        object: &Value,
        old: &Value,
        name: &str,
    ) -> Result<(), ApiError> {
        let Some(request_attributes) = self.request_attributes else {
            return Ok(());
        };
        let (state, resource) = (self.state, self.resource);
        let check = || claim_status::faults(state, request_attributes, resource, object, old);
        let errors = resolved(state, check).await;
        self.invalid(name, errors)
    }

    /// Runs the validating step on the object that is about to be stored: plugins, webhooks, quota.
    ///
    /// # Errors
    /// The first refusal, and a failure to ask a webhook that must be asked.
    pub(super) async fn approve_stored(
        &self,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        let attributes = Attributes {
            state: self.state,
            resource: self.resource,
            user: self.request_attributes.map(|own| own.user),
            subresource: self.request_attributes.map_or("", |own| own.subresource),
            object,
            old,
            audit: self.request_attributes.and_then(|own| own.audit),
            warnings: self.warnings,
        };
        let operation = match old {
            None => Operation::Create,
            Some(_) => Operation::Update,
        };
        let mut chain = self.chain(Step::Validate, operation);
        let mut approved = plugins::check(attributes, &mut chain).await;
        if approved.is_ok() {
            approved = self.approve(Some(object), old, &mut chain).await;
        }
        if approved.is_ok() {
            let charge = Charge {
                dry_run: self.dry_run,
                user_agent: self.user_agent,
            };
            if self.state.plugins.has(Plugin::ResourceQuota)
                && let Some(charged) = attributes.charge(charge)
            {
                approved = chain.asked(Plugin::ResourceQuota, charged);
            }
        }
        self.end(chain, approved, Some(object))
    }

    /// Calls validating webhooks for the object to store; `None` for a deletion.
    ///
    /// # Errors
    /// The refusal of a webhook, and a failure to ask one that must be asked.
    async fn approve(
        &self,
        object: Option<&Value>,
        old: Option<&Value>,
        chain: &mut Chain<'_>,
    ) -> Result<(), ApiError> {
        let Some(admission) = self.admission(chain.operation(), object, old) else {
            return Ok(());
        };
        let Some(view) = self.view else {
            return admission.validate(object, old, chain).await;
        };
        let seen = object.map(|object| view.of(object)).transpose()?;
        let old = old.map(|old| view.of(old)).transpose()?;
        let approved = admission.validate(seen.as_ref(), old.as_ref(), chain);
        approved.await
    }

    /// Calls all webhooks for a body that is created below an object and not stored, such as a
    /// binding.
    ///
    /// # Errors
    /// The refusal of a webhook, and a failure to call a required webhook.
    pub(crate) async fn admit_below(
        &self,
        kind: &GroupVersionKind,
        body: &mut Value,
    ) -> Result<(), ApiError> {
        self.mutate_below(kind, body).await?;
        self.approve_below(kind, body).await
    }

    /// Runs the mutating half of [`Self::admit_below`], before the body is validated.
    ///
    /// # Errors
    /// The refusal of a webhook, and a failure to ask one that must be asked.
    pub(crate) async fn mutate_below(
        &self,
        kind: &GroupVersionKind,
        body: &mut Value,
    ) -> Result<(), ApiError> {
        let namespace = self.request_attributes.map(|own| own.namespace);
        let namespace = namespace.filter(|own| !own.is_empty());
        if let Some(namespace) = namespace
            && self.state.webhooks.are_configured(&self.state.storage)
        {
            default(meta_mut(body), "namespace", namespace);
        }
        let store = self.below(kind);
        store.mutate_whole(Operation::Create, body).await
    }

    /// Runs the validating half of [`Self::admit_below`], once the body is valid.
    ///
    /// # Errors
    /// The refusal of a webhook, and a failure to ask one that must be asked.
    pub(crate) async fn approve_below(
        &self,
        kind: &GroupVersionKind,
        body: &Value,
    ) -> Result<(), ApiError> {
        let store = self.below(kind);
        store.approve_whole(Operation::Create, body).await
    }

    /// Asks all webhooks about a connection with these options.
    ///
    /// # Errors
    /// The refusal of a webhook, and a failure to ask one that must be asked.
    pub(crate) async fn admit_connection(
        &self,
        kind: &GroupVersionKind,
        options: &mut Value,
    ) -> Result<(), ApiError> {
        let store = self.below(kind);
        store.mutate_whole(Operation::Connect, options).await?;
        store.approve_whole(Operation::Connect, options).await
    }

    /// Runs the whole mutating step for a body that no built-in plugin handles.
    async fn mutate_whole(&self, operation: Operation, body: &mut Value) -> Result<(), ApiError> {
        let mut chain = self.chain(Step::Admit, operation);
        let admitted = self.mutate(body, None, &mut chain).await;
        self.end(chain, admitted, Some(body))
    }

    /// Runs the whole validating step for a body that no built-in plugin handles.
    async fn approve_whole(&self, operation: Operation, body: &Value) -> Result<(), ApiError> {
        let mut chain = self.chain(Step::Validate, operation);
        let approved = self.approve(Some(body), None, &mut chain).await;
        self.end(chain, approved, Some(body))
    }

    /// Returns this store for bodies of another kind than its objects.
    fn below<'a>(&'a self, kind: &'a GroupVersionKind) -> Store<'a> {
        Store {
            request_attributes: self
                .request_attributes
                .map(|own| RequestAttributes { kind, ..own }),
            strategy: &Generic,
            ..*self
        }
    }

    /// Asks all webhooks about a deletion, whose admitting step has begun.
    pub(super) async fn admit_deletion(
        &self,
        current: &StoredObject,
        mut admitting: Chain<'_>,
    ) -> Result<(), ApiError> {
        let old = &*current.value();
        let admission = self.admission(Operation::Delete, None, Some(old));
        let admitted = match &admission {
            Some(admission) => admission.mutate(None, Some(old), &mut admitting).await,
            None => Ok(()),
        };
        self.end(admitting, admitted, Some(old))?;
        let mut chain = self.chain(Step::Validate, Operation::Delete);
        let mut approved = chain.run(Plugin::NamespaceExists, || {
            optional::check_namespace(self.state, self.resource, old)
        });
        if approved.is_ok()
            && let Some(admission) = &admission
        {
            approved = admission.validate(None, Some(old), &mut chain).await;
        }
        self.end(chain, approved, Some(old))
    }

    /// Returns the call of webhooks; `None` without configured webhooks or without a request.
    fn admission(
        &self,
        operation: Operation,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Option<Admission<'_>> {
        let request_attributes = self.request_attributes?;
        if !self.state.webhooks.are_configured(&self.state.storage) {
            return None;
        }
        let subject = object.or(old)?;
        let name = match operation {
            // The name in the path counts; the path of a collection has none.
            Operation::Create if request_attributes.name.is_empty() => name(subject).to_owned(),
            _ => request_attributes.name.to_owned(),
        };
        let namespace = match self.resource.namespaced {
            true if request_attributes.namespace.is_empty() => namespace(subject).to_owned(),
            true => request_attributes.namespace.to_owned(),
            false if self.resource.gvk().kind == "Namespace" => name.clone(),
            false => String::new(),
        };
        Some(Admission {
            state: self.state,
            resource: self.resource,
            // The form of an object in a subresource has no defaults.
            strategy: match self.view {
                Some(_) => &Generic,
                None => self.strategy,
            },
            request_attributes,
            operation,
            name,
            namespace,
            dry_run: self.dry_run,
            warnings: self.warnings,
        })
    }
}

/// Refuses an object that nests too deeply to be read again: the owners of its fields may add some
/// levels. Upstream finds out when it has stored it.
fn storable(object: Value) -> Result<Value, ApiError> {
    if !nesting::has_room() || nesting::depth_of(&object) <= nesting::DEPTH_MAX {
        return Ok(object);
    }
    let mut text = Vec::new();
    schema::write_object(&mut text, &object);
    let why = schema::syntax_error(&text);
    Err(ApiError::Unknown(
        why.unwrap_or_else(|| nesting::TOO_DEEP.to_owned()),
    ))
}
