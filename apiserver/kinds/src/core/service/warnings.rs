//! Warnings about valid services.

use crate::json::Value;
use crate::net::{warn_of_cidr, warn_of_ip};
use crate::status::FieldPath;
use crate::unstructured::{is_empty, items, text};

pub(super) fn of_service(service: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let (spec, path) = (&service["spec"], FieldPath::new("spec"));
    let hints = "service.kubernetes.io/topology-aware-hints";
    if !service["metadata"]["annotations"][hints].is_null() {
        warnings.push(format!(
            "annotation {hints} is deprecated, please use service.kubernetes.io/topology-mode instead"
        ));
    }
    let of_list = |list: &str, warnings: &mut Vec<String>| {
        for (index, own) in items(&spec[list]).enumerate() {
            warn_of_ip(own, &path.child(list).index(index), warnings);
        }
    };
    if !matches!(text(&spec["clusterIP"]), "" | "None") {
        of_list("clusterIPs", &mut warnings);
    }
    let kind = text(&spec["type"]);
    if kind == "ClusterIP" && spec["clusterIP"] == "None" {
        for (is_set, field) in [
            (!text(&spec["loadBalancerIP"]).is_empty(), "loadBalancerIP"),
            (!is_empty(&spec["externalIPs"]), "externalIPs"),
            (spec["sessionAffinity"] != "None", "SessionAffinity"),
        ] {
            if is_set {
                warnings.push(format!("spec.{field} is ignored for headless services"));
            }
        }
    }
    of_list("externalIPs", &mut warnings);
    let is_headless = kind == "ClusterIP" && spec["clusterIP"] == "None";
    if !is_empty(&spec["externalIPs"]) && !is_headless && kind != "ExternalName" {
        let warning =
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        warnings.push(warning.to_owned());
    }
    let balancer = &spec["loadBalancerIP"];
    if !text(balancer).is_empty() {
        warn_of_ip(balancer, &path.child("loadBalancerIP"), &mut warnings);
    }
    let ranges = path.child("loadBalancerSourceRanges");
    for (index, range) in items(&spec["loadBalancerSourceRanges"]).enumerate() {
        warn_of_cidr(range, &ranges.index(index), &mut warnings);
    }
    if kind == "ExternalName" && !is_empty(&spec["externalIPs"]) {
        let warning = "spec.externalIPs is ignored when spec.type is \"ExternalName\"";
        warnings.push(warning.to_owned());
    }
    if kind != "ExternalName" && !text(&spec["externalName"]).is_empty() {
        let warning = "spec.externalName is ignored when spec.type is not \"ExternalName\"";
        warnings.push(warning.to_owned());
    }
    if spec["trafficDistribution"] == "PreferClose" {
        let warning =
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(warning.to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn what_is_ignored_or_deprecated_is_warned_of() {
        let table = [
            (
                json!({"type": "ClusterIP", "sessionAffinity": "None", "clusterIP": "None"}),
                vec![],
            ),
            (
                json!({"type": "ClusterIP", "sessionAffinity": "ClientIP", "clusterIP": "None", "loadBalancerIP": "1.2.3.4"}),
                vec![
                    "spec.loadBalancerIP is ignored for headless services",
                    "spec.SessionAffinity is ignored for headless services",
                ],
            ),
            (
                json!({"type": "ExternalName", "externalIPs": ["1.2.3.4"], "externalName": "a"}),
                vec!["spec.externalIPs is ignored when spec.type is \"ExternalName\""],
            ),
            (
                json!({"type": "ClusterIP", "externalIPs": ["1.2.3.4"], "trafficDistribution": "PreferClose"}),
                vec![
                    "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
                    "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
                ],
            ),
            (
                json!({"type": "LoadBalancer", "externalName": "a", "loadBalancerSourceRanges": ["FD00::/64"]}),
                vec![
                    "spec.loadBalancerSourceRanges[0]: IPv6 CIDR value \"FD00::/64\" should be in RFC 5952 canonical format (\"fd00::/64\")",
                    "spec.externalName is ignored when spec.type is not \"ExternalName\"",
                ],
            ),
        ];
        for (spec, want) in table {
            assert_eq!(of_service(&json!({ "spec": spec })), want, "{spec}");
        }
    }
}
