//! Finds the due time of a schedule, and the delay until the next.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::CronJob;
use kubeproof_machinery::cron::Schedule;
use kubeproof_runtime::clock::{go_seconds, later};

use super::{DELTA, created};

/// More missed times than this are reported.
const MANY: i64 = 100;

/// The recent times of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recent {
    /// The time after which scheduled times count.
    since: Timestamp,
    /// The last time that is due, if any.
    pub(super) due: Option<Timestamp>,
    /// The approximate number of missed times.
    missed: i64,
}

impl Recent {
    pub(super) fn missed_many(self) -> bool {
        self.missed > MANY
    }
}

/// The schedule's times never come, or not in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub(super) struct NoTimes;

/// The last time that is due at `now`.
///
/// `is_late_allowed` leaves out `startingDeadlineSeconds`.
pub(super) fn recent(
    cron: &CronJob,
    now: Timestamp,
    schedule: &Schedule,
    is_late_allowed: bool,
) -> Result<Recent, NoTimes> {
    let status = cron.status.as_ref();
    let last = status.and_then(|status| status.last_schedule_time.as_ref());
    let mut since = last.map_or_else(|| created(cron), |time| time.0);
    let deadline = cron.spec.starting_deadline_seconds;
    if let Some(deadline) = deadline.filter(|_| !is_late_allowed) {
        since = since.max(later(now, -go_seconds(deadline)));
    }
    let first = schedule.next(since).ok_or(NoTimes)?;
    let found = |due, missed| Ok(Recent { since, due, missed });
    if now < first {
        return found(None, 0);
    }
    let second = schedule.next(first).ok_or(NoTimes)?;
    if now < second {
        return found(Some(first), 0);
    }
    let between = second.duration_since(first).as_secs();
    let missed = now.duration_since(first).as_secs() / between + 1;
    // Times may be uneven: one interval earlier than where the last one would be if they were even.
    let from = SignedDuration::from_secs((missed - 2) * between);
    let mut due = None;
    let mut next = first
        .checked_add(from)
        .ok()
        .and_then(|from| schedule.next(from));
    while let Some(time) = next.filter(|time| *time <= now) {
        due = Some(time);
        next = schedule.next(time);
    }
    found(due, missed)
}

/// The time until the schedule's next time.
pub(super) fn until_next(cron: &CronJob, now: Timestamp, schedule: &Schedule) -> Duration {
    let from = match recent(cron, now, schedule, true) {
        Ok(Recent { due: Some(due), .. }) => due,
        Ok(Recent {
            since, missed: 0, ..
        }) => since,
        Ok(_) | Err(NoTimes) => now,
    };
    let next = schedule.next(from).map(|next| next.duration_since(now));
    let wait = next.and_then(|wait| Duration::try_from(wait).ok());
    wait.unwrap_or(Duration::ZERO).saturating_add(DELTA)
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn cron(created: &str, last: Option<&str>, deadline: Option<i64>) -> CronJob {
        let mut cron: Value = json!({
            "metadata": {"name": "c", "creationTimestamp": created},
            "spec": {"schedule": "", "jobTemplate": {}, "startingDeadlineSeconds": deadline},
            "status": {},
        });
        cron["status"]["lastScheduleTime"] = json!(last);
        from_value(cron).unwrap()
    }

    fn at(time: &str) -> Timestamp {
        format!("2026-01-01T{time}Z").parse().unwrap()
    }

    #[test]
    fn the_last_time_that_is_due_counts_and_those_before_are_missed() {
        let hourly = Schedule::parse("0 * * * *").unwrap();
        let created = "2026-01-01T00:30:00Z";
        let table = [
            (None, None, "00:59:59", None, 0),
            (None, None, "01:00:00", Some("01:00:00"), 0),
            (None, None, "01:59:59", Some("01:00:00"), 0),
            (None, None, "03:10:00", Some("03:00:00"), 3),
            (Some("2026-01-01T03:00:00Z"), None, "03:10:00", None, 0),
            (
                Some("2026-01-01T01:00:00Z"),
                None,
                "03:10:00",
                Some("03:00:00"),
                2,
            ),
            (None, Some(600), "03:10:00", None, 0),
            (None, Some(601), "03:10:00", Some("03:00:00"), 0),
        ];
        for (last, deadline, now, due, missed) in table {
            let found = recent(&cron(created, last, deadline), at(now), &hourly, false).unwrap();
            let wanted = (due.map(at), missed);
            assert_eq!(
                (found.due, found.missed),
                wanted,
                "{last:?} {deadline:?} {now}"
            );
        }
        let minutely = Schedule::parse("* * * * *").unwrap();
        let found = recent(&cron(created, None, None), at("02:11:00"), &minutely, false).unwrap();
        assert_eq!(
            (found.due, found.missed_many()),
            (Some(at("02:11:00")), true)
        );
    }

    #[test]
    fn uneven_times_are_found_all_the_same() {
        let schedule = Schedule::parse("30 6-16/4 * * 1-5").unwrap();
        let cron = cron("2026-01-01T00:00:00Z", None, None);
        // A Monday, after a weekend without any.
        let now = "2026-01-05T11:00:00Z".parse().unwrap();
        let found = recent(&cron, now, &schedule, false).unwrap();
        assert_eq!(found.due, Some("2026-01-05T10:30:00Z".parse().unwrap()));
    }

    #[test]
    fn the_next_look_is_a_little_after_the_next_time() {
        let hourly = Schedule::parse("0 * * * *").unwrap();
        let wait =
            |last, now| until_next(&cron("2026-01-01T00:30:00Z", last, None), at(now), &hourly);
        assert_eq!(wait(None, "00:40:00"), Duration::from_secs(1200) + DELTA);
        assert_eq!(wait(None, "01:00:00"), Duration::from_secs(3600) + DELTA);
        assert_eq!(
            wait(Some("2026-01-01T01:00:00Z"), "01:00:00"),
            Duration::from_secs(3600) + DELTA
        );
    }

    #[test]
    fn a_schedule_without_times_is_a_fault() {
        let never = Schedule::parse("59 23 31 2 *").unwrap();
        let cron = cron("2026-01-01T00:00:00Z", None, None);
        assert_eq!(recent(&cron, at("01:00:00"), &never, false), Err(NoTimes));
        assert_eq!(until_next(&cron, at("01:00:00"), &never), DELTA);
    }
}
