//! Secrets where everybody may read them.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::Value;

use super::super::pods::name;
use super::super::{Property, World};
use super::is_by_component;

/// Shorter values may be in any text by chance.
const LENGTH_MIN: usize = 8;
/// Keys of a Secret whose values are no secrets.
const PUBLIC_KEYS: [&str; 5] = ["username", "namespace", "ca.crt", "tls.crt", "token-id"];

/// No controller writes a value of a Secret into an event or a status, neither as it is nor in base64.
///
/// Values of less than eight bytes do not count, nor those of the keys `username`, `namespace`, `ca.crt`, `tls.crt` and
/// `token-id`, which are public.
///
/// Source: Kubernetes documentation, "Good practices for Kubernetes Secrets".
#[derive(Clone, Debug, Default)]
pub struct NoSecrets {
    /// The Secret and the key, by the value and by its base64.
    known: BTreeMap<String, String>,
}

impl NoSecrets {
    fn learn(&mut self, secret: &Value) {
        let data = secret["data"].as_object().into_iter().flatten();
        for (key, value) in data.filter(|(key, _)| !PUBLIC_KEYS.contains(&key.as_str())) {
            let Some(encoded) = value.as_str() else {
                continue;
            };
            let of = format!("{key} of secret {}", name(secret));
            let plain = STANDARD.decode(encoded).ok();
            let Some(plain) = plain.filter(|plain| plain.len() >= LENGTH_MIN) else {
                continue;
            };
            self.known.insert(encoded.to_owned(), of.clone());
            if let Ok(plain) = String::from_utf8(plain) {
                self.known.insert(plain, of);
            }
        }
    }

    /// The first Secret of which a text in `value` has a value.
    fn found(&self, value: &Value) -> Option<&str> {
        match value {
            Value::String(text) => {
                let mut known = self.known.iter();
                let found = known.find(|(secret, _)| text.contains(secret.as_str()));
                found.map(|(_, of)| of.as_str())
            }
            Value::Array(items) => items.iter().find_map(|item| self.found(item)),
            Value::Object(fields) => fields.values().find_map(|field| self.found(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }
}

impl Property for NoSecrets {
    fn name(&self) -> &str {
        "no secret in events or status"
    }

    fn judge(&mut self, entry: &JournalEntry, _world: &World) -> Vec<String> {
        let resource = entry.gvr.resource.as_str();
        if resource == "secrets" && entry.event != EventType::Deleted {
            self.learn(&entry.object);
        }
        if self.known.is_empty() || !is_by_component(entry) || entry.event == EventType::Deleted {
            return Vec::new();
        }
        let (place, found) = match resource {
            "events" => {
                let texts = ["message", "note", "reason", "action"];
                let mut texts = texts.iter().map(|field| &entry.object[*field]);
                ("", texts.find_map(|text| self.found(text)))
            }
            _ => ("the status of ", self.found(&entry.object["status"])),
        };
        let violation =
            found.map(|of| format!("{place}{resource} {} has {of}", name(&entry.object)));
        violation.into_iter().collect()
    }
}
