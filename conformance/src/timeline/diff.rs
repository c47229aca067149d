//! The fields in which two objects differ, as `path: old → new`.

use std::collections::{BTreeMap, BTreeSet};

use kubeproof_machinery::json::{SmolStr, Value};

use super::conditions;

/// More differing fields than this are counted only.
const FIELDS_MAX: usize = 12;

/// Differences below `path`, in field order; at most [`FIELDS_MAX`], then how many more.
pub(crate) fn fields(path: &str, old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(path, old, new, &mut found);
    if found.len() > FIELDS_MAX {
        let more = found.len() - FIELDS_MAX;
        found.truncate(FIELDS_MAX);
        found.push(format!("and {more} more fields"));
    }
    found
}

fn collect(path: &str, old: &Value, new: &Value, found: &mut Vec<String>) {
    if old == new {
        return;
    }
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            let mut keys: Vec<&SmolStr> = before.keys().chain(after.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                if key == "conditions" && [old, new].into_iter().all(conditions::has_only) {
                    let changes = conditions::changes(old, new).into_iter();
                    found.extend(changes.map(|change| format!("{path} {change}")));
                    continue;
                }
                let path = if path.is_empty() {
                    key.to_string()
                } else {
                    format!("{path}.{key}")
                };
                collect(&path, &old[key], &new[key], found);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (old, new)) in before.iter().zip(after).enumerate() {
                let name = new["name"].as_str().map(str::to_owned);
                let item = name.unwrap_or_else(|| index.to_string());
                collect(&format!("{path}[{item}]"), old, new, found);
            }
        }
        (Value::Array(before), Value::Array(after)) => match (named(before), named(after)) {
            (Some(before), Some(after)) => {
                let names: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
                for name in names {
                    let item = |items: &BTreeMap<&str, &Value>| {
                        items.get(name).map_or(Value::Null, |item| (*item).clone())
                    };
                    let path = format!("{path}[{name}]");
                    collect(&path, &item(&before), &item(&after), found);
                }
            }
            _ => found.push(format!("{path} {} → {}", shown(old), shown(new))),
        },
        _ => found.push(format!("{path} {} → {}", shown(old), shown(new))),
    }
}

/// Returns the items of a list by name, or `None` if an item has no name or two have the same name.
fn named(items: &[Value]) -> Option<BTreeMap<&str, &Value>> {
    let names = items
        .iter()
        .map(|item| Some((item["name"].as_str()?, item)));
    let named: BTreeMap<_, _> = names.collect::<Option<_>>()?;
    (named.len() == items.len() && !items.is_empty()).then_some(named)
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "unset".to_owned(),
        // A text that is empty or has several lines is in quotes.
        Value::String(text) if !text.is_empty() && !text.contains(char::is_control) => {
            text.to_string()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::*;

    #[test]
    fn items_of_a_list_are_called_by_their_name() {
        let pod = |image| json!({"spec": {"containers": [{"name": "nginx", "image": image}]}});
        assert_eq!(
            fields("", &pod("nginx:1.25"), &pod("nginx:1.26")),
            ["spec.containers[nginx].image nginx:1.25 → nginx:1.26"]
        );
    }

    #[test]
    fn conditions_within_a_status_are_told_by_type() {
        let status = |ready: &str, time: u32| {
            let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": time});
            json!({"listeners": [{"name": "web", "conditions": [condition]}]})
        };
        assert_eq!(
            fields("status", &status("False", 1), &status("True", 2)),
            ["status.listeners[web] Ready True"]
        );
        let others = |text: &str| json!({"rule": {"conditions": [text]}});
        assert_eq!(
            fields("spec", &others("a"), &others("b")),
            ["spec.rule.conditions[0] a → b"],
            "what has no type and status is no condition"
        );
    }

    #[test]
    fn a_text_of_lines_is_one_line() {
        let found = fields("", &json!({"a": "b"}), &json!({"a": "b\nc"}));
        assert_eq!(found, [r#"a b → "b\nc""#]);
    }

    #[test]
    fn an_empty_string_is_visible() {
        let found = fields("", &json!({"a": ""}), &json!({"a": "b", "c": ""}));
        assert_eq!(found, [r#"a "" → b"#, r#"c unset → """#]);
    }

    #[test]
    fn items_that_come_and_go_are_told_by_their_name() {
        let volumes = |names: &[&str]| -> Value {
            let volumes = names
                .iter()
                .map(|name| json!({"name": name, "emptyDir": {}}));
            json!({"volumes": volumes.collect::<Vec<_>>()})
        };
        assert_eq!(
            fields("", &volumes(&["a", "b"]), &volumes(&["b", "c", "d"])),
            [
                r#"volumes[a] {"emptyDir":{},"name":"a"} → unset"#,
                r#"volumes[c] unset → {"emptyDir":{},"name":"c"}"#,
                r#"volumes[d] unset → {"emptyDir":{},"name":"d"}"#,
            ]
        );
        let arguments = fields("", &json!({"args": ["a"]}), &json!({"args": ["a", "b"]}));
        assert_eq!(arguments, [r#"args ["a"] → ["a","b"]"#]);
    }

    #[test]
    fn many_differences_are_counted() {
        let new: Value = (0..15).map(|n| (format!("f{n}"), json!(n))).collect();
        let found = fields("", &json!({}), &new);
        assert_eq!(found.len(), FIELDS_MAX + 1);
        assert_eq!(found.last().unwrap(), "and 3 more fields");
    }
}
