//! Faults of services.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{is_exposed, needs_health_check};
use crate::json::{Value, encoded_string};
use crate::meta::validation::{dns1123_label, dns1123_subdomain, qualified_name, validate_labels};
use crate::net::{
    PORT_RANGE, parse_ip, port_name_faults, validate_cidr, validate_ip, validate_reachable,
};
use crate::status::{CauseReason, FieldErrors, FieldPath};
use crate::unstructured::{is_empty, items, text};
use crate::validation::{invalid_as, invalid_each, one_of};

const RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const MAX_AFFINITY_SECONDS: i64 = 86_400;
const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
const ONLY_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";

/// Faults of a service, in upstream's order.
pub(super) fn validate_service(service: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("spec");
    let spec = &service["spec"];
    let kind = text(&spec["type"]);
    let headless = is_headless(spec);
    validate_topology(service, &mut errors);
    if is_empty(&spec["ports"]) && !headless && kind != "ExternalName" {
        errors.required(&path.child("ports"), "");
    }
    if headless && ["LoadBalancer", "NodePort"].contains(&kind) {
        let detail = format!("may not be set to 'None' for {kind} services");
        let path = path.child("clusterIPs").index(0);
        errors.invalid(&path, &spec["clusterIP"], &detail);
    }
    if kind == "ExternalName" {
        validate_external_name(spec, &path, &mut errors);
    }
    let mut names = BTreeSet::new();
    let several = items(&spec["ports"]).count() > 1;
    for (index, port) in items(&spec["ports"]).enumerate() {
        let path = path.child("ports").index(index);
        validate_port(port, several, &mut names, &path, &mut errors);
    }
    validate_labels(spec.get("selector"), &path.child("selector"), &mut errors);
    validate_affinity(spec, &path, &mut errors);
    if kind != "ExternalName" {
        validate_addresses(spec, &mut errors);
    }
    for (index, own) in items(&spec["externalIPs"]).enumerate() {
        let path = path.child("externalIPs").index(index);
        if validate_ip(own, &path, &mut errors).is_some() {
            validate_reachable(own, &path, &mut errors);
        }
    }
    one_of(&spec["type"], &path.child("type"), &TYPES, &mut errors);
    validate_ports_together(spec, &path.child("ports"), &mut errors);
    validate_balancer_fields(service, &path, &mut errors);
    validate_policies(spec, &path, &mut errors);
    errors
}

fn is_headless(spec: &Value) -> bool {
    spec["clusterIPs"] == crate::json::json!(["None"])
}

/// Both annotations of the mode mean the same.
fn validate_topology(service: &Value, errors: &mut FieldErrors) {
    let annotations = &service["metadata"]["annotations"];
    let own = "service.kubernetes.io/topology-mode";
    let old = "service.kubernetes.io/topology-aware-hints";
    let (mode, hints) = (&annotations[own], &annotations[old]);
    if !mode.is_null() && !hints.is_null() && mode != hints {
        let path = FieldPath::new("metadata.annotations").key(own);
        let detail = format!("must match annotations[{old}] when both are specified");
        errors.invalid(&path, mode, &detail);
    }
}

fn validate_external_name(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let detail = "may not be set for ExternalName services";
    for field in ["clusterIPs", "ipFamilies"] {
        if !is_empty(&spec[field]) {
            errors.forbidden(&path.child(field), detail);
        }
    }
    if !spec["ipFamilyPolicy"].is_null() {
        errors.forbidden(&path.child("ipFamilyPolicy"), detail);
    }
    let name = text(&spec["externalName"]);
    let path = path.child("externalName");
    match name.strip_suffix('.').unwrap_or(name) {
        "" => errors.required(&path, ""),
        name => invalid_each(dns1123_subdomain(name), &name.into(), &path, errors),
    }
}

fn validate_port(
    port: &Value,
    several: bool,
    names: &mut BTreeSet<String>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let name = text(&port["name"]);
    let at = path.child("name");
    if !name.is_empty() {
        invalid_each(dns1123_label(name), &name.into(), &at, errors);
        if !names.insert(name.to_owned()) {
            errors.duplicate(&at, &name.into());
        }
    } else if several {
        errors.required(&at, "");
    }
    let in_range = |value: &Value| (1..=65535).contains(&value.as_i64().unwrap_or(0));
    if !in_range(&port["port"]) {
        let number = port["port"].as_i64().unwrap_or(0);
        errors.invalid(&path.child("port"), &number.into(), PORT_RANGE);
    }
    let protocols = ["SCTP", "TCP", "UDP"];
    one_of(
        &port["protocol"],
        &path.child("protocol"),
        &protocols,
        errors,
    );
    let target = &port["targetPort"];
    let at = path.child("targetPort");
    match target.as_str() {
        Some(name) => {
            for fault in port_name_faults(name) {
                errors.invalid(&at, target, fault);
            }
        }
        None if !in_range(target) => {
            let number = target.as_i64().unwrap_or(0);
            errors.invalid(&at, &number.into(), PORT_RANGE);
        }
        None => {}
    }
    if let Some(protocol) = port["appProtocol"].as_str() {
        let path = path.child("appProtocol");
        invalid_each(qualified_name(protocol), &protocol.into(), &path, errors);
    }
}

