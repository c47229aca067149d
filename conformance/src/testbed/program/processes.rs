//! The processes of programs, as `/proc` shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// The process groups of the programs that run.
#[derive(Clone, Default)]
pub(super) struct Groups(Arc<Mutex<BTreeSet<i32>>>);

/// A process group that is listed as long as this lives.
pub(super) struct Listed {
    groups: Groups,
    group: i32,
}

impl Groups {
    pub(super) fn list(&self, group: i32) -> Listed {
        self.0.lock().insert(group);
        Listed {
            groups: self.clone(),
            group,
        }
    }

    /// Returns what the processes of the groups and their descendants are doing; `None` where `/proc` does not show it.
    pub(super) fn usage(&self) -> Option<Usage> {
        let groups = self.0.lock().clone();
        Usage::read(&groups)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.groups.0.lock().remove(&self.group);
    }
}

/// What processes were doing at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// The processor time of each process so far, by process id.
    pub(super) times: BTreeMap<i32, Duration>,
    /// The threads, by thread id.
    pub(super) threads: BTreeMap<i32, ThreadTime>,
    /// Whether a thread runs, or would if it had a processor.
    pub(super) is_running: bool,
}

/// The time of a thread so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadTime {
    /// The time on a processor.
    pub(super) ran: Duration,
    /// The time in which it waited for a processor; zero where the kernel does not count it.
    pub(super) delayed: Duration,
}

impl ThreadTime {
    /// The time since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            ran: self.ran.saturating_sub(earlier.ran),
            delayed: self.delayed.saturating_sub(earlier.delayed),
        }
    }
}

impl std::iter::Sum for ThreadTime {
    fn sum<I: Iterator<Item = Self>>(times: I) -> Self {
        times.fold(Self::default(), |sum, time| Self {
            ran: sum.ran + time.ran,
            delayed: sum.delayed + time.delayed,
        })
    }
}

impl Usage {
    /// Returns the processor time since `earlier`. `None` if a process has been started or has ended since then.
    pub(super) fn since(&self, earlier: &Self) -> Option<Duration> {
        if !self.times.keys().eq(earlier.times.keys()) {
            return None;
        }
        let times = self.times.values().zip(earlier.times.values());
        Some(times.map(|(now, then)| now.saturating_sub(*then)).sum())
    }

    /// Returns the time of all threads since `earlier`. What threads did in the end that are gone by now is not in it.
    pub(super) fn threads_since(&self, earlier: &Self) -> ThreadTime {
        let threads = self.threads.iter().map(|(id, now)| {
            let then = earlier.threads.get(id).copied().unwrap_or_default();
            now.since(&then)
        });
        threads.sum()
    }

