//! Faults of an object's fields, worded as apimachinery's `field.Error`.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;

use crate::gvk::GroupKind;
use crate::json::{Value, html_escape};

/// One entry of `details.causes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Machine-readable class, may be empty.
    pub reason: String,
    /// The description of the fault.
    pub message: String,
    /// Field path, may be empty.
    pub field: String,
}

impl Cause {
    pub(super) fn to_value(&self) -> Value {
        let mut cause = crate::json::Map::new();
        for (key, value) in [
            ("reason", &self.reason),
            ("message", &self.message),
            ("field", &self.field),
        ] {
            if !value.is_empty() {
                cause.insert(key.to_owned(), value.as_str().into());
            }
        }
        Value::Object(cause)
    }
}

/// The classes of field faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CauseReason {
    /// A field is missing.
    Required,
    /// A value is taken by another object.
    Duplicate,
    /// A value is malformed.
    Invalid,
    /// A value is not one of the allowed values.
    NotSupported,
    /// A field may not be set, or not changed.
    Forbidden,
    /// A value is too long.
    TooLong,
    /// A list has too many entries.
    TooMany,
    /// A referenced value does not exist.
    NotFound,
    /// A value has the wrong type.
    TypeInvalid,
    /// The validity of a value cannot be determined.
    Internal,
}

impl CauseReason {
    /// The `reason` of the cause.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }
}

/// A path to a field, printed `spec.containers[0].name` or `metadata.labels[a/b]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPath(String);

thread_local! {
    /// Whether paths have no text, as it is only asked whether there is a fault.
    static ARE_PATHS_BARE: Cell<bool> = const { Cell::new(false) };
}

/// Lets paths have no text while `search` runs.
fn with_bare_paths<T>(search: impl FnOnce() -> T) -> T {
    /// Ends it, also when the search panics.
    struct Restored(bool);

    impl Drop for Restored {
        fn drop(&mut self) {
            ARE_PATHS_BARE.set(self.0);
        }
    }

    let _restored = Restored(ARE_PATHS_BARE.replace(true));
    search()
}

impl FieldPath {
    /// The path of a top-level field, or a dotted path of several.
    #[must_use]
    pub fn new(path: &str) -> Self {
        match ARE_PATHS_BARE.get() {
            true => Self::default(),
            false => Self(path.to_owned()),
        }
    }

    /// The path of field `name` below this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if ARE_PATHS_BARE.get() {
            Self::default()
        } else if self.0.is_empty() {
            Self(name.to_owned())
        } else {
            Self([&self.0, ".", name].concat())
        }
    }

    /// The path of item `index` of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        match ARE_PATHS_BARE.get() {
            true => Self::default(),
            false => Self([&self.0, "[", &index.to_string(), "]"].concat()),
        }
    }

    /// The path of entry `key` of this map.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        match ARE_PATHS_BARE.get() {
            true => Self::default(),
            false => Self([&self.0, "[", key, "]"].concat()),
        }
    }
}

