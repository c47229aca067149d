//! Properties that have to hold at every revision of a run, whatever its golden says.
//!
//! A property looks at each write together with the state of the cluster after it, and reports violations. The
//! built-in ones judge stored objects, so they hold for any controller of these kinds. Others are stated by
//! scenarios, in CEL, and by testbeds, in CEL or Rust.

pub mod general;

mod clone_set;
#[cfg(test)]
mod journal;
mod known;
mod liveness;
mod pods;
mod revisions;
mod stateful_set;
mod world;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use kubeproof_apiserver::fault::Point;
use kubeproof_apiserver::invariant::Invariants;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::status::FieldPath;
use kubeproof_machinery::json::Value;

#[doc(hidden)]
pub use known::Caches;
pub(crate) use known::unanswered;
pub use kubeproof_apiserver::JournalEntry;
pub use kubeproof_apiserver::invariant::{Declaration, Variable};
pub(crate) use liveness::WRITE_LOOPS;
pub use world::World;

/// A violation of a property by one write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The `resourceVersion` of the write.
    pub rv: ResourceVersion,
    /// The name of the property.
    pub property: String,
    /// The description of the violation, in one line.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (revision {})", self.property, self.what, self.rv)
    }
}

/// A property in Rust, which checks each write with the objects after it and may remember earlier writes.
///
/// ```
/// use std::time::Duration;
///
/// use kubeproof::prelude::*;
/// use kubeproof::properties::{JournalEntry, Property, World};
///
/// # let mut runtime = tokio::runtime::Builder::new_current_thread();
/// # let runtime = runtime.enable_time().start_paused(true).build()?;
/// # runtime.block_on(async {
/// /// No controller writes a ConfigMap without data.
/// struct HasData;
///
/// impl Property for HasData {
///     fn name(&self) -> &str {
///         "config maps have data"
///     }
///
///     fn judge(&mut self, entry: &JournalEntry, _world: &World) -> Vec<String> {
///         let is_empty = entry.gvr.resource == "configmaps" && entry.object["data"].is_null();
///         match is_empty {
///             true => vec![format!("{} has no data", entry.object["metadata"]["name"])],
///             false => Vec::new(),
///         }
///     }
/// }
///
/// let testbed = Testbed::builder().property_in_rust(|| HasData).start().await?;
/// testbed.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}").await?;
/// let error = testbed.settle(Duration::from_secs(60)).await.unwrap_err();
/// assert!(error.to_string().starts_with("config maps have data: \"a\" has no data"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Property {
    /// Returns the name of the property in reports.
    fn name(&self) -> &str;

    /// Returns a description of each violation by the write `entry`, after which `world` holds the objects.
    fn judge(&mut self, entry: &JournalEntry, world: &World) -> Vec<String>;

    /// Returns a description of each violation by a cluster that has settled with the objects of `world`. It is called
    /// whenever [`Testbed::settle`](crate::Testbed::settle) has found nothing to wait for. Default: none.
    fn judge_settled(&mut self, world: &World) -> Vec<String> {
        let _ = world;
        Vec::new()
    }
}

/// Makes a property that remembers nothing yet.
#[doc(hidden)]
#[derive(Clone)]
pub struct RustProperty(Arc<dyn Fn() -> Box<dyn Property> + Send + Sync>);

impl RustProperty {
    /// A property that `make` makes.
    pub(crate) fn new<P: Property + 'static>(make: impl Fn() -> P + Send + Sync + 'static) -> Self {
        Self(Arc::new(move || Box::new(make())))
    }
}

impl fmt::Debug for RustProperty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RustProperty")
            .field(&(self.0)().name())
            .finish()
    }
}

/// Properties that are not built in.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct DeclaredProperties {
    /// In CEL.
    pub(crate) invariants: Arc<Invariants>,
    /// In Rust.
    pub(crate) rust: Vec<RustProperty>,
}

