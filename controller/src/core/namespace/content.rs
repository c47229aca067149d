//! Deletes the content of a namespace in one pass, and reports what remains.
//!
//! Source: `namespaced_resources_deleter.go` of Kubernetes.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, DynamicObject, ListParams, ObjectList};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, ResourceExt};
use kubeproof_runtime::clock::{go_seconds, later};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::discovery::{self, APIResource};
use kubeproof_runtime::pod::Pod;
use kubeproof_runtime::sync_error::{Error, answered};

use super::conditions::Findings;

/// The expected duration of finalizers, in seconds.
const FINALIZERS_ESTIMATE: i64 = 15;

/// The outcome of a pass.
#[derive(Default)]
pub(super) struct Deletion {
    pub(super) findings: Findings,
    pub(super) errors: Vec<Error>,
    /// Seconds until what is left may be gone; 0 when nothing is left.
    pub(super) estimate: i64,
}

/// The remaining objects of one kind.
#[derive(Default)]
struct DeletionMetadata {
    estimate: i64,
    objects: usize,
    /// The number of objects that each finalizer keeps.
    finalizers: BTreeMap<String, usize>,
}

/// Deletes the content of `namespace`: pods first, and the other kinds when no pod is left. A
/// failure of one kind holds up no other.
pub(super) async fn delete(ctx: &Context, namespace: &Namespace) -> Deletion {
    let mut deletion = Deletion::default();
    let kinds = match discovery::server_preferred_resources(&ctx.client).await {
        Ok(preferred) => {
            if let Some(error) = preferred.failure() {
                let failing = preferred.failed.len();
                deletion.findings.discovery = Some(format!(
                    "Discovery failed for some groups, {failing} failing: {error}"
                ));
                deletion.errors.push(Error::Refused(error));
            }
            preferred.resources
        }
        Err(error) => {
            let error = Error::from(error);
            deletion.findings.discovery = Some(error.to_string());
            deletion.errors.push(error);
            Vec::new()
        }
    };
    let kinds = kinds
        .into_iter()
        .filter(|kind| kind.namespaced && kind.supports("delete"));
    let (pods, others): (Vec<Arc<APIResource>>, Vec<Arc<APIResource>>) =
        kinds.partition(|kind| kind.is("", "Pod"));
    for kind in &pods {
        deletion.pass(ctx, namespace, kind).await;
    }
    // What pods use outlives them; while they are left, nothing is reported as remaining.
    if deletion.findings.is_empty() {
        for kind in &others {
            deletion.pass(ctx, namespace, kind).await;
        }
        deletion.findings.is_complete = true;
    }
    deletion
}

impl Deletion {
    async fn pass(&mut self, ctx: &Context, namespace: &Namespace, kind: &APIResource) {
        let (metadata, error) = delete_kind(ctx, namespace, kind).await;
        self.estimate = self.estimate.max(metadata.estimate);
        if metadata.objects > 0 {
            self.findings
                .add(kind, metadata.objects, metadata.finalizers);
        }
        let Some(error) = error else { return };
        self.findings.content_errors.push(error.to_string());
        self.errors.push(match kind.is("", "Pod") {
            true => Error::Refused(format!(
                "failed to delete pods for namespace: {}, err: {error}",
                namespace.name_any()
            )),
            false => error,
        });
    }
}

async fn delete_kind(
    ctx: &Context,
    namespace: &Namespace,
    kind: &APIResource,
) -> (DeletionMetadata, Option<Error>) {
    let mut metadata = DeletionMetadata::default();
    match estimate(ctx, namespace, kind).await {
        Ok(estimate) => metadata.estimate = estimate,
        Err(error) => return (metadata, Some(error.into())),
    }
    let name = namespace.name_any();
    let remaining = match delete_all(&ctx.client, &name, kind).await {
        Ok(()) => list(&ctx.client, &name, kind).await,
        Err(error) => Err(error),
    };
    let remaining = match remaining {
        Ok(Some(remaining)) => remaining.items,
        Ok(None) => return (metadata, None),
        Err(error) => return (metadata, Some(error.into())),
    };
    if remaining.is_empty() {
        return (DeletionMetadata::default(), None);
    }
    metadata.objects = remaining.len();
    for finalizer in remaining.iter().flat_map(ResourceExt::finalizers) {
        *metadata.finalizers.entry(finalizer.clone()).or_default() += 1;
    }
    if metadata.estimate == 0 && metadata.finalizers.is_empty() {
        let resource = &kind.resource;
        let error = format!(
            "unexpected items still remain in namespace: {name} for gvr: {}/{}, Resource={}",
            resource.group, resource.version, resource.plural
        );
        return (metadata, Some(Error::Refused(error)));
    }
    if metadata.estimate == 0 {
        metadata.estimate = FINALIZERS_ESTIMATE;
    }
    (metadata, None)
}

/// Seconds that pods are given to end; 0 when these are over.
async fn estimate(
    ctx: &Context,
    namespace: &Namespace,
    kind: &APIResource,
) -> Result<i64, kube::Error> {
    if !kind.is("", "Pod") {
        return Ok(0);
    }
    let api: Api<Pod> = Api::namespaced(ctx.client.clone(), &namespace.name_any());
    let mut estimate = 0;
    for pod in api.list(&ListParams::default()).await? {
        if !kubeproof_runtime::pod::is_finished(&pod) {
            let grace = pod
                .spec
                .and_then(|spec| spec.termination_grace_period_seconds);
            estimate = estimate.max(grace.unwrap_or(0));
        }
    }
    let deletion = namespace.metadata.deletion_timestamp.as_ref();
    let is_over = deletion.is_some_and(|time| (ctx.now)() >= later(time.0, go_seconds(estimate)));
    Ok(if is_over { 0 } else { estimate })
}

async fn delete_all(
    client: &Client,
    namespace: &str,
    kind: &APIResource,
) -> Result<(), kube::Error> {
    let api = kind.api(client, namespace);
    let params = DeleteParams::background();
    if kind.supports("deletecollection") {
        let deleted = api.delete_collection(&params, &ListParams::default()).await;
        match deleted {
            Err(error) if is_unsupported(&error) => {}
            deleted => return deleted.map(|_| ()),
        }
    }
    for object in list(client, namespace, kind).await?.into_iter().flatten() {
        match api.delete(&object.name_any(), &params).await {
            Err(error) if is_unsupported(&error) => {}
            deleted => _ = deleted?,
        }
    }
    Ok(())
}

/// Lists the objects of `kind`; None when they cannot be listed.
async fn list(
    client: &Client,
    namespace: &str,
    kind: &APIResource,
) -> Result<Option<ObjectList<PartialObjectMeta<DynamicObject>>>, kube::Error> {
    if !kind.supports("list") {
        return Ok(None);
    }
    let api = kind.api(client, namespace);
    match api.list_metadata(&ListParams::default()).await {
        Err(error) if is_unsupported(&error) => Ok(None),
        listed => listed.map(Some),
    }
}

/// Whether the server has no such operation, or no such resource any more.
fn is_unsupported(error: &kube::Error) -> bool {
    answered(error, 404) || answered(error, 405)
}
