//! The runs of one container, and when the next one begins.

use std::time::Duration;

use jiff::Timestamp;

use super::lifecycle::after;

/// The latest run of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instance {
    pub(super) image: String,
    pub(super) restarts: i32,
    pub(super) since: Timestamp,
    /// How it ended, once it has.
    pub(super) exit: Option<Exit>,
    /// The run before.
    pub(super) last: Option<Ended>,
    pub(super) back_off: Option<BackOff>,
    /// What its readiness probe says; a container without one is ready as soon as it runs.
    pub(super) probed: Option<bool>,
}

/// The end of a main process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) code: i32,
    pub(super) at: Timestamp,
}

/// A run that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) since: Timestamp,
    pub(super) exit: Exit,
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
    pub(super) fn first(image: String, now: Timestamp) -> Self {
        Self {
            image,
            restarts: 0,
            since: now,
            exit: None,
            last: None,
            back_off: None,
            probed: None,
        }
    }

    /// Begins the next run: after an end of its own, or else of the kubelet's making.
    pub(super) fn restart(&mut self, image: &str, now: Timestamp) {
        self.back_off = self.exit.map(|exit| {
            let wait = match self.waits(exit) {
                Some(wait) => wait.saturating_mul(2).min(BACK_OFF_MAX),
                None => BACK_OFF_MIN,
            };
            BackOff { wait, since: now }
        });
        self.last = Some(Ended {
            since: self.since,
            exit: self.exit.take().unwrap_or(Exit { code: 0, at: now }),
        });
        image.clone_into(&mut self.image);
        self.restarts += 1;
        self.since = now;
        self.probed = self.probed.map(|_| false);
    }

    /// How long its next run has to wait after `exit`.
    pub(super) fn waits(&self, exit: Exit) -> Option<Duration> {
        let back_off = self.back_off?;
        (exit.at <= after(back_off.since, BACK_OFF_RESET)).then_some(back_off.wait)
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
    /// It has ended so often that it must wait.
    BackOff(Duration),
}
