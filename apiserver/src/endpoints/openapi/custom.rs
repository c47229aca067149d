//! The schemas and paths of custom kinds in the documents, from their definitions.

use std::collections::BTreeMap;
use std::ops::Deref;

use super::definitions::{self, Form};
use super::names::{api_name, capitalized, tag, with_article};
use super::operations::{Operation, Parameter, Paths, Payload, RequestBody};
use super::paths::{DELETE, LIST, PATCH, STATUS, WRITE};
use crate::json::{Map, Value, json};
use crate::nesting;
use crate::registry::definitions::CustomKind;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";
/// Keywords that say as much when they are false as when they are absent.
const FLAGS: &[&str] = &[
    "exclusiveMaximum",
    "exclusiveMinimum",
    "nullable",
    "uniqueItems",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
];
const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
const OBJECTS: &[&str] = &["application/json", "application/yaml"];
const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
];

/// A custom kind, as the documents describe it.
struct Published<'k>(&'k CustomKind);

impl Deref for Published<'_> {
    type Target = CustomKind;

    fn deref(&self) -> &CustomKind {
        self.0
    }
}

/// The definitions of `kinds` and of their lists, as documents of `form` need them.
pub(super) fn definitions_of(kinds: &[CustomKind], form: Form) -> BTreeMap<String, Value> {
    let mut definitions = BTreeMap::new();
    for kind in kinds.iter().map(Published) {
        definitions.insert(kind.definition(), kind.object_schema(form));
        definitions.insert(kind.list_definition(), kind.list_schema());
    }
    definitions
}

impl Published<'_> {
    pub(super) fn definition(&self) -> String {
        let gvk = &self.gvk;
        definitions::custom_name(&gvk.group, &gvk.version, &gvk.kind)
    }

    fn list_definition(&self) -> String {
        let gvk = &self.gvk;
        definitions::custom_name(&gvk.group, &gvk.version, &self.list_kind)
    }

    fn object_schema(&self, form: Form) -> Value {
        let keeps_all = |schema: &Value| {
            let preserves = schema["x-kubernetes-preserve-unknown-fields"] == true;
            form == Form::V2 && (self.preserve_unknown_fields || preserves)
        };
        let schema = self.schema.as_ref().map(|schema| {
            nesting::from_slice::<Value>(schema.as_bytes())
                .expect("a definition's schema is written as JSON")
        });
        // A client would take properties listed for all there are.
        let mut schema = match schema {
            Some(schema) if !keeps_all(&schema) => {
                let mut schema = published(schema, form);
                add_type_meta(&mut schema);
                set_property(&mut schema, "metadata", object_meta());
                schema
            }
            _ => json!({"type": "object"}),
        };
        self.add_extensions(&mut schema, &self.gvk.kind);
        schema
    }

    fn list_schema(&self) -> Value {
        let plural = &self.plural;
        let mut schema = json!({
            "type": "object",
            "description": format!("{} is a list of {}", self.list_kind, self.gvk.kind),
            "required": ["items"],
            "properties": {
                "items": {
                    "type": "array",
                    "description": format!("List of {plural}. More info: {CONVENTIONS}"),
                    "items": {"$ref": self.definition()},
                },
                "metadata": {
                    "$ref": LIST_META,
                    "description": format!(
                        "Standard list metadata. More info: {CONVENTIONS}#types-kinds"
                    ),
                },
            },
        });
        add_type_meta(&mut schema);
        self.add_extensions(&mut schema, &self.list_kind);
        schema
    }

    fn add_extensions(&self, schema: &mut Value, kind: &str) {
        let gvk = &self.gvk;
        schema["x-kubernetes-group-version-kind"] =
            json!([{"group": gvk.group, "version": gvk.version, "kind": kind}]);
        if !self.selectable_fields.is_empty() {
            let fields = self.selectable_fields.iter();
            schema["x-kubernetes-selectable-fields"] = fields
                .map(|path| json!({"fieldPath": path.trim_start_matches('.')}))
                .collect();
        }
    }
}

fn object_meta() -> Value {
    json!({
        "$ref": OBJECT_META,
        "description": format!("Standard object's metadata. More info: {CONVENTIONS}#metadata"),
    })
}

/// The descriptions of `apiVersion` and `kind` are those that every built-in kind has.
fn add_type_meta(schema: &mut Value) {
    let known = definitions::builtin("io.k8s.apimachinery.pkg.apis.meta.v1.Status");
    let known = known.expect("definitions.txt has Status");
    for name in ["apiVersion", "kind"] {
        set_property(schema, name, known["properties"][name].clone());
    }
}

