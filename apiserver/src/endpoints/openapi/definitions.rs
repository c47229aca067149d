//! The schemas of built-in types, and how v2 and v3 documents write a schema.
//!
//! In here a schema is as OpenAPI v2 has it, except that `$ref` is the bare name of a definition,
//! and that defaults, and the `oneOf` of types with two encodings, are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use crate::json::{Map, Value, json};
use crate::meta::GroupVersionKind;

/// The path of the schemas in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    V2,
    V3,
}

/// The format is described in the file.
const SOURCE: &str = include_str!("definitions.txt");

static LINES: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| {
    let lines = SOURCE.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).collect()
});

/// Names of the built-in definitions.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    LINES.keys().copied()
}

/// The schema of a built-in type.
pub(super) fn builtin(name: &str) -> Option<Value> {
    let line = LINES.get(name)?;
    Some(serde_json::from_str(line).expect("definitions.txt holds a JSON value a line"))
}

/// The name of the definition of a built-in kind, which is that of its Go type.
pub(super) fn name(gvk: &GroupVersionKind) -> String {
    let short = gvk.group.split('.').next().unwrap_or_default();
    let package = match gvk.group.as_str() {
        "" => "api.core",
        "apiextensions.k8s.io" => "apiextensions-apiserver.pkg.apis.apiextensions",
        "apiregistration.k8s.io" => "kube-aggregator.pkg.apis.apiregistration",
        _ => &format!("api.{short}"),
    };
    format!("io.k8s.{package}.{}.{}", gvk.version, gvk.kind)
}

/// The name of the definition of a custom kind.
pub(super) fn custom_name(group: &str, version: &str, kind: &str) -> String {
    let reversed: Vec<&str> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

/// The definitions that `roots` refer to, directly or not.
///
/// `custom` are searched first; an undeclared name is left out.
pub(super) fn closure(
    roots: BTreeSet<String>,
    custom: &BTreeMap<String, Value>,
) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let mut open: Vec<String> = roots.into_iter().collect();
    while let Some(name) = open.pop() {
        if found.contains_key(&name) {
            continue;
        }
        if let Some(schema) = custom.get(&name).cloned().or_else(|| builtin(&name)) {
            references(&schema, &mut open);
            found.insert(name, schema);
        }
    }
    found
}

fn references(schema: &Value, into: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        into.push(name.to_owned());
    }
    for_each_child(schema, &mut |child| references(child, into));
}

/// Calls `visit` with each schema right below `schema`. What is named like a keyword within
/// `properties` is not a keyword.
fn for_each_child(schema: &Value, visit: &mut dyn FnMut(&Value)) {
    let Some(object) = schema.as_object() else {
        return;
    };
    for (keyword, value) in object {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => properties.values().for_each(&mut *visit),
            ("items" | "additionalProperties" | "not", Value::Object(_)) => visit(value),
            ("allOf" | "anyOf" | "oneOf", Value::Array(all)) => all.iter().for_each(&mut *visit),
            _ => {}
        }
    }
}

/// Types that every group has.
const OF_EVERY_GROUP: [&str; 2] = [
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
];

/// Leaves the groups and versions that `keeps` takes with the types that every group has.
pub(super) fn retain_versions(document: &mut Value, keeps: impl Fn(&str, &str) -> bool) {
    let Some(schemas) = document.pointer_mut("/components/schemas") else {
        return;
    };
    for name in OF_EVERY_GROUP {
        let schema = schemas.get_mut(name);
        let kinds = schema.and_then(|schema| schema.get_mut("x-kubernetes-group-version-kind"));
        if let Some(Value::Array(kinds)) = kinds {
            kinds.retain(|kind| {
                let [group, version] = ["group", "version"].map(|field| kind[field].as_str());
                keeps(group.unwrap_or_default(), version.unwrap_or_default())
            });
        }
    }
}

/// A schema as documents of `form` write it.
pub(super) fn written(schema: Value, form: Form) -> Value {
    let Value::Object(mut object) = schema else {
        return schema;
    };
    match form {
        Form::V2 => {
            object.remove("default");
            if object.contains_key("type") {
                object.remove("oneOf");
            }
        }
        Form::V3 => {
            if object.contains_key("oneOf") && is_scalar(&object) {
                object.remove("type");
            }
        }
    }
    let mut result: Map = object
        .into_iter()
        .map(|(keyword, value)| {
            let value = written_keyword(&keyword, value, form);
            (keyword, value)
        })
        .collect();
    // OpenAPI v3 ignores the siblings of a reference.
    if form == Form::V3
        && result.len() > 1
        && let Some(reference) = result.remove("$ref")
    {
        result.insert("allOf", json!([{"$ref": reference}]));
    }
    Value::Object(result)
}

fn is_scalar(schema: &Map) -> bool {
    let kind = schema.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| !matches!(kind, "object" | "array"))
}

fn written_keyword(keyword: &str, value: Value, form: Form) -> Value {
    match (keyword, value) {
        ("$ref", Value::String(name)) => Value::String(reference(&name, form).into()),
        ("properties", Value::Object(properties)) => {
            let properties = properties.into_iter();
            let written = properties.map(|(name, schema)| (name, written(schema, form)));
            Value::Object(written.collect())
        }
        ("items" | "additionalProperties" | "not", value @ Value::Object(_)) => {
            written(value, form)
        }
        ("allOf" | "anyOf" | "oneOf", Value::Array(all)) => all
            .into_iter()
            .map(|schema| written(schema, form))
            .collect(),
        (_, value) => value,
    }
}

/// What `$ref` says to mean the definition `name`.
pub(super) fn reference(name: &str, form: Form) -> String {
    let prefix = match form {
        Form::V2 => "#/definitions/",
        Form::V3 => "#/components/schemas/",
    };
    format!("{prefix}{name}")
}
