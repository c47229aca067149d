//! Counts of admission: its steps, plugins, webhooks and policies.
//!
//! Upstream calls every plugin for every write, and most return at once, as the kind does not
//! concern them. Here a plugin is called only for the kinds that it knows. Its other calls are not
//! counted one by one: they follow from the steps, as a step goes through all its plugins in order
//! or ends with the one that refuses.

mod named;
mod plugin;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;

use super::families::{Family, Histogram, MILLISECOND, SECOND, Scale, number};
use super::summary::Summary;
use crate::request::Operation;

pub(crate) use named::{ConditionCheck, Configured, Named, PolicyCheck, Rejection, WebhookCall};
pub(crate) use plugin::Plugin;

const DURATIONS: Scale = Scale {
    bounds: &[
        5 * MILLISECOND,
        25 * MILLISECOND,
        100 * MILLISECOND,
        500 * MILLISECOND,
        SECOND,
        2_500 * MILLISECOND,
    ],
    per_unit: SECOND,
};
const STEPS: [Step; 2] = [Step::Admit, Step::Validate];
const OPERATIONS: [Operation; 4] = [
    Operation::Connect,
    Operation::Create,
    Operation::Delete,
    Operation::Update,
];
/// The number of combinations of a step, an operation and an outcome.
const KINDS: usize = STEPS.len() * OPERATIONS.len() * 2;

/// A half of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Plugins may change the object.
    Admit,
    /// Plugins look at the object that is about to be stored.
    Validate,
}

impl Step {
    fn as_str(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Validate => "validate",
        }
    }
}

/// A step for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    pub(crate) step: Step,
    pub(crate) operation: Operation,
}

impl Phase {
    /// Every phase, in the order of the labels.
    fn all() -> impl Iterator<Item = Self> {
        let of = |step| OPERATIONS.map(|operation| Self { step, operation });
        STEPS.into_iter().flat_map(of)
    }

    fn index(self, is_refused: bool) -> usize {
        (self.step as usize * OPERATIONS.len() + self.operation as usize) * 2
            + usize::from(is_refused)
    }
}

/// The counts of a server.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// The steps, by [`Phase::index`].
    steps: [Measured; KINDS],
    /// The plugins that were called, each by [`Phase::index`].
    plugins: ByPlugin,
    /// The number of repeated runs of the built-in plugins after webhooks, by operation.
    again: [AtomicU64; OPERATIONS.len()],
    named: OnceLock<Named>,
}

/// The durations of a plugin by [`Phase::index`].
type Phases = [OnceLock<Histogram>; KINDS];

#[derive(Debug)]
struct ByPlugin([OnceLock<Box<Phases>>; Plugin::COUNT]);

impl Default for ByPlugin {
    fn default() -> Self {
        Self(std::array::from_fn(|_| OnceLock::new()))
    }
}

#[derive(Debug, Default)]
struct Measured {
    histogram: OnceLock<Histogram>,
    summary: Summary,
}

fn durations() -> Histogram {
    Histogram::new(DURATIONS)
}

impl Admission {
    /// Counts a step that took `nanos` and ended at `now`.
    pub(crate) fn step(&self, phase: Phase, is_refused: bool, (now, nanos): (Timestamp, u64)) {
        let measured = &self.steps[phase.index(is_refused)];
        measured.histogram.get_or_init(durations).observe(nanos);
        measured.summary.observe(now, nanos);
    }

    /// Counts the call of a plugin that took `nanos`.
    pub(crate) fn plugin(&self, plugin: Plugin, phase: Phase, is_refused: bool, nanos: u64) {
        let phases = self.plugins.0[plugin as usize].get_or_init(Box::default);
        let held = &phases[phase.index(is_refused)];
        held.get_or_init(durations).observe(nanos);
    }

