//! What programs are doing: whether they wait for events, work, or may begin to work at any time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::RunningPrograms;
use super::processes::{Groups, Usage, are_read};
use super::requests::Traffic;

/// Programs that wait for events have to do so for this long. An operator that collects events before it works on them
/// does that for less.
pub(in crate::testbed) const WAITING_TIME: Duration = Duration::from_millis(500);
/// Everything counts as settled after this long without a write, unless programs are seen to work.
pub(crate) const QUIET_TIME: Duration = Duration::from_secs(3);
/// Everything counts as settled after this long without a write, even if programs work. Time in which they would work but have
/// no processor does not count.
pub(in crate::testbed) const WORKING_TIME_MAX: Duration = Duration::from_secs(30);
/// The period in which programs are looked at.
pub(in crate::testbed) const LOOK_PERIOD: Duration = Duration::from_millis(50);

/// A watch that has ended is opened again within this time, or not at all.
const REOPENING_TIME_MAX: Duration = Duration::from_secs(10);
/// Programs that use less than this part of a processor wait: runtimes collect garbage meanwhile.
const BACKGROUND_PART: u32 = 20;

/// What programs are doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::testbed) enum Doing {
    /// They have watches open, have read all events, and have sent no request and used no processor for
    /// [`WAITING_TIME`]; or they have no watches, ask again and again, and have asked twice without a reason to write.
    Waiting,
    /// They start, open a watch again, wait for a response, or compute.
    Working,
    /// Something else, such as asking again and again, or waiting until it is time for a retry.
    Unknown,
}

/// What programs without watches do, as far as their requests show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::testbed) enum Asking {
    /// They have watches after all, or have not read the same twice.
    Otherwise,
    /// They read the same again and again.
    Again,
    /// They have read everything twice since the last write or fault, without a write.
    InVain,
}

/// Looks at programs from time to time.
#[derive(Debug, Default)]
pub(in crate::testbed) struct Observer {
    period: Option<Period>,
    /// The number of requests and the last write at the last look.
    still_since: Option<(u64, Timestamp)>,
    /// The result of the last whole period.
    doing: Option<Doing>,
}

/// A time without requests and writes.
#[derive(Debug)]
struct Period {
    began: Timestamp,
    requests: u64,
    usage: Option<Usage>,
}

/// The time of the last request of a kind that had not been sent before since a program was started.
pub(in crate::testbed) fn last_new_kind(programs: &RunningPrograms) -> Option<Timestamp> {
    programs.environment.requests().traffic().last_new_kind
}

/// Returns what programs without watches do at `now`, after a last write at `last_write` and a last fault at `last_fault`.
pub(in crate::testbed) fn asking(
    programs: &RunningPrograms,
    (now, last_write): (Timestamp, Timestamp),
    last_fault: Option<Timestamp>,
) -> Asking {
    let traffic = programs.environment.requests().traffic();
    traffic.asking((now, last_write), Some(last_write).max(last_fault))
}

/// The facts about programs at one moment.
pub(super) struct Moment<'a> {
    now: Timestamp,
    traffic: Traffic,
    last_write: Timestamp,
    /// The time of the last fault that has met a program.
    last_fault: Option<Timestamp>,
    usage: &'a dyn Fn() -> Option<Usage>,
    are_read: &'a dyn Fn() -> Option<bool>,
}

impl Observer {
    /// Returns what the programs are doing at `now`, after a last write at `last_write` and a last fault at `last_fault`.
    pub(in crate::testbed) fn look(
        &mut self,
        programs: &RunningPrograms,
        (now, last_write): (Timestamp, Timestamp),
        last_fault: Option<Timestamp>,
    ) -> Doing {
        let (groups, ports): (&Groups, _) = (&programs.groups, programs.environment.ports());
        self.judge(&Moment {
            now,
            traffic: programs.environment.requests().traffic(),
            last_write,
            last_fault,
            usage: &|| groups.usage(),
            are_read: &|| are_read(&ports),
        })
    }

