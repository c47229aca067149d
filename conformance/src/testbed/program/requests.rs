//! The requests of programs, as audit events.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use kubeproof_apiserver::audit::{Audit, Event, Level, Policy, Rule, Sink, SinkError, Stage};

/// The requests that have come over a socket. Requests of this process have no address and are left out.
#[derive(Clone)]
pub(super) struct Requests {
    seen: Arc<AtomicBool>,
    refused: Arc<Mutex<Vec<String>>>,
    log: Option<Arc<File>>,
}

impl Requests {
    /// No request yet; each is appended to the file `log`, as an event of `audit.k8s.io/v1` at level Metadata.
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
            omit_stages: vec![Stage::RequestReceived],
            ..Rule::default()
        };
        let policy = Policy {
            rules: vec![everything],
            ..Policy::default()
        };
        Audit::new(policy).sink(self.clone())
    }

    /// Whether there was a request.
    pub(super) fn has_any(&self) -> bool {
        self.seen.load(Ordering::Relaxed)
    }

    /// Waits for a first request again.
    pub(super) fn forget(&self) {
        self.seen.store(false, Ordering::Relaxed);
    }

    /// The refused writes so far, in words.
    pub(super) fn refused(&self) -> Vec<String> {
        self.refused.lock().clone()
    }
}

impl Sink for Requests {
    fn take(&self, event: &Event) -> Result<(), SinkError> {
        if event.source_ips.is_empty() {
            return Ok(());
        }
        self.seen.store(true, Ordering::Relaxed);
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
