//! The states of containers in their statuses.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
use kubeproof_machinery::json::{Value, json};

use super::wire_time;
use crate::container_run::Ended;
use crate::hold::Waiting;

/// Turns the status of a terminated container into that of a waiting one.
pub(super) fn wait(status: &mut Value, reason: &str, message: &str) {
    let waiting = json!({ "reason": reason, "message": message });
    status["lastState"] = status["state"].take();
    status["state"] = json!({ "waiting": waiting });
}

/// Formats a duration of whole seconds as Go does.
pub(super) fn go_duration(duration: Duration) -> String {
    let (minutes, seconds) = (duration.as_secs() / 60, duration.as_secs() % 60);
    match minutes {
        0 => format!("{seconds}s"),
        _ => format!("{minutes}m{seconds}s"),
    }
}

/// Returns the status of a container that could not be created; an earlier run is its last state.
pub(super) fn held_status(mut status: Value, waiting: &Waiting) -> Value {
    if status["state"].get("terminated").is_some() {
        status["lastState"] = status["state"].take();
    }
    status["state"] = json!({ "waiting": {
        "reason": waiting.reason,
        "message": waiting.message,
    } });
    status
}

pub(super) fn waiting_status(container: &Container, reason: &str) -> Value {
    json!({
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": false,
        "started": false,
        "restartCount": 0,
        "state": { "waiting": { "reason": reason } },
        "lastState": {},
    })
}

/// Returns the status of a container that should have run by the end of its pod.
pub(super) fn lost_status(container: &Container) -> Value {
    let mut status = waiting_status(container, "");
    status["state"] = json!({ "terminated": {
        "exitCode": 137,
        "reason": "ContainerStatusUnknown",
        "message": "The container could not be located when the pod was terminated",
        "startedAt": null,
        "finishedAt": null,
    } });
    status
}

pub(super) fn terminated(run: &Ended, id: &str) -> Value {
    if let Some(message) = &run.start_error {
        return json!({
            "exitCode": run.exit.code,
            "reason": "StartError",
            "message": &**message,
            // The container was never started.
            "startedAt": wire_time(Timestamp::UNIX_EPOCH),
            "finishedAt": wire_time(run.exit.at),
            "containerID": id,
        });
    }
    let reason = match run.exit.code {
        0 => "Completed",
        _ => "Error",
    };
    json!({
        "exitCode": run.exit.code,
        "reason": reason,
        "startedAt": wire_time(run.since),
        "finishedAt": wire_time(run.exit.at),
        "containerID": id,
    })
}
