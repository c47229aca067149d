//! Addresses and ports that services are given, or claim.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::validation::validate_addresses;
use super::{has_node_ports, needs_health_check};
use crate::Context;
use crate::json::{Value, json};
use crate::meta::object::{child_mut, default, name};
use crate::status::{ApiError, FieldErrors, FieldPath, quoted};
use crate::unstructured::{is_empty, items, items_mut, text};

/// Keeps the allocated addresses and ports that an update leaves out.
pub(super) fn keep_allocated(new: &mut Value, old: &Value) {
    let before = &old["spec"];
    let addressed = |spec: &Value| spec["type"] != "ExternalName";
    let both = addressed(before) && addressed(&new["spec"]);
    let ported = has_node_ports(before) && has_node_ports(&new["spec"]);
    let checked = needs_health_check(before) && needs_health_check(&new["spec"]);
    let spec = child_mut(new, "spec");
    if both {
        if spec.get("clusterIP").is_none_or(|own| text(own).is_empty()) {
            spec.insert("clusterIP", before["clusterIP"].clone());
        }
        if spec.get("clusterIPs").is_none_or(is_empty) {
            spec.insert("clusterIPs", before["clusterIPs"].clone());
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if let Some(own) = before.get(field) {
                default(spec, field, own.clone());
            }
        }
    }
    if ported {
        keep_node_ports(spec, before);
    }
    if checked && let Some(port) = before.get("healthCheckNodePort") {
        default(spec, "healthCheckNodePort", port.clone());
    }
}

/// Keeps the node port of each port by name, unless the port names another or another port uses it.
fn keep_node_ports(spec: &mut crate::json::Map, before: &Value) {
    let number = |port: &Value| port["nodePort"].as_i64().unwrap_or(0);
    let used: Vec<i64> = spec
        .get("ports")
        .into_iter()
        .flat_map(items)
        .map(number)
        .collect();
    for port in items_mut(spec, "ports") {
        let own = |field: &str| port.get(field).cloned().unwrap_or_default();
        if own("nodePort").as_i64().unwrap_or(0) != 0 {
            continue;
        }
        let name = own("name");
        let named = items(&before["ports"]).filter(|other| text(&other["name"]) == text(&name));
        let was = named.map(number).last().unwrap_or(0);
        if was != 0 && !used.contains(&was) {
            port.insert("nodePort", was.into());
        }
    }
}

/// Makes `clusterIPs` follow a changed `clusterIP` if `clusterIPs` is unchanged: older clients know
/// only `clusterIP`.
pub(super) fn follow_address(new: &mut Value, old: &Value) {
    let before = &old["spec"];
    let spec = child_mut(new, "spec");
    let own = spec.get("clusterIP").cloned().unwrap_or_default();
    let same = |field: &str| spec.get(field).unwrap_or(&Value::Null) == &before[field];
    if text(&own) == text(&before["clusterIP"]) || !same("clusterIPs") {
        return;
    }
    match text(&own) {
        "" => spec.remove("clusterIPs"),
        address => spec.insert("clusterIPs", json!([address])),
    };
}

/// Allocates the addresses and ports that the type needs and the service lacks.
///
/// # Errors
/// `Internal` for a health check port that is not available, as upstream reports it.
pub(super) fn allocate(
    service: &mut Value,
    old: Option<&Value>,
    context: Context<'_>,
) -> Result<FieldErrors, ApiError> {
    let mut errors = FieldErrors::new();
    if old.is_none() {
        agree_on_address(child_mut(service, "spec"));
    }
    if service["spec"]["type"] != "ExternalName" {
        validate_addresses(&service["spec"], &mut errors);
        if errors.is_empty() {
            let families = context.service_ranges.families();
            default_families(child_mut(service, "spec"), families, &mut errors);
        }
        if errors.is_empty() {
            allocate_address(service, old, context, &mut errors);
        }
    }
    if errors.is_empty() {
        allocate_ports(service, old, context, &mut errors)?;
    }
    Ok(errors)
}

/// A new service that names one address has that one alone.
fn agree_on_address(spec: &mut crate::json::Map) {
    let own = spec
        .get("clusterIP")
        .map(text)
        .unwrap_or_default()
        .to_owned();
    if !own.is_empty() && spec.get("clusterIPs").is_none_or(is_empty) {
        spec.insert("clusterIPs", json!([own]));
    }
}