fn set_property(schema: &mut Value, name: &str, property: Value) {
    schema["properties"][name] = property;
}

/// The published form of a structural schema.
fn published(schema: Value, form: Form) -> Value {
    let Value::Object(mut schema) = schema else {
        return schema;
    };
    schema.retain(|keyword, value| {
        let unset = FLAGS.contains(&keyword.as_str()) && *value == Value::Bool(false);
        !unset && !matches!(keyword.as_str(), "id" | "$schema")
    });
    unfold_int_or_string(&mut schema);
    if form == Form::V2 {
        reduce_to_v2(&mut schema);
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut() {
            *property = published(property.take(), form);
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(child @ Value::Object(_)) = schema.get_mut(keyword) {
            *child = published(child.take(), form);
        }
    }
    let mut schema = Value::Object(schema);
    let preserves = schema["x-kubernetes-preserve-unknown-fields"] == true;
    // Listed properties would make clients refuse the unknown ones.
    if schema["x-kubernetes-embedded-resource"] == true && !(preserves && form == Form::V2) {
        embed_resource(&mut schema);
    }
    schema
}

/// An int-or-string says so in `anyOf` too.
fn unfold_int_or_string(schema: &mut Map) {
    if schema.get("x-kubernetes-int-or-string") != Some(&Value::Bool(true)) {
        return;
    }
    let both = json!([{"type": "integer"}, {"type": "string"}]);
    let first_of_all = schema.get("allOf").and_then(|all| all.get(0));
    if first_of_all.is_some_and(|first| first["anyOf"] == both) {
        return;
    }
    match schema.get("anyOf") {
        Some(any) if *any != both => {
            let mut all = vec![json!({"anyOf": both})];
            if let Some(Value::Array(others)) = schema.remove("allOf") {
                all.extend(others);
            }
            schema.insert("allOf", Value::Array(all));
        }
        _ => {
            schema.insert("anyOf", both);
        }
    }
}

/// Drops keywords that OpenAPI v2 lacks, and those that kubectl would misread there.
fn reduce_to_v2(schema: &mut Map) {
    // Fields that may be null are not required: v2 knows no null.
    let nullable = |schema: &Value| schema["nullable"] == true;
    if schema.get("additionalProperties").is_some_and(nullable) {
        schema.remove("required");
    }
    let mut required = schema.remove("required");
    if let (Some(Value::Array(required)), Some(properties)) =
        (&mut required, schema.get("properties"))
    {
        required.retain(|name| !nullable(&properties[name.as_str().unwrap_or_default()]));
    }
    if let Some(Value::Array(required)) = required
        && !required.is_empty()
    {
        schema.insert("required", Value::Array(required));
    }
    for junctor in ["allOf", "anyOf", "oneOf", "not"] {
        schema.remove(junctor);
    }
    let is_nullable = schema.remove("nullable") == Some(Value::Bool(true));
    let preserves = schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    if is_nullable || preserves {
        schema.remove("items");
        schema.remove("properties");
    }
    let kind = schema
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let bare_array = kind == "array" && !schema.contains_key("items");
    if is_nullable || bare_array || (preserves && kind == "object") {
        schema.remove("type");
    }
}

fn embed_resource(schema: &mut Value) {
    let properties = [
        (
            "apiVersion",
            format!(
                "apiVersion defines the versioned schema of this representation of an object. \
                 More info: {CONVENTIONS}#resources"
            ),
        ),
        (
            "kind",
            format!(
                "kind is a string value representing the type of this object. In CamelCase. \
                 More info: {CONVENTIONS}#types-kinds"
            ),
        ),
    ];
    for (name, description) in properties {
        set_property(
            schema,
            name,
            json!({"type": "string", "description": description}),
        );
    }
    set_property(schema, "metadata", object_meta());
    let mut required = match schema["required"].take() {
        Value::Array(required) => required,
        _ => Vec::new(),
    };
    for name in ["kind", "apiVersion"] {
        if !required.iter().any(|has| has == name) {
            required.push(json!(name));
        }
    }
    schema["required"] = Value::Array(required);
}

/// The paths of `kinds`.
pub(super) fn paths_of(kinds: &[CustomKind]) -> Paths {
    let mut paths = Paths::new();
    for kind in kinds.iter().map(Published) {
        kind.add_paths(&mut paths);
    }
    paths
}

impl Published<'_> {
    fn add_paths(&self, paths: &mut Paths) {
        let root = format!("/apis/{}/{}", self.gvk.group, self.gvk.version);
        let mut collection = format!("{root}/{}", self.plural);
        if self.namespaced {
            let mut everywhere = self.operation("get", "list", "list", "");
            everywhere
                .parameters
                .retain(|of| *of != Parameter::Shared("namespace"));
            everywhere.id = self.operation_id("list", "", "ForAllNamespaces");
            paths.insert(collection, vec![everywhere]);
            collection = format!("{root}/namespaces/{{namespace}}/{}", self.plural);
        }
        let all = [
            self.operation("get", "list", "list", ""),
            self.operation("post", "post", "create", ""),
            self.operation("delete", "deletecollection", "deletecollection", ""),
        ];
        paths.insert(collection.clone(), all.into());
        let mut one = self.reads_and_writes("");
        one.push(self.operation("delete", "delete", "delete", ""));
        paths.insert(format!("{collection}/{{name}}"), one);
        for sub in &self.subresources {
            let path = format!("{collection}/{{name}}/{}", sub);
            paths.insert(path, self.reads_and_writes(sub));
        }
    }

    fn reads_and_writes(&self, sub: &str) -> Vec<Operation> {
        let verbs = [("get", "read"), ("put", "replace"), ("patch", "patch")];
        let operations = verbs.map(|(method, verb)| self.operation(method, method, verb, sub));
        operations.into()
    }

    fn operation_id(&self, verb: &str, scope: &str, end: &str) -> String {
        let gvk = &self.gvk;
        let api = api_name(&gvk.group_version());
        let (verb, infix) = match verb {
            "deletecollection" => ("delete", "Collection"),
            verb => (verb, ""),
        };
        format!("{verb}{api}{infix}{scope}{}{end}", gvk.kind)
    }

    /// The operation that `method` is on the kind, or on its subresource `sub` unless that is `""`.
    fn operation(
        &self,
        method: &'static str,
        action: &'static str,
        verb: &str,
        sub: &str,
    ) -> Operation {
        let gvk = &self.gvk;
        let scope = if self.namespaced { "Namespaced" } else { "" };
        let parameters: &[&'static str] = match action {
            "get" => &["resourceVersion"],
            "list" | "deletecollection" => LIST,
            "patch" => PATCH,
            "delete" => DELETE,
            _ => WRITE,
        };
        let mut parameters: Vec<_> = parameters.iter().copied().map(Parameter::Shared).collect();
        parameters.push(Parameter::Shared("pretty"));
        if self.namespaced {
            parameters.push(Parameter::Shared("namespace"));
        }
        if !matches!(action, "list" | "post" | "deletecollection") {
            parameters.push(Parameter::Name(gvk.kind.clone()));
        }
        let object = match sub {
            "scale" => SCALE.to_owned(),
            _ => self.definition(),
        };
        Operation {
            method,
            id: self.operation_id(verb, scope, &capitalized(sub)),
            tag: tag(&gvk.group_version()),
            description: self.description(verb, sub),
            action: Some(action),
            gvk: Some(gvk.clone()),
            consumes: if action == "patch" { PATCHES } else { OBJECTS },
            produces: OBJECTS.to_vec(),
            parameters,
            body: match action {
                "post" | "put" => Some(RequestBody::Object(object.clone())),
                "patch" => Some(RequestBody::Patch),
                "delete" => Some(RequestBody::DeleteOptions),
                _ => None,
            },
            codes: match action {
                "post" => &[200, 201, 202],
                "put" => &[200, 201],
                "delete" => &[200, 202],
                _ => &[200],
            },
            payload: Payload::Object(match action {
                "list" => self.list_definition(),
                "delete" | "deletecollection" => STATUS.to_owned(),
                _ => object,
            }),
        }
    }

    fn description(&self, verb: &str, sub: &str) -> String {
        let kind = &self.gvk.kind;
        let of = match sub {
            "" => String::new(),
            sub => format!(" {sub} of"),
        };
        match verb {
            "list" => format!("list objects of kind {kind}"),
            "patch" => format!("partially update{of} the specified {kind}"),
            "deletecollection" => format!("delete collection of {kind}"),
            "create" | "delete" => format!("{verb} {}", with_article(kind)),
            verb => format!("{verb}{of} the specified {kind}"),
        }
    }
}
