//! Steps in words.

use super::{NodeStep, Verb, WaitStep};
use crate::scenario::in_flow;

impl Verb {
    /// The step in words, as the heading of its part of the timeline.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::Apply(manifest) => format!("apply {}", manifest.in_words()),
            Self::Create(manifest) => format!("create {}", manifest.in_words()),
            Self::Update(update) => format!(
                "update {}{}: {}",
                update.target,
                below(update.subresource.as_ref()),
                in_flow(&update.object)
            ),
            Self::Patch(patch) => {
                format!(
                    "patch {}{} ({}): {}",
                    patch.target,
                    below(patch.subresource.as_ref()),
                    patch.patch_type.in_words(),
                    in_flow(&patch.patch)
                )
            }
            Self::Scale(scale) => format!("scale {} to {}", scale.target, scale.replicas),
            Self::Delete(delete) => {
                let mut options = Vec::new();
                if let Some(grace) = delete.grace_period_seconds {
                    options.push(format!("grace {grace}s"));
                }
                if let Some(policy) = &delete.propagation_policy {
                    options.push(format!("propagation {policy}"));
                }
                if let Some(preconditions) = &delete.preconditions {
                    options.push(format!("preconditions {}", in_flow(preconditions)));
                }
                if options.is_empty() {
                    format!("delete {}", delete.target)
                } else {
                    format!("delete {} ({})", delete.target, options.join(", "))
                }
            }
            Self::DeleteCollection(delete) => format!(
                "delete all {}{}",
                delete.resource,
                selected(delete.label_selector.as_ref())
            ),
            Self::Pod(pod) => {
                let behaviour: Vec<String> = pod
                    .annotations()
                    .into_iter()
                    .map(|(key, value)| format!("{key} {value}"))
                    .collect();
                format!("let pod {} be: {}", pod.name, behaviour.join(", "))
            }
            Self::Node(node) => node.in_words(),
            Self::Fault(fault) => fault.in_words(),
            Self::Restart(_) => "restart the controllers".to_owned(),
            Self::Lift(name) => format!("no more fault {name}"),
            Self::Metric(metric) => metric.in_words(),
            Self::Kubectl(command) => format!("kubectl {command}"),
            Self::Containers(name) => format!("containers of {name} that run, by node"),
            Self::Wait(wait) => wait.in_words(),
            Self::Settle(quiet) => format!("settle: no write for {quiet}"),
            Self::Advance(time) => format!("advance {time}"),
            Self::Table(table) => {
                let wide = if table.wide { " -o wide" } else { "" };
                let all = if table.all_namespaces { " -A" } else { "" };
                let selected = selected(table.label_selector.as_ref());
                format!("table: get {}{selected}{all}{wide}", table.resource)
            }
            Self::Show(show) => format!("show {}{}", show.target, below(show.subresource.as_ref())),
        }
    }
}

fn below(subresource: Option<&String>) -> String {
    subresource.map_or_else(String::new, |subresource| format!(" /{subresource}"))
}

fn selected(labels: Option<&String>) -> String {
    labels.map_or_else(String::new, |labels| format!(" -l {labels}"))
}

impl NodeStep {
    fn in_words(&self) -> String {
        match self {
            Self::Down(name) => format!("switch node {name} off"),
            Self::Disconnect(name) => format!("cut node {name} off from the API server"),
            Self::Back(name) => format!("bring node {name} back"),
            Self::Cordon(name) => format!("cordon node {name}"),
            Self::Uncordon(name) => format!("uncordon node {name}"),
            Self::Drain(name) => format!("drain node {name}"),
        }
    }
}

impl WaitStep {
    fn in_words(&self) -> String {
        let what = if let Some(condition) = &self.condition {
            format!("is {condition}")
        } else if let Some(field) = &self.field {
            match &self.is {
                Some(value) => format!("has {field} {}", in_flow(value)),
                None => format!("has {field}"),
            }
        } else {
            "is gone".to_owned()
        };
        format!("wait until {} {what}", self.target)
    }
}
