//! Operations on paths, and how v2 and v3 documents write them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::definitions::{Form, reference, written};
use crate::json::{Map, Value, json};
use crate::meta::GroupVersionKind;

/// The media types of objects, those of discovery included.
pub(super) const OBJECTS: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];

/// The format is described in the file.
static PARAMETERS: LazyLock<BTreeMap<&str, Value>> = LazyLock::new(|| {
    let lines = include_str!("parameters.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#'));
    let named = lines.filter_map(|line| line.split_once(' '));
    named
        .map(|(name, text)| {
            let value = serde_json::from_str(text);
            (
                name,
                value.expect("parameters.txt holds a JSON value a line"),
            )
        })
        .collect()
});

/// A parameter of a path or a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parameter {
    /// A shared parameter, by its name in `parameters.txt`; the hash at the end is needed only
    /// where several parameters have the same name.
    Shared(&'static str),
    /// `name` in the path, of an object of this kind.
    Name(String),
}

impl Parameter {
    /// The name of a shared parameter in v2 documents, and its definition.
    fn resolve(&self) -> (Option<&'static str>, Value) {
        match self {
            Self::Shared(name) => {
                let mut from = PARAMETERS.range(*name..);
                let (found, value) = from.next().expect("parameters.txt has what paths name");
                (found.contains('-').then_some(*found), value.clone())
            }
            Self::Name(kind) => {
                let value = json!({
                    "name": "name", "in": "path", "description": format!("name of the {kind}"),
                    "required": true, "type": "string", "uniqueItems": true,
                });
                (None, value)
            }
        }
    }

    fn written(&self, form: Form) -> Value {
        let (shared, value) = self.resolve();
        match (form, shared) {
            (Form::V2, Some(shared)) => json!({"$ref": format!("#/parameters/{shared}")}),
            (Form::V2, None) => value,
            (Form::V3, _) => {
                let Value::Object(mut value) = value else {
                    unreachable!("parameters.txt holds objects")
                };
                let mut schema = Map::new();
                for keyword in ["type", "uniqueItems"] {
                    schema.extend(value.remove_entry(keyword));
                }
                value.insert("schema", Value::Object(schema));
                Value::Object(value)
            }
        }
    }

    fn order(&self) -> (String, String) {
        let (_, value) = self.resolve();
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        (text("name"), text("in"))
    }
}

/// The body of a request.
#[derive(Clone, Debug)]
pub(super) enum RequestBody {
    /// `DeleteOptions`, which may be left out.
    DeleteOptions,
    Patch,
    /// An object, by the name of its definition.
    Object(String),
}

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

impl RequestBody {
    fn definition(&self) -> &str {
        match self {
            Self::DeleteOptions => DELETE_OPTIONS,
            Self::Patch => PATCH,
            Self::Object(name) => name,
        }
    }

    /// The body as a parameter, which it is in v2.
    fn parameter(&self) -> Value {
        let shared = match self {
            Self::DeleteOptions => "body-2Y1dVQaQ",
            Self::Patch => "body-78PwaGsr",
            Self::Object(name) => {
                return json!({
                    "name": "body", "in": "body", "required": true,
                    "schema": {"$ref": reference(name, Form::V2)},
                });
            }
        };
        json!({"$ref": format!("#/parameters/{shared}")})
    }
}

/// The content of a response.
#[derive(Clone, Debug)]
pub(super) enum Payload {
    /// An object, by the name of its definition.
    Object(String),
    Text,
}

/// One method of a path.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) id: String,
    pub(super) tag: String,
    pub(super) description: String,
    /// The verb, for operations on resources.
    pub(super) action: Option<&'static str>,
    pub(super) gvk: Option<GroupVersionKind>,
    pub(super) consumes: &'static [&'static str],
    pub(super) produces: Vec<&'static str>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<RequestBody>,
    /// What success is answered with, by code.
    pub(super) codes: &'static [u16],
    pub(super) payload: Payload,
}

