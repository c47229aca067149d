//! Output: tables, JSON, YAML and names.
//!
//! Source: cli-runtime `pkg/printers`.

use std::io::Write as _;

use kubeproof_machinery::json::{Value, json};
use kubeproof_machinery::yaml::encode;
use serde::Serialize as _;
use serde_json::ser::{PrettyFormatter, Serializer};

use super::failure::Failure;

/// The least width of a column, with the spaces after it.
const COLUMN_WIDTH_MIN: usize = 6;
const COLUMN_PADDING: usize = 3;
/// Columns of higher priority are shown only by `-o wide`.
const NARROW_PRIORITY_MAX: i64 = 0;

/// Writes to standard output. A reader that is gone needs no output.
pub(super) fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
}

/// A format of whole objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Yaml,
    Name,
}

impl Format {
    /// Reads `-o`; `None` when the flag is not set. `others` are formats that the caller prints itself.
    pub(super) fn read(text: Option<&str>, others: &[&str]) -> Result<Option<Self>, Failure> {
        match text {
            None => Ok(None),
            Some("json") => Ok(Some(Self::Json)),
            Some("yaml") => Ok(Some(Self::Yaml)),
            Some("name") => Ok(Some(Self::Name)),
            Some(other) if others.contains(&other) => Ok(None),
            Some(other) => {
                let mut known = [&["json", "name"], others, &["yaml"]].concat();
                known.sort_unstable();
                Err(Failure::error(format_args!(
                    "unable to match a printer suitable for the output format {other:?}, allowed formats are: {}",
                    known.join(",")
                )))
            }
        }
    }
}

/// Returns JSON with kubectl's indentation, and the end of a line.
pub(super) fn to_json(value: &Value) -> String {
    indented(value, b"    ")
}

/// Returns JSON with the indentation that `kubectl version` has.
pub(super) fn to_narrow_json(value: &Value) -> String {
    indented(value, b"  ")
}

fn indented(value: &Value, indent: &[u8]) -> String {
    let mut text = Vec::new();
    let formatter = PrettyFormatter::with_indent(indent);
    let mut serializer = Serializer::with_formatter(&mut text, formatter);
    value
        .serialize(&mut serializer)
        .expect("values are written to memory");
    text.push(b'\n');
    String::from_utf8(text).expect("JSON is UTF-8")
}

/// Returns YAML as Go writes it.
pub(super) fn to_yaml(value: &Value) -> String {
    encode::to_string(value)
}

