//! Evictions: what a disruption budget allows.
//!
//! Source: `pkg/registry/core/pod/storage/eviction.go`.

use crate::condition::set_condition;
use crate::json::{Value, json};
use crate::meta::GroupResource;
use crate::meta::object::{child_mut, is_terminating, name};
use crate::meta::selector::LabelSelector;
use crate::status::{ApiError, Cause};

/// Evictions that a budget remembers before its controller has seen the pods go.
const DISRUPTED_PODS_MAX: usize = 2000;
/// Seconds after which to try again while a budget is behind.
const RETRY_AFTER_SECONDS: i64 = 10;

/// Whether the pod does no work that its budget protects.
#[must_use]
pub fn ignores_budget(pod: &Value) -> bool {
    matches!(
        pod["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed" | "Pending")
    ) || is_terminating(pod)
}

/// Whether the eviction must be paid from the budget; an unhealthy pod may go for free.
#[must_use]
pub fn counts(budget: &Value, pod: &Value) -> bool {
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

/// Whether `budget` selects `pod`: no selector selects nothing, an empty one everything.
#[must_use]
pub fn selects(budget: &Value, pod: &Value) -> bool {
    let selector = &budget["spec"]["selector"];
    !selector.is_null()
        && LabelSelector::from_object(selector)
            .is_ok_and(|selector| selector.matches(&pod["metadata"]["labels"]))
}

/// Returns the failure for a pod with several budgets. Upstream makes it by hand, without a reason.
#[must_use]
pub fn undecided() -> ApiError {
    let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource \
                   does not support.";
    ApiError::stated(500, "", message, None)
}

/// Returns `pod` with the condition that it is evicted since `now`.
#[must_use]
pub fn disrupted(pod: &Value, now: &str) -> Value {
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
    next
}

/// Returns `budget` with one disruption less, spent on the pod named `pod` at `now`.
///
/// # Errors
/// `TooManyRequests` if none is left or the budget is behind, `Forbidden` if it cannot count it.
pub fn take_disruption(budget: &Value, pod: &str, now: &str) -> Result<Value, ApiError> {
    check(budget)?;
    let allowed = count(budget, "disruptionsAllowed") - 1;
    let mut next = budget.clone();
    let generation = budget["metadata"]["generation"].clone();
    let status = child_mut(&mut next, "status");
    status.insert("disruptionsAllowed", allowed.into());
    child_mut(&mut next["status"], "disruptedPods").insert(pod.to_owned(), now.into());
    if allowed == 0 {
        set_insufficient(&mut next, &generation, now);
    }
    Ok(next)
}

/// Checks that the budget allows one more disruption.
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
