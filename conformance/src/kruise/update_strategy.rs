//! Defaults and checks of what both kinds have in common: templates, update strategies.

use kubeproof_apiserver::embedded;
use kubeproof_apiserver::meta::selector::LabelSelector;
use kubeproof_apiserver::meta::validation::validate_label_selector;
use kubeproof_apiserver::status::{CauseReason, FieldErrors, FieldPath};
use kubeproof_controller::kruise::Gates;
use kubeproof_machinery::json::{Value, json};
use kubeproof_runtime::json_diff::{Verb, diff};

use super::Refusal;

/// Puts `value` where nothing is.
pub(super) fn fill(object: &mut Value, field: &str, value: impl Into<Value>) {
    let is_missing = object[field].is_null() || object[field] == "";
    if is_missing {
        object[field] = value.into();
    }
}

/// Defaults of the pod template and the claim templates in `spec`; with the gate `TemplateNoDefaults`
/// only their form is that in which Go writes them.
pub(super) fn default_templates(spec: &mut Value, gates: Gates) -> Result<(), Refusal> {
    let (mut template, has_defaults) = (spec["template"].take(), !gates.template_no_defaults);
    if template.is_null() {
        template = json!({});
    }
    if has_defaults {
        default_pull_policies(&mut template);
        embedded::default_pod_template(&mut template).map_err(Refusal::bad_request)?;
    } else {
        embedded::normalize_pod_template(&mut template).map_err(Refusal::bad_request)?;
    }
    if has_defaults && gates.default_host_ports {
        default_host_ports(&mut template);
    }
    spec["template"] = template;
    let claims = spec
        .get_mut("volumeClaimTemplates")
        .and_then(Value::as_array_mut);
    for claim in claims.into_iter().flatten() {
        let defaulted = match has_defaults {
            true => embedded::default_claim_template(claim),
            false => embedded::normalize_claim_template(claim),
        };
        defaulted.map_err(Refusal::bad_request)?;
    }
    Ok(())
}

/// The template as it is checked, which has its defaults, whatever the gates. One that can't be read is
/// checked as it is.
pub(super) fn defaulted(template: &Value) -> Value {
    let mut defaulted = template.clone();
    default_pull_policies(&mut defaulted);
    match embedded::default_pod_template(&mut defaulted) {
        Ok(()) => defaulted,
        Err(_) => template.clone(),
    }
}

/// Containers pull their images always, as updates in place may bring back a tag that has moved on;
/// init containers as Kubernetes has them.
fn default_pull_policies(template: &mut Value) {
    let containers = template
        .pointer_mut("/spec/containers")
        .and_then(Value::as_array_mut);
    let containers = containers.into_iter().flatten();
    for container in containers.filter(|container| container.is_object()) {
        fill(container, "imagePullPolicy", "Always");
    }
}

/// Fills in the defaults of an update in place, in both kinds that name its policy.
pub(super) fn default_in_place(strategy: &mut Value, policy: &str) {
    if strategy[policy] == "InPlaceIfPossible" || strategy[policy] == "InPlaceOnly" {
        fill(strategy, "inPlaceUpdateStrategy", json!({}));
    }
}

/// Pods on the network of their host listen there where they listen.
fn default_host_ports(template: &mut Value) {
    if template["spec"]["hostNetwork"] != true {
        return;
    }
    for list in ["containers", "initContainers"] {
        let containers = template["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let ports = container.get_mut("ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten() {
                let own = port["containerPort"].clone();
                fill(port, "hostPort", own);
            }
        }
    }
}

/// Fields of a spec that may change, as its kind names them.
pub(super) fn changes_others(new: &Value, old: &Value, mutable: &[&str]) -> bool {
    let others = |object: &Value| {
        let mut spec = object["spec"].as_object().cloned().unwrap_or_default();
        spec.retain(|field, value| {
            let is_empty = value.is_null()
                || value
                    .as_object()
                    .is_some_and(kubeproof_machinery::json::Map::is_empty);
            !mutable.contains(&field.as_str()) && !is_empty
        });
        spec
    };
    others(new) != others(old)
}