/// Returns the name of an object with its resource in the singular, such as `deployment.apps/web`.
pub(super) fn name(object: &Value) -> String {
    let api_version = text(object, "/apiVersion");
    let kind = text(object, "/kind").to_lowercase();
    let name = text(object, "/metadata/name");
    match api_version.split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

/// Returns objects in a format: one as it is if `is_single`, otherwise as a List.
pub(super) fn objects(objects: Vec<Value>, format: Format, is_single: bool) -> String {
    let whole = |mut objects: Vec<Value>| match (is_single, objects.pop()) {
        (true, Some(object)) => object,
        (_, last) => {
            objects.extend(last);
            json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": objects})
        }
    };
    match format {
        Format::Json => to_json(&whole(objects)),
        Format::Yaml => to_yaml(&whole(objects)),
        Format::Name => {
            let lines = objects.iter().map(|object| format!("{}\n", name(object)));
            lines.collect()
        }
    }
}

/// Removes managedFields, which only `--show-managed-fields` shows.
pub(super) fn without_managed_fields(object: &mut Value) {
    let metadata = object.get_mut("metadata");
    if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

/// The optional columns of a table, and its heading.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    pub(super) wide: bool,
    pub(super) namespaces: bool,
    pub(super) labels: bool,
    pub(super) no_headers: bool,
}

/// Returns the lines of a `meta.k8s.io/v1` Table; none when it has no rows. `prefix` precedes names.
pub(super) fn table(table: &Value, prefix: &str, shown: Shown) -> String {
    let columns = table["columnDefinitions"].as_array().into_iter().flatten();
    let columns: Vec<(usize, &Value)> = columns
        .enumerate()
        .filter(|(_, column)| {
            let priority = column["priority"].as_i64().unwrap_or_default();
            shown.wide || priority <= NARROW_PRIORITY_MAX
        })
        .collect();
    let rows = table["rows"].as_array().map_or(&[][..], Vec::as_slice);
    if rows.is_empty() {
        return String::new();
    }
    let mut lines = Vec::new();
    if !shown.no_headers {
        let titles = columns
            .iter()
            .map(|(_, column)| text(column, "/name").to_uppercase());
        let mut line: Vec<String> = shown
            .namespaces
            .then(|| "NAMESPACE".to_owned())
            .into_iter()
            .collect();
        line.extend(titles);
        line.extend(shown.labels.then(|| "LABELS".to_owned()));
        lines.push(line);
    }
    for row in rows {
        let object = &row["object"];
        let mut line = Vec::new();
        if shown.namespaces {
            line.push(text(object, "/metadata/namespace").to_owned());
        }
        for (index, column) in &columns {
            let cell = cell(&row["cells"][index]);
            line.push(match text(column, "/format") == "name" {
                true => format!("{prefix}{cell}"),
                false => cell,
            });
        }
        if shown.labels {
            line.push(labels(&object["metadata"]["labels"]));
        }
        lines.push(line);
    }
    align(&lines)
}

fn labels(labels: &Value) -> String {
    let pairs = labels.as_object().into_iter().flatten();
    let pairs: Vec<String> = pairs
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    match pairs.is_empty() {
        true => "<none>".to_owned(),
        false => pairs.join(","),
    }
}

/// Returns a cell's text up to the end of its first line.
fn cell(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null => "<none>".into(),
        other => other.to_string().into(),
    };
    match text.find(['\n', '\r', '\u{c}']) {
        Some(end) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

/// Pads all columns but the last, and ends each line.
pub(super) fn align(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max();
        COLUMN_WIDTH_MIN.max(widest.unwrap_or_default() + COLUMN_PADDING)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            match column + 1 == line.len() {
                true => text.push_str(cell),
                false => text.push_str(&format!("{cell:<width$}")),
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn services() -> Value {
        json!({
            "columnDefinitions": [
                {"name": "Name", "format": "name", "priority": 0},
                {"name": "Type", "priority": 0},
                {"name": "Selector", "priority": 1},
            ],
            "rows": [{
                "cells": ["s", "ClusterIP", null],
                "object": {"metadata": {"namespace": "default", "labels": {"l": "q", "k": ""}}},
            }],
        })
    }

    #[test]
    fn tables_have_kubectls_columns() {
        let narrow = table(&services(), "", Shown::default());
        assert_eq!(narrow, "NAME   TYPE\ns      ClusterIP\n");
        let bare = Shown {
            no_headers: true,
            ..Shown::default()
        };
        // A column is at least six wide.
        assert_eq!(table(&services(), "", bare), "s     ClusterIP\n");
        let all = Shown {
            wide: true,
            namespaces: true,
            labels: true,
            no_headers: false,
        };
        assert_eq!(
            table(&services(), "service/", all),
            "NAMESPACE   NAME        TYPE        SELECTOR   LABELS\n\
             default     service/s   ClusterIP   <none>     k=,l=q\n"
        );
        assert_eq!(table(&json!({"columnDefinitions": []}), "", all), "");
    }

    #[test]
    fn several_objects_are_a_list_and_one_is_itself() {
        let object =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
        let one = objects(vec![object.clone()], Format::Json, true);
        assert!(
            one.starts_with("{\n    \"apiVersion\": \"apps/v1\""),
            "{one}"
        );
        let list = objects(vec![object.clone()], Format::Yaml, false);
        assert!(
            list.starts_with("apiVersion: v1\nitems:\n- apiVersion: apps/v1\n"),
            "{list}"
        );
        let names = objects(vec![object.clone(), object], Format::Name, false);
        assert_eq!(names, "deployment.apps/web\ndeployment.apps/web\n");
    }

    #[test]
    fn other_formats_are_refused_with_the_known_ones() {
        assert_eq!(Format::read(Some("wide"), &["wide"]), Ok(None));
        assert_eq!(Format::read(None, &[]), Ok(None));
        let Err(Failure(why)) = Format::read(Some("xml"), &["wide"]) else {
            panic!("xml is no format");
        };
        assert!(
            why.ends_with("\"xml\", allowed formats are: json,name,wide,yaml"),
            "{why}"
        );
    }
}
