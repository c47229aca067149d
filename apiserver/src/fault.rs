//! Faults on the wire: what a test has go wrong between clients and server, by rule.
//!
//! A [`Fault`] says which requests it is about, which of those it meets, and what becomes of them.
//! Rules are looked at in the order in which they were made; the first that meets a request decides.
//! Nothing here is drawn at random: the same requests in the same order meet the same faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::endpoints::request_info::{RequestInfo, Verb};
use crate::status::ApiError;

/// Which requests a fault is about. What is left out says nothing: without any field, all are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Requests {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: Option<String>,
    /// `pods`, `statefulsets.apps`, `pods/status`; without a subresource, requests for the object
    /// itself only.
    pub resource: Option<String>,
    /// The namespace in the path.
    pub namespace: Option<String>,
    /// The object's name; of a create, the name in its body.
    pub name: Option<String>,
    /// Who asks: the product in the user agent, such as `statefulset-controller`.
    pub from: Option<String>,
}

/// What becomes of a request that a fault meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is not carried out; this is the answer.
    Refuse(Refusal),
    /// It is carried out, and the connection breaks before the answer is there.
    LoseAnswer,
    /// It is carried out, so much later.
    Delay(Duration),
    /// Of a watch: it delivers nothing while the fault lasts, and then everything.
    Hold,
    /// The server cannot be reached: 503, and open watches break off when the fault begins.
    Unreachable,
}

/// An error answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Refusal {
    /// The HTTP status code.
    pub code: u16,
    /// The `reason` of the `Status`.
    #[serde(default)]
    pub reason: String,
    /// Its `message`.
    #[serde(default)]
    pub message: String,
    /// Sent as `Retry-After`.
    #[serde(default)]
    pub retry_after_seconds: Option<u32>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// By which it is lifted.
    pub name: String,
    /// Which requests it is about.
    pub requests: Requests,
    /// So many of them pass first.
    pub after: u32,
    /// It meets so many; all of them when absent.
    pub times: Option<u32>,
    /// It ends so long after it was made; only when lifted when absent.
    pub lasts: Option<Duration>,
    /// What it does.
    pub effect: Effect,
}

/// The rules of a server.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    clock: Clock,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    rules: Mutex<Vec<Rule>>,
    /// How many rules are in force: most servers never have one.
    in_force: AtomicUsize,
    /// Wakes watches that were told to hold.
    lifted: Notify,
}

#[derive(Debug)]
struct Rule {
    fault: Fault,
    ends: Option<Timestamp>,
    seen: u32,
    met: u32,
    is_lifted: bool,
}

/// Who asks for what, as far as rules look at it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    verb: Verb,
    group: String,
    resource: String,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    user_agent: Arc<str>,
}

impl Asked {
    /// `None` for a method that is not served.
    pub(crate) fn of(info: &RequestInfo, user_agent: &str) -> Option<Self> {
        Some(Self {
            verb: info.verb?,
            group: info.group.clone(),
            resource: info.resource.clone(),
            subresource: info.subresource.clone(),
            namespace: info.namespace.clone(),
            name: info.name.clone(),
            user_agent: user_agent.into(),
        })
    }

    fn named_in(mut self, body: &[u8]) -> Self {
        if self.name.is_none() && self.verb == Verb::Create {
            let object: Value = serde_json::from_slice(body).unwrap_or_default();
            self.name = object["metadata"]["name"].as_str().map(str::to_owned);
        }
        self
    }
}

impl Requests {
    fn include(&self, asked: &Asked) -> bool {
        let agrees = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| Some(wanted) == found)
        };
        agrees(&self.verb, Some(asked.verb.as_str()))
            && self.includes_resource(asked)
            && agrees(&self.namespace, asked.namespace.as_deref())
            && agrees(&self.name, asked.name.as_deref())
            && agrees(&self.from, asked.user_agent.split(['/', ' ']).next())
    }

    fn includes_resource(&self, asked: &Asked) -> bool {
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

impl Rule {
    fn is_over(&self, now: Timestamp) -> bool {
        let is_used_up = self.fault.times.is_some_and(|times| self.met >= times);
        self.is_lifted || is_used_up || self.ends.is_some_and(|ends| ends <= now)
    }

    /// Whether the rule meets this request; counts it.
    fn meets(&mut self, asked: &Asked, now: Timestamp) -> bool {
        if self.is_over(now) || !self.fault.requests.include(asked) {
            return false;
        }
        self.seen += 1;
        if self.seen <= self.fault.after {
            return false;
        }
        self.met += 1;
        true
    }
}

impl Faults {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            state: Arc::default(),
        }
    }

    pub(crate) fn inject(&self, fault: Fault) {
        let ends = fault.lasts.map(|lasts| {
            let lasts = SignedDuration::try_from(lasts).unwrap_or(SignedDuration::MAX);
            self.clock.now().saturating_add(lasts)
        });
        self.state.rules.lock().push(Rule {
            fault,
            ends: ends.and_then(Result::ok),
            seen: 0,
            met: 0,
            is_lifted: false,
        });
        self.state.in_force.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn lift(&self, name: &str) -> bool {
        let mut found = false;
        for rule in self.state.rules.lock().iter_mut() {
            if rule.fault.name == name && !rule.is_lifted {
                rule.is_lifted = true;
                self.state.in_force.fetch_sub(1, Ordering::SeqCst);
                found = true;
            }
        }
        self.state.lifted.notify_waiters();
        found
    }

    pub(crate) fn met(&self) -> Vec<(Fault, u32)> {
        let rules = self.state.rules.lock();
        let met = rules.iter().map(|rule| (rule.fault.clone(), rule.met));
        met.collect()
    }

    fn is_idle(&self) -> bool {
        self.state.in_force.load(Ordering::SeqCst) == 0
    }

    /// What becomes of a request; `None` for nothing out of the ordinary.
    pub(crate) fn meet(&self, asked: Option<Asked>, body: &[u8]) -> Option<Effect> {
        if self.is_idle() {
            return None;
        }
        let (asked, now) = (asked?.named_in(body), self.clock.now());
        let mut rules = self.state.rules.lock();
        // What holds a watch says nothing about its beginning.
        let mut active = rules
            .iter_mut()
            .filter(|rule| rule.fault.effect != Effect::Hold);
        let rule = active.find_map(|rule| rule.meets(&asked, now).then_some(rule))?;
        Some(rule.fault.effect.clone())
    }

    /// Returns when nothing holds the watch any more. False if it is to break off instead.
    ///
    /// Cancel safety: nothing is changed but the count of the rules met.
    pub(crate) async fn let_deliver(&self, watch: &Asked) -> bool {
        let mut is_counted = false;
        while !self.is_idle() {
            let mut lifted = std::pin::pin!(self.state.lifted.notified());
            lifted.as_mut().enable();
            let now = self.clock.now();
            let until = {
                let mut rules = self.state.rules.lock();
                let mut over = rules
                    .iter_mut()
                    .filter(|rule| !rule.is_over(now) && rule.fault.requests.include(watch));
                let Some(rule) = over
                    .find(|rule| matches!(rule.fault.effect, Effect::Hold | Effect::Unreachable))
                else {
                    return true;
                };
                if rule.fault.effect == Effect::Unreachable {
                    return false;
                }
                rule.met += u32::from(!is_counted);
                is_counted = true;
                rule.ends
            };
            match until {
                None => lifted.await,
                Some(ends) => {
                    let wait = ends.duration_since(now).unsigned_abs();
                    tokio::select! {
                        biased;
                        () = lifted => {}
                        () = tokio::time::sleep(wait) => {}
                    }
                }
            }
        }
        true
    }
}

