//! Waits for a cluster with programs to settle, in real time.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kubeproof_apiserver::EventType;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_machinery::json::Value;
use tokio::time::Instant;

use crate::properties::WRITE_LOOPS;
use crate::quiescence::Quiescence;
use crate::testbed::program::activity::{
    Doing, LOOK_PERIOD, Observer, QUIET_TIME, WORKING_TIME_MAX, elapsed, last_new_kind,
};
use crate::testbed::program::starvation::Starvation;
use crate::testbed::program::{RunningPrograms, SettlePause};
use crate::testbed::{Testbed, TestbedError};

/// The period in which a run that has not settled is looked at for loops, which never end.
const JUDGMENT_PERIOD: Duration = Duration::from_secs(5);
/// The smallest change of the server's clock that counts as a fault.
const JUMP_MIN: Duration = Duration::from_secs(1);
/// Programs that other programs keep from the processors are waited for up to this many times as long as others.
const STARVED_FACTOR: u32 = 6;

/// A wait for programs.
struct Wait {
    began: Timestamp,
    /// The time without a write that is enough unless programs are seen to wait or to work.
    pause: Duration,
    /// The limit, without the time in which programs were starved.
    longest: Duration,
    quiescence: Quiescence,
    observer: Observer,
    /// The time up to which a fault withholds something from the programs.
    withheld: Option<Timestamp>,
    /// The time that programs had been starved for when the wait began.
    starved_before: Duration,
    /// The beginning of the present pause, and the time that programs had been starved for by then.
    quiet_since: (Timestamp, Duration),
    /// The beginning, and the starved time, of the pause in which programs have also sent no new kind of request: what a program
    /// asks for when it starts leads to writes.
    idle_since: (Timestamp, Duration),
    next_judgment: Duration,
}

impl Wait {
    fn begin(now: Timestamp, (pause, longest): (Duration, Duration), starved: Duration) -> Self {
        Self {
            began: now,
            pause,
            longest,
            quiescence: Quiescence::begin(now, pause, longest * STARVED_FACTOR),
            observer: Observer::default(),
            withheld: None,
            starved_before: starved,
            quiet_since: (now, starved),
            idle_since: (now, starved),
            next_judgment: JUDGMENT_PERIOD,
        }
    }

    /// Begins the pause anew after the last write, and when faults withhold nothing any more. `asked` is the time of the last new
    /// kind of request.
    fn see(&mut self, withheld: Option<Timestamp>, asked: Option<Timestamp>, starved: Duration) {
        self.withheld = self.withheld.max(withheld);
        let last = self.quiescence.last();
        let since = self.withheld.map_or(last, |end| end.max(last));
        if since > self.quiet_since.0 {
            self.quiet_since = (since, starved);
        }
        let since = asked.map_or(since, |asked| asked.max(since));
        if since > self.idle_since.0 {
            self.idle_since = (since, starved);
        }
    }

    /// The length of the present pause at `now`, without the time in which programs were starved.
    fn quiet(&self, now: Timestamp, starved: Duration) -> Duration {
        without_starved(self.quiet_since, (now, starved))
    }

    /// Whether the present pause is enough at `now`.
    fn is_enough(
        &self,
        doing: Doing,
        (now, starved): (Timestamp, Duration),
        is_unfinished: impl FnOnce() -> bool,
    ) -> bool {
        let quiet = self.quiet(now, starved);
        let is_enough = match doing {
            Doing::Waiting => quiet >= self.pause || !is_unfinished(),
            Doing::Working => quiet >= WORKING_TIME_MAX,
            Doing::Unknown => {
                let idle = without_starved(self.idle_since, (now, starved));
                idle >= self.pause || quiet >= WORKING_TIME_MAX
            }
        };
        is_enough && self.withheld.is_none_or(|end| now >= end)
    }

