//! The state that a testbed begins with, in words.

use kubeproof_apiserver::Manifests;
use kubeproof_controller::CONTROLLERS;

use super::{Testbed, TestbedOptions};
use crate::scenario::{DEFAULT_NAMESPACE, object_in_words};
use crate::timeline::given::{filled, metrics, nodes};

/// Returns the objects of `manifests` in words: `customresourcedefinition webapps.example.com`.
pub(super) fn objects(manifests: &Manifests) -> Vec<String> {
    let manifests = manifests.clone().into_iter();
    manifests
        .map(|manifest| object_in_words(&manifest.object))
        .collect()
}

impl Testbed {
    /// Returns the lines that head the timeline: the nodes, the controllers and the objects that the builder was given.
    pub(super) fn given_in_words(&self) -> String {
        let mut parts = self.cluster().options.in_words();
        parts.extend(self.given.iter().cloned());
        let lines = filled(&parts).join("\n");
        lines.replacen("#        ", "# given: ", 1)
    }
}

impl TestbedOptions {
    fn in_words(&self) -> Vec<String> {
        let has_all = CONTROLLERS
            .iter()
            .all(|name| self.controllers.iter().any(|own| own == name));
        let names = self.controllers.iter().map(String::as_str);
        let more: Vec<&str> = names.filter(|name| !CONTROLLERS.contains(name)).collect();
        let controllers = match self.controllers.as_slice() {
            [] => "no controllers".to_owned(),
            _ if has_all && more.is_empty() => "all controllers".to_owned(),
            _ if has_all => format!("all controllers, and {}", more.join(", ")),
            names => format!("controllers: {}", names.join(", ")),
        };
        let mut parts = vec![nodes(self.nodes), controllers];
        parts.extend(metrics(self.metrics, self.nodes));
        if self.namespace != DEFAULT_NAMESPACE {
            parts.push(format!("namespace: {}", self.namespace));
        }
        if self.default_storage_class {
            parts.push("a default storage class with its provisioner".to_owned());
        }
        if let Some(pool) = &self.load_balancers {
            parts.push(format!("a cloud with the addresses {pool}"));
        }
        parts
    }
}
