//! The states of containers that are to be restarted.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::core::DynamicObject;
use kubeproof_runtime::decode::from_value;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The annotation with the containers as the API server knows them, until v1beta1.
const STATUSES_ANNOTATION: &str = "crr.apps.kruise.io/sync-container-statuses";
/// The annotation with the time from which the pod is not ready, until v1beta1.
const UNREADY_ANNOTATION: &str = "crr.apps.kruise.io/unready-acquired";
/// The condition that says so from v1beta1 on.
const UNREADY_CONDITION: &str = "PreRecreateGrace";

/// The spec of a ContainerRecreateRequest.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request {
    pub(super) pod_name: String,
    #[serde(default)]
    containers: Vec<Wanted>,
    #[serde(default)]
    pub(super) strategy: Strategy,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    name: String,
    status_context: Option<StatusContext>,
}

/// The container as it was when the request was made.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusContext {
    #[serde(rename = "containerID")]
    container_id: String,
    restart_count: i32,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Strategy {
    failure_policy: String,
    pub(super) ordered_recreate: bool,
    force_recreate: bool,
    pub(super) termination_grace_period_seconds: Option<i64>,
    pub(super) min_started_seconds: i64,
}

impl Strategy {
    pub(super) fn ignores_failures(&self) -> bool {
        self.failure_policy == "Ignore"
    }
}

impl Request {
    /// The reason why no runtime can report the containers.
    pub(super) fn fault(&self) -> Option<String> {
        let mut runtime: Option<&str> = None;
        for wanted in &self.containers {
            let name = &wanted.name;
            let id = wanted.status_context.as_ref();
            let id = id.map(|context| context.container_id.as_str());
            let Some(id) = id.filter(|id| !id.is_empty()) else {
                return Some(format!(
                    "no statusContext or empty containerID in {name} container"
                ));
            };
            let Some((own, _)) = id.split_once("://") else {
                return Some(format!(
                    "failed to parse containerID {id} in {name} container: invalid container ID: {id:?}"
                ));
            };
            match runtime {
                Some(other) if other != own => {
                    return Some(format!("has different runtime types {other}, {own} in Pod"));
                }
                _ => runtime = Some(own),
            }
        }
        match runtime {
            None => Some("no runtime type found in Pod".to_owned()),
            Some(_) => None,
        }
    }
}

/// A phase of a container's.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) enum Phase {
    Pending,
    Recreating,
    Succeeded,
    Failed,
}

/// The reported state of a container.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct State {
    pub(super) name: String,
    pub(super) phase: Phase,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_killed: bool,
}

/// A container as its runtime knows it.
pub(super) struct Seen {
    pub(super) id: String,
    pub(super) restarts: i32,
    pub(super) is_running: bool,
    pub(super) began: Timestamp,
}

/// A container as the manager copies it from its pod's status.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Synced {
    name: String,
    #[serde(default)]
    ready: bool,
    #[serde(rename = "containerID", default)]
    container_id: String,
}

/// The states that the request's status reports.
pub(super) fn reported(request: &DynamicObject) -> Vec<State> {
    let states = &request.data["status"]["containerRecreateStates"];
    from_value(states).unwrap_or_default()
}