    /// The time since the beginning, and how long programs were starved in it, once there is no time left.
    fn overdue(&self, now: Timestamp, starved: Duration) -> Option<(Duration, Duration)> {
        let waited = elapsed(self.began, now);
        let starved = starved.saturating_sub(self.starved_before);
        let is_over = waited.saturating_sub(starved) >= self.longest
            || waited >= self.longest * STARVED_FACTOR;
        is_over.then_some((waited, starved))
    }
}

/// The time between two moments, without the time in which programs were starved between them.
fn without_starved(then: (Timestamp, Duration), now: (Timestamp, Duration)) -> Duration {
    elapsed(then.0, now.0).saturating_sub(now.1.saturating_sub(then.1))
}

impl Testbed {
    /// Waits as [`Self::wait_until_quiet`] does, in real time: sooner if the programs wait for events, and longer if they
    /// work. Time in which they have no processor does not count.
    pub(super) async fn wait_for_programs(
        &self,
        programs: &RunningPrograms,
        quiet: Duration,
        longest: Duration,
    ) -> Result<Timestamp, TestbedError> {
        let (pause, is_fixed) = match programs.pause {
            SettlePause::Fixed(pause) => (quiet.min(pause), true),
            SettlePause::ByActivity => (quiet.min(QUIET_TIME), false),
        };
        let limits = (pause, longest);
        let mut starvation = Starvation::default();
        let mut wait = Wait::begin(self.now(), limits, Duration::ZERO);
        let mut looked = (self.now(), Instant::now());
        let (server, mut seen_rv) = (&self.cluster().server, None);
        let began_rv = self.resource_version();
        loop {
            // How a program has ended says more than that it has.
            programs.run()?;
            self.check_controllers()?;
            starvation.look(programs);
            let look = (self.now(), Instant::now());
            let passed = elapsed(looked.0, look.0);
            if look.0 < looked.0 || passed > look.1 - looked.1 + JUMP_MIN {
                // A fault has set the clock: times before it say nothing about times after it.
                wait = Wait::begin(look.0, limits, starvation.total());
            }
            looked = look;
            let now = look.0;
            let rv = self.resource_version();
            if seen_rv.replace(rv) != Some(rv) {
                wait.quiescence.see(&self.journal())?;
            }
            let last = wait.quiescence.last();
            let asked = match is_fixed {
                true => None,
                false => last_new_kind(programs),
            };
            wait.see(server.withheld_until(), asked, starvation.total());
            let doing = match is_fixed {
                true => Doing::Unknown,
                false => {
                    let hit = server.fault_hits().last().map(|hit| hit.time);
                    let hit = hit.max(wait.withheld);
                    wait.observer.look(programs, (now, last), hit)
                }
            };
            if wait.is_enough(doing, (now, starvation.total()), || self.is_unfinished()) {
                starvation.look_now(programs);
                if wait.is_enough(doing, (now, starvation.total()), || self.is_unfinished()) {
                    programs.note_settled(doing == Doing::Working);
                    return Ok(last);
                }
            }
            if let Some((waited, starved)) = wait.overdue(now, starvation.total()) {
                return Err(match wait.quiet(now, starvation.total()) < pause {
                    true => wait.quiescence.not_settled(&self.journal(), waited).into(),
                    false => TestbedError::unsettled(waited, starved),
                });
            }
            if elapsed(wait.began, now) >= wait.next_judgment {
                wait.next_judgment += JUDGMENT_PERIOD;
                if self.loops_since(began_rv) {
                    let after = wait.next_judgment - JUDGMENT_PERIOD;
                    return Err(wait.quiescence.not_settled(&self.journal(), after).into());
                }
            }
            let quiet = wait.quiet(now, starvation.total());
            tokio::time::sleep(match is_fixed {
                true => pause.saturating_sub(quiet).max(LOOK_PERIOD),
                false => LOOK_PERIOD,
            })
            .await;
        }
    }

    /// Whether a client has written the same object again and again since version `rv`.
    fn loops_since(&self, rv: ResourceVersion) -> bool {
        let violations = self.violations_since(rv);
        let mut violations = violations.iter().filter(|violation| violation.rv > rv);
        violations.any(|violation| violation.property == WRITE_LOOPS)
    }

