//! Pods: the printed status is derived from phase, init containers, containers and deletion.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::columns::{Printable, elapsed};
use crate::json::{Value, json};

pub(super) fn cells(view: Printable<'_>) -> Vec<Value> {
    let summary = Summary::of(view);
    let Restarts { count, last } = summary.restarts;
    let restarts = match last.filter(|_| count != 0) {
        Some(time) => format!("{count} ({} ago)", elapsed(time, view.now)),
        None => count.to_string(),
    };
    let none_or = |pointer: &str| json!(view.str_or(pointer, "<none>"));
    vec![
        view.name(),
        json!(format!("{}/{}", summary.ready, summary.total)),
        json!(summary.status),
        json!(restarts),
        view.age(),
        none_or("/status/podIPs/0/ip"),
        none_or("/spec/nodeName"),
        none_or("/status/nominatedNodeName"),
        json!(readiness_gates(view)),
    ]
}

pub(super) fn row_conditions(object: &Value) -> Vec<Value> {
    let message = match object.pointer("/status/phase").and_then(Value::as_str) {
        Some("Succeeded") => "The pod has completed successfully.",
        Some("Failed") => "The pod failed.",
        _ => return Vec::new(),
    };
    let reason = &object["status"]["phase"];
    vec![json!({"type": "Completed", "status": "True", "reason": reason, "message": message})]
}

/// The values of the columns Ready, Status and Restarts.
struct Summary {
    ready: usize,
    total: usize,
    status: String,
    restarts: Restarts,
}

/// The number of container restarts, and the time when a container last ended before a restart.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: Printable<'_>) {
        self.count += status.int("/restartCount");
        self.last = self
            .last
            .max(status.time("/lastState/terminated/finishedAt"));
    }
}

impl Summary {
    fn of(view: Printable<'_>) -> Self {
        let init_containers = view.items("/spec/initContainers");
        let sidecars: BTreeSet<&str> = init_containers
            .filter(|container| container.str("/restartPolicy") == "Always")
            .map(|container| container.str("/name"))
            .collect();
        let mut summary = Self {
            ready: 0,
            total: view.len("/spec/containers") + sidecars.len(),
            status: view
                .str_or("/status/reason", view.str("/status/phase"))
                .to_owned(),
            restarts: Restarts::default(),
        };
        let is_gated = |condition: Printable<'_>| condition.str("/reason") == "SchedulingGated";
        if view.condition("PodScheduled").is_some_and(is_gated) {
            summary.status = "SchedulingGated".to_owned();
        }
        let mut of_sidecars = Restarts::default();
        let initializing = summary.init_containers(view, &sidecars, &mut of_sidecars);
        if !initializing || has_condition(view, "Initialized") {
            summary.restarts = of_sidecars;
            summary.containers(view);
        }
        if view.is_terminating() {
            if view.str("/status/reason") == "NodeLost" {
                summary.status = "Unknown".to_owned();
            } else if !matches!(view.str("/status/phase"), "Failed" | "Succeeded") {
                summary.status = "Terminating".to_owned();
            }
        }
        summary
    }

    /// Shows the first init container that isn't done; returns whether there is one.
    ///
    /// Later init containers are ignored, sidecars included.
    fn init_containers(
        &mut self,
        view: Printable<'_>,
        sidecars: &BTreeSet<&str>,
        of_sidecars: &mut Restarts,
    ) -> bool {
        for (index, status) in view.items("/status/initContainerStatuses").enumerate() {
            self.restarts.add(status);
            if sidecars.contains(status.str("/name")) {
                of_sidecars.add(status);
            }
            let terminated = status.get("/state/terminated");
            if terminated.is_some() && status.int("/state/terminated/exitCode") == 0 {
                continue;
            }
            if sidecars.contains(status.str("/name")) && status.bool("/started") {
                self.ready += usize::from(status.bool("/ready"));
                continue;
            }
            let waiting = status.str("/state/waiting/reason");
            self.status = if terminated.is_some() {
                format!("Init:{}", termination(status))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{index}/{}", view.len("/spec/initContainers"))
            };
            return true;
        }
        false
    }

    /// Shows the containers.
    fn containers(&mut self, view: Printable<'_>) {
        let mut has_running = false;
        // From the last to the first: the first container with something to say has the last word.
        for status in view.items("/status/containerStatuses").rev() {
            self.restarts.add(status);
            let waiting = status.str("/state/waiting/reason");
            if !waiting.is_empty() {
                self.status = waiting.to_owned();
            } else if status.get("/state/terminated").is_some() {
                self.status = termination(status);
            } else if status.bool("/ready") && status.get("/state/running").is_some() {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.status == "Completed" && has_running {
            let ready = has_condition(view, "Ready");
            self.status = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }
}

/// How a container ended: the reason given, else the signal, else the exit code.
fn termination(status: Printable<'_>) -> String {
    let signal = status.int("/state/terminated/signal");
    match status.str("/state/terminated/reason") {
        "" if signal != 0 => format!("Signal:{signal}"),
        "" => format!("ExitCode:{}", status.int("/state/terminated/exitCode")),
        reason => reason.to_owned(),
    }
}

fn has_condition(view: Printable<'_>, kind: &str) -> bool {
    view.condition(kind)
        .is_some_and(|condition| condition.str("/status") == "True")
}

fn readiness_gates(view: Printable<'_>) -> String {
    let total = view.len("/spec/readinessGates");
    if total == 0 {
        return "<none>".to_owned();
    }
    let gates = view.items("/spec/readinessGates");
    let passed = gates
        .filter(|gate| has_condition(view, gate.str("/conditionType")))
        .count();
    format!("{passed}/{total}")
}
