//! Waits for a cluster to settle.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use jiff::Timestamp;
use kubeproof_apiserver::EventType;
use kubeproof_apiserver::meta::ResourceVersion;
use serde_json::Value;

use super::program::activity::{
    Doing, LOOK_PERIOD, Observer, QUIET_TIME, WORKING_TIME_MAX, elapsed,
};
use super::program::{RunningPrograms, SettlePause};
use super::time::{Pulse, check_runtime};
use super::{Mode, Testbed, TestbedError};
use crate::properties::WRITE_LOOPS;
use crate::quiescence::Quiescence;
use crate::time::HumanDuration;

/// Everything counts as settled after this long without a write.
#[doc(hidden)]
pub const QUIET: Duration = Duration::from_secs(600);
/// A cluster that has not settled after this long is given up.
pub(crate) const SETTLE_TIME_MAX: Duration = Duration::from_secs(24 * 3600);
/// A cluster that has not settled after this long in real time is given up.
pub(crate) const SETTLE_REAL_TIME_MAX: Duration = Duration::from_secs(300);
/// The period in which a run in real time that has not settled is looked at for loops, which never end.
const JUDGMENT_PERIOD: Duration = Duration::from_secs(5);
/// The smallest change of the server's clock that counts as a fault.
const JUMP_MIN: Duration = Duration::from_secs(1);
/// A task that keeps the runtime busy is reported after this real time without a request.
const SPINNING_TIME: Duration = Duration::from_secs(5);

impl Testbed {
    /// Lets time pass until nothing but heartbeats was written for `quiet`; at most 24 hours of virtual time, or five
    /// minutes of real time. Returns the time of the last write.
    ///
    /// The server's journal decides, so the result does not depend on how tasks are scheduled.
    ///
    /// Cancel safety: the time that has passed stays passed.
    ///
    /// # Errors
    /// The errors of [`Testbed::settle_within`].
    pub async fn settle(&self, quiet: Duration) -> Result<Timestamp, TestbedError> {
        let longest = match self.cluster().options.mode {
            Mode::Virtual | Mode::RealTime => SETTLE_TIME_MAX,
            Mode::Programs(_) => SETTLE_REAL_TIME_MAX,
        };
        self.settle_within(quiet, longest).await
    }

    /// Waits like [`Testbed::settle`], for at most `longest`.
    ///
    /// # Errors
    /// - [`TestbedError::NotSettled`] when writes continue after that time,
    /// - [`TestbedError::Livelock`] when a controller sends too many requests within one instant,
    /// - [`TestbedError::Spinning`] when a controller keeps the runtime busy without a request,
    /// - [`TestbedError::ControllerEnded`] when a controller has panicked or returned,
    /// - [`TestbedError::Violated`] when a property is violated, unless the builder ignores violations.
    pub async fn settle_within(
        &self,
        quiet: Duration,
        longest: Duration,
    ) -> Result<Timestamp, TestbedError> {
        check_runtime()?;
        let last = self.wait_until_quiet(quiet, longest).await?;
        self.settled.lock().push((self.resource_version(), quiet));
        self.judge_settled();
        if self.cluster().options.fails_on_violations {
            self.judge()?;
        }
        Ok(last)
    }

    /// Lets time pass until nothing was written for `quiet`, and judges nothing.
    ///
    /// # Errors
    /// The errors of [`Testbed::settle_within`], except for violations.
    pub(crate) async fn wait_until_quiet(
        &self,
        quiet: Duration,
        longest: Duration,
    ) -> Result<Timestamp, TestbedError> {
        if let Some(programs) = &self.cluster().programs {
            return self.wait_for_programs(programs, quiet, longest).await;
        }
        let mut wait = Quiescence::begin(self.now(), quiet, longest);
        loop {
            self.check_controllers()?;
            let Some(remaining) = wait.remaining(self.now()) else {
                return Ok(wait.last());
            };
            self.pass(remaining).await?;
            wait.see(&self.journal())?;
        }
    }

