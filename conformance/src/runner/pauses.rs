//! How long the writes of a scenario pause, as a run in process shows it.

use std::time::Duration;

use jiff::Timestamp;
use kubeproof_apiserver::meta::ResourceVersion;

use super::Run;
use crate::scenario::Scenario;
use crate::user_agent;

/// The longest time in each part of a run after which a component of the cluster wrote on: the cluster has not settled
/// before. The scenario itself writes only when the run in process has settled, so that the time before does not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    /// Before the first step.
    given: Duration,
    steps: Vec<Duration>,
}

/// A write of a run.
struct Write {
    rv: ResourceVersion,
    time: Timestamp,
    /// Whether a component of the cluster wrote, and not the scenario itself.
    by_component: bool,
}

impl Pauses {
    /// Measures a run of `scenario` in process.
    #[must_use]
    pub fn of(scenario: &Scenario, run: &Run) -> Self {
        let observed = run.observed(&scenario.given.namespace);
        let writes = run.journal.iter().filter(|entry| observed.has(entry));
        let writes = writes.map(|entry| Write {
            rv: entry.rv,
            time: entry.time,
            by_component: user_agent::is_component(&entry.user_agent),
        });
        let began = run.journal.first().map(|entry| entry.time);
        let starts = run.steps.iter().map(|step| (step.after_rv, step.began));
        Self::between(
            &writes.collect::<Vec<_>>(),
            began.unwrap_or_default(),
            &starts.collect::<Vec<_>>(),
        )
    }

    /// Measures the writes of a run that began at `began`, and whose steps started after the versions and at the times
    /// of `starts`.
    fn between(
        writes: &[Write],
        began: Timestamp,
        starts: &[(ResourceVersion, Timestamp)],
    ) -> Self {
        let longest = |start: Timestamp, after: ResourceVersion, until: Option<ResourceVersion>| {
            let is_within =
                |rv: ResourceVersion| rv > after && until.is_none_or(|until| rv <= until);
            let own = writes.iter().filter(|write| is_within(write.rv));
            let mut last = start;
            let pauses = own.filter_map(|write| {
                let pause = write.time.duration_since(last);
                last = write.time;
                (write.by_component).then(|| pause.try_into().unwrap_or(Duration::ZERO))
            });
            pauses.max().unwrap_or(Duration::ZERO)
        };
        let ends = starts.iter().skip(1).map(|(rv, _)| Some(*rv)).chain([None]);
        Self {
            given: longest(
                began,
                ResourceVersion::ZERO,
                starts.first().map(|(rv, _)| *rv),
            ),
            steps: starts
                .iter()
                .zip(ends)
                .map(|((rv, start), end)| longest(*start, *rv, end))
                .collect(),
        }
    }

    /// Returns the longest pause in the step with this index, or before the first one.
    pub(super) fn during(&self, step: Option<usize>) -> Duration {
        match step {
            None => self.given,
            Some(step) => self.steps.get(step).copied().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn component(rv: u64, second: i64) -> Write {
        Write {
            rv: ResourceVersion::new(rv),
            time: at(second),
            by_component: true,
        }
    }

    #[test]
    fn each_step_has_the_longest_pause_between_its_own_writes() {
        let writes = [
            component(1, 0),
            component(2, 3),
            component(4, 100),
            component(5, 105),
            component(8, 240),
        ];
        let starts = [(2, at(90)), (6, at(200))].map(|(rv, at)| (ResourceVersion::new(rv), at));
        let pauses = Pauses::between(&writes, at(0), &starts);
        assert_eq!(pauses.during(None), Duration::from_secs(3));
        assert_eq!(pauses.during(Some(0)), Duration::from_secs(10));
        assert_eq!(pauses.during(Some(1)), Duration::from_secs(40));
        assert_eq!(pauses.during(Some(2)), Duration::ZERO);
    }

    #[test]
    fn the_time_in_which_the_scenario_waits_is_no_pause() {
        let by_scenario = Write {
            by_component: false,
            ..component(2, 600)
        };
        let writes = [component(1, 2), by_scenario, component(3, 605)];
        let pauses = Pauses::between(&writes, at(0), &[]);
        assert_eq!(pauses.during(None), Duration::from_secs(5));
    }
}
