//! Verdicts, from which conditions are made.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kubeproof_runtime::condition;

/// Whether a condition holds, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) holds: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Verdict {
    pub(super) fn yes(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            holds: true,
            reason,
            message: message.into(),
        }
    }

    pub(super) fn no(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            holds: false,
            ..Self::yes(reason, message)
        }
    }
}

/// Sets conditions of an object of one generation at one time.
#[derive(Clone, Copy)]
pub(super) struct Conditions {
    pub(super) generation: Option<i64>,
    pub(super) now: Timestamp,
}

impl Conditions {
    /// Returns `stored` with the conditions of these types.
    pub(super) fn with<const N: usize>(
        self,
        stored: &[Condition],
        verdicts: [(&str, &Verdict); N],
    ) -> Vec<Condition> {
        let mut conditions = stored.to_vec();
        for (name, verdict) in verdicts {
            let is = if verdict.holds { "True" } else { "False" };
            condition::set(
                &mut conditions,
                Condition {
                    type_: name.to_owned(),
                    status: is.to_owned(),
                    reason: verdict.reason.to_owned(),
                    message: verdict.message.clone(),
                    observed_generation: self.generation,
                    last_transition_time: Time(self.now),
                },
            );
        }
        conditions
    }
}
