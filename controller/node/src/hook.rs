//! Lifecycle hooks of a container.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container as Spec, LifecycleHandler};

use super::containers::Run;
use super::server::Answer;

/// The kind of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookKind {
    PostStart,
    PreStop,
}

impl HookKind {
    /// Returns the reason and the message of the event for a failed hook.
    pub(super) fn failure(self) -> (&'static str, &'static str) {
        match self {
            Self::PostStart => ("FailedPostStartHook", "PostStartHook failed"),
            Self::PreStop => ("FailedPreStopHook", "PreStopHook failed"),
        }
    }

    /// Returns the handler in `spec`, if set.
    pub(super) fn handler(self, spec: &Spec) -> Option<LifecycleHandler> {
        let lifecycle = spec.lifecycle.as_ref()?;
        match self {
            Self::PostStart => lifecycle.post_start.clone(),
            Self::PreStop => lifecycle.pre_stop.clone(),
        }
    }
}

/// Runs a handler to its end. Returns whether it has succeeded.
pub(super) async fn run(handler: LifecycleHandler, run: Arc<Run>) -> bool {
    let container = &run.container;
    if let Some(exec) = handler.exec {
        let (code, _) = container.collect(exec.command.unwrap_or_default()).await;
        return code == 0;
    }
    if let Some(sleep) = handler.sleep {
        let seconds = u64::try_from(sleep.seconds).unwrap_or(0);
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        return true;
    }
    if let Some(get) = handler.http_get {
        return matches!(run.server().get(&get, container), Answer::Status(..400));
    }
    // `tcpSocket` is in the API for compatibility only; it has no effect here.
    true
}
