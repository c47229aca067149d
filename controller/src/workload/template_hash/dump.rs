//! A pod template as upstream's controllers print it before they hash it: every field of the Go
//! structs, absent ones included, with its type.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

use serde_json::Value;

use super::quantity;

/// The structs by name, fields in the order of their declaration.
pub(super) static STRUCTS: LazyLock<BTreeMap<&'static str, Vec<Field>>> =
    LazyLock::new(|| parse(include_str!("types.txt")));

const TEMPLATE: &str = "v1.PodTemplateSpec";
/// A time that was never set.
const ZERO_TIME: &str = "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}";
const NIL: &str = "<nil>";

pub(super) struct Field {
    name: &'static str,
    /// The field's name in JSON; None if the field's own fields are inlined into the struct.
    pub(super) key: Option<&'static str>,
    pub(super) type_: &'static str,
    /// The name of the type without its pointers and lists.
    behind: &'static str,
}

fn parse(text: &'static str) -> BTreeMap<&'static str, Vec<Field>> {
    let mut structs: BTreeMap<&str, Vec<Field>> = BTreeMap::new();
    let mut current = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('@') {
            current = name;
            structs.insert(name, Vec::new());
            continue;
        }
        let mut words = line.split(' ');
        let mut word = || words.next().expect("a field has three words");
        let (name, key, type_) = (word(), word(), word());
        let (type_, behind) = type_.split_once('=').unwrap_or((type_, ""));
        let fields = structs.get_mut(current).expect("a field is in a struct");
        fields.push(Field {
            name,
            key: (key != "-").then_some(key),
            type_,
            behind,
        });
    }
    structs
}

/// The dump of a template, given as JSON.
///
/// Source: `pkg/util/hash`, DeepHashObject; go-spew's format `%#v`.
pub(super) fn dump(template: &Value) -> String {
    let mut out = format!("({TEMPLATE})");
    write_value(&mut out, TEMPLATE, "", Some(template));
    out
}

/// `(type)` and the value: how a field is printed.
fn write_typed(out: &mut String, field: &Field, value: Option<&Value>) {
    out.push('(');
    out.push_str(field.type_);
    out.push(')');
    match field.type_.strip_prefix('*') {
        Some(_) if value.is_none_or(Value::is_null) => out.push_str(NIL),
        Some(pointed) => write_value(out, pointed, field.behind, value),
        None => write_value(out, field.type_, field.behind, value),
    }
}

fn write_value(out: &mut String, type_: &str, behind: &str, value: Option<&Value>) {
    let value = value.filter(|value| !value.is_null());
    let text = value.and_then(Value::as_str).unwrap_or_default();
    if let Some(item) = type_.strip_prefix("[]") {
        let items = value.and_then(Value::as_array).map(Vec::as_slice);
        return write_list(out, items.unwrap_or_default(), |out, one| {
            write_value(out, item, behind, Some(one));
        });
    }
    if let Some((_, values)) = type_.strip_prefix("map[").and_then(|t| t.split_once(']')) {
        // Sorted by key, as a `Map` is.
        let entries: Vec<_> = value
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .collect();
        if !entries.is_empty() {
            out.push_str("map");
        }
        return write_list(out, &entries, |out, (key, one)| {
            out.push_str(key);
            out.push(':');
            write_value(out, values, "", Some(one));
        });
    }
    match type_ {
        "string" | "types.UID" => out.push_str(text),
        "bool" => out.push_str(match value {
            Some(Value::Bool(true)) => "true",
            _ => "false",
        }),
        "int32" | "int64" => write_integer(out, value),
        "intstr.IntOrString" => {
            let kind = u8::from(value.is_some_and(Value::is_string));
            out.push_str("{Type:(intstr.Type)");
            write!(out, "{kind} IntVal:(int32)").expect("a string takes everything");
            write_integer(out, value);
            out.push_str(" StrVal:(string)");
            out.push_str(text);
            out.push('}');
        }
        "resource.Quantity" => quantity::write(out, text),
        // No template was ever created.
        "v1.Time" => out.push_str(ZERO_TIME),
        _ => match STRUCTS.get(type_) {
            Some(fields) => write_struct(out, fields, value),
            None => write_value(out, behind, "", value),
        },
    }
}

fn write_integer(out: &mut String, value: Option<&Value>) {
    let number = value.and_then(Value::as_i64).unwrap_or(0);
    write!(out, "{number}").expect("a string takes everything");
}

/// Writes items in brackets; an empty list counts as nil, as in protobuf.
fn write_list<T>(out: &mut String, items: &[T], mut write: impl FnMut(&mut String, &T)) {
    if items.is_empty() {
        return out.push_str(NIL);
    }
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        write(out, item);
    }
    out.push(']');
}

fn write_struct(out: &mut String, fields: &[Field], value: Option<&Value>) {
    out.push('{');
    for (index, field) in fields.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        out.push_str(field.name);
        out.push(':');
        let own = match field.key {
            Some(key) => value.and_then(|value| value.get(key)),
            None => value,
        };
        write_typed(out, field, own);
    }
    out.push('}');
}
