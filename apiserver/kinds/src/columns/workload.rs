//! Cells that kinds with a pod template share.

use super::Printable;
use crate::json::{Value, json};

/// Where most workloads have the containers of their pods.
pub(crate) const TEMPLATE_CONTAINERS: &str = "/spec/template/spec/containers";

/// Names and images of the containers at `pointer`.
pub(crate) fn containers(view: Printable<'_>, pointer: &str) -> [Value; 2] {
    [
        json!(view.joined(pointer, "/name")),
        json!(view.joined(pointer, "/image")),
    ]
}

pub(crate) fn replicated(view: Printable<'_>, selector: String) -> Vec<Value> {
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

pub(crate) fn ready_of_desired(view: Printable<'_>) -> String {
    format!(
        "{}/{}",
        view.int("/status/readyReplicas"),
        view.int("/spec/replicas")
    )
}
