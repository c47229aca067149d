//! POST of an Eviction: deletes a pod if its disruption budget allows.

use http::Response;
use serde_json::{Value, json};

use super::subresource::{admit, set_condition, success};
use super::{Answer, Request, decode};
use crate::clock::rfc3339;
use crate::endpoints::body::ResponseBody;
use crate::endpoints::response;
use crate::meta::object::{child_mut, is_terminating, meta, name, namespace};
use crate::meta::selector::LabelSelector;
use crate::meta::{GroupResource, GroupVersionKind};
use crate::registry::catalog::ResourceInfo;
use crate::request::options::DeleteOptions;
use crate::status::{ApiError, Cause};
use crate::store::{Store, Subresource};

/// Evictions that a budget remembers before its controller has seen the pods go.
const DISRUPTED_PODS_MAX: usize = 2000;
/// Seconds after which to try again while a budget is behind.
const RETRY_AFTER_SECONDS: i64 = 10;

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
            Outcome::Undecided => return Ok(undecided(request)),
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

/// Upstream makes a failure of this by hand, without a reason.
fn undecided(request: &Request<'_>) -> Response<ResponseBody> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        "code": 500,
    });
    response::value(500, &status, request.accepted)
}

async fn evict_once(request: &Request<'_>, options: &DeleteOptions) -> Result<Outcome, ApiError> {
    // Webhooks have been asked about the eviction, not about the deletion.
    let store = Store {
        request_attributes: None,
        ..request.store(options.dry_run)
    };
    let pod = store.get(request.namespace(), request.name())?;
    if !ignores_budget(&pod.value()) {
        match budgets_of(request, &pod.value()).as_slice() {
            [] => {}
            [budget] if counts(budget, &pod.value()) => {
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
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastProbeTime": null,
            "lastTransitionTime": now,
        });
        let mut next = pod.clone();
        set_condition(&mut next, condition);
        Ok(next)
    });
    let written = written.await?;
    options.preconditions.rv = Some(meta(&written.value(), "resourceVersion").to_owned());
    Ok(options)
}

/// Whether the pod does no work that its budget protects.
fn ignores_budget(pod: &Value) -> bool {
    matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed" | "Pending")
    ) || is_terminating(pod)
}

/// Whether the eviction must be paid from the budget; an unhealthy pod may go for free.
fn counts(budget: &Value, pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    if ready {
        return true;
    }
    let [healthy, desired] = ["currentHealthy", "desiredHealthy"].map(|field| count(budget, field));
    let always = budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
    !always && (healthy < desired || desired <= 0)
}

fn count(budget: &Value, field: &str) -> i64 {
    budget["status"][field].as_i64().unwrap_or(0)
}

/// The budgets that select the pod.
fn budgets_of(request: &Request<'_>, pod: &Value) -> Vec<Value> {
    let table = request.state.storage.table(budgets(request).gvr());
    let snapshot = table.snapshot();
    let budgets = snapshot.range(Some(namespace(pod)), None);
    let selecting = budgets.filter(|budget| {
        // No selector selects nothing, an empty one everything.
        let selector = &budget.value()["spec"]["selector"];
        !selector.is_null()
            && LabelSelector::from_object(selector)
                .is_ok_and(|selector| selector.matches(&pod["metadata"]["labels"]))
    });
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
            check(budget)?;
            let allowed = count(budget, "disruptionsAllowed") - 1;
            let mut next = budget.clone();
            let generation = budget["metadata"]["generation"].clone();
            let status = child_mut(&mut next, "status");
            status.insert("disruptionsAllowed".to_owned(), allowed.into());
            child_mut(&mut next["status"], "disruptedPods")
                .insert(request.name().to_owned(), now.as_str().into());
            if allowed == 0 {
                set_insufficient(&mut next, &generation, &now);
            }
            Ok(next)
        })
        .await
        .map(drop)
}

/// Whether the budget allows one more disruption.
fn check(budget: &Value) -> Result<(), ApiError> {
    let generation = budget["metadata"]["generation"].as_i64().unwrap_or(0);
    let own = name(budget);
    if count(budget, "observedGeneration") < generation {
        let why = format!("The disruption budget {own} is still being processed by the server.");
        return Err(too_many(why, RETRY_AFTER_SECONDS));
    }
    let forbidden = |message: &str| ApiError::Forbidden {
        resource: GroupResource {
            group: "policy".to_owned(),
            resource: "poddisruptionbudget".to_owned(),
        },
        name: own.to_owned(),
        message: message.to_owned(),
        causes: Vec::new(),
    };
    let allowed = count(budget, "disruptionsAllowed");
    if allowed < 0 {
        return Err(forbidden("pdb disruptions allowed is negative"));
    }
    let disrupted = budget["status"]["disruptedPods"].as_object();
    if disrupted.is_some_and(|pods| pods.len() > DISRUPTED_PODS_MAX) {
        let message =
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(forbidden(message));
    }
    if allowed == 0 {
        let [healthy, desired] =
            ["currentHealthy", "desiredHealthy"].map(|field| count(budget, field));
        let why = format!(
            "The disruption budget {own} needs {desired} healthy pods and has {healthy} currently"
        );
        return Err(too_many(why, 0));
    }
    Ok(())
}

fn too_many(why: String, retry_after_seconds: i64) -> ApiError {
    ApiError::TooManyRequests {
        message: "Cannot evict pod as it would violate the pod's disruption budget.".to_owned(),
        retry_after_seconds,
        causes: vec![Cause {
            reason: "DisruptionBudget".to_owned(),
            message: why,
            field: String::new(),
        }],
    }
}

/// Shows in the conditions that the budget is used up.
fn set_insufficient(budget: &mut Value, generation: &Value, now: &str) {
    let condition = json!({
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "lastTransitionTime": now,
        "observedGeneration": generation,
    });
    set_condition(budget, condition);
}
