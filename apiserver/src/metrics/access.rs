//! Counts of authentication, impersonation and authorization.

use std::sync::atomic::{AtomicU64, Ordering};

use super::families::{Family, Histogram, MILLISECOND, SECOND, Scale, number};
use crate::request::{Decision, ImpersonationMode};

/// User names that are shown; other names are shown as their sort.
const SHOWN: [&str; 5] = [
    "admin",
    "client",
    "kube_proxy",
    "kubelet",
    "system:serviceaccount:kube-system:default",
];

/// The bounds of the durations of authentication and authorization.
const ATTEMPTS: [u64; 15] = doubled_milliseconds();
/// The bounds of the durations of a request's filters.
const FILTERS: [u64; 13] = [
    MILLISECOND / 10,
    3 * MILLISECOND / 10,
    MILLISECOND,
    3 * MILLISECOND,
    10 * MILLISECOND,
    30 * MILLISECOND,
    100 * MILLISECOND,
    300 * MILLISECOND,
    SECOND,
    5 * SECOND,
    10 * SECOND,
    15 * SECOND,
    30 * SECOND,
];
/// Both, as one measurement is shown in two families.
const DURATIONS: Scale = Scale {
    bounds: &merged(ATTEMPTS, FILTERS),
    per_unit: SECOND,
};
/// Remaining lifetimes of client certificates.
const LIFETIMES: Scale = Scale {
    bounds: &[
        0, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 172_800, 345_600, 604_800, 2_592_000,
        7_776_000, 15_552_000, 31_104_000,
    ],
    per_unit: 1,
};

const fn doubled_milliseconds() -> [u64; 15] {
    let mut bounds = [MILLISECOND; 15];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 2;
        at += 1;
    }
    bounds
}

/// Two ascending lists as one; 1 ms is the only bound of both.
const fn merged(one: [u64; 15], other: [u64; 13]) -> [u64; 27] {
    let mut bounds = [0; 27];
    let (mut left, mut right, mut at) = (0, 0, 0);
    while at < bounds.len() {
        let takes_left = right == other.len() || (left < one.len() && one[left] <= other[right]);
        let next = if takes_left { one[left] } else { other[right] };
        left += (left < one.len() && one[left] == next) as usize;
        right += (right < other.len() && other[right] == next) as usize;
        bounds[at] = next;
        at += 1;
    }
    bounds
}

/// The outcome of an authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authenticated {
    /// The credentials are wrong.
    Error,
    /// Credentials are required, and the request has none.
    Failure,
    Success,
}

/// The labels of [`Authenticated`], in its order.
const AUTHENTICATED: [&str; 3] = ["error", "failure", "success"];
/// The outcomes of an authorization.
const AUTHORIZED: [&str; 4] = ["allowed", "denied", "error", "no-opinion"];
const DECIDED: [&str; 2] = ["allowed", "denied"];

/// The kinds of authorizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authorizer {
    AlwaysAllow,
    AlwaysDeny,
    Rbac,
    Node,
    Webhook,
    Abac,
}

impl Authorizer {
    /// In the order of the variants.
    const ALL: [Self; 6] = [
        Self::AlwaysAllow,
        Self::AlwaysDeny,
        Self::Rbac,
        Self::Node,
        Self::Webhook,
        Self::Abac,
    ];

    /// The mode as flags name it.
    pub(crate) fn mode(self) -> &'static str {
        match self {
            Self::AlwaysAllow => "AlwaysAllow",
            Self::AlwaysDeny => "AlwaysDeny",
            Self::Rbac => "RBAC",
            Self::Node => "Node",
            Self::Webhook => "Webhook",
            Self::Abac => "ABAC",
        }
    }

    /// The name that upstream gives the authorizer of a mode.
    fn name(self) -> String {
        match self {
            Self::Webhook => "default".to_owned(),
            mode => mode.mode().to_lowercase(),
        }
    }
}

