//! Nodes.

mod avoidance;
pub(crate) mod deprecated_labels;
mod features;

use std::collections::BTreeSet;

use super::resource_list::round_amounts;
use super::resource_names::validate_amount;
use crate::columns::{Printable, or_none};
use crate::go_struct::shown;
use crate::json::{SmolStr, Value, json};
use crate::meta::GroupResource;
use crate::meta::object::child_mut;
use crate::meta::validation::{label_value, qualified_name};
use crate::net::{parse_ip, validate_cidr, warn_of_cidr};
use crate::rest::{ProxyTarget, SubresourceRest};
use crate::status::{CauseReason, FieldErrors, FieldPath};
use crate::unstructured::{entries, is_empty, items, text};
use crate::validation::invalid_each;
use crate::{Context, MetadataCheck, SelectableField, Strategy};

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE_LABEL: &str = "kubernetes.io/role";
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const ONE_OF_FAMILY: &str = "may specify no more than one CIDR for each IP family";

/// The strategy of Nodes.
#[derive(Debug)]
pub struct Node;

impl Strategy for Node {
    fn subresource_rest(&self, name: &str) -> Option<SubresourceRest> {
        match name {
            "status" => Some(SubresourceRest::Status),
            "proxy" => Some(SubresourceRest::Proxy(ProxyTarget::Node)),
            _ => None,
        }
    }

