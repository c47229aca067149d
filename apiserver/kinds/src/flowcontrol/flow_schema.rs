//! FlowSchemas of API priority and fairness.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::columns::Printable;
use crate::go_struct::shown_field;
use crate::json::{Value, json};
use crate::meta::GroupResource;
use crate::meta::object::{child_mut, name};
use crate::meta::validation::{dns1123_label, dns1123_subdomain};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{is_empty, items, text};
use crate::validation::{invalid_as, invalid_each, not_supported_as};
use crate::{MetadataCheck, ResetFields, Strategy, bootstrap};

/// The API group of flow control.
pub const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const PRECEDENCE_MAX: i64 = 10_000;
const VERBS: [&str; 9] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];
/// The kinds of subjects and the fields that hold them.
const SUBJECTS: [(&str, &str); 3] = [
    ("ServiceAccount", "serviceAccount"),
    ("User", "user"),
    ("Group", "group"),
];

/// The strategy of FlowSchemas.
#[derive(Debug)]
pub struct FlowSchema;

impl Strategy for FlowSchema {
    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta]
    }

    fn status_metadata_checks(&self) -> &'static [MetadataCheck] {
        &[]
    }

    fn status_update_keeps(&self, field: &str) -> bool {
        field != "managedFields"
    }

    fn reset_fields(&self, subresource: &str) -> ResetFields {
        match subresource {
            "status" => &[&["spec"], &["metadata"]],
            _ => &[&["status"]],
        }
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn default(&self, schema: &mut Value) {
        let spec = child_mut(schema, "spec");
        if spec.get("matchingPrecedence").is_none_or(|own| own == 0) {
            spec.insert("matchingPrecedence", 1000.into());
        }
    }

    fn validate(&self, schema: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (spec, path) = (&schema["spec"], FieldPath::new("spec"));
        validate_precedence(spec, name(schema), &path, &mut errors);
        let method = &spec["distinguisherMethod"];
        if method.is_object() && !matches!(text(&method["type"]), "ByNamespace" | "ByUser") {
            let path = path.child("distinguisherMethod").child("type");
            let shown = format!("{{\"Type\":{}}}", method["type"]);
            not_supported_as(&path, &shown, &["ByNamespace", "ByUser"], &mut errors);
        }
        let level = &spec["priorityLevelConfiguration"]["name"];
        let at = path.child("priorityLevelConfiguration").child("name");
        match text(level) {
            "" => errors.required(&at, "must reference a priority level"),
            own => invalid_each(dns1123_subdomain(own), level, &at, &mut errors),
        }
        for (index, rule) in items(&spec["rules"]).enumerate() {
            validate_rule(rule, &path.child("rules").index(index), &mut errors);
        }
        validate_mandatory(schema, "flowschemas", &path, &mut errors);
        validate_conditions(schema, &mut errors);
        errors
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validate_conditions(new, &mut errors);
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let dangling = view
            .condition("Dangling")
            .map_or("?", |condition| condition.str("/status"));
        Some(vec![
            view.name(),
            json!(view.str("/spec/priorityLevelConfiguration/name")),
            json!(view.int("/spec/matchingPrecedence")),
            json!(
                view.scalar("/spec/distinguisherMethod/type")
                    .unwrap_or_else(|| "<none>".to_owned())
            ),
            view.age(),
            json!(dangling),
        ])
    }

    /// The order in which requests are matched.
    fn row_order(&self) -> Option<fn(&Value, &Value) -> Ordering> {
        Some(matching_order)
    }
}

