//! The runs of one container, and when the next one begins.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::lifecycle::after;
use super::part::Part;
use super::start_error;

/// The latest run of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instance {
    pub(super) image: String,
    pub(super) restarts: i32,
    pub(super) since: Timestamp,
    /// How it ended, once it has.
    pub(super) exit: Option<Exit>,
    /// Why the runtime could not start it, which ended it.
    pub(super) start_error: Option<Arc<str>>,
    /// The run before.
    pub(super) last: Option<Ended>,
    pub(super) back_off: Option<BackOff>,
    /// What its readiness probe says; a container without one is ready as soon as it has started.
    pub(super) probed: Option<bool>,
    /// Whether its startup probe has succeeded; a container without one starts at once.
    pub(super) startup: Option<bool>,
    /// The kubelet has heard from the runtime that it runs.
    pub(super) noticed: bool,
    /// Its hook postStart, which holds back the report that it runs.
    pub(super) post_start: Option<Hook>,
    /// Its hook preStop, once the container is to stop.
    pub(super) pre_stop: Option<Hook>,
    /// The kubelet is stopping it.
    pub(super) stopping: Option<Stopping>,
    /// It was sent SIGTERM.
    pub(super) signaled: bool,
    /// It is stopping for good, as its pod ends.
    pub(super) dismissed: bool,
}

/// An order to a container to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stopping {
    pub(super) since: Timestamp,
    pub(super) grace: Duration,
    /// Somebody beside the kubelet gave it, who takes the end for the container's own.
    pub(super) is_foreign: bool,
}

/// How far a lifecycle hook has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hook {
    Running,
    Done(Timestamp),
}

/// The end of a main process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) code: i32,
    pub(super) at: Timestamp,
    /// The kubelet has brought it about.
    pub(super) killed: bool,
}

/// A run that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) since: Timestamp,
    pub(super) exit: Exit,
    /// Why it was never started.
    pub(super) start_error: Option<Arc<str>>,
}

/// How long a container has to wait that ends again, and since when that is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BackOff {
    pub(super) wait: Duration,
    since: Timestamp,
}

/// The wait after the second end; doubled by each further one.
const BACK_OFF_MIN: Duration = Duration::from_secs(10);
/// No wait is longer.
const BACK_OFF_MAX: Duration = Duration::from_secs(300);
/// Who ran for so long starts over.
const BACK_OFF_RESET: Duration = Duration::from_secs(600);

impl Instance {
    /// The first run of a container.
    pub(super) fn first(part: &Part, now: Timestamp) -> Self {
        Self {
            image: part.image.clone(),
            restarts: 0,
            since: now,
            exit: None,
            start_error: None,
            last: None,
            back_off: None,
            probed: part.has_readiness_probe.then_some(false),
            startup: part.has_startup_probe.then_some(false),
            noticed: true,
            post_start: part.has_post_start.then_some(Hook::Running),
            pre_stop: None,
            stopping: None,
            signaled: false,
            dismissed: false,
        }
    }

    /// It runs, and whatever its start takes is over.
    pub(super) fn is_started(&self) -> bool {
        self.is_reported() && self.exit.is_none() && self.startup != Some(false)
    }

    /// Nothing keeps the kubelet from telling that it runs, or how it ended.
    pub(super) fn is_reported(&self) -> bool {
        self.exit.is_some() || self.noticed && self.post_start != Some(Hook::Running)
    }

    /// The kubelet has ended it, unless it has ended before.
    pub(super) fn halt(&mut self, code: i32, now: Timestamp) {
        self.exit.get_or_insert(Exit {
            code,
            at: now,
            killed: true,
        });
    }

    /// The runtime could not start it.
    pub(super) fn fail_to_start(&mut self, message: Arc<str>, now: Timestamp) {
        self.start_error = Some(message);
        self.exit = Some(Exit {
            code: start_error::EXIT_CODE,
            at: now,
            killed: false,
        });
    }

    /// Begins the next run: after an end of its own, or else of the kubelet's making.
    pub(super) fn restart(&mut self, part: &Part, now: Timestamp) {
        self.back_off = self.exit.map(|exit| {
            // Another image makes another container, which has not failed yet.
            let lasting = self.back_off.filter(|own| {
                self.image == part.image && exit.at <= after(own.since, BACK_OFF_RESET)
            });
            let wait = match lasting {
                Some(own) => own.wait.saturating_mul(2).min(BACK_OFF_MAX),
                None => BACK_OFF_MIN,
            };
            BackOff { wait, since: now }
        });
        self.last = Some(Ended {
            since: self.since,
            exit: self.exit.take().unwrap_or(Exit {
                code: 0,
                at: now,
                killed: true,
            }),
            start_error: self.start_error.take(),
        });
        *self = Self {
            restarts: self.restarts + 1,
            last: self.last.take(),
            back_off: self.back_off,
            ..Self::first(part, now)
        };
    }

    /// How long its next run has to wait after `exit`.
    pub(super) fn waits(&self, exit: Exit) -> Option<Duration> {
        let back_off = self.back_off?;
        // Whom the kubelet has ended itself it starts at once, unless the wait that the run before
        // has brought upon it is not over yet.
        let served = exit.killed
            && self
                .last
                .as_ref()
                .is_some_and(|last| exit.at >= after(last.exit.at, back_off.wait));
        let lasts = exit.at <= after(back_off.since, BACK_OFF_RESET);
        (lasts && !served).then_some(back_off.wait)
    }
}

/// Which ends of a container are followed by another run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

impl RestartPolicy {
    /// Reads a pod's `restartPolicy`.
    pub(super) fn of(text: Option<&str>) -> Self {
        match text {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            _ => Self::Always,
        }
    }

    pub(super) fn restarts(self, exit: Exit) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => exit.code != 0,
            Self::Never => false,
        }
    }
}

/// Why a container does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// Its process has ended.
    Terminated,
    /// The runtime could not start it, and is about to try again.
    Unstarted,
    /// It has ended so often that it must wait.
    BackOff(Duration),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn back_off_grows_from_end_to_end_and_starts_over_with_another_image() {
        let part = |image: &str| {
            let spec = json!({ "containers": [{ "name": "main", "image": image }] });
            Part::all(&serde_json::from_value(spec).unwrap()).remove(0)
        };
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut instance = Instance::first(&part("v1"), at(0));
        let mut waits = Vec::new();
        for (second, image) in [(1, "v1"), (20, "v1"), (50, "v2"), (70, "v2")] {
            instance.exit = Some(Exit {
                code: 1,
                at: at(second),
                killed: false,
            });
            instance.restart(&part(image), at(second));
            waits.extend(instance.back_off.map(|own| own.wait.as_secs()));
        }
        assert_eq!(waits, [10, 20, 10, 20]);
    }
}
