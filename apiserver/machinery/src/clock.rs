//! Time and randomness: the only module that reads a clock or draws a number.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The source of time: the machine's clock, or a fixed epoch plus tokio's virtual elapsed time.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
    /// By how many nanoseconds it was set forward; shared by all clones.
    ahead: Arc<AtomicI64>,
    /// What lets time pass on request; shared by all clones.
    advance: Arc<OnceLock<Advance>>,
}

/// Lets simulated time pass: the future completes when all that happens in this time has happened.
pub struct Advance(Box<AdvanceFn>);

type AdvanceFn = dyn Fn(Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

/// The time of the clock cannot be asked to pass: it passes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time of this server passes by itself")]
pub struct PassesByItself;

#[derive(Clone, Debug)]
enum Source {
    Real,
    Simulated {
        epoch: Timestamp,
        start: tokio::time::Instant,
        peers: Peers,
    },
}

/// The time of those at the other ends of connections, under simulated time.
#[derive(Clone, Copy, Debug)]
enum Peers {
    Real,
    Simulated,
}

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub fn real() -> Self {
        Self::of(Source::Real)
    }

    /// The machine's clock, set so that it is `time` now.
    #[must_use]
    pub fn real_from(time: Timestamp) -> Self {
        let clock = Self::real();
        clock.jump(time.duration_since(clock.now()));
        clock
    }

    /// `epoch` now, and tokio's time from here on.
    ///
    /// Under `tokio::time::pause` the server's timestamps and every tokio timer share one time.
    #[must_use]
    pub fn simulated(epoch: Timestamp) -> Self {
        Self::simulated_with(epoch, Peers::Real)
    }

    /// Like [`simulated`](Self::simulated), for a server whose peers live in the same time: it does not pass while they
    /// work.
    #[must_use]
    pub fn shared(epoch: Timestamp) -> Self {
        Self::simulated_with(epoch, Peers::Simulated)
    }

    fn simulated_with(epoch: Timestamp, peers: Peers) -> Self {
        Self::of(Source::Simulated {
            epoch,
            start: tokio::time::Instant::now(),
            peers,
        })
    }

    /// Returns a clock at the same time that is set independently of this clock.
    pub fn forked(&self) -> Self {
        Self {
            source: self.source.clone(),
            ahead: Arc::new(AtomicI64::new(self.ahead.load(Ordering::Acquire))),
            advance: Arc::clone(&self.advance),
        }
    }

    fn of(source: Source) -> Self {
        Self {
            source,
            ahead: Arc::default(),
            advance: Arc::default(),
        }
    }

    /// Whether the source is the machine's clock.
    pub fn is_real(&self) -> bool {
        matches!(self.source, Source::Real)
    }

    /// The present time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let now = match &self.source {
            #[expect(clippy::disallowed_methods, reason = "the one home of the wall clock")]
            Source::Real => Timestamp::try_from(std::time::SystemTime::now())
                .expect("the machine's clock is within jiff's range"),
            Source::Simulated { epoch, start, .. } => {
                let elapsed = SignedDuration::try_from(start.elapsed())
                    .expect("a run is shorter than the age of the universe");
                later(*epoch, elapsed)
            }
        };
        match self.ahead.load(Ordering::Acquire) {
            0 => now,
            ahead => later(now, SignedDuration::from_nanos(ahead)),
        }
    }

    /// Sets the clock forward by `time`, or back if `time` is negative, for all holders of the
    /// clock.
    pub fn jump(&self, time: SignedDuration) {
        let nanos = time.as_nanos();
        let nanos = i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX });
        let add = |ahead: i64| Some(ahead.saturating_add(nanos));
        let _ = self
            .ahead
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
    }
}

impl Clock {
    /// Lets `advance` answer requests for time to pass, for all holders of the clock. Only the first call has an effect.
    pub fn passes_with(&self, advance: Advance) {
        let _ = self.advance.set(advance);
    }