/// The objects that every server needs to answer at all stay as they are; of the exempt level, its
/// own field may change.
pub(crate) fn validate_mandatory(
    own: &Value,
    plural: &str,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let name = name(own);
    if !["exempt", "catch-all"].contains(&name) {
        return;
    }
    let resource = GroupResource {
        group: GROUP.to_owned(),
        resource: plural.to_owned(),
    };
    let (kind, is_level) = match plural {
        "flowschemas" => ("FlowSchema", false),
        _ => ("PriorityLevelConfiguration", true),
    };
    let except = is_level && name == "exempt";
    let fixed = |spec: &Value| {
        let mut spec = spec.clone();
        if except && let Some(fields) = spec.as_object_mut() {
            fields.remove("exempt");
        }
        spec
    };
    let Some(wanted) = bootstrap::spec(&resource, name) else {
        return;
    };
    if fixed(&own["spec"]) != fixed(&wanted) {
        let but = match except {
            true => " except the 'spec.exempt' field",
            false => "",
        };
        // Upstream prints its internal type here.
        let shown = shown_field(GROUP, kind, &["spec"], &own["spec"]);
        let detail = format!("spec of '{name}'{but} must equal the fixed value");
        invalid_as(path, &shown, &detail, errors);
    }
}

fn validate_precedence(spec: &Value, name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let path = path.child("matchingPrecedence");
    let own = &spec["matchingPrecedence"];
    let precedence = own.as_i64().unwrap_or(0);
    if precedence <= 0 {
        errors.invalid(&path, own, "must be a positive value");
    }
    if precedence > PRECEDENCE_MAX {
        let detail = format!("must not be greater than {PRECEDENCE_MAX}");
        errors.invalid(&path, own, &detail);
    }
    if precedence == 1 && name != "exempt" {
        let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
        errors.invalid(&path, own, detail);
    }
}

fn validate_rule(rule: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let at = path.child("subjects");
    if is_empty(&rule["subjects"]) {
        errors.required(&at, "subjects must contain at least one value");
    }
    for (index, subject) in items(&rule["subjects"]).enumerate() {
        validate_subject(subject, &at.index(index), errors);
    }
    if is_empty(&rule["resourceRules"]) && is_empty(&rule["nonResourceRules"]) {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.required(path, detail);
    }
    for (index, own) in items(&rule["resourceRules"]).enumerate() {
        let path = path.child("resourceRules").index(index);
        validate_verbs(own, &path, errors);
        for (field, one, many) in [
            ("apiGroups", "api group", "api groups"),
            ("resources", "resource", "resources"),
        ] {
            let path = path.child(field);
            if is_empty(&own[field]) {
                let detail = format!("resource rules must supply at least one {one}");
                errors.required(&path, &detail);
            }
            alone(&own[field], many, &path, errors);
        }
        validate_namespaces(own, &path.child("namespaces"), errors);
    }
    for (index, own) in items(&rule["nonResourceRules"]).enumerate() {
        let path = path.child("nonResourceRules").index(index);
        validate_verbs(own, &path, errors);
        validate_urls(
            &own["nonResourceURLs"],
            &path.child("nonResourceURLs"),
            errors,
        );
    }
}

fn has_wildcard(list: &Value) -> bool {
    items(list).any(|own| own == "*")
}

/// A wildcard must be the only item of its list.
fn alone(list: &Value, what: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if has_wildcard(list) && items(list).count() > 1 {
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.invalid(path, list, &detail);
    }
}

fn validate_verbs(rule: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (verbs, path) = (&rule["verbs"], path.child("verbs"));
    if is_empty(verbs) {
        errors.required(&path, "verbs must contain at least one value");
    } else if has_wildcard(verbs) {
        alone(verbs, "verbs", &path, errors);
    } else if !items(verbs).all(|verb| VERBS.contains(&text(verb))) {
        errors.not_supported(&path, verbs, &VERBS);
    }
}

fn validate_namespaces(rule: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let namespaces = &rule["namespaces"];
    if is_empty(namespaces) && rule["clusterScope"] != true {
        let detail =
            "resource rules that are not cluster scoped must supply at least one namespace";
        errors.required(path, detail);
    } else if has_wildcard(namespaces) {
        alone(namespaces, "namespaces", path, errors);
    } else {
        for (index, own) in items(namespaces).enumerate() {
            for fault in dns1123_label(text(own)) {
                let detail =
                    format!("each member of this list must be '*' or a DNS-1123 label; {fault}");
                errors.invalid(&path.index(index), own, &detail);
            }
        }
    }
}

