//! Correlates the values of an object with its values before an update.

use std::collections::BTreeMap;

use kubeproof_machinery::json::Value as Json;

use kubeproof_machinery::meta::order::Ordered;
use kubeproof_machinery::schema::structural::{ListType, Structural};

/// The results found so far for the values of one update. Each list is indexed once and each pair
/// of values is compared once, however many items violate a rule.
#[derive(Default)]
pub(super) struct Memo<'v> {
    /// The items of old lists by their keys; each list is identified by its address.
    items: BTreeMap<usize, BTreeMap<Vec<Ordered<'v>>, &'v Json>>,
    /// The outcome of [`Correlated::is_equal`] by the addresses of both values.
    equal: BTreeMap<[usize; 2], bool>,
}

impl<'v> Memo<'v> {
    /// The old item with the keys of `item`; only lists with keys have one.
    pub(super) fn old_item(
        &mut self,
        schema: &Structural,
        old: Option<&'v Json>,
        item: &'v Json,
    ) -> Option<&'v Json> {
        if schema.list_type != Some(ListType::Map) {
            return None;
        }
        let keys = |item: &'v Json| -> Vec<Ordered<'v>> {
            let keys = schema.list_map_keys.iter();
            keys.map(|key| Ordered(&item[key])).collect()
        };
        let old = old?;
        let items = old.as_array()?;
        let by_key = self.items.entry(address(old)).or_insert_with(|| {
            // Of items with equal keys, the first counts.
            let pairs = items.iter().rev().map(|item| (keys(item), item));
            pairs.collect()
        });
        by_key.get(&keys(item)).copied()
    }
}

fn address(value: &Json) -> usize {
    std::ptr::from_ref(value).addr()
}

/// A value before and after an update.
#[derive(Clone, Copy)]
pub(super) struct Correlated<'v> {
    pub(super) schema: &'v Structural,
    pub(super) old: &'v Json,
    pub(super) new: &'v Json,
}

impl<'v> Correlated<'v> {
    fn key(self, name: &str) -> Option<Self> {
        let old = self.old.as_object()?.get(name)?;
        let new = self.new.as_object()?.get(name)?;
        let schema = self
            .schema
            .properties
            .get(name)
            .or_else(|| self.schema.map_values())?;
        Some(Self { schema, old, new })
    }

    fn index(self, index: usize, memo: &mut Memo<'v>) -> Option<Self> {
        let new = self.new.as_array()?.get(index)?;
        let old = memo.old_item(self.schema, Some(self.old), new)?;
        Some(Self {
            schema: self.schema.items.as_deref()?,
            old,
            new,
        })
    }

    /// Whether the value is unchanged, as far as the schema can decide.
    fn is_equal(self, memo: &mut Memo<'v>) -> bool {
        let pair = [self.old, self.new].map(address);
        if let Some(known) = memo.equal.get(&pair) {
            return *known;
        }
        let is_equal = match (self.old, self.new) {
            (Json::Array(old), Json::Array(new)) => {
                let keyed = self.schema.list_type == Some(ListType::Map);
                let mut all_equal = || {
                    (0..new.len()).all(|at| {
                        let item = self.index(at, memo);
                        item.is_some_and(|item| item.is_equal(memo))
                    })
                };
                old.len() == new.len() && (old == new && !keyed || keyed && all_equal())
            }
            (Json::Object(old), Json::Object(new)) => {
                old.len() == new.len()
                    && new
                        .keys()
                        .all(|name| self.key(name).is_some_and(|value| value.is_equal(memo)))
            }
            (old, new) => return old == new,
        };
        memo.equal.insert(pair, is_equal);
        is_equal
    }
}

/// The values that excuse faults of a node if an update leaves them unchanged.
#[derive(Clone, Copy)]
pub(super) struct Ratchet<'v> {
    /// The node's own change; `None` if it cannot be correlated.
    pub(super) current: Option<Correlated<'v>>,
    /// The change of the nearest correlated node above.
    pub(super) parent: Option<Correlated<'v>>,
}

impl<'v> Ratchet<'v> {
    pub(super) fn forgives(self, memo: &mut Memo<'v>) -> bool {
        self.current
            .or(self.parent)
            .is_some_and(|value| value.is_equal(memo))
    }

    pub(super) fn key(self, name: &str) -> Self {
        match self.current {
            None => self,
            // Both old and new have been converted to one type, so a change of it can't show.
            Some(_) if self.parent.is_none() && matches!(name, "apiVersion" | "kind") => Self {
                current: None,
                parent: None,
            },
            Some(current) => Self {
                current: current.key(name),
                parent: Some(current),
            },
        }
    }

    pub(super) fn index(self, index: usize, memo: &mut Memo<'v>) -> Self {
        match self.current {
            None => self,
            Some(current) => Self {
                current: current.index(index, memo),
                parent: Some(current),
            },
        }
    }
}
