//! What a value was before an update, as far as it can be told which parts belong together.

use serde_json::Value;

use crate::schema::structural::{ListType, Structural};

/// The old value that belongs to a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Old<'o> {
    schema: &'o Structural,
    value: Option<&'o Value>,
}

impl<'o> Old<'o> {
    /// That of a whole object; `None` without one.
    pub(super) fn root(schema: &'o Structural, value: Option<&'o Value>) -> Option<Self> {
        Some(Self { schema, value })
    }

    /// Whether it is the same as `value`.
    pub(super) fn is(self, value: &Value) -> bool {
        self.value == Some(value)
    }

    /// The old value of a field or of an entry of a map.
    pub(super) fn field(self, name: &str) -> Option<Self> {
        let fields = self.value?.as_object()?;
        Some(Self {
            schema: self
                .schema
                .map_values()
                .or_else(|| self.schema.properties.get(name))?,
            value: fields.get(name),
        })
    }

    /// The old value of a list's item, which only lists with keys can tell.
    pub(super) fn item(self, item: &Value) -> Option<Self> {
        let items = self.value?.as_array()?;
        if self.schema.list_type != Some(ListType::Map) {
            return None;
        }
        let keys = &self.schema.list_map_keys;
        let same_keys = |old: &&Value| keys.iter().all(|key| old.get(key) == item.get(key));
        Some(Self {
            schema: self.schema.items.as_deref()?,
            value: Some(items.iter().find(same_keys)?),
        })
    }
}
