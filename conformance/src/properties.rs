//! What has to hold at every revision of a run, whatever its golden says.
//!
//! A property looks at each write with the state of the cluster behind it, and tells of what it finds
//! wrong. They judge what is stored, so they hold for any controller of these kinds.

mod stateful_set;
mod unrest;
mod world;

use kubeproof_apiserver::JournalEntry;
use kubeproof_apiserver::fault::Point;

pub use world::World;

/// Something that must not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The version of the write that did it.
    pub rv: u64,
    /// The property.
    pub property: &'static str,
    /// What happened.
    pub what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} (revision {})", self.property, self.what, self.rv)
    }
}

/// Judges one write. Each keeps what it has to remember.
pub trait Property {
    /// Its name.
    fn name(&self) -> &'static str;

    /// What is wrong with `entry`, which has led to `world`.
    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String>;
}

/// What is wrong with a run: its writes and the requests that led to them.
#[must_use]
pub fn violations(journal: &[JournalEntry], points: &[Point]) -> Vec<Violation> {
    let mut properties: Vec<Box<dyn Property>> = stateful_set::all();
    properties.push(Box::new(unrest::WriteLoop::default()));
    let mut world = World::default();
    let mut found = Vec::new();
    for entry in journal {
        world.take(entry);
        for property in &mut properties {
            let judged = property.judge(entry, &world);
            found.extend(judged.into_iter().map(|what| Violation {
                rv: entry.rv,
                property: property.name(),
                what,
            }));
        }
    }
    found.extend(unrest::hot_requeues(points));
    found
}
