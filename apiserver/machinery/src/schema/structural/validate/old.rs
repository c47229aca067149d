//! Old values before an update, as far as parts of old and new objects can be matched.

use std::collections::BTreeMap;

use crate::json::Value;
use crate::meta::order::Ordered;
use crate::schema::structural::{ListType, Structural};

/// The old value that belongs to a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Old<'o> {
    schema: &'o Structural,
    value: Option<&'o Value>,
}

impl<'o> Old<'o> {
    /// Returns the old value of a whole object, absent for a new object.
    pub(super) fn root(schema: &'o Structural, value: Option<&'o Value>) -> Option<Self> {
        Some(Self { schema, value })
    }

    /// Whether the old value equals `value`.
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

    /// The old values of a list's items; only lists with keys can match items.
    pub(super) fn items(self) -> Option<OldItems<'o>> {
        let items = self.value?.as_array()?;
        if self.schema.list_type != Some(ListType::Map) {
            return None;
        }
        let keys = &self.schema.list_map_keys;
        // Of items with equal keys, the first counts.
        let by_keys = items.iter().rev().map(|item| (values(keys, item), item));
        Some(OldItems {
            schema: self.schema.items.as_deref()?,
            keys,
            by_keys: by_keys.collect(),
        })
    }
}

/// The items of an old list by the values of their keys.
pub(super) struct OldItems<'o> {
    schema: &'o Structural,
    keys: &'o [String],
    by_keys: BTreeMap<Vec<Option<Ordered<'o>>>, &'o Value>,
}

impl<'o> OldItems<'o> {
    /// The old value of an item of the new list.
    pub(super) fn item(&self, item: &Value) -> Option<Old<'o>> {
        let value = *self.by_keys.get(&values(self.keys, item))?;
        Some(Old {
            schema: self.schema,
            value: Some(value),
        })
    }
}

fn values<'v>(keys: &[String], item: &'v Value) -> Vec<Option<Ordered<'v>>> {
    keys.iter().map(|key| item.get(key).map(Ordered)).collect()
}
