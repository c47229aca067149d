//! Faults of the status of a pod.

mod claims;

use std::net::IpAddr;

use crate::json::Value;
use crate::meta::validation::{dns1123_subdomain, qualified_name, validate_immutable};
use crate::net::validate_ip;
use crate::status::{CauseReason, FieldErrors, FieldPath};
use crate::unstructured::{items, text};
use crate::validation::{invalid_as, invalid_each};

const LISTS: [&str; 3] = [
    "containerStatuses",
    "initContainerStatuses",
    "ephemeralContainerStatuses",
];
const ONE_OF_FAMILY: &str = "may specify no more than one IP for each IP family";

/// Faults of an update of a pod's status.
pub(crate) fn validate_pod_status(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("status");
    let (now, before) = (&new["status"], &old["status"]);
    // Upstream's path has the field's name in Go.
    for (index, condition) in items(&now["conditions"]).enumerate() {
        let path = || path.child("conditions").index(index);
        let generation = &condition["observedGeneration"];
        if !generation.is_null() {
            validate_generation(generation, &path(), &mut errors);
        }
        let kind = text(&condition["type"]);
        let system = ["PodScheduled", "Ready", "Initialized"].contains(&kind);
        let faults = if system {
            Vec::new()
        } else {
            qualified_name(kind)
        };
        if !faults.is_empty() {
            invalid_each(faults, &kind.into(), &path().child("Type"), &mut errors);
        }
    }
    let node = text(&now["nominatedNodeName"]);
    if !node.is_empty() && now["nominatedNodeName"] != before["nominatedNodeName"] {
        let path = path.child("nominatedNodeName");
        invalid_each(dns1123_subdomain(node), &node.into(), &path, &mut errors);
        if !text(&old["spec"]["nodeName"]).is_empty() {
            let detail = "may not be set on pods that are already bound to a node";
            errors.forbidden(&path, detail);
        }
    }
    validate_generation(&now["observedGeneration"], &path, &mut errors);
    let class = |status: &Value| Value::from(text(&status["qosClass"]));
    validate_immutable(
        &class(now),
        &class(before),
        &path.child("qosClass"),
        &mut errors,
    );
    for list in LISTS {
        validate_transitions(new, old, list, &path.child(list), &mut errors);
    }
    let spec = &new["spec"];
    claims::validate_statuses(now, spec, &path, &mut errors);
    validate_pod_ips(now, &path, &mut errors);
    validate_host_ips(now, &path, &mut errors);
    for list in LISTS {
        validate_users(&now[list], spec, &path.child(list), &mut errors);
    }
    for (list, containers) in LISTS.into_iter().zip(["containers", "initContainers", ""]) {
        let path = path.child(list);
        claims::validate_health(
            &now[list],
            &spec[containers],
            containers,
            &path,
            &mut errors,
        );
    }
    errors
}

fn validate_generation(generation: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if generation.as_i64().is_some_and(|own| own < 0) {
        let path = path.child("observedGeneration");
        errors.invalid(&path, generation, "must be a non-negative integer");
    }
}

/// Faults of the users that containers run as, as the kubelet reports them.
fn validate_users(statuses: &Value, spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let system = text(&spec["os"]["name"]);
    for (index, status) in items(statuses).enumerate() {
        let linux = &status["user"]["linux"];
        if linux.is_null() {
            continue;
        }
        let path = path.index(index).child("user").child("linux");
        match system {
            "windows" => errors.forbidden(&path, "cannot be set for a windows pod"),
            "" | "linux" => {
                for field in ["uid", "gid"] {
                    validate_id(&linux[field], &path.child(field), errors);
                }
                for (index, group) in items(&linux["supplementalGroups"]).enumerate() {
                    let path = path.child("supplementalGroups").index(index);
                    validate_id(group, &path, errors);
                }
            }
            _ => {}
        }
    }
}

fn validate_id(id: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const RANGE: std::ops::RangeInclusive<i64> = 0..=i32::MAX as i64;
    if id.as_i64().is_some_and(|id| !RANGE.contains(&id)) {
        errors.invalid(path, id, "must be between 0 and 2147483647, inclusive");
    }
}

/// A container that has ended for good does not come back.
fn validate_transitions(
    new: &Value,
    old: &Value,
    list: &str,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let spec = &old["spec"];
    let own = match list {
        "ephemeralContainerStatuses" => &Value::Null,
        "initContainerStatuses" => &spec["initContainers"],
        _ => &spec["containers"],
    };
    if !own.is_null() && restarts_together(spec) {
        return;
    }
    for (index, before) in items(&old["status"][list]).enumerate() {
        let ended = &before["state"]["terminated"];
        let same = |other: &&Value| other["name"] == before["name"];
        let code = ended["exitCode"].as_i64().unwrap_or(0);
        let comes_back = |container: &Value| should_restart(container, spec, code);
        if ended.is_null() || items(own).find(same).is_some_and(comes_back) {
            continue;
        }
        let running = |now: &Value| now["state"]["terminated"].is_null();
        if items(&new["status"][list]).find(same).is_some_and(running) {
            let path = path.index(index).child("state");
            errors.forbidden(&path, "may not be transitioned to non-terminated state");
        }
    }
}