    fn judge(&mut self, moment: &Moment<'_>) -> Doing {
        let Moment { now, traffic, .. } = moment;
        let disturbed = Some(moment.last_write).max(moment.last_fault);
        match traffic.asking((*now, moment.last_write), disturbed) {
            Asking::InVain => return Doing::Waiting,
            Asking::Again => return Doing::Working,
            Asking::Otherwise => {}
        }
        let is_same = |period: &&Period| {
            period.requests == traffic.requests && moment.last_write <= period.began
        };
        let is_still = self.still_since == Some((traffic.requests, moment.last_write));
        self.still_since = Some((traffic.requests, moment.last_write));
        let period = self.period.as_ref().filter(is_same);
        let Some(period) = period.filter(|_| !traffic.is_busy(*now)) else {
            // Processes are looked at only when nothing else has changed.
            self.period = (is_still && !traffic.is_busy(*now)).then(|| Period::begin(moment));
            self.doing = None;
            return match traffic.is_busy(*now) {
                true => Doing::Working,
                false => Doing::Unknown,
            };
        };
        if elapsed(period.began, *now) < WAITING_TIME {
            return self.doing.unwrap_or(Doing::Unknown);
        }
        let next = Period::begin(moment);
        let doing = period.doing(&next, moment);
        self.period = Some(next);
        self.doing = Some(doing);
        doing
    }
}

impl Traffic {
    /// What programs without watches do at `now`, after a last write and something that may lead to another one, at `disturbed`.
    fn asking(
        &self,
        (now, last_write): (Timestamp, Timestamp),
        disturbed: Option<Timestamp>,
    ) -> Asking {
        if !self.repeats || self.watches || self.is_starting {
            return Asking::Otherwise;
        }
        let since = self.cycled_since.filter(|since| Some(*since) > disturbed);
        let is_late = elapsed(last_write, now) >= WAITING_TIME;
        match since.is_some() && is_late {
            true => Asking::InVain,
            false => Asking::Again,
        }
    }

    /// Whether a program is about to go on.
    fn is_busy(&self, now: Timestamp) -> bool {
        let is_lost = |ended| elapsed(ended, now) < REOPENING_TIME_MAX;
        self.in_flight > 0 || self.is_starting || self.lost_watch.is_some_and(is_lost)
    }
}

impl Period {
    fn begin(moment: &Moment<'_>) -> Self {
        Self {
            began: moment.now,
            requests: moment.traffic.requests,
            usage: (moment.usage)(),
        }
    }

    /// What programs did in this period, after which `next` begins.
    fn doing(&self, next: &Self, moment: &Moment<'_>) -> Doing {
        let (Some(before), Some(after)) = (&self.usage, &next.usage) else {
            return Doing::Unknown;
        };
        let background = elapsed(self.began, next.began) / BACKGROUND_PART;
        let computes = after.is_running || after.since(before).is_none_or(|time| time > background);
        let traffic = &moment.traffic;
        let is_long_ago = |time: Option<Timestamp>| {
            time.is_none_or(|time| elapsed(time, moment.now) >= QUIET_TIME)
        };
        if computes {
            // A program that asks again and again computes, too.
            return match is_long_ago(traffic.last_request) {
                true => Doing::Working,
                false => Doing::Unknown,
            };
        }
        let may_retry = !is_long_ago(traffic.last_failure) || !is_long_ago(moment.last_fault);
        let watches = traffic.watches && traffic.lost_watch.is_none();
        let waits = watches && !may_retry && (moment.are_read)() == Some(true);
        match waits {
            true => Doing::Waiting,
            false => Doing::Unknown,
        }
    }
}

