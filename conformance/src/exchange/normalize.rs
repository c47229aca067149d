//! Maps legitimate differences between two servers to stable marks.
//!
//! A mark keeps the comparable part: the same uid is the same `<uid1>` in all answers of a case, a generated name
//! keeps its prefix and length, and a version of `""` or `"0"` stays.

mod table;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use kubeproof_machinery::json::{Map, Value};
use regex::{Captures, Regex};

static UUID: LazyLock<Regex> =
    LazyLock::new(|| pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?Z")
});
/// Versions within messages and within JSON that is itself a string.
static VERSION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"(ResourceVersion in (?:precondition: |object meta: |record \()",
        r#"|resourceVersion\\*":\\*"|resource version: [0-9]+, current: "#,
        r"|too old resource version: [0-9]+ \()[0-9]+",
    ))
});

fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern")
}

/// Normalizes the answers of one case, in their order.
#[derive(Debug, Default)]
pub(super) struct Normalizer {
    marks: BTreeMap<String, String>,
}

impl Normalizer {
    /// `value` with marks. Fields are visited in the order of their names, which numbers the uids.
    pub(super) fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => match table::normalized(fields) {
                Some(table) => self.object(&table),
                None => self.object(fields),
            },
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::String(text) => self.text(text).into(),
            other => other.clone(),
        }
    }

    fn object(&mut self, fields: &Map) -> Value {
        let generate_name = fields.get("generateName").and_then(Value::as_str);
        let marked = fields.iter().map(|(key, value)| {
            let mark = mark(key, value, generate_name);
            (key.clone(), mark.unwrap_or_else(|| self.value(value)))
        });
        marked.collect()
    }

    fn text(&mut self, text: &str) -> String {
        let text = UUID.replace_all(text, |uuid: &Captures<'_>| {
            let next = self.marks.len() + 1;
            let mark = self.marks.entry(uuid[0].to_owned());
            mark.or_insert_with(|| format!("<uid{next}>")).clone()
        });
        let text = TIME.replace_all(&text, "<time>");
        VERSION.replace_all(&text, "${1}<rv>").into_owned()
    }
}

/// Returns the placeholder under which a field is compared, for fields whose name decides that.
fn mark(key: &str, value: &Value, generate_name: Option<&str>) -> Option<Value> {
    match (key, value) {
        ("resourceVersion", Value::String(version)) if !matches!(version.as_str(), "" | "0") => {
            Some("<rv>".into())
        }
        ("continue", value) if !is_empty(value) => Some("<continue>".into()),
        ("name", Value::String(name)) => {
            let prefix = generate_name.filter(|prefix| !prefix.is_empty())?;
            let random = name.strip_prefix(prefix)?.chars().count();
            Some(format!("{prefix}<rand:{random}>").into())
        }
        ("clusterIP", Value::String(address)) if is_service_address(address) => Some("<ip>".into()),
        ("clusterIPs", Value::Array(addresses)) => {
            let marked = addresses.iter().map(|address| match address.as_str() {
                Some(text) if is_service_address(text) => "<ip>".into(),
                _ => address.clone(),
            });
            Some(marked.collect())
        }
        ("nodePort", Value::Number(port)) if !port.is_f64() && port.as_i64() != Some(0) => {
            Some("<port>".into())
        }
        _ => None,
    }
}

/// Whether it is of the services' range, wherever within 10.0.0.0/8 that is.
fn is_service_address(address: &str) -> bool {
    address.starts_with("10.")
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::*;

    fn normalized(value: Value) -> Value {
        Normalizer::default().value(&value)
    }

    #[test]
    fn the_same_uid_is_the_same_mark_in_all_answers() {
        let mut normalizer = Normalizer::default();
        let (one, two) = (
            "11111111-2222-4333-8444-555555555555",
            "99999999-2222-4333-8444-555555555555",
        );
        let first = normalizer.value(&json!({"b": one, "a": format!("{two}/{one}")}));
        assert_eq!(first, json!({"a": "<uid1>/<uid2>", "b": "<uid2>"}));
        assert_eq!(normalizer.value(&json!(one)), json!("<uid2>"));
    }

    #[test]
    fn versions_are_marked_in_fields_and_in_messages() {
        let value = json!({
            "resourceVersion": "12",
            "zero": {"resourceVersion": "0"},
            "message": "Precondition failed: ResourceVersion in precondition: 7, \
                ResourceVersion in object meta: 9",
            "old": "too old resource version: 1 (45)",
            "nested": r#"{\"resourceVersion\":\"31\"}"#,
        });
        let expected = json!({
            "resourceVersion": "<rv>",
            "zero": {"resourceVersion": "0"},
            "message": "Precondition failed: ResourceVersion in precondition: <rv>, \
                ResourceVersion in object meta: <rv>",
            "old": "too old resource version: 1 (<rv>)",
            "nested": r#"{\"resourceVersion\":\"<rv>\"}"#,
        });
        assert_eq!(normalized(value), expected);
    }

    #[test]
    fn what_a_server_draws_or_allocates_is_marked() {
        let value = json!({
            "metadata": {"generateName": "web-", "name": "web-x2b4c"},
            "continue": "token", "remainingItemCount": 3,
            "spec": {
                "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9", "fd00::1"],
                "ports": [{"nodePort": 30001}, {"nodePort": 0}],
            },
            "time": "at 2026-01-01T00:00:00.000001Z",
        });
        let expected = json!({
            "metadata": {"generateName": "web-", "name": "web-<rand:5>"},
            "continue": "<continue>", "remainingItemCount": 3,
            "spec": {
                "clusterIP": "<ip>", "clusterIPs": ["<ip>", "fd00::1"],
                "ports": [{"nodePort": "<port>"}, {"nodePort": 0}],
            },
            "time": "at <time>",
        });
        assert_eq!(normalized(value), expected);
        let kept = json!({"clusterIP": "None", "continue": "", "name": "a"});
        assert_eq!(normalized(kept.clone()), kept);
    }
}
