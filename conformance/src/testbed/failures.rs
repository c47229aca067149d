//! Faults of the controllers under test: the testbed finds them and reports them to its test.

use std::fmt::Write;
use std::time::Duration;

use jiff::Timestamp;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{JournalEntry, Livelock};
use kubeproof_machinery::json::Value;
use similar::TextDiff;

use super::monitor::Settled;
use super::{Testbed, TestbedError};
use crate::properties::{self, Observed, Violation};
use crate::user_agent;

/// The number of versions shown of an object in a write loop.
const VERSIONS_SHOWN: usize = 3;

/// The faults that the test already knows.
#[derive(Debug, Default)]
pub(super) struct Reported {
    /// The violations.
    violations: Vec<Violation>,
    /// The state that was judged last.
    judged: Option<Judged>,
    /// Whether it knows the controller that loops, has panicked or has returned.
    failure: bool,
}

/// The state of a testbed, as far as violations follow from it.
#[derive(Debug, PartialEq, Eq)]
struct Judged {
    /// A property may have a time limit.
    now: Timestamp,
    /// The version of the last write.
    rv: ResourceVersion,
    /// The numbers of requests, of settled versions, and of restarts to see whether controllers write again.
    counts: [usize; 3],
    /// The number of faults, and how often they were met.
    met: (usize, u64),
    by_requests: Vec<Violation>,
}

/// Violations, a line each.
pub(super) fn list(violations: &[Violation]) -> String {
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

impl Testbed {
    /// Returns all violations so far, of built-in rules and of the builder's properties, in the order of their writes.
    /// [`Testbed::settle`] does not report them again.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        let violations = self.violations_since(ResourceVersion::ZERO);
        self.reported.lock().violations.clone_from(&violations);
        violations
    }

    /// Returns the violations, without those of the builder's properties by writes up to version `given_rv`.
    pub(crate) fn violations_since(&self, given_rv: ResourceVersion) -> Vec<Violation> {
        let cluster = self.cluster();
        // Requests of controllers under test are judged as they come.
        let points = match cluster.options.under_test.is_empty() {
            true => self.points(),
            false => Vec::new(),
        };
        let observed = Observed {
            journal: &self.journal(),
            points: &points,
            given_rv,
            settled: &self.settled(Duration::ZERO),
            caches: self.caches(),
            unanswered: &self.unanswered(),
            general: &[],
        };
        let mut violations = properties::violations(observed, &self.declared);
        violations.extend(cluster.monitor.found());
        violations.extend(self.second_writes());
        let allowed = &cluster.options.allowed;
        violations.retain(|one| !allowed.contains(&one.property));
        violations
    }

    /// Judges what can be judged only when everything has settled.
    pub(super) fn judge_settled(&self) {
        let cluster = self.cluster();
        let under_test = cluster.options.under_test.iter();
        let under_test: Vec<_> = under_test.map(|controller| controller.user_agent).collect();
        if under_test.is_empty() {
            return;
        }
        cluster.monitor.judge_settled(&Settled {
            server: &cluster.server,
            journal: &self.journal(),
            started_rv: self.started_rv,
            under_test: &under_test,
            controllers: &cluster.options.controllers,
        });
    }

    /// Asks for violations, and remembers that the test knows them.
    ///
    /// # Errors
    /// The violations that are new.
    pub(super) fn judge(&self) -> Result<(), TestbedError> {
        let judged = self.judged();
        if judged.is_some() && self.reported.lock().judged == judged {
            return Ok(());
        }
        let violations = self.violations_since(ResourceVersion::ZERO);
        let mut reported = self.reported.lock();
        let new = violations
            .iter()
            .filter(|one| !reported.violations.contains(one));
        let new: Vec<Violation> = new.cloned().collect();
        reported.violations = violations;
        reported.judged = judged;
        match new.is_empty() {
            true => Ok(()),
            false => Err(TestbedError::Violated(new)),
        }
    }

    /// The state as far as violations follow from it; `None` with properties in Rust, which may look at something else.
    fn judged(&self) -> Option<Judged> {
        let met = self.faults_met();
        self.declared.rust.is_empty().then(|| Judged {
            now: self.now(),
            rv: self.resource_version(),
            counts: [
                self.points().len(),
                self.settled(Duration::ZERO).len(),
                self.again.lock().len(),
            ],
            met: (
                met.len(),
                met.iter().map(|(_, times)| u64::from(*times)).sum(),
            ),
            by_requests: self.request_violations(),
        })
    }

    /// Asks whether all controllers are there and rest, and remembers that the test knows.
    ///
    /// # Errors
    /// The first controller that loops, has panicked or has returned.
    pub(super) fn check_controllers(&self) -> Result<(), TestbedError> {
        let failure = self.failure();
        if failure.is_some() {
            self.reported.lock().failure = true;
        }
        failure.map_or(Ok(()), Err)
    }

    fn failure(&self) -> Option<TestbedError> {
        let cluster = self.cluster();
        if let Some(livelock) = cluster.server.livelocks().first() {
            let text = describe(livelock, &self.journal());
            return Some(TestbedError::Livelock(text));
        }
        let ended = cluster.crashes.ended().into_iter();
        let mut ended = ended.chain(cluster.manager.ended());
        ended.next().map(TestbedError::ControllerEnded)
    }

    /// The first fault that the test does not know yet; none if violations are ignored.
    fn unreported(&self) -> Option<TestbedError> {
        if !self.cluster().options.fails_on_violations {
            return None;
        }
        // A test that knows of a failure does not need its consequences.
        if self.reported.lock().failure {
            return None;
        }
        self.failure().or_else(|| self.judge().err())
    }

    /// Stops everything that the testbed has started, and joins its tasks.
    ///
    /// # Panics
    /// When a handler of the API server has panicked, and for a failure that was not reported to the test: a violation
    /// of a property, or a controller that has panicked, returned or loops.
    pub async fn shutdown(mut self) {
        let unreported = self.unreported();
        self.end().await;
        if let Some(unreported) = unreported {
            panic!("{unreported}");
        }
    }

    /// Stops everything that the testbed has started, whatever the findings.
    pub(crate) async fn end(&mut self) {
        let Some(cluster) = self.cluster.take() else {
            return;
        };
        let panics = cluster.server.panics();
        assert!(panics.is_empty(), "the API server panicked: {panics:?}");
        cluster.crashes.end().await;
        cluster.manager.shutdown().await;
        if let Some(programs) = cluster.programs {
            programs.end().await;
        }
        if let Some(kubectl) = cluster.kubectl {
            kubectl.end().await;
        }
    }
}