    fn selectable_field(&self, name: &str) -> Option<SelectableField> {
        (name == "spec.unschedulable").then_some(SelectableField {
            paths: &["spec.unschedulable"],
            default: "false",
        })
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta, MetadataCheck::ObjectMetaUpdate]
    }

    fn storage_prefix(&self, _resource: &GroupResource) -> String {
        "minions".to_owned()
    }

    /// A kubelet reports its status as it registers the node.
    fn brings_status(&self) -> bool {
        true
    }

    /// Defaults allocatable resources to the capacity, and each of `podCIDR` and `podCIDRs` from
    /// the other.
    fn default(&self, node: &mut Value) {
        for half in ["capacity", "allocatable"] {
            if let Some(amounts) = node.pointer_mut(&format!("/status/{half}")) {
                round_amounts(amounts);
            }
        }
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
            spec.insert("podCIDRs", json!([own]));
        } else if own.is_empty() && !first.is_empty() {
            spec.insert("podCIDR", first.into());
        }
    }

    fn prepare_for_create(&self, node: &mut Value, _context: Context<'_>) {
        drop_configuration(node);
    }

    fn prepare_for_update(&self, new: &mut Value, _old: &Value, _context: Context<'_>) {
        drop_configuration(new);
    }

    fn prepare_for_status_update(&self, new: &mut Value, _old: &Value, _context: Context<'_>) {
        drop_configuration(new);
    }

    fn validate(&self, node: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        avoidance::validate(node, &mut errors);
        validate_taints(&node["spec"]["taints"], &mut errors);
        validate_resources(&node["status"], &mut errors);
        let swap = &node["status"]["nodeInfo"]["swap"]["capacity"];
        if swap.as_i64().is_some_and(|own| own <= 0) {
            // Upstream's path has it in the metadata.
            let path = FieldPath::new("metadata.nodeSwapStatus.capacity");
            errors.invalid(&path, swap, "must be greater than zero");
        }
        features::validate(&node["status"]["declaredFeatures"], &mut errors);
        let path = FieldPath::new("spec.podCIDRs");
        validate_ranges(&node["spec"]["podCIDRs"], &path, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(new);
        errors.extend(validate_changes(new, old));
        errors
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> FieldErrors {
        validate_changes(new, old)
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        let spec = &new["spec"];
        if !text(&spec["externalID"]).is_empty() {
            let warning = "spec.externalID: this field is deprecated, and is unused by Kubernetes";
            warnings.push(warning.to_owned());
        }
        let path = FieldPath::new("spec.podCIDRs");
        for (index, range) in items(&spec["podCIDRs"]).enumerate() {
            warn_of_cidr(range, &path.index(index), &mut warnings);
        }
        warnings
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let mut status = match view.condition("Ready") {
            Some(ready) if ready.str("/status") == "True" => "Ready",
            Some(_) => "NotReady",
            None => "Unknown",
        }
        .to_owned();
        if view.bool("/spec/unschedulable") {
            status.push_str(",SchedulingDisabled");
        }
        let info = |field: &str| {
            view.str_or(&format!("/status/nodeInfo/{field}"), "<unknown>")
                .to_owned()
        };
        let mut kernel = info("kernelVersion");
        let architecture = view.str("/status/nodeInfo/architecture");
        if kernel != "<unknown>" && !architecture.is_empty() {
            kernel = format!("{kernel} ({architecture})");
        }
        Some(vec![
            view.name(),
            json!(status),
            json!(roles(view)),
            view.age(),
            json!(view.str("/status/nodeInfo/kubeletVersion")),
            json!(address(view, "InternalIP")),
            json!(address(view, "ExternalIP")),
            json!(info("osImage")),
            json!(kernel),
            json!(info("containerRuntimeVersion")),
        ])
    }
}

/// Validates a change of spec or status as upstream does; some checks run a second time.
fn validate_changes(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("spec");
    let (now, before) = (&new["spec"], &old["spec"]);
    avoidance::validate(new, &mut errors);
    validate_resources(&new["status"], &mut errors);
    features::validate(&new["status"]["declaredFeatures"], &mut errors);
    validate_addresses(&new["status"]["addresses"], &mut errors);
    validate_ranges_stay(&now["podCIDRs"], &before["podCIDRs"], &mut errors);
    let changed = |field: &str| text(&now[field]) != text(&before[field]);
    if !text(&before["providerID"]).is_empty() && changed("providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.forbidden(&path.child("providerID"), detail);
    }
    validate_taints(&now["taints"], &mut errors);
    if changed("externalID") {
        errors.forbidden(&path.child("externalID"), "may not be updated");
    }
    errors
}

/// Kubelets are configured by the server no more.
fn drop_configuration(node: &mut Value) {
    for (half, field) in [("spec", "configSource"), ("status", "config")] {
        if let Some(fields) = node.get_mut(half).and_then(Value::as_object_mut) {
            fields.remove(field);
        }
    }
}

/// Once there are ranges they stay.
fn validate_ranges_stay(now: &Value, before: &Value, errors: &mut FieldErrors) {
    let path = FieldPath::new("spec.podCIDRs");
    let detail = "node updates may not change podCIDR except from \"\" to valid";
    if is_empty(before) {
        return;
    }
    if items(now).count() != items(before).count() {
        return errors.forbidden(&path, detail);
    }
    for (now, before) in items(now).zip(items(before)) {
        if now != before {
            errors.forbidden(&path, detail);
        }
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
        let faults = label_value(value);
        if !faults.is_empty() {
            let faults = faults.join(";");
            errors.invalid(&path.child("value"), &value.into(), &faults);
        }
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
            validate_amount(resource, amount, &path, errors);
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
    for (index, range) in items(ranges).enumerate() {
        validate_cidr(range, &path.index(index), errors);
    }
    let count = items(ranges).count();
    if count < 2 {
        return;
    }
    let is_v6 = |range: &Value| {
        let (address, _) = text(range).split_once('/')?;
        parse_ip(address).map(|own| own.is_ipv6())
    };
    let families: Vec<Option<bool>> = items(ranges).map(is_v6).collect();
    if let Some(index) = families.iter().position(Option::is_none) {
        let bad = text(&ranges[index]);
        let message = format!(
            "Internal error: invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: <nil> (invalid CIDR address: {bad})"
        );
        errors.push(CauseReason::Internal, path, message);
    }
    let both = [Some(true), Some(false)];
    if count > 2 || !both.iter().all(|family| families.contains(family)) {
        errors.invalid(path, ranges, ONE_OF_FAMILY);
    }
}

fn roles(view: Printable<'_>) -> String {
    let labels = view
        .get("/metadata/labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let role = |(label, value): (&'_ SmolStr, &'_ Value)| match label.strip_prefix(ROLE_PREFIX) {
        Some(role) => Some(role.to_owned()),
        None if label == ROLE_LABEL => value.as_str().map(str::to_owned),
        None => None,
    };
    let roles: BTreeSet<String> = labels
        .filter_map(role)
        .filter(|role| !role.is_empty())
        .collect();
    or_none(roles.into_iter().collect::<Vec<_>>().join(","))
}

fn address<'a>(view: Printable<'a>, kind: &str) -> &'a str {
    let mut addresses = view.items("/status/addresses");
    addresses
        .find(|address| address.str("/type") == kind)
        .map_or("<none>", |address| address.str("/address"))
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
