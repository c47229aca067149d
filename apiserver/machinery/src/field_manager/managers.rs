//! `metadata.managedFields`: who owns which fields.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::set::FieldSet;
use crate::json::{Map, SmolStr, Value, json};
use crate::meta::fields;
use crate::status::quoted;

/// Update entries that an object may have; the oldest beyond it are merged into one.
const UPDATE_MANAGERS_MAX: usize = 10;

/// The manager of the merged oldest entries.
const ANCIENT_CHANGES: &str = "ancient-changes";

/// How a manager came to own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The identity of an entry. An applier keeps its entry when it changes to another version.
///
/// Ordered like the JSON that upstream uses as the identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ManagerId {
    pub(super) manager: String,
    pub(super) operation: Operation,
    /// The version of an updater; appliers have none.
    pub(super) api_version: Option<String>,
    pub(super) subresource: String,
}

impl Ord for ManagerId {
    fn cmp(&self, other: &Self) -> Ordering {
        // JSON text that continues sorts before text that ends, as `,` is less than `}`.
        fn key(id: &ManagerId) -> impl Ord + use<'_> {
            let ManagerId {
                manager,
                operation,
                api_version,
                subresource,
            } = id;
            let ends = subresource.is_empty();
            (manager, operation, api_version, ends, subresource)
        }
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for ManagerId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl ManagerId {
    pub(super) fn new(
        manager: &str,
        operation: Operation,
        api_version: &str,
        subresource: &str,
    ) -> Self {
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: (operation == Operation::Update).then(|| api_version.to_owned()),
            subresource: subresource.to_owned(),
        }
    }

    /// The manager as conflicts name it.
    pub(super) fn describe(&self) -> String {
        let mut text = quoted(&self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {}", quoted(&self.subresource)));
        }
        if let Some(version) = &self.api_version {
            text.push_str(&format!(" using {version}"));
        }
        text
    }
}

/// A set of fields, read when it has to be: most writes leave most entries alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fields {
    /// `FieldsV1` as the client sent them, or the JSON text of a set (see `meta::fields`).
    Stored(Value),
    Set(FieldSet),
}

impl Fields {
    pub(super) fn set(&mut self) -> &mut FieldSet {
        if let Self::Stored(fields) = self {
            *self = Self::Set(FieldSet::read(fields).unwrap_or_default());
        }
        match self {
            Self::Set(set) => set,
            Self::Stored(_) => unreachable!("read above"),
        }
    }

    pub(super) fn into_set(mut self) -> FieldSet {
        std::mem::take(self.set())
    }

    /// Adds the paths of `other`. Fields that have them all stay as they are.
    pub(super) fn extend(&mut self, other: FieldSet) {
        if !matches!(self, Self::Stored(fields) if other.is_within(fields)) {
            let own = std::mem::take(self.set());
            *self = Self::Set(other.union(own));
        }
    }

    /// The paths that are in `other`, too.
    pub(super) fn intersection(&mut self, other: &FieldSet) -> FieldSet {
        match self {
            Self::Stored(fields) if !other.may_overlap(fields) => FieldSet::default(),
            _ => self.set().intersection(other),
        }
    }

    pub(super) fn subtract(&mut self, other: &FieldSet) {
        if !matches!(self, Self::Stored(fields) if !other.may_overlap(fields)) {
            self.set().subtract(other);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Stored(fields) => match fields::resting(fields) {
                Some(json) => json == "{}",
                None => fields.as_object().is_none_or(Map::is_empty),
            },
            Self::Set(set) => set.is_empty(),
        }
    }

    fn encode(self) -> Value {
        match self {
            Self::Stored(fields) => fields,
            Self::Set(set) => fields::at_rest(&set.to_json()),
        }
    }
}

/// The fields of one manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) fields: Fields,
    pub(super) api_version: String,
    /// When the set last changed the object; an apply that changed nothing has none.
    pub(super) time: Option<String>,
}

/// The owners of an object's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Managers(pub(super) BTreeMap<ManagerId, Entry>);

impl Managers {
    /// Reads `metadata.managedFields`.
    ///
    /// # Errors
    /// Describes the first malformed entry.
    pub(super) fn decode(entries: &Value) -> Result<Self, String> {
        let mut managers = Self::stored(entries)?;
        for entry in managers.0.values_mut() {
            if let Fields::Stored(fields) = &entry.fields {
                entry.fields = Fields::Set(FieldSet::read(fields)?);
            }
        }
        Ok(managers)
    }

