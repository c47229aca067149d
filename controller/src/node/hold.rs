//! Containers that can't be made for now: why, and when the kubelet tries again.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container as Spec;

use super::environment::Missing;
use super::image::Image;
use super::lifecycle::after;

/// How long a kubelet leaves a pod alone whose sync has failed.
const SYNC_BACK_OFF: Duration = Duration::from_secs(10);
/// How soon it hears that the pod's sandbox runs, which the first sync has brought about.
const RELIST: Duration = Duration::from_secs(1);
/// The wait after the first failed pull of an image; doubled by each further one.
const PULL_BACK_OFF_MIN: Duration = Duration::from_secs(10);
/// No wait for a pull is longer.
const PULL_BACK_OFF_MAX: Duration = Duration::from_secs(300);

/// Why a container can't be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Something that its environment names is missing.
    Config(Missing),
    /// Its image can't be pulled, in the words of the container runtime.
    Pull(String),
    /// Its image is nowhere, and may not be pulled.
    NeverPull,
    /// Nothing can have the name that its image has.
    ImageName(String),
}

/// A container that could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    image: String,
    pub(super) cause: Cause,
    /// When that was tried last.
    since: Timestamp,
    /// How often in a row.
    attempts: u32,
    /// Nobody has to wait for the next try.
    is_due: bool,
}

/// What a container's status says that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Cause {
    /// Why the node does not get the image of a container, if it doesn't.
    pub(super) fn of_image(spec: &Spec) -> Option<Self> {
        let image = match Image::parse(spec.image.as_deref().unwrap_or_default()) {
            Ok(image) => image,
            Err(message) => return Some(Self::ImageName(message)),
        };
        let error = image.pull_error()?;
        Some(match spec.image_pull_policy.as_deref() {
            Some("Never") => Self::NeverPull,
            _ => Self::Pull(error),
        })
    }

    /// The words for it of a status, and of the event beside.
    pub(super) fn waiting(&self, image: &str) -> Waiting {
        let (reason, message) = match self {
            Self::Config(missing) => ("CreateContainerConfigError", missing.to_string()),
            Self::Pull(error) => ("ErrImagePull", error.clone()),
            Self::NeverPull => (
                "ErrImageNeverPull",
                format!("Container image \"{image}\" is not present with pull policy of Never"),
            ),
            Self::ImageName(error) => (
                "InvalidImageName",
                format!(
                    "Failed to apply default image tag \"{image}\": couldn't parse image name \"{image}\": {error}"
                ),
            ),
        };
        Waiting { reason, message }
    }
}

impl Hold {
    /// The container could not be made from `image`, after `before`.
    pub(super) fn new(before: Option<&Self>, image: &str, cause: Cause, now: Timestamp) -> Self {
        let attempts = before.filter(|own| own.image == image);
        Self {
            image: image.to_owned(),
            cause,
            since: now,
            attempts: attempts.map_or(1, |own| own.attempts + 1),
            is_due: false,
        }
    }

    /// When a container made from `image` is tried again; one from another image is at once.
    pub(super) fn until(&self, image: &str) -> Option<Timestamp> {
        if self.image != image || self.is_due {
            return None;
        }
        let doublings = self.attempts.saturating_sub(1).min(10);
        let wait = match self.cause {
            Cause::Pull(_) => PULL_BACK_OFF_MIN
                .saturating_mul(1 << doublings)
                .min(PULL_BACK_OFF_MAX),
            _ => SYNC_BACK_OFF,
        };
        Some(after(self.since, wait))
    }

    /// The kubelet syncs the pod, so that the wait is over; but a pull has one of its own.
    pub(super) fn look_again(&mut self) {
        self.is_due |= !matches!(self.cause, Cause::Pull(_));
    }

    /// When the kubelet comes back and sees that it is too early for another pull.
    pub(super) fn looked_at(&self) -> Option<Timestamp> {
        let wait = if self.attempts == 1 {
            RELIST
        } else {
            SYNC_BACK_OFF
        };
        matches!(self.cause, Cause::Pull(_)).then(|| after(self.since, wait))
    }

    /// What the status says at `now`.
    pub(super) fn waiting(&self, now: Timestamp) -> Waiting {
        let waiting = self.cause.waiting(&self.image);
        if self.looked_at().is_none_or(|at| now < at) {
            return waiting;
        }
        Waiting {
            reason: "ImagePullBackOff",
            message: format!(
                "Back-off pulling image \"{}\": {}: {}",
                self.image, waiting.reason, waiting.message
            ),
        }
    }

    pub(super) fn image(&self) -> &str {
        &self.image
    }
}

impl Waiting {
    /// The kubelet waits with the next pull.
    pub(super) fn is_back_off(&self) -> bool {
        self.reason == "ImagePullBackOff"
    }
}