/// Families and their policy where they are not given; the cluster has family `own` and not `other`.
fn default_families(
    spec: &mut crate::json::Map,
    [own_family, other_family]: [&str; 2],
    errors: &mut FieldErrors,
) {
    let path = FieldPath::new("spec");
    let headless = spec.get("clusterIP").is_some_and(|own| own == "None");
    let selects = spec.get("selector").is_some_and(|own| !is_empty(own));
    // Nobody knows which families the endpoints of a service that selects none will have.
    let is_open = headless && !selects;
    let policy = match is_open {
        true => "RequireDualStack",
        false => "SingleStack",
    };
    default(spec, "ipFamilyPolicy", policy);
    let policy = spec["ipFamilyPolicy"].clone();
    let of_policy = path.child("ipFamilyPolicy");
    let list = |field: &str| {
        items(spec.get(field).unwrap_or(&Value::Null))
            .cloned()
            .collect()
    };
    let (addresses, mut families): (Vec<Value>, Vec<Value>) =
        (list("clusterIPs"), list("ipFamilies"));
    for (count, what) in [
        (addresses.len(), "cluster IPs"),
        (families.len(), "IP families"),
    ] {
        if policy == "SingleStack" && count == 2 {
            let detail = format!(
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
            );
            errors.invalid(&of_policy, &policy, &detail);
        }
    }
    for (index, address) in addresses.iter().enumerate().skip(families.len()) {
        match text(address) {
            "None" => break,
            own if own.contains(':') == (own_family == "IPv4") => {
                let path = path.child("clusterIPs").index(index);
                let detail = format!("{other_family} is not configured on this cluster");
                errors.invalid(&path, &spec["clusterIPs"], &detail);
            }
            _ => families.push(own_family.into()),
        }
    }
    if !errors.is_empty() {
        return;
    }
    if is_open {
        if families.is_empty() {
            families.push(own_family.into());
        }
        if families.len() < 2 && policy != "SingleStack" {
            let other = match text(&families[0]) {
                "IPv4" => "IPv6",
                _ => "IPv4",
            };
            families.push(other.into());
        }
        spec.insert("ipFamilies", families.into());
        return;
    }
    if policy == "RequireDualStack" {
        let detail = "this cluster is not configured for dual-stack services";
        errors.invalid(&of_policy, &policy, detail);
    }
    for (index, family) in families.iter().enumerate() {
        if family != own_family {
            let path = path.child("ipFamilies").index(index);
            errors.invalid(&path, family, "not configured on this cluster");
        }
    }
    if families.is_empty() {
        families.push(own_family.into());
    }
    spec.insert("ipFamilies", families.into());
}

fn allocate_address(
    service: &mut Value,
    old: Option<&Value>,
    context: Context<'_>,
    errors: &mut FieldErrors,
) {
    let held = old.map(|old| text(&old["spec"]["clusterIP"]).to_owned());
    let asked = text(&service["spec"]["clusterIP"]).to_owned();
    if asked == "None" || (held.as_ref() == Some(&asked) && !asked.is_empty()) {
        return;
    }
    if held.is_some_and(|held| !held.is_empty()) && !asked.is_empty() {
        // Another address than before is refused by validation.
        return;
    }
    let siblings = context.siblings.snapshot();
    let siblings = siblings.range(None, None);
    let used: BTreeSet<String> = siblings
        .map(|service| text(&service.value()["spec"]["clusterIP"]).to_owned())
        .collect();
    let ranges = context.service_ranges;
    let path = FieldPath::new("spec.clusterIPs");
    // The address is an object that names the service. A dry run makes none.
    let is_nameless = name(service).is_empty() && !context.dry_run;
    if asked.is_empty() {
        let mut addresses = ranges.addresses().map(|own| own.to_string());
        if let Some(free) = addresses.find(|own| !used.contains(own)) {
            if is_nameless {
                let detail = format!("failed to allocate IP: {}", without_parent(&free));
                return errors.invalid(&path, &json!([""]), &detail);
            }
            let spec = child_mut(service, "spec");
            spec.insert("clusterIPs", json!([free]));
            spec.insert("clusterIP", free.into());
        }
        return;
    }
    let why = match asked.parse::<IpAddr>() {
        Ok(own) if own.is_ipv4() == ranges.kubernetes().is_ipv4() => {
            match (ranges.has(own) || context.dry_run, ranges.gives(own)) {
                (false, _) => "the provided network does not match the current range".to_owned(),
                (true, false) => format!(
                    "the provided IP ({asked}) is not in the valid range. The range of valid IPs is {}",
                    ranges.cidr()
                ),
                // A dry run allocates nothing, so it does not check whether the address is in use.
                (true, true) if context.dry_run => return,
                (true, true) if used.contains(&asked) => {
                    "provided IP is already allocated".to_owned()
                }
                (true, true) if is_nameless => without_parent(&asked),
                (true, true) => return,
            }
        }
        _ => "the provided network does not match the current range".to_owned(),
    };
    let detail = format!("failed to allocate IP {asked}: {why}");
    errors.invalid(&path, &service["spec"]["clusterIPs"], &detail);
}