fn validate_affinity(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let affinity = path.child("sessionAffinity");
    one_of(
        &spec["sessionAffinity"],
        &affinity,
        &["ClientIP", "None"],
        errors,
    );
    let config = &spec["sessionAffinityConfig"];
    let path = path.child("sessionAffinityConfig");
    match text(&spec["sessionAffinity"]) {
        "ClientIP" => {
            let seconds = &config["clientIP"]["timeoutSeconds"];
            let own = seconds.as_i64().unwrap_or(0);
            if !(1..=MAX_AFFINITY_SECONDS).contains(&own) {
                let detail = format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}");
                let path = path.child("clientIP").child("timeoutSeconds");
                errors.invalid(&path, seconds, &detail);
            }
        }
        "None" if !config.is_null() => {
            errors.forbidden(&path, "must not be set when session affinity is None");
        }
        _ => {}
    }
}

/// Faults of the addresses and their families.
pub(super) fn validate_addresses(spec: &Value, errors: &mut FieldErrors) {
    let path = FieldPath::new("spec");
    let all = &spec["clusterIPs"];
    let at = path.child("clusterIPs");
    let own = text(&spec["clusterIP"]);
    match (own, is_empty(all)) {
        ("", true) => {}
        ("", false) => {
            errors.invalid(&at, all, "must be empty when `clusterIP` is not specified");
        }
        (_, true) => errors.required(&at, ""),
        (_, false) if text(&all[0]) != own => {
            errors.invalid(&at, all, "first value must match `clusterIP`");
        }
        _ => {}
    }
    let mut seen = BTreeSet::new();
    for (index, family) in items(&spec["ipFamilies"]).enumerate() {
        let path = path.child("ipFamilies").index(index);
        if !FAMILIES.contains(&text(family)) {
            errors.not_supported(&path, family, &FAMILIES);
        }
        if !seen.insert(text(family)) {
            errors.duplicate(&path, family);
        }
    }
    let policy = &spec["ipFamilyPolicy"];
    if !policy.is_null() {
        let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        one_of(policy, &path.child("ipFamilyPolicy"), &policies, errors);
    }
    let mut addresses = Vec::new();
    let count = items(all).count();
    let mut misplaced = false;
    for (index, address) in items(all).enumerate() {
        if index == 0 && address == "None" {
            if count > 1 {
                misplaced = true;
                errors.invalid(&at, all, "'None' must be the first and only value");
            }
            continue;
        }
        addresses.extend(validate_ip(address, &at.index(index), errors));
    }
    if count > 2 {
        errors.invalid(&at, all, "may only hold up to 2 values");
    }
    if misplaced || (!is_headless(spec) && addresses.len() < count) {
        return;
    }
    let families: BTreeSet<bool> = addresses.iter().map(IpAddr::is_ipv6).collect();
    if count > 1 && families.len() < 2 {
        errors.invalid(
            &at,
            all,
            "may specify no more than one IP for each IP family",
        );
    }
    let pairs = addresses.iter().zip(items(&spec["ipFamilies"]));
    for (index, (address, family)) in pairs.enumerate() {
        let real = if address.is_ipv6() { "IPv6" } else { "IPv4" };
        if family != real && FAMILIES.contains(&text(family)) {
            let article = text(family);
            let detail =
                format!("expected an {article} value as indicated by `ipFamilies[{index}]`");
            errors.invalid(&at.index(index), &all[index], &detail);
        }
    }
}

fn validate_ports_together(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let number = |port: &Value, field: &str| port[field].as_i64().unwrap_or(0);
    if spec["type"] == "ClusterIP" {
        for (index, port) in items(&spec["ports"]).enumerate() {
            if number(port, "nodePort") != 0 {
                let detail = "may not be used when `type` is 'ClusterIP'";
                errors.forbidden(&path.index(index).child("nodePort"), detail);
            }
        }
    }
    let mut seen = BTreeSet::new();
    for (index, port) in items(&spec["ports"]).enumerate() {
        let own = number(port, "nodePort");
        if own != 0 && !seen.insert((text(&port["protocol"]), own)) {
            errors.duplicate(&path.index(index).child("nodePort"), &own.into());
        }
    }
    let mut seen = BTreeSet::new();
    for (index, port) in items(&spec["ports"]).enumerate() {
        let (protocol, own) = (text(&port["protocol"]), number(port, "port"));
        if !seen.insert((protocol, own)) {
            let message = format!(
                "Duplicate value: {{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{own},\"TargetPort\":0,\"NodePort\":0}}",
                encoded_string(protocol)
            );
            errors.push(CauseReason::Duplicate, &path.index(index), message);
        }
    }
}

