//! A rate-limited work queue, as client-go's: a key waits at most once and is never worked on twice
//! at the same time.
//!
//! kube's `Controller` schedules through hash sets, whose order changes from run to run; this queue
//! is first come, first served.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::clock;

/// The retry delays of a failed key.
#[derive(Clone, Copy, Debug)]
pub struct RetryDelays {
    /// After the first failure; it doubles with each further one.
    pub first: Duration,
    /// No delay is longer.
    pub longest: Duration,
}

impl RetryDelays {
    /// The delays of most controllers.
    ///
    /// Source: client-go, `DefaultTypedControllerRateLimiter`.
    pub const DEFAULT: Self = Self {
        first: Duration::from_millis(5),
        longest: Duration::from_secs(1000),
    };

    /// The delay after a failure that follows `before` others.
    #[must_use]
    pub fn after(self, before: u32) -> Duration {
        let delay = 2u32
            .checked_pow(before)
            .and_then(|times| self.first.checked_mul(times));
        delay.map_or(self.longest, |delay| delay.min(self.longest))
    }
}

/// Failures of all keys together are retried at most this often, ...
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// ... after so many that are not held back.
const RETRY_BURST: u32 = 100;

/// Keys to be synced.
pub struct WorkQueue<K> {
    state: Mutex<State<K>>,
    /// A key became ready.
    ready: Notify,
    /// The earliest timer changed.
    timers: Notify,
}

struct State<K> {
    ready: VecDeque<K>,
    /// In `ready`, or added again while in `processing`.
    dirty: BTreeSet<K>,
    processing: BTreeSet<K>,
    delays: RetryDelays,
    failures: BTreeMap<K, u32>,
    delayed: BTreeMap<K, Instant>,
    /// The time of the next retry if all were spread evenly.
    next_retry: Option<Instant>,
}

impl<K: Clone + Ord> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Clone + Ord> WorkQueue<K> {
    /// An empty queue with client-go's usual delays for failed keys.
    pub fn new() -> Self {
        Self::retrying(RetryDelays::DEFAULT)
    }

    /// A queue whose keys wait for other delays when they fail.
    pub fn retrying(delays: RetryDelays) -> Self {
        Self {
            state: Mutex::new(State::new(delays)),
            ready: Notify::new(),
            timers: Notify::new(),
        }
    }

    /// Adds `key` unless it waits already.
    pub fn add(&self, key: K) {
        if self.state.lock().add(key) {
            self.ready.notify_one();
        }
    }

    /// Adds `key` after `delay`; of two timers for a key the earlier one holds.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        let due = clock::after(delay);
        let mut state = self.state.lock();
        let held = state.delayed.entry(key).or_insert(due);
        *held = due.min(*held);
        drop(state);
        self.timers.notify_one();
    }

    /// Adds `key` after a delay that grows with its failures in a row.
    pub fn add_rate_limited(&self, key: K) {
        let delay = self.state.lock().failed(&key, clock::after(Duration::ZERO));
        self.add_after(key, delay);
    }

    /// The failures of `key` in a row.
    pub fn num_requeues(&self, key: &K) -> u32 {
        let state = self.state.lock();
        state.failures.get(key).copied().unwrap_or_default()
    }

    /// Forgets the failures of `key`.
    pub fn forget(&self, key: &K) {
        self.state.lock().failures.remove(key);
    }

    /// Waits for the next key, which the caller hands back with [`WorkQueue::done`].
    pub async fn get(&self) -> K {
        loop {
            if let Some(key) = self.state.lock().take() {
                return key;
            }
            self.ready.notified().await;
        }
    }

    /// Ends the work on `key`; it is ready again if it was added meanwhile.
    pub fn done(&self, key: &K) {
        if self.state.lock().done(key) {
            self.ready.notify_one();
        }
    }

    /// Moves delayed keys when they are due. Never returns.
    pub async fn run_timers(&self) {
        loop {
            let next = self.state.lock().delayed.values().min().copied();
            let Some(next) = next else {
                self.timers.notified().await;
                continue;
            };
            tokio::select! {
                biased;
                () = sleep_until(next) => self.add_due(next),
                () = self.timers.notified() => {}
            }
        }
    }

    fn add_due(&self, now: Instant) {
        let added = self.state.lock().add_due(now);
        for _ in 0..added {
            self.ready.notify_one();
        }
    }
}

