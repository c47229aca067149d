//! How one JSON document becomes another, as operations of a JSON patch.

use serde_json::Value;

/// The kind of a JSON patch operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Adds a value.
    Add,
    /// Removes a value.
    Remove,
    /// Replaces a value by another.
    Replace,
}

impl Verb {
    /// As a JSON patch has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Remove => "remove",
            Self::Replace => "replace",
        }
    }
}

/// An operation of a JSON patch.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation<'a> {
    /// The kind of the operation.
    pub verb: Verb,
    /// The path, a JSON pointer.
    pub path: String,
    /// The new value; null for a removal.
    pub value: &'a Value,
}

/// The operations that make `old` into `new`, in the order of fields.
///
/// Lists are compared item by item, so an item inserted in front changes all items after it.
/// Source:
/// gomodules.xyz/jsonpatch, which visits fields in random order and looks for the shortest edit
/// only in lists of scalars.
#[must_use]
pub fn diff<'a>(old: &Value, new: &'a Value) -> Vec<Operation<'a>> {
    let mut operations = Vec::new();
    collect("", old, new, &mut operations);
    operations
}

fn collect<'a>(path: &str, old: &Value, new: &'a Value, found: &mut Vec<Operation<'a>>) {
    if old == new {
        return;
    }
    let mut push = |verb, path: String, value| found.push(Operation { verb, path, value });
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                match (before.get(key), after.get(key)) {
                    (Some(old), Some(new)) => collect(&path, old, new, found),
                    (None, Some(new)) => found.push(Operation {
                        verb: Verb::Add,
                        path,
                        value: new,
                    }),
                    (_, None) => found.push(Operation {
                        verb: Verb::Remove,
                        path,
                        value: &Value::Null,
                    }),
                }
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            let both = before.len().min(after.len());
            for index in (both..before.len()).rev() {
                push(Verb::Remove, format!("{path}/{index}"), &Value::Null);
            }
            for (index, value) in after.iter().enumerate().skip(both) {
                push(Verb::Add, format!("{path}/{index}"), value);
            }
            for (index, (old, new)) in before.iter().zip(after).enumerate() {
                collect(&format!("{path}/{index}"), old, new, found);
            }
        }
        (Value::Null, _) => push(Verb::Add, path.to_owned(), new),
        _ => push(Verb::Replace, path.to_owned(), new),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn operations(old: &Value, new: &Value) -> Vec<String> {
        diff(old, new)
            .iter()
            .map(|one| format!("{} {} {}", one.verb.as_str(), one.path, one.value))
            .collect()
    }

    #[test]
    fn differences_are_listed_by_path() {
        let old = json!({"a": {"b/c": 1, "gone": true}, "list": [{"x": 1}, {"x": 2}], "n": null});
        let new = json!({"a": {"b/c": 2, "new": "v"}, "list": [{"x": 3}], "n": 1});
        assert_eq!(
            operations(&old, &new),
            [
                "replace /a/b~1c 2",
                "remove /a/gone null",
                "add /a/new \"v\"",
                "remove /list/1 null",
                "replace /list/0/x 3",
                "add /n 1",
            ]
        );
        assert!(diff(&old, &old).is_empty());
    }
}