/// The counts of a server.
#[derive(Debug)]
pub(crate) struct Access {
    /// In the order of [`SHOWN`].
    shown: [AtomicU64; SHOWN.len()],
    emails: AtomicU64,
    others: AtomicU64,
    /// In the order of [`AUTHENTICATED`].
    authenticated: [Histogram; AUTHENTICATED.len()],
    /// In the order of [`AUTHORIZED`].
    authorized: [Histogram; AUTHORIZED.len()],
    /// Decisions of each authorizer, in the order of [`DECIDED`].
    decided: [[AtomicU64; DECIDED.len()]; Authorizer::ALL.len()],
    /// Successful impersonations in the order of [`ImpersonationMode::ALL`], and those refused.
    impersonated: [Histogram; ImpersonationMode::ALL.len()],
    unimpersonated: Histogram,
    /// Questions of each mode, by the answer in the order of [`DECIDED`].
    asked: [[Histogram; DECIDED.len()]; ImpersonationMode::ALL.len()],
    valid_tokens: AtomicU64,
    stale_tokens: AtomicU64,
    lifetimes: Histogram,
}

impl Default for Access {
    fn default() -> Self {
        let durations = |_| Histogram::new(DURATIONS);
        Self {
            shown: [const { AtomicU64::new(0) }; SHOWN.len()],
            emails: AtomicU64::new(0),
            others: AtomicU64::new(0),
            authenticated: [0; AUTHENTICATED.len()].map(durations),
            authorized: [0; AUTHORIZED.len()].map(durations),
            decided: [const { [const { AtomicU64::new(0) }; DECIDED.len()] };
                Authorizer::ALL.len()],
            impersonated: [0; ImpersonationMode::ALL.len()].map(durations),
            unimpersonated: durations(0),
            asked: [[0; DECIDED.len()]; ImpersonationMode::ALL.len()].map(|own| own.map(durations)),
            valid_tokens: AtomicU64::new(0),
            stale_tokens: AtomicU64::new(0),
            lifetimes: Histogram::new(LIFETIMES),
        }
    }
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

impl Access {
    /// Counts an authentication that took `nanos`.
    pub(crate) fn authenticated(&self, outcome: Authenticated, nanos: u64) {
        self.authenticated[outcome as usize].observe(nanos);
    }

    /// Counts a request that was authenticated as `user`.
    pub(crate) fn knows(&self, user: &str) {
        let shown = SHOWN.iter().position(|shown| *shown == user);
        add(match shown {
            Some(index) => &self.shown[index],
            None if user.contains('@') => &self.emails,
            None => &self.others,
        });
    }

    /// Counts the decision of an authorization that took `nanos`.
    pub(crate) fn authorized(&self, decision: &Decision, nanos: u64) {
        let outcome = match decision {
            Decision::Allowed(_) => 0,
            Decision::Denied(_) => 1,
            Decision::Failed { .. } => 2,
            Decision::NoOpinion(_) => 3,
        };
        self.authorized[outcome].observe(nanos);
    }

    /// Counts the decision of an authorizer. An authorizer without an opinion leaves the decision
    /// to the next, and is not counted; nor are the privileged group's permissions, which come
    /// before all authorizers.
    pub(crate) fn decided(&self, authorizer: Authorizer, is_allowed: bool) {
        add(&self.decided[authorizer as usize][usize::from(!is_allowed)]);
    }

    /// Counts an impersonation that `mode` permitted, or no mode, after `nanos`.
    pub(crate) fn impersonated(&self, mode: Option<ImpersonationMode>, nanos: u64) {
        let histogram = mode.map_or(&self.unimpersonated, |mode| {
            &self.impersonated[mode as usize]
        });
        histogram.observe(nanos);
    }

    /// Counts the check of a permission to impersonate, which took `nanos`.
    pub(crate) fn asked(&self, mode: ImpersonationMode, is_allowed: bool, nanos: u64) {
        self.asked[mode as usize][usize::from(!is_allowed)].observe(nanos);
    }

    /// Counts the use of a valid token; `is_stale` for one that the client should have replaced.
    pub(crate) fn token_used(&self, is_stale: bool) {
        add(match is_stale {
            true => &self.stale_tokens,
            false => &self.valid_tokens,
        });
    }

    /// Counts a client's certificate that expires in `seconds`.
    pub(crate) fn certificate_shown(&self, seconds: i64) {
        self.lifetimes.observe(u64::try_from(seconds).unwrap_or(0));
    }

    /// The families of the counts.
    pub(crate) fn families(&self) -> Vec<Family> {
        let mut families = self.counters();
        families.extend(self.durations());
        families.extend(self.impersonations());
        families.extend(self.tokens());
        families
    }

