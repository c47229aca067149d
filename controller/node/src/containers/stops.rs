//! The runs of containers that other programs than the kubelet have stopped.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::RunId;

/// The stopped runs that no kubelet has noticed yet.
#[derive(Default)]
pub(super) struct Stops {
    /// With the grace period, if it is not the pod's.
    runs: Mutex<BTreeMap<RunId, Option<Duration>>>,
    added: Notify,
}

impl Stops {
    /// Adds a run, or replaces its grace period.
    pub(super) fn add(&self, run: RunId, grace: Option<Duration>) {
        self.runs.lock().insert(run, grace);
        self.added.notify_waiters();
    }

    /// Waits for the next run that is the caller's, and takes it.
    ///
    /// Cancel safety: the run is taken only by the poll that returns it.
    pub(super) async fn next(&self, is_own: impl Fn(&RunId) -> bool) -> (RunId, Option<Duration>) {
        loop {
            let mut added = pin!(self.added.notified());
            // A run that is added from here on is not missed.
            added.as_mut().enable();
            if let Some(run) = self.take(&is_own) {
                return run;
            }
            added.await;
        }
    }

    fn take(&self, is_own: impl Fn(&RunId) -> bool) -> Option<(RunId, Option<Duration>)> {
        let mut runs = self.runs.lock();
        runs.extract_if(.., |run, _| is_own(run)).next()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn run(container: &str) -> RunId {
        RunId {
            uid: "uid".to_owned(),
            container: container.to_owned(),
            restarts: 0,
        }
    }

    #[tokio::test]
    async fn each_run_goes_to_the_one_whose_it_is() {
        let stops = Stops::default();
        let next = |own: &'static str| stops.next(move |run| run.container == own);
        let mut other = pin!(next("b"));
        assert_eq!((&mut other).now_or_never(), None);
        stops.add(run("a"), None);
        stops.add(run("b"), Some(Duration::from_secs(1)));
        stops.add(run("b"), Some(Duration::from_secs(2)));
        assert_eq!(other.await, (run("b"), Some(Duration::from_secs(2))));
        assert_eq!(next("b").now_or_never(), None);
        assert_eq!(next("a").now_or_never(), Some((run("a"), None)));
        assert_eq!(next("a").now_or_never(), None);
    }
}
