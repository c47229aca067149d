//! Faults of a pod's placement: tolerations, topology spread and names.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::affinity::validate_affinity;
use super::container::validate_resources;
use super::label_keys;
use super::security_context::{validate_host_process, validate_host_users, validate_pod_security};
use crate::json::{Value, json};
use crate::meta::validation::{
    dns1123_label, dns1123_subdomain, label_value, qualified_name, validate_label_selector,
    validate_labels,
};
use crate::net::validate_ip;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{is_empty, items, text};
use crate::validation::{invalid_each, one_of, required_one_of};

/// A domain to search, in which a name may have underscores.
const SEARCH_FAULT: &str = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const POSITIVE: &str = "must be greater than zero";

/// Faults of the fields that concern placement, in upstream's order.
pub(crate) fn validate_placement(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let selector = path.child("nodeSelector");
    validate_labels(spec.get("nodeSelector"), &selector, errors);
    validate_pod_security(spec, path, errors);
    validate_affinity(&spec["affinity"], &path.child("affinity"), errors);
    validate_dns_config(spec, &path.child("dnsConfig"), errors);
    let gates = path.child("readinessGates");
    for (index, gate) in items(&spec["readinessGates"]).enumerate() {
        let kind = &gate["conditionType"];
        let path = gates.index(index).child("conditionType");
        invalid_each(qualified_name(text(kind)), kind, &path, errors);
    }
    let mut seen = BTreeSet::new();
    let gates = path.child("schedulingGates");
    for (index, gate) in items(&spec["schedulingGates"]).enumerate() {
        let path = gates.index(index);
        let name = text(&gate["name"]);
        invalid_each(qualified_name(name), &name.into(), &path, errors);
        if !seen.insert(name) {
            errors.duplicate(&path, &name.into());
        }
    }
    let constraints = path.child("topologySpreadConstraints");
    validate_spread(&spec["topologySpreadConstraints"], &constraints, errors);
    validate_host_process(spec, path, errors);
    validate_host_users(spec, path, errors);
    for field in ["serviceAccountName", "nodeName"] {
        let name = text(&spec[field]);
        if !name.is_empty() {
            let faults = dns1123_subdomain(name);
            invalid_each(faults, &name.into(), &path.child(field), errors);
        }
    }
    let deadline = &spec["activeDeadlineSeconds"];
    let range = 1..=i64::from(i32::MAX);
    if deadline.as_i64().is_some_and(|own| !range.contains(&own)) {
        let detail = "must be between 1 and 2147483647, inclusive";
        errors.invalid(&path.child("activeDeadlineSeconds"), deadline, detail);
    }
    for field in ["hostname", "subdomain"] {
        let name = text(&spec[field]);
        if !name.is_empty() {
            let faults = dns1123_label(name);
            invalid_each(faults, &name.into(), &path.child(field), errors);
        }
    }
    validate_hostname_override(spec, &path.child("hostnameOverride"), errors);
    validate_tolerations(&spec["tolerations"], &path.child("tolerations"), errors);
    let aliases = path.child("hostAliases");
    for (index, alias) in items(&spec["hostAliases"]).enumerate() {
        let path = aliases.index(index);
        validate_ip(&alias["ip"], &path.child("ip"), errors);
        for (index, name) in items(&alias["hostnames"]).enumerate() {
            let path = path.child("hostnames").index(index);
            invalid_each(dns1123_subdomain(text(name)), name, &path, errors);
        }
    }
    for (field, may_be_empty) in [("priorityClassName", true), ("runtimeClassName", false)] {
        let name = &spec[field];
        if name.is_string() && !(may_be_empty && text(name).is_empty()) {
            invalid_each(
                dns1123_subdomain(text(name)),
                name,
                &path.child(field),
                errors,
            );
        }
    }
    let policy = &spec["preemptionPolicy"];
    if !policy.is_null() {
        let policies = ["PreemptLowerPriority", "Never"];
        required_one_of(policy, &path.child("preemptionPolicy"), &policies, errors);
    }
    if !spec["overhead"].is_null() {
        let overhead = json!({ "limits": spec["overhead"] });
        validate_resources(&overhead, &path.child("overhead"), errors);
    }
}

