//! The pages from which processes read their clocks without a stop.
//!
//! A page has three numbers of nanoseconds: the realtime and the monotonic clock without readings, and what readings have taken so far,
//! which the program counts itself. A clock shows the sum. The tracer only ever raises the second, so that the monotonic clock does not go
//! back.

use std::collections::BTreeMap;

use nix::errno::Errno;
use nix::unistd::Pid;

use super::clock::{Clock, Kind};
use super::memory;

/// The place of what readings have taken.
const READINGS: u64 = 16;

/// The pages by process.
#[derive(Debug, Default)]
pub(super) struct Pages {
    all: BTreeMap<i32, Page>,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    address: u64,
    /// The monotonic clock without readings.
    monotonic: i64,
}

impl Page {
    /// The time that readings of the process have taken so far.
    fn readings(self, process: i32) -> Result<i64, Errno> {
        let bytes = memory::read(Pid::from_raw(process), self.address + READINGS)?;
        Ok(i64::from_le_bytes(bytes))
    }
}

impl Pages {
    /// Adds the page at `address` of a process.
    pub(super) fn add(&mut self, process: i32, address: u64, clock: &Clock) {
        let page = Page {
            address,
            monotonic: i64::MIN,
        };
        self.all.insert(process, page);
        self.publish(process, clock);
    }

    /// A process has begun as a copy of another one.
    pub(super) fn copy(&mut self, from: i32, to: i32) {
        if let Some(page) = self.all.get(&from).copied() {
            self.all.entry(to).or_insert(page);
        }
    }

    /// Forgets a process that has ended or executes another program.
    pub(super) fn forget(&mut self, process: i32) {
        self.all.remove(&process);
    }

    /// Sets `clock` ahead of all clocks that programs have seen.
    pub(super) fn collect(&self, clock: &mut Clock) {
        for process in self.all.keys() {
            self.collect_from(*process, clock);
        }
    }

    /// Sets `clock` ahead of what this process has seen.
    pub(super) fn collect_from(&self, process: i32, clock: &mut Clock) {
        // A process that is about to end has no memory any more.
        if let Some(page) = self.all.get(&process)
            && let Ok(readings) = page.readings(process)
        {
            clock.shows_at_least(page.monotonic.saturating_add(readings));
        }
    }

    /// Shows `clock` to all processes.
    pub(super) fn publish_to_all(&mut self, clock: &Clock) {
        let processes: Vec<i32> = self.all.keys().copied().collect();
        for process in processes {
            self.publish(process, clock);
        }
    }

    /// Shows `clock` to a process.
    pub(super) fn publish(&mut self, process: i32, clock: &Clock) {
        let Some(page) = self.all.get_mut(&process) else {
            return;
        };
        let Ok(readings) = page.readings(process) else {
            return;
        };
        let [realtime, monotonic] =
            [Kind::Realtime, Kind::Monotonic].map(|kind| clock.now(kind).nanos);
        page.monotonic = page.monotonic.max(monotonic.saturating_sub(readings));
        let apart = realtime.saturating_sub(monotonic);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&page.monotonic.saturating_add(apart).to_le_bytes());
        bytes[8..].copy_from_slice(&page.monotonic.to_le_bytes());
        // As above.
        let _ = memory::write(Pid::from_raw(process), page.address, &bytes);
    }
}
