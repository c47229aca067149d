//! First scenarios for an operator, made from the schema of its resource: an object is created, each of its fields is
//! changed within the limits of the schema, it is scaled and deleted.
//!
//! A server of its own tries each value, so rules in CEL and immutable fields count, too.

mod changes;
mod pattern;
mod text;
mod values;

use kubeproof_machinery::json::{Value, json};

use crate::testbed::{Testbed, TestbedError};
use changes::changes;
use text::Parts;
use values::example;

/// The first line of a scenario that is written for a user: a comment that says where its fields are described.
pub const REFERENCE: &str = concat!(
    "# What the fields mean: ",
    env!("CARGO_PKG_REPOSITORY"),
    "/blob/main/docs/scenarios.md. `kubeproof schema` prints a JSON Schema for editors.\n"
);

/// The basis of a first scenario.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The definitions of custom resources.
    pub definitions: Vec<Value>,
    /// The kind of the object among these definitions; `None` for the only one, or that of `object`.
    pub kind: Option<String>,
    /// An object to begin with, such as `kubectl get -o yaml` prints it; made up from the schema when `None`.
    pub object: Option<Value>,
    /// The maximum number of fields that are changed.
    pub changes_max: usize,
    /// The paths of the files with these definitions, as the scenario names them, in YAML.
    pub definition_files: Vec<String>,
}

/// A first scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstScenario {
    /// The scenario, as YAML.
    pub text: String,
    /// The number of fields that it changes.
    pub changed: usize,
    /// The fields that could be changed: those of the schema that are not too deep, and those of the object.
    pub fields: usize,
}

/// A scenario that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum FirstScenarioError {
    /// Neither definitions nor an object.
    #[error("there is neither a CustomResourceDefinition nor an object")]
    Nothing,
    /// Several kinds are defined, and none is chosen.
    #[error("several kinds are defined; choose one of {}", .0.join(", "))]
    Ambiguous(Vec<String>),
    /// No definition is of the kind.
    #[error("there is no definition of {kind}; there are those of {}", .defined.join(", "))]
    Undefined {
        /// The kind.
        kind: String,
        /// The defined kinds.
        defined: Vec<String>,
    },
    /// The object has no kind, name or version.
    #[error("the object has no apiVersion, kind or metadata.name")]
    NoObject,
    /// The server refuses the object.
    #[error("{} is not accepted, so give one that is: {source}", match .is_made_up {
        true => "an object that is made up from the schema",
        false => "the object",
    })]
    Refused {
        /// Whether the object was made up.
        is_made_up: bool,
        /// The refusal.
        source: Box<crate::api::ApiError>,
    },
    /// The server does not start, such as with these definitions.
    #[error(transparent)]
    Start(#[from] TestbedError),
}

/// A definition, and its version that is stored.
struct Definition<'a> {
    kind: &'a str,
    group: &'a str,
    version: &'a str,
    schema: &'a Value,
    /// The path of `spec.replicas` of its scale subresource.
    replicas: Option<&'a str>,
}

impl<'a> Definition<'a> {
    fn of(object: &'a Value) -> Option<Self> {
        let spec = &object["spec"];
        let versions = spec["versions"].as_array()?;
        let stored = versions.iter().find(|version| version["storage"] == true)?;
        Some(Self {
            kind: spec["names"]["kind"].as_str()?,
            group: spec["group"].as_str()?,
            version: stored["name"].as_str()?,
            schema: &stored["schema"]["openAPIV3Schema"],
            replicas: stored["subresources"]["scale"]["specReplicasPath"].as_str(),
        })
    }
}

