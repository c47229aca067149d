//! Nodes.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::Strategy;
use super::checks::{NOT_NEGATIVE, entries, invalid_each, is_empty, items, text};
use super::go_struct::shown;
use super::net::validate_cidr;
use crate::meta::object::child_mut;
use crate::meta::validation::{label_value, qualified_name};
use crate::status::{CauseReason, FieldErrors, FieldPath};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const ONE_OF_FAMILY: &str = "may specify no more than one CIDR for each IP family";

#[derive(Debug)]
pub(super) struct Node;

impl Strategy for Node {
    /// A kubelet tells its state as it registers the node.
    fn brings_status(&self) -> bool {
        true
    }

    /// What a node can hold is also what it offers, unless it says less; the range of its pods and
    /// the first of all ranges are one.
    fn default(&self, node: &mut Value) {
        let capacity = node["status"]["capacity"].clone();
        if capacity.is_object() {
            let status = child_mut(node, "status");
            let offered = status.entry("allocatable").or_insert_with(|| json!({}));
            if offered.is_null() || is_empty(offered) {
                *offered = capacity;
            }
        }
        if !node["spec"].is_object() {
            return;
        }
        let spec = child_mut(node, "spec");
        let own = spec.get("podCIDR").map(text).unwrap_or_default().to_owned();
        let all = spec.get("podCIDRs").cloned().unwrap_or_default();
        let first = text(&all[0]);
        if !own.is_empty() && own != first {
            spec.insert("podCIDRs".to_owned(), json!([own]));
        } else if own.is_empty() && !first.is_empty() {
            spec.insert("podCIDR".to_owned(), first.into());
        }
    }

    fn validate(&self, node: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validate_taints(&node["spec"]["taints"], &mut errors);
        validate_resources(&node["status"], &mut errors);
        let path = FieldPath::new("spec.podCIDRs");
        validate_ranges(&node["spec"]["podCIDRs"], &path, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("spec");
        let (now, before) = (&new["spec"], &old["spec"]);
        validate_resources(&new["status"], &mut errors);
        validate_addresses(&new["status"]["addresses"], &mut errors);
        for (field, name) in [("podCIDRs", "podCIDR"), ("providerID", "providerID")] {
            let had = !is_empty(&before[field]) || !text(&before[field]).is_empty();
            if had && now[field] != before[field] {
                let detail =
                    format!("node updates may not change {name} except from \"\" to valid");
                errors.forbidden(&path.child(field), &detail);
            }
        }
        validate_taints(&now["taints"], &mut errors);
        validate_ranges(&now["podCIDRs"], &path.child("podCIDRs"), &mut errors);
        errors
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validate_resources(&new["status"], &mut errors);
        validate_addresses(&new["status"]["addresses"], &mut errors);
        errors
    }
}

/// Faults of the taints; upstream's path has them in the metadata.
fn validate_taints(taints: &Value, errors: &mut FieldErrors) {
    let path = FieldPath::new("metadata.taints");
    let mut seen = BTreeSet::new();
    for (index, taint) in items(taints).enumerate() {
        let path = path.index(index);
        let (key, value) = (text(&taint["key"]), text(&taint["value"]));
        invalid_each(qualified_name(key), &key.into(), &path.child("key"), errors);
        invalid_each(
            label_value(value),
            &value.into(),
            &path.child("value"),
            errors,
        );
        let effect = text(&taint["effect"]);
        let at = path.child("effect");
        if effect.is_empty() {
            errors.required(&at, "");
        } else if !EFFECTS.contains(&effect) {
            errors.not_supported(&at, &effect.into(), &EFFECTS);
        }
        if !seen.insert((key, effect)) {
            let shown = shown("Taint", taint);
            let detail = "taints must be unique by key and effect pair";
            let message = format!("Duplicate value: {shown}: {detail}");
            errors.push(CauseReason::Duplicate, &path, message);
        }
    }
}

fn validate_resources(status: &Value, errors: &mut FieldErrors) {
    for half in ["capacity", "allocatable"] {
        let path = FieldPath::new("status").child(half);
        for (resource, amount) in entries(&status[half]) {
            let path = path.child(resource);
            if text(amount).starts_with('-') {
                errors.invalid(&path, amount, NOT_NEGATIVE);
            }
            let whole = resource == "pods" || resource.contains('/');
            if whole && text(amount).ends_with(['m', 'u', 'n']) {
                errors.invalid(&path, amount, "must be an integer");
            }
        }
    }
}

fn validate_addresses(addresses: &Value, errors: &mut FieldErrors) {
    let path = FieldPath::new("status.addresses");
    let mut seen = BTreeSet::new();
    for (index, own) in items(addresses).enumerate() {
        if !seen.insert((text(&own["type"]), text(&own["address"]))) {
            let message = format!("Duplicate value: {}", shown("NodeAddress", own));
            errors.push(CauseReason::Duplicate, &path.index(index), message);
        }
    }
}

fn validate_ranges(ranges: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let mut valid = true;
    for (index, range) in items(ranges).enumerate() {
        valid &= validate_cidr(range, &path.index(index), errors);
    }
    let count = items(ranges).count();
    if count < 2 || !valid {
        return;
    }
    let family = |range: &Value| {
        let (address, _) = text(range).split_once('/')?;
        address.parse().ok().map(|own: IpAddr| own.is_ipv6())
    };
    let families: BTreeSet<Option<bool>> = items(ranges).map(family).collect();
    if families.len() < 2 || count > 2 {
        errors.invalid(path, ranges, ONE_OF_FAMILY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_found_where_upstream_says() {
        let table = [
            (
                json!({"spec": {"taints": [{"key": "a"}]}}),
                "metadata.taints[0].effect",
            ),
            (
                json!({"spec": {"podCIDRs": ["10.1.0.0/24", "10.2.0.0/24"]}}),
                "spec.podCIDRs",
            ),
            (
                json!({"status": {"capacity": {"cpu": "-1"}}}),
                "status.capacity.cpu",
            ),
        ];
        for (node, want) in table {
            let errors = Node.validate(&node);
            let fields: Vec<&str> = errors.causes().iter().map(|own| &*own.field).collect();
            assert_eq!(fields, [want], "{node}");
        }
    }
}
