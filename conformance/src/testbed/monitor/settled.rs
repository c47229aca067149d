//! Mistakes that can be judged only when everything has settled, and the test has written something.

use std::collections::{BTreeMap, BTreeSet};

use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{ApiServer, EventType, JournalEntry};
use kubeproof_machinery::json::Value;

use super::request::Scope;
use super::{FINALIZERS, RequestMonitor, Responses, State};
use crate::properties::general::FinalizerJournal;
use crate::user_agent::{self, actor};

pub(super) const RESOURCES: &str = "resources are served";
pub(super) const NAMESPACES: &str = "namespaces exist";
pub(super) const SEEN: &str = "objects of the test are seen";

/// A controller that only looks whether there is a resource asks once.
const MISSING_MAX: u32 = 2;
/// The namespaces that each server has.
const NAMESPACES_BUILT_IN: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];
/// The resources that set a cluster up before any test.
const SET_UP: &[&str] = &["customresourcedefinitions", "namespaces"];
const GARBAGE_COLLECTOR: &str = "garbage-collector";
/// Finalizers of the server, which the garbage collector removes.
const OF_GARBAGE_COLLECTOR: &[&str] = &["foregroundDeletion", "orphan"];

/// A cluster that has settled.
pub(in crate::testbed) struct Settled<'a> {
    pub(in crate::testbed) server: &'a ApiServer,
    pub(in crate::testbed) journal: &'a [JournalEntry],
    /// The version at which the test began.
    pub(in crate::testbed) started_rv: ResourceVersion,
    /// The user agents of the controllers under test.
    pub(in crate::testbed) under_test: &'a [&'static str],
    /// The built-in controllers that run.
    pub(in crate::testbed) controllers: &'a [String],
}

impl RequestMonitor {
    /// Judges a cluster that has settled.
    pub(in crate::testbed) fn judge_settled(&self, settled: &Settled<'_>) {
        let written = settled.written();
        if written.is_empty() {
            return;
        }
        let mut state = self.0.lock();
        state.rv = settled.server.resource_version();
        let found = [
            (RESOURCES, missing_resources(&state, settled)),
            (NAMESPACES, missing_namespaces(&state, settled)),
            (SEEN, unseen(&state, &written)),
            (FINALIZERS, held(settled)),
        ];
        for (rule, violations) in found {
            violations
                .into_iter()
                .for_each(|what| state.report(rule, what));
        }
    }
}

impl<'a> Settled<'a> {
    /// The objects that the test has created itself or begins with, except for its setup.
    fn written(&self) -> Vec<&'a JournalEntry> {
        let is_tests = |entry: &&JournalEntry| match actor(&entry.user_agent) {
            user_agent::TEST | user_agent::SCENARIO_ACTOR => entry.rv > self.started_rv,
            user_agent::LOADER => !SET_UP.contains(&&*entry.gvr.resource),
            _ => false,
        };
        let created = self.journal.iter();
        let created = created.filter(|entry| entry.event == EventType::Added);
        created.filter(is_tests).collect()
    }
}

fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object["metadata"][field].as_str().unwrap_or_default()
}

fn missing_resources(state: &State, settled: &Settled<'_>) -> Vec<String> {
    let is_missing = |(_, responses): &(&Scope, &Responses)| {
        responses.missing >= MISSING_MAX && !responses.found
    };
    let missing = state.scopes.iter().filter(is_missing);
    let violations = missing.filter_map(|(scope, _)| {
        let versions = settled.server.served_versions(&scope.group, &scope.plural);
        if versions.contains(&scope.version) {
            return None;
        }
        let (agent, resource, version) = (&scope.user_agent, scope.resource(), &scope.version);
        let remedy = match versions.as_slice() {
            [] => "is its definition among the manifests?".to_owned(),
            versions => format!("it serves {}", versions.join(", ")),
        };
        Some(format!(
            "{agent} lists or watches {resource} in version {version}, which the server does not serve; {remedy}"
        ))
    });
    violations.collect()
}

fn missing_namespaces(state: &State, settled: &Settled<'_>) -> Vec<String> {
    let mut names: BTreeSet<&str> = NAMESPACES_BUILT_IN.iter().copied().collect();
    for entry in settled.journal {
        // One that is gone was there.
        if entry.gvr.resource == "namespaces" {
            names.insert(text(&entry.object, "name"));
        }
    }
    let used = state
        .scopes
        .iter()
        .filter(|(_, responses)| responses.is_used);
    let violations = used.filter_map(|(scope, responses)| {
        let namespace = scope.namespace.as_deref()?;
        if names.contains(namespace) {
            return None;
        }
        let (agent, verb, resource) = (&scope.user_agent, responses.verb?.as_str(), scope.resource());
        Some(format!(
            "{agent} tries to {verb} {resource} in namespace {namespace}, which does not exist; create it, or \
             check which namespace the controller uses"
        ))
    });
    violations.collect()
}

/// Resources that controllers list or watch only where the test has written none.
fn unseen(state: &State, written: &[&JournalEntry]) -> Vec<String> {
    // The watchers of each resource, and the namespaces in which controllers ask for it.
    let mut watched: BTreeMap<String, (BTreeSet<&str>, BTreeSet<Option<&str>>)> = BTreeMap::new();
    for (scope, responses) in &state.scopes {
        let (agents, namespaces) = watched.entry(scope.resource()).or_default();
        namespaces.insert(scope.namespace.as_deref());
        if responses.found {
            agents.insert(&scope.user_agent);
        }
    }
    let violations = watched.into_iter().filter_map(|(resource, (agents, namespaces))| {
        let is_of = |entry: &&&JournalEntry| {
            let gvr = &entry.gvr;
            let group = match gvr.group.as_str() {
                "" => String::new(),
                group => format!(".{group}"),
            };
            format!("{}{group}", gvr.resource) == resource
        };
        let mut objects = written.iter().filter(is_of).peekable();
        let first = &objects.peek()?.object;
        let (namespace, name) = (text(first, "namespace"), text(first, "name"));
        let is_seen = |entry: &&JournalEntry| {
            namespaces.contains(&Some(text(&entry.object, "namespace")))
        };
        if agents.is_empty() || namespaces.contains(&None) || objects.any(is_seen) {
            return None;
        }
        let agents = agents.into_iter().collect::<Vec<_>>().join(" and ");
        let namespaces = namespaces.into_iter().flatten().collect::<Vec<_>>().join(", ");
        Some(format!(
            "{agents} lists or watches {resource} only in namespace {namespaces}, and the test has written \
             {resource} {namespace}/{name}; check which namespace the controller uses"
        ))
    });
    violations.collect()
}

/// Objects that wait for a finalizer that no controller removes.
fn held(settled: &Settled<'_>) -> Vec<String> {
    let mut journal = FinalizerJournal::default();
    for entry in settled.journal {
        let agent = actor(&entry.user_agent);
        journal.take(entry, settled.under_test.contains(&agent));
    }
    let mut controllers = settled.controllers.iter();
    let collects = controllers.any(|name| name == GARBAGE_COLLECTOR);
    let remedy = format!("add {GARBAGE_COLLECTOR} to TestbedBuilder::controllers");
    let violations = journal.waiting().filter_map(|waiting| {
        let is_collected = OF_GARBAGE_COLLECTOR.contains(&waiting.finalizer);
        let uncollected = (is_collected && !collects).then(|| waiting.describe_with(&remedy));
        waiting.describe().or(uncollected)
    });
    violations.collect()
}
