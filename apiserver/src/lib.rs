//! An in-memory Kubernetes API server with the behavior of v1.36.
//!
//! [`ApiServer`] is the server, and has an example. It is a `tower::Service`, so a client in the same process needs no
//! socket: `kube::Client::new(ApiServer::builder().build(), "default")`. [`serve`] and [`serve_tls`] serve it on one.
//!
//! Metadata, types of the API, patches and field managers are in `kubeproof_machinery`, CEL is `kubeproof_cel`. The
//! modules of this crate are layers. Each names only those above it in this list:
//!
//! - [`fault`]: faults between clients and server that a test asks for
//! - `metrics`: the families of `/metrics`
//! - [`audit`]: the record of requests, as `audit.k8s.io/v1`
//! - `webhook`: calls over HTTPS of configured webhooks
//! - `api_services`: the APIServices that other servers serve
//! - `metric_values`: values of custom and external metrics
//! - `cluster`: the state that everything above shares
//! - `usage`: what simulated containers use of processor and memory
//! - `auth`: authentication and authorization of requests
//! - `admission`: the default admission plugins of a cluster, webhooks and policies
//! - `store`: creates, updates and deletes objects
//! - `apiextensions`: the controllers of CustomResourceDefinitions
//! - `aggregator`: APIServices that other servers serve: whether they answer, and discovery with their resources
//! - [`resource_quota`]: the usage of quotas by objects
//! - [`type_checking`]: the expressions of admission policies against the types of objects
//! - [`device_selection`]: selectors of devices, in CEL
//! - [`invariant`]: what must hold at every revision, in CEL
//! - [`certificate_authority`]: signs certificates for CertificateSigningRequests
//! - `spdy`: the frames of SPDY/3.1, in which clients open streams
//! - `kubelet`: the server's requests to nodes
//! - `endpoints`: handlers, watches, discovery, OpenAPI, health
//! - `server`: [`ApiServer`], its builder, its listener, certificates
//!
//! # Features
//!
//! Both are on unless a crate asks for `default-features = false`.
//!
//! - `openapi`: the OpenAPI documents, which kubectl reads
//! - `tls`: [`serve_tls`], and certificates made at the start

mod admission;
mod aggregator;
mod api_services;
mod apiextensions;
pub mod audit;
mod auth;
pub mod certificate_authority;
mod cluster;
pub mod device_selection;
mod endpoints;
pub mod fault;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod invariant;
mod kubelet;
mod metric_values;
mod metrics;
pub mod resource_quota;
mod server;
mod spdy;
mod store;
#[cfg(test)]
mod tests;
pub mod type_checking;
mod usage;
mod webhook;

use kubeproof_cel as cel;
use kubeproof_kinds as registry;
use kubeproof_machinery::{
    cancellation, field_manager, nesting, patch, request, schema, suggestion, x509, yaml,
};
pub use kubeproof_machinery::{clock, json, meta, status};
use kubeproof_storage as storage;

pub use admission::{
    AdmissionConfiguration, AdmissionConfigurationError, AdmissionFlags, AdmissionPlugins,
};
pub use auth::{
    AbacPolicy, AbacPolicyError, AuthenticationWebhook, Authorization, AuthorizationWebhook,
    RequestHeaders, ReviewVersionError, TokenFile, TokenFileError, TokenKeyError, TokenKeys,
};
pub use clock::Clock;
pub use endpoints::body::{Dropped, ResponseBody};
pub use endpoints::deadline::RequestTimeouts;
pub use endpoints::discovery::GIT_VERSION as KUBERNETES_VERSION;
pub use endpoints::pace::Pace;
pub use endpoints::warnings::text as warning_text;
pub use kubelet::{
    Connect, ContainerReference, ContainerStreams, ContainerUsage, ExecOptions, Kubelet,
    KubeletError, LogOptions, OutputStream, PodPorts, PodReference, PortConnection,
};
pub use metric_values::{MetricError, MetricValue};
pub use nesting::on_deep_stack;
pub use registry::core::embedded;
pub use registry::core::service::ServiceRanges;
pub use request::{RequestInfo, Verb};
pub use schema::FieldValidation;
pub use server::{
    ApiServer, ApiServerBuilder, AuthorityError, FeatureGateError, FeatureGates, ForkError,
    ImportError, ImportOptions, Imported, Livelock, LivelockLimits, LoadError, Loader, Manifest,
    ManifestError, Manifests, NotServed, REQUEST_LOG, RuntimeConfig, SecretToken, ServerState,
    StateError, Unstored, Webhook, serve, serve_requests,
};
#[cfg(feature = "tls")]
pub use server::{ClientCertificate, ServingCertificate, ServingCertificateError, Tls, serve_tls};
pub use storage::{EventType, JournalEntry, JournaledObject, WatchControl};
pub use webhook::{KubeconfigError, WebhookKubeconfig};
