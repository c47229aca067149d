//! How fast virtual time passes at most.

use std::sync::{Arc, Weak};
use std::time::Duration;

use kubeproof_apiserver::clock::Advance;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Shared;

/// How far virtual time falls behind real time before it passes, and the pause between two looks at real time. Each step looks at every
/// thread, so smaller steps would keep a processor busy while nothing happens.
pub(super) const PERIOD: Duration = Duration::from_millis(20);

/// How fast virtual time passes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As soon as everything waits for it.
    Unlimited,
    /// No faster than real time, unless the clock is asked to advance. It is up to 40 ms behind, falls further behind while programs
    /// compute, and catches up when they wait.
    Real,
}

/// Real time, and the requests to go ahead of it.
pub(super) struct RealPace {
    /// Moments of virtual and of real time that are the same.
    virtual_then: Instant,
    real_then: std::time::Instant,
    /// Moments that virtual time is asked to reach at once, each with its asker.
    asked: Vec<(Instant, oneshot::Sender<()>)>,
}

impl RealPace {
    /// Begins at this moment of virtual time.
    pub(super) fn begin(now: Instant) -> Self {
        Self {
            virtual_then: now,
            real_then: std::time::Instant::now(),
            asked: Vec::new(),
        }
    }

    /// Asks for `time` to pass from `now` on. The result completes when everything waits after it.
    fn ask(&mut self, now: Instant, time: Duration) -> oneshot::Receiver<()> {
        let (asker, reached) = oneshot::channel();
        // A moment that cannot be told never comes; the asker learns that at once.
        if let Some(moment) = now.checked_add(time) {
            self.asked.push((moment, asker));
        }
        reached
    }

    /// Everything waits, `now`: tells the askers of this moment. Returns the moment up to which time may pass; `None` while it may
    /// not.
    pub(super) fn reached(&mut self, now: Instant) -> Option<Instant> {
        let was_asked = !self.asked.is_empty();
        for (_, asker) in self.asked.extract_if(.., |(moment, _)| *moment <= now) {
            // The client may have gone away.
            let _ = asker.send(());
        }
        // Clients that have gone away wait for nothing.
        self.asked.retain(|(_, asker)| !asker.is_closed());
        let moments = self.asked.iter().map(|(moment, _)| *moment);
        if let Some(next) = moments.min() {
            return Some(next);
        }
        if was_asked {
            // Real time that has passed meanwhile does not count.
            *self = Self::begin(now);
            return None;
        }
        self.limit(now, self.real_then.elapsed())
    }

    /// The moment up to which time may pass, once real time has passed for `elapsed`; `None` if that is too close to `now`.
    fn limit(&self, now: Instant, elapsed: Duration) -> Option<Instant> {
        let limit = self.virtual_then.checked_add(elapsed);
        limit.filter(|limit| limit.duration_since(now) >= PERIOD)
    }
}

/// What lets a clock advance whose time this is.
pub(super) fn advance(shared: &Arc<Shared>) -> Advance {
    let shared: Weak<Shared> = Arc::downgrade(shared);
    Advance::new(move |time| {
        let reached = shared.upgrade().and_then(|shared| {
            let pace = shared.pace.as_ref()?;
            let reached = pace.lock().ask(Instant::now(), time);
            shared.again.notify_one();
            Some(reached)
        });
        async move {
            if let Some(reached) = reached {
                // Without a sender, the server is about to end.
                let _ = reached.await;
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn time_goes_ahead_of_real_time_up_to_the_next_moment_asked_for() {
        let start = Instant::now();
        let mut pace = RealPace::begin(start);
        let mut later = pace.ask(start, 2 * HOUR);
        let mut sooner = pace.ask(start, HOUR);
        assert_eq!(pace.reached(start), Some(start + HOUR));
        assert!(sooner.try_recv().is_err());
        assert_eq!(pace.reached(start + HOUR), Some(start + 2 * HOUR));
        assert_eq!(sooner.try_recv(), Ok(()));
        assert!(later.try_recv().is_err());
        assert_eq!(pace.reached(start + 2 * HOUR), None, "it is reached");
        assert_eq!(later.try_recv(), Ok(()));
        // From here on it passes as real time does.
        let now = start + 2 * HOUR;
        assert_eq!(pace.limit(now, PERIOD), Some(now + PERIOD));
    }

    #[test]
    fn time_passes_in_steps_of_a_period_or_more() {
        let start = Instant::now();
        let pace = RealPace::begin(start);
        let now = start + HOUR;
        assert_eq!(pace.limit(now, HOUR + PERIOD / 2), None);
        assert_eq!(pace.limit(now, HOUR + PERIOD), Some(now + PERIOD));
        assert_eq!(pace.limit(now, HOUR / 2), None, "it was asked to go ahead");
    }

    #[test]
    fn a_client_that_has_gone_away_lets_no_time_pass() {
        let start = Instant::now();
        let mut pace = RealPace::begin(start);
        drop(pace.ask(start, HOUR));
        assert_eq!(pace.reached(start), None);
    }
}
