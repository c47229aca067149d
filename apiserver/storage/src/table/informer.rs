//! Informers in the manner of client-go over a table whose watches break and whose past is
//! compacted at random: they see every event once, in order, and end up with the table's objects.
//!
//! `KUBEPROOF_EVENTS=1000000 cargo test --profile bench -p kubeproof-apiserver informers` runs a million.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::super::{Initial, Storage};
use super::*;
use crate::json::json;

/// Commits of a run unless `KUBEPROOF_EVENTS` says otherwise.
const EVENTS: usize = 100_000;
const INFORMERS: usize = 8;
const NAMES: u64 = 200;
/// Small against the time an informer may be away, so that some come back too late.
const LIMITS: WindowLimits = WindowLimits {
    events: 512,
    bytes: usize::MAX,
};
/// The number of commits between checkpoints, where all informers catch up and are compared with
/// the table.
const CHECKPOINT: usize = 5000;

/// The commits as the writers recorded them: version, type and key of each.
type Ledger = Vec<(ResourceVersion, EventType, ObjectKey)>;

#[derive(Default)]
struct Informer {
    /// The version up to which the informer has seen every event.
    rv: ResourceVersion,
    objects: BTreeMap<ObjectKey, ResourceVersion>,
    /// The number of ledger entries that the informer has received as events or skipped by a list.
    delivered: usize,
    seen: usize,
    relists: usize,
}

impl Informer {
    fn list(&mut self, table: &Table, ledger: &Ledger) {
        let snapshot = table.snapshot();
        let objects = snapshot.range(None, None);
        self.objects = objects
            .map(|object| (object.key.clone(), object.rv))
            .collect();
        self.rv = snapshot.rv;
        self.delivered = ledger.partition_point(|(rv, _, _)| *rv <= snapshot.rv);
        self.relists += 1;
    }

    /// Reads up to `max` events and breaks off after `kept` of them.
    fn watch(&mut self, table: &Table, ledger: &Ledger, max: usize, kept: usize) {
        let Ok((events, reached)) = table.events_after(self.rv, max) else {
            return self.list(table, ledger);
        };
        let broken_off = kept < events.len();
        for event in events.into_iter().take(kept) {
            let expected = ledger.get(self.delivered);
            self.handle(
                &event,
                expected.expect("there is no event without a commit"),
            );
        }
        if !broken_off {
            assert!(reached >= self.rv, "a watch never goes back");
            self.rv = reached;
        }
    }

    fn handle(&mut self, event: &Event, expected: &(ResourceVersion, EventType, ObjectKey)) {
        let key = &event.object.key;
        assert_eq!(
            (event.rv, event.event_type, key),
            (expected.0, expected.1, &expected.2),
            "the next commit is the next event"
        );
        let held = match event.event_type {
            EventType::Deleted => self.objects.remove(key),
            _ => self.objects.insert(key.clone(), event.rv),
        };
        let previous = event.previous.as_ref().map(|previous| previous.rv);
        assert_eq!(held, previous, "an object's versions follow one another");
        assert_eq!(
            previous.is_none(),
            event.event_type == EventType::Added,
            "an object is added once"
        );
        self.rv = event.rv;
        self.delivered += 1;
        self.seen += 1;
    }
}

fn write(table: &Table, random: &mut ChaCha8Rng, ledger: &mut Ledger) {
    let key = ObjectKey::new(Some("ns"), &format!("name-{}", random.next_u64() % NAMES));
    let held = table.get(&key);
    let object = json!({ "metadata": { "name": key.as_str() } });
    let removes = held.is_some() && random.next_u64().is_multiple_of(4);
    let event_type = match (&held, removes) {
        (None, _) => EventType::Added,
        (Some(_), false) => EventType::Modified,
        (Some(_), true) => EventType::Deleted,
    };
    let commit = Transaction {
        key: &key,
        expected: held.as_ref(),
        change: if removes {
            Change::Remove(object)
        } else {
            Change::Put(object)
        },
        time: Timestamp::UNIX_EPOCH,
        user_agent: &Arc::from("test"),
    };
    let stored = table.commit(commit).expect("there is one writer");
    ledger.push((stored.rv, event_type, key));
}

fn run(seed: u64, events: usize) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let storage = Storage::new(Initial::empty(), LIMITS, false);
    let table_of = |resource: &str| {
        storage.table(&GroupVersionResource {
            group: String::new(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
        })
    };
    let (table, other) = (table_of("configmaps"), table_of("secrets"));
    let mut ledger = Ledger::with_capacity(events);
    let mut informers: Vec<Informer> = (0..INFORMERS).map(|_| Informer::default()).collect();
    while ledger.len() < events {
        match random.next_u64() % 4096 {
            0 => storage.compact(None),
            // Another resource's writes take versions that these watches never see.
            1..=200 => write(&other, &mut random, &mut Vec::new()),
            201..=1600 => {
                let max = 1 + random.next_u64() as usize % 64;
                let kept = random.next_u64() as usize % (max + max / 2);
                // The first is away for longest, the last is nearly always there.
                let draws = [random.next_u64(), random.next_u64()].map(|draw| draw as usize);
                let at = (draws[0] % INFORMERS).max(draws[1] % INFORMERS);
                informers[at].watch(&table, &ledger, max, kept);
            }
            _ => {
                write(&table, &mut random, &mut ledger);
                if ledger.len().is_multiple_of(CHECKPOINT) {
                    for informer in &mut informers {
                        catch_up(informer, &table, &ledger);
                    }
                }
            }
        }
    }
    let relists: usize = informers.iter().map(|informer| informer.relists).sum();
    let seen: usize = informers.iter().map(|informer| informer.seen).sum();
    assert!(relists > INFORMERS, "the run compacts and falls behind");
    assert!(seen > events, "the run watches more than it lists");
}

fn catch_up(informer: &mut Informer, table: &Table, ledger: &Ledger) {
    while informer.delivered < ledger.len() {
        informer.watch(table, ledger, 64, 64);
    }
    let snapshot = table.snapshot();
    let objects = snapshot.range(None, None);
    let objects: BTreeMap<ObjectKey, ResourceVersion> = objects
        .map(|object| (object.key.clone(), object.rv))
        .collect();
    assert_eq!(informer.objects, objects, "at version {}", snapshot.rv);
}

#[test]
fn informers_stay_in_sync_over_watches_that_break_and_windows_that_move_on() {
    let events = std::env::var("KUBEPROOF_EVENTS").ok();
    let events = events.map_or(EVENTS, |events| events.parse().expect("a number"));
    for seed in 0..4 {
        run(seed, events / 4);
    }
}
