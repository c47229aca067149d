//! The facts of a request, and the requests that a fault is about.

use std::sync::Arc;

use super::Requests;
use crate::json::Value;
use crate::request::{RequestInfo, Verb};

/// The product of a client that sends no user agent, as managed fields name it.
const UNKNOWN: &str = "unknown";

/// The facts of a request that rules match.
#[derive(Clone, Debug)]
pub(crate) struct RequestFacts {
    verb: Verb,
    group: String,
    resource: String,
    subresource: Option<String>,
    namespace: Option<String>,
    pub(super) name: Option<String>,
    /// The product in the user agent, or [`UNKNOWN`] if the user agent is empty.
    product: Arc<str>,
}

impl RequestFacts {
    /// `None` for a method that is not served.
    pub(crate) fn of(info: &RequestInfo, user_agent: &str) -> Option<Self> {
        Some(Self {
            verb: info.verb?,
            group: info.group.clone(),
            resource: info.resource.clone(),
            subresource: info.subresource.clone(),
            namespace: info.namespace.clone(),
            name: info.name.clone(),
            product: product_in(user_agent).into(),
        })
    }

    pub(crate) fn verb_text(&self) -> &'static str {
        self.verb.as_str()
    }

    /// `pods`, `statefulsets.apps/status`.
    pub(crate) fn resource_text(&self) -> String {
        let mut text = self.resource.clone();
        if !self.group.is_empty() {
            text = format!("{text}.{}", self.group);
        }
        if let Some(subresource) = &self.subresource {
            text = format!("{text}/{subresource}");
        }
        text
    }

    /// The namespace in the path.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The object's name, if the path names an object.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The client: the product in the user agent.
    pub(crate) fn product(&self) -> &str {
        &self.product
    }

    /// These facts with the name in the `body` of a create.
    pub(super) fn named_in(mut self, body: &[u8]) -> Self {
        if self.name.is_none() && self.verb == Verb::Create {
            let object: Value = serde_json::from_slice(body).unwrap_or_default();
            self.name = object["metadata"]["name"].as_str().map(str::to_owned);
        }
        self
    }
}

fn product_in(user_agent: &str) -> &str {
    let is_end = |byte| matches!(byte, b'/' | b' ');
    let end = user_agent.bytes().position(is_end);
    match &user_agent[..end.unwrap_or(user_agent.len())] {
        "" => UNKNOWN,
        product => product,
    }
}

impl Requests {
    pub(super) fn include(&self, asked: &RequestFacts) -> bool {
        let agrees = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| Some(wanted) == found)
        };
        agrees(&self.verb, Some(asked.verb.as_str()))
            && self.includes_resource(asked)
            && agrees(&self.namespace, asked.namespace.as_deref())
            && agrees(&self.name, asked.name.as_deref())
            && agrees(&self.from, Some(asked.product()))
    }

    fn includes_resource(&self, asked: &RequestFacts) -> bool {
        let Some(wanted) = &self.resource else {
            return true;
        };
        let (resource, subresource) = match wanted.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource)),
            None => (wanted.as_str(), None),
        };
        let (plural, group) = match resource.split_once('.') {
            Some((plural, group)) => (plural, Some(group)),
            None => (resource, None),
        };
        plural == asked.resource
            && group.is_none_or(|group| group == asked.group)
            && subresource == asked.subresource.as_deref()
    }
}