/// The warnings that `search` finds. Most objects have none, so it first runs without the texts of paths, and with them
/// only if it has found something. What it finds may not depend on these texts.
pub fn found_warnings(search: impl Fn() -> Vec<String>) -> Vec<String> {
    let found = with_bare_paths(&search);
    match found.is_empty() {
        true => found,
        false => search(),
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Every fault of one object, in the order upstream visits its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors {
    causes: Vec<Cause>,
    /// Sizes and warnings, boxed as most values have neither: errors are passed around and stay
    /// small.
    rest: Option<Box<Rest>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rest {
    /// Bytes of all causes.
    bytes: usize,
    warnings: Vec<String>,
}

/// Bytes of causes that are kept. Every item of a request may fault, but where each fault quotes
/// the whole list no client waits for the outcome.
const BYTES_MAX: usize = 64 * 1024 * 1024;

impl FieldErrors {
    /// No faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// No faults, but something to warn of.
    #[must_use]
    pub fn with_warnings(warnings: Vec<String>) -> Self {
        let rest = (!warnings.is_empty()).then_some(Rest { bytes: 0, warnings });
        Self {
            causes: Vec::new(),
            rest: rest.map(Box::new),
        }
    }

    /// The faults that `search` finds. Most objects have none, so it first runs without the texts of paths, and with
    /// them only if it has found something. What it finds may not depend on these texts.
    pub fn found_by(search: impl Fn() -> Self) -> Self {
        let found = with_bare_paths(&search);
        match found.is_empty() && found.warnings().is_empty() {
            true => found,
            false => search(),
        }
    }

    fn rest_mut(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }

    /// Whether there are more faults than a response can list; further faults are dropped.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.rest
            .as_ref()
            .is_some_and(|rest| rest.bytes > BYTES_MAX)
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.causes.is_empty()
    }

    /// The faults as causes of a status.
    #[must_use]
    pub fn causes(&self) -> &[Cause] {
        &self.causes
    }

    /// The faults in the order of their texts.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.causes
            .sort_by_key(|cause| format!("{}: {}", cause.field, cause.message));
        self
    }

    /// Faults that are forgiven, and only worth a warning.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        self.rest
            .as_ref()
            .map_or(&[], |rest| rest.warnings.as_slice())
    }

    /// Takes over the faults of `other` as forgiven ones.
    pub fn forgive(&mut self, other: &Self) {
        let shown = |cause: &Cause| format!("{}: {}", cause.field, cause.message);
        let causes = other.causes.iter().map(shown);
        self.rest_mut().warnings.extend(causes);
    }

    /// Takes over the faults of `other`, behind those held.
    pub fn extend(&mut self, other: Self) {
        self.causes.extend(other.causes);
        if let Some(other) = other.rest {
            let rest = self.rest_mut();
            rest.bytes = rest.bytes.saturating_add(other.bytes);
            rest.warnings.extend(other.warnings);
        }
    }

    /// `Required value[: detail]`.
    pub fn required(&mut self, path: &FieldPath, detail: &str) {
        self.push(
            CauseReason::Required,
            path,
            with_detail("Required value", detail),
        );
    }

    /// `Invalid value: <value>: detail`.
    pub fn invalid(&mut self, path: &FieldPath, value: &Value, detail: &str) {
        if self.is_full() {
            return;
        }
        let text = with_detail(&format!("Invalid value: {}", show(value)), detail);
        self.push(CauseReason::Invalid, path, text);
    }

    /// `Duplicate value: <value>`.
    pub fn duplicate(&mut self, path: &FieldPath, value: &Value) {
        self.push(
            CauseReason::Duplicate,
            path,
            format!("Duplicate value: {}", show(value)),
        );
    }

    /// `Forbidden: detail`.
    pub fn forbidden(&mut self, path: &FieldPath, detail: &str) {
        self.push(
            CauseReason::Forbidden,
            path,
            with_detail("Forbidden", detail),
        );
    }

    /// `Not found: <value>`.
    pub fn not_found(&mut self, path: &FieldPath, value: &Value) {
        self.push(
            CauseReason::NotFound,
            path,
            format!("Not found: {}", show(value)),
        );
    }

    /// `Unsupported value: <value>: supported values: "a", "b"`; `supported` in the order given.
    pub fn not_supported(&mut self, path: &FieldPath, value: &Value, supported: &[&str]) {
        let list = supported
            .iter()
            .map(|own| quoted(own))
            .collect::<Vec<_>>()
            .join(", ");
        let text = with_detail(
            &format!("Unsupported value: {}", show(value)),
            &if list.is_empty() {
                String::new()
            } else {
                format!("supported values: {list}")
            },
        );
        self.push(CauseReason::NotSupported, path, text);
    }

    /// `Too long: may not be more than <max> bytes`, or `1 byte`.
    pub fn too_long(&mut self, path: &FieldPath, max: usize) {
        let bytes = if max == 1 { "byte" } else { "bytes" };
        let text = format!("Too long: may not be more than {max} {bytes}");
        self.push(CauseReason::TooLong, path, text);
    }

    /// `Too many: <actual>: must have at most <max> items`, or `1 item`.
    pub fn too_many(&mut self, path: &FieldPath, actual: usize, max: usize) {
        let items = if max == 1 { "item" } else { "items" };
        let text = format!("Too many: {actual}: must have at most {max} {items}");
        self.push(CauseReason::TooMany, path, text);
    }

    /// A fault whose text does not follow one of the forms above.
    pub fn push(&mut self, reason: CauseReason, path: &FieldPath, message: String) {
        if self.is_full() {
            return;
        }
        self.rest_mut().bytes += path.0.len() + message.len();
        self.causes.push(Cause {
            reason: reason.as_str().to_owned(),
            message,
            field: path.to_string(),
        });
    }
}