    /// Reads entries whose fields are known to be valid, without decoding these fields.
    ///
    /// # Errors
    /// Describes the first malformed entry.
    pub(super) fn stored(entries: &Value) -> Result<Self, String> {
        let mut managers = Self::default();
        for (index, entry) in entries.as_array().into_iter().flatten().enumerate() {
            let text = |field: &str| entry[field].as_str().unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err("operation must be `Apply` or `Update`".to_owned()),
            };
            let api_version = text("apiVersion");
            if api_version.is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => {
                    return Err(format!(
                        "missing fieldsType in managed fields entry {index}"
                    ));
                }
                other => {
                    return Err(format!(
                        "invalid fieldsType {} in managed fields entry {index}",
                        quoted(other)
                    ));
                }
            }
            let id = ManagerId::new(text("manager"), operation, api_version, text("subresource"));
            let entry = Entry {
                fields: Fields::Stored(entry["fieldsV1"].clone()),
                api_version: api_version.to_owned(),
                time: entry["time"].as_str().map(str::to_owned),
            };
            managers.0.insert(id, entry);
        }
        Ok(managers)
    }

    /// `metadata.managedFields` in its order: appliers first, then by time and name.
    pub(super) fn encode(self) -> Option<Value> {
        if self.0.is_empty() {
            return None;
        }
        fn order<'e>((id, entry): &'e (ManagerId, Entry)) -> impl Ord + use<'e> {
            (
                id.operation,
                &entry.time,
                &id.manager,
                &entry.api_version,
                &id.subresource,
            )
        }
        let mut sorted: Vec<_> = self.0.into_iter().collect();
        sorted.sort_by(|left, right| order(left).cmp(&order(right)));
        let encode = |(id, entry): (ManagerId, Entry)| {
            let mut fields = Map::new();
            let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
            if !id.manager.is_empty() {
                set("manager", id.manager.into());
            }
            set("operation", id.operation.as_str().into());
            set("apiVersion", entry.api_version.into());
            if let Some(time) = entry.time {
                set("time", time.into());
            }
            set("fieldsType", "FieldsV1".into());
            set(fields::FIELDS_V1, entry.fields.encode());
            if !id.subresource.is_empty() {
                set("subresource", id.subresource.into());
            }
            Value::Object(fields)
        };
        Some(sorted.into_iter().map(encode).collect())
    }

    /// Drops the entries that own nothing.
    pub(super) fn drop_empty(&mut self) {
        self.0.retain(|_, entry| !entry.fields.is_empty());
    }

    /// Merges the oldest update entries of a version into one until there are few enough.
    pub(super) fn cap(&mut self) {
        let is_update = |id: &&ManagerId| id.operation == Operation::Update;
        let mut excess = self.0.keys().filter(is_update).count();
        if excess <= UPDATE_MANAGERS_MAX {
            return;
        }
        excess -= UPDATE_MANAGERS_MAX;
        let mut updaters: Vec<ManagerId> = self.0.keys().filter(is_update).cloned().collect();
        updaters.sort_by(|left, right| {
            let time = |id: &ManagerId| self.0[id].time.clone();
            time(left).cmp(&time(right)).then_with(|| left.cmp(right))
        });
        let mut first_of_version: BTreeMap<String, ManagerId> = BTreeMap::new();
        for updater in updaters {
            if excess == 0 {
                return;
            }
            let version = self.0[&updater].api_version.clone();
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, updater);
                continue;
            };
            let bucket = ManagerId::new(ANCIENT_CHANGES, Operation::Update, &version, "");
            if !self.0.contains_key(&bucket)
                && let Some(entry) = self.0.remove(first)
            {
                self.0.insert(bucket.clone(), entry);
            }
            let Some(merged) = self.0.remove(&updater) else {
                continue;
            };
            if let Some(entry) = self.0.get_mut(&bucket) {
                entry.fields.set().extend(merged.fields.into_set());
                // The time of the entry merged last, which is the most recent.
                entry.time = merged.time;
            }
            excess -= 1;
        }
    }
}

/// Whether a client asks to forget all owners: with an empty list, or one empty entry.
pub(super) fn is_reset(entries: &Value) -> bool {
    match entries.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([entry]) => {
            let kept = |value: &Value| !matches!(value, Value::Null) && *value != json!("");
            !entry
                .as_object()
                .is_some_and(|fields| fields.values().any(kept))
        }
        _ => false,
    }
}

/// Whether two lists of entries differ in nothing but times.
pub fn equal_but_for_times(left: &Value, right: &Value) -> bool {
    fn timeless(entry: &Value) -> impl Iterator<Item = (&SmolStr, &Value)> {
        let fields = entry.as_object().into_iter().flatten();
        fields.filter(|(name, _)| *name != "time")
    }
    match (left.as_array(), right.as_array()) {
        (Some(left), Some(right)) if left.len() == right.len() => left
            .iter()
            .zip(right)
            .all(|(left, right)| timeless(left).eq(timeless(right))),
        _ => left == right,
    }
}
