//! Counts of authentication and authorization.

use std::sync::atomic::{AtomicU64, Ordering};

use super::families::Family;

/// User names that are shown; other names are shown as their sort.
const SHOWN: [&str; 5] = [
    "admin",
    "client",
    "kube_proxy",
    "kubelet",
    "system:serviceaccount:kube-system:default",
];

/// The counts of a server.
#[derive(Debug, Default)]
pub(crate) struct Access {
    /// In the order of [`SHOWN`].
    shown: [AtomicU64; SHOWN.len()],
    emails: AtomicU64,
    others: AtomicU64,
    /// Requests without credentials that need some.
    failures: AtomicU64,
    /// Requests with wrong credentials.
    errors: AtomicU64,
    allowed: AtomicU64,
    no_opinion: AtomicU64,
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

impl Access {
    /// A request was authenticated as this user.
    pub(crate) fn authenticated(&self, user: &str) {
        let shown = SHOWN.iter().position(|shown| *shown == user);
        add(match shown {
            Some(index) => &self.shown[index],
            None if user.contains('@') => &self.emails,
            None => &self.others,
        });
    }

    /// Authentication failed, with or without credentials.
    pub(crate) fn unauthenticated(&self, has_credentials: bool) {
        add(match has_credentials {
            true => &self.errors,
            false => &self.failures,
        });
    }

    /// A request was authorized, or not.
    pub(crate) fn decided(&self, is_allowed: bool) {
        add(match is_allowed {
            true => &self.allowed,
            false => &self.no_opinion,
        });
    }

    pub(crate) fn families(&self) -> Vec<Family> {
        let number = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let named = SHOWN.iter().copied().zip(self.shown.iter().map(number));
        let sorts = [
            ("email_id", number(&self.emails)),
            ("other", number(&self.others)),
        ];
        let users: Vec<(&str, u64)> = named.chain(sorts).collect();
        let authenticated = users.iter().map(|(_, count)| count).sum();
        let attempts = [
            ("error", number(&self.errors)),
            ("failure", number(&self.failures)),
            ("success", authenticated),
        ];
        let decisions = [
            ("allowed", number(&self.allowed)),
            ("no-opinion", number(&self.no_opinion)),
        ];
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
                &attempts,
            ),
            family(
                "authorization_attempts_total",
                "[ALPHA] Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', 'no-opinion' or 'error'.",
                "result",
                &decisions,
            ),
        ]
    }
}

/// A family of counters that differ in one label; what never happened is left out.
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
    use crate::endpoints::metrics::families::exposition;

    #[test]
    fn names_of_users_are_shown_where_they_are_few() {
        let access = Access::default();
        for user in ["admin", "a@example.com", "noxu", "system:node:a"] {
            access.authenticated(user);
        }
        access.unauthenticated(true);
        access.decided(false);
        let text = exposition(access.families());
        for line in [
            "authenticated_user_requests{username=\"admin\"} 1",
            "authenticated_user_requests{username=\"email_id\"} 1",
            "authenticated_user_requests{username=\"other\"} 2",
            "authentication_attempts{result=\"error\"} 1",
            "authentication_attempts{result=\"success\"} 4",
            "authorization_attempts_total{result=\"no-opinion\"} 1",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line} in {text}");
        }
        assert!(!text.contains("failure"));
        assert!(!text.contains("allowed\""));
    }
}
