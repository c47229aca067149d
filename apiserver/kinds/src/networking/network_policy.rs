//! NetworkPolicies.

use crate::Strategy;
use crate::columns::{Printable, or_none};
use crate::json::{Value, json};
use crate::meta::object::{child_mut, default};
use crate::meta::validation::validate_label_selector;
use crate::net::{PORT_RANGE, is_subset, port_name_faults, validate_cidr, warn_of_cidr};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{is_empty, items, items_mut, text};
use crate::validation::one_of;

#[derive(Debug)]
pub(crate) struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    fn counts_generation(&self) -> bool {
        true
    }

    fn default(&self, policy: &mut Value) {
        let spec = child_mut(policy, "spec");
        for direction in ["ingress", "egress"] {
            for rule in items_mut(spec, direction) {
                for port in items_mut(rule, "ports") {
                    default(port, "protocol", "TCP");
                }
            }
        }
        if spec.get("policyTypes").is_none_or(is_empty) {
            let types = if spec.get("egress").is_none_or(is_empty) {
                json!(["Ingress"])
            } else {
                json!(["Ingress", "Egress"])
            };
            spec.insert("policyTypes", types);
        }
    }

    fn validate(&self, policy: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let spec = &policy["spec"];
        let path = FieldPath::new("spec");
        let selector = path.child("podSelector");
        validate_label_selector(&spec["podSelector"], false, &selector, &mut errors);
        for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
            for (index, rule) in items(&spec[direction]).enumerate() {
                let path = path.child(direction).index(index);
                for (index, port) in items(&rule["ports"]).enumerate() {
                    validate_port(port, &path.child("ports").index(index), &mut errors);
                }
                for (index, peer) in items(&rule[peers]).enumerate() {
                    validate_peer(peer, &path.child(peers).index(index), &mut errors);
                }
            }
        }
        let path = path.child("policyTypes");
        if items(&spec["policyTypes"]).count() > 2 {
            let detail = "may not specify more than two policyTypes";
            errors.invalid(&path, &spec["policyTypes"], detail);
            return errors;
        }
        for (index, own) in items(&spec["policyTypes"]).enumerate() {
            one_of(own, &path.index(index), &["Ingress", "Egress"], &mut errors);
        }
        errors
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
            for (index, rule) in items(&new["spec"][direction]).enumerate() {
                let path = FieldPath::new("spec").child(direction).index(index);
                for (index, peer) in items(&rule[peers]).enumerate() {
                    let path = path.child(peers).index(index).child("ipBlock");
                    let block = &peer["ipBlock"];
                    warn_of_cidr(&block["cidr"], &path.child("cidr"), &mut warnings);
                    for (index, except) in items(&block["except"]).enumerate() {
                        let path = path.child("except").index(index);
                        warn_of_cidr(except, &path, &mut warnings);
                    }
                }
            }
        }
        warnings
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        Some(vec![
            view.name(),
            json!(or_none(view.selector("/spec/podSelector"))),
            view.age(),
        ])
    }
}

fn validate_port(port: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let protocols = ["TCP", "UDP", "SCTP"];
    one_of(
        &port["protocol"],
        &path.child("protocol"),
        &protocols,
        errors,
    );
    let end = &port["endPort"];
    let end_path = path.child("endPort");
    let number = &port["port"];
    match number {
        Value::Null if !end.is_null() => {
            let detail = "may not be specified when `port` is not specified";
            errors.invalid(&end_path, end, detail);
        }
        Value::Number(own) => {
            let own = own.as_i64().unwrap_or(0);
            if !(1..=65535).contains(&own) {
                errors.invalid(&path.child("port"), number, PORT_RANGE);
            }
            if let Some(last) = end.as_i64() {
                if last < own {
                    let detail = "must be greater than or equal to `port`";
                    errors.invalid(&end_path, number, detail);
                }
                if !(1..=65535).contains(&last) {
                    errors.invalid(&end_path, end, PORT_RANGE);
                }
            }
        }
        Value::String(name) => {
            if !end.is_null() {
                let detail = "may not be specified when `port` is non-numeric";
                errors.invalid(&end_path, end, detail);
            }
            for fault in port_name_faults(name) {
                errors.invalid(&path.child("port"), number, fault);
            }
        }
        _ => {}
    }
}

fn validate_peer(peer: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let mut peers = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if !peer[field].is_null() {
            peers += 1;
            validate_label_selector(&peer[field], false, &path.child(field), errors);
        }
    }
    let block = &peer["ipBlock"];
    if !block.is_null() {
        peers += 1;
        validate_ip_block(block, &path.child("ipBlock"), errors);
    }
    if peers == 0 {
        errors.required(path, "must specify a peer");
    } else if peers > 1 && !block.is_null() {
        errors.forbidden(path, "may not specify both ipBlock and another peer");
    }
}

fn validate_ip_block(block: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let cidr = text(&block["cidr"]);
    if cidr.is_empty() {
        errors.required(&path.child("cidr"), "");
        return;
    }
    if !validate_cidr(&block["cidr"], &path.child("cidr"), errors) {
        return;
    }
    for (index, except) in items(&block["except"]).enumerate() {
        let path = path.child("except").index(index);
        if validate_cidr(except, &path, errors) && !is_subset(text(except), cidr) {
            errors.invalid(&path, except, "must be a strict subset of `cidr`");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_others_would_write_otherwise_are_warned_of() {
        let block = json!({"cidr": "FD00::/64", "except": ["fd00::/70", "fd00:0::/80"]});
        let policy = json!({"spec": {"egress": [{"to": [{"ipBlock": block}]}]}});
        let path = "spec.egress[0].to[0].ipBlock";
        let canonical = "should be in RFC 5952 canonical format";
        assert_eq!(
            NetworkPolicy.warnings(&policy, None),
            [
                format!("{path}.cidr: IPv6 CIDR value \"FD00::/64\" {canonical} (\"fd00::/64\")"),
                format!(
                    "{path}.except[1]: IPv6 CIDR value \"fd00:0::/80\" {canonical} (\"fd00::/80\")"
                ),
            ]
        );
    }
}