/// The fault of an IPAddress for a service without a name.
fn without_parent(address: &str) -> String {
    format!(
        "IPAddress.networking.k8s.io {} is invalid: spec.parentRef.name: Required value",
        quoted(address)
    )
}

/// Every port of a service's spec that is taken on the nodes.
fn ports_of(spec: &Value) -> impl Iterator<Item = i64> {
    let health = std::iter::once(&spec["healthCheckNodePort"]);
    let ports = items(&spec["ports"]).map(|port| &port["nodePort"]);
    ports
        .chain(health)
        .filter_map(Value::as_i64)
        .filter(|port| *port != 0)
}

fn allocate_ports(
    service: &mut Value,
    old: Option<&Value>,
    context: Context<'_>,
    errors: &mut FieldErrors,
) -> Result<(), ApiError> {
    let (gives, checks) = (
        has_node_ports(&service["spec"]),
        needs_health_check(&service["spec"]),
    );
    let takes = gives || service["spec"]["type"] == "LoadBalancer";
    let held: BTreeSet<i64> = old
        .map(|old| ports_of(&old["spec"]).collect())
        .unwrap_or_default();
    let siblings = context.siblings.snapshot();
    let siblings = siblings.range(None, None);
    let mut used: BTreeSet<i64> = siblings
        .flat_map(|own| ports_of(&own.value()["spec"]).collect::<Vec<_>>())
        .collect();
    used.retain(|port| !held.contains(port));
    let path = FieldPath::new("spec");
    // A dry run allocates nothing, so it does not check the range.
    let node_ports = context.service_ranges.node_ports();
    let known = |own: &i64| context.dry_run || node_ports.contains(own);
    let refusal = |own: i64, used: &BTreeSet<i64>| match known(&own) {
        false => Some(format!(
            "provided port is not in the valid range. The range of valid ports is {}-{}",
            node_ports.start(),
            node_ports.end()
        )),
        true => used
            .contains(&own)
            .then(|| "provided port is already allocated".to_owned()),
    };
    let spec = child_mut(service, "spec");
    let chosen = Value::Object(spec.clone());
    // One number serves several protocols of a port. The first unavailable number ends the search.
    let mut taken = used.clone();
    let mut served: Vec<(&Value, i64)> = Vec::new();
    let mut named: Vec<(&str, i64)> = Vec::new();
    for (index, port) in items(&chosen["ports"]).enumerate().filter(|_| takes) {
        let own = port["nodePort"].as_i64().unwrap_or(0);
        let number = &port["port"];
        if own == 0 || old.is_none() && served.contains(&(number, own)) {
            continue;
        }
        // An update may name a port that it has taken before, but not for the same protocol.
        let again = old.is_some() && served.iter().any(|(_, other)| *other == own);
        let wanted = (text(&port["protocol"]), own);
        if again && named.contains(&wanted) {
            let (protocol, own) = wanted;
            return Err(ApiError::Unknown(format!(
                "duplicate nodePort: {{{protocol} {own}}}"
            )));
        }
        named.push(wanted);
        if let Some(why) = refusal(own, &taken).filter(|_| !again) {
            let path = path.child("ports").index(index).child("nodePort");
            errors.invalid(&path, &port["nodePort"], &why);
            return Ok(());
        }
        taken.insert(own);
        served.push((number, own));
    }
    let health = chosen["healthCheckNodePort"].as_i64().unwrap_or(0);
    if checks
        && health != 0
        && let Some(why) = refusal(health, &taken)
    {
        return Err(ApiError::Internal(format!(
            "failed to allocate requested HealthCheck NodePort {health}: {why}"
        )));
    }
    used.extend(ports_of(&chosen));
    let mut free = || node_ports.clone().find(|port| used.insert(*port));
    let mut given: Vec<(Value, i64)> = Vec::new();
    for port in items_mut(spec, "ports").filter(|_| gives) {
        let number = port.get("port").cloned().unwrap_or_default();
        let own = port.get("nodePort").and_then(Value::as_i64).unwrap_or(0);
        // One number serves several protocols.
        let shared = given
            .iter()
            .find(|(other, _)| *other == number)
            .map(|(_, own)| *own);
        let own = if own == 0 {
            shared.or_else(&mut free)
        } else {
            Some(own)
        };
        if let Some(own) = own {
            port.insert("nodePort", own.into());
            given.push((number, own));
        }
    }
    let unset = spec
        .get("healthCheckNodePort")
        .and_then(Value::as_i64)
        .unwrap_or(0)
        == 0;
    if checks
        && unset
        && let Some(port) = free()
    {
        spec.insert("healthCheckNodePort", port.into());
    }
    Ok(())
}
