//! Servers whose audit events are kept.

use std::sync::Arc;

use kubeproof_apiserver::audit::{Audit, Event, Policy};
use kubeproof_apiserver::json::Value;
use parking_lot::Mutex;

/// The audit events of a server, as lines of JSON.
#[derive(Clone, Default)]
pub(crate) struct Events(Arc<Mutex<Vec<String>>>);

impl Events {
    /// Auditing by rules in YAML, between commas, into these events.
    pub(crate) fn audit(&self, rules: &str) -> Audit {
        let lines = Arc::clone(&self.0);
        Audit::new(policy(rules)).sink(move |event: &Event| lines.lock().push(event.to_json()))
    }

    /// The lines since the last call.
    pub(crate) fn lines(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }

    /// The events since the last call.
    pub(crate) fn all(&self) -> Vec<Value> {
        let lines = self.lines();
        let events = lines.iter().map(|line| serde_json::from_str(line).unwrap());
        events.collect()
    }

    /// The only event since the last call.
    pub(crate) fn only(&self) -> Value {
        let mut all = self.all();
        assert_eq!(all.len(), 1, "{all:#?}");
        all.remove(0)
    }
}

/// A policy with these rules in YAML, between commas.
pub(crate) fn policy(rules: &str) -> Policy {
    let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{rules}]");
    Policy::read(text.as_bytes()).unwrap()
}