/// The time from `then` to `now`; zero if the clock was set back.
pub(in crate::testbed) fn elapsed(then: Timestamp, now: Timestamp) -> Duration {
    let elapsed: SignedDuration = now.duration_since(then);
    Duration::try_from(elapsed).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moments half a second apart, from the last write on.
    #[derive(Clone, Copy)]
    struct Case {
        requests: [u64; 4],
        in_flight: usize,
        is_starting: bool,
        watches: bool,
        lost_watch: Option<i64>,
        last_request: i64,
        repeats: bool,
        cycled_since: Option<i64>,
        last_failure: Option<i64>,
        last_fault: Option<i64>,
        /// Milliseconds of processor time so far.
        time: [u64; 4],
        is_running: bool,
        are_read: bool,
    }

    const WAITING: Case = Case {
        requests: [7; 4],
        in_flight: 0,
        is_starting: false,
        watches: true,
        lost_watch: None,
        last_request: 0,
        repeats: true,
        cycled_since: None,
        last_failure: None,
        last_fault: None,
        time: [90; 4],
        is_running: false,
        are_read: true,
    };

    /// What programs are doing after a second and a half, `seconds` after the last write.
    fn doing(case: &Case, seconds: i64) -> Doing {
        let at = |milliseconds| Timestamp::from_millisecond(milliseconds).unwrap();
        let mut observer = Observer::default();
        let mut doing = Doing::Unknown;
        for (index, (requests, time)) in case.requests.into_iter().zip(case.time).enumerate() {
            let usage = || {
                Some(Usage {
                    times: [(1, Duration::from_millis(time))].into(),
                    is_running: case.is_running,
                    ..Usage::default()
                })
            };
            let index = i64::try_from(index).unwrap();
            doing = observer.judge(&Moment {
                now: at(seconds * 1000 + 500 * index),
                traffic: Traffic {
                    requests,
                    in_flight: case.in_flight,
                    is_starting: case.is_starting,
                    watches: case.watches,
                    lost_watch: case.lost_watch.map(at),
                    repeats: case.repeats,
                    cycled_since: case.cycled_since.map(at),
                    last_new_kind: None,
                    last_request: Some(at(case.last_request)),
                    last_failure: case.last_failure.map(at),
                },
                last_write: at(0),
                last_fault: case.last_fault.map(at),
                usage: &usage,
                are_read: &|| Some(case.are_read),
            });
        }
        doing
    }

    #[test]
    fn programs_wait_that_watch_and_do_nothing_else() {
        assert_eq!(doing(&WAITING, 0), Doing::Waiting);
        let garbage = Case {
            time: [90, 90, 90, 100],
            ..WAITING
        };
        assert_eq!(doing(&garbage, 0), Doing::Waiting);
        for other in [
            Case {
                requests: [7, 8, 9, 10],
                ..WAITING
            },
            Case {
                watches: false,
                repeats: false,
                ..WAITING
            },
            Case {
                time: [90, 90, 100, 190],
                ..WAITING
            },
            Case {
                is_running: true,
                ..WAITING
            },
            Case {
                are_read: false,
                ..WAITING
            },
        ] {
            assert_eq!(doing(&other, 0), Doing::Unknown);
        }
    }

    #[test]
    fn programs_that_ask_again_and_again_wait_when_they_have_seen_everything_twice() {
        let asks = Case {
            watches: false,
            last_failure: Some(0),
            requests: [7, 8, 9, 10],
            ..WAITING
        };
        assert_eq!(doing(&asks, 4), Doing::Working);
        let before = Case {
            cycled_since: Some(0),
            ..asks
        };
        assert_eq!(doing(&before, 4), Doing::Working);
        let since = Case {
            cycled_since: Some(10),
            ..before
        };
        assert_eq!(doing(&since, 4), Doing::Waiting);
        let met = Case {
            last_fault: Some(20),
            ..since
        };
        assert_eq!(doing(&met, 4), Doing::Working);
    }

    #[test]
    fn programs_that_may_retry_do_not_wait_for_events() {
        let failed = Case {
            last_failure: Some(100),
            ..WAITING
        };
        assert_eq!(doing(&failed, 0), Doing::Unknown);
        assert_eq!(doing(&failed, 4), Doing::Waiting);
        let met = Case {
            last_fault: Some(100),
            ..WAITING
        };
        assert_eq!(doing(&met, 0), Doing::Unknown);
        assert_eq!(doing(&met, 4), Doing::Waiting);
    }

    #[test]
    fn programs_work_that_have_asked_or_compute_without_asking() {
        let asked = Case {
            in_flight: 1,
            ..WAITING
        };
        assert_eq!(doing(&asked, 0), Doing::Working);
        let starts = Case {
            is_starting: true,
            ..WAITING
        };
        assert_eq!(doing(&starts, 0), Doing::Working);
        let reopens = Case {
            lost_watch: Some(0),
            ..WAITING
        };
        assert_eq!(doing(&reopens, 4), Doing::Working);
        assert_eq!(doing(&reopens, 12), Doing::Unknown);
        let computes = Case {
            is_running: true,
            ..WAITING
        };
        assert_eq!(doing(&computes, 4), Doing::Working);
        let asks = Case {
            last_request: 4000,
            ..computes
        };
        assert_eq!(doing(&asks, 4), Doing::Unknown);
    }
}
