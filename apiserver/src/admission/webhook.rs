//! Admission webhooks: their selection for a write, their reviews, and the handling of their
//! answers.

mod annotate;
mod answer;
mod configuration;
mod matching;
mod review;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::chain::Chain;
use super::policy::{self, Policies};
use super::request::{Admission, GROUP, Invocation};
use crate::admission::State;
use crate::auth;
use crate::cel::{Expression, Returns, Scope};
use crate::clock::nanos_between;
use crate::json::Value;
use crate::meta::GroupVersionResource;
use crate::meta::object::{meta_mut, namespace};
use crate::metrics::admission::Plugin;
use crate::metrics::admission::{Configured, Rejection, WebhookCall};
use crate::nesting;
use crate::registry::catalog::ResourceInfo;
use crate::status::ApiError;
use crate::storage::{Snapshot, Storage, Table};
use crate::webhook::{CallError, WebhookConfig};
use annotate::Place;
use answer::{Answer, Failure};
use configuration::Webhook;

/// The group of the reviews.
const GROUP_OF_REVIEWS: &str = "admission.k8s.io";

/// The number of compiled conditions that are cached before all are dropped.
const CONDITIONS_MAX: usize = 1024;

/// The tables of the configurations, cached because every write reads them.
#[derive(Debug, Default)]
pub(crate) struct Configurations {
    mutating: OnceLock<Arc<Table>>,
    validating: OnceLock<Arc<Table>>,
    /// The webhooks of either phase, as they were read last.
    read: Mutex<[Option<Read>; 2]>,
    /// The conditions of webhooks that have been read, by their texts.
    conditions: Mutex<BTreeMap<String, Arc<Expression>>>,
    pub(super) policies: Policies,
}

/// The webhooks of a phase in the order of calls, and the configurations they were read from.
#[derive(Debug)]
struct Read {
    from: Snapshot,
    webhooks: Arc<[Webhook]>,
}

impl Configurations {
    /// Whether any webhook is configured, or any policy is bound.
    pub(crate) fn are_configured(&self, storage: &Storage) -> bool {
        [Phase::Mutating, Phase::Validating]
            .into_iter()
            .any(|phase| !self.table(phase, storage).is_empty())
            || self.policies.are_bound(storage)
    }

    /// The names of all webhooks and policies.
    pub(crate) fn configured(&self, storage: &Storage) -> Configured {
        let phases = [Phase::Mutating, Phase::Validating];
        let webhooks = phases.map(|phase| self.webhooks(phase, storage));
        let webhooks = webhooks.iter().flat_map(|own| own.iter());
        Configured {
            webhooks: webhooks.map(|webhook| webhook.name.clone()).collect(),
            policies: self.policies.names(storage),
        }
    }

    /// The condition that an expression is, read once for all requests.
    fn condition(&self, expression: &str) -> Result<Arc<Expression>, String> {
        let mut held = self.conditions.lock();
        if let Some(condition) = held.get(expression) {
            return Ok(Arc::clone(condition));
        }
        if held.len() >= CONDITIONS_MAX {
            held.clear();
        }
        let condition = Arc::new(Scope::new().compile(expression, Returns::Bool)?);
        held.insert(expression.to_owned(), Arc::clone(&condition));
        Ok(condition)
    }

    fn table(&self, phase: Phase, storage: &Storage) -> &Table {
        let (held, plural) = match phase {
            Phase::Mutating => (&self.mutating, "mutatingwebhookconfigurations"),
            Phase::Validating => (&self.validating, "validatingwebhookconfigurations"),
        };
        held.get_or_init(|| {
            storage.table(&GroupVersionResource {
                group: GROUP.to_owned(),
                version: "v1".to_owned(),
                resource: plural.to_owned(),
            })
        })
    }

    /// The webhooks of a phase in the order of calls.
    fn webhooks(&self, phase: Phase, storage: &Storage) -> Arc<[Webhook]> {
        let from = self.table(phase, storage).snapshot();
        let mut held = self.read.lock();
        let held = &mut held[phase as usize];
        if let Some(read) = held.as_ref()
            && read.from.has_objects_of(&from)
        {
            return Arc::clone(&read.webhooks);
        }
        let webhooks: Arc<[Webhook]> = from
            .range(None, None)
            .flat_map(|configuration| Webhook::of(&configuration.value()))
            .collect();
        let read = Read {
            from,
            webhooks: Arc::clone(&webhooks),
        };
        *held = Some(read);
        webhooks
    }
}

