//! Structural schemas: the description of a version's objects in a CustomResourceDefinition.
//!
//! A [`Structural`] is compiled from an `openAPIV3Schema` that the definition's validation has
//! passed. Value validations nested under `allOf`, `anyOf`, `oneOf` and `not` are nodes of the same
//! type, which only have value validations, items and properties.

mod default;
mod embedded;
pub mod format;
mod list_type;
mod parse;
mod pattern;
mod prune;
mod validate;

use std::collections::BTreeMap;

use crate::json::Value;

pub use pattern::{Pattern, Regexp, go_regexp_fault};
pub use prune::META_FIELDS;

/// A node of a structural schema.
#[derive(Clone, Debug, Default)]
pub struct Structural {
    /// `type`: `object`, `array`, `string`, `integer`, `number`, `boolean`; may be empty.
    pub value_type: String,
    /// Whether null is a value.
    pub nullable: bool,
    /// The default of an absent value.
    pub default: Option<Value>,
    /// The schema of the items of a list.
    pub items: Option<Box<Self>>,
    /// The schemas of the fields of an object.
    pub properties: BTreeMap<String, Self>,
    /// The schema of a map's values, or whether unknown fields are allowed.
    pub additional_properties: Option<AdditionalProperties>,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown_fields: bool,
    /// `x-kubernetes-embedded-resource`: the value has `apiVersion`, `kind` and `metadata`.
    pub embedded_resource: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// `x-kubernetes-list-type`.
    pub list_type: Option<ListType>,
    /// `x-kubernetes-list-map-keys`.
    pub list_map_keys: Vec<String>,
    /// `x-kubernetes-map-type`: whether a map or object has one owner.
    pub atomic_map: bool,
    /// `x-kubernetes-validations`, in order.
    pub validations: Vec<ValidationRule>,
    /// All other constraints on a value.
    pub value: ValueValidation,
}

/// `additionalProperties`.
#[derive(Clone, Debug)]
pub enum AdditionalProperties {
    /// Any value, or none.
    Allowed(bool),
    /// Values of a schema.
    Schema(Box<Structural>),
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// The list has one owner.
    Atomic,
    /// Items are unique, each its own key.
    Set,
    /// Items are objects, unique by the list's keys.
    Map,
}

/// An entry of `x-kubernetes-validations`; absent texts are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidationRule {
    /// The CEL expression.
    pub rule: String,
    /// The message if the rule is violated.
    pub message: String,
    /// A CEL expression for the message.
    pub message_expression: String,
    /// The reason of the cause: `FieldValueInvalid` and so on.
    pub reason: String,
    /// The field that the cause names, below that of the schema.
    pub field_path: String,
    /// Whether the rule runs without an old value as well.
    pub optional_old_self: Option<bool>,
}

/// The keywords that do not describe the structure of a value.
#[derive(Clone, Debug, Default)]
pub struct ValueValidation {
    /// `format`, may be empty.
    pub format: String,
    /// `maximum`.
    pub maximum: Option<f64>,
    /// Whether the maximum itself is too much.
    pub exclusive_maximum: bool,
    /// `minimum`.
    pub minimum: Option<f64>,
    /// Whether the minimum itself is too little.
    pub exclusive_minimum: bool,
    /// `multipleOf`.
    pub multiple_of: Option<f64>,
    /// `maxLength`, in characters.
    pub max_length: Option<i64>,
    /// `minLength`, in characters.
    pub min_length: Option<i64>,
    /// `pattern`.
    pub pattern: Option<Pattern>,
    /// `maxItems`.
    pub max_items: Option<i64>,
    /// `minItems`.
    pub min_items: Option<i64>,
    /// `uniqueItems`.
    pub unique_items: bool,
    /// `maxProperties`.
    pub max_properties: Option<i64>,
    /// `minProperties`.
    pub min_properties: Option<i64>,
    /// `enum`; empty allows everything.
    pub enumeration: Vec<Value>,
    /// `required`.
    pub required: Vec<String>,
    /// `allOf`.
    pub all_of: Vec<Structural>,
    /// `anyOf`.
    pub any_of: Vec<Structural>,
    /// `oneOf`.
    pub one_of: Vec<Structural>,
    /// `not`.
    pub not: Option<Box<Structural>>,
}

impl Structural {
    /// The schema of the values of a map, if they have one.
    #[must_use]
    pub fn map_values(&self) -> Option<&Self> {
        match &self.additional_properties {
            Some(AdditionalProperties::Schema(values)) => Some(values),
            Some(AdditionalProperties::Allowed(_)) | None => None,
        }
    }

    /// The schema of the entry called `name`, a field or an entry of a map.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or_else(|| self.map_values())
    }
}