fn validate_urls(urls: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if is_empty(urls) {
        return errors.required(path, "nonResourceURLs must contain at least one value");
    }
    if has_wildcard(urls) {
        return alone(urls, "non-resource URLs", path, errors);
    }
    for (index, url) in items(urls).enumerate() {
        let own = text(url);
        let fault = match own {
            "" => "must not be empty",
            "/" => continue,
            _ if !own.starts_with('/') => "must start with slash",
            _ if own.contains(' ') => "must not contain white-space",
            _ if own.contains("//") => "must not contain double slash",
            _ if own[..own.len() - 1].contains('*') => "wildcard can only do suffix matching",
            _ if own.ends_with('*') && !own.ends_with("/*") => {
                "wildcard can only do suffix matching"
            }
            _ => continue,
        };
        errors.invalid(&path.index(index), url, fault);
    }
}

fn validate_subject(subject: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let kind = text(&subject["kind"]);
    let Some((_, own)) = SUBJECTS.into_iter().find(|(known, _)| *known == kind) else {
        let known = ["Group", "ServiceAccount", "User"];
        return errors.not_supported(&path.child("kind"), &kind.into(), &known);
    };
    let (stated, at) = (&subject[own], path.child(own));
    if stated.is_null() {
        let detail = format!("{own} is required when subject kind is '{kind}'");
        errors.required(&at, &detail);
    } else {
        let (name, at) = (&stated["name"], at.child("name"));
        match text(name) {
            "" => errors.required(&at, ""),
            "*" => {}
            account if own == "serviceAccount" => {
                invalid_each(dns1123_subdomain(account), name, &at, errors);
            }
            _ => {}
        }
    }
    if own == "serviceAccount" && !stated.is_null() {
        let (namespace, at) = (&stated["namespace"], at.child("namespace"));
        match text(namespace) {
            "" => errors.required(&at, "must specify namespace for service account"),
            own => invalid_each(dns1123_label(own), namespace, &at, errors),
        }
    }
    // Upstream's order of the others.
    for field in ["serviceAccount", "user", "group"] {
        if field != own && !subject[field].is_null() {
            let of = SUBJECTS.iter().find(|(_, known)| *known == field);
            let of = of.map_or("", |(kind, _)| kind);
            let detail = format!("{field} is forbidden when subject kind is not '{of}'");
            errors.forbidden(&path.child(field), &detail);
        }
    }
}

/// Each condition has a type of its own.
pub(crate) fn validate_conditions(schema: &Value, errors: &mut FieldErrors) {
    let path = FieldPath::new("status.conditions");
    let mut kinds = BTreeSet::new();
    for (index, condition) in items(&schema["status"]["conditions"]).enumerate() {
        let (kind, path) = (&condition["type"], path.index(index).child("type"));
        if !kinds.insert(text(kind)) {
            errors.duplicate(&path, kind);
        }
        if text(kind).is_empty() {
            errors.required(&path, "");
        }
    }
}

/// By precedence, then by name.
fn matching_order(a: &Value, b: &Value) -> Ordering {
    let key = |object: &Value| {
        let precedence = object.pointer("/spec/matchingPrecedence");
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        let precedence = precedence.and_then(Value::as_i64).unwrap_or_default();
        (precedence, name.unwrap_or_default().to_owned())
    };
    key(a).cmp(&key(b))
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn mandatory_schemas_stay_as_they_are() {
        let resource = GroupResource {
            group: GROUP.to_owned(),
            resource: "flowschemas".to_owned(),
        };
        let spec = bootstrap::spec(&resource, "catch-all").unwrap();
        let mut schema = json!({"metadata": {"name": "catch-all"}, "spec": spec});
        assert!(FlowSchema.validate(&schema).is_empty());
        schema["spec"]["rules"] = json!([]);
        let errors = FlowSchema.validate(&schema);
        let want = "Invalid value: {\"PriorityLevelConfiguration\":{\"Name\":\"catch-all\"},\
                    \"MatchingPrecedence\":10000,\"DistinguisherMethod\":{\"Type\":\"ByUser\"},\
                    \"Rules\":[]}: spec of 'catch-all' must equal the fixed value";
        assert_eq!(errors.causes()[0].message, want);
    }
}
