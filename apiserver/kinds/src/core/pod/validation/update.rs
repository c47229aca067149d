//! Faults of an update of a pod: only images, deadlines, added tolerations and lifted gates may change.

use std::collections::BTreeSet;

use super::{
    annotations, entries, invalid_as, is_empty, items, text, validate_image_space, validate_pod,
};
use crate::core::pod::placement::validate_tolerations;
use crate::go_struct;
use crate::json::{Map, SmolStr, Value};
use crate::meta::object::child_mut;
use crate::meta::order::Ordered;
use crate::status::{FieldErrors, FieldPath};

const IMMUTABLE_SPEC: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Faults of `new`, which is to replace `old`.
pub fn validate_pod_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = validate_pod(new);
    annotations::validate_change(new, old, &mut errors);
    let path = FieldPath::new("spec");
    let lists = ["containers", "initContainers"];
    for list in lists {
        let count = |pod: &Value| items(&pod["spec"][list]).count();
        if count(new) != count(old) {
            let detail = "pod updates may not add or remove containers";
            errors.forbidden(&path.child(list), detail);
            return errors;
        }
        // Upstream validates the images of an update a second time.
        for (index, container) in items(&new["spec"][list]).enumerate() {
            let path = path.child(list).index(index);
            if text(&container["image"]).is_empty() {
                errors.required(&path.child("image"), "");
            }
            validate_image_space(container, &path, &mut errors);
        }
    }
    if !validate_deadline(new, old, &path, &mut errors) {
        return errors;
    }
    let at = path.child("tolerations");
    match keeps_tolerations(new, old) {
        true => validate_tolerations(&new["spec"]["tolerations"], &at, &mut errors),
        false => {
            let detail = "existing toleration can not be modified except its tolerationSeconds";
            errors.forbidden(&at, detail);
        }
    }
    let (now, before) = (&new["spec"], &old["spec"]);
    let gates: BTreeSet<_> = items(&before["schedulingGates"]).map(Ordered).collect();
    for (index, gate) in items(&now["schedulingGates"]).enumerate() {
        if !gates.contains(&Ordered(gate)) {
            let detail = "only deletion is allowed, but found new scheduling gate";
            let path = path.child("schedulingGates").index(index).child("name");
            errors.forbidden(&path, &format!("{detail} '{}'", text(&gate["name"])));
        }
    }
    if now == before {
        return errors;
    }
    let mut comparable = now.clone();
    keep_changeable(&mut comparable, before);
    if !is_empty(&before["schedulingGates"]) {
        validate_gated(&mut comparable, before, &path, &mut errors);
    }
    let same = |spec: &Value| spec.as_object().map(without_empty).unwrap_or_default();
    if same(&comparable) != same(before) {
        let diff = go_struct::diff("PodSpec", before, &comparable);
        errors.forbidden(&path, &format!("{IMMUTABLE_SPEC}\n{diff}"));
    }
    errors
}

