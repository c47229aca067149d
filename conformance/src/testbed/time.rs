//! Tokio's time: whether it is paused, and whether it stands still.

use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

use super::TestbedError;

/// Time that is not paused passes while its clock is read so often.
const READS: usize = 1_000;

/// The time between two beats.
const BEAT: Duration = Duration::from_millis(500);

/// Checks that the call is within a runtime, which tasks and timers need.
///
/// # Errors
/// [`TestbedError::NoRuntime`]
pub(super) fn check_runtime() -> Result<(), TestbedError> {
    let runtime = Handle::try_current();
    runtime.map(|_| ()).map_err(|_| TestbedError::NoRuntime)
}

/// Checks it for functions that return no error.
///
/// # Panics
/// Outside of a runtime.
pub(super) fn assert_runtime() {
    if let Err(error) = check_runtime() {
        panic!("{error}");
    }
}

/// Whether tokio's time is paused.
pub(super) fn is_paused() -> bool {
    let began = Instant::now();
    (0..READS).all(|_| Instant::now() == began)
}

/// Beats in real time, also while virtual time stands still. Waiting for it keeps no virtual time
/// from passing: it is no task of the runtime. The default one never beats.
#[derive(Default)]
pub(super) struct Pulse(Option<Beating>);

/// A thread that beats.
struct Beating {
    beats: watch::Receiver<u32>,
    /// Dropped with this value, which ends the thread.
    _held: mpsc::Sender<()>,
}

impl Pulse {
    pub(super) fn start() -> Self {
        let (held, ended) = mpsc::channel::<()>();
        let (beat, beats) = watch::channel(0);
        std::thread::spawn(move || {
            while ended.recv_timeout(BEAT) == Err(mpsc::RecvTimeoutError::Timeout) {
                beat.send_modify(|count| *count += 1);
            }
        });
        Self(Some(Beating { beats, _held: held }))
    }

    #[cfg(all(test, feature = "cli"))]
    pub(super) fn beats(&self) -> bool {
        self.0.is_some()
    }

    /// Completes with the next beat; returns the time since the first in real time.
    pub(super) async fn beat(&mut self) -> Duration {
        let Some(Beating { beats, .. }) = &mut self.0 else {
            return std::future::pending().await;
        };
        // The thread sends until this value is dropped.
        let _ = beats.changed().await;
        BEAT * *beats.borrow_and_update()
    }
}