/// Whether the end of one container may restart all containers.
fn restarts_together(spec: &Value) -> bool {
    ["initContainers", "containers"]
        .iter()
        .flat_map(|list| items(&spec[*list]))
        .flat_map(|container| items(&container["restartPolicyRules"]))
        .any(|rule| rule["action"] == "RestartAllContainers")
}

/// Whether a container that ended with `code` starts again: by its own rules and policy, if it has
/// any, or by the pod's.
fn should_restart(container: &Value, spec: &Value, code: i64) -> bool {
    let by_policy = |policy: &str| match policy {
        "OnFailure" => code != 0,
        policy => policy != "Never",
    };
    let Some(own) = container["restartPolicy"].as_str() else {
        return by_policy(text(&spec["restartPolicy"]));
    };
    let applies = |rule: &&Value| {
        let named = items(&rule["exitCodes"]["values"]).any(|own| own.as_i64() == Some(code));
        match text(&rule["exitCodes"]["operator"]) {
            "In" => named,
            "NotIn" => !named,
            _ => false,
        }
    };
    let rule = items(&container["restartPolicyRules"]).find(applies);
    rule.is_some_and(|rule| rule["action"] == "Restart") || by_policy(own)
}

fn addresses(list: &Value) -> Vec<Option<IpAddr>> {
    items(list)
        .map(|own| text(&own["ip"]).parse().ok())
        .collect()
}

fn shown(list: &Value) -> String {
    let one = |own: &Value| format!("{{\"IP\":{}}}", Value::from(text(&own["ip"])));
    let all: Vec<String> = items(list).map(one).collect();
    format!("[{}]", all.join(","))
}

fn is_dual(all: &[Option<IpAddr>]) -> bool {
    let some = |v6: bool| all.iter().flatten().any(|own| own.is_ipv6() == v6);
    some(true) && some(false)
}

fn validate_pod_ips(status: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let list = &status["podIPs"];
    let path = path.child("podIPs");
    for (index, own) in items(list).enumerate() {
        let ip = Value::from(text(&own["ip"]));
        validate_ip(&ip, &path.index(index), errors);
    }
    let all = addresses(list);
    if all.len() > 1 {
        if let Some(index) = all.iter().position(Option::is_none) {
            let bad = text(&list[index]["ip"]);
            let message = format!(
                "Internal error: failed to check for dual stack with error:invalid IP[{index}]: {bad}"
            );
            errors.push(CauseReason::Internal, &path, message);
        }
        if all.len() > 2 || (all.iter().all(Option::is_some) && !is_dual(&all)) {
            invalid_as(&path, &shown(list), ONE_OF_FAMILY, errors);
        }
    }
}

fn validate_host_ips(status: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let list = &status["hostIPs"];
    if items(list).next().is_none() {
        return;
    }
    let path = path.child("hostIPs");
    let first = &list[0]["ip"];
    if text(first) != text(&status["hostIP"]) {
        let path = path.index(0).child("ip");
        errors.invalid(&path, first, "must be equal to `hostIP`");
    }
    for (index, own) in items(list).enumerate() {
        let ip = Value::from(text(&own["ip"]));
        validate_ip(&ip, &path.index(index), errors);
    }
    let all = addresses(list);
    if all.len() > 1 && (all.len() > 2 || !is_dual(&all)) {
        invalid_as(&path, &shown(list), ONE_OF_FAMILY, errors);
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn each_fault_of_a_status_is_found() {
        let table = [
            (
                json!({"podIPs": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}]}),
                vec!["status.podIPs"],
            ),
            (
                json!({"hostIP": "1.1.1.1", "hostIPs": [{"ip": "1.1.1.1"}, {"ip": "::1"}]}),
                vec![],
            ),
            (json!({"qosClass": "Burstable"}), vec!["status.qosClass"]),
            (
                json!({"observedGeneration": -1}),
                vec!["status.observedGeneration"],
            ),
        ];
        for (status, want) in table {
            let errors = validate_pod_status(&json!({"status": status}), &json!({"status": {}}));
            let fields: Vec<&str> = errors.causes().iter().map(|own| &*own.field).collect();
            assert_eq!(fields, want, "{status}");
        }
    }
}
