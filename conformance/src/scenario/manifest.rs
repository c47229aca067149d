//! Manifests of scenarios: inline, or a file with an optional merge patch over it.

use std::path::Path;

use kubeproof_apiserver::Manifests;
use kubeproof_machinery::json::{Map, Value};
use schemars::JsonSchema;
use serde::Deserialize;

/// An object to create or apply.
///
/// Written as an inline object, as the path of a file, or as `{file: PATH, merge: {…}}`, where
/// `merge` is a JSON merge patch. Paths are relative to the scenario's file. A path may also be that of a directory of
/// manifests, of a dump of a cluster, or of an audit log with bodies.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(from = "Value")]
#[schemars(with = "serde_json::Value")]
pub struct Manifest {
    file: Option<String>,
    merge: Option<Value>,
    /// The objects, in order; a file may hold several.
    pub objects: Vec<Value>,
}

impl From<Value> for Manifest {
    fn from(value: Value) -> Self {
        if let Some(file) = value.as_str() {
            return Self {
                file: Some(file.to_owned()),
                merge: None,
                objects: Vec::new(),
            };
        }
        match value.get("file").and_then(Value::as_str) {
            Some(file) if value.get("apiVersion").is_none() => Self {
                file: Some(file.to_owned()),
                merge: value.get("merge").cloned(),
                objects: Vec::new(),
            },
            _ => Self {
                file: None,
                merge: None,
                objects: vec![value],
            },
        }
    }
}

impl Manifest {
    /// Takes its objects out of the file that it names, of which `read` knows the text.
    pub(super) fn load(
        &mut self,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<(), String> {
        if let Some(file) = &self.file {
            let objects = parse_objects(&read(file)?);
            self.objects = objects.map_err(|error| format!("{file}: {error}"))?;
            if let Some(merge) = &self.merge {
                for object in &mut self.objects {
                    merge_into(object, merge);
                }
            }
        }
        for object in &self.objects {
            for field in ["/apiVersion", "/kind", "/metadata/name"] {
                if object.pointer(field).and_then(Value::as_str).is_none() {
                    let path = field.trim_start_matches('/').replace('/', ".");
                    return Err(format!("a manifest lacks {path}: {object}"));
                }
            }
        }
        Ok(())
    }

    /// Returns the words for one of the objects, and the file it is in.
    pub(crate) fn object_in_words(&self, object: &Value) -> String {
        let file = self
            .file
            .as_deref()
            .map(|file| format!(" ({})", short(file)));
        format!("{}{}", object_in_words(object), file.unwrap_or_default())
    }

    /// The manifest in a few words: its objects, and the values merged over the file.
    #[must_use]
    pub fn in_words(&self) -> String {
        let objects: Vec<String> = self.objects.iter().map(object_in_words).collect();
        let mut words = objects.join(", ");
        if let Some(file) = &self.file {
            words.push_str(&format!(" ({})", short(file)));
        }
        if let Some(merge) = &self.merge {
            words.push_str(&format!(" with {}", in_flow(merge)));
        }
        words
    }
}

/// Returns an object in words: `statefulset web`.
pub(crate) fn object_in_words(object: &Value) -> String {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
    format!(
        "{} {}",
        text("/kind").unwrap_or_default().to_lowercase(),
        text("/metadata/name").unwrap_or_default()
    )
}

/// A file's path without its way up.
fn short(file: &str) -> &str {
    file.trim_start_matches("../")
}

/// Applies a JSON merge patch (RFC 7386).
fn merge_into(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let target = target.as_object_mut().expect("made an object above");
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge_into(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// `value` on one line as YAML's flow style writes it: no quotes where none are needed.
#[must_use]
pub(crate) fn in_flow(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let fields: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{key}: {}", in_flow(value)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(in_flow).collect();
            format!("[{}]", items.join(", "))
        }
        Value::String(text) if is_plain(text) => text.to_string(),
        other => other.to_string(),
    }
}

/// Words that YAML 1.1 or 1.2 does not read as strings.
const OTHER_THAN_TEXT: &[&str] = &["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

fn is_plain(text: &str) -> bool {
    let starts_plain = text.chars().next().is_some_and(char::is_alphabetic);
    let plain = |c: char| c.is_alphanumeric() || "-_./:".contains(c);
    starts_plain && text.chars().all(plain) && !OTHER_THAN_TEXT.contains(&text)
}

/// The documents of a YAML or JSON file, whatever they are.
///
/// # Errors
/// Names the file that could not be read or parsed, with the reason.
pub fn read_objects(path: &Path) -> Result<Vec<Value>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let documents: Result<Vec<Value>, _> = serde_saphyr::from_multiple(&text);
    documents.map_err(|error| format!("{}: {error}", path.display()))
}

/// The objects of a YAML or JSON text, which may hold several documents and Lists.
///
/// # Errors
/// The error in the text, with its place; a duplicate key is an error.
fn parse_objects(text: &str) -> Result<Vec<Value>, String> {
    let manifests = Manifests::new().yaml(text);
    let manifests = manifests.map_err(|error| error.to_string())?.into_iter();
    let objects = manifests.map(|manifest| match manifest.duplicates.as_slice() {
        [] => Ok(manifest.object),
        faults => Err(format!("strict decoding error: {}", faults.join(", "))),
    });
    objects.collect()
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::*;

    #[test]
    fn flow_style_quotes_only_what_would_read_otherwise() {
        let value = json!({"spec": {"replicas": 2, "image": "nginx:1.25", "ready": "false"}});
        assert_eq!(
            in_flow(&value),
            r#"{spec: {image: nginx:1.25, ready: "false", replicas: 2}}"#
        );
    }

    #[test]
    fn a_merge_replaces_lists_and_removes_by_null() {
        let mut object = json!({"a": {"b": 1, "c": 2}, "list": [1, 2]});
        merge_into(
            &mut object,
            &json!({"a": {"b": null, "d": {"e": 3}}, "list": [3]}),
        );
        assert_eq!(object, json!({"a": {"c": 2, "d": {"e": 3}}, "list": [3]}));
    }

    #[test]
    fn a_manifest_without_a_name_is_refused() {
        let mut manifest = Manifest::from(json!({"apiVersion": "v1", "kind": "Pod"}));
        let error = manifest.load(&mut |_| Ok(String::new())).unwrap_err();
        assert!(error.contains("lacks metadata.name"), "{error}");
    }
}