fn validate_balancer_fields(service: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let spec = &service["spec"];
    let balances = spec["type"] == "LoadBalancer";
    let ranges = &spec["loadBalancerSourceRanges"];
    // Upstream's path has the field's name in Go.
    let at = path.child("LoadBalancerSourceRanges");
    if !is_empty(ranges) && !balances {
        errors.forbidden(&at, ONLY_BALANCER);
    }
    for (index, range) in items(ranges).enumerate() {
        validate_cidr(&text(range).trim().into(), &at.index(index), errors);
    }
    let annotated = service["metadata"]["annotations"][RANGES].as_str();
    if let Some(all) = annotated.filter(|_| is_empty(ranges)) {
        let at = FieldPath::new("metadata.annotations").key(RANGES);
        if !balances {
            errors.forbidden(&at, ONLY_BALANCER);
        }
        let all = all.trim();
        for range in all.split(',').filter(|_| !all.is_empty()) {
            validate_cidr(&range.trim().into(), &at, errors);
        }
    }
    if !spec["allocateLoadBalancerNodePorts"].is_null() && !balances {
        let path = path.child("allocateLoadBalancerNodePorts");
        errors.forbidden(&path, ONLY_BALANCER);
    }
    validate_class(spec, errors);
}

fn validate_class(spec: &Value, errors: &mut FieldErrors) {
    let class = &spec["loadBalancerClass"];
    let path = FieldPath::new("spec.loadBalancerClass");
    match class.as_str() {
        Some(_) if spec["type"] != "LoadBalancer" => errors.forbidden(&path, ONLY_BALANCER),
        Some(own) => invalid_each(qualified_name(own), class, &path, errors),
        None => {}
    }
}

fn validate_policies(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let policies = ["Cluster", "Local"];
    let external = &spec["externalTrafficPolicy"];
    let at = path.child("externalTrafficPolicy");
    match (is_exposed(spec), text(external)) {
        (false, "") => {}
        (false, _) => {
            let detail = "may only be set for externally-accessible services";
            errors.invalid(&at, external, detail);
        }
        (true, "") => errors.required(&at, ""),
        (true, _) => one_of(external, &at, &policies, errors),
    }
    let port = &spec["healthCheckNodePort"];
    let at = path.child("healthCheckNodePort");
    let number = port.as_i64().unwrap_or(0);
    match (needs_health_check(spec), number) {
        (false, 0) => {}
        (false, _) => {
            let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid(&at, port, detail);
        }
        (true, 0) => errors.required(&at, ""),
        (true, own) if !(1..=65535).contains(&own) => errors.invalid(&at, port, PORT_RANGE),
        (true, _) => {}
    }
    let internal = &spec["internalTrafficPolicy"];
    if !internal.is_null() {
        one_of(
            internal,
            &path.child("internalTrafficPolicy"),
            &policies,
            errors,
        );
    }
    let distribution = &spec["trafficDistribution"];
    if !distribution.is_null() {
        let path = path.child("trafficDistribution");
        one_of(distribution, &path, &DISTRIBUTIONS, errors);
    }
}

/// Faults of an update: allocated values are immutable.
pub(super) fn validate_service_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("spec");
    let (now, before) = (&new["spec"], &old["spec"]);
    if now["type"] != "ExternalName" && before["type"] != "ExternalName" {
        validate_kept_addresses(now, before, &mut errors);
        validate_kept_families(now, before, &mut errors);
    }
    let class = |spec: &Value| spec["loadBalancerClass"].clone();
    let balances = |spec: &Value| spec["type"] == "LoadBalancer";
    if balances(now) && balances(before) && class(now) != class(before) {
        let path = path.child("loadBalancerClass");
        errors.invalid(&path, &class(now), "may not change once set");
    }
    // Upstream validates the class here and again below.
    validate_class(now, &mut errors);
    if needs_health_check(now)
        && needs_health_check(before)
        && now["healthCheckNodePort"] != before["healthCheckNodePort"]
    {
        errors.forbidden(&path.child("healthCheckNodePort"), "field is immutable");
    }
    errors.extend(validate_service(new));
    errors
}

const CHANGED: &str = "may not change once set";

