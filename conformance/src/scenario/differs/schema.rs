//! The parts of an entry of `differs` in the JSON Schema of scenarios.

use schemars::JsonSchema;

use super::{EventMay, FailureMay, FieldsMay, Pattern, ViolationMay};

/// The runs that an entry of `differs` is about.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only the schema is made of it")]
pub(super) enum With {
    One(Faults),
    Several(Vec<Faults>),
}

/// Faults of a plan.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only the schema is made of it")]
pub(super) enum Faults {
    /// `order`, or an exact plan: `crash-after create pods default/web-1 from statefulset-controller`.
    Plan(String),
    /// A pattern.
    Pattern(Pattern),
}

/// What may differ from the run without faults.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only the schema is made of it")]
pub(super) enum May {
    Fields(FieldsMay),
    Event(EventMay),
    Failure(FailureMay),
    Violation(ViolationMay),
}
