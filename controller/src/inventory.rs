//! The kinds a server offers, for controllers that act on all of them.

use kube::api::DynamicObject;
use kube::core::discovery::{ApiResource, Scope};
use kube::discovery::Discovery;
use kube::{Api, Client};

use crate::mirror::ObjectKey;

/// One kind, in the version its group recommends.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
    verbs: Vec<String>,
}

impl Kind {
    pub(crate) fn supports(&self, verb: &str) -> bool {
        self.verbs.iter().any(|supported| supported == verb)
    }

    /// The objects of this kind in `namespace`, or all of them if it has no namespaces.
    pub(crate) fn api(&self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        if self.namespaced {
            Api::namespaced_with(client.clone(), namespace, &self.resource)
        } else {
            Api::all_with(client.clone(), &self.resource)
        }
    }

    /// Where `key` is found.
    pub(crate) fn api_of(&self, client: &Client, key: &ObjectKey) -> Api<DynamicObject> {
        self.api(client, &key.namespace)
    }

    /// Whether nothing owns objects of this kind, which expire by themselves.
    pub(crate) fn is_event(&self) -> bool {
        self.is("", "Event") || self.is("events.k8s.io", "Event")
    }

    pub(crate) fn is(&self, group: &str, kind: &str) -> bool {
        self.resource.group == group && self.resource.kind == kind
    }
}

/// All kinds whose objects can be listed and deleted, by group and plural name.
///
/// # Errors
///
/// When any part of discovery can't be read: a kind that is missing by accident must not look
/// like one without objects.
pub(crate) async fn discover(client: &Client) -> Result<Vec<Kind>, kube::Error> {
    let discovery = Discovery::new(client.clone()).run().await?;
    let mut kinds: Vec<Kind> = Vec::new();
    for group in discovery.groups_alphabetical() {
        for (resource, capabilities) in group.recommended_resources() {
            let kind = Kind {
                namespaced: capabilities.scope == Scope::Namespaced,
                verbs: capabilities.operations,
                resource,
            };
            let wanted = kind.supports("list") && kind.supports("delete");
            if wanted {
                kinds.push(kind);
            }
        }
    }
    kinds.sort_by(|a, b| {
        let name = |kind: &Kind| (kind.resource.group.clone(), kind.resource.plural.clone());
        name(a).cmp(&name(b))
    });
    Ok(kinds)
}