    /// Whether the simulated nodes or a finalizer visibly have work left: a pod is neither ready nor over, or an object
    /// is being deleted.
    pub(super) fn is_unfinished(&self) -> bool {
        let mut objects = BTreeMap::new();
        for entry in self.journal() {
            let metadata = &entry.object["metadata"];
            let name = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
            let key = (entry.gvr.clone(), name("namespace"), name("name"));
            match entry.event {
                EventType::Deleted => objects.remove(&key),
                EventType::Added | EventType::Modified => objects.insert(key, entry.object),
            };
        }
        let has_nodes = self.cluster().options.nodes > 0;
        objects.iter().any(|((gvr, ..), object)| {
            let is_pod = gvr.group.is_empty() && gvr.resource == "pods";
            let is_deleted = object["metadata"]["deletionTimestamp"].is_string();
            is_deleted || is_pod && has_nodes && !is_ready_or_over(object)
        })
    }
}

/// Whether a pod is ready, or has ended.
fn is_ready_or_over(pod: &Value) -> bool {
    let status = &pod["status"];
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let is_ready = conditions.any(|own| own["type"] == "Ready" && own["status"] == "True");
    is_ready || status["phase"] == "Succeeded" || status["phase"] == "Failed"
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn wait() -> Wait {
        Wait::begin(at(0), (3 * SECOND, 300 * SECOND), 2 * SECOND)
    }

    #[test]
    fn a_pause_does_not_grow_while_programs_are_starved() {
        let is_enough =
            |doing, now, starved| wait().is_enough(doing, (at(now), starved * SECOND), || true);
        assert!(is_enough(Doing::Unknown, 3, 2));
        assert!(!is_enough(Doing::Unknown, 3, 3));
        assert!(is_enough(Doing::Unknown, 4, 3));
        assert!(!is_enough(Doing::Working, 40, 13));
        assert!(is_enough(Doing::Working, 41, 13));
        assert!(wait().is_enough(Doing::Waiting, (at(1), 2 * SECOND), || false));
    }

    #[test]
    fn a_pause_begins_when_nothing_is_withheld_any_more() {
        let mut wait = wait();
        wait.see(Some(at(5)), None, 4 * SECOND);
        assert!(!wait.is_enough(Doing::Waiting, (at(4), 4 * SECOND), || false));
        assert!(wait.is_enough(Doing::Waiting, (at(5), 4 * SECOND), || false));
        wait.see(None, None, 5 * SECOND);
        assert_eq!(wait.quiet(at(8), 5 * SECOND), 2 * SECOND);
    }

    #[test]
    fn a_program_that_asks_for_something_new_may_write_soon() {
        let mut wait = wait();
        wait.see(None, Some(at(2)), 2 * SECOND);
        let mut is_enough = |now| {
            wait.see(None, Some(at(2)), 2 * SECOND);
            wait.is_enough(Doing::Unknown, (at(now), 2 * SECOND), || true)
        };
        assert!(!is_enough(4));
        assert!(is_enough(5));
        wait.see(None, Some(at(29)), 2 * SECOND);
        assert!(wait.is_enough(Doing::Unknown, (at(30), 2 * SECOND), || true));
    }

    #[test]
    fn programs_have_five_minutes_in_which_they_are_not_starved() {
        let overdue = |now, starved| wait().overdue(at(now), starved * SECOND);
        assert_eq!(overdue(299, 2), None);
        assert_eq!(overdue(300, 2), Some((300 * SECOND, Duration::ZERO)));
        assert_eq!(overdue(1799, 1702), None);
        assert_eq!(overdue(1800, 1702), Some((1800 * SECOND, 1700 * SECOND)));
        let error = TestbedError::unsettled(1800 * SECOND, 1700 * SECOND).to_string();
        let words = "they still work after 30m, of which they waited 28m20s for a processor";
        assert!(error.ends_with(words), "{error}");
    }
}
