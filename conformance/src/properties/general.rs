//! Properties that hold for any controller.
//!
//! Ten in all. Scenarios are held to every one of them. A testbed is held to the three that are rules for controllers
//! under test, and to the others that its builder asks for: to all of them with
//! [`TestbedBuilder::general_properties`], to one with [`TestbedBuilder::property_in_rust`].
//!
//! | property | name | a testbed |
//! | --- | --- | --- |
//! | [`NoOrphans`] | `no orphan stays` | on request |
//! | [`UncontestedFields`] | `no two controllers fight over a field` | on request |
//! | [`ObservedGenerations`] | `the observed generation catches up` | on request |
//! | [`SecondReconcile`] | `a second reconcile writes nothing` | by [`Testbed::reconcile_again`] |
//! | [`HOT_REQUEUE`] | `no hot requeue` | always |
//! | [`Finalizers`] | `finalizers are removed` | always |
//! | [`TransitionTimes`] | `transition times change with the status` | on request |
//! | [`NoSecrets`] | `no secret in events or status` | on request |
//! | [`SpecsAsAsked`] | `specs stay as asked` | on request |
//! | [`ValidOwners`] | `owner references are valid` | on request |
//!
//! They judge the writes of controllers and nodes, not those of the test. [`TestbedBuilder::allow`] exempts a testbed from
//! one of those that are always in force, `violates` a scenario from any.
//!
//! ```
//! use std::time::Duration;
//!
//! use kubeproof::Testbed;
//! use kubeproof::properties::general::ValidOwners;
//!
//! # let mut runtime = tokio::runtime::Builder::new_current_thread();
//! # let runtime = runtime.enable_time().start_paused(true).build()?;
//! # runtime.block_on(async {
//! let builder = Testbed::builder().nodes(1).controllers(["deployment", "replicaset"]);
//! let one = builder.clone().property_in_rust(ValidOwners::default).start().await?;
//! let all = builder.general_properties().start().await?;
//! all.settle(Duration::from_secs(60)).await?;
//! all.reconcile_again(Duration::from_secs(60)).await?;
//! # one.shutdown().await;
//! # all.shutdown().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Testbed::reconcile_again`]: crate::Testbed::reconcile_again
//! [`TestbedBuilder::allow`]: crate::testbed::TestbedBuilder::allow
//! [`TestbedBuilder::general_properties`]: crate::testbed::TestbedBuilder::general_properties
//! [`TestbedBuilder::property_in_rust`]: crate::testbed::TestbedBuilder::property_in_rust

mod fields;
mod finalizers;
mod owners;
mod second;
mod secrets;
mod specs;
mod status;

use kubeproof_apiserver::JournalEntry;
use kubeproof_machinery::json::Value;

use super::pods::{name, namespace};
use super::{Caches, RustProperty};
use crate::user_agent;

pub use fields::UncontestedFields;
pub(crate) use finalizers::FinalizerJournal;
pub use finalizers::Finalizers;
pub use owners::{NoOrphans, ValidOwners};
pub use second::SecondReconcile;
pub(crate) use second::second_writes;
pub use secrets::NoSecrets;
pub use specs::{FilledIn, SpecsAsAsked};
pub use status::{ObservedGenerations, TransitionTimes};

/// The name of the rule that no controller repeats a request again and again while nothing changes: without a back-off,
/// or without waiting for a change.
///
/// It is about requests, which a [`Property`](super::Property) does not see, so scenarios and testbeds check it
/// themselves.
pub const HOT_REQUEUE: &str = "no hot requeue";
/// The name of the rule that the controllers of a testbed remove their finalizers, and of [`Finalizers`].
pub const FINALIZERS: &str = "finalizers are removed";

/// Whether a controller or a node wrote it, and not the test.
fn is_by_component(entry: &JournalEntry) -> bool {
    let is_loader = *entry.user_agent == *user_agent::LOADER;
    !is_loader && user_agent::is_component(&entry.user_agent)
}

/// `pods default/a`, `nodes a`
fn named(resource: &str, object: &Value) -> String {
    let resource = resource.split('.').next().unwrap_or_default();
    match namespace(object) {
        "" => format!("{resource} {}", name(object)),
        namespace => format!("{resource} {namespace}/{}", name(object)),
    }
}

/// The properties that a testbed may be asked for, with nothing to remember yet, about controllers with these caches.
fn with(caches: Caches) -> Vec<RustProperty> {
    vec![
        RustProperty::new(NoOrphans::default),
        RustProperty::new(UncontestedFields::default),
        RustProperty::new(ObservedGenerations::default),
        RustProperty::new(move || TransitionTimes::new(caches)),
        RustProperty::new(NoSecrets::default),
        RustProperty::new(SpecsAsAsked::default),
        RustProperty::new(ValidOwners::default),
    ]
}

/// The properties that a testbed may be asked for, with nothing to remember yet.
pub(crate) fn on_request() -> Vec<RustProperty> {
    with(Caches::Current)
}

/// The properties of every scenario whose controllers have these caches.
pub(crate) fn of_scenarios(caches: Caches) -> Vec<RustProperty> {
    let mut all = with(caches);
    all.push(RustProperty::new(Finalizers::default));
    all
}

#[cfg(test)]
mod tests;
