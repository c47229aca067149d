//! The plumbing of controllers and nodes. No module here knows a controller.
//!
//! - [`context`], [`clock`]: the client and the time, as every controller gets them
//! - `mirror`, `informer`: caches of a watched resource; `shared` and `parsed` decode an object once for all caches
//! - `inventory`: the kinds that a server offers (discovery)
//! - `work_queue`, `worker`: a rate-limited queue of keys, and the tasks that take keys from it
//! - `triggers`: the keys to queue after the change of an object
//! - `expectations`, `named_expectations`, `version_expectations`: writes that a cache does not show yet
//! - `conflict`, `receipt`, `sync_error`, [`json_diff`]: retries, answers, errors and differences of writes
//! - `recorder`: Events
//! - `supervisor`: records and restarts controllers that end
//! - `controller_ref`, `pod`, `taints`, `volume`: accessors of objects
//! - `int_or_percent`, `node_affinity`, `pod_resources`, `tolerations`: the arithmetic of the API

pub mod clock;
pub(crate) mod conflict;
pub mod context;
pub(crate) mod controller_ref;
pub(crate) mod expectations;
pub(crate) mod informer;
pub(crate) mod int_or_percent;
pub(crate) mod inventory;
pub mod json_diff;
pub(crate) mod mirror;
pub(crate) mod named_expectations;
pub(crate) mod node_affinity;
pub(crate) mod parsed;
pub(crate) mod pod;
pub(crate) mod pod_resources;
pub(crate) mod receipt;
pub(crate) mod recorder;
pub(crate) mod shared;
pub(crate) mod supervisor;
pub(crate) mod sync_error;
pub(crate) mod taints;
pub(crate) mod tolerations;
pub(crate) mod triggers;
pub(crate) mod version_expectations;
pub(crate) mod volume;
pub(crate) mod work_queue;
pub(crate) mod worker;