impl<K: Clone + Ord> State<K> {
    fn new(delays: RetryDelays) -> Self {
        Self {
            ready: VecDeque::new(),
            dirty: BTreeSet::new(),
            processing: BTreeSet::new(),
            delays,
            failures: BTreeMap::new(),
            delayed: BTreeMap::new(),
            next_retry: None,
        }
    }

    /// Returns whether a key became ready.
    fn add(&mut self, key: K) -> bool {
        if !self.dirty.insert(key.clone()) || self.processing.contains(&key) {
            return false;
        }
        self.ready.push_back(key);
        true
    }

    fn take(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        self.dirty.remove(&key);
        self.processing.insert(key.clone());
        Some(key)
    }

    fn done(&mut self, key: &K) -> bool {
        self.processing.remove(key);
        let again = self.dirty.contains(key);
        if again {
            self.ready.push_back(key.clone());
        }
        again
    }

    /// Counts a failure and returns the delay it earns, for the key's sake or for all keys'.
    fn failed(&mut self, key: &K, now: Instant) -> Duration {
        let failures = self.failures.entry(key.clone()).or_default();
        let backoff = self.delays.after(*failures);
        *failures = failures.saturating_add(1);

        let retry = self.next_retry.map_or(now, |next| next.max(now));
        self.next_retry = Some(retry + RETRY_INTERVAL);
        let tolerated = now + RETRY_INTERVAL * (RETRY_BURST - 1);
        backoff.max(retry.saturating_duration_since(tolerated))
    }

    fn add_due(&mut self, now: Instant) -> usize {
        let due: Vec<K> = self
            .delayed
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(key, _)| key.clone())
            .collect();
        let mut added = 0;
        for key in due {
            self.delayed.remove(&key);
            added += usize::from(self.add(key));
        }
        added
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_added_while_processed_waits_for_its_turn() {
        let mut state = State::new(RetryDelays::DEFAULT);
        assert!(state.add("a") && state.add("b"));
        assert!(!state.add("a"), "already waits");
        assert_eq!(state.take(), Some("a"));
        assert!(!state.add("a"), "is being processed");
        assert_eq!(state.take(), Some("b"));
        assert_eq!(state.take(), None);
        assert!(state.done(&"a"));
        assert!(!state.done(&"b"));
        assert_eq!(state.take(), Some("a"));
    }

    #[test]
    fn failures_back_off_from_5_ms_to_1000_s_until_forgotten() {
        let mut state = State::new(RetryDelays::DEFAULT);
        let now = clock::after(Duration::ZERO);
        let delays: Vec<u128> = (0..4)
            .map(|_| state.failed(&"a", now).as_millis())
            .collect();
        assert_eq!(delays, [5, 10, 20, 40]);
        let last = (0..60).map(|_| state.failed(&"a", now)).last();
        assert_eq!(last, Some(RetryDelays::DEFAULT.longest));
        state.failures.remove("a");
        assert_eq!(state.failed(&"a", now), RetryDelays::DEFAULT.first);
    }

    #[test]
    fn failures_of_many_keys_are_retried_ten_a_second_after_a_burst_of_100() {
        let mut state = State::new(RetryDelays::DEFAULT);
        let now = clock::after(Duration::ZERO);
        let delays: Vec<u128> = (0..102)
            .map(|key| state.failed(&key, now).as_millis())
            .collect();
        assert!(delays[..100].iter().all(|delay| *delay == 5));
        assert_eq!(delays[100..], [100, 200]);
        let later = now + Duration::from_secs(60);
        assert_eq!(state.failed(&1000, later), RetryDelays::DEFAULT.first);
    }

    #[test]
    fn failures_in_a_row_are_counted_until_they_are_forgotten() {
        let queue = WorkQueue::new();
        assert_eq!(queue.num_requeues(&"a"), 0);
        queue.add_rate_limited("a");
        queue.add_rate_limited("a");
        assert_eq!((queue.num_requeues(&"a"), queue.num_requeues(&"b")), (2, 0));
        queue.forget(&"a");
        assert_eq!(queue.num_requeues(&"a"), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_of_two_timers_holds() {
        let queue = WorkQueue::new();
        queue.add_after("a", Duration::from_secs(10));
        queue.add_after("a", Duration::from_secs(5));
        queue.add_after("a", Duration::from_secs(7));
        let begun = clock::after(Duration::ZERO);
        tokio::select! {
            biased;
            () = queue.run_timers() => {}
            key = queue.get() => assert_eq!(key, "a"),
        }
        assert_eq!(begun.elapsed().as_secs(), 5);
        assert!(queue.state.lock().delayed.is_empty());
    }
}