/// Returns fields without nulls and empty lists and maps, which are equivalent to absent fields.
fn without_empty(fields: &Map) -> Map {
    let kept = fields.iter().filter(|(_, value)| {
        let collection = value.is_array() || value.is_object();
        !(value.is_null() || (collection && is_empty(value)))
    });
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn restore(spec: &mut Value, before: &Value, field: &str) {
    if let Some(fields) = spec.as_object_mut() {
        match before.get(field) {
            Some(value) => fields.insert(field.to_owned(), value.clone()),
            None => fields.remove(field),
        };
    }
}

/// Gives the mutable fields of `spec` their old values.
fn keep_changeable(spec: &mut Value, before: &Value) {
    for list in ["containers", "initContainers"] {
        if let Some(containers) = spec.get_mut(list).and_then(Value::as_array_mut) {
            for (container, own) in containers.iter_mut().zip(items(&before[list])) {
                container["image"] = own["image"].clone();
            }
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        restore(spec, before, field);
    }
    let grace = "terminationGracePeriodSeconds";
    if before[grace].as_i64().is_some_and(|own| own < 0) && spec[grace] == 1 {
        restore(spec, before, grace);
    }
}

/// A pod that waits at a gate may narrow down the nodes it can go to.
fn validate_gated(spec: &mut Value, before: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let kept = |(key, value): (&SmolStr, &Value)| spec["nodeSelector"].get(key) == Some(value);
    if !entries(&before["nodeSelector"]).all(kept) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(&path.child("nodeSelector"), &spec["nodeSelector"], detail);
    }
    restore(spec, before, "nodeSelector");
    let (now, had) = (
        &spec["affinity"]["nodeAffinity"],
        &before["affinity"]["nodeAffinity"],
    );
    if now == had {
        return;
    }
    let path = path.child("affinity").child("nodeAffinity");
    validate_affinity_change(
        &now[REQUIRED],
        &had[REQUIRED],
        &path.child(REQUIRED),
        errors,
    );
    let had = had.clone();
    let affinity = child_mut(spec, "affinity");
    match had.is_null() {
        true => affinity.remove("nodeAffinity"),
        false => affinity.insert("nodeAffinity", had),
    };
    if before["affinity"].is_null() && affinity.is_empty() {
        restore(spec, before, "affinity");
    }
}

/// The number of terms must stay, and each term may only gain requirements.
fn validate_affinity_change(now: &Value, had: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (now, had) = (&now["nodeSelectorTerms"], &had["nodeSelectorTerms"]);
    let path = path.child("nodeSelectorTerms");
    let count = items(had).count();
    if count == 0 {
        return;
    }
    let shown = |term: &Value| go_struct::shown("NodeSelectorTerm", term);
    if items(now).count() != count {
        let all: Vec<String> = items(now).map(shown).collect();
        let all = match all.is_empty() {
            true => "null".to_owned(),
            false => format!("[{}]", all.join(",")),
        };
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return invalid_as(&path, &all, detail, errors);
    }
    for (index, (now, had)) in items(now).zip(items(had)).enumerate() {
        if !asks_for_more(now, had) {
            let detail = "only additions are allowed (no mutations or deletions)";
            invalid_as(&path.index(index), &shown(now), detail, errors);
        }
    }
}

fn asks_for_more(now: &Value, had: &Value) -> bool {
    const LISTS: [&str; 2] = ["matchExpressions", "matchFields"];
    let is_blank = |term: &Value| LISTS.iter().all(|list| is_empty(&term[*list]));
    if is_blank(had) {
        return is_blank(now);
    }
    LISTS.iter().all(|list| {
        let (now, had): (Vec<_>, Vec<_>) =
            (items(&now[*list]).collect(), items(&had[*list]).collect());
        now.starts_with(&had)
    })
}

/// A deadline may come and shrink, but neither grow nor go; whether to look further.
fn validate_deadline(new: &Value, old: &Value, path: &FieldPath, errors: &mut FieldErrors) -> bool {
    let path = path.child("activeDeadlineSeconds");
    let deadline = &new["spec"]["activeDeadlineSeconds"];
    let before = old["spec"]["activeDeadlineSeconds"].as_i64();
    match (deadline.as_i64(), before) {
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errors.invalid(&path, deadline, detail);
        }
        (Some(now), _) if !(0..=i64::from(i32::MAX)).contains(&now) => {
            let detail = "must be between 0 and 2147483647, inclusive";
            errors.invalid(&path, deadline, detail);
            return false;
        }
        (Some(now), Some(before)) if now > before => {
            let detail = "must be less than or equal to previous value";
            errors.invalid(&path, deadline, detail);
            return false;
        }
        _ => {}
    }
    true
}

/// Whether each toleration is still there, for however long.
fn keeps_tolerations(new: &Value, old: &Value) -> bool {
    fn matched(own: &Value) -> [&str; 4] {
        ["key", "operator", "value", "effect"].map(|field| text(&own[field]))
    }
    let now: BTreeSet<_> = items(&new["spec"]["tolerations"]).map(matched).collect();
    items(&old["spec"]["tolerations"]).all(|kept| now.contains(&matched(kept)))
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn a_change_is_refused_with_the_difference() {
        let pod = |class: &str| {
            json!({"spec": {"restartPolicy": class, "dnsPolicy": "Default", "securityContext": {},
                "containers": [{"name": "c", "image": "i", "imagePullPolicy": "Always",
                    "terminationMessagePolicy": "File"}]}})
        };
        let errors = validate_pod_update(&pod("Never"), &pod("Always"));
        let [cause] = errors.causes() else {
            panic!("{errors:?}")
        };
        assert!(
            cause
                .message
                .contains("\n- \"RestartPolicy\": \"Always\",\n+ \"RestartPolicy\": \"Never\",\n")
        );
        let empty = json!({"spec": {"restartPolicy": "Always", "dnsPolicy": "Default", "volumes": [],
            "securityContext": {}, "containers": pod("Always")["spec"]["containers"]}});
        assert!(validate_pod_update(&empty, &pod("Always")).is_empty());
    }
}