fn with_detail(head: &str, detail: &str) -> String {
    if detail.is_empty() {
        head.to_owned()
    } else {
        format!("{head}: {detail}")
    }
}

/// A value as Go prints it in a field error: strings quoted, null as `null`, the rest as JSON.
fn show(value: &Value) -> String {
    // The one struct in many of them whose fields are not in the order of the alphabet.
    let (labels, expressions) = (value.get("matchLabels"), value.get("matchExpressions"));
    match (value.as_object(), labels, expressions) {
        (Some(fields), Some(labels), Some(expressions)) if fields.len() == 2 => {
            let shown = format!("{{\"matchLabels\":{labels},\"matchExpressions\":{expressions}}}");
            html_escape(&shown).into_owned()
        }
        _ => match value {
            Value::String(text) => quoted(text),
            _ => html_escape(&value.to_string()).into_owned(),
        },
    }
}

/// A text as Go's `%q` writes it.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\0'..=' ' | '\u{7f}' if letter != ' ' => {
                quoted.push_str(&format!("\\x{:02x}", u32::from(letter)));
            }
            _ if is_printable(letter) => quoted.push(letter),
            '\0'..='\u{ffff}' => quoted.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => quoted.push_str(&format!("\\U{:08x}", u32::from(letter))),
        }
    }
    quoted.push('"');
    quoted
}

/// Whether Go prints a character as it is: letters, marks, numbers, punctuation, symbols and the ASCII space.
fn is_printable(letter: char) -> bool {
    // A mark alone would be escaped, but not after another letter.
    letter.is_ascii()
        || ['a', letter]
            .iter()
            .collect::<String>()
            .escape_debug()
            .count()
            == 2
}

/// Several errors as upstream's aggregate words them: each once, in brackets unless it is the only
/// one. `None` without errors.
pub fn aggregate(errors: impl IntoIterator<Item = String>) -> Option<String> {
    let all: Vec<String> = errors.into_iter().collect();
    let mut seen = BTreeSet::new();
    let distinct = all.iter().map(String::as_str);
    let distinct: Vec<&str> = distinct.filter(|error| seen.insert(*error)).collect();
    match distinct.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

impl fmt::Display for FieldErrors {
    /// All of them, each once, as the aggregate of upstream's field errors has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |cause: &Cause| format!("{}: {}", cause.field, cause.message);
        let all = aggregate(self.causes.iter().map(shown));
        f.write_str(all.as_deref().unwrap_or("[]"))
    }
}

pub(super) fn invalid_message(kind: &GroupKind, name: &str, errors: &FieldErrors) -> String {
    format!("{kind} {} is invalid: {errors}", quoted(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fault of a value that is not null.
    fn search(value: &Value, searches: &Cell<usize>) -> FieldErrors {
        searches.set(searches.get() + 1);
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("spec").child("list").index(3).key("a");
        if !value.is_null() {
            errors.required(&path, "");
        }
        errors
    }

    #[test]
    fn faults_have_their_paths_and_what_has_none_is_searched_once() {
        let searches = Cell::new(0);
        let none = FieldErrors::found_by(|| search(&Value::Null, &searches));
        assert_eq!((none.is_empty(), searches.take()), (true, 1));
        let found = FieldErrors::found_by(|| search(&true.into(), &searches));
        assert_eq!(found.causes()[0].field, "spec.list[3][a]");
        assert_eq!(searches.take(), 2);
        let forgiven = FieldErrors::found_by(|| {
            let mut errors = FieldErrors::new();
            errors.forgive(&search(&true.into(), &searches));
            errors
        });
        assert_eq!(forgiven.warnings(), ["spec.list[3][a]: Required value"]);
        let warnings = found_warnings(|| vec![FieldPath::new("a").child("b").to_string()]);
        assert_eq!(warnings, ["a.b"]);
        assert_eq!(found_warnings(Vec::new), [""; 0]);
    }

    #[test]
    fn a_search_that_panics_leaves_later_paths_their_texts() {
        let panics = || -> FieldErrors { panic!("a search") };
        let caught = std::panic::catch_unwind(|| FieldErrors::found_by(panics));
        assert!(caught.is_err());
        assert_eq!(FieldPath::new("a").child("b").to_string(), "a.b");
    }
}