impl FirstScenario {
    /// Makes a scenario. Needs a runtime whose time is paused.
    ///
    /// # Errors
    /// [`FirstScenarioError`] when it is not clear what the scenario is about, or the object is refused.
    pub async fn of(subject: &Subject) -> Result<Self, FirstScenarioError> {
        let definition = chosen(subject)?;
        let (object, is_made_up) = match (&subject.object, &definition) {
            (Some(object), _) => (as_applied(object), false),
            (None, Some(definition)) => (made_up(definition), true),
            (None, None) => return Err(FirstScenarioError::Nothing),
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
        if kind.is_empty() || name.is_empty() || object["apiVersion"].as_str().is_none() {
            return Err(FirstScenarioError::NoObject);
        }
        let testbed = start(&subject.definitions).await?;
        let api = testbed.api();
        let namespace = text(&object["metadata"]["namespace"]);
        if !namespace.is_empty() {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            // One that exists will do.
            let _ = api.create(&namespace).await;
        }
        let refused = |source| FirstScenarioError::Refused {
            is_made_up,
            source: Box::new(source),
        };
        let stored = api.create(&object).await.map_err(refused)?;
        let schema = definition.as_ref().map(|definition| definition.schema);
        let resource = kind.to_lowercase();
        let all = changes(schema, &stored);
        let replicas = match definition
            .as_ref()
            .and_then(|definition| definition.replicas)
        {
            Some(path) => Some(path.trim_start_matches('.').to_owned()),
            None => stored["spec"]["replicas"]
                .is_i64()
                .then(|| "spec.replicas".to_owned()),
        };
        let fields = all.len();
        let mut accepted = Vec::new();
        for change in all {
            if accepted.len() == subject.changes_max {
                break;
            }
            if Some(&change.path) == replicas.as_ref() {
                continue;
            }
            for patch in &change.patches {
                let merge = "application/merge-patch+json";
                let patched = api.patch((&resource, &name), None, merge, patch).await;
                if patched.is_ok() {
                    accepted.push((change.path.clone(), patch.clone()));
                    break;
                }
            }
        }
        let mut scaled = Vec::new();
        if let Some(path) = &replicas {
            let pointer = format!("/{}", path.replace('.', "/"));
            let now = stored
                .pointer(&pointer)
                .and_then(Value::as_i64)
                .unwrap_or(1);
            for wanted in [now + 1, (now - 1).max(0), 0, now] {
                let patch = nested(path, json!(wanted));
                let merge = "application/merge-patch+json";
                let patched = api.patch((&resource, &name), None, merge, &patch).await;
                if patched.is_ok() && scaled.last() != Some(&wanted) {
                    scaled.push(wanted);
                }
            }
        }
        let changed = accepted.len();
        let parts = Parts {
            object: &object,
            definition_files: &subject.definition_files,
            changes: &accepted,
            scaled: (replicas.as_deref(), &scaled),
            schema,
            is_custom: definition.is_some(),
        };
        let text = parts.text();
        testbed.shutdown().await;
        Ok(Self {
            text,
            changed,
            fields,
        })
    }
}

/// A server with the definitions and nothing else.
async fn start(definitions: &[Value]) -> Result<Testbed, TestbedError> {
    let mut manifests = kubeproof_apiserver::Manifests::new();
    for definition in definitions {
        manifests = manifests.object(definition).expect("a JSON object is one");
    }
    Testbed::builder().manifests(manifests).start().await
}

/// The definition that the scenario is about; `None` for an object of a built-in kind.
fn chosen(subject: &Subject) -> Result<Option<Definition<'_>>, FirstScenarioError> {
    let all: Vec<Definition<'_>> = subject
        .definitions
        .iter()
        .filter_map(Definition::of)
        .collect();
    let defined = || {
        all.iter()
            .map(|own| own.kind.to_owned())
            .collect::<Vec<_>>()
    };
    let of_object = subject
        .object
        .as_ref()
        .and_then(|object| object["kind"].as_str());
    let wanted = subject.kind.as_deref().or(of_object);
    match (wanted, all.len()) {
        (None, 0 | 1) => Ok(all.into_iter().next()),
        (None, _) => Err(FirstScenarioError::Ambiguous(defined())),
        (Some(kind), _) => {
            let found = all
                .iter()
                .position(|own| own.kind.eq_ignore_ascii_case(kind));
            if found.is_none() && of_object != Some(kind) {
                let (kind, defined) = (kind.to_owned(), defined());
                return Err(FirstScenarioError::Undefined { kind, defined });
            }
            Ok(found.and_then(|index| all.into_iter().nth(index)))
        }
    }
}

/// An object as a user would write it, without what the server and controllers have added.
fn as_applied(object: &Value) -> Value {
    let mut object = object.clone();
    let Some(fields) = object.as_object_mut() else {
        return object;
    };
    fields.remove("status");
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| {
            ["name", "namespace", "labels", "annotations"].contains(&name.as_str())
        });
        if let Some(annotations) = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
        {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
        metadata.retain(|_, value| !matches!(value, Value::Object(map) if map.is_empty()));
    }
    object
}

/// An object of the kind with what its schema requires.
fn made_up(definition: &Definition<'_>) -> Value {
    let mut object = json!({
        "apiVersion": format!("{}/{}", definition.group, definition.version),
        "kind": definition.kind,
        "metadata": {"name": "example"},
    });
    let properties = definition.schema["properties"].as_object();
    for (name, schema) in properties.into_iter().flatten() {
        if !["apiVersion", "kind", "metadata", "status"].contains(&name.as_str()) {
            let value = example(schema);
            let is_empty = matches!(&value, Value::Object(map) if map.is_empty());
            if name == "spec" || !is_empty {
                object[name] = value;
            }
        }
    }
    object
}

/// `value` at a dotted path.
fn nested(path: &str, value: Value) -> Value {
    path.rsplit('.')
        .fold(value, |value, name| json!({ name: value }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_of_a_cluster_loses_what_its_user_did_not_write() {
        let object = json!({
            "apiVersion": "example.com/v1",
            "kind": "Shop",
            "metadata": {
                "name": "books", "uid": "1", "resourceVersion": "2", "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [], "finalizers": ["a/b"],
                "labels": {"a": "b"},
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
            },
            "spec": {"size": 1},
            "status": {"size": 1},
        });
        let applied = json!({
            "apiVersion": "example.com/v1",
            "kind": "Shop",
            "metadata": {"name": "books", "labels": {"a": "b"}},
            "spec": {"size": 1},
        });
        assert_eq!(as_applied(&object), applied);
    }

    #[test]
    fn paths_become_patches() {
        assert_eq!(
            nested("spec.a.b", json!(1)),
            json!({"spec": {"a": {"b": 1}}})
        );
    }
}