    fn counters(&self) -> Vec<Family> {
        let named = SHOWN.iter().copied().zip(self.shown.iter().map(number));
        let sorts = [
            ("email_id", number(&self.emails)),
            ("other", number(&self.others)),
        ];
        let users: Vec<(&str, u64)> = named.chain(sorts).collect();
        let mut decisions = Family::counter(
            "apiserver_authorization_decisions_total",
            "[ALPHA] Total number of terminal decisions made by an authorizer split by authorizer type, name, and decision.",
        );
        for (authorizer, counts) in Authorizer::ALL.iter().zip(&self.decided) {
            let name = authorizer.name();
            for (decision, count) in DECIDED.iter().zip(counts) {
                if number(count) > 0 {
                    let mode = authorizer.mode();
                    let labels = [("decision", *decision), ("name", &name), ("type", mode)];
                    decisions.add(&labels, number(count));
                }
            }
        }
        vec![
            family(
                "authenticated_user_requests",
                "[ALPHA] Counter of authenticated requests broken out by username.",
                "username",
                &users,
            ),
            family(
                "authentication_attempts",
                "[ALPHA] Counter of authenticated attempts.",
                "result",
                &counts(&AUTHENTICATED, &self.authenticated),
            ),
            family(
                "authorization_attempts_total",
                "[ALPHA] Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', 'no-opinion' or 'error'.",
                "result",
                &counts(&AUTHORIZED, &self.authorized),
            ),
            decisions,
        ]
    }

    fn durations(&self) -> Vec<Family> {
        let mut filters = Family::histogram(
            "apiserver_request_filter_duration_seconds",
            "[ALPHA] Request filter latency distribution in seconds, for each filter type",
        );
        let attempts: [(_, _, &[_], &[_]); 2] = [
            (
                "authentication",
                "[ALPHA] Authentication duration in seconds broken out by result.",
                &AUTHENTICATED,
                &self.authenticated,
            ),
            (
                "authorization",
                "[ALPHA] Authorization duration in seconds broken out by result.",
                &AUTHORIZED,
                &self.authorized,
            ),
        ];
        let mut families: Vec<Family> = Vec::new();
        for (filter, help, results, durations) in attempts {
            let mut family = Family::histogram(&format!("{filter}_duration_seconds"), help);
            for (result, own) in used(results, durations) {
                family.add_histogram_by(&[("result", result)], own, &ATTEMPTS);
            }
            families.push(family);
            let all = Histogram::sum_of(DURATIONS, durations);
            if all.count() > 0 {
                filters.add_histogram_by(&[("filter", filter)], &all, &FILTERS);
            }
        }
        families.push(filters);
        families
    }

    fn impersonations(&self) -> Vec<Family> {
        const ATTEMPTS_TOTAL: [&str; 2] = [
            "apiserver_impersonation_attempts_total",
            "[ALPHA] Total number of impersonation attempts split by mode and decision.",
        ];
        const ATTEMPTS_SECONDS: [&str; 2] = [
            "apiserver_impersonation_attempts_duration_seconds",
            "[ALPHA] Latency of impersonation attempts in seconds split by mode and decision.",
        ];
        const ASKED_TOTAL: [&str; 2] = [
            "apiserver_impersonation_authorization_attempts_total",
            "[ALPHA] Total number of authorization checks made by the impersonation handler split by mode and decision.",
        ];
        const ASKED_SECONDS: [&str; 2] = [
            "apiserver_impersonation_authorization_attempts_duration_seconds",
            "[ALPHA] Latency of authorization checks made by the impersonation handler in seconds split by mode and decision.",
        ];
        let [allowed, denied] = DECIDED;
        let modes = ImpersonationMode::ALL.iter().map(|mode| mode.as_str());
        let succeeded = modes.clone().zip(&self.impersonated);
        let succeeded = succeeded.map(|(mode, own)| (mode, allowed, own));
        let attempts: Vec<_> = succeeded
            .chain([("", denied, &self.unimpersonated)])
            .collect();
        let asked = modes.zip(&self.asked).flat_map(|(mode, own)| {
            let answers = DECIDED.iter().zip(own);
            answers.map(move |(decision, own)| (mode, *decision, own))
        });
        let asked: Vec<_> = asked.collect();
        let mut families = Vec::new();
        for (total, seconds, own) in [
            (ATTEMPTS_TOTAL, ATTEMPTS_SECONDS, attempts),
            (ASKED_TOTAL, ASKED_SECONDS, asked),
        ] {
            let mut counter = Family::counter(total[0], total[1]);
            let mut durations = Family::histogram(seconds[0], seconds[1]);
            for (mode, decision, histogram) in own {
                if histogram.count() > 0 {
                    let labels = [("decision", decision), ("mode", mode)];
                    counter.add(&labels, histogram.count());
                    durations.add_histogram_by(&labels, histogram, &ATTEMPTS);
                }
            }
            families.extend([counter, durations]);
        }
        families
    }