impl Refusal {
    pub(crate) fn to_error(&self) -> ApiError {
        ApiError::stated(
            self.code,
            &self.reason,
            &self.message,
            self.retry_after_seconds,
        )
    }

    /// What is said for a server that is not there.
    pub(crate) fn unreachable() -> ApiError {
        ApiError::ServiceUnavailable(
            "the server is currently unable to handle the request".to_owned(),
        )
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn asked(method: &Method, path: &str) -> Asked {
        let info = RequestInfo::parse(method, path, "").unwrap();
        Asked::of(&info, "statefulset-controller/1.36 (x)").unwrap()
    }

    fn requests(yaml: Value) -> Requests {
        serde_json::from_value(yaml).unwrap()
    }

    #[test]
    fn a_rule_is_about_what_all_its_fields_agree_with() {
        let pod = asked(&Method::DELETE, "/api/v1/namespaces/default/pods/web-1");
        let set = "/apis/apps/v1/namespaces/default/statefulsets/web/status";
        let status = asked(&Method::PUT, set);
        let rule = |value| requests(value);
        assert!(Requests::default().include(&pod));
        let of_pod = rule(serde_json::json!({
            "verb": "delete", "resource": "pods", "name": "web-1", "from": "statefulset-controller"
        }));
        assert!(of_pod.include(&pod) && !of_pod.include(&status));
        assert!(rule(serde_json::json!({"resource": "statefulsets.apps/status"})).include(&status));
        assert!(!rule(serde_json::json!({"resource": "statefulsets"})).include(&status));
        assert!(!rule(serde_json::json!({"resource": "statefulsets.x/status"})).include(&status));
        assert!(!rule(serde_json::json!({"from": "kubelet"})).include(&pod));
    }

    #[tokio::test(start_paused = true)]
    async fn a_rule_meets_as_many_requests_as_it_says_and_ends_in_time() {
        let faults = Faults::new(Clock::simulated(Timestamp::UNIX_EPOCH));
        let create = asked(&Method::POST, "/api/v1/namespaces/default/pods");
        let named = br#"{"metadata":{"name":"web-1"}}"#;
        faults.inject(Fault {
            name: "second".to_owned(),
            requests: requests(serde_json::json!({"name": "web-1"})),
            after: 1,
            times: Some(1),
            lasts: None,
            effect: Effect::LoseAnswer,
        });
        let meet = |body: &[u8]| faults.meet(Some(create.clone()), body);
        assert_eq!(meet(b"{}"), None);
        assert_eq!(meet(named), None);
        assert_eq!(meet(named), Some(Effect::LoseAnswer));
        assert_eq!(meet(named), None);
        assert_eq!(faults.met()[0].1, 1);
        faults.inject(Fault {
            name: "minute".to_owned(),
            requests: Requests::default(),
            after: 0,
            times: None,
            lasts: Some(Duration::from_secs(60)),
            effect: Effect::Unreachable,
        });
        assert_eq!(meet(b"{}"), Some(Effect::Unreachable));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(meet(b"{}"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_held_goes_on_when_the_fault_is_lifted() {
        let faults = Faults::new(Clock::simulated(Timestamp::UNIX_EPOCH));
        let watch = asked(&Method::GET, "/api/v1/watch/pods");
        faults.inject(Fault {
            name: "held".to_owned(),
            requests: requests(serde_json::json!({"verb": "watch", "resource": "pods"})),
            after: 0,
            times: None,
            lasts: None,
            effect: Effect::Hold,
        });
        let mut held = std::pin::pin!(faults.let_deliver(&watch));
        assert!(futures::poll!(held.as_mut()).is_pending());
        assert!(faults.lift("held"));
        assert!(held.await);
        assert_eq!(faults.met()[0].1, 1);
    }
}
