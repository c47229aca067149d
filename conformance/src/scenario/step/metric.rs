//! Values of metrics as scenarios write them.

use std::collections::BTreeMap;

use kubeproof_apiserver::MetricValue;
use schemars::JsonSchema;
use serde::Deserialize;

/// A value of a custom or an external metric from now on: `{name: queue_length, value: "30"}`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MetricStep {
    /// The name of the metric.
    pub name: String,
    /// The namespace; the scenario's unless it is given.
    pub namespace: Option<String>,
    /// The object that the metric is of, such as `services/web`, or `pods` for those of the selector. Without it the
    /// metric is an external one.
    pub object: Option<String>,
    /// Which pods each have the value.
    pub selector: Option<String>,
    /// The labels of the metric.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The value, a quantity; without it the value is taken away.
    pub value: Option<String>,
}

impl MetricStep {
    /// The value, in `namespace` unless it names one.
    pub(crate) fn in_namespace(&self, namespace: &str) -> MetricValue {
        let own = self.namespace.as_deref().unwrap_or(namespace);
        MetricValue {
            name: self.name.clone(),
            namespace: Some(own.to_owned()),
            object: self.object.clone(),
            selector: self.selector.clone(),
            labels: self.labels.clone(),
            value: self.value.clone(),
        }
    }

    /// The metric and its value, in words.
    pub(super) fn in_words(&self) -> String {
        let labels = self.labels.iter();
        let labels: Vec<String> = labels
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let of = match (&self.object, &self.selector) {
            (None, _) => String::new(),
            (Some(object), None) => format!(" of {object}"),
            (Some(object), Some(selector)) => format!(" of {object} -l {selector}"),
        };
        let value = match &self.value {
            Some(value) => format!("is {value}"),
            None => "is gone".to_owned(),
        };
        format!("metric {}{labels}{of} {value}", self.name)
    }
}