    fn tokens(&self) -> Vec<Family> {
        let mut valid = Family::counter(
            "serviceaccount_valid_tokens_total",
            "[ALPHA] Cumulative valid projected service account tokens used",
        );
        valid.add(&[], number(&self.valid_tokens));
        let mut stale = Family::counter(
            "serviceaccount_stale_tokens_total",
            "[ALPHA] Cumulative stale projected service account tokens used",
        );
        stale.add(&[], number(&self.stale_tokens));
        let mut lifetimes = Family::histogram(
            "apiserver_client_certificate_expiration_seconds",
            "[ALPHA] Distribution of the remaining lifetime on the certificate used to authenticate a request.",
        );
        lifetimes.add_histogram(&[], &self.lifetimes);
        vec![valid, stale, lifetimes]
    }
}

/// The histograms with observed values, with their labels.
fn used<'h>(
    labels: &'h [&'static str],
    histograms: &'h [Histogram],
) -> impl Iterator<Item = (&'static str, &'h Histogram)> {
    let pairs = labels.iter().copied().zip(histograms);
    pairs.filter(|(_, own)| own.count() > 0)
}

fn counts(labels: &[&'static str], histograms: &[Histogram]) -> Vec<(&'static str, u64)> {
    let pairs = used(labels, histograms);
    pairs.map(|(label, own)| (label, own.count())).collect()
}

/// A family of counters that differ in one label; zeros are left out.
fn family(name: &str, help: &str, label: &str, counts: &[(&str, u64)]) -> Family {
    let mut family = Family::counter(name, help);
    for (value, count) in counts.iter().filter(|(_, count)| *count > 0) {
        family.add(&[(label, value)], *count);
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::families::exposition;

    #[test]
    fn bounds_ascend_and_hold_those_of_both_families() {
        assert!(DURATIONS.bounds.is_sorted());
        let has = |bound: &u64| DURATIONS.bounds.contains(bound);
        assert!(ATTEMPTS.iter().chain(&FILTERS).all(has));
        assert_eq!(ATTEMPTS.last(), Some(&(16_384 * MILLISECOND)));
    }

    #[test]
    fn names_of_users_are_shown_where_they_are_few() {
        let access = Access::default();
        for user in ["admin", "a@example.com", "noxu", "system:node:a"] {
            access.authenticated(Authenticated::Success, 0);
            access.knows(user);
        }
        access.authenticated(Authenticated::Error, 3 * MILLISECOND);
        access.authorized(&Decision::NoOpinion(String::new()), 0);
        let text = exposition(access.families());
        for line in [
            "authenticated_user_requests{username=\"admin\"} 1",
            "authenticated_user_requests{username=\"email_id\"} 1",
            "authenticated_user_requests{username=\"other\"} 2",
            "authentication_attempts{result=\"error\"} 1",
            "authentication_attempts{result=\"success\"} 4",
            "authentication_duration_seconds_bucket{result=\"error\",le=\"0.002\"} 0",
            "authentication_duration_seconds_bucket{result=\"error\",le=\"0.004\"} 1",
            "apiserver_request_filter_duration_seconds_bucket{filter=\"authentication\",le=\"0.001\"} 4",
            "apiserver_request_filter_duration_seconds_bucket{filter=\"authentication\",le=\"0.003\"} 5",
            "authorization_attempts_total{result=\"no-opinion\"} 1",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line} in {text}");
        }
        assert!(!text.contains("failure"));
        assert!(!text.contains("allowed\""));
    }
}
