//! A priority level: its seats, and the queues of requests that wait for one.
//!
//! Source: apiserver `pkg/util/flowcontrol/fairqueuing/queueset`. Every request takes one seat, so
//! that the fair order among queues is one request of each in turn.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::dropped::Dropped;
use crate::json::Value;

/// How many seats all levels share: upstream's `--max-requests-inflight` and
/// `--max-mutating-requests-inflight`.
pub(super) const SERVER_SEATS: u64 = 400 + 200;

/// The level that has no limit.
const EXEMPT: &str = "exempt";

/// The seats of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    /// The seats that its shares are worth.
    pub(super) nominal: u64,
    /// The seats left if it lent all it may.
    pub(super) lower: u64,
    /// The seats it would have if it borrowed all it may.
    pub(super) upper: u64,
}

impl Limits {
    /// The limits of `level` where all levels have `shares` together.
    pub(super) fn of(level: &Value, shares: u64) -> Self {
        let (own, _) = spec_of_type(level);
        let percent = |field: &str| own[field].as_u64();
        let part = |of: u64, percent: u64| (of * percent + 50) / 100;
        let nominal = (SERVER_SEATS * shares_of(level)).div_ceil(shares.max(1));
        let lendable = part(nominal, percent("lendablePercent").unwrap_or(0));
        let borrowed = match percent("borrowingLimitPercent") {
            Some(percent) => part(nominal, percent),
            None => SERVER_SEATS,
        };
        Self {
            nominal,
            lower: nominal.saturating_sub(lendable),
            upper: nominal + borrowed,
        }
    }

    /// The number of requests that may execute at once.
    ///
    /// DIVERGES: levels lend each other no seats because none here is ever short of them for long;
    /// each level has at least one seat, so that none starves.
    pub(super) fn current(self) -> u64 {
        self.nominal.max(1)
    }
}

/// The concurrency shares of a level.
pub(super) fn shares_of(level: &Value) -> u64 {
    let (own, _) = spec_of_type(level);
    own["nominalConcurrencyShares"].as_u64().unwrap_or(0)
}

/// The part of a level's spec that fits its type.
fn spec_of_type(level: &Value) -> (&Value, LimitResponse) {
    let spec = &level["spec"];
    if spec["limited"].is_null() {
        return (&spec["exempt"], LimitResponse::Reject);
    }
    let queuing = &spec["limited"]["limitResponse"]["queuing"];
    let number = |field: &str| queuing[field].as_u64().map_or(1, to_usize);
    let limit_response = match queuing.is_object() {
        true => LimitResponse::Queue(Queuing {
            queues: number("queues"),
            hand_size: number("handSize"),
            length_max: number("queueLengthLimit"),
        }),
        false => LimitResponse::Reject,
    };
    (&spec["limited"], limit_response)
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The treatment of requests that find all seats taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitResponse {
    Reject,
    Queue(Queuing),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Queuing {
    queues: usize,
    /// Among how many queues a flow's requests choose the shortest.
    hand_size: usize,
    length_max: usize,
}

/// A priority level, which lives as long as a request of it executes.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) name: String,
    pub(super) is_exempt: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limits: Limits,
    limit_response: LimitResponse,
    executing: u64,
    /// Bounded by the length of a queue and their number, which the level's object says.
    queues: Vec<VecDeque<Waiting>>,
    /// The queue that was served last.
    served: usize,
    enqueued: usize,
    dropped: Dropped,
}

#[derive(Debug)]
struct Waiting {
    ticket: usize,
    /// Signals the seat. A request that has gone away returns it when its place is dropped.
    seated: oneshot::Sender<()>,
}

/// The outcome of a request's arrival at a level.
pub(super) enum Entry {
    Seated,
    Waits(Place),
    Refused(Reason),
}

/// The reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    ConcurrencyLimit,
    QueueFull,
    TimeOut,
}

/// The place of a request in a queue. Dropping it gives up the place, or the seat granted meanwhile.
pub(super) struct Place {
    level: Arc<Level>,
    queue: usize,
    ticket: usize,
    seated: oneshot::Receiver<()>,
    is_taken: bool,
    /// The length of the queue with this request.
    pub(super) length: usize,
}