fn validate_kept_addresses(now: &Value, before: &Value, errors: &mut FieldErrors) {
    if is_headless(now) && is_headless(before) {
        return;
    }
    let path = FieldPath::new("spec.clusterIPs");
    let all = &now["clusterIPs"];
    let [own, was] = [now, before].map(|spec| items(&spec["clusterIPs"]).collect::<Vec<_>>());
    if own.len() == was.len() {
        for (index, (own, was)) in own.iter().zip(&was).enumerate() {
            if own != was {
                errors.invalid(&path.index(index), all, CHANGED);
            }
        }
        return;
    }
    if own.is_empty() {
        errors.invalid(&path.index(0), all, "primary clusterIP can not be unset");
    } else if was.first().is_some_and(|was| own[0] != *was) {
        errors.invalid(&path.index(0), all, CHANGED);
    }
    let policy = &now["ipFamilyPolicy"];
    if own.len() == 1 && was.len() > 1 && policy != "SingleStack" {
        let detail = "must be set to 'SingleStack' when releasing the secondary clusterIP";
        errors.invalid(&FieldPath::new("spec.ipFamilyPolicy"), policy, detail);
    }
}

fn validate_kept_families(now: &Value, before: &Value, errors: &mut FieldErrors) {
    if is_headless(now) || is_headless(before) {
        return;
    }
    let path = FieldPath::new("spec.ipFamilies").index(0);
    let [own, was] = [now, before].map(|spec| items(&spec["ipFamilies"]).collect::<Vec<_>>());
    if own.len() == was.len() {
        for (own, was) in own.iter().zip(&was) {
            if own != was {
                errors.invalid(&path, &now["ipFamilies"], CHANGED);
            }
        }
        return;
    }
    if own.len() < was.len() && is_empty(&now["clusterIPs"]) {
        errors.invalid(
            &path,
            &now["ipFamilies"],
            "primary ipFamily can not be unset",
        );
    }
    if let (Some(own), Some(was)) = (own.first(), was.first())
        && own != was
    {
        // Upstream shows the addresses.
        errors.invalid(&path, &now["clusterIPs"], CHANGED);
    }
    let policy = &now["ipFamilyPolicy"];
    if own.len() == 1 && was.len() > 1 && policy != "SingleStack" {
        let detail = "must be set to 'SingleStack' when releasing the secondary ipFamily";
        errors.invalid(&FieldPath::new("spec.ipFamilyPolicy"), policy, detail);
    }
}

/// Faults of the status of a load balancer.
pub(super) fn validate_balancer(service: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("status.loadBalancer");
    let ingress = &service["status"]["loadBalancer"]["ingress"];
    let at = path.child("ingress");
    if !is_empty(ingress) && service["spec"]["type"] != "LoadBalancer" {
        errors.forbidden(&at, "may only be used when `spec.type` is 'LoadBalancer'");
        return errors;
    }
    for (index, own) in items(ingress).enumerate() {
        let path = at.index(index);
        let ip = &own["ip"];
        if !text(ip).is_empty() {
            validate_ip(ip, &path.child("ip"), &mut errors);
        }
        let mode = &own["ipMode"];
        let at = path.child("ipMode");
        match (text(ip).is_empty(), mode.is_null()) {
            (true, true) => {}
            (false, true) => errors.required(&at, "must be specified when `ip` is set"),
            (true, false) => errors.forbidden(&at, "may not be specified when `ip` is not set"),
            (false, false) => one_of(mode, &at, &["Proxy", "VIP"], &mut errors),
        }
        let name = &own["hostname"];
        if !text(name).is_empty() {
            let at = path.child("hostname");
            invalid_each(dns1123_subdomain(text(name)), name, &at, &mut errors);
            if parse_ip(text(name)).is_some() {
                let detail = "must be a DNS name, not an IP address";
                invalid_as(&at, &name.to_string(), detail, &mut errors);
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn each_type_has_its_own_fields() {
        let base = |more: Value| {
            let mut spec = json!({"type": "ClusterIP", "sessionAffinity": "None",
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]});
            for (field, value) in more.as_object().unwrap() {
                spec[field] = value.clone();
            }
            json!({ "spec": spec })
        };
        let table = [
            (json!({}), vec![]),
            (
                json!({"loadBalancerClass": "a/b"}),
                vec!["spec.loadBalancerClass"],
            ),
            (
                json!({"externalTrafficPolicy": "Local"}),
                vec!["spec.externalTrafficPolicy"],
            ),
            (json!({"type": "ExternalName"}), vec!["spec.externalName"]),
            (
                json!({"externalIPs": ["127.0.0.1"], "externalTrafficPolicy": "Local"}),
                vec!["spec.externalIPs[0]"],
            ),
            (
                json!({"clusterIP": "10.0.0.3", "clusterIPs": ["10.0.0.3", "10.0.0.4"]}),
                vec!["spec.clusterIPs"],
            ),
        ];
        for (more, want) in table {
            let errors = validate_service(&base(more.clone()));
            let fields: Vec<&str> = errors.causes().iter().map(|own| &*own.field).collect();
            assert_eq!(fields, want, "{more}");
        }
    }
}
