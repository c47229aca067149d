//! The requests of programs, as audit events.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

use kubeproof_apiserver::audit::{
    Audit, Event, GroupResources, Level, Policy, Rule, Sink, SinkError, Stage,
};

/// The number of reads of a kind whose times are kept.
const READS_KEPT: usize = 3;

/// The requests that have come over a socket. Requests of this process have no address and are left out.
#[derive(Clone)]
pub(super) struct Requests {
    seen: Arc<Mutex<Seen>>,
    refused: Arc<Mutex<Vec<String>>>,
    log: Option<Arc<File>>,
}

/// The requests of programs so far. Those for leases are left out of all but `has_any`.
#[derive(Debug, Default)]
struct Seen {
    has_any: bool,
    /// Whether a program has been started since the last request.
    is_starting: bool,
    requests: u64,
    /// The audit ids of requests without a response. Watches and other long requests have one when it begins.
    in_flight: BTreeSet<String>,
    /// The watches that are open, by audit id.
    open: BTreeMap<String, Watch>,
    /// Watches that were open and are not any more, with the time of their end.
    ended: BTreeMap<Watch, Timestamp>,
    /// The times of the last reads of each kind, by user agent, verb and path, the oldest first.
    reads: BTreeMap<(String, String, String), VecDeque<Timestamp>>,
    /// The user agent, verb and path of each request since a program was started.
    kinds: BTreeSet<(String, String, String)>,
    last_new_kind: Option<Timestamp>,
    last_request: Option<Timestamp>,
    last_failure: Option<Timestamp>,
}

/// A watch, by its user agent and by its path.
type Watch = (String, String);

/// The requests of programs at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Traffic {
    /// The number of requests so far.
    pub(super) requests: u64,
    /// The number of requests without a response.
    pub(super) in_flight: usize,
    /// Whether a program has been started since the last request.
    pub(super) is_starting: bool,
    /// Whether a watch is open.
    pub(super) watches: bool,
    /// When the last of the watches ended that have not been opened again.
    pub(super) lost_watch: Option<Timestamp>,
    /// The time since which a read has been sent three times: a program that asks again and again has seen everything twice
    /// since then. `None` before that.
    pub(super) cycled_since: Option<Timestamp>,
    /// Whether a read has been sent twice.
    pub(super) repeats: bool,
    /// The time of the last request of a kind that had not been sent before since a program was started.
    pub(super) last_new_kind: Option<Timestamp>,
    /// The time of the last request or response.
    pub(super) last_request: Option<Timestamp>,
    /// The time of the last response that a client may answer with a retry.
    pub(super) last_failure: Option<Timestamp>,
}

impl Requests {
    /// No request yet; each is appended to the file `log`, as an event of `audit.k8s.io/v1` at level Metadata; writes
    /// of roles and bindings with their bodies.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub(super) fn into_log(log: Option<&Path>) -> io::Result<Self> {
        let open = |path| File::options().create(true).append(true).open(path);
        Ok(Self {
            seen: Arc::default(),
            refused: Arc::default(),
            log: log.map(open).transpose()?.map(Arc::new),
        })
    }

    /// The auditing of a server whose requests these are.
    pub(super) fn audit(&self) -> Audit {
        let everything = Rule {
            level: Level::Metadata,
            ..Rule::default()
        };
        // The body says what a role grants, and so whether the program may.
        let roles = GroupResources {
            group: "rbac.authorization.k8s.io".to_owned(),
            ..GroupResources::default()
        };
        let roles = Rule {
            level: Level::RequestResponse,
            verbs: ["create", "update", "patch"].map(str::to_owned).into(),
            resources: vec![roles],
            ..Rule::default()
        };
        let policy = Policy {
            rules: vec![roles, everything],
            ..Policy::default()
        };
        Audit::new(policy).sink(self.clone())
    }

    /// Whether there was a request.
    pub(super) fn has_any(&self) -> bool {
        self.seen.lock().has_any
    }

    /// Returns the requests at this moment.
    pub(super) fn traffic(&self) -> Traffic {
        let seen = self.seen.lock();
        let cycled = seen
            .reads
            .values()
            .filter(|times| times.len() == READS_KEPT);
        Traffic {
            requests: seen.requests,
            in_flight: seen.in_flight.len(),
            is_starting: seen.is_starting,
            watches: !seen.open.is_empty(),
            lost_watch: seen.ended.values().copied().max(),
            cycled_since: cycled.filter_map(|times| times.front().copied()).max(),
            repeats: seen.reads.values().any(|times| times.len() > 1),
            last_new_kind: seen.last_new_kind,
            last_request: seen.last_request,
            last_failure: seen.last_failure,
        }
    }

    /// Waits for a first request again, and for other watches.
    pub(super) fn forget(&self) {
        let mut seen = self.seen.lock();
        seen.has_any = false;
        seen.ended.clear();
        seen.reads.clear();
    }

    /// Notes that a program is being started.
    pub(super) fn starts(&self) {
        let mut seen = self.seen.lock();
        seen.is_starting = true;
        seen.reads.clear();
        seen.kinds.clear();
    }

    /// The refused writes so far, in words.
    pub(super) fn refused(&self) -> Vec<String> {
        self.refused.lock().clone()
    }
}

