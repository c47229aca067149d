//! The API server's counting of what objects use of quotas, for the controller of their statuses.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceQuotaSpec;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kubeproof_apiserver::resource_quota::{self, Counted};
use kubeproof_machinery::json::{self, Value};

/// Sums what `objects`, each with its resource, use of a quota at the time `now`.
#[must_use]
pub fn count(
    spec: &ResourceQuotaSpec,
    objects: &[(&str, &serde_json::Value)],
    now: Timestamp,
) -> BTreeMap<String, Quantity> {
    let objects = objects.iter();
    let objects: Vec<(&str, Value)> = objects
        .map(|&(resource, object)| (resource, object.clone().into()))
        .collect();
    let counted: Vec<Counted<'_>> = objects
        .iter()
        .map(|(resource, object)| Counted { resource, object })
        .collect();
    let spec = json::to_value(spec).unwrap_or_default();
    let used = resource_quota::used(&spec, &counted, now).into_iter();
    used.map(|(name, amount)| (name, Quantity(amount)))
        .collect()
}