    /// Lets `time` pass at once, as simulated time, and waits until all that happens in it has happened.
    ///
    /// # Errors
    /// [`PassesByItself`] unless [`Self::passes_with`] was called.
    pub async fn advance(&self, time: Duration) -> Result<(), PassesByItself> {
        let Advance(advance) = self.advance.get().ok_or(PassesByItself)?;
        advance(time).await;
        Ok(())
    }

    /// Awaits `answer`, an operation on the network, for `limit` at most.
    ///
    /// The limit counts real seconds, under simulated time too unless that is [shared](Self::shared).
    /// Simulated time stands still while a thread is blocked, so by simulated time the operation would
    /// take either no time or the whole limit.
    pub async fn on_the_wire<T>(
        &self,
        limit: Duration,
        answer: impl Future<Output = T>,
    ) -> Option<T> {
        let is_shared = matches!(
            self.source,
            Source::Simulated {
                peers: Peers::Simulated,
                ..
            }
        );
        if self.is_real() || is_shared {
            return tokio::time::timeout(limit, answer).await.ok();
        }
        // Tokio does not advance paused time while a thread is blocked. This thread is blocked
        // until the sender is dropped.
        let (_held, waiting) = mpsc::channel::<()>();
        let expired = tokio::task::spawn_blocking(move || waiting.recv_timeout(limit));
        tokio::select! {
            biased;
            answer = answer => Some(answer),
            _ = expired => None,
        }
    }
}

impl Advance {
    /// What calls `advance` with a time that is to pass.
    pub fn new<F>(advance: impl Fn(Duration) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self(Box::new(move |time| Box::pin(advance(time))))
    }
}

impl fmt::Debug for Advance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Advance").finish_non_exhaustive()
    }
}

/// A time as `metav1.Time` is written: UTC, whole seconds.
#[must_use]
pub fn rfc3339(time: Timestamp) -> String {
    format!("{time:.0}")
}

/// Seconds as Go's `time.Duration` holds them: nanoseconds that wrap around at 64 bits.
#[must_use]
pub fn go_seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_nanos(seconds.wrapping_mul(1_000_000_000))
}

/// The time `by` after `time`, or the last one there is.
#[must_use]
pub fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    let last = match by.is_negative() {
        true => Timestamp::MIN,
        false => Timestamp::MAX,
    };
    time.checked_add(by).unwrap_or(last)
}

/// The nanoseconds from one time to another; none if the clock was set back.
#[must_use]
pub fn nanos_between(from: Timestamp, to: Timestamp) -> u64 {
    let elapsed = Duration::try_from(to.duration_since(from)).unwrap_or_default();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// Where an [`Entropy`] begins: 256 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl Seed {
    /// The default seed, equal in every process.
    pub const fn fixed() -> Self {
        Self([0; 32])
    }

    /// Derives a seed from a number.
    pub fn number(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed).get_seed())
    }

    /// An unpredictable seed, from the machine's randomness.
    ///
    /// # Panics
    /// If the machine gives no randomness.
    pub fn of_the_machine() -> Self {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).expect("the machine gives randomness");
        Self(seed)
    }

    /// The version 4 UUID with the number `place`, whatever else is drawn from the seed.
    pub fn uid_at(self, place: u64) -> String {
        uuid(&mut self.stream(place))
    }

    /// 32 bytes for a secret key; each `attempt` draws others.
    pub fn key(self, attempt: u64) -> [u8; 32] {
        let mut key = [0; 32];
        self.stream(KEY_STREAM + attempt).fill_bytes(&mut key);
        key
    }

    fn stream(self, number: u64) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::from_seed(self.0);
        rng.set_stream(number);
        rng
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seed").finish_non_exhaustive()
    }
}

/// The first stream that keys are drawn from: far from the low ones of [`Seed::uid_at`] and from the
/// high ones of requests and of [`Entropy::set_apart`].
const KEY_STREAM: u64 = 1 << 63;

