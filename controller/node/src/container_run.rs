//! The runs of one container, and the time of the next one.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kubeproof_machinery::json::SmolStr;

use super::container_spec::ContainerSpec;
use super::pace::after;
use super::restart_policy::Exit;
use super::small_map::SmallMap;
use super::start_error;

/// The containers of a pod that have been started, by name.
pub(super) type ContainerRuns = SmallMap<ContainerRun>;

/// The latest run of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContainerRun {
    pub(super) image: SmolStr,
    pub(super) restarts: i32,
    pub(super) since: Timestamp,
    /// The exit of the run, once it has ended.
    pub(super) exit: Option<Exit>,
    /// The runtime's error if it could not start the container, which ends the run.
    pub(super) start_error: Option<Arc<str>>,
    /// The previous run.
    pub(super) last: Option<Box<Ended>>,
    pub(super) back_off: Option<Box<BackOff>>,
    /// The result of the readiness probe. Without a probe, a container is ready once it has
    /// started.
    pub(super) probed: Option<bool>,
    /// Whether the startup probe has succeeded. Without a probe, a container has started at once.
    pub(super) startup: Option<bool>,
    /// Whether the kubelet has learned from the runtime that the container runs.
    pub(super) noticed: bool,
    /// Whether the `postStart` hook has not ended; the container is not reported as running until then.
    pub(super) in_post_start: bool,
    /// The `preStop` hook, once the container is to stop.
    pub(super) pre_stop: Option<Hook>,
    /// The kubelet's order to stop the container.
    pub(super) stopping: Option<Box<Stopping>>,
    /// Whether the container was sent SIGTERM.
    pub(super) signaled: bool,
    /// Whether the container stops for good because its pod ends.
    pub(super) dismissed: bool,
}

/// An order to a container to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stopping {
    pub(super) since: Timestamp,
    pub(super) grace: Duration,
    /// Whether another program gave the order, so that the kubelet sees the container exit by
    /// itself.
    pub(super) is_foreign: bool,
}

/// The progress of a lifecycle hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hook {
    Running,
    Done(Timestamp),
}

/// A run that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) since: Timestamp,
    pub(super) exit: Exit,
    /// The runtime's error if the run was never started.
    pub(super) start_error: Option<Arc<str>>,
}

/// The back-off of a container that ends repeatedly, and its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BackOff {
    pub(super) wait: Duration,
    since: Timestamp,
}

/// The wait after the second end; each further end doubles it.
const BACK_OFF_MIN: Duration = Duration::from_secs(10);
/// The maximum wait.
const BACK_OFF_MAX: Duration = Duration::from_secs(300);
/// The duration of a run after which the back-off is reset.
const BACK_OFF_RESET: Duration = Duration::from_secs(600);

impl ContainerRun {
    /// Returns the first run of a container.
    pub(super) fn first(container_spec: &ContainerSpec, now: Timestamp) -> Self {
        Self {
            image: container_spec.image.as_str().into(),
            restarts: 0,
            since: now,
            exit: None,
            start_error: None,
            last: None,
            back_off: None,
            probed: container_spec.has_readiness_probe.then_some(false),
            startup: container_spec.has_startup_probe.then_some(false),
            noticed: true,
            in_post_start: container_spec.has_post_start,
            pre_stop: None,
            stopping: None,
            signaled: false,
            dismissed: false,
        }
    }

    /// Returns whether the container runs and its startup is complete.
    pub(super) fn is_started(&self) -> bool {
        self.is_reported() && self.exit.is_none() && self.startup != Some(false)
    }

    /// Returns whether the kubelet can report that the container runs, or its exit.
    pub(super) fn is_reported(&self) -> bool {
        self.exit.is_some() || self.noticed && !self.in_post_start
    }

    /// Returns whether another program than the kubelet stops the container.
    pub(super) fn is_stopped_by_another(&self) -> bool {
        let stopping = self.stopping.as_ref();
        stopping.is_some_and(|order| order.is_foreign)
    }

    /// Records that the kubelet has killed the container, unless it has ended before.
    pub(super) fn halt(&mut self, code: i32, now: Timestamp) {
        self.exit.get_or_insert(Exit {
            code,
            at: now,
            killed: true,
        });
    }

    /// Records that the runtime could not start the container.
    pub(super) fn fail_to_start(&mut self, message: Arc<str>, now: Timestamp) {
        self.start_error = Some(message);
        self.exit = Some(Exit {
            code: start_error::EXIT_CODE,
            at: now,
            killed: false,
        });
    }

    /// Begins the next run, after an exit of the container or a kill by the kubelet.
    pub(super) fn restart(&mut self, container_spec: &ContainerSpec, now: Timestamp) {
        self.back_off = self.exit.map(|exit| {
            // A new image makes a new container, which has no failures yet.
            let lasting = self.back_off.as_ref().filter(|own| {
                self.image == container_spec.image && exit.at <= after(own.since, BACK_OFF_RESET)
            });
            let wait = match lasting {
                Some(own) => own.wait.saturating_mul(2).min(BACK_OFF_MAX),
                None => BACK_OFF_MIN,
            };
            Box::new(BackOff { wait, since: now })
        });
        self.last = Some(Box::new(Ended {
            since: self.since,
            exit: self.exit.take().unwrap_or(Exit {
                code: 0,
                at: now,
                killed: true,
            }),
            start_error: self.start_error.take(),
        }));
        *self = Self {
            restarts: self.restarts + 1,
            last: self.last.take(),
            back_off: self.back_off.take(),
            ..Self::first(container_spec, now)
        };
    }

    /// Returns how long the next run has to wait after `exit`.
    pub(super) fn waits(&self, exit: Exit) -> Option<Duration> {
        let back_off = self.back_off.as_ref()?;
        // A container that the kubelet has killed starts at once, unless the back-off of the run
        // before is not over yet.
        let served = exit.killed
            && self
                .last
                .as_ref()
                .is_some_and(|last| exit.at >= after(last.exit.at, back_off.wait));
        let lasts = exit.at <= after(back_off.since, BACK_OFF_RESET);
        (lasts && !served).then_some(back_off.wait)
    }
}

/// The reason why a container does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// The main process has ended.
    Terminated,
    /// The runtime could not start the container, and is about to retry.
    Unstarted,
    /// The container has ended repeatedly and is in back-off.
    BackOff(Duration),
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;
    use kubeproof_runtime::decode::from_value;

    use super::*;

    #[test]
    fn a_run_is_small() {
        let size = size_of::<ContainerRun>();
        assert!(size <= 144, "{size}");
    }

    #[test]
    fn back_off_grows_from_end_to_end_and_starts_over_with_another_image() {
        let container_spec = |image: &str| {
            let spec = json!({ "containers": [{ "name": "main", "image": image }] });
            ContainerSpec::all(&from_value(spec).unwrap()).remove(0)
        };
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut container_run = ContainerRun::first(&container_spec("v1"), at(0));
        let mut waits = Vec::new();
        for (second, image) in [(1, "v1"), (20, "v1"), (50, "v2"), (70, "v2")] {
            container_run.exit = Some(Exit {
                code: 1,
                at: at(second),
                killed: false,
            });
            container_run.restart(&container_spec(image), at(second));
            let back_off = container_run.back_off.as_ref();
            waits.extend(back_off.map(|own| own.wait.as_secs()));
        }
        assert_eq!(waits, [10, 20, 10, 20]);
    }
}
