//! What kubelets may do: everything on their node, and what its pods refer to.
//!
//! Upstream keeps a graph of the references. Here they are looked up in the stored objects.
//! Source: `plugin/pkg/auth/authorizer/node`.

mod references;

use std::sync::LazyLock;

use super::{Attributes, NODES, User};
use crate::json::Value;
use crate::meta::GroupResource;
use crate::meta::selector::FieldSelector;
use crate::registry::bootstrap;
use crate::request::Decision;
use crate::status::quoted;
use crate::storage::Storage;
use references::{Kind, References};

const PREFIX: &str = "system:node:";
/// The namespace of the leases of nodes.
const LEASES: &str = "kube-node-lease";
/// The error of reviews that list a node's permissions.
pub(super) const NOT_LISTED: &str = "node authorizer does not support user rule resolution";

/// The node that a user is, which may be empty; `None` for a user that is no node.
pub(super) fn of(user: &User) -> Option<&str> {
    user.name.strip_prefix(PREFIX).filter(|_| user.is_in(NODES))
}

/// Decides for a kubelet, and has no opinion about other users.
pub(super) fn decide(storage: &Storage, user: &User, attributes: &Attributes<'_>) -> Decision {
    let Some(node) = of(user) else {
        return Decision::NoOpinion(String::new());
    };
    if node.is_empty() {
        let why = format!("unknown node for user {}", quoted(&user.name));
        return Decision::NoOpinion(why);
    }
    let Attributes::Resource {
        verb,
        group,
        resource,
        subresource,
        namespace,
        name,
        selectors,
        ..
    } = attributes
    else {
        return by_rules(attributes);
    };
    let request = NodeRequest {
        references: References { storage, node },
        node,
        verb,
        subresource,
        namespace,
        name,
        fields: &selectors.field,
    };
    let decided = match (group.as_ref(), resource.as_ref()) {
        ("", "secrets") => request.read_of_namespace(Kind::Secret),
        ("", "configmaps") => request.read_of_namespace(Kind::ConfigMap),
        ("", "persistentvolumeclaims") if subresource == "status" => {
            request.status_update(Kind::Claim)
        }
        ("", "persistentvolumeclaims") => request.get(Kind::Claim),
        ("", "persistentvolumes") => request.get(Kind::Volume),
        ("resource.k8s.io", "resourceclaims") => request.get(Kind::ResourceClaim),
        ("storage.k8s.io", "volumeattachments") => request.get(Kind::Attachment),
        ("", "serviceaccounts") => request.service_account(),
        ("coordination.k8s.io", "leases") => request.lease(),
        ("storage.k8s.io", "csinodes") => request.csi_node(),
        ("resource.k8s.io", "resourceslices") => request.slice(),
        ("", "nodes") => request.node(),
        ("", "pods") => request.pod(),
        // Without the feature gate PodCertificateRequest nodes have no business with these.
        ("certificates.k8s.io", "podcertificaterequests") => Err(String::new()),
        _ => return by_rules(attributes),
    };
    match decided {
        Ok(()) => Decision::Allowed(String::new()),
        Err(why) => Decision::NoOpinion(why),
    }
}

/// The rules that all nodes have: those of the initial ClusterRole `system:node`.
static RULES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let resource = GroupResource {
        group: super::rbac::GROUP.to_owned(),
        resource: "clusterroles".to_owned(),
    };
    let roles = bootstrap::lines(&resource);
    let mut roles = roles.filter_map(|(role, _)| serde_json::from_str::<Value>(role).ok());
    let own = roles.find(|role| role["metadata"]["name"] == "system:node");
    let rules = own.map(|mut role| role["rules"].take());
    match rules {
        Some(Value::Array(rules)) => rules,
        _ => Vec::new(),
    }
});

/// Decides by the rules that all nodes have.
fn by_rules(attributes: &Attributes<'_>) -> Decision {
    match RULES.iter().any(|rule| attributes.is_granted_by(rule)) {
        true => Decision::Allowed(String::new()),
        false => Decision::NoOpinion(String::new()),
    }
}

/// A request of a node for a resource.
struct NodeRequest<'a> {
    references: References<'a>,
    node: &'a str,
    verb: &'a str,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
    /// The field selector.
    fields: &'a str,
}

/// Permission, or the reason why the node has none.
type Permitted = Result<(), String>;

fn refused(why: &str) -> Permitted {
    Err(why.to_owned())
}