impl Level {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            is_exempt: name == EXEMPT,
            state: Mutex::new(State {
                limits: Limits::default(),
                limit_response: LimitResponse::Reject,
                executing: 0,
                queues: Vec::new(),
                served: 0,
                enqueued: 0,
                dropped: Dropped::default(),
            }),
        }
    }

    /// Applies the spec of the level's object.
    pub(super) fn configure(&self, level: &Value, limits: Limits) {
        let mut state = self.state.lock();
        let (_, limit_response) = spec_of_type(level);
        state.limits = limits;
        state.limit_response = limit_response;
        if let LimitResponse::Queue(queuing) = limit_response
            && queuing.queues > state.queues.len()
        {
            // Surplus queues are served until they are empty; no request is added to them.
            state.queues.resize_with(queuing.queues, VecDeque::new);
        }
        state.dispatch();
    }

    pub(super) fn limits(&self) -> Limits {
        self.state.lock().limits
    }

    /// Gives a request a seat or a place in a queue. `hash` is of its flow.
    pub(super) fn enter(self: &Arc<Self>, hash: impl FnOnce() -> u64) -> Entry {
        let mut state = self.state.lock();
        let has_seat = state.executing < state.limits.current();
        let queuing = match state.limit_response {
            _ if has_seat && state.is_nobody_waiting() => {
                state.executing += 1;
                return Entry::Seated;
            }
            LimitResponse::Reject => return Entry::Refused(Reason::ConcurrencyLimit),
            LimitResponse::Queue(queuing) => queuing,
        };
        let queue = state.shortest(queuing, hash());
        if !has_seat && state.queues[queue].len() >= queuing.length_max {
            return Entry::Refused(Reason::QueueFull);
        }
        let (sender, seated) = oneshot::channel();
        let ticket = state.enqueued;
        state.enqueued += 1;
        state.queues[queue].push_back(Waiting {
            ticket,
            seated: sender,
        });
        let length = state.queues[queue].len();
        state.dispatch();
        Entry::Waits(Place {
            level: Arc::clone(self),
            queue,
            ticket,
            seated,
            is_taken: false,
            length,
        })
    }

    /// Frees a seat for the next.
    pub(super) fn leave(&self) {
        let mut state = self.state.lock();
        state.executing -= 1;
        state.dispatch();
    }

    /// Notes that a request was refused; returns after how many seconds it may come again.
    pub(super) fn refuse(&self, second: i64) -> u64 {
        self.state.lock().dropped.note(second)
    }
}

