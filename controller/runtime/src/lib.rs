//! The plumbing of controllers and simulated nodes on kube-rs, in the manner of client-go.
//!
//! No module knows a controller, and none knows the API server except as an API.
//!
//! - [`context`], [`clock`]: the client and the time, as every controller gets them
//! - [`store`]: the objects of a watched resource by key; [`reflector`] and [`informer`] feed it; [`decode_cache`] and
//!   [`typed_cache`] decode an object once for all stores; `compact` and `weak_map` save memory
//! - [`decode`]: typed objects from values
//! - [`discovery`]: the resources that a server offers
//! - [`work_queue`], [`worker`]: a rate-limited queue of keys, and the tasks that take keys from it
//! - [`consistency`], [`expectations`], [`named_expectations`], [`version_expectations`]: writes that a cache does not show yet
//! - [`retry`], [`metadata_response`], [`sync_error`], [`json_diff`]: retries, answers, errors and differences of writes
//! - [`selector`]: selectors as Go prints them
//! - [`recorder`]: writes Events, as client-go does
//! - [`supervisor`]: records and restarts controllers that end; [`task`]: work that runs on another thread than its caller
//! - [`pod`]: pods that share specs and statuses; it and [`controller_ref`], [`resource_claim`], [`taints`], [`volume`] have accessors
//!   of objects
//! - [`int_or_percent`], [`node_affinity`], [`pod_resources`], [`tolerations`]: amounts and matches of typed objects

pub mod clock;
mod compact;
pub mod condition;
pub mod consistency;
pub mod context;
pub mod controller_ref;
pub mod decode;
pub mod decode_cache;
pub mod discovery;
pub mod expectations;
pub mod informer;
pub mod int_or_percent;
pub mod json_diff;
pub mod metadata_response;
pub mod named_expectations;
pub mod node_affinity;
pub mod pod;
pub mod pod_resources;
pub mod recorder;
pub mod reflector;
pub mod resource_claim;
pub mod retry;
pub mod selector;
pub mod store;
pub mod supervisor;
pub mod sync_error;
pub mod taints;
pub mod task;
pub mod tolerations;
pub mod typed_cache;
pub mod version_expectations;
pub mod volume;
mod weak_map;
pub mod work_queue;
pub mod worker;
