//! The record of one request, from which its events are made.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::Audit;
use super::document::{Shown, compact, json_of, without_managed_fields};
use super::event::{Event, Level, ObjectReference, ResponseStatus, Stage, UserInfo};
use super::rules::{RequestAttributes, RequestAuditConfig};
use crate::clock::Clock;
use crate::json::Value;
use crate::meta::object::{meta, name, namespace};
use crate::meta::validation::qualified_name;
use crate::yaml::decode::Yaml;

/// The number of bytes of a user agent that are recorded.
const USER_AGENT_BYTES_MAX: usize = 1024;

/// The version of options that state none.
const META_VERSION: &str = "meta.k8s.io/v1";

/// The code of a response that was never written.
const CLOSED_EARLY: u16 = 200;

/// The facts of a request that its policy does not look at.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) audit_id: String,
    pub(crate) request_uri: String,
    pub(crate) user: UserInfo,
    pub(crate) source_ips: Vec<String>,
    pub(crate) user_agent: String,
    pub(crate) received: Timestamp,
}

/// A request that is audited.
#[derive(Debug)]
pub(crate) struct Record {
    audit: Audit,
    config: RequestAuditConfig,
    clock: Clock,
    event: Mutex<Event>,
}

impl Audit {
    /// The record of a request; `None` if the policy wants none.
    pub(crate) fn record(
        &self,
        attributes: &RequestAttributes<'_>,
        clock: &Clock,
        facts: impl FnOnce() -> Facts,
    ) -> Option<Arc<Record>> {
        let config = self.policy.evaluate(attributes);
        if config.level == Level::None {
            return None;
        }
        let facts = facts();
        let object_ref = attributes.resource.map(|own| ObjectReference {
            resource: own.resource.to_owned(),
            namespace: own.namespace.to_owned(),
            name: own.name.to_owned(),
            api_group: own.group.to_owned(),
            api_version: own.version.to_owned(),
            subresource: own.subresource.to_owned(),
            ..ObjectReference::default()
        });
        let event = Event {
            level: config.level,
            audit_id: facts.audit_id,
            stage: Stage::RequestReceived,
            request_uri: facts.request_uri,
            verb: attributes.verb.to_owned(),
            user: facts.user,
            impersonated_user: None,
            impersonation_constraint: String::new(),
            source_ips: facts.source_ips,
            user_agent: shortened(facts.user_agent),
            object_ref,
            response_status: None,
            request_object: None,
            response_object: None,
            request_received: facts.received,
            stage_time: facts.received,
            annotations: BTreeMap::new(),
        };
        Some(Arc::new(Record {
            audit: self.clone(),
            config,
            clock: clock.clone(),
            event: Mutex::new(event),
        }))
    }
}

fn shortened(mut user_agent: String) -> String {
    if user_agent.len() > USER_AGENT_BYTES_MAX {
        let end = (0..=USER_AGENT_BYTES_MAX).rev();
        let mut ends = end.filter(|end| user_agent.is_char_boundary(*end));
        user_agent.truncate(ends.next().unwrap_or_default());
        user_agent.push_str("...TRUNCATED");
    }
    user_agent
}

impl Record {
    fn level(&self) -> Level {
        self.config.level
    }

    /// Whether the object of the response is wanted.
    pub(crate) fn wants_response(&self) -> bool {
        self.level() >= Level::RequestResponse
    }

    /// Makes the event of a stage; answers whether all sinks have taken it.
    pub(crate) fn reach(&self, stage: Stage) -> bool {
        if self.config.omit_stages.contains(&stage) {
            return true;
        }
        let event = {
            let mut event = self.event.lock();
            event.stage = stage;
            event.stage_time = match stage {
                Stage::RequestReceived => event.request_received,
                _ => self.clock.now(),
            };
            event.clone()
        };
        self.audit.send(&event)
    }

    /// Notes the user that the request is answered as, and the verb of constrained impersonation.
    pub(crate) fn impersonate(&self, user: UserInfo, constraint: String) {
        let mut event = self.event.lock();
        event.impersonated_user = Some(user);
        event.impersonation_constraint = constraint;
    }