impl State {
    fn is_nobody_waiting(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// The shortest queue of the hand that the hash deals.
    fn shortest(&self, queuing: Queuing, hash: u64) -> usize {
        let hand = hand(hash, queuing.queues, queuing.hand_size);
        let offset = self.enqueued % hand.len();
        let hand = hand[offset..].iter().chain(&hand[..offset]);
        let shortest = hand.min_by_key(|queue| self.queues[**queue].len());
        *shortest.expect("a hand has a queue")
    }

    /// Gives free seats to waiting requests, one of each queue in turn.
    fn dispatch(&mut self) {
        while self.executing < self.limits.current() {
            let count = self.queues.len();
            let mut turns = (1..=count).map(|turn| (self.served + turn) % count);
            let Some(next) = turns.find(|queue| !self.queues[*queue].is_empty()) else {
                return;
            };
            self.served = next;
            let waiting = self.queues[next].pop_front();
            let waiting = waiting.expect("the queue is not empty");
            self.executing += 1;
            // A request that has gone away returns the seat when its place is dropped.
            let _ = waiting.seated.send(());
        }
    }
}

impl Place {
    /// Waits for a seat, which is then the caller's to leave.
    pub(super) async fn seat(mut self) {
        if (&mut self.seated).await.is_ok() {
            self.is_taken = true;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_taken {
            return;
        }
        let mut state = self.level.state.lock();
        let queue = &mut state.queues[self.queue];
        let own = queue.iter().position(|own| own.ticket == self.ticket);
        match own {
            Some(index) => {
                queue.remove(index);
            }
            None => {
                state.executing -= 1;
                state.dispatch();
            }
        }
    }
}

/// Deals `size` different queues out of `deck`.
///
/// Source: apiserver `pkg/util/shufflesharding`.
fn hand(hash: u64, deck: usize, size: usize) -> Vec<usize> {
    let size = size.clamp(1, deck.max(1));
    let mut rest = hash;
    let mut cards: Vec<usize> = Vec::with_capacity(size);
    let mut remainders: Vec<usize> = Vec::with_capacity(size);
    for dealt in 0..size {
        let left = (deck - dealt) as u64;
        let card = to_usize(rest % left);
        rest /= left;
        let mut shifted = card;
        for before in remainders.iter().rev() {
            if shifted >= *before {
                shifted += 1;
            }
        }
        remainders.push(card);
        cards.push(shifted);
    }
    cards
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::json::json;

    fn level(queuing: Option<Value>, seats: u64) -> Arc<Level> {
        let level = Arc::new(Level::new("l"));
        let response = match queuing {
            Some(queuing) => json!({"type": "Queue", "queuing": queuing}),
            None => json!({"type": "Reject"}),
        };
        let limits = Limits {
            nominal: seats,
            ..Limits::default()
        };
        level.configure(
            &json!({"spec": {"limited": {"limitResponse": response}}}),
            limits,
        );
        level
    }

    fn place(entry: Entry) -> Place {
        match entry {
            Entry::Waits(place) => place,
            Entry::Seated | Entry::Refused(_) => panic!("the request does not wait"),
        }
    }

    #[test]
    fn a_level_that_rejects_has_no_more_than_its_seats() {
        let level = level(None, 2);
        for _ in 0..2 {
            assert!(matches!(level.enter(|| 0), Entry::Seated));
        }
        let refused = Entry::Refused(Reason::ConcurrencyLimit);
        assert!(
            matches!(level.enter(|| 0), entry if std::mem::discriminant(&entry) == std::mem::discriminant(&refused))
        );
        level.leave();
        assert!(matches!(level.enter(|| 0), Entry::Seated));
    }

    #[test]
    fn queues_are_served_in_turn_so_that_no_flow_drowns_another() {
        let queuing = json!({"queues": 2, "handSize": 1, "queueLengthLimit": 3});
        let level = level(Some(queuing), 1);
        assert!(matches!(level.enter(|| 0), Entry::Seated));
        let mut many: Vec<_> = (0..3)
            .map(|_| place(level.enter(|| 0)).seat().boxed())
            .collect();
        assert!(matches!(
            level.enter(|| 0),
            Entry::Refused(Reason::QueueFull)
        ));
        let mut few = place(level.enter(|| 1)).seat().boxed();
        level.leave();
        assert!((&mut few).now_or_never().is_some());
        assert!((&mut many[0]).now_or_never().is_none());
        level.leave();
        assert!((&mut many[0]).now_or_never().is_some());
        assert!((&mut many[1]).now_or_never().is_none());
    }

    #[test]
    fn a_request_that_goes_away_leaves_its_place_and_its_seat_to_the_next() {
        let queuing = json!({"queues": 1, "handSize": 1, "queueLengthLimit": 9});
        let level = level(Some(queuing), 1);
        assert!(matches!(level.enter(|| 0), Entry::Seated));
        let first = place(level.enter(|| 0));
        let second = place(level.enter(|| 0));
        let mut third = place(level.enter(|| 0)).seat().boxed();
        drop(first);
        level.leave();
        // The second has its seat and does not know yet.
        drop(second);
        assert!((&mut third).now_or_never().is_some());
        level.leave();
        assert!(matches!(level.enter(|| 0), Entry::Seated));
    }

    #[test]
    fn a_hand_has_different_queues() {
        for hash in 0..5_000 {
            let mut dealt = hand(hash, 8, 5);
            dealt.sort_unstable();
            dealt.dedup();
            assert_eq!(dealt.len(), 5);
            assert!(dealt.iter().all(|queue| *queue < 8));
        }
    }

    #[test]
    fn seats_are_shared_as_shares_are() {
        let level = |spec: Value| json!({"spec": {"limited": spec}});
        let own = level(json!({"nominalConcurrencyShares": 40, "lendablePercent": 25}));
        let (nominal, lower, upper) = (98, 73, 698);
        let limits = Limits {
            nominal,
            lower,
            upper,
        };
        assert_eq!(Limits::of(&own, 245), limits);
        let own = level(json!({"nominalConcurrencyShares": 0, "borrowingLimitPercent": 50}));
        assert_eq!(Limits::of(&own, 245), Limits::default());
        assert_eq!(Limits::default().current(), 1);
    }
}
