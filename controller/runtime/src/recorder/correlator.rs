//! Counts similar occurrences together, combines or drops them, as client-go's correlator does.

use std::hash::Hash;
use std::num::NonZeroUsize;

use jiff::{SignedDuration, Timestamp};
use lru::LruCache;

use super::{EventType, fingerprint};

/// How many keys are remembered of each sort; the one used least recently is forgotten.
const REMEMBERED_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("it is more than none");
/// From this number of different messages of one reason on, further messages share an Event.
const SIMILAR_MAX: usize = 10;
/// The longest pause between similar messages.
const SIMILAR_INTERVAL: SignedDuration = SignedDuration::from_secs(600);
/// Events of one type about one object: a burst, ...
const SPAM_BURST: i32 = 25;
/// ... then one each.
const SPAM_INTERVAL: SignedDuration = SignedDuration::from_secs(300);

/// The object an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Subject {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// An occurrence that an event reports.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Occurrence {
    pub(super) subject: Subject,
    /// The field of the subject, if the event concerns one.
    pub(super) field_path: Option<String>,
    pub(super) event_type: EventType,
    pub(super) reason: String,
    pub(super) message: String,
}

/// The fingerprint of occurrences that share an Event: equal ones, or similar ones, whose message is left out. It is kept
/// instead of their texts: a cluster has several occurrences for each pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct EventKey(u128);

/// The Event to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    pub(super) key: EventKey,
    pub(super) message: String,
    pub(super) is_combined: bool,
    /// From 2 on the Event is there already, unless the server has refused or expired it.
    pub(super) count: i32,
    pub(super) first: Timestamp,
    pub(super) name: String,
}

pub(super) struct Correlator {
    similar: LruCache<EventKey, Similar>,
    seen: LruCache<EventKey, Seen>,
    /// By the fingerprint of the subject and the type.
    spam: LruCache<u128, Timestamp>,
}

impl Default for Correlator {
    fn default() -> Self {
        Self {
            similar: recent(),
            seen: recent(),
            spam: recent(),
        }
    }
}

/// A map of `REMEMBERED_MAX` entries, for which no place is taken before they come.
fn recent<K: Hash + Eq, V>() -> LruCache<K, V> {
    let mut cache = LruCache::unbounded();
    cache.resize(REMEMBERED_MAX);
    cache
}

#[derive(Clone, Default)]
struct Similar {
    /// The fingerprints of the messages, oldest first.
    messages: Vec<u128>,
    last: Option<Timestamp>,
}

#[derive(Clone)]
struct Seen {
    count: i32,
    first: Timestamp,
    name: String,
}

impl Correlator {
    /// Counts an occurrence; None when there were too many about its subject. `name` makes the name
    /// of an Event that is new.
    pub(super) fn observe(
        &mut self,
        occurrence: Occurrence,
        now: Timestamp,
        name: impl FnOnce() -> String,
    ) -> Option<Observed> {
        let source = fingerprint(&(&occurrence.subject, occurrence.event_type));
        let combined = self.combine(&occurrence, now);
        let key = combined.unwrap_or_else(|| EventKey(fingerprint(&occurrence)));
        let unseen = || Seen {
            count: 0,
            first: now,
            name: name(),
        };
        let seen = self.seen.get_or_insert_mut(key, unseen);
        seen.count = seen.count.saturating_add(1);
        let Seen { count, first, name } = seen.clone();
        let message = match combined {
            Some(_) => format!("(combined from similar events): {}", occurrence.message),
            None => occurrence.message,
        };
        self.admits(source, now).then_some(Observed {
            is_combined: combined.is_some(),
            key,
            message,
            count,
            first,
            name,
        })
    }

    /// Remembers that the Event of `key` has another name.
    pub(super) fn rename(&mut self, key: &EventKey, name: String) {
        if let Some(seen) = self.seen.get_mut(key) {
            seen.name = name;
        }
    }

    /// The key that an occurrence shares with similar ones, if there were many.
    fn combine(&mut self, occurrence: &Occurrence, now: Timestamp) -> Option<EventKey> {
        let Occurrence {
            subject,
            event_type,
            reason,
            message,
            ..
        } = occurrence;
        let shared = EventKey(fingerprint(&(subject, event_type, reason)));
        let similar = self.similar.get_or_insert_mut(shared, Similar::default);
        if similar
            .last
            .is_some_and(|last| now.duration_since(last) > SIMILAR_INTERVAL)
        {
            *similar = Similar::default();
        }
        let message = fingerprint(message);
        if !similar.messages.contains(&message) {
            similar.messages.reserve_exact(1);
            similar.messages.push(message);
        }
        similar.last = Some(now);
        let is_combined = similar.messages.len() >= SIMILAR_MAX;
        if is_combined {
            // The oldest; upstream forgets a random one.
            similar.messages.remove(0);
        }
        is_combined.then_some(shared)
    }