impl NodeRequest<'_> {
    /// Permits what concerns an object that the node has to do with.
    fn related(&self, kind: Kind) -> Permitted {
        if self.name.is_empty() {
            return refused("No Object name found");
        }
        match self.references.lead_to(kind, self.namespace, self.name) {
            true => Ok(()),
            false => Err(format!(
                "no relationship found between node '{}' and this object",
                self.node
            )),
        }
    }

    fn status_update(&self, kind: Kind) -> Permitted {
        match self.verb {
            "update" | "patch" => self.related(kind),
            _ => refused("can only get/update/patch this type"),
        }
    }

    fn get(&self, kind: Kind) -> Permitted {
        if self.verb != "get" {
            return refused("can only get individual resources of this type");
        }
        match self.subresource {
            "" => self.related(kind),
            _ => refused("cannot get subresource"),
        }
    }

    fn read_of_namespace(&self, kind: Kind) -> Permitted {
        if !matches!(self.verb, "get" | "list" | "watch") {
            return refused("can only read resources of this type");
        }
        if !self.subresource.is_empty() {
            return refused("cannot read subresource");
        }
        match self.namespace {
            "" => refused("can only read namespaced object of this type"),
            _ => self.related(kind),
        }
    }

    fn service_account(&self) -> Permitted {
        if (self.verb, self.subresource) == ("get", "") {
            return self.read_of_namespace(Kind::ServiceAccount);
        }
        if self.verb != "create" || self.name.is_empty() {
            return refused("can only create tokens for individual service accounts");
        }
        match self.subresource {
            "token" => self.related(Kind::ServiceAccount),
            _ => refused("can only create token subresource of serviceaccount"),
        }
    }

    /// Whether the verb is one for single objects.
    fn is_for_one(&self) -> bool {
        matches!(self.verb, "get" | "create" | "update" | "patch" | "delete")
    }

    fn lease(&self) -> Permitted {
        if !self.is_for_one() {
            return refused("can only get, create, update, patch, or delete a node lease");
        }
        if self.namespace != LEASES {
            return Err(format!(
                "can only access leases in the {LEASES:?} system namespace"
            ));
        }
        // The name of a new object is in its body, which authorization does not see.
        match self.verb == "create" || self.name == self.node {
            true => Ok(()),
            false => {
                refused("can only access node lease with the same name as the requesting node")
            }
        }
    }

    fn csi_node(&self) -> Permitted {
        if !self.is_for_one() {
            return refused("can only get, create, update, patch, or delete a CSINode");
        }
        if !self.subresource.is_empty() {
            return refused("cannot authorize CSINode subresources");
        }
        match self.verb == "create" || self.name == self.node {
            true => Ok(()),
            false => refused("can only access CSINode with the same name as the requesting node"),
        }
    }

    fn slice(&self) -> Permitted {
        if !self.subresource.is_empty() {
            return refused("cannot authorize ResourceSlice subresources");
        }
        match self.verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => self.related(Kind::ResourceSlice),
            "watch" | "list" | "deletecollection" => match self.selects("spec.nodeName") {
                true => Ok(()),
                false => refused(
                    "can only list/watch/deletecollection resourceslices with nodeName field \
                     selector",
                ),
            },
            _ => refused(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, \
                 create, update, patch, delete, deletecollection",
            ),
        }
    }

    fn node(&self) -> Permitted {
        let node = self.node;
        match (self.subresource, self.verb) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
            ("", "get" | "list" | "watch") => match self.name {
                name if name == node => Ok(()),
                "" => Err(format!(
                    "node '{node}' cannot read all nodes, only its own Node object"
                )),
                name => Err(format!(
                    "node '{node}' cannot read '{name}', only its own Node object"
                )),
            },
            _ => refused(""),
        }
    }

    fn pod(&self) -> Permitted {
        match (self.subresource, self.verb) {
            ("", "get") => self.related(Kind::Pod),
            ("", "list" | "watch") if self.selects("spec.nodeName") => Ok(()),
            ("", "list" | "watch") => match self.name {
                "" => refused("can only list/watch pods with spec.nodeName field selector"),
                _ => self.related(Kind::Pod),
            },
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                Ok(())
            }
            _ => refused(""),
        }
    }

    /// Whether the field selector requires that `field` is the node.
    fn selects(&self, field: &str) -> bool {
        let selector = FieldSelector::parse(self.fields).unwrap_or_default();
        selector
            .terms()
            .iter()
            .any(|term| term.field == field && !term.negated && term.value == self.node)
    }
}