fn validate_hostname_override(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const BYTES_MAX: usize = 64;
    let Some(name) = spec["hostnameOverride"].as_str() else {
        return;
    };
    for (field, when) in [
        (
            "setHostnameAsFQDN",
            "may not be specified when setHostnameAsFQDN is true",
        ),
        (
            "hostNetwork",
            "may not be specified when hostNetwork is true",
        ),
    ] {
        if spec[field] == true {
            errors.forbidden(path, when);
        }
    }
    if name.len() > BYTES_MAX {
        errors.too_long(path, BYTES_MAX);
    }
    invalid_each(dns1123_subdomain(name), &name.into(), path, errors);
}

fn validate_spread(constraints: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let pair = |constraint: &Value| {
        let field = |name: &str| text(&constraint[name]).to_owned();
        format!(
            "{{{}, {}}}",
            field("topologyKey"),
            field("whenUnsatisfiable")
        )
    };
    // The fault is reported at the first of two equal constraints.
    let pairs: Vec<String> = items(constraints).map(pair).collect();
    let mut later = BTreeSet::new();
    let mut is_repeated: Vec<bool> = pairs.iter().rev().map(|own| !later.insert(own)).collect();
    is_repeated.reverse();
    for (index, constraint) in items(constraints).enumerate() {
        let path = path.index(index);
        let number = |field: &str| constraint[field].as_i64();
        let key = text(&constraint["topologyKey"]);
        let action = text(&constraint["whenUnsatisfiable"]);
        if number("maxSkew").unwrap_or(0) <= 0 {
            let value = number("maxSkew").unwrap_or(0).into();
            errors.invalid(&path.child("maxSkew"), &value, POSITIVE);
        }
        if key.is_empty() {
            errors.required(&path.child("topologyKey"), "can not be empty");
        }
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        let action_path = path.child("whenUnsatisfiable");
        one_of(&action.into(), &action_path, &actions, errors);
        if is_repeated[index] {
            let path = path.child("{topologyKey, whenUnsatisfiable}");
            errors.duplicate(&path, &pairs[index].as_str().into());
        }
        if let Some(domains) = number("minDomains") {
            let path = path.child("minDomains");
            if domains <= 0 {
                errors.invalid(&path, &domains.into(), POSITIVE);
            }
            if action != "DoNotSchedule" {
                let detail = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                );
                errors.invalid(&path, &domains.into(), &detail);
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if !constraint[field].is_null() {
                let path = path.child(field);
                one_of(&constraint[field], &path, &["Honor", "Ignore"], errors);
            }
        }
        label_keys::validate(constraint, &path, errors);
        let selector = path.child("labelSelector");
        validate_label_selector(&constraint["labelSelector"], false, &selector, errors);
    }
}

/// Faults of a list of tolerations.
pub(crate) fn validate_tolerations(
    tolerations: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    for (index, toleration) in items(tolerations).enumerate() {
        let path = path.index(index);
        let key = text(&toleration["key"]);
        if !key.is_empty() {
            invalid_each(qualified_name(key), &key.into(), &path.child("key"), errors);
        }
        let operator = &Value::from(text(&toleration["operator"]));
        let operator_path = path.child("operator");
        if key.is_empty() && operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(&operator_path, operator, detail);
        }
        let effect = text(&toleration["effect"]);
        if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&path.child("effect"), &effect.into(), detail);
        }
        let value = text(&toleration["value"]);
        match text(operator) {
            "" | "Equal" => invalid_each(label_value(value), &value.into(), &operator_path, errors),
            "Exists" if !value.is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                errors.invalid(&operator_path, &value.into(), detail);
            }
            "Exists" => {}
            // If one gated operator is used, upstream's list of valid operators includes all gated
            // ones.
            "Lt" | "Gt" => {
                let known = ["Equal", "Exists", "Lt", "Gt"];
                errors.not_supported(&operator_path, operator, &known);
            }
            _ => errors.not_supported(&operator_path, operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            one_of(&effect.into(), &path.child("effect"), &effects, errors);
        }
    }
}