impl DeclaredProperties {
    /// Reads properties in CEL, which may be about objects of every built-in kind, and of those that
    /// `objects` define.
    ///
    /// # Errors
    /// The error in the properties, in the words with which a policy would be refused.
    pub(crate) fn compile(declarations: &[Declaration], objects: &[Value]) -> Result<Self, String> {
        let defining = objects
            .iter()
            .filter(|object| object["kind"] == "CustomResourceDefinition");
        let kinds = defining.filter_map(|object| object["spec"]["names"]["kind"].as_str());
        let invariants = Invariants::compile(declarations, kinds, &FieldPath::new("properties"));
        let invariants = Arc::new(invariants.map_err(|errors| errors.to_string())?);
        Ok(Self {
            invariants,
            rust: Vec::new(),
        })
    }
}

/// A run, as properties look at it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// Every write.
    pub journal: &'a [JournalEntry],
    /// The requests that led to them.
    pub points: &'a [Point],
    /// Writes up to this version are setup: stated properties see them, but judge only later ones.
    pub given_rv: ResourceVersion,
    /// The versions at which everything had settled, in order.
    pub settled: &'a [ResourceVersion],
    /// Whether the caches of its controllers showed the present.
    pub caches: Caches,
    /// The versions of writes whose answer the writer did not get.
    pub unanswered: &'a BTreeSet<ResourceVersion>,
    /// Properties that judge the setup, too, as the built-in ones do.
    pub general: &'a [RustProperty],
}

fn built_in(caches: Caches, unanswered: &BTreeSet<ResourceVersion>) -> Vec<Box<dyn Property>> {
    let mut built_in: Vec<Box<dyn Property>> = stateful_set::all(caches);
    built_in.extend(clone_set::all(caches, unanswered));
    built_in.push(Box::new(liveness::WriteLoop::default()));
    built_in
}

/// The names of the properties built in.
pub(crate) fn built_in_names() -> Vec<String> {
    let built_in = built_in(Caches::default(), &BTreeSet::new());
    let names = built_in.iter().map(|property| property.name().to_owned());
    names.collect()
}

/// Returns the violations in a run.
#[doc(hidden)]
#[must_use]
pub fn violations(observed: Observed<'_>, declared: &DeclaredProperties) -> Vec<Violation> {
    let mut built_in = built_in(observed.caches, observed.unanswered);
    built_in.extend(observed.general.iter().map(|general| (general.0)()));
    let mut rust: Vec<_> = declared.rust.iter().map(|rust| (rust.0)()).collect();
    let mut observer = declared.invariants.observe();
    let mut world = World::default();
    let mut found = Vec::new();
    let mut settled = observed.settled.iter().copied().peekable();
    for entry in observed.journal {
        while let Some(rv) = settled.next_if(|rv| *rv < entry.rv) {
            let properties = built_in.iter_mut().chain(&mut rust);
            judge_settled(properties, (rv, &world), &mut found);
        }
        world.take(entry);
        let is_given = entry.rv <= observed.given_rv;
        let mut report = |property: &str, what: String| {
            found.push(Violation {
                rv: entry.rv,
                property: property.to_owned(),
                what,
            });
        };
        for property in &mut built_in {
            let judged = property.judge(entry, &world);
            judged
                .into_iter()
                .for_each(|what| report(property.name(), what));
        }
        for property in &mut rust {
            let judged = property.judge(entry, &world).into_iter();
            judged
                .filter(|_| !is_given)
                .for_each(|what| report(property.name(), what));
        }
        if is_given {
            observer.pass(entry);
        } else {
            let broken = observer.judge(entry).into_iter();
            broken.for_each(|one| report(one.name, one.message));
        }
    }
    for rv in settled {
        let properties = built_in.iter_mut().chain(&mut rust);
        judge_settled(properties, (rv, &world), &mut found);
    }
    found.extend(liveness::hot_requeues(observed.points));
    found
}

/// Adds to `found` what is wrong with the settled cluster of `world` at version `rv`, unless it was before.
fn judge_settled<'p>(
    properties: impl Iterator<Item = &'p mut Box<dyn Property>>,
    (rv, world): (ResourceVersion, &World),
    found: &mut Vec<Violation>,
) {
    for property in properties {
        for what in property.judge_settled(world) {
            let name = property.name();
            let is_known = |one: &Violation| one.property == name && one.what == what;
            if !found.iter().any(is_known) {
                found.push(Violation {
                    rv,
                    property: name.to_owned(),
                    what,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
