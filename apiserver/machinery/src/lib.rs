//! The common ground of an API server and of controllers, like `k8s.io/apimachinery`: JSON, names of kinds, metadata,
//! the types of the API, quantities, patches, server-side apply, and the errors of requests.
//!
//! The modules are layers. Each names only those above it in this list:
//!
//! | | |
//! | --- | --- |
//! | [`json`](mod@json) | JSON documents as trees |
//! | [`clock`] | time and randomness |
//! | [`gvk`], [`status`] | names of kinds and resources; the errors of requests and of fields |
//! | [`cancellation`] | whether a client still waits for the outcome of a long request |
//! | [`x509`] | certificates of clients and of webhooks, judged as Go judges them |
//! | [`nesting`] | documents that nest deeply, and stacks with room for them |
//! | [`meta`] | group-version-resources, selectors, validation of names, access to an object's metadata |
//! | [`schema`] | the fields of every kind, decoding into them, quantities, protobuf; structural schemas |
//! | [`patch`] | JSON, merge and strategic merge patches |
//! | [`field_manager`] | managed fields of updates, and server-side apply |
//! | [`yaml`] | YAML as Go reads and writes it |
//! | [`request`] | the attributes and options of a request |
//! | [`suggestion`] | errors for names that do not exist |
//! | [`int_or_percent`] | numbers that may be given as a percentage |
//! | [`pod_resources`] | the resources that a pod takes as a whole |
//! | [`cron`] | the schedules of CronJobs |

pub mod cancellation;
pub mod clock;
pub mod cron;
pub mod field_manager;
pub mod gvk;
pub mod int_or_percent;
pub mod json;
pub mod meta;
pub mod nesting;
pub mod patch;
pub mod pod_resources;
pub mod request;
pub mod schema;
pub mod status;
pub mod suggestion;
pub mod x509;
pub mod yaml;
