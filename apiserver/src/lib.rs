//! An in-memory Kubernetes API server with the behaviour of v1.36.
//!
//! - `endpoints`: discovery, health, OpenAPI, and objects as tables or metadata only
//! - [`meta`]: names, group-version-resources, selectors, access to an object's metadata
//! - `registry`: the facts about each resource, and its objects as cells of a table
//! - `schema`: the fields of every kind, decoding into them, quantities
//! - [`status`]: everything a handler may answer with instead of an object
//! - `cel`: the expression language of validation rules
//! - [`invariant`]: what is to hold at every revision, in CEL
//! - `field_manager`: who owns which fields, and server-side apply
//! - `patch`: JSON, merge and strategic merge patches
//! - `admission`: what a cluster's default admission plugins do to writes
//! - `auth`: who sends a request, and whether they may
//! - `kubelet`: what the server asks of nodes
//! - `server`: [`ApiServer`], its builder, its listener, certificates
//! - `cancellation`: whether a client still waits for the outcome of a long request
//! - [`certificate_authority`]: signs what CertificateSigningRequests ask for
//! - [`clock`]: time and randomness
//! - [`fault`]: what a test has go wrong between clients and server
//! - `nesting`: documents that nest deeply, and stacks with room for them
//! - `spdy`: the frames of SPDY/3.1, in which clients open streams
//! - `storage`: objects and their past events, by resource
//! - [`resource_quota`]: what objects use of quotas
//! - [`type_checking`]: the expressions of admission policies against the types of objects
//! - `webhook`: calls over HTTPS of what clients have configured
//! - `x509`: certificates as Go judges them

mod admission;
mod auth;
mod cancellation;
mod cel;
pub mod certificate_authority;
pub mod clock;
mod endpoints;
pub mod fault;
mod field_manager;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod invariant;
mod kubelet;
pub mod meta;
mod nesting;
mod patch;
mod registry;
pub mod resource_quota;
mod schema;
mod server;
mod spdy;
pub mod status;
mod storage;
mod suggestion;
pub mod type_checking;
mod webhook;
mod x509;

pub use auth::{Authorization, TokenKeyError, TokenKeys};
pub use clock::Clock;
pub use endpoints::body::{Dropped, ResponseBody};
pub use endpoints::discovery::GIT_VERSION as KUBERNETES_VERSION;
pub use endpoints::warnings::text as warning_text;
pub use kubelet::{
    Connect, ContainerReference, ContainerStreams, Kubelet, KubeletError, LogOptions, OutputStream,
    PodPorts, PodReference, PortConnection,
};
pub use nesting::on_deep_stack;
pub use registry::embedded;
pub use schema::FieldValidation;
pub use server::{
    ApiServer, ApiServerBuilder, AuthorityError, ClientCertificate, ForkError, Livelock,
    LivelockLimits, LoadError, Loader, Manifest, ManifestError, Manifests, NotServed, REQUEST_LOG,
    SecretToken, ServerState, StateError, Tls, serve, serve_requests, serve_tls,
};
pub use storage::{EventType, JournalEntry, JournaledObject, WatchControl};
pub use webhook::Webhook;
