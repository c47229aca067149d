//! The kinds of the Gateway API, in the parts that their statuses follow from.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::core::{ApiResource, GroupVersionKind, Object};
use serde::{Deserialize, Serialize};

/// The API group.
pub(super) const GROUP: &str = "gateway.networking.k8s.io";

pub(super) type GatewayClass = Object<GatewayClassSpec, GatewayClassStatus>;
pub(super) type Gateway = Object<GatewaySpec, GatewayStatus>;
/// An HTTPRoute or a GRPCRoute.
pub(super) type Route = Object<RouteSpec, RouteStatus>;
pub(super) type ReferenceGrant = Object<ReferenceGrantSpec, Empty>;
pub(super) type CustomResourceDefinition = Object<Empty, CustomResourceDefinitionStatus>;

/// What nothing follows from.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Empty {}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct CustomResourceDefinitionStatus {
    #[serde(default)]
    pub(super) conditions: Vec<DefinitionCondition>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct DefinitionCondition {
    #[serde(rename = "type")]
    pub(super) type_: String,
    pub(super) status: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GatewayClassSpec {
    pub(super) controller_name: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
pub(super) struct GatewayClassStatus {
    #[serde(default)]
    pub(super) conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GatewaySpec {
    pub(super) gateway_class_name: String,
    #[serde(default)]
    pub(super) listeners: Vec<Listener>,
    #[serde(default)]
    pub(super) addresses: Vec<Address>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Listener {
    pub(super) name: String,
    pub(super) hostname: Option<String>,
    pub(super) port: i32,
    pub(super) protocol: String,
    pub(super) tls: Option<Tls>,
    #[serde(default)]
    pub(super) allowed_routes: AllowedRoutes,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tls {
    pub(super) mode: Option<String>,
    #[serde(default)]
    pub(super) certificate_refs: Vec<Reference>,
}

/// A reference to an object; group and kind have defaults that depend on the field.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Reference {
    pub(super) group: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct AllowedRoutes {
    #[serde(default)]
    pub(super) namespaces: RouteNamespaces,
    #[serde(default)]
    pub(super) kinds: Vec<RouteGroupKind>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct RouteNamespaces {
    pub(super) from: Option<String>,
    pub(super) selector: Option<LabelSelector>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
pub(super) struct RouteGroupKind {
    pub(super) group: Option<String>,
    pub(super) kind: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
pub(super) struct Address {
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub(super) type_: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
pub(super) struct GatewayStatus {
    #[serde(default)]
    pub(super) addresses: Vec<Address>,
    #[serde(default)]
    pub(super) conditions: Vec<Condition>,
    #[serde(default)]
    pub(super) listeners: Vec<ListenerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListenerStatus {
    pub(super) name: String,
    #[serde(default)]
    pub(super) supported_kinds: Vec<RouteGroupKind>,
    #[serde(default)]
    pub(super) attached_routes: i32,
    #[serde(default)]
    pub(super) conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RouteSpec {
    #[serde(default)]
    pub(super) parent_refs: Vec<ParentReference>,
    #[serde(default)]
    pub(super) hostnames: Vec<String>,
    #[serde(default)]
    pub(super) rules: Vec<Rule>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(super) struct ParentReference {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) section_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) port: Option<i32>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rule {
    #[serde(default)]
    pub(super) backend_refs: Vec<Reference>,
    #[serde(default)]
    pub(super) filters: Vec<Filter>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Filter {
    pub(super) request_mirror: Option<RequestMirror>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestMirror {
    pub(super) backend_ref: Reference,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
pub(super) struct RouteStatus {
    #[serde(default)]
    pub(super) parents: Vec<RouteParentStatus>,
}

#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(super) struct RouteParentStatus {
    pub(super) parent_ref: ParentReference,
    pub(super) controller_name: String,
    #[serde(default)]
    pub(super) conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct ReferenceGrantSpec {
    #[serde(default)]
    pub(super) from: Vec<GrantFrom>,
    #[serde(default)]
    pub(super) to: Vec<GrantTo>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
pub(super) struct GrantFrom {
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) namespace: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct GrantTo {
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) name: Option<String>,
}

/// A kind of routes that listeners for HTTP have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RouteKind {
    Http,
    Grpc,
}

impl RouteKind {
    pub(super) const ALL: [Self; 2] = [Self::Http, Self::Grpc];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Http => "HTTPRoute",
            Self::Grpc => "GRPCRoute",
        }
    }

    pub(super) fn resource(self) -> ApiResource {
        match self {
            Self::Http => resource("v1", self.name(), "httproutes"),
            Self::Grpc => resource("v1", self.name(), "grpcroutes"),
        }
    }

    pub(super) fn group_kind(self) -> RouteGroupKind {
        RouteGroupKind {
            group: Some(GROUP.to_owned()),
            kind: self.name().to_owned(),
        }
    }
}

fn resource(version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, version, kind), plural)
}

pub(super) fn classes() -> ApiResource {
    resource("v1", "GatewayClass", "gatewayclasses")
}

pub(super) fn gateways() -> ApiResource {
    resource("v1", "Gateway", "gateways")
}

/// ReferenceGrants, in the version that all releases of the Gateway API serve.
pub(super) fn grants() -> ApiResource {
    resource("v1beta1", "ReferenceGrant", "referencegrants")
}

pub(super) fn definitions() -> ApiResource {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    ApiResource::from_gvk_with_plural(&kind, "customresourcedefinitions")
}

/// The labels of namespaces, by name.
pub(super) type Namespaces = BTreeMap<String, BTreeMap<String, String>>;
