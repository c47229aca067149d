//! Conversion by webhook: the results so far, and the objects still to convert.
//! `webhook::conversion` calls the webhook.
//!
//! A reader of objects does not wait. An object without a result is noted as missing; its caller
//! then converts the missing objects and reads again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::json::Value;
use crate::meta::ResourceVersion;
use crate::meta::object::meta;

/// Converted objects that are remembered.
const HELD_MAX: usize = 10_000;

/// An object as stored, by its version in storage and the version that it is converted to.
type Key = (ResourceVersion, String);

/// The webhook of a definition, with the objects converted so far.
#[derive(Debug)]
pub struct Conversion {
    /// The API group of the definition.
    pub group: String,
    /// The name of the definition.
    pub definition: String,
    /// The `clientConfig` of the webhook.
    pub client_config: Value,
    /// The `conversionReviewVersions` of the webhook.
    pub review_versions: Vec<String>,
    held: Mutex<BTreeMap<Key, Arc<Value>>>,
    missing: Mutex<BTreeMap<Key, Value>>,
    misses: AtomicU64,
}

impl Conversion {
    /// Returns the conversion of a definition's spec; `None` unless its strategy is `Webhook`.
    pub(super) fn of(spec: &Value) -> Option<Self> {
        let conversion = &spec["conversion"];
        if conversion["strategy"] != "Webhook" {
            return None;
        }
        let webhook = &conversion["webhook"];
        let versions = webhook["conversionReviewVersions"].as_array();
        let versions = versions.into_iter().flatten().filter_map(Value::as_str);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
        Some(Self {
            definition: format!("{plural}.{group}"),
            group,
            client_config: webhook["clientConfig"].clone(),
            review_versions: versions.map(str::to_owned).collect(),
            held: Mutex::default(),
            missing: Mutex::default(),
            misses: AtomicU64::new(0),
        })
    }

    /// Whether the same webhook is called in the same way.
    pub(super) fn same_as(&self, other: &Self) -> bool {
        self.client_config == other.client_config && self.review_versions == other.review_versions
    }

    /// The number of lookups without a result so far.
    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Acquire)
    }

    /// Returns a stored object in another version if it has been converted, or notes it as missing.
    pub(super) fn find(&self, stored: &Value, version: &str) -> Option<Arc<Value>> {
        let key = key(stored, version);
        let found = self.held.lock().get(&key).cloned();
        if found.is_none() {
            self.missing.lock().insert(key, stored.clone());
            self.misses.fetch_add(1, Ordering::AcqRel);
        }
        found
    }

    /// Forgets the converted objects, so that the webhook is called for them again.
    pub fn forget(&self) {
        self.held.lock().clear();
    }

    /// Takes all missing objects, by target version, each with its `resourceVersion`. None is
    /// missing afterwards.
    pub fn take_missing(&self) -> BTreeMap<String, Vec<(ResourceVersion, Value)>> {
        let missing = std::mem::take(&mut *self.missing.lock());
        let mut by_version: BTreeMap<String, Vec<(ResourceVersion, Value)>> = BTreeMap::new();
        for ((rv, version), stored) in missing {
            by_version.entry(version).or_default().push((rv, stored));
        }
        by_version
    }

    /// Remembers objects that were converted to `version`.
    pub fn hold(
        &self,
        version: &str,
        converted: impl IntoIterator<Item = (ResourceVersion, Value)>,
    ) {
        let mut held = self.held.lock();
        if held.len() > HELD_MAX {
            held.clear();
        }
        for (rv, object) in converted {
            held.insert((rv, version.to_owned()), Arc::new(object));
        }
    }
}

fn key(stored: &Value, version: &str) -> Key {
    let rv = meta(stored, "resourceVersion").parse();
    (rv.unwrap_or_default(), version.to_owned())
}