impl Operation {
    fn written(&self, form: Form, common: &[Parameter]) -> Value {
        let own = self.parameters.iter();
        let own = own.filter(|parameter| !common.contains(parameter));
        let mut parameters: Vec<_> = own
            .map(|parameter| (parameter.order(), parameter.written(form)))
            .collect();
        let mut operation = json!({
            "description": self.description,
            "operationId": self.id,
            "tags": [self.tag],
            "responses": self.responses(form),
        });
        if let Some(action) = self.action {
            operation["x-kubernetes-action"] = json!(action);
        }
        if let Some(gvk) = &self.gvk {
            operation["x-kubernetes-group-version-kind"] =
                json!({"group": gvk.group, "version": gvk.version, "kind": gvk.kind});
        }
        match form {
            Form::V2 => {
                if !self.consumes.is_empty() {
                    operation["consumes"] = json!(self.consumes);
                }
                operation["produces"] = json!(self.produces);
                operation["schemes"] = json!(["https"]);
                if let Some(body) = &self.body {
                    parameters.push((("body".into(), "body".into()), body.parameter()));
                }
            }
            Form::V3 => {
                if let Some(body) = &self.body {
                    operation["requestBody"] = self.request_body(body);
                }
            }
        }
        if !parameters.is_empty() {
            operation["parameters"] = sorted(parameters);
        }
        operation
    }

    fn request_body(&self, body: &RequestBody) -> Value {
        let schema = json!({"schema": {"$ref": reference(body.definition(), Form::V3)}});
        let mut request_body = json!({"content": by_media_type(self.consumes, &schema)});
        if !matches!(body, RequestBody::DeleteOptions) {
            request_body["required"] = json!(true);
        }
        request_body
    }

    fn responses(&self, form: Form) -> Value {
        let schema = match &self.payload {
            Payload::Object(name) => json!({"$ref": reference(name, form)}),
            Payload::Text => json!({"type": "string"}),
        };
        let mut responses = Map::new();
        for code in self.codes {
            let description = match code {
                201 => "Created",
                202 => "Accepted",
                _ => "OK",
            };
            let mut response = json!({"description": description});
            match form {
                Form::V2 => response["schema"] = schema.clone(),
                Form::V3 => {
                    let schema = json!({"schema": schema});
                    response["content"] = by_media_type(&self.produces, &schema);
                }
            }
            responses.insert(code.to_string(), response);
        }
        responses.insert("401", json!({"description": "Unauthorized"}));
        Value::Object(responses)
    }

    /// The definitions that it names.
    pub(super) fn definitions(&self) -> impl Iterator<Item = &str> {
        let payload = match &self.payload {
            Payload::Object(name) => Some(name.as_str()),
            Payload::Text => None,
        };
        let body = self.body.as_ref().map(RequestBody::definition);
        payload.into_iter().chain(body)
    }
}

fn by_media_type(types: &[&str], schema: &Value) -> Value {
    let content = types
        .iter()
        .map(|kind| ((*kind).to_owned(), schema.clone()));
    Value::Object(content.collect())
}

fn sorted(mut parameters: Vec<((String, String), Value)>) -> Value {
    parameters.sort_by(|a, b| a.0.cmp(&b.0));
    parameters.into_iter().map(|(_, value)| value).collect()
}

/// The operations of paths.
pub(super) type Paths = BTreeMap<String, Vec<Operation>>;

/// Paths as documents write them: parameters of all operations of a path are listed at the path.
pub(super) fn written_paths(paths: &Paths, form: Form) -> Value {
    let item = |operations: &[Operation]| {
        let common = common_parameters(operations);
        let mut item = Map::new();
        for operation in operations {
            item.insert(
                operation.method.to_owned(),
                operation.written(form, &common),
            );
        }
        if !common.is_empty() {
            let common = common.iter();
            let written = common.map(|parameter| (parameter.order(), parameter.written(form)));
            item.insert("parameters", sorted(written.collect()));
        }
        Value::Object(item)
    };
    let paths = paths.iter();
    Value::Object(
        paths
            .map(|(path, operations)| (path.clone(), item(operations)))
            .collect(),
    )
}

fn common_parameters(operations: &[Operation]) -> Vec<Parameter> {
    let Some((first, others)) = operations.split_first() else {
        return Vec::new();
    };
    let in_all = |parameter: &&Parameter| {
        let mut others = others.iter();
        others.all(|operation| operation.parameters.contains(parameter))
    };
    first.parameters.iter().filter(in_all).cloned().collect()
}

/// The definitions that `paths` name.
pub(super) fn definitions_of(paths: &Paths) -> BTreeSet<String> {
    let operations = paths.values().flatten();
    operations
        .flat_map(Operation::definitions)
        .map(str::to_owned)
        .collect()
}

/// The section of a v2 document that holds shared parameters.
pub(super) fn shared_parameters() -> Value {
    let shared = PARAMETERS.iter().filter(|(name, _)| name.contains('-'));
    let written = shared.map(|(name, value)| {
        let mut value = value.clone();
        if let Some(schema) = value.get_mut("schema") {
            *schema = written(schema.take(), Form::V2);
        }
        ((*name).to_owned(), value)
    });
    Value::Object(written.collect())
}
