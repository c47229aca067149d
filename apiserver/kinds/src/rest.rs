//! The storage behind the verbs of a resource and of its subresources. Upstream, the storage provider
//! of an API group installs a REST storage for each.

use std::fmt::Debug;

use crate::json::{Map, Value};
use crate::request::options::Query;
use crate::status::{ApiError, FieldErrors};

/// The operation that a POST to a resource performs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateRest {
    /// It stores the object. Upstream: the generic store.
    Store,
    /// It binds the pod that the object names. Upstream: `LegacyBindingREST`.
    Binding,
    /// It answers a question; the answer is an object of the same kind.
    Review(Review),
}

/// The source of the answers to a GET of a resource. Upstream, the metrics APIs are servers of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadRest {
    /// The stored objects. Upstream: the generic store.
    Store,
    /// What nodes use at present. Upstream: metrics-server.
    NodeMetrics,
    /// What pods use at present. Upstream: metrics-server.
    PodMetrics,
    /// Metrics of objects. Upstream: an adapter of `custom.metrics.k8s.io`.
    CustomMetrics,
    /// Metrics of things outside of the cluster. Upstream: an adapter of `external.metrics.k8s.io`.
    ExternalMetrics,
}

/// A question about identity or permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// TokenReview: the holder of a token.
    Token,
    /// SelfSubjectReview: the user of the request.
    SelfSubject,
    /// SelfSubjectRulesReview: the permissions of the user of the request in a namespace.
    SelfSubjectRules,
    /// SelfSubjectAccessReview: whether the user of the request may do something.
    SelfSubjectAccess,
    /// SubjectAccessReview: whether a user may do something.
    SubjectAccess,
    /// LocalSubjectAccessReview: whether a user may do something in the namespace of the request.
    LocalSubjectAccess,
}

/// The storage behind a subresource. Upstream: the `REST` type that the kind's storage installs for it.
#[derive(Clone, Copy, Debug)]
pub enum SubresourceRest {
    /// The object; a write changes its status, by the rules of
    /// [`Strategy::subresource`](crate::Strategy::subresource) if the kind has some for it, and
    /// otherwise of status updates. Upstream: `StatusREST`, `ApprovalREST`.
    Status,
    /// The replicas of the object as `autoscaling/v1` Scale. Upstream: `ScaleREST`.
    Scale,
    /// The object; a write changes one part of it. Upstream: `EphemeralContainersREST`,
    /// `ResizeREST`.
    Part(&'static dyn Part),
    /// The object, whose status a PUT keeps; the function returns the faults of the new object.
    /// Upstream: `FinalizeREST`.
    Finalize(fn(&Value) -> FieldErrors),
    /// POST of a Binding to its pod. Upstream: `BindingREST`.
    Binding,
    /// POST of an Eviction, which deletes the pod if its disruption budget allows. Upstream:
    /// `EvictionREST`.
    Eviction,
    /// POST of a TokenRequest, which issues a token to the account. Upstream: `TokenREST`.
    Token,
    /// A connection to a container or to the ports of a pod.
    Stream(Connecter),
    /// The log of a container. Upstream: `LogREST`.
    Log,
    /// A proxy. Upstream: `ProxyREST`.
    Proxy(ProxyTarget),
}

/// A part of an object that has a subresource of its own.
pub trait Part: Debug + Sync {
    /// Returns `current` with only this part taken from `wanted`.
    fn take(&self, wanted: &Value, current: &Value) -> Value;

    /// Faults of `next`, which replaces `current`.
    fn validate(&self, next: &Value, current: &Value) -> FieldErrors;
}

/// A subresource that upgrades its connection. Upstream: `rest.Connecter`.
#[derive(Clone, Copy, Debug)]
pub struct Connecter {
    /// The protocol of the connection.
    pub stream: Stream,
    /// Reads the fields of the options from the query, as admission sees them.
    pub options: fn(&Query) -> Result<Map, ApiError>,
}

/// The protocol of an upgraded connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// A new process in a container.
    Exec,
    /// The first process of a container.
    Attach,
    /// Connections to ports of the pod.
    PortForward,
}

/// The destination of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyTarget {
    /// A port of a node.
    Node,
    /// A port of a pod.
    Pod,
    /// A port of one endpoint of a service.
    Service,
}

impl ProxyTarget {
    /// The kind as errors name it: `node`, `pod` or `service`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Pod => "pod",
            Self::Service => "service",
        }
    }
}
