//! The time in which programs, or the server they wait for, would have run if they had had a processor.

use std::time::Duration;

use tokio::time::Instant;

use super::RunningPrograms;
use super::processes::{ThreadTime, Usage, own_time};

/// The period in which processes are looked at.
const LOOK_PERIOD: Duration = Duration::from_millis(500);
/// Processes with a thread that wants a processor are starved if they have had less than this part of one.
const STARVED_PART: u32 = 20;

/// Adds up the time in which programs were starved.
#[derive(Debug, Default)]
pub(in crate::testbed) struct Starvation {
    total: Duration,
    last: Option<Look>,
}

/// The processes at one moment.
#[derive(Clone, Debug)]
struct Look {
    at: Instant,
    /// `None` where `/proc` does not show them.
    programs: Option<Usage>,
    /// The thread of the server.
    server: ThreadTime,
}

impl Starvation {
    /// The time so far, up to the last look.
    pub(in crate::testbed) fn total(&self) -> Duration {
        self.total
    }

    /// Looks at the processes of `programs`, if it is time to do so.
    pub(in crate::testbed) fn look(&mut self, programs: &RunningPrograms) {
        let last = self.last.as_ref();
        if last.is_none_or(|last| last.at.elapsed() >= LOOK_PERIOD) {
            self.look_now(programs);
        }
    }

    /// Looks at the processes of `programs`.
    pub(in crate::testbed) fn look_now(&mut self, programs: &RunningPrograms) {
        self.see(Look {
            at: Instant::now(),
            programs: programs.groups.usage(),
            server: own_time().unwrap_or_default(),
        });
    }

    fn see(&mut self, next: Look) {
        if let Some(last) = &self.last {
            self.total += last.starved_until(&next);
        }
        self.last = Some(next);
    }
}

impl Look {
    /// The time up to `next` in which the programs or the server were starved.
    fn starved_until(&self, next: &Self) -> Duration {
        let time = next.at - self.at;
        let (Some(before), Some(after)) = (&self.programs, &next.programs) else {
            return Duration::ZERO;
        };
        let threads = after.threads_since(before);
        let left = time.saturating_sub(threads.ran);
        if before.is_running && after.is_running && threads.ran < time / STARVED_PART {
            // The kernel counts a delay when it is over.
            return left;
        }
        let server = next.server.since(&self.server).delayed;
        left.min(threads.delayed + server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// The starved milliseconds between two looks a second apart; a thread ran and was delayed for the given milliseconds.
    fn starved(is_running: bool, ran: u32, delayed: u32, server: u32) -> u128 {
        let began = Instant::now();
        let look = |seconds: u32| {
            let time = |milliseconds: u32| MILLISECOND * milliseconds * seconds;
            let thread = ThreadTime {
                ran: time(ran),
                delayed: time(delayed),
            };
            Look {
                at: began + MILLISECOND * 1000 * seconds,
                programs: Some(Usage {
                    threads: [(1, thread)].into(),
                    is_running,
                    ..Usage::default()
                }),
                server: ThreadTime {
                    ran: Duration::ZERO,
                    delayed: time(server),
                },
            }
        };
        let mut starvation = Starvation::default();
        starvation.see(look(0));
        starvation.see(look(1));
        starvation.total().as_millis()
    }

    #[test]
    fn programs_are_starved_while_they_wait_for_a_processor() {
        assert_eq!(starved(false, 100, 0, 0), 0);
        assert_eq!(starved(false, 100, 300, 0), 300);
        assert_eq!(starved(false, 100, 0, 200), 200);
        // Of two threads one may run while the other waits.
        assert_eq!(starved(true, 900, 800, 0), 100);
        assert_eq!(starved(true, 1000, 0, 0), 0);
    }

    #[test]
    fn a_delay_counts_before_it_is_over() {
        assert_eq!(starved(true, 10, 0, 0), 990);
        assert_eq!(starved(false, 10, 0, 0), 0);
    }

    #[test]
    fn nothing_is_starved_where_processes_are_not_seen() {
        let look = Look {
            at: Instant::now(),
            programs: None,
            server: ThreadTime::default(),
        };
        assert_eq!(look.starved_until(&look), Duration::ZERO);
    }
}
