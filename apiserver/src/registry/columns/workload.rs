//! Controllers of pods: replica counts, containers and selectors.

use serde_json::{Value, json};

use super::view::{View, or_none};
use crate::registry::autoscaling::horizontal_pod_autoscaler::conversion;

const TEMPLATE_CONTAINERS: &str = "/spec/template/spec/containers";

pub(super) fn deployment(view: View<'_>) -> Vec<Value> {
    let mut cells = vec![
        view.name(),
        json!(ready_of_desired(view)),
        json!(view.int("/status/updatedReplicas")),
        json!(view.int("/status/availableReplicas")),
        view.age(),
    ];
    cells.extend(containers(view, TEMPLATE_CONTAINERS));
    cells.push(json!(view.selector("/spec/selector")));
    cells
}

pub(super) fn replica_set(view: View<'_>) -> Vec<Value> {
    let selector = or_none(view.selector("/spec/selector"));
    replicated(view, selector)
}

/// Cells of a ReplicationController, whose selector is a map of labels rather than a label
/// selector.
pub(super) fn replication_controller(view: View<'_>) -> Vec<Value> {
    let selector = view.labels("/spec/selector");
    replicated(view, selector)
}

pub(super) fn stateful_set(view: View<'_>) -> Vec<Value> {
    let mut cells = vec![view.name(), json!(ready_of_desired(view)), view.age()];
    cells.extend(containers(view, TEMPLATE_CONTAINERS));
    cells
}

pub(super) fn daemon_set(view: View<'_>) -> Vec<Value> {
    let mut cells = vec![
        view.name(),
        json!(view.int("/status/desiredNumberScheduled")),
        json!(view.int("/status/currentNumberScheduled")),
        json!(view.int("/status/numberReady")),
        json!(view.int("/status/updatedNumberScheduled")),
        json!(view.int("/status/numberAvailable")),
        json!(view.labels("/spec/template/spec/nodeSelector")),
        view.age(),
    ];
    cells.extend(containers(view, TEMPLATE_CONTAINERS));
    cells.push(json!(or_none(view.selector("/spec/selector"))));
    cells
}

pub(super) fn controller_revision(view: View<'_>) -> Vec<Value> {
    let mut owners = view.items("/metadata/ownerReferences");
    let controller = owners.find(|owner| owner.bool("/controller")).map(|owner| {
        let group = owner
            .str("/apiVersion")
            .split_once('/')
            .map_or("", |(group, _)| group);
        let dot = if group.is_empty() { "" } else { "." };
        let kind = owner.str("/kind").to_lowercase();
        format!("{kind}{dot}{group}/{}", owner.str("/name"))
    });
    vec![
        view.name(),
        json!(controller.unwrap_or_else(|| "<none>".to_owned())),
        json!(view.int("/revision")),
        view.age(),
    ]
}

pub(super) fn pod_template(view: View<'_>) -> Vec<Value> {
    let mut cells = vec![view.name()];
    cells.extend(containers(view, "/template/spec/containers"));
    cells.push(json!(view.labels("/template/metadata/labels")));
    cells
}

pub(super) fn pod_disruption_budget(view: View<'_>) -> Vec<Value> {
    let limit = |pointer: &str| json!(view.scalar(pointer).unwrap_or_else(|| "N/A".to_owned()));
    vec![
        view.name(),
        limit("/spec/minAvailable"),
        limit("/spec/maxUnavailable"),
        json!(view.int("/status/disruptionsAllowed")),
        view.age(),
    ]
}

pub(super) fn horizontal_pod_autoscaler(view: View<'_>) -> Vec<Value> {
    let second = conversion::second_version(view.object);
    let view = View {
        object: &second,
        ..view
    };
    let target = |field: &str| view.str(&format!("/spec/scaleTargetRef/{field}"));
    vec![
        view.name(),
        json!(format!("{}/{}", target("kind"), target("name"))),
        json!(or_none(first_two(metrics(view)))),
        json!(
            view.scalar("/spec/minReplicas")
                .unwrap_or_else(|| "<unset>".to_owned())
        ),
        json!(view.int("/spec/maxReplicas")),
        json!(view.int("/status/currentReplicas")),
        view.age(),
    ]
}

pub(super) fn scale(view: View<'_>) -> Vec<Value> {
    vec![
        view.name(),
        json!(view.int("/spec/replicas")),
        json!(view.int("/status/replicas")),
        view.age(),
    ]
}

/// Names and images of the containers at `pointer`.
pub(super) fn containers(view: View<'_>, pointer: &str) -> [Value; 2] {
    [
        json!(view.joined(pointer, "/name")),
        json!(view.joined(pointer, "/image")),
    ]
}

fn replicated(view: View<'_>, selector: String) -> Vec<Value> {
    let mut cells = vec![
        view.name(),
        json!(view.int("/spec/replicas")),
        json!(view.int("/status/replicas")),
        json!(view.int("/status/readyReplicas")),
        view.age(),
    ];
    cells.extend(containers(view, TEMPLATE_CONTAINERS));
    cells.push(json!(selector));
    cells
}

fn ready_of_desired(view: View<'_>) -> String {
    format!(
        "{}/{}",
        view.int("/status/readyReplicas"),
        view.int("/spec/replicas")
    )
}

/// Current and target value of each metric, in the spelling of v2 or of v1.
fn metrics(view: View<'_>) -> Vec<String> {
    let unknown = || "<unknown>".to_owned();
    let statuses: Vec<View<'_>> = view.items("/status/currentMetrics").collect();
    let metric = |(index, spec): (usize, View<'_>)| {
        let source = match spec.str("/type") {
            "Resource" => "resource",
            "ContainerResource" => "containerResource",
            "Pods" => "pods",
            "Object" => "object",
            "External" => "external",
            _ => return "<unknown type>".to_owned(),
        };
        let current = |field: &str| {
            let status = statuses.get(index)?;
            status.scalar(&format!("/{source}/current/{field}"))
        };
        let target = |field: &str| spec.scalar(&format!("/{source}/target/{field}"));
        let prefix = match source {
            "resource" | "containerResource" => {
                format!("{}: ", spec.str(&format!("/{source}/name")))
            }
            _ => String::new(),
        };
        // For pods and resources an average is the only kind of value, so it isn't marked.
        let mark = if matches!(source, "object" | "external") {
            " (avg)"
        } else {
            ""
        };
        match target("averageValue") {
            Some(average) => {
                let current = current("averageValue").unwrap_or_else(unknown);
                format!("{prefix}{current}/{average}{mark}")
            }
            None if matches!(source, "resource" | "containerResource") => {
                let percent = |number: String| format!("{number}%");
                let current = current("averageUtilization").map_or_else(unknown, percent);
                let target = target("averageUtilization");
                let target = target.map_or_else(|| "<auto>".to_owned(), percent);
                format!("{prefix}{current}/{target}")
            }
            None => {
                let current = current("value").unwrap_or_else(unknown);
                format!("{current}/{}", target("value").unwrap_or_default())
            }
        }
    };
    view.items("/spec/metrics")
        .enumerate()
        .map(metric)
        .collect()
}

fn first_two(metrics: Vec<String>) -> String {
    const SHOWN: usize = 2;
    if metrics.len() <= SHOWN {
        return metrics.join(", ");
    }
    format!(
        "{} + {} more...",
        metrics[..SHOWN].join(", "),
        metrics.len() - SHOWN
    )
}