    /// Adds an annotation; the first value of a key stays.
    pub(crate) fn annotate(&self, key: &str, value: impl Into<String>) {
        let mut event = self.event.lock();
        if !event.annotations.contains_key(key) {
            event.annotations.insert(key.to_owned(), value.into());
        }
    }

    /// Adds an annotation of an admission plugin, of which events below `level` have none.
    ///
    /// An annotation whose key is not a prefix and a name is dropped.
    pub(crate) fn annotate_admission(&self, level: Level, key: &str, value: impl Into<String>) {
        let is_key = key.matches('/').count() == 1 && qualified_name(key).is_empty();
        if !is_key {
            tracing::warn!(key, "audit annotation has an invalid key and is dropped");
        } else if self.level() >= level {
            self.annotate(key, value);
        }
    }

    /// Notes the object in the request. `defaulted` makes it complete as upstream's decoder does.
    pub(crate) fn request_object(&self, object: &Value, defaulted: impl FnOnce(&mut Value)) {
        {
            let mut event = self.event.lock();
            let of = event.object_ref.get_or_insert_default();
            for (own, stated) in [
                (&mut of.namespace, namespace(object)),
                (&mut of.name, name(object)),
                (&mut of.uid, meta(object, "uid")),
                (&mut of.resource_version, meta(object, "resourceVersion")),
            ] {
                if own.is_empty() {
                    stated.clone_into(own);
                }
            }
        }
        if self.level() < Level::Request {
            return;
        }
        let mut object = object.clone();
        defaulted(&mut object);
        if self.config.omit_managed_fields {
            without_managed_fields(&mut object);
        }
        self.event.lock().request_object = json_of(&object);
    }

    /// Notes the options in the body of a DELETE, which states `version`.
    pub(crate) fn delete_options(&self, options: &Value, version: &str) {
        if self.level() < Level::Request {
            return;
        }
        let mut options = options.clone();
        options["kind"] = "DeleteOptions".into();
        options["apiVersion"] = META_VERSION.into();
        let json = json_of(&options).map(|json| {
            // Options are of every version, and their fields always in the same order.
            let stated = if version.is_empty() {
                META_VERSION
            } else {
                version
            };
            let version = |text: &str| format!("\"apiVersion\":{}", Value::from(text));
            let text = json
                .get()
                .replacen(&version(META_VERSION), &version(stated), 1);
            compact(text.as_bytes())
        });
        self.event.lock().request_object = json.flatten();
    }

    /// Notes a patch as it was sent.
    // DIVERGES: a patch in YAML is recorded as JSON, because upstream loses the event.
    pub(crate) fn request_patch(&self, patch: &[u8]) {
        if self.level() < Level::Request {
            return;
        }
        let patch = compact(patch).or_else(|| compact(&Yaml::parse(patch).ok()?.json));
        self.event.lock().request_object = patch;
    }

    /// Notes the code of the response, and the object in it.
    pub(crate) fn respond(&self, code: u16, shown: Option<Shown>) {
        let status = shown.as_ref().and_then(Shown::status);
        let wanted = shown.filter(|_| self.wants_response());
        let object = wanted.and_then(|own| own.json(self.config.omit_managed_fields));
        let mut event = self.event.lock();
        event.response_status = Some(ResponseStatus {
            code,
            ..status.unwrap_or_default()
        });
        event.response_object = object;
    }

    /// Notes that a handler has panicked.
    pub(crate) fn panicked(&self, reason: &str) {
        self.event.lock().response_status = Some(ResponseStatus {
            status: "Failure".to_owned(),
            message: format!("APIServer panic'd: {reason}"),
            reason: "InternalError".to_owned(),
            code: 500,
            ..ResponseStatus::default()
        });
    }

    /// Notes that the client left before there was a response.
    pub(crate) fn left(&self) {
        self.event.lock().response_status = Some(ResponseStatus {
            status: "Success".to_owned(),
            message: "Connection closed early".to_owned(),
            code: CLOSED_EARLY,
            ..ResponseStatus::default()
        });
    }
}
