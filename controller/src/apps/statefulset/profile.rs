//! The changes of the controller between versions of Kubernetes, as far as they can be observed.
//!
//! The decisions that all versions share are elsewhere; this module has the differences. Omitted
//! are differences that show in no object: the number of workers, and the resync every 30 seconds.

use std::str::FromStr;

/// The version of Kubernetes that the controller behaves as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// Before the two revisions were counted independently.
    V1_9,
    /// Before availability, retention of claims and ordinals.
    V1_16,
    /// The present one.
    #[default]
    V1_36,
}

impl Profile {
    /// Whether a pod at a revision that is both current and update is counted as both.
    pub(super) fn counts_both(self) -> bool {
        self > Self::V1_9
    }

    /// Whether the controller is one of before 1.22, which knew neither availability nor the fate
    /// of claims, and trusted its caches.
    pub(super) fn is_old(self) -> bool {
        self < Self::V1_36
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "1.9" => Ok(Self::V1_9),
            "1.16" => Ok(Self::V1_16),
            "1.36" => Ok(Self::V1_36),
            _ => Err(format!(
                "there is no profile {text:?}; there are 1.9, 1.16 and 1.36"
            )),
        }
    }
}

impl std::fmt::Display for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V1_9 => "1.9",
            Self::V1_16 => "1.16",
            Self::V1_36 => "1.36",
        })
    }
}

/// How the controller is set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The version it behaves as.
    pub profile: Profile,
    /// The gate `MaxUnavailableStatefulSet`: rollouts may take several pods down at once.
    pub max_unavailable: bool,
}
