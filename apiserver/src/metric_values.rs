//! Values of custom and external metrics, which tests put: what adapters of a cluster would have measured.

use std::collections::BTreeMap;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::meta::selector::LabelSelector;
use crate::schema::quantity::Quantity;

/// A value of a custom or an external metric.
///
/// ```json
/// {"name": "queue_length", "labels": {"queue": "mail"}, "value": "30"}
/// {"name": "requests_per_second", "object": "services/web", "value": "1500m"}
/// {"name": "requests_per_second", "object": "pods", "selector": "app=web", "value": "100"}
/// ```
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MetricValue {
    /// The name of the metric.
    pub name: String,
    /// The namespace of the metric or of its object; `default` unless it is given, and without a meaning for objects
    /// that have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The object that the metric is of, such as `services/web` or `ingresses.networking.k8s.io/web`; `pods` for the
    /// pods of `selector`. Without it the metric is an external one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Which pods each have the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The labels of the metric, by which autoscalers may choose.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The value, a quantity; none takes the value away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// A value that cannot be put.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricError {
    /// The metric has no name, or one that is no path segment.
    #[error("{0:?} is no name of a metric")]
    Name(String),
    /// The value is not a quantity.
    #[error("value {value:?}: {message}")]
    Value {
        /// The text.
        value: String,
        /// Why.
        message: String,
    },
    /// The object is not written as `RESOURCE/NAME`.
    #[error("object {0:?} is not RESOURCE/NAME, such as services/web, or pods with a selector")]
    Object(String),
    /// The selector cannot be read.
    #[error("selector {selector:?}: {message}")]
    Selector {
        /// The text.
        selector: String,
        /// Why.
        message: String,
    },
    /// The server does not have the resource of the object.
    #[error("{0}")]
    Resource(String),
    /// The server does not have the metrics APIs.
    #[error("this server does not serve the metrics APIs")]
    NotServed,
    /// The value was to be taken away and is not there.
    #[error("the metric {0:?} has no such value")]
    Absent(String),
}

/// The subject of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    External,
    /// `services` or `ingresses.networking.k8s.io`, and the name.
    Object(String, String),
    /// The pods of a selector.
    Pods(String),
}

/// What identifies a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    name: String,
    namespace: String,
    subject: Subject,
    labels: BTreeMap<String, String>,
}

/// A value and when it was put.
#[derive(Clone, Debug)]
pub(crate) struct Put {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: Quantity,
    pub(crate) time: Timestamp,
}

/// All values of a server.
#[derive(Debug, Default)]
pub(crate) struct MetricValues {
    values: Mutex<BTreeMap<Key, Put>>,
}

impl Subject {
    /// Returns the subject of `value`.
    ///
    /// # Errors
    /// The object or the selector cannot be read.
    pub(crate) fn of(value: &MetricValue) -> Result<Self, MetricError> {
        let Some(object) = &value.object else {
            return match &value.selector {
                None => Ok(Self::External),
                Some(_) => Err(MetricError::Object(String::new())),
            };
        };
        let split = object.split_once('/');
        match (split, &value.selector) {
            (Some((resource, name)), None) if !resource.is_empty() && !name.is_empty() => {
                Ok(Self::Object(resource.to_owned(), name.to_owned()))
            }
            (None, Some(selector)) if object == "pods" => {
                let read = LabelSelector::parse(selector);
                read.map_err(|error| MetricError::Selector {
                    selector: selector.clone(),
                    message: error.to_string(),
                })?;
                Ok(Self::Pods(selector.clone()))
            }
            _ => Err(MetricError::Object(object.clone())),
        }
    }

    /// The resource of the object, as discovery names it; `None` for an external metric.
    pub(crate) fn resource(&self) -> Option<&str> {
        match self {
            Self::External => None,
            Self::Object(resource, _) => Some(resource),
            Self::Pods(_) => Some("pods"),
        }
    }
}