fn validate_dns_config(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const MAX_NAMESERVERS: usize = 3;
    const MAX_SEARCHES: usize = 32;
    const MAX_SEARCH_CHARS: usize = 2048;
    static SEARCH: LazyLock<Regex> = LazyLock::new(|| {
        let part = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
        Regex::new(&format!(r"^{part}(\.{part})*$")).expect("it compiles")
    });
    let config = &spec["dnsConfig"];
    let servers = &config["nameservers"];
    if spec["dnsPolicy"] == "None" && config.is_null() {
        let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
        errors.required(path, detail);
        return;
    }
    if spec["dnsPolicy"] == "None" && is_empty(servers) {
        let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.required(&path.child("nameservers"), detail);
        return;
    }
    let servers_path = path.child("nameservers");
    if items(servers).count() > MAX_NAMESERVERS {
        let detail = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        errors.invalid(&servers_path, servers, &detail);
    }
    for (index, server) in items(servers).enumerate() {
        validate_ip(server, &servers_path.index(index), errors);
    }
    let searches: Vec<_> = items(&config["searches"]).map(text).collect();
    let searches_path = path.child("searches");
    let mut refuse_all = |detail: &str| {
        errors.invalid(&searches_path, &config["searches"], detail);
    };
    if searches.len() > MAX_SEARCHES {
        refuse_all(&format!(
            "must not have more than {MAX_SEARCHES} search paths"
        ));
    }
    if searches.join(" ").len() > MAX_SEARCH_CHARS {
        refuse_all(&format!(
            "must not have more than {MAX_SEARCH_CHARS} characters (including spaces) in the search list"
        ));
    }
    for (index, search) in searches.into_iter().enumerate() {
        // A domain may end in a dot, and a lone dot is the root.
        let name = search.strip_suffix('.').unwrap_or(search);
        if search == "." {
            continue;
        }
        if name.len() > 253 {
            let detail = "must be no more than 253 characters";
            errors.invalid(&searches_path.index(index), &name.into(), detail);
        }
        if !SEARCH.is_match(name) {
            errors.invalid(&searches_path.index(index), &name.into(), SEARCH_FAULT);
        }
    }
    for (index, option) in items(&config["options"]).enumerate() {
        if text(&option["name"]).is_empty() {
            let path = path.child("options").index(index);
            errors.required(&path, "must not be empty");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn names_are_looked_up_in_few_short_domains() {
        let long = "a".repeat(250);
        let server = json!(["1.1.1.1"]);
        let table = [
            (json!({"dnsPolicy": "None"}), vec!["c"]),
            (
                json!({"dnsPolicy": "None", "dnsConfig": {"searches": ["-"]}}),
                vec!["c.nameservers"],
            ),
            (
                json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": server, "searches": [".", "_a.b."]}}),
                vec![],
            ),
            (
                json!({"dnsConfig": {"searches": ["", "A"]}}),
                vec!["c.searches[0]", "c.searches[1]"],
            ),
            (
                json!({"dnsConfig": {"searches": vec!["a"; 33]}}),
                vec!["c.searches"],
            ),
            (
                json!({"dnsConfig": {"searches": vec![long; 9]}}),
                vec!["c.searches"],
            ),
        ];
        for (spec, faults) in table {
            let mut errors = FieldErrors::new();
            validate_dns_config(&spec, &FieldPath::new("c"), &mut errors);
            let fields: Vec<_> = errors.causes().iter().map(|c| c.field.as_str()).collect();
            assert_eq!(fields, faults, "{spec}");
        }
    }
}
