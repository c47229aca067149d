//! POST of an Eviction: deletes a pod if its disruption budget allows.

use super::named_create::{admit, success};
use super::{Answer, Request, decode};
use crate::clock::rfc3339;
use crate::json::Value;
use crate::meta::GroupVersionKind;
use crate::meta::object::{meta, name, namespace};
use crate::registry::catalog::ResourceInfo;
use crate::registry::policy::eviction;
use crate::request::options::DeleteOptions;
use crate::status::ApiError;
use crate::store::{Store, Subresource};

pub(super) async fn evict(request: &Request<'_>) -> Answer {
    let dry_run = request.query.dry_run("CreateOptions")?;
    let gvk = kind(request)?;
    let mut eviction = decode::object(request, &gvk, "CreateOptions")?;
    let store = request.store(dry_run);
    store.set_namespace(&mut eviction, request.namespace())?;
    admit(request, request.name())?;
    let asked = store.admit_below(&gvk, &mut eviction);
    asked.await?;
    if name(&eviction) != request.name() {
        let message = "name in URL does not match name in Eviction object";
        return Err(ApiError::BadRequest(message.to_owned()));
    }
    request
        .store(dry_run)
        .get(request.namespace(), request.name())?;
    let mut options = DeleteOptions::from_body(&eviction["deleteOptions"])?;
    options.dry_run |= dry_run;
    // A pod that changes between its check and its deletion is checked again.
    loop {
        match evict_once(request, &options).await? {
            Outcome::Evicted => return Ok(success(request)),
            Outcome::Undecided => return Err(eviction::undecided()),
            Outcome::Conflict => {}
        }
    }
}

/// The version of the body: upstream still reads the one that `policy` has dropped since.
fn kind(request: &Request<'_>) -> Result<GroupVersionKind, ApiError> {
    let subresource = request.resource.subresource("eviction");
    let gvk = &subresource.ok_or(ApiError::NoSuchPath)?.gvk;
    let version = serde_json::from_slice::<Value>(&request.body)
        .ok()
        .filter(|body| body["apiVersion"] == "policy/v1beta1")
        .map_or(gvk.version.as_str(), |_| "v1beta1");
    Ok(GroupVersionKind {
        version: version.to_owned(),
        ..gvk.clone()
    })
}

#[derive(PartialEq, Eq)]
enum Outcome {
    Evicted,
    /// More than one budget would have to decide.
    Undecided,
    Conflict,
}

async fn evict_once(request: &Request<'_>, options: &DeleteOptions) -> Result<Outcome, ApiError> {
    // Webhooks have been asked about the eviction, not about the deletion.
    let store = Store {
        request_attributes: None,
        ..request.store(options.dry_run)
    };
    let pod = store.get(request.namespace(), request.name())?;
    if !eviction::ignores_budget(&pod.value()) {
        match budgets_of(request, &pod.value()).as_slice() {
            [] => {}
            [budget] if eviction::counts(budget, &pod.value()) => {
                take_from_budget(request, name(budget), options.dry_run).await?;
            }
            [_] => {}
            _ => return Ok(Outcome::Undecided),
        }
    }
    let mut fixed = options.clone();
    if fixed.preconditions.rv.is_none() {
        fixed.preconditions.rv = Some(pod.rv.to_string());
    }
    let deleted = match disrupt(request, &store, fixed).await {
        Ok(fixed) => {
            let deleted = store.delete(request.namespace(), request.name(), &fixed);
            deleted.await
        }
        Err(error) => Err(error),
    };
    match deleted {
        Err(ApiError::Conflict { .. }) if options.preconditions.rv.is_none() => {
            // If the pod has not changed, the conflict comes from a precondition of the request.
            let current = store.get(request.namespace(), request.name())?;
            if current.rv != pod.rv {
                return Ok(Outcome::Conflict);
            }
            deleted.map(|_| Outcome::Evicted)
        }
        deleted => deleted.map(|_| Outcome::Evicted),
    }
}

/// Notes in the pod why it goes, and guards the deletion by the version that this makes.
async fn disrupt(
    request: &Request<'_>,
    store: &Store<'_>,
    mut options: DeleteOptions,
) -> Result<DeleteOptions, ApiError> {
    if options.dry_run {
        return Ok(options);
    }
    let store = Store {
        writer: None,
        ..*store
    };
    let now = rfc3339(request.state.clock.now());
    let (namespace, name) = (request.namespace(), request.name());
    let written = store.update(namespace, name, Subresource::Unchecked, |pod| {
        store.check_delete_preconditions(pod, name, &options)?;
        Ok(eviction::disrupted(pod, &now))
    });
    let written = written.await?;
    options.preconditions.rv = Some(meta(&written.value(), "resourceVersion").to_owned());
    Ok(options)
}

/// The budgets that select the pod.
fn budgets_of(request: &Request<'_>, pod: &Value) -> Vec<Value> {
    let table = request.state.storage.table(budgets(request).gvr());
    let snapshot = table.snapshot();
    let budgets = snapshot.range(Some(namespace(pod)), None);
    let selecting = budgets.filter(|budget| eviction::selects(&budget.value(), pod));
    selecting.map(|budget| (*budget.value()).clone()).collect()
}

fn budgets<'a>(request: &'a Request<'_>) -> &'a ResourceInfo {
    request
        .state
        .catalog
        .resource("policy", "v1", "poddisruptionbudgets")
        .expect("budgets are built in")
}

/// Counts the pod as disrupted, if the budget has a disruption left.
async fn take_from_budget(
    request: &Request<'_>,
    budget: &str,
    dry_run: bool,
) -> Result<(), ApiError> {
    let resource = budgets(request);
    let store = Store {
        state: request.state,
        resource,
        strategy: resource.strategy(),
        user_agent: &request.user_agent,
        writer: None,
        warnings: Some(&request.warnings),
        guards_uid: true,
        dry_run,
        request_attributes: None,
        view: None,
    };
    let now = rfc3339(request.state.clock.now());
    store
        .update(request.namespace(), budget, Subresource::Status, |budget| {
            eviction::take_disruption(budget, request.name(), &now)
        })
        .await
        .map(drop)
}