    /// Whether processes run, have used the processor from `earlier` to `later`, or have been started or have ended.
    pub(super) fn shows_work(earlier: Option<&Self>, later: Option<&Self>) -> bool {
        match (earlier, later) {
            (Some(earlier), Some(later)) => {
                later.is_running || later.since(earlier) != Some(Duration::ZERO)
            }
            (earlier, later) => earlier.is_some() != later.is_some(),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn read(_groups: &BTreeSet<i32>) -> Option<Self> {
        None
    }

    #[cfg(target_os = "linux")]
    fn read(groups: &BTreeSet<i32>) -> Option<Self> {
        use procfs::process::{ProcState, all_processes};

        let processes = all_processes().ok()?;
        // A process that has just ended has no file any more.
        let read = processes.filter_map(|process| {
            let process = process.ok()?;
            let stat = process.stat().ok()?;
            Some((stat.pid, (process, stat)))
        });
        let read: BTreeMap<i32, _> = read.collect();
        // A program may move its children to groups of their own.
        let belongs = |pid: &i32| {
            let mut next = read.get(pid);
            for _ in 0..read.len() {
                match next {
                    Some((_, stat)) if groups.contains(&stat.pgrp) => return true,
                    Some((_, stat)) => next = read.get(&stat.ppid),
                    None => return false,
                }
            }
            false
        };
        let per_second = procfs::ticks_per_second();
        let in_ticks = |ticks: u64| Duration::from_millis(ticks.saturating_mul(1000) / per_second);
        let mut usage = Self::default();
        for (process, stat) in read.iter().filter(|(pid, _)| belongs(pid)).map(|own| own.1) {
            usage
                .times
                .insert(stat.pid, in_ticks(stat.utime + stat.stime));
            for task in process.tasks().into_iter().flatten().flatten() {
                let Ok(stat) = task.stat() else {
                    continue;
                };
                usage.is_running |=
                    matches!(stat.state(), Ok(ProcState::Running | ProcState::Waiting));
                let time = match task.schedstat() {
                    Ok(counted) => counted.into(),
                    Err(_) => ThreadTime {
                        ran: in_ticks(stat.utime + stat.stime),
                        delayed: Duration::ZERO,
                    },
                };
                usage.threads.insert(task.tid, time);
            }
        }
        (!usage.times.is_empty()).then_some(usage)
    }
}

#[cfg(target_os = "linux")]
impl From<procfs::process::Schedstat> for ThreadTime {
    fn from(counted: procfs::process::Schedstat) -> Self {
        Self {
            ran: Duration::from_nanos(counted.sum_exec_runtime),
            delayed: Duration::from_nanos(counted.run_delay),
        }
    }
}

/// The time of the calling thread so far; `None` where `/proc` does not show it.
#[cfg(target_os = "linux")]
pub(super) fn own_time() -> Option<ThreadTime> {
    use procfs::FromRead as _;

    let counted = procfs::process::Schedstat::from_file("/proc/thread-self/schedstat");
    counted.ok().map(ThreadTime::from)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn own_time() -> Option<ThreadTime> {
    None
}

/// Whether both ends of the connections at these ports on loopback have read everything; `None` where `/proc` does not
/// show it.
#[cfg(target_os = "linux")]
pub(super) fn are_read(ports: &[u16]) -> Option<bool> {
    use procfs::net::TcpState;

    let sockets = procfs::net::tcp().ok()?;
    let is_open = |state| matches!(state, TcpState::Established | TcpState::Listen);
    let mut own = sockets.into_iter().filter(|socket| {
        let ends = [socket.local_address.port(), socket.remote_address.port()];
        is_open(socket.state.clone()) && ends.iter().any(|port| ports.contains(port))
    });
    Some(own.all(|socket| socket.rx_queue == 0 && socket.tx_queue == 0))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn are_read(_ports: &[u16]) -> Option<bool> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::io::Write as _;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_that_computes_runs_and_one_that_waits_does_not() {
        let groups = Groups::default();
        assert_eq!(groups.usage(), None);
        let own = groups.list(rustix::process::getpgrp().as_raw_nonzero().get());
        let id = i32::try_from(std::process::id()).unwrap();
        let usage = groups.usage().unwrap();
        assert!(usage.is_running && usage.times.contains_key(&id));
        drop(own);

        // A child in another group belongs to the shell that has started it.
        let script = "setsid cat & cat";
        let mut shell = Command::new("sh");
        let shell = shell
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut shell = std::os::unix::process::CommandExt::process_group(shell, 0)
            .spawn()
            .unwrap();
        let group = i32::try_from(shell.id()).unwrap();
        let _listed = groups.list(group);
        let waiting = (0..100_000).find_map(|_| {
            let usage = groups.usage()?;
            (usage.times.len() >= 2 && !usage.is_running).then_some(usage)
        });
        let waiting = waiting.unwrap();
        assert!(waiting.times.contains_key(&group));
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }

    #[test]
    fn processor_time_is_that_of_the_same_processes() {
        let usage = |times: &[(i32, u64)]| Usage {
            times: times
                .iter()
                .map(|(id, time)| (*id, Duration::from_millis(*time)))
                .collect(),
            ..Usage::default()
        };
        let (before, after) = (usage(&[(1, 10), (2, 20)]), usage(&[(1, 30), (2, 20)]));
        assert_eq!(after.since(&before), Some(Duration::from_millis(20)));
        assert_eq!(usage(&[(1, 30)]).since(&before), None);
        assert_eq!(usage(&[(1, 30), (3, 0)]).since(&before), None);
        for (later, works) in [
            (Some(&after), true),
            (Some(&usage(&[(1, 10)])), true),
            (None, true),
            (Some(&before), false),
        ] {
            assert_eq!(Usage::shows_work(Some(&before), later), works);
        }
        assert!(!Usage::shows_work(None, None));
    }

    #[test]
    fn bytes_that_nobody_has_read_are_seen() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let ports = [address.port()];
        assert_eq!(are_read(&ports), Some(true));
        let mut client = TcpStream::connect(address).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        assert_eq!(are_read(&ports), Some(true));
        client.write_all(b"unread").unwrap();
        assert_eq!(are_read(&ports), Some(false));
        std::io::Read::read_exact(&mut server, &mut [0; 6]).unwrap();
        let is_read = (0..100_000).any(|_| are_read(&ports) == Some(true));
        assert!(is_read);
    }
}