    /// Waits as [`Self::wait_until_quiet`] does, in real time: sooner if the programs wait for events, and longer if they
    /// work.
    async fn wait_for_programs(
        &self,
        programs: &RunningPrograms,
        quiet: Duration,
        longest: Duration,
    ) -> Result<Timestamp, TestbedError> {
        let (pause, is_fixed) = match programs.pause {
            SettlePause::Fixed(pause) => (quiet.min(pause), true),
            SettlePause::ByActivity => (quiet.min(QUIET_TIME), false),
        };
        let mut began = self.now();
        let mut wait = Quiescence::begin(began, pause, longest);
        let mut observer = Observer::default();
        let mut looked = (began, tokio::time::Instant::now());
        let (server, mut seen_rv) = (&self.cluster().server, None);
        let (began_rv, mut next_judgment) = (self.resource_version(), JUDGMENT_PERIOD);
        // The time up to which a fault withholds something from the programs.
        let mut withheld = None;
        loop {
            self.check_controllers()?;
            programs.run()?;
            let look = (self.now(), tokio::time::Instant::now());
            let passed = elapsed(looked.0, look.0);
            if look.0 < looked.0 || passed > look.1 - looked.1 + JUMP_MIN {
                // A fault has set the clock: times before it say nothing about times after it.
                began = look.0;
                wait = Quiescence::begin(began, pause, longest);
                (observer, next_judgment) = (Observer::default(), JUDGMENT_PERIOD);
            }
            looked = look;
            let rv = self.resource_version();
            if seen_rv.replace(rv) != Some(rv) {
                wait.see(&self.journal())?;
            }
            let (now, last) = (self.now(), wait.last());
            withheld = withheld.max(server.withheld_until());
            let quiet = elapsed(withheld.map_or(last, |end| end.max(last)), now);
            let doing = match is_fixed {
                true => Doing::Unknown,
                false => {
                    let hit = server.fault_hits().last().map(|hit| hit.time);
                    observer.look(programs, (now, last), hit.max(withheld))
                }
            };
            let has_settled = match doing {
                Doing::Waiting => !self.is_unfinished() || quiet >= pause,
                Doing::Working => quiet >= WORKING_TIME_MAX,
                Doing::Unknown => quiet >= pause,
            };
            let is_withheld = withheld.is_some_and(|end| now < end);
            let is_over = elapsed(began, now) >= longest && quiet >= pause;
            if has_settled && !is_withheld || is_over {
                return Ok(last);
            }
            if elapsed(began, now) >= next_judgment {
                next_judgment += JUDGMENT_PERIOD;
                if self.loops_since(began_rv) {
                    return Err(wait
                        .not_settled(&self.journal(), next_judgment - JUDGMENT_PERIOD)
                        .into());
                }
            }
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
    fn is_unfinished(&self) -> bool {
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

    /// Lets `time` pass.
    ///
    /// # Errors
    /// [`TestbedError::Spinning`] when that never happens.
    async fn pass(&self, time: Duration) -> Result<(), TestbedError> {
        let cluster = self.cluster();
        if !matches!(cluster.options.mode, Mode::Virtual) {
            tokio::time::sleep(time).await;
            return Ok(());
        }
        let mut pulse = Pulse::start();
        let mut passed = pin!(tokio::time::sleep(time));
        let state = || (cluster.server.clock().now(), cluster.server.requests());
        let (mut seen, mut since) = (state(), Duration::ZERO);
        loop {
            let beat = tokio::select! {
                biased;
                () = &mut passed => return Ok(()),
                beat = pulse.beat() => beat,
            };
            let now = state();
            if now != seen {
                (seen, since) = (now, beat);
            } else if beat.saturating_sub(since) >= SPINNING_TIME {
                let under_test = cluster.options.under_test.iter();
                return Err(TestbedError::Spinning {
                    waited: HumanDuration(SPINNING_TIME),
                    under_test: under_test.map(|controller| controller.user_agent).collect(),
                });
            }
        }
    }
}

/// Whether a pod is ready, or has ended.
fn is_ready_or_over(pod: &Value) -> bool {
    let status = &pod["status"];
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let is_ready = conditions.any(|own| own["type"] == "Ready" && own["status"] == "True");
    is_ready || status["phase"] == "Succeeded" || status["phase"] == "Failed"
}
