//! Containers that could not be created: the cause, and the time of the next try.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container as Spec;

use super::environment::Missing;
use super::image::Image;
use super::missing_images::MissingImages;
use super::pace::after;

/// The wait after a failed sync of a pod.
const SYNC_BACK_OFF: Duration = Duration::from_secs(10);
/// The delay until the kubelet notices the pod's sandbox, which the first sync has created.
const RELIST: Duration = Duration::from_secs(1);
/// The wait after the first failed pull of an image; each further failure doubles it.
const PULL_BACK_OFF_MIN: Duration = Duration::from_secs(10);
/// The maximum wait between pulls.
const PULL_BACK_OFF_MAX: Duration = Duration::from_secs(300);

/// The cause why a container can't be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// An object or key that the container's environment refers to is missing.
    Config(Missing),
    /// The image can't be pulled; the container runtime's message.
    Pull(String),
    /// The image is not on the node, and the pull policy is `Never`.
    NeverPull,
    /// The image's name is not valid.
    ImageName(String),
}

/// A container that could not be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    image: String,
    pub(super) cause: Cause,
    /// The time of the last try.
    since: Timestamp,
    /// The number of consecutive failures.
    attempts: u32,
    /// Whether the next try is due without a wait.
    is_due: bool,
}

/// The reason and message of a waiting container's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Cause {
    /// Returns the cause why the node can't get a container's image; `None` if it can.
    pub(super) fn of_image(spec: &Spec, missing: &MissingImages) -> Option<Self> {
        let text = spec.image.as_deref().unwrap_or_default();
        let image = match Image::parse(text) {
            Ok(image) => image,
            Err(message) => return Some(Self::ImageName(message)),
        };
        let error = image.pull_error(text, missing)?;
        Some(match spec.image_pull_policy.as_deref() {
            Some("Never") => Self::NeverPull,
            _ => Self::Pull(error),
        })
    }

    /// Returns the reason and message of the status, which the event shares.
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
    /// Records a failure to create the container from `image`, after the earlier one `before`.
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

    /// Returns when the container is tried again; `None` for at once, as with another image than
    /// before.
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

    /// Ends the wait, because the kubelet syncs the pod. A failed pull keeps its own back-off.
    pub(super) fn look_again(&mut self) {
        self.is_due |= !matches!(self.cause, Cause::Pull(_));
    }

    /// Returns when the kubelet syncs again and finds that it is too early for another pull.
    pub(super) fn looked_at(&self) -> Option<Timestamp> {
        let wait = if self.attempts == 1 {
            RELIST
        } else {
            SYNC_BACK_OFF
        };
        matches!(self.cause, Cause::Pull(_)).then(|| after(self.since, wait))
    }

    /// Returns the reason and message of the status at `now`.
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
    /// Returns whether the kubelet waits before the next pull.
    pub(super) fn is_back_off(&self) -> bool {
        self.reason == "ImagePullBackOff"
    }
}
