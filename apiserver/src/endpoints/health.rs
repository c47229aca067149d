//! `/livez`, `/readyz` and `/healthz`: whether the server lives, check by check.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use parking_lot::Mutex;

use crate::metrics::families::Family;

/// Checks that all probes have, in upstream's order.
const COMMON_CHECKS: [&str; 31] = [
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-wait-for-first-sync",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

/// The number of runs of each check, by its name and the probe.
#[derive(Debug, Default)]
pub(crate) struct Checked(Mutex<BTreeMap<(&'static str, &'static str), u64>>);

impl Checked {
    /// Counts the checks that a request for `path` makes.
    pub(crate) fn note(&self, path: &str, query: &[(String, String)]) {
        let Some(probe) = Probe::ALL.into_iter().find(|probe| probe.path() == path) else {
            return;
        };
        let excluded = |check: &&str| {
            let mut query = query.iter();
            query.any(|(key, value)| key == "exclude" && value == check)
        };
        let mut counts = self.0.lock();
        let kind = probe.path().trim_start_matches('/');
        for check in probe.checks().filter(|check| !excluded(check)) {
            *counts.entry((check, kind)).or_default() += 1;
        }
    }

    /// The metrics of `/metrics/slis`. Checks of a server that answers have not failed.
    pub(crate) fn families(&self) -> Vec<Family> {
        let mut results = Family::gauge(
            "kubernetes_healthcheck",
            "[STABLE] This metric records the result of a single healthcheck.",
        );
        let mut totals = Family::counter(
            "kubernetes_healthchecks_total",
            "[STABLE] This metric records the results of all healthcheck.",
        );
        for ((check, kind), count) in self.0.lock().iter() {
            results.add(&[("name", check), ("type", kind)], 1);
            let labels = [("name", *check), ("status", "success"), ("type", *kind)];
            totals.add(&labels, *count);
        }
        vec![results, totals]
    }
}

/// A probe's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// `/healthz`, the oldest, for both purposes.
    Healthz,
    /// `/livez`: restart the server when it fails.
    Livez,
    /// `/readyz`: send no requests while it fails.
    Readyz,
}

/// An answer in plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// HTTP status code.
    pub status: u16,
    /// The whole body.
    pub body: String,
}

impl Probe {
    /// Every probe.
    pub(crate) const ALL: [Self; 3] = [Self::Healthz, Self::Livez, Self::Readyz];

    /// The probe's own path, such as `/livez`.
    #[must_use]
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Healthz => "/healthz",
            Self::Livez => "/livez",
            Self::Readyz => "/readyz",
        }
    }

    /// The names of its checks, in the order of the verbose answer.
    pub(crate) fn checks(self) -> impl Iterator<Item = &'static str> {
        let (before, after): (&[&str], &[&str]) = match self {
            Self::Healthz | Self::Livez => (
                &["ping", "log", "loopback-serving-certificate", "etcd"],
                &[],
            ),
            Self::Readyz => (
                &["ping", "log", "etcd", "etcd-readiness", "informer-sync"],
                &["shutdown"],
            ),
        };
        before.iter().chain(&COMMON_CHECKS).chain(after).copied()
    }
}

/// Answers a request for a probe or for one of its checks; `None` when `path` is neither.
///
/// `query` holds decoded pairs: `verbose` lists every check, `exclude` (may be repeated) leaves one
/// out. Every check holds: a server that answers is up.
#[must_use]
pub(crate) fn answer(path: &str, query: &[(String, String)]) -> Option<Answer> {
    let rest_of = |probe: &Probe| path.strip_prefix(probe.path());
    let (probe, rest) = Probe::ALL
        .into_iter()
        .find_map(|probe| Some((probe, rest_of(&probe)?)))?;
    let verbose = query.iter().any(|(key, _)| key == "verbose");
    let excluded: Vec<&str> = query
        .iter()
        .filter(|(key, _)| key == "exclude")
        .map(|(_, value)| value.as_str())
        .collect();
    match rest.strip_prefix('/') {
        None if rest.is_empty() => Some(all_checks(probe, verbose, &excluded)),
        None => None,
        Some(check) => Some(one_check(probe, check)),
    }
}

fn all_checks(probe: Probe, verbose: bool, excluded: &[&str]) -> Answer {
    const INFALLIBLE: &str = "writing to a String succeeds";
    if !verbose {
        return ok("ok".to_owned());
    }
    let mut body = String::new();
    for check in probe.checks() {
        let state = if excluded.contains(&check) {
            "excluded: ok"
        } else {
            "ok"
        };
        writeln!(body, "[+]{check} {state}").expect(INFALLIBLE);
    }
    let unknown: BTreeSet<&str> = excluded
        .iter()
        .copied()
        .filter(|name| !probe.checks().any(|check| check == *name))
        .collect();
    if !unknown.is_empty() {
        let unknown: Vec<String> = unknown.iter().map(|name| format!("{name:?}")).collect();
        let unknown = unknown.join(",");
        writeln!(
            body,
            "warn: some health checks cannot be excluded: no matches for {unknown}"
        )
        .expect(INFALLIBLE);
    }
    writeln!(
        body,
        "{} check passed",
        probe.path().trim_start_matches('/')
    )
    .expect(INFALLIBLE);
    ok(body)
}

fn one_check(probe: Probe, name: &str) -> Answer {
    if probe.checks().any(|check| check == name) {
        return ok("ok".to_owned());
    }
    Answer {
        status: 404,
        body: "404 page not found\n".to_owned(),
    }
}

fn ok(body: String) -> Answer {
    Answer { status: 200, body }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(path: &str, query: &[(&str, &str)]) -> (u16, String) {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let query: Vec<(String, String)> = query.iter().map(pair).collect();
        let answer = answer(path, &query).unwrap();
        (answer.status, answer.body)
    }

    #[test]
    fn a_probe_and_its_checks_answer_ok() {
        for path in [
            "/healthz",
            "/livez",
            "/readyz",
            "/healthz/ping",
            "/livez/etcd",
        ] {
            assert_eq!(body(path, &[]), (200, "ok".to_owned()));
        }
        assert_eq!(
            body("/readyz/nope", &[]),
            (404, "404 page not found\n".to_owned())
        );
        assert_eq!(answer("/livezz", &[]), None);
    }

    #[test]
    fn verbose_lists_every_check_and_marks_the_excluded() {
        let (status, text) = body("/livez", &[("verbose", ""), ("exclude", "etcd")]);
        assert_eq!(status, 200);
        assert!(text.starts_with("[+]ping ok\n[+]log ok\n[+]loopback-serving-certificate ok\n"));
        assert!(text.contains("[+]etcd excluded: ok\n"));
        assert!(text.ends_with("controller ok\nlivez check passed\n"));
        let excluded = ["nope", "a", "nope"].map(|name| ("exclude", name));
        let (_, text) = body(
            "/readyz",
            &[&[("verbose", "true")], excluded.as_slice()].concat(),
        );
        assert!(text.ends_with(
            "[+]shutdown ok\nwarn: some health checks cannot be excluded: no matches for \
             \"a\",\"nope\"\nreadyz check passed\n"
        ));
    }
}
