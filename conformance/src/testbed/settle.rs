//! Waits for a cluster to settle.

mod programs;

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;

use super::program::activity::{Asking, WAITING_TIME, asking, elapsed};
use super::time::{Pulse, check_runtime};
use super::{Mode, SettlePause, Testbed, TestbedError};
use crate::fault_plan::StaleReads;
use crate::quiescence::Quiescence;
use crate::time::{HumanDuration, QUIET};

/// Programs under virtual time count as settled after this long without a write: they have many timers, and each costs real
/// time.
pub(crate) const VIRTUAL_QUIET: Duration = Duration::from_secs(60);
/// A cluster that has not settled after this long is given up.
pub(crate) const SETTLE_TIME_MAX: Duration = Duration::from_secs(24 * 3600);
/// A cluster that has not settled after this long in real time is given up.
pub(crate) const SETTLE_REAL_TIME_MAX: Duration = Duration::from_secs(300);
/// A task that keeps the runtime busy is reported after this real time without a request.
const SPINNING_TIME: Duration = Duration::from_secs(5);
/// A program that computes without a request is reported after this real time: a runtime takes long to start on a busy machine.
const COMPUTING_TIME: Duration = Duration::from_secs(120);

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
        let longest = match &self.cluster().options.mode {
            Mode::Virtual | Mode::RealTime => SETTLE_TIME_MAX,
            mode @ Mode::Programs(_) if mode.is_virtual() => SETTLE_TIME_MAX,
            Mode::Programs(_) => SETTLE_REAL_TIME_MAX,
        };
        self.settle_within(quiet, longest).await
    }

    /// Waits like [`Testbed::settle`], for at most `longest`.
    ///
    /// # Errors
    /// - [`TestbedError::NotSettled`] when writes continue after that time,
    /// - [`TestbedError::Unsettled`] when programs still work after that time,
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
        let fails_on_violations = self.cluster().options.fails_on_violations;
        let mut waited = self.wait_until_quiet(quiet, longest).await;
        if let Err(TestbedError::NotSettled(endless)) = &mut waited
            && fails_on_violations
            && let Err(TestbedError::Violated(violations)) = self.judge()
        {
            // A violation may be the reason, and a test that fails here does not ask for it.
            endless.violations = violations;
        }
        let last = waited?;
        self.settled.lock().push((self.resource_version(), quiet));
        self.judge_settled();
        if fails_on_violations {
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
        let (cluster, mut quiet) = (self.cluster(), quiet);
        if let Some(programs) = &cluster.programs {
            if !cluster.options.mode.is_virtual() {
                return self.wait_for_programs(programs, quiet, longest).await;
            }
            let pause = match programs.pause {
                SettlePause::ByActivity => VIRTUAL_QUIET,
                SettlePause::Fixed(pause) => pause,
            };
            // A step that names a time waits no longer than that.
            quiet = match quiet == QUIET {
                true => pause,
                false => quiet.min(pause),
            };
        }
        let began = self.now();
        let mut wait = Quiescence::begin(began, quiet, longest);
        // When a late replica was brought up to date.
        let mut fresh = None;
        loop {
            if let Some(programs) = &cluster.programs {
                // How a program has ended says more than that it has.
                programs.run()?;
            }
            self.check_controllers()?;
            let now = self.now();
            // A fault may withhold from programs what they would act on.
            let withheld = cluster.programs.as_ref();
            let withheld = withheld.and_then(|_| cluster.server.withheld_until());
            let withheld = withheld.map(|end| elapsed(now, end));
            let withheld = withheld.filter(|left| !left.is_zero());
            let withheld = withheld.map(|left| left + quiet);
            let Some(remaining) = wait.remaining(now).max(withheld) else {
                return Ok(wait.last());
            };
            let asking = match &cluster.programs {
                Some(programs) if programs.pause == SettlePause::ByActivity => {
                    let last_fault = cluster.server.fault_hits().last().map(|hit| hit.time);
                    asking(programs, (now, wait.last()), last_fault.max(fresh))
                }
                _ => Asking::Otherwise,
            };
            if asking == Asking::InVain
                && withheld.is_some()
                && cluster.server.lift(StaleReads::NAME)
            {
                // It has read everything twice from a late replica, and would do so a hundred times more.
                fresh = Some(now);
                continue;
            }
            let next_look = match asking {
                // Each of their rounds costs real time, and changes nothing.
                Asking::InVain if withheld.is_none() && !self.is_unfinished() => {
                    return Ok(wait.last());
                }
                Asking::InVain | Asking::Again => WAITING_TIME,
                Asking::Otherwise => elapsed(began, now).max(WAITING_TIME),
            };
            self.pass(match cluster.programs {
                Some(_) => remaining.min(next_look),
                None => remaining,
            })
            .await?;
            wait.see(&self.journal())?;
        }
    }

    /// Returns a pulse, which never beats while processes may branch off: a branch has only one of the threads, and waits
    /// forever for a lock that another one held. Such a run has passed before without branches, so it is known to end.
    fn pulse(&self) -> Pulse {
        match self.branches.load(Ordering::Relaxed) {
            true => Pulse::default(),
            false => Pulse::start(),
        }
    }

    /// Lets `time` pass.
    ///
    /// # Errors
    /// [`TestbedError::Spinning`] when that never happens.
    async fn pass(&self, time: Duration) -> Result<(), TestbedError> {
        let cluster = self.cluster();
        if !cluster.options.mode.is_virtual() {
            tokio::time::sleep(time).await;
            return Ok(());
        }
        let longest = match cluster.options.mode {
            Mode::Virtual | Mode::RealTime => SPINNING_TIME,
            Mode::Programs(_) => COMPUTING_TIME,
        };
        let mut pulse = self.pulse();
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
            } else if beat.saturating_sub(since) >= longest {
                let waited = HumanDuration(longest);
                if cluster.programs.is_some() {
                    return Err(TestbedError::Computing { waited });
                }
                let under_test = cluster.options.under_test.iter();
                return Err(TestbedError::Spinning {
                    waited,
                    under_test: under_test.map(|controller| controller.user_agent).collect(),
                });
            }
        }
    }
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::PostParams;
    use kubeproof_machinery::json::json;
    use kubeproof_runtime::decode::from_value;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_thread_beats_while_processes_may_branch_off() {
        let testbed = Testbed::builder().start().await.unwrap();
        assert!(testbed.pulse().beats());
        let plan = "refuse create configmaps default/a from test";
        testbed.branch(&[plan.parse().unwrap()], |_| true);
        assert!(!testbed.pulse().beats());
        testbed.settle(Duration::from_secs(60)).await.unwrap();
        let maps: Api<ConfigMap> = Api::default_namespaced(testbed.client());
        let map = from_value(json!({ "metadata": { "name": "a" } })).unwrap();
        // The process is a branch from here on.
        let params = PostParams::default();
        let refused = maps.create(&params, &map);
        let refused = tokio::time::timeout(Duration::from_secs(60), refused).await;
        assert!(refused.unwrap().is_err());
        assert!(testbed.pulse().beats());
    }
}
