//! Ports of containers that get in each other's way.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::checks::{items, text};
use super::containers;
use crate::cancellation;
use crate::status::FieldPath;

pub(super) fn warn_of_ports(spec: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    let mut ports: BTreeMap<(i64, &str), Vec<(&Value, FieldPath)>> = BTreeMap::new();
    for (port, path) in all_ports(spec, path) {
        let (host, ip) = (number(port, "hostPort"), text(&port["hostIP"]));
        if !ip.is_empty() && host == 0 {
            // Upstream prints its internal type here.
            warnings.push(format!(
                "{path}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{ip}}}",
                text(&port["name"]),
                number(port, "containerPort"),
                text(&port["protocol"]),
            ));
        }
        let key = (number(port, "containerPort"), text(&port["protocol"]));
        let others = ports.entry(key).or_default();
        if cancellation::is_requested() {
            return;
        }
        for (other, of_other) in &*others {
            if let Some(how) = conflict(port, other) {
                warnings.push(format!("{path}: {how} port definition with {of_other}"));
            }
        }
        others.push((port, path));
    }
    let mut names: BTreeMap<&str, FieldPath> = BTreeMap::new();
    for (port, path) in all_ports(spec, path) {
        let name = text(&port["name"]);
        if name.is_empty() {
            continue;
        }
        if let Some(first) = names.get(name) {
            warnings.push(format!("{path}: duplicate port name {name:?} with {first}, services and probes that select ports by name will use {first}"));
        } else {
            names.insert(name, path);
        }
    }
}

fn all_ports<'s>(spec: &'s Value, path: &FieldPath) -> Vec<(&'s Value, FieldPath)> {
    let of_container = |(container, path): (&'s Value, FieldPath)| {
        let ports = items(&container["ports"]).enumerate();
        let path = path.child("ports");
        ports.map(move |(index, port)| (port, path.index(index)))
    };
    containers(spec, path).flat_map(of_container).collect()
}

fn number(port: &Value, field: &str) -> i64 {
    port[field].as_i64().unwrap_or(0)
}

/// How two definitions of one port of a pod get in each other's way.
fn conflict(port: &Value, other: &Value) -> Option<&'static str> {
    let [own, theirs] = [port, other].map(|port| number(port, "hostPort"));
    let [ip, of_other] = [port, other].map(|port| text(&port["hostIP"]));
    if ip == of_other && own == theirs {
        Some("duplicate")
    } else if own == 0 || theirs == 0 {
        Some("overlapping")
    } else if own == theirs && ip.is_empty() != of_other.is_empty() {
        Some("dangerously ambiguous")
    } else {
        None
    }
}
