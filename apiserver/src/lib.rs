//! An in-memory Kubernetes API server with the behavior of v1.36.
//!
//! The modules of this crate are layers. Each names only those above it in this list:
//!
//! - [`clock`]: time and randomness
//! - [`status`]: every answer of a handler that is not an object
//! - `cancellation`: whether a client still waits for the outcome of a long request
//! - `x509`: certificates as Go judges them
//! - `nesting`: documents that nest deeply, and stacks with room for them
//! - [`meta`]: names, group-version-resources, selectors, access to an object's metadata
//! - `schema`: the fields of every kind, decoding into them, quantities
//! - `storage`: objects and their past events, by resource
//! - `cel`: the expression language of validation rules
//! - `patch`: JSON, merge and strategic merge patches
//! - `field_manager`: who owns which fields, and server-side apply
//! - `yaml`: YAML as Go reads and writes it
//! - `request`: the attributes and options of a request
//! - `suggestion`: errors for names that do not exist
//! - [`fault`]: faults between clients and server that a test asks for
//! - `registry`: the facts and the strategy of each kind, and objects as cells of a table
//! - `metrics`: the families of `/metrics`
//! - `webhook`: calls over HTTPS of configured webhooks
//! - `cluster`: the state that everything above shares
//! - `auth`: authentication and authorization of requests
//! - `admission`: the default admission plugins of a cluster, webhooks and policies
//! - `store`: creates, updates and deletes objects
//! - `apiextensions`: the controllers of CustomResourceDefinitions
//! - [`resource_quota`]: the usage of quotas by objects
//! - [`type_checking`]: the expressions of admission policies against the types of objects
//! - [`invariant`]: what must hold at every revision, in CEL
//! - [`certificate_authority`]: signs certificates for CertificateSigningRequests
//! - `spdy`: the frames of SPDY/3.1, in which clients open streams
//! - `kubelet`: the server's requests to nodes
//! - `endpoints`: handlers, watches, discovery, OpenAPI, health
//! - `server`: [`ApiServer`], its builder, its listener, certificates

mod admission;
mod apiextensions;
mod auth;
mod cancellation;
mod cel;
pub mod certificate_authority;
pub mod clock;
mod cluster;
mod endpoints;
pub mod fault;
mod field_manager;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod gvk;
pub mod invariant;
mod kubelet;
pub mod meta;
mod metrics;
mod nesting;
mod patch;
mod registry;
mod request;
pub mod resource_quota;
mod schema;
mod server;
mod spdy;
pub mod status;
mod storage;
mod store;
mod suggestion;
pub mod type_checking;
mod webhook;
mod x509;
mod yaml;

pub use auth::{Authorization, TokenKeyError, TokenKeys};
pub use clock::Clock;
pub use endpoints::body::{Dropped, ResponseBody};
pub use endpoints::discovery::GIT_VERSION as KUBERNETES_VERSION;
pub use endpoints::warnings::text as warning_text;
pub use kubelet::{
    Connect, ContainerReference, ContainerStreams, ExecOptions, Kubelet, KubeletError, LogOptions,
    OutputStream, PodPorts, PodReference, PortConnection,
};
pub use nesting::on_deep_stack;
pub use registry::core::embedded;
pub use request::{RequestInfo, Verb};
pub use schema::FieldValidation;
pub use server::{
    ApiServer, ApiServerBuilder, AuthorityError, ClientCertificate, ForkError, Livelock,
    LivelockLimits, LoadError, Loader, Manifest, ManifestError, Manifests, NotServed, REQUEST_LOG,
    SecretToken, ServerState, StateError, Tls, Webhook, serve, serve_requests, serve_tls,
};
pub use storage::{EventType, JournalEntry, JournaledObject, WatchControl};