impl MetricValues {
    /// Puts `value`, or takes it away; `is_namespaced` says whether its object is in a namespace.
    ///
    /// # Errors
    /// The value cannot be read, or is to be taken away and is not there.
    pub(crate) fn put(
        &self,
        value: &MetricValue,
        is_namespaced: bool,
        time: Timestamp,
    ) -> Result<(), MetricError> {
        let name = &value.name;
        if name.is_empty() || name.contains(['/', '%']) || matches!(name.as_str(), "." | "..") {
            return Err(MetricError::Name(name.clone()));
        }
        let namespace = match is_namespaced {
            true => value.namespace.as_deref().unwrap_or("default"),
            false => "",
        };
        let key = Key {
            name: name.clone(),
            namespace: namespace.to_owned(),
            subject: Subject::of(value)?,
            labels: value.labels.clone(),
        };
        let mut values = self.values.lock();
        let Some(text) = &value.value else {
            let removed = values.remove(&key);
            return removed
                .map(|_| ())
                .ok_or_else(|| MetricError::Absent(name.clone()));
        };
        let quantity = Quantity::parse(text).map_err(|error| MetricError::Value {
            value: text.clone(),
            message: error.to_string(),
        })?;
        let put = Put {
            labels: value.labels.clone(),
            value: quantity,
            time,
        };
        values.insert(key, put);
        Ok(())
    }

    /// The values as they were put, by name.
    pub(crate) fn list(&self) -> Vec<MetricValue> {
        let values = self.values.lock();
        let shown = values.iter().map(|(key, put)| {
            let (object, selector) = match &key.subject {
                Subject::External => (None, None),
                Subject::Object(resource, name) => (Some(format!("{resource}/{name}")), None),
                Subject::Pods(selector) => (Some("pods".to_owned()), Some(selector.clone())),
            };
            MetricValue {
                name: key.name.clone(),
                namespace: Some(key.namespace.clone()).filter(|name| !name.is_empty()),
                object,
                selector,
                labels: key.labels.clone(),
                value: Some(put.value.to_string()),
            }
        });
        shown.collect()
    }

    /// The metrics that have values, each with its resource (none for an external one) and whether it has a namespace.
    pub(crate) fn names(&self) -> Vec<(Option<String>, String, bool)> {
        let values = self.values.lock();
        let mut names: Vec<(Option<String>, String, bool)> = values
            .keys()
            .map(|key| {
                let resource = key.subject.resource().map(str::to_owned);
                (resource, key.name.clone(), !key.namespace.is_empty())
            })
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// The values of an external metric whose labels `selector` selects.
    pub(crate) fn external(
        &self,
        namespace: &str,
        name: &str,
        selector: &LabelSelector,
    ) -> Vec<Put> {
        self.matching(namespace, name, selector, |subject| {
            *subject == Subject::External
        })
    }

    /// The value of a metric of an object; `has_label` knows the labels of a pod.
    pub(crate) fn of_object<'l>(
        &self,
        (namespace, resource, object): (&str, &str, &str),
        name: &str,
        selector: &LabelSelector,
        label: impl Fn(&str) -> Option<&'l str>,
    ) -> Option<Put> {
        let found = self.matching(namespace, name, selector, |subject| match subject {
            Subject::External => false,
            Subject::Object(own, name) => (own.as_str(), name.as_str()) == (resource, object),
            Subject::Pods(selector) => {
                let selector = LabelSelector::parse(selector).ok();
                resource == "pods" && selector.is_some_and(|own| own.matches_by(&label))
            }
        });
        // Subjects are in order: a value of the pod itself comes before one of selected pods.
        found.into_iter().next()
    }

    fn matching(
        &self,
        namespace: &str,
        name: &str,
        selector: &LabelSelector,
        is_wanted: impl Fn(&Subject) -> bool,
    ) -> Vec<Put> {
        let values = self.values.lock();
        let found = values.iter().filter(|(key, _)| {
            key.name == name
                && key.namespace == namespace
                && is_wanted(&key.subject)
                && selector.matches_map(&key.labels)
        });
        found.map(|(_, put)| put.clone()).collect()
    }
}

impl Clone for MetricValues {
    fn clone(&self) -> Self {
        Self {
            values: Mutex::new(self.values.lock().clone()),
        }
    }
}
