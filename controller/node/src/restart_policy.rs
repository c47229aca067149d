//! The exits of containers, and those that are followed by another run.

use jiff::Timestamp;

/// The exit of a main process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) code: i32,
    pub(super) at: Timestamp,
    /// Whether the kubelet has killed the process.
    pub(super) killed: bool,
}

/// The exits of a container that are followed by another run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

impl RestartPolicy {
    /// Parses a pod's `restartPolicy`.
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
