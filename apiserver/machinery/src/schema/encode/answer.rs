//! Answers in the order of upstream's types.

use super::{close, type_of, write_fields, write_object, write_plain, write_text};
use crate::json::Value;
use crate::meta::fields::unfolded;
use crate::meta::{GroupVersion, GroupVersionKind};
use crate::schema::{Object, builtin};

/// Writes an answer with its keys in the order of upstream's types: an object, a list of built-in
/// objects, a Table. Custom resources and lists of them have no type, and are sorted.
///
/// Answers how long the part up to and including `kind` and `apiVersion` is, where it comes first.
pub fn write_answer(text: &mut Vec<u8>, answer: &Value) -> usize {
    if type_of(answer).is_some() {
        return write_object(text, answer);
    }
    let field = |name: &str| answer[name].as_str().unwrap_or_default();
    let version = GroupVersion::parse(field("apiVersion"));
    let Some(version) = version.filter(|_| answer["metadata"].is_object()) else {
        return write_object(text, answer);
    };
    let is_meta = matches!(
        version.group.as_str(),
        "meta.k8s.io" | "apidiscovery.k8s.io"
    );
    if is_meta && field("kind") == "Table" {
        write_table(text, answer);
    } else if let Some(item) = item_type(&version, field("kind")) {
        write_in_order(text, answer, &LIST, |text, name, value| match name {
            "metadata" => write_in_order(text, value, &LIST_META, |text, _, value| {
                write_plain(text, value);
            }),
            "items" => write_each(text, value, |text, object| {
                text.push(b'{');
                if let Some(fields) = object.as_object() {
                    write_fields(text, fields, item, &[]);
                }
                close(text, b'}');
            }),
            _ => write_plain(text, value),
        });
    } else if is_meta {
        return write_object(text, answer);
    } else {
        write_plain(text, &unfolded(answer));
    }
    0
}

const LIST: [&str; 4] = ["kind", "apiVersion", "metadata", "items"];
const LIST_META: [&str; 4] = [
    "selfLink",
    "resourceVersion",
    "continue",
    "remainingItemCount",
];
const TABLE: [&str; 5] = [
    "kind",
    "apiVersion",
    "metadata",
    "columnDefinitions",
    "rows",
];
const COLUMN: [&str; 5] = ["name", "type", "format", "description", "priority"];
const ROW: [&str; 3] = ["cells", "conditions", "object"];

/// Returns the type of the items of a list of built-in objects.
fn item_type(version: &GroupVersion, list_kind: &str) -> Option<&'static Object> {
    let gvk = GroupVersionKind {
        group: version.group.clone(),
        version: version.version.clone(),
        kind: list_kind.strip_suffix("List")?.to_owned(),
    };
    builtin(&gvk).map(|object| &**object)
}

fn write_table(text: &mut Vec<u8>, table: &Value) {
    write_in_order(text, table, &TABLE, |text, name, value| match name {
        "metadata" => write_in_order(text, value, &LIST_META, |text, _, value| {
            write_plain(text, value);
        }),
        "columnDefinitions" => write_each(text, value, |text, column| {
            write_in_order(text, column, &COLUMN, |text, _, value| {
                write_plain(text, value)
            });
        }),
        "rows" => write_each(text, value, |text, row| {
            write_in_order(text, row, &ROW, |text, name, value| match name {
                "object" => {
                    write_answer(text, value);
                }
                _ => write_plain(text, value),
            });
        }),
        _ => write_plain(text, value),
    });
}

/// Writes the fields of `order`, and after them all others.
fn write_in_order(
    text: &mut Vec<u8>,
    value: &Value,
    order: &[&str],
    write: impl Fn(&mut Vec<u8>, &str, &Value),
) {
    let Some(fields) = value.as_object() else {
        return write_plain(text, value);
    };
    text.push(b'{');
    let known = order.iter().filter_map(|name| fields.get_key_value(name));
    let others = fields
        .iter()
        .filter(|(name, _)| !order.contains(&name.as_str()));
    for (name, value) in known.chain(others) {
        write_text(text, name);
        text.push(b':');
        write(text, name, value);
        text.push(b',');
    }
    close(text, b'}');
}

fn write_each(text: &mut Vec<u8>, items: &Value, write: impl Fn(&mut Vec<u8>, &Value)) {
    let Some(items) = items.as_array() else {
        return write_plain(text, items);
    };
    text.push(b'[');
    for item in items {
        write(text, item);
        text.push(b',');
    }
    close(text, b']');
}