/// The source of uids and name suffixes. Same seed, same order of draws: same values.
#[derive(Clone, Debug)]
pub struct Entropy {
    objects: Arc<Mutex<ChaCha8Rng>>,
    /// The source for values that no object shows: reads must not change the names of later writes.
    requests: Arc<Mutex<ChaCha8Rng>>,
}

impl Entropy {
    /// Returns the source whose numbers all follow from `seed`.
    pub fn seeded(seed: Seed) -> Self {
        // The low streams are those of `uid_at`.
        Self {
            objects: Arc::new(Mutex::new(seed.stream(0))),
            requests: Arc::new(Mutex::new(seed.stream(u64::MAX))),
        }
    }

    /// One that draws what this one would draw next.
    pub fn forked(&self) -> Self {
        Self {
            objects: Arc::new(Mutex::new(self.objects.lock().clone())),
            requests: Arc::new(Mutex::new(self.requests.lock().clone())),
        }
    }

    /// Switches to values that no server of this seed has drawn up to version `rv`.
    pub fn set_apart(&self, rv: u64) {
        // The highest stream is that of requests, the low ones are those of `uid_at`.
        self.objects.lock().set_stream(u64::MAX - rv.max(1));
    }

    /// A version 4 UUID for an object.
    pub fn uid(&self) -> String {
        uuid(&mut self.objects.lock())
    }

    /// A version 4 UUID for a request.
    pub fn audit_id(&self) -> String {
        uuid(&mut self.requests.lock())
    }

    /// A version 4 UUID for a question that the server asks on behalf of a request.
    pub fn review_uid(&self) -> String {
        uuid(&mut self.requests.lock())
    }

    /// A fraction of 1, for times that are spread at random.
    pub fn jitter(&self) -> f64 {
        f64::from(self.requests.lock().next_u32()) / (f64::from(u32::MAX) + 1.0)
    }

    /// Five characters for `generateName`, from the alphabet that forms no words.
    pub fn name_suffix(&self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut rng = self.objects.lock();
        (0..5)
            .map(|_| char::from(ALPHABET[rng.next_u32() as usize % ALPHABET.len()]))
            .collect()
    }
}

fn uuid(rng: &mut ChaCha8Rng) -> String {
    let mut bytes = [0_u8; 16];
    rng.fill_bytes(&mut bytes);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    // Written as bytes: a request needs one or two of these texts.
    let mut text = Vec::with_capacity(36);
    for (index, byte) in bytes.into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push(b'-');
        }
        text.extend([byte >> 4, byte & 0x0f].map(|digit| b"0123456789abcdef"[usize::from(digit)]));
    }
    String::from_utf8(text).expect("digits are ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_uids_and_suffixes() {
        let draw = |seed| {
            let entropy = Entropy::seeded(Seed::number(seed));
            (entropy.uid(), entropy.name_suffix(), entropy.uid())
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert_eq!(draw(7).0.as_bytes()[14], b'4');
        let entropy = Entropy::seeded(Seed::number(7));
        assert_ne!(entropy.audit_id(), draw(7).0);
        assert!((0.0..1.0).contains(&entropy.jitter()));
        assert_eq!(
            entropy.uid(),
            draw(7).0,
            "requests draw from another stream"
        );
    }

    #[test]
    fn no_two_seeds_of_the_machine_draw_the_same_uids_or_keys() {
        let (one, other) = (Seed::of_the_machine(), Seed::of_the_machine());
        assert_ne!(Entropy::seeded(one).uid(), Entropy::seeded(other).uid());
        assert_ne!(one.uid_at(7), other.uid_at(7));
        assert_ne!(one.key(0), other.key(0));
        assert_ne!(one.key(0), one.key(1));
        assert_eq!(Seed::number(3).key(0), Seed::number(3).key(0));
    }

    #[tokio::test(start_paused = true)]
    async fn simulated_time_is_the_epoch_plus_virtual_time() {
        let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::simulated(epoch);
        tokio::time::advance(std::time::Duration::from_secs(90)).await;
        assert_eq!(rfc3339(clock.now()), "2026-01-01T00:01:30Z");
    }
}
