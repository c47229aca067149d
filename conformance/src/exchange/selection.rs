//! The part of an answer that a step compares, and the parts it saves or leaves out.

use kubeproof_machinery::json::Value;

use super::format::Pick;
use super::variables::Variables;

/// An answer without a part that a step wants.
///
/// The message does not quote the answer: it is part of recordings.
#[derive(Debug, thiserror::Error)]
#[error("there is no {0}")]
pub(super) struct Missing(String);

/// Returns the value at `path`, names and indexes separated by dots; `~` stands for a dot in a name. A path that goes
/// below a scalar gives null.
pub(super) fn dig<'a>(value: &'a Value, path: &str) -> Result<&'a Value, Missing> {
    let mut at = value;
    for part in path.split('.') {
        at = match at {
            Value::Array(_) => part
                .parse()
                .ok()
                .and_then(|index| element(at, index))
                .ok_or_else(|| Missing(part.to_owned()))?,
            Value::Object(fields) => fields
                .get(&part.replace('~', "."))
                .ok_or_else(|| Missing(part.to_owned()))?,
            _ => return Ok(&Value::Null),
        };
    }
    Ok(at)
}

fn element(array: &Value, index: i64) -> Option<&Value> {
    let items = array.as_array()?;
    let position = if index < 0 {
        items
            .len()
            .checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?
    } else {
        usize::try_from(index).ok()?
    };
    items.get(position)
}

/// Returns the value at `path`; null where no element has the values asked for.
pub(super) fn pick(body: &Value, path: &[Pick], variables: &Variables) -> Result<Value, Missing> {
    let mut at = body;
    for step in path {
        at = match step {
            Pick::Key(key) => {
                let key = variables.text(key);
                at.get(&key).ok_or(Missing(key))?
            }
            Pick::Index(index) => element(at, *index).ok_or_else(|| Missing(index.to_string()))?,
            Pick::First(wanted) => {
                let items = at.as_array().ok_or_else(|| Missing("list".to_owned()))?;
                let mut first = &Value::Null;
                for item in items {
                    let mut matches = true;
                    for (path, value) in wanted {
                        let path = variables.text(path);
                        if *dig(item, &path)? != variables.value(value) {
                            matches = false;
                            break;
                        }
                    }
                    if matches {
                        first = item;
                        break;
                    }
                }
                first
            }
        };
    }
    Ok(at.clone())
}

/// Removes the value at `path`, if it exists; `*` stands for each field or element.
pub(super) fn drop_path(value: &mut Value, path: &[&str]) {
    let Some((part, below)) = path.split_first() else {
        return;
    };
    match value {
        Value::Object(fields) if below.is_empty() => {
            if *part == "*" {
                fields.clear();
            } else {
                fields.remove(part);
            }
        }
        Value::Object(fields) => {
            for (key, field) in fields {
                if *part == "*" || key == part {
                    drop_path(field, below);
                }
            }
        }
        // An element itself is never removed: that would renumber those after it.
        Value::Array(items) if !below.is_empty() => {
            for (index, item) in items.iter_mut().enumerate() {
                if *part == "*" || part.parse() == Ok(index) {
                    drop_path(item, below);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::{from_value, json};

    use super::*;

    #[test]
    fn values_are_found_by_path() {
        let value = json!({"a": [{"b.c": 1}, {"b.c": 2}], "s": "x"});
        assert_eq!(*dig(&value, "a.1.b~c").unwrap(), 2);
        assert_eq!(*dig(&value, "a.-1.b~c").unwrap(), 2);
        assert_eq!(*dig(&value, "s.t").unwrap(), Value::Null);
        assert!(dig(&value, "a.2").is_err());
        assert!(dig(&value, "z").is_err());
    }

    #[test]
    fn a_part_is_picked_by_key_index_and_value() {
        let variables = Variables::of_case("me");
        let body = json!({"items": [{"m": {"name": "x"}}, {"m": {"name": "me"}}]});
        let picked = |path: Value| {
            let path: Vec<Pick> = from_value(path).unwrap();
            pick(&body, &path, &variables)
        };
        assert_eq!(picked(json!(["items", 0, "m"])).unwrap()["name"], "x");
        let named = picked(json!(["items", {"m.name": "${id}"}])).unwrap();
        assert_eq!(named["m"]["name"], "me");
        assert_eq!(
            picked(json!(["items", {"m.name": "y"}])).unwrap(),
            Value::Null
        );
        let missing = picked(json!(["things"])).unwrap_err().to_string();
        assert_eq!(missing, "there is no things");
    }

    #[test]
    fn paths_are_dropped_with_wildcards_but_never_elements() {
        let dropped = |path: &[&str]| {
            let mut value = json!({"a": [{"x": 1, "y": 1}, {"x": 2}], "b": {"x": 3}});
            drop_path(&mut value, path);
            value
        };
        let all = json!({"a": [{"y": 1}, {}], "b": {"x": 3}});
        assert_eq!(dropped(&["a", "*", "x"]), all);
        let one = json!({"a": [{"y": 1}, {"x": 2}], "b": {"x": 3}});
        assert_eq!(dropped(&["a", "0", "x"]), one);
        assert_eq!(dropped(&["*"]), json!({}));
        assert_eq!(dropped(&["a", "0"]), dropped(&["nothing", "here"]));
    }
}
