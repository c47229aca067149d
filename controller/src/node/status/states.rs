//! The states of containers, as their statuses have them.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
use serde_json::{Value, json};

use super::wire_time;
use crate::node::hold::Waiting;
use crate::node::instance::Ended;

/// Turns the status of a container that has ended into that of one that waits.
pub(super) fn wait(status: &mut Value, reason: &str, message: &str) {
    let waiting = json!({ "reason": reason, "message": message });
    status["lastState"] = status["state"].take();
    status["state"] = json!({ "waiting": waiting });
}

/// A duration of whole seconds as Go prints it.
pub(super) fn go_duration(duration: Duration) -> String {
    let (minutes, seconds) = (duration.as_secs() / 60, duration.as_secs() % 60);
    match minutes {
        0 => format!("{seconds}s"),
        _ => format!("{minutes}m{seconds}s"),
    }
}

/// The status of a container that could not be made: what ran before is its last state.
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

/// A container that should have run by the time its pod ended.
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
            // It never was.
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