    /// A bucket of `SPAM_BURST` tokens, kept as the time when it would be full but for one.
    fn admits(&mut self, source: u128, now: Timestamp) -> bool {
        let full = self.spam.get(&source).map_or(now, |full| now.max(*full));
        let admitted = full.duration_since(now) <= SPAM_INTERVAL * (SPAM_BURST - 1);
        let next = if admitted {
            full.saturating_add(SPAM_INTERVAL)
        } else {
            Ok(full)
        };
        self.spam.put(source, next.unwrap_or(full));
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn occurrence(name: &str, message: &str) -> Occurrence {
        Occurrence {
            subject: Subject {
                api_version: "apps/v1".to_owned(),
                kind: "StatefulSet".to_owned(),
                namespace: "default".to_owned(),
                name: name.to_owned(),
                uid: name.to_owned(),
            },
            field_path: None,
            event_type: EventType::Normal,
            reason: "SuccessfulCreate".to_owned(),
            message: message.to_owned(),
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn equal_occurrences_are_counted() {
        let mut correlator = Correlator::default();
        let mut observe = |occurrence, now, name: &str| {
            let name = name.to_owned();
            correlator.observe(occurrence, at(now), || name).unwrap()
        };
        let first = observe(occurrence("web", "a"), 1, "web.1");
        assert_eq!((first.count, first.name.as_str()), (1, "web.1"));
        let second = observe(occurrence("web", "a"), 5, "web.5");
        assert_eq!(
            (second.count, second.first, second.name.as_str()),
            (2, at(1), "web.1")
        );
        let elsewhere = Occurrence {
            field_path: Some("spec.containers{a}".to_owned()),
            ..occurrence("web", "a")
        };
        assert_eq!(observe(elsewhere, 5, "web.6").count, 1);
        let other = observe(occurrence("web", "b"), 5, "web.7");
        assert_eq!((other.count, other.name.as_str()), (1, "web.7"));
        correlator.rename(&first.key, "web.9".to_owned());
        let third = correlator.observe(occurrence("web", "a"), at(6), String::new);
        assert_eq!(third.unwrap().name, "web.9");
    }

    #[test]
    fn from_the_tenth_message_on_similar_occurrences_are_combined() {
        let mut correlator = Correlator::default();
        let mut observed_message = |message: &str, now: i64| {
            let observed = correlator
                .observe(occurrence("web", message), at(now), String::new)
                .unwrap();
            let is_combined = observed.message.starts_with("(combined");
            assert_eq!(observed.is_combined, is_combined);
            format!("{} {}", observed.count, observed.message)
        };
        for message in ["0", "1", "2", "3", "4", "5", "6", "7", "8"] {
            assert_eq!(observed_message(message, 0), format!("1 {message}"));
        }
        assert_eq!(
            observed_message("9", 0),
            "1 (combined from similar events): 9"
        );
        assert_eq!(
            observed_message("10", 600),
            "2 (combined from similar events): 10"
        );
        let known = observed_message("2", 600);
        assert_eq!(known, "2 2", "the oldest are forgotten first");
        assert_eq!(
            observed_message("1", 600),
            "3 (combined from similar events): 1"
        );
        assert_eq!(
            observed_message("11", 1201),
            "1 11",
            "after a pause it starts anew"
        );
    }

    #[test]
    fn after_25_occurrences_an_object_has_an_event_every_five_minutes() {
        let mut correlator = Correlator::default();
        let mut admitted = |name: &str, now| {
            correlator
                .observe(occurrence(name, "a"), at(now), String::new)
                .map(|observed| observed.count)
        };
        for count in 1..=25 {
            assert_eq!(admitted("web", 0), Some(count));
        }
        assert_eq!(admitted("web", 0), None);
        assert_eq!(admitted("other", 0), Some(1));
        assert_eq!(admitted("web", 299), None);
        assert_eq!(
            admitted("web", 300),
            Some(28),
            "those without an event are counted"
        );
        assert_eq!(admitted("web", 301), None);
        let warning = Occurrence {
            event_type: EventType::Warning,
            ..occurrence("web", "a")
        };
        let observed = correlator.observe(warning, at(301), String::new);
        assert!(observed.is_some(), "warnings are limited apart");
    }
}
