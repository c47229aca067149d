//! Ports of containers that get in each other's way.

use std::collections::BTreeMap;

use super::containers;
use crate::json::Value;
use crate::status::FieldPath;
use crate::unstructured::{items, text};

pub(super) fn warn_of_ports(spec: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    let first = warnings.len();
    let mut ports: BTreeMap<(i64, &str), Definitions<'_>> = BTreeMap::new();
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
        if warnings.len() - first > CONFLICTS_MAX {
            return;
        }
        for index in others.rivals(port) {
            let (other, of_other) = &others.all[index];
            if let Some(how) = conflict(port, other) {
                warnings.push(format!("{path}: {how} port definition with {of_other}"));
            }
        }
        others.push(port, path);
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

/// How many conflicts are looked for. No answer has room for as many warnings.
const CONFLICTS_MAX: usize = 1_000;

/// The definitions of one port of a pod, and where to find those that another gets in the way of.
#[derive(Default)]
struct Definitions<'s> {
    all: Vec<(&'s Value, FieldPath)>,
    by_host: BTreeMap<i64, Vec<usize>>,
    by_address: BTreeMap<(i64, &'s str), Vec<usize>>,
}

impl<'s> Definitions<'s> {
    fn push(&mut self, port: &'s Value, path: FieldPath) {
        let (host, index) = (number(port, "hostPort"), self.all.len());
        let address = (host, text(&port["hostIP"]));
        self.by_host.entry(host).or_default().push(index);
        self.by_address.entry(address).or_default().push(index);
        self.all.push((port, path));
    }

    /// The definitions that may be in the way of `port`, in their order; nearly all of them are.
    fn rivals(&self, port: &'s Value) -> Vec<usize> {
        let (host, ip) = (number(port, "hostPort"), text(&port["hostIP"]));
        if host == 0 {
            return (0..self.all.len()).collect();
        }
        let at_host = |host: i64| self.by_host.get(&host);
        let at = |ip: &'s str| self.by_address.get(&(host, ip));
        let own = match ip.is_empty() {
            true => [at_host(host), None],
            false => [at(ip), at("")],
        };
        let found = own.into_iter().chain([at_host(0)]).flatten().flatten();
        let mut found: Vec<usize> = found.copied().collect();
        found.sort_unstable();
        found
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