/// Since when the pod is kept from being ready; an error when that can't be read.
pub(super) fn unready_since(request: &DynamicObject) -> Option<Result<Timestamp, String>> {
    let conditions = request.data["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let is_held = |one: &&Value| one["type"] == UNREADY_CONDITION && one["status"] == "True";
    if let Some(held) = conditions.find(is_held) {
        return held["lastTransitionTime"].as_str()?.parse().ok().map(Ok);
    }
    let text = request.annotations().get(UNREADY_ANNOTATION)?;
    if text.is_empty() {
        return None;
    }
    let failed = |error| format!("failed to parse unready time {text}: {error}");
    Some(text.parse().map_err(failed))
}

fn synced(request: &DynamicObject) -> BTreeMap<String, Synced> {
    let snapshot = &request.data["status"]["containerStatusSnapshot"];
    let listed: Vec<Synced> = match snapshot.is_array() {
        true => from_value(snapshot).unwrap_or_default(),
        false => {
            let text = request.annotations().get(STATUSES_ANNOTATION);
            let parsed = text.and_then(|text| serde_json::from_str(text).ok());
            parsed.unwrap_or_default()
        }
    };
    let listed = listed.into_iter();
    listed.map(|one| (one.name.clone(), one)).collect()
}

/// Returns the state to report for each container: `seen` looks it up on its node.
pub(super) fn current(
    request: &Request,
    object: &DynamicObject,
    reported: &[State],
    seen: impl Fn(&str) -> Option<Seen>,
    now: Timestamp,
) -> Vec<State> {
    let synced = synced(object);
    let strategy = &request.strategy;
    let wanted = request.containers.iter();
    let states = wanted.map(|wanted| {
        let previous = reported.iter().find(|state| state.name == wanted.name);
        if let Some(previous) = previous
            && matches!(previous.phase, Phase::Failed | Phase::Succeeded)
        {
            return previous.clone();
        }
        let was_killed = previous.is_some_and(|previous| previous.is_killed);
        let state = |phase: Phase, is_killed: bool| State {
            name: wanted.name.clone(),
            phase,
            message: String::new(),
            is_killed,
        };
        let Some(seen) = seen(&wanted.name) else {
            return State {
                message: "not found container on Node".to_owned(),
                ..state(Phase::Pending, was_killed)
            };
        };
        if !seen.is_running {
            return state(Phase::Recreating, was_killed);
        }
        if strategy.force_recreate && !was_killed {
            return state(Phase::Pending, false);
        }
        let context = wanted.status_context.as_ref();
        let is_new = context.is_some_and(|before| {
            before.container_id != seen.id || seen.restarts > before.restart_count
        });
        if !is_new {
            return state(Phase::Pending, was_killed);
        }
        let least = SignedDuration::from_secs(strategy.min_started_seconds);
        let is_done = synced.get(&wanted.name).is_some_and(|synced| {
            synced.container_id == seen.id && synced.ready && now.duration_since(seen.began) > least
        });
        match is_done {
            true => state(Phase::Succeeded, was_killed),
            false => state(Phase::Recreating, was_killed),
        }
    });
    states.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + seconds).unwrap()
    }

    fn request(strategy: Value) -> Request {
        from_value(json!({"podName": "p", "strategy": strategy, "containers": [
            {"name": "a", "statusContext": {"containerID": "containerd://a0", "restartCount": 0}}]}))
        .unwrap()
    }

    fn object(synced_id: &str, ready: bool) -> DynamicObject {
        let synced = json!([{"name": "a", "ready": ready, "containerID": synced_id}]).to_string();
        from_value(json!({"metadata": {"annotations": {STATUSES_ANNOTATION: synced}}})).unwrap()
    }

    fn seen(restarts: i32, is_running: bool) -> Seen {
        Seen {
            id: format!("containerd://a{restarts}"),
            restarts,
            is_running,
            began: at(10),
        }
    }

    #[test]
    fn a_container_goes_from_pending_to_succeeded() {
        let (plain, late) = (json!({}), json!({"minStartedSeconds": 5}));
        let force = json!({"forceRecreate": true});
        let (old, new) = ("containerd://a0", "containerd://a1");
        let table = [
            (
                &plain,
                Some(seen(0, true)),
                (old, true),
                at(11),
                Phase::Pending,
            ),
            (
                &plain,
                Some(seen(0, false)),
                (old, true),
                at(11),
                Phase::Recreating,
            ),
            (
                &plain,
                Some(seen(1, true)),
                (old, true),
                at(11),
                Phase::Recreating,
            ),
            (
                &plain,
                Some(seen(1, true)),
                (new, false),
                at(11),
                Phase::Recreating,
            ),
            (
                &plain,
                Some(seen(1, true)),
                (new, true),
                at(11),
                Phase::Succeeded,
            ),
            (
                &late,
                Some(seen(1, true)),
                (new, true),
                at(15),
                Phase::Recreating,
            ),
            (
                &late,
                Some(seen(1, true)),
                (new, true),
                at(16),
                Phase::Succeeded,
            ),
            (
                &force,
                Some(seen(1, true)),
                (new, true),
                at(16),
                Phase::Pending,
            ),
            (&plain, None, (old, true), at(11), Phase::Pending),
        ];
        for (strategy, found, (id, ready), now, phase) in table {
            let is_absent = found.is_none();
            let found = std::cell::RefCell::new(found);
            let request = request(strategy.clone());
            let states = current(&request, &object(id, ready), &[], |_| found.take(), now);
            assert_eq!(states[0].phase, phase, "{strategy} {id} {ready} {now}");
            assert_eq!(
                states[0].message == "not found container on Node",
                is_absent
            );
        }
    }

    #[test]
    fn what_is_over_stays_and_who_was_killed_is_known() {
        let state = |phase, is_killed| State {
            name: "a".to_owned(),
            phase,
            message: String::new(),
            is_killed,
        };
        let object = object("containerd://a1", true);
        let of = |reported: State, strategy: Value| {
            let request = request(strategy);
            current(
                &request,
                &object,
                &[reported],
                |_| Some(seen(1, true)),
                at(20),
            )[0]
            .clone()
        };
        let failed = state(Phase::Failed, false);
        assert_eq!(of(failed.clone(), json!({})), failed);
        let killed = state(Phase::Recreating, true);
        let done = state(Phase::Succeeded, true);
        assert_eq!(of(killed, json!({"forceRecreate": true})), done);
    }

    #[test]
    fn both_versions_annotate_since_when_a_pod_is_not_ready() {
        let old: DynamicObject = from_value(
            json!({"metadata": {"annotations": {UNREADY_ANNOTATION: "2026-01-01T00:00:00Z"}}}),
        )
        .unwrap();
        assert_eq!(unready_since(&old), Some(Ok(at(0))));
        let new: DynamicObject = from_value(json!({"metadata": {}, "status": {
            "conditions": [{"type": UNREADY_CONDITION, "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}))
        .unwrap();
        assert_eq!(unready_since(&new), Some(Ok(at(0))));
        let bad: DynamicObject =
            from_value(json!({"metadata": {"annotations": {UNREADY_ANNOTATION: "soon"}}})).unwrap();
        assert!(
            unready_since(&bad)
                .unwrap()
                .unwrap_err()
                .starts_with("failed to parse unready")
        );
    }

    #[test]
    fn a_request_without_containers_that_ran_has_no_runtime() {
        let request = |containers: Value| -> Request {
            from_value(json!({"podName": "p", "containers": containers})).unwrap()
        };
        let id = |id: &str| json!({"name": "a", "statusContext": {"containerID": id, "restartCount": 0}});
        assert_eq!(request(json!([id("x://1")])).fault(), None);
        for (containers, fault) in [
            (
                json!([{"name": "a"}]),
                "no statusContext or empty containerID in a container",
            ),
            (
                json!([id("")]),
                "no statusContext or empty containerID in a container",
            ),
            (
                json!([id("x://1"), id("y://1")]),
                "has different runtime types x, y in Pod",
            ),
            (json!([]), "no runtime type found in Pod"),
        ] {
            assert_eq!(request(containers).fault().as_deref(), Some(fault));
        }
    }
}