    /// Counts another run of the built-in plugins within a step.
    pub(crate) fn again(&self, operation: Operation) {
        self.again[operation as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The counts of webhooks and policies.
    pub(crate) fn named(&self) -> &Named {
        self.named.get_or_init(Named::default)
    }

    /// The counts of webhooks and policies, once any has been called.
    pub(super) fn named_so_far(&self) -> Option<&Named> {
        self.named.get()
    }

    /// The families as of `now`; `has` says of each plugin whether it is on.
    pub(crate) fn families(&self, now: Timestamp, has: impl Fn(Plugin) -> bool) -> Vec<Family> {
        let mut families = self.of_steps(now);
        families.push(self.of_plugins(has));
        families
    }

    fn of_steps(&self, now: Timestamp) -> Vec<Family> {
        let mut durations = Family::histogram(
            "apiserver_admission_step_admission_duration_seconds",
            "[STABLE] Admission sub-step latency histogram in seconds, broken out for each operation and API resource and step type (validate or admit).",
        );
        let mut summaries = Family::summary(
            "apiserver_admission_step_admission_duration_seconds_summary",
            "[ALPHA] Admission sub-step latency summary in seconds, broken out for each operation and API resource and step type (validate or admit).",
        );
        for operation in OPERATIONS {
            for is_refused in [false, true] {
                for step in STEPS {
                    let phase = Phase { step, operation };
                    let own = &self.steps[phase.index(is_refused)];
                    if let Some(histogram) = own.histogram.get() {
                        let labels = labels(phase, is_refused);
                        durations.add_histogram(&labels, histogram);
                        own.summary.show(&mut summaries, &labels, now);
                    }
                }
            }
        }
        vec![durations, summaries]
    }

    fn of_plugins(&self, has: impl Fn(Plugin) -> bool) -> Family {
        let mut family = Family::histogram(
            "apiserver_admission_controller_admission_duration_seconds",
            "[STABLE] Admission controller latency histogram in seconds, identified by name and broken out for each operation and API resource and type (validate or admit).",
        );
        let none = durations();
        let mut rows = Vec::new();
        for phase in Phase::all() {
            let mut passed = self.passes(phase);
            let asked = |plugin: &Plugin| has(*plugin) && plugin.is_in(phase);
            for plugin in Plugin::all().filter(asked) {
                let observed = |is_refused: bool| {
                    let phases = self.plugins.0[plugin as usize].get();
                    let own = phases.and_then(|phases| phases[phase.index(is_refused)].get());
                    own.unwrap_or(&none)
                };
                let (accepted, refused) = (observed(false), observed(true));
                let silent = passed.saturating_sub(accepted.count() + refused.count());
                if accepted.count() + silent > 0 {
                    rows.push((plugin, phase, false, (accepted, silent)));
                }
                if refused.count() > 0 {
                    rows.push((plugin, phase, true, (refused, 0)));
                }
                // Later plugins are not called for the writes that it has refused.
                passed = passed.saturating_sub(refused.count());
            }
        }
        rows.sort_by_key(|(plugin, phase, is_refused, _)| {
            let labels = labels(*phase, *is_refused);
            (plugin.as_str(), labels.map(|(_, value)| value))
        });
        for (plugin, phase, is_refused, (histogram, zeros)) in rows {
            let [operation, rejected, step] = labels(phase, is_refused);
            let labels = [("name", plugin.as_str()), operation, rejected, step];
            family.add_histogram_and_zeros(&labels, histogram, zeros);
        }
        family
    }

    /// The number of calls of the first plugin in a phase.
    fn passes(&self, phase: Phase) -> u64 {
        let steps = [false, true].map(|is_refused| {
            let own = &self.steps[phase.index(is_refused)];
            own.histogram.get().map_or(0, Histogram::count)
        });
        let again = match phase.step {
            Step::Admit => number(&self.again[phase.operation as usize]),
            Step::Validate => 0,
        };
        steps.iter().sum::<u64>() + again
    }
}

fn labels(phase: Phase, is_refused: bool) -> [(&'static str, &'static str); 3] {
    [
        ("operation", phase.operation.as_str()),
        ("rejected", if is_refused { "true" } else { "false" }),
        ("type", phase.step.as_str()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::families::exposition;

    #[test]
    fn a_plugin_is_asked_as_often_as_a_step_comes_to_it() {
        let admission = Admission::default();
        let phase = |step| Phase {
            step,
            operation: Operation::Create,
        };
        let (admit, now) = (phase(Step::Admit), Timestamp::UNIX_EPOCH);
        // One passes, and one is refused by the second plugin.
        admission.plugin(Plugin::NamespaceLifecycle, admit, false, 2 * SECOND);
        admission.step(admit, false, (now, 2 * SECOND));
        admission.plugin(Plugin::LimitRanger, admit, true, 0);
        admission.step(admit, true, (now, 0));
        let families = admission.families(now, |plugin| plugin != Plugin::ServiceAccount);
        let text = exposition(families);
        let count = |name: &str, rejected: bool| {
            let rest = format!("operation=\"CREATE\",rejected=\"{rejected}\",type=\"admit\"");
            let name = format!("name=\"{name}\",{rest}");
            let start = "apiserver_admission_controller_admission_duration_seconds_count";
            let line = format!("{start}{{{name}}} ");
            let line = text.lines().find_map(|own| own.strip_prefix(&line));
            line.map(|count| count.parse::<u64>().unwrap())
        };
        assert_eq!(count("NamespaceLifecycle", false), Some(2));
        assert_eq!(count("NamespaceLifecycle", true), None);
        assert_eq!(count("LimitRanger", false), Some(1));
        assert_eq!(count("LimitRanger", true), Some(1));
        assert_eq!(count("MutatingAdmissionWebhook", false), Some(1));
        assert_eq!(count("ServiceAccount", false), None, "it is off");
        assert_eq!(count("CertificateApproval", false), None, "of updates");
        let sums = "apiserver_admission_controller_admission_duration_seconds_sum\
                    {name=\"NamespaceLifecycle\",operation=\"CREATE\",rejected=\"false\",\
                    type=\"admit\"} 2\n";
        assert!(text.contains(sums), "{text}");
        let step = "apiserver_admission_step_admission_duration_seconds_summary\
                    {operation=\"CREATE\",rejected=\"false\",type=\"admit\",quantile=\"0.5\"} ";
        assert!(text.contains(step), "{text}");
    }
}
