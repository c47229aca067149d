//! The status controller of ValidatingAdmissionPolicies: checks their expressions against the types of
//! the objects that they match, and notes in the status what does not fit.
//!
//! How expressions are checked is given ([`CheckTypes`]): the checker is the API server's own, and
//! this crate knows a server only as an API. Types come from the server's OpenAPI documents.
//! Source: upstream's `pkg/controller/validatingadmissionpolicystatus`.

mod rest_mapper;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    ExpressionWarning, ValidatingAdmissionPolicy, ValidatingAdmissionPolicySpec,
};
use kube::Api;
use kube::api::{Patch, PatchParams};
use kubeproof_machinery::json::{Value, json};

use kubeproof_runtime::context::Context;
use kubeproof_runtime::informer::{Informer, Informers};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::WorkQueue;
use kubeproof_runtime::worker::{self, Reconcile};
use rest_mapper::{GroupVersionKind, RestMapper};

/// The controller's name: its user agent, and the manager of the statuses it applies.
pub const NAME: &str = "validatingadmissionpolicy-status";
const WORKERS: usize = 5;

/// A kind of objects, with the OpenAPI v3 document of its group version.
#[derive(Clone, Copy, Debug)]
pub struct TypedKind<'d> {
    /// The API group; empty for the core group.
    pub group: &'d str,
    /// The API version.
    pub version: &'d str,
    /// The name of the kind.
    pub kind: &'d str,
    /// The document, or `None` if the server has none for that group version.
    pub document: Option<&'d Value>,
}

/// A policy to be checked.
#[derive(Clone, Copy, Debug)]
pub struct TypedPolicy<'d> {
    /// The policy's spec.
    pub spec: &'d Value,
    /// The kinds it matches, by group, version and name.
    pub kinds: &'d [TypedKind<'d>],
    /// The kind of its parameters.
    pub params: Option<TypedKind<'d>>,
    /// The time of the check.
    pub time: Timestamp,
}

/// Finds the expressions of a policy that do not fit the types.
pub type CheckTypes = fn(TypedPolicy<'_>) -> Vec<ExpressionWarning>;

struct Controller {
    ctx: Context,
    check: CheckTypes,
    queue: WorkQueue<ObjectKey>,
    policies: Informer<ValidatingAdmissionPolicy>,
}

/// Runs the controller until the future is dropped.
pub async fn run(ctx: Context, check: CheckTypes) {
    let controller = Controller {
        ctx: ctx.for_component(NAME),
        check,
        queue: WorkQueue::new(),
        policies: Informer::new(),
    };
    Informers::new(&controller.ctx.client)
        .add(&controller.policies, |change| {
            if !matches!(change, Change::Deleted { .. }) {
                controller.queue.add(change.key());
            }
        })
        .run(worker::run(&controller, &controller.queue, WORKERS))
        .await;
}

impl Reconcile for Controller {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(policy) = self.policies.get("", &key.name) else {
            return Ok(None);
        };
        let status = policy.status.as_ref();
        let observed = status.and_then(|status| status.observed_generation);
        let generation = policy.metadata.generation.unwrap_or_default();
        let Some(spec) = &policy.spec else {
            return Ok(None);
        };
        if generation <= observed.unwrap_or_default() {
            return Ok(None);
        }
        let warnings = self.check(spec).await?;
        let mut checked = json!({});
        if !warnings.is_empty() {
            checked["expressionWarnings"] = json!(warnings);
        }
        let applied = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": key.name},
            "status": {"observedGeneration": generation, "typeChecking": checked},
        });
        let api: Api<ValidatingAdmissionPolicy> = Api::all(self.ctx.client.clone());
        let params = PatchParams::apply(NAME).force();
        match api
            .patch_status(&key.name, &params, &Patch::Apply(applied))
            .await
        {
            Ok(_) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl GroupVersionKind {
    /// The kind with its document out of `documents`, which are by path.
    fn typed<'d>(&'d self, documents: &'d BTreeMap<String, Option<Value>>) -> TypedKind<'d> {
        let document = documents.get(&self.openapi_path());
        TypedKind {
            group: &self.group,
            version: &self.version,
            kind: &self.kind,
            document: document.and_then(Option::as_ref),
        }
    }
}

impl Controller {
    async fn check(
        &self,
        spec: &ValidatingAdmissionPolicySpec,
    ) -> Result<Vec<ExpressionWarning>, Error> {
        let mapper = RestMapper::read(&self.ctx.client).await?;
        let rules = spec.match_constraints.as_ref();
        let rules = rules.and_then(|own| own.resource_rules.as_deref());
        let kinds = mapper.kinds_of(rules.unwrap_or_default());
        let params = spec.param_kind.as_ref().and_then(|own| {
            let version = own.api_version.as_deref()?;
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            Some(GroupVersionKind {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: own.kind.clone()?,
            })
        });
        let paths = kinds.iter().chain(&params).map(|kind| kind.openapi_path());
        let paths: BTreeSet<String> = paths.collect();
        let mut documents = BTreeMap::new();
        for path in paths {
            let document = self.document(&path).await?;
            documents.insert(path, document);
        }
        let kinds: Vec<TypedKind<'_>> = kinds.iter().map(|own| own.typed(&documents)).collect();
        let spec = json::to_value(spec).map_err(|source| Error::Malformed {
            what: "the spec of a ValidatingAdmissionPolicy".to_owned(),
            source,
        })?;
        Ok((self.check)(TypedPolicy {
            spec: &spec,
            kinds: &kinds,
            params: params.as_ref().map(|own| own.typed(&documents)),
            time: (self.ctx.now)(),
        }))
    }

    /// The OpenAPI document at `path`, if it exists.
    async fn document(&self, path: &str) -> Result<Option<Value>, Error> {
        match rest_mapper::get(&self.ctx.client, path, "application/json").await {
            Ok(document) => Ok(Some(document.into())),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}
