//! Parts of pods, each in memory once.

use std::any::{Any, TypeId};
use std::hash::BuildHasher;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};

use foldhash::fast::FixedState;
use parking_lot::Mutex;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::weak_map::{self, SHARDS, WeakMap};

static PARTS: [Mutex<WeakMap<Known>>; SHARDS] = [const { Mutex::new(WeakMap::new()) }; SHARDS];

/// A part that may have been dropped.
struct Known {
    /// A second hash of its text.
    check: u64,
    part: Weak<dyn Any + Send + Sync>,
}

/// A part of pods, which is in memory once for all pods in which it has the same text. It is read in place and copied when
/// it is changed. Only serde_json can decode it.
#[derive(Clone, Debug, Default)]
pub struct Shared<T>(Arc<T>);

impl<T: Send + Sync + 'static> Shared<T> {
    /// The part with this text. `read` decodes it unless another pod has it. If several threads decode one at once, the
    /// last one's is shared afterwards.
    pub(super) fn of(
        text: &str,
        read: impl FnOnce(&str) -> serde_json::Result<T>,
    ) -> serde_json::Result<Self> {
        let hash = FixedState::default().hash_one((TypeId::of::<T>(), text));
        let check = FixedState::with_seed(hash).hash_one(text);
        let shard = &PARTS[weak_map::shard(hash)];
        let known = shard
            .lock()
            .get(hash)
            .filter(|known| known.check == check)
            .and_then(|known| known.part.upgrade());
        if let Some(part) = known.and_then(|part| part.downcast().ok()) {
            return Ok(Self(part));
        }
        let part = Arc::new(read(text)?);
        let weak = Arc::downgrade(&part);
        let known = Known { check, part: weak };
        let is_held = |known: &Known| known.part.strong_count() > 0;
        shard.lock().insert(hash, known, is_held);
        Ok(Self(part))
    }

    #[cfg(test)]
    pub(super) fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    #[cfg(test)]
    pub(super) fn downgrade(&self) -> Weak<T> {
        Arc::downgrade(&self.0)
    }
}

impl<T> From<T> for Shared<T> {
    fn from(part: T) -> Self {
        Self(Arc::new(part))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl<'de, T: DeserializeOwned + Send + Sync + 'static> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Self::of(text.get(), |text| serde_json::from_str(text)).map_err(D::Error::custom)
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{PodCondition, PodReadinessGate};
    use serde_json::json;

    use super::*;
    use crate::decode::{from_value, to_value};

    #[test]
    fn a_part_is_in_memory_once_until_it_is_changed() {
        let condition = json!({ "type": "Ready", "status": "True", "reason": "once" });
        let [one, mut other]: [Shared<PodCondition>; 2] =
            std::array::from_fn(|_| from_value(&condition).unwrap());
        assert!(one.is_shared_with(&other));
        other.status = "False".to_owned();
        assert_ne!(one, other);
        assert_eq!(to_value(&one).unwrap(), condition);
        other.status = "True".to_owned();
        assert!(!one.is_shared_with(&other));
        assert_eq!(one, other);
    }

    #[test]
    fn parts_of_different_types_are_told_apart() {
        let text = r#"{"conditionType":"a"}"#;
        let gate: Shared<PodReadinessGate> = serde_json::from_str(text).unwrap();
        let condition: Shared<PodCondition> = serde_json::from_str(text).unwrap();
        assert_eq!((&*gate.condition_type, &*condition.type_), ("a", ""));
    }

    #[test]
    fn a_part_that_nothing_holds_is_forgotten() {
        let text = r#"{"type":"forgotten","status":"True"}"#;
        let read = || serde_json::from_str::<Shared<PodCondition>>(text).unwrap();
        let first = read().downgrade();
        assert_eq!(first.strong_count(), 0);
        assert_eq!(read().type_, "forgotten");
    }

    #[test]
    fn what_is_no_such_part_is_refused() {
        let refused = serde_json::from_str::<Shared<PodCondition>>(r#"{"type":7}"#);
        let refused = refused.unwrap_err().to_string();
        let want = "invalid type: integer `7`, expected a string at line 1 column 9";
        assert_eq!(refused, want);
    }
}
