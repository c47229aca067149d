//! Faults of a container's restart policies, resize policies and claimed resources.

use std::collections::BTreeSet;

use super::{Surroundings, invalid_each, is_empty, items, text};
use crate::json::Value;
use crate::meta::validation::dns1123_label;
use crate::status::{CauseReason, FieldErrors, FieldPath, quoted};
use crate::validation::required_one_of;

pub(super) fn validate_resize_policies(
    container: &Value,
    pod: &Surroundings<'_>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let mut seen = BTreeSet::new();
    for (index, own) in items(&container["resizePolicy"]).enumerate() {
        let resource = &own["resourceName"];
        if !seen.insert(text(resource)) {
            errors.duplicate(&path.index(index), resource);
        }
        required_one_of(resource, path, &["cpu", "memory"], errors);
        let policy = &own["restartPolicy"];
        required_one_of(policy, path, &["NotRequired", "RestartContainer"], errors);
        if pod.never_restarts && policy != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.invalid(path, policy, detail);
        }
    }
}

/// Claims that a container uses must be the pod's.
pub(super) fn validate_resource_claims(
    container: &Value,
    pod: &Surroundings<'_>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for (index, claim) in items(&container["resources"]["claims"]).enumerate() {
        let path = path.index(index);
        let (name, request) = (text(&claim["name"]), text(&claim["request"]));
        if name.is_empty() {
            errors.required(&path, "");
            continue;
        }
        // A claim as a whole is every request of it.
        let key = |request: &str| match request {
            "" => name.to_owned(),
            request => format!("{name}/{request}"),
        };
        if seen.contains(name) {
            errors.duplicate(&path, &name.into());
        } else {
            if !request.is_empty() {
                let path = path.child("request");
                invalid_each(dns1123_label(request), &request.into(), &path, errors);
            }
            let part = format!("{name}/");
            let parts = seen.iter().filter(|own| own.starts_with(&part)).count();
            if seen.contains(&key(request)) {
                errors.duplicate(&path, &key(request).into());
            } else if request.is_empty() {
                (0..parts).for_each(|_| errors.duplicate(&path, &name.into()));
            }
            seen.insert(key(request));
        }
        if !pod.claims.contains(name) {
            let known: Vec<&str> = pod.claims.iter().copied().collect();
            let known = match known.is_empty() {
                true => " which is empty".to_owned(),
                false => format!(": {}", known.join(", ")),
            };
            let detail = "must be one of the names in pod.spec.resourceClaims";
            let text = format!("Not found: {}: {detail}{known}", quoted(name));
            errors.push(CauseReason::NotFound, &path, text);
        }
    }
}

/// When a container that ended is started again, whatever its pod says.
pub(super) fn validate_restart_policy(
    container: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let policy = &container["restartPolicy"];
    if !policy.is_null() && !["Always", "Never", "OnFailure"].contains(&text(policy)) {
        let known = ["Always", "Never", "OnFailure"];
        errors.not_supported(&path.child("restartPolicy"), policy, &known);
    }
    if policy.is_null() && !is_empty(&container["restartPolicyRules"]) {
        let detail = "must specify restartPolicy when restart rules are used";
        errors.required(&path.child("restartPolicy"), detail);
    }
    let rules = &container["restartPolicyRules"];
    let path = path.child("restartPolicyRules");
    let count = items(rules).count();
    if count > 20 {
        errors.too_many(&path, count, 20);
    }
    for (index, rule) in items(rules).enumerate() {
        validate_restart_rule(rule, &path.index(index), errors);
    }
}

fn validate_restart_rule(rule: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let actions = ["Restart", "RestartAllContainers"];
    if !actions.contains(&text(&rule["action"])) {
        errors.not_supported(
            &path.child("action"),
            &text(&rule["action"]).into(),
            &actions,
        );
    }
    let (codes, path) = (&rule["exitCodes"], path.child("exitCodes"));
    if codes.is_null() {
        errors.required(&path, "must be specified");
        return;
    }
    let operators = ["In", "NotIn"];
    if !operators.contains(&text(&codes["operator"])) {
        let operator = text(&codes["operator"]).into();
        errors.not_supported(&path.child("operator"), &operator, &operators);
    }
    let count = items(&codes["values"]).count();
    if count > 255 {
        errors.too_many(&path.child("values"), count, 255);
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn restart_rules_act_on_some_exit_codes() {
        let codes = json!({"operator": "In", "values": [1]});
        let valid = json!({"action": "RestartAllContainers", "exitCodes": codes});
        let table = [
            (json!([valid]), vec![]),
            (
                json!([valid, {"action": "Stop"}]),
                vec![
                    "restartPolicyRules[1].action: Unsupported value: \"Stop\": supported values: \"Restart\", \"RestartAllContainers\"",
                    "restartPolicyRules[1].exitCodes: Required value: must be specified",
                ],
            ),
            (
                json!([{"action": "Restart", "exitCodes": {"values": vec![1; 256]}}]),
                vec![
                    "restartPolicyRules[0].exitCodes.operator: Unsupported value: \"\": supported values: \"In\", \"NotIn\"",
                    "restartPolicyRules[0].exitCodes.values: Too many: 256: must have at most 255 items",
                ],
            ),
            (
                json!(vec![valid.clone(); 21]),
                vec!["restartPolicyRules: Too many: 21: must have at most 20 items"],
            ),
        ];
        for (rules, faults) in table {
            let container = json!({"restartPolicy": "Never", "restartPolicyRules": rules});
            let mut errors = FieldErrors::new();
            validate_restart_policy(&container, &FieldPath::default(), &mut errors);
            let found: Vec<_> = errors
                .causes()
                .iter()
                .map(|cause| format!("{}: {}", cause.field, cause.message))
                .collect();
            assert_eq!(found, faults, "{container}");
        }
    }
}
