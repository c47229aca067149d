//! The body of a response that is no object of a resource.

use crate::json::{Map, Value, json};

/// A `metav1.Status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// `Success` or `Failure`.
    outcome: &'static str,
    /// The HTTP code. The body leaves out 0.
    pub code: u32,
    /// The reason, such as `NotFound`. The body leaves out an empty one.
    pub reason: String,
    /// The text for people. The body leaves out an empty one.
    pub message: String,
    /// The fields of `StatusDetails`.
    pub details: Option<Value>,
}

impl Status {
    /// A success, without a code.
    #[must_use]
    pub fn success() -> Self {
        Self {
            outcome: "Success",
            code: 0,
            reason: String::new(),
            message: String::new(),
            details: None,
        }
    }

    /// A failure without details.
    #[must_use]
    pub fn failure(code: u32, reason: &str, message: String) -> Self {
        Self {
            outcome: "Failure",
            code,
            reason: reason.to_owned(),
            message,
            details: None,
        }
    }

    /// Sets the code.
    #[must_use]
    pub fn with_code(self, code: u32) -> Self {
        Self { code, ..self }
    }

    /// Sets the details.
    #[must_use]
    pub fn with_details(self, details: Value) -> Self {
        Self {
            details: Some(details),
            ..self
        }
    }

    /// Returns the body of a response.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut body = json!({ "kind": "Status", "apiVersion": "v1" });
        if let (Value::Object(body), Value::Object(fields)) = (&mut body, self.to_untyped_value()) {
            body.extend(fields);
        }
        body
    }

    /// Returns the status without kind and version, as streams of containers carry it.
    #[must_use]
    pub fn to_untyped_value(&self) -> Value {
        let mut body = Map::new();
        let mut set = |field: &str, value: Value| body.insert(field.to_owned(), value);
        set("metadata", json!({}));
        set("status", self.outcome.into());
        if !self.message.is_empty() {
            set("message", self.message.as_str().into());
        }
        if self.code != 0 {
            set("code", self.code.into());
        }
        if !self.reason.is_empty() {
            set("reason", self.reason.as_str().into());
        }
        if let Some(details) = &self.details {
            set("details", details.clone());
        }
        Value::Object(body)
    }
}