/// Drops the metrics of webhooks and policies that a write has removed.
pub(crate) fn after_write(state: &State, resource: &ResourceInfo) {
    if resource.gvr().group == GROUP {
        let configured = || state.webhooks.configured(&state.storage);
        state.metrics.forget_names(configured);
    }
}

/// The phase in which a webhook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Mutating,
    Validating,
}

impl Phase {
    /// The phase as metrics of webhooks call it.
    fn as_str(self) -> &'static str {
        match self {
            Self::Mutating => "admit",
            Self::Validating => "validating",
        }
    }
}

/// The webhooks that are called again because a later one has changed the object.
#[derive(Default)]
struct Reinvocation {
    /// The reinvocable webhooks that were called since the last change.
    asked: BTreeSet<String>,
    /// The webhooks to call again.
    due: BTreeSet<String>,
}

impl Reinvocation {
    fn changed(&mut self) {
        self.due.append(&mut self.asked);
    }
}

impl Admission<'_> {
    /// Lets each mutating policy and webhook that the write matches change it, one after the other.
    /// If any does, the built-in plugins are asked again, and with them the policies and webhooks that
    /// want to see what others changed later. Deletions have no `object`.
    ///
    /// # Errors
    /// The refusal of a webhook; `InternalError` when one that must be asked can't be.
    pub(crate) async fn mutate(
        &self,
        mut object: Option<&mut Value>,
        old: Option<&Value>,
        chain: &mut Chain<'_>,
    ) -> Result<(), ApiError> {
        const POLICIES: Plugin = Plugin::MutatingAdmissionPolicy;
        const WEBHOOKS: Plugin = Plugin::MutatingAdmissionWebhook;
        let mut left = Vec::new();
        let before = object.as_deref().map(|own| namespace(own).to_owned());
        let mut changed = false;
        let plugins = self.state.plugins;
        let (has_policies, has_webhooks) = (plugins.has(POLICIES), plugins.has(WEBHOOKS));
        if let Some(object) = object.as_deref_mut()
            && has_policies
        {
            let mutated = self.mutated_by_policies(object, old, &mut left).await;
            changed = chain.asked(POLICIES, mutated)?;
        }
        let webhooks = match has_webhooks {
            true => self.webhooks(Phase::Mutating),
            false => Arc::default(),
        };
        let mut reinvocation = Reinvocation::default();
        let round =
            self.mutating_round(&webhooks, object.as_deref_mut(), old, &mut reinvocation, 0);
        let round = round.await;
        if has_webhooks {
            changed |= chain.asked(WEBHOOKS, round)?;
        }
        if changed {
            chain.again();
            if let Some(object) = object.as_deref_mut() {
                let seen = object.clone();
                self.admit_again(object, old, chain)?;
                if has_policies {
                    let mutated = self.mutated_again(object, old, &left).await;
                    chain.asked(POLICIES, mutated)?;
                }
                if *object != seen {
                    reinvocation.changed();
                }
            }
            let object = object.as_deref_mut();
            let round = self.mutating_round(&webhooks, object, old, &mut reinvocation, 1);
            let round = round.await;
            if has_webhooks {
                chain.asked(WEBHOOKS, round)?;
            }
        }
        let now = object.as_deref().map_or("", namespace);
        match before {
            Some(before) if !now.is_empty() && !before.is_empty() && now != before => {
                Err(ApiError::foreign_namespace())
            }
            _ => Ok(()),
        }
    }

    /// Runs the mutating policies, whose expressions may ask for permissions.
    async fn mutated_by_policies(
        &self,
        object: &mut Value,
        old: Option<&Value>,
        left: &mut Vec<policy::Reinvocation>,
    ) -> Result<bool, ApiError> {
        if !self.state.authorizers.ask_webhooks() {
            return self.mutate_by_policies(object, old, left);
        }
        let before = &*object;
        let mutate = || {
            let (mut next, mut left) = (before.clone(), Vec::new());
            let mutated = self.mutate_by_policies(&mut next, old, &mut left);
            (mutated, next, left)
        };
        let (mutated, next, again) = auth::resolved(self.state, mutate).await;
        (*object, *left) = (next, again);
        mutated
    }

    /// Runs the mutating policies again whose outcome others have changed.
    async fn mutated_again(
        &self,
        object: &mut Value,
        old: Option<&Value>,
        left: &[policy::Reinvocation],
    ) -> Result<(), ApiError> {
        if !self.state.authorizers.ask_webhooks() {
            return self.mutate_again(object, old, left);
        }
        let before = &*object;
        let mutate = || {
            let mut next = before.clone();
            (self.mutate_again(&mut next, old, left), next)
        };
        let (mutated, next) = auth::resolved(self.state, mutate).await;
        *object = next;
        mutated
    }

    /// Asks the webhooks once; answers whether one of them has changed the object.
    async fn mutating_round(
        &self,
        webhooks: &[Webhook],
        mut object: Option<&mut Value>,
        old: Option<&Value>,
        reinvocation: &mut Reinvocation,
        round: u8,
    ) -> Result<bool, ApiError> {
        let mut any_changed = false;
        for (at, webhook) in webhooks.iter().enumerate() {
            let asked = (object.as_deref(), old);
            let matching = || self.invocation(webhook, Phase::Mutating, asked);
            let Some(invocation) = auth::resolved(self.state, matching).await? else {
                continue;
            };
            if round > 0 && !reinvocation.due.contains(&webhook.id) {
                continue;
            }
            let started = self.state.clock.now();
            let asked = self.ask(
                webhook,
                &invocation,
                Phase::Mutating,
                object.as_deref(),
                old,
            );
            let place = Place { round, at };
            let patched = match asked.await {
                Ok(answer) => {
                    let object = object.as_deref_mut();
                    let patched = self.patched(webhook, &answer, &invocation, object);
                    self.annotate_patch(webhook, place, &answer, &patched);
                    patched
                }
                Err(failure) => Err(failure),
            };
            self.annotate_mutation(webhook, place, &patched);
            let changed = self.outcome(webhook, (Phase::Mutating, started), patched)?;
            if changed == Some(true) {
                any_changed = true;
                reinvocation.changed();
            }
            if webhook.reinvocable {
                reinvocation.asked.insert(webhook.id.clone());
            }
        }
        Ok(any_changed)
    }

    /// Asks each validating webhook that the write matches; the first refusal counts.
    ///
    /// # Errors
    /// The refusal of a webhook; `InternalError` when one that must be asked can't be.
    pub(crate) async fn validate(
        &self,
        object: Option<&Value>,
        old: Option<&Value>,
        chain: &mut Chain<'_>,
    ) -> Result<(), ApiError> {
        const POLICIES: Plugin = Plugin::ValidatingAdmissionPolicy;
        const WEBHOOKS: Plugin = Plugin::ValidatingAdmissionWebhook;
        let plugins = self.state.plugins;
        if plugins.has(POLICIES) {
            let validate = || self.validate_by_policies(object, old);
            let validated = auth::resolved(self.state, validate).await;
            chain.asked(POLICIES, validated)?;
        }
        if !plugins.has(WEBHOOKS) {
            return Ok(());
        }
        let validated = self.validate_by_webhooks(object, old).await;
        chain.asked(WEBHOOKS, validated)
    }

    async fn validate_by_webhooks(
        &self,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        const PHASE: Phase = Phase::Validating;
        let mut matching = Vec::new();
        let webhooks = self.webhooks(PHASE);
        for webhook in &*webhooks {
            let invocation = || self.invocation(webhook, PHASE, (object, old));
            if let Some(invocation) = auth::resolved(self.state, invocation).await? {
                matching.push((webhook, invocation));
            }
        }
        let mut refused = Ok(());
        // Upstream asks all at once: each is asked, and one refusal is passed on.
        for (at, (webhook, invocation)) in matching.into_iter().enumerate() {
            let started = self.state.clock.now();
            let asked = self.ask(webhook, &invocation, PHASE, object, old).await;
            let place = Place { round: 0, at };
            self.annotate_failed_open(webhook, PHASE, place, &asked);
            let outcome = self.outcome(webhook, (PHASE, started), asked).map(drop);
            refused = refused.and(outcome);
        }
        refused
    }

    /// The webhooks of a phase; none for a write of the configurations themselves.
    fn webhooks(&self, phase: Phase) -> Arc<[Webhook]> {
        let kind = self.request_attributes.kind;
        let is_exempt = kind.group == GROUP
            && matches!(
                kind.kind.as_str(),
                "ValidatingWebhookConfiguration"
                    | "MutatingWebhookConfiguration"
                    | "ValidatingAdmissionPolicy"
                    | "ValidatingAdmissionPolicyBinding"
                    | "MutatingAdmissionPolicy"
                    | "MutatingAdmissionPolicyBinding"
            );
        match is_exempt {
            true => Arc::default(),
            false => self.state.webhooks.webhooks(phase, &self.state.storage),
        }
    }

    /// Posts a review to a webhook, and reads its answer.
    async fn ask(
        &self,
        webhook: &Webhook,
        invocation: &Invocation,
        phase: Phase,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<Answer, Failure> {
        if self.dry_run && !webhook.allows_dry_run() {
            return Err(Failure::Internal(ApiError::BadRequest(format!(
                "admission webhook {:?} does not support dry run",
                webhook.name
            ))));
        }
        let Some(version) = webhook.review_version() else {
            let why = "could not create admission objects: webhook does not accept known \
                       AdmissionReview versions (v1, v1beta1)";
            let why = why.to_owned();
            return Err(Failure::Call { why, code: 400 });
        };
        let uid = self.state.entropy.review_uid();
        let review = self.review(&uid, version, invocation, object, old);
        let config = WebhookConfig {
            client_config: &webhook.client_config,
            timeout: Duration::from_secs(webhook.timeout_seconds),
        };
        let calls = self.request_attributes.calls;
        let posted = calls
            .post(&self.state.webhook_client(), &config, &review)
            .await;
        let decoded = posted.and_then(|response| {
            answer::check_decodes(&response, version).map_err(CallError::failed)?;
            Ok(response)
        });
        let response = decoded.map_err(|error| Failure::Call {
            code: error.code(),
            why: error.to_string(),
        })?;
        let answer = Answer::read(&response, &uid, version, phase).map_err(|why| {
            Failure::unavailable(format!("received invalid webhook response: {why}"))
        })?;
        nesting::make_room(answer.may_deepen()).await;
        self.annotate_answer(webhook, &answer);
        if let Some(warnings) = self.warnings {
            let mut warnings = warnings.lock();
            for warning in &answer.warnings {
                if !warnings.contains(warning) {
                    warnings.push(warning.clone());
                }
            }
        }
        match &answer.denied {
            None => Ok(answer),
            Some(status) => Err(Failure::Refused(answer::denial(&webhook.name, status))),
        }
    }

    /// The outcome of a call; a failed call is `None` if the webhook's policy ignores failures.
    fn outcome<T>(
        &self,
        webhook: &Webhook,
        (phase, started): (Phase, Timestamp),
        asked: Result<T, Failure>,
    ) -> Result<Option<T>, ApiError> {
        let nanos = nanos_between(started, self.state.clock.now());
        self.request_attributes
            .waited
            .fetch_add(nanos, Ordering::Relaxed);
        let (code, rejection) = match &asked {
            Ok(_) => (200, None),
            Err(Failure::Refused(error)) => (error.code(), Some(Rejection::NoError)),
            Err(Failure::Internal(_)) => (0, Some(Rejection::ServerInternal)),
            Err(Failure::Call { code, .. }) => {
                let rejects = !webhook.ignores_failure;
                (*code, rejects.then_some(Rejection::CallingWebhook))
            }
        };
        let call = WebhookCall {
            webhook: &webhook.name,
            step: phase.as_str(),
            operation: self.operation,
            code,
            rejection,
            fails_open: asked.is_err() && rejection.is_none(),
            nanos,
        };
        self.state.metrics.admission().named().called(call);
        match asked {
            Ok(answer) => Ok(Some(answer)),
            Err(Failure::Refused(error) | Failure::Internal(error)) => Err(error),
            Err(Failure::Call { why, .. }) => {
                let message = format!("failed calling webhook {:?}: {why}", webhook.name);
                if webhook.ignores_failure {
                    tracing::warn!(webhook = webhook.name, why, "webhook failed open");
                    return Ok(None);
                }
                Err(ApiError::Internal(message))
            }
        }
    }

    /// What built-in plugins make of the object after webhooks have changed it.
    fn admit_again(
        &self,
        object: &mut Value,
        old: Option<&Value>,
        chain: &mut Chain<'_>,
    ) -> Result<(), ApiError> {
        // They have nothing to say of subresources.
        if !self.request_attributes.subresource.is_empty() {
            return Ok(());
        }
        if self.resource.namespaced && namespace(object).is_empty() {
            meta_mut(object).insert("namespace", self.namespace.as_str().into());
        }
        // Upstream's plugins go by the namespace of the request; an object that a webhook has
        // moved out of it is refused later.
        if self.resource.namespaced && namespace(object) != self.namespace {
            return Ok(());
        }
        match old {
            None => super::admit_create(self.state, self.resource, object, chain),
            Some(old) => super::admit_update(self.state, self.resource, (object, old), chain),
        }
    }
}
