//! The position of the reader in a document, and the faults found so far.

use super::super::Field;
use super::super::inlined::embedded;
use crate::status::quoted;

/// Upstream lists no more strict faults than this.
const STRICT_FAULTS_MAX: usize = 100;

/// Whether the reader tracks its position, so that faults name their full path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traces {
    No,
    /// In a text, whose numbers are read as they are spelled.
    InText,
    /// In a value.
    InValue,
}

/// The position of the reader, and the faults found so far.
pub(super) struct State<'s> {
    pub(super) traces: Traces,
    /// The innermost struct.
    object: &'s str,
    /// The fields on the way to the value; entries of maps and lists are not named.
    fields: String,
    /// Whether unknown and duplicate fields are looked for.
    pub(super) checks: bool,
    /// The whole path to the value, kept only when it is needed.
    path: String,
    pub(super) strict: Vec<String>,
    /// The first value of a wrong type.
    pub(super) mismatch: Option<String>,
    /// A value that its type refused.
    pub(super) refused: Option<String>,
}

/// How far the paths of a [`State`] reached before a step down.
pub(super) struct Mark<'s> {
    object: &'s str,
    fields: usize,
    path: usize,
}

impl<'s> State<'s> {
    pub(super) fn new(checks: bool, traces: Traces) -> Self {
        Self {
            traces,
            object: "",
            fields: String::new(),
            checks,
            path: String::new(),
            strict: Vec::new(),
            mismatch: None,
            refused: None,
        }
    }

    pub(super) fn mark(&self) -> Mark<'s> {
        Mark {
            object: self.object,
            fields: self.fields.len(),
            path: self.path.len(),
        }
    }

    pub(super) fn back_to(&mut self, mark: &Mark<'s>) {
        self.object = mark.object;
        self.fields.truncate(mark.fields);
        self.path.truncate(mark.path);
    }

    pub(super) fn enter_key(&mut self, key: &str) {
        if self.checks && self.traces != Traces::No {
            join(&mut self.path, key);
        }
    }

    pub(super) fn enter_index(&mut self, index: usize) {
        if self.checks && self.traces != Traces::No {
            self.path.push_str(&format!("[{index}]"));
        }
    }

    pub(super) fn enter_field(&mut self, object: &'s str, field: &Field) {
        if self.traces == Traces::No {
            return;
        }
        self.object = object;
        for name in embedded(object, field) {
            join(&mut self.fields, name);
        }
        join(&mut self.fields, &field.name);
        self.enter_key(&field.name);
    }

    pub(super) fn strict_fault(&mut self, fault: &str, key: &str) {
        if !self.checks || self.strict.len() >= STRICT_FAULTS_MAX {
            return;
        }
        let mut path = self.path.clone();
        join(&mut path, key);
        let message = format!("{fault} field {}", quoted(&path));
        if !self.strict.contains(&message) {
            self.strict.push(message);
        }
    }

    pub(super) fn mismatch(&mut self, value: &str, go_type: &str) {
        if self.mismatch.is_none() {
            self.mismatch = Some(self.unmarshal_error(value, go_type));
        }
    }

    pub(super) fn unmarshal_error(&self, value: &str, go_type: &str) -> String {
        let (object, fields) = (self.object, &self.fields);
        if object.is_empty() {
            return format!("json: cannot unmarshal {value} into Go value of type {go_type}");
        }
        format!(
            "json: cannot unmarshal {value} into Go struct field {object}.{fields} of type {go_type}"
        )
    }
}

fn join(path: &mut String, key: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}