impl Drop for Testbed {
    /// # Panics
    /// As [`Testbed::shutdown`], unless the thread panics already.
    fn drop(&mut self) {
        if self.cluster.is_none() || std::thread::panicking() {
            return;
        }
        if let Some(unreported) = self.unreported() {
            panic!("the testbed was dropped with an unreported failure: {unreported}");
        }
    }
}

/// The client in a write loop, and the last versions of the object that it writes.
fn describe(livelock: &Livelock, journal: &[JournalEntry]) -> String {
    let mut text = format!("no write loops: {livelock}");
    let own = |entry: &&JournalEntry| {
        let client = user_agent::product(&entry.user_agent);
        client == livelock.user_agent && entry.time == livelock.time
    };
    let Some(last) = journal.iter().rev().find(own) else {
        text.push_str(", and wrote nothing meanwhile");
        return text;
    };
    let versions = versions(last, journal);
    let name = named(last);
    let _ = write!(text, "\nthe last versions of {name}:\n");
    for ((before_rv, before), (after_rv, after)) in versions.iter().zip(versions.iter().skip(1)) {
        let diff = TextDiff::from_lines(before, after);
        let mut diff = diff.unified_diff();
        let diff = diff.context_radius(1).header(
            &format!("resourceVersion {before_rv}"),
            &format!("resourceVersion {after_rv}"),
        );
        let _ = write!(text, "{diff}");
    }
    if versions.len() < 2 {
        text.push_str("  all are the same\n");
    }
    text
}

/// The last versions of what `last` wrote that differ in more than their number, oldest first.
fn versions(last: &JournalEntry, journal: &[JournalEntry]) -> Vec<(ResourceVersion, String)> {
    let key = |entry: &JournalEntry| {
        let metadata = &entry.object["metadata"];
        (
            entry.gvr.clone(),
            metadata["namespace"].clone(),
            metadata["name"].clone(),
        )
    };
    let wanted = key(last);
    let mut versions: Vec<(ResourceVersion, String)> = Vec::new();
    for entry in journal.iter().rev().filter(|entry| key(entry) == wanted) {
        let text = comparable(&entry.object);
        if versions.last().is_none_or(|(_, newer)| *newer != text) {
            versions.push((entry.rv, text));
        }
        if versions.len() == VERSIONS_SHOWN {
            break;
        }
    }
    versions.reverse();
    versions
}

fn named(entry: &JournalEntry) -> String {
    let metadata = &entry.object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{} {namespace}/{name}", entry.gvr.resource),
        None => format!("{} {name}", entry.gvr.resource),
    }
}

/// An object as YAML, without what changes with every write.
fn comparable(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        metadata.remove("resourceVersion");
    }
    serde_saphyr::to_string(&object).unwrap_or_else(|_| object.to_string())
}
