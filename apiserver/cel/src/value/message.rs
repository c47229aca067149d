//! The value of a message literal.

use std::{collections::BTreeMap, sync::Arc};

use super::{Object, Value};

/// The value of a literal.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    type_name: Arc<str>,
    fields: BTreeMap<Arc<str>, Value>,
}

impl Message {
    pub(crate) fn literal(type_name: &str, fields: BTreeMap<Arc<str>, Value>) -> Value {
        let type_name = type_name.strip_prefix('.').unwrap_or(type_name).into();
        Value::Object(Arc::new(Object::Message(Self { type_name, fields })))
    }

    pub(crate) fn type_name(&self) -> &str {
        &self.type_name
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    pub(crate) fn fields(&self) -> &BTreeMap<Arc<str>, Value> {
        &self.fields
    }
}