/// The selector and the template that it must match, whose own faults `check` finds.
pub(super) fn validate_template(
    spec: &Value,
    kind: &str,
    path: &FieldPath,
    check: impl Fn(&Value, &FieldPath) -> FieldErrors,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (selector, at) = (&spec["selector"], path.child("selector"));
    validate_label_selector(selector, false, &at, &mut errors);
    let is_empty = |field: &str| match &selector[field] {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        other => other.is_null(),
    };
    if is_empty("matchLabels") && is_empty("matchExpressions") {
        let detail = format!("empty selector is invalid for {kind}");
        errors.invalid(&at, selector, &detail);
    }
    let template = &spec["template"];
    let parsed = LabelSelector::from_object(selector);
    if parsed.is_err() {
        errors.invalid(&at, selector, "");
    }
    if let Ok(selector) = parsed {
        let labels = &template["metadata"]["labels"];
        if !selector.is_everything() && !selector.matches(labels) {
            let at = path.child("template").child("metadata").child("labels");
            errors.invalid(&at, labels, "`selector` does not match template `labels`");
        }
        errors.extend(check(template, &path.child("template")));
    }
    let at = path.child("template").child("spec");
    let policy = &template["spec"]["restartPolicy"];
    if !policy.is_null() && policy != "Always" {
        errors.not_supported(&at.child("restartPolicy"), policy, &["Always"]);
    }
    if !template["spec"]["activeDeadlineSeconds"].is_null() {
        let kind = if kind == "statefulset" {
            "StatefulSet"
        } else {
            kind
        };
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden(&at.child("activeDeadlineSeconds"), &detail);
    }
    errors
}

/// A number that must not be negative.
pub(super) fn not_negative(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if value.as_i64().is_some_and(|number| number < 0) {
        errors.invalid(path, value, "must be greater than or equal to 0");
    }
}

/// A fault whose value is printed by Go.
pub(super) fn invalid_go(value: &str, path: &FieldPath, detail: &str, errors: &mut FieldErrors) {
    let message = format!("Invalid value: {value}: {detail}");
    errors.push(CauseReason::Invalid, path, message);
}

/// Returns the error in the priorities of an update strategy.
pub(super) fn priority_fault(strategy: &Value) -> Option<String> {
    let items = |field: &str| strategy[field].as_array().cloned().unwrap_or_default();
    let (weights, orders) = (items("weightPriority"), items("orderPriority"));
    if !weights.is_empty() && !orders.is_empty() {
        return Some("only one of weightPriority and orderPriority can be used".to_owned());
    }
    for term in &weights {
        if !(0..=100).contains(&term["weight"].as_i64().unwrap_or(0)) {
            return Some("weight must be valid number in the range 1-100".to_owned());
        }
        let selector = &term["matchSelector"];
        if selector
            .as_object()
            .is_none_or(kubeproof_machinery::json::Map::is_empty)
        {
            return Some("selector can not be empty".to_owned());
        }
        if let Err(error) = LabelSelector::from_object(selector) {
            return Some(format!("invalid selector {error}"));
        }
    }
    let is_empty = |term: &Value| term["orderedKey"].as_str().unwrap_or_default().is_empty();
    let has_empty = orders.iter().any(is_empty);
    has_empty.then(|| "order key can not be empty".to_owned())
}

/// Returns the error in the terms of a scatter strategy.
pub(super) fn scatter_fault(terms: &Value) -> Option<String> {
    let terms = terms.as_array().into_iter().flatten();
    let mut known = Vec::new();
    for term in terms {
        let text = |field: &str| term[field].as_str().unwrap_or_default();
        let term = (text("key"), text("value"));
        if term.0.is_empty() {
            return Some("key should not be empty".to_owned());
        }
        if known.contains(&term) {
            return Some(format!("duplicated key={} value={}", term.0, term.1));
        }
        known.push(term);
    }
    None
}

/// The first change of a template's spec other than of an image: what is done, and where.
pub(super) fn change_beside_images(old: &Value, new: &Value) -> Option<String> {
    let is_image = |path: &str| {
        let index = path.strip_prefix("/containers/");
        let index = index.and_then(|rest| rest.strip_suffix("/image"));
        index.is_some_and(|index| index.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let (old, new) = (
        &old["spec"]["template"]["spec"],
        &new["spec"]["template"]["spec"],
    );
    let [old, new] = [old, new].map(|spec| spec.clone().into());
    let operations = diff(&old, &new);
    let mut others = operations
        .iter()
        .filter(|one| one.verb != Verb::Replace || !is_image(&one.path));
    others
        .next()
        .map(|one| format!("{} {}", one.verb.as_str(), one.path))
}