impl Seen {
    fn take(&mut self, event: &Event) {
        self.has_any = true;
        self.is_starting = false;
        let resource = event.object_ref.as_ref().map(|own| own.resource.as_str());
        if resource == Some("leases") {
            return;
        }
        let id = &event.audit_id;
        self.last_request = Some(event.stage_time);
        match event.stage {
            Stage::RequestReceived => {
                self.requests += 1;
                self.in_flight.insert(id.clone());
                let path = event.request_uri.split('?').next().unwrap_or_default();
                let kind = (
                    event.user_agent.clone(),
                    event.verb.clone(),
                    path.to_owned(),
                );
                if self.kinds.insert(kind) {
                    self.last_new_kind = Some(event.stage_time);
                }
                if matches!(event.verb.as_str(), "get" | "list") && event.object_ref.is_some() {
                    let (agent, uri) = (event.user_agent.clone(), event.request_uri.clone());
                    let times = self
                        .reads
                        .entry((agent, event.verb.clone(), uri))
                        .or_default();
                    times.push_back(event.stage_time);
                    if times.len() > READS_KEPT {
                        times.pop_front();
                    }
                }
                return;
            }
            Stage::ResponseStarted => {
                self.in_flight.remove(id);
                if event.verb == "watch" && !is_failure(event) {
                    let path = event.request_uri.split('?').next().unwrap_or_default();
                    let watch = (event.user_agent.clone(), path.to_owned());
                    self.ended.remove(&watch);
                    self.open.insert(id.clone(), watch);
                }
            }
            Stage::ResponseComplete | Stage::Panic => {
                self.in_flight.remove(id);
                if let Some(watch) = self.open.remove(id)
                    && !self.open.values().any(|own| *own == watch)
                {
                    self.ended.insert(watch, event.stage_time);
                }
            }
        }
        if is_failure(event) {
            self.last_failure = Some(event.stage_time);
        }
    }
}

/// Whether a client may retry after the response. That there is no object to read or to delete is an answer like others.
fn is_failure(event: &Event) -> bool {
    let code = event
        .response_status
        .as_ref()
        .map_or(0, |status| status.code);
    code >= 400 && !(code == 404 && matches!(event.verb.as_str(), "get" | "delete"))
}

impl Sink for Requests {
    fn take(&self, event: &Event) -> Result<(), SinkError> {
        if event.source_ips.is_empty() {
            return Ok(());
        }
        self.seen.lock().take(event);
        if event.stage == Stage::RequestReceived {
            return Ok(());
        }
        if let Some(refused) = refusal(event) {
            self.refused.lock().push(refused);
        }
        let Some(log) = &self.log else {
            return Ok(());
        };
        // One write, so that lines of runs at once stay whole.
        let line = format!("{}\n", event.to_json());
        let written = (&**log).write_all(line.as_bytes());
        written.map_err(|error| SinkError(error.to_string()))
    }
}

/// The refusal of a write in words: `create pods default/web-1: 403 pods is forbidden…`. `None` for another request, and
/// for refusals that depend on timing alone, as [`crate::refusals`] has it.
fn refusal(event: &Event) -> Option<String> {
    let (object, status) = (event.object_ref.as_ref()?, event.response_status.as_ref()?);
    let is_write = !matches!(event.verb.as_str(), "get" | "list" | "watch");
    let is_report = matches!(object.resource.as_str(), "events" | "leases");
    let is_late = status.code == 409 || status.code == 404 && event.verb == "delete";
    if !is_write || is_report || is_late || status.code < 400 {
        return None;
    }
    let resource = match object.subresource.as_str() {
        "" => object.resource.clone(),
        subresource => format!("{}/{subresource}", object.resource),
    };
    let name = match object.namespace.as_str() {
        "" => object.name.clone(),
        namespace => format!("{namespace}/{}", object.name),
    };
    let (verb, code, message) = (&event.verb, status.code, &status.message);
    Some(format!("{verb} {resource} {name}: {code} {message}"))
}
