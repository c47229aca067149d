//! The syntax of a CronJob's schedule: five fields, or a descriptor.

use kubeproof_machinery::cron::Schedule;

/// Returns the faults of a schedule. A time zone within the schedule is deprecated: only an update
/// of a schedule that already has a zone may keep it.
pub(super) fn faults(schedule: &str, has_zone: bool, keeps_zone: bool) -> Vec<String> {
    let syntax = Schedule::parse(schedule).err();
    let mut faults: Vec<String> = syntax.iter().map(ToString::to_string).collect();
    if schedule.contains("TZ") {
        if !keeps_zone {
            faults.push(
                "cannot use TZ or CRON_TZ in schedule, use timeZone field instead".to_owned(),
            );
        } else if has_zone {
            faults.push("cannot use both timeZone field and TZ or CRON_TZ in schedule".to_owned());
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_have_five_fields_in_their_bounds() {
        let table = [
            ("*/5 0-12 1,15 jan-DEC mon", ""),
            ("@daily", ""),
            ("@sometimes", "unrecognized descriptor: @sometimes"),
            ("bad", "expected exactly 5 fields, found 1: [bad]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ];
        for (schedule, want) in table {
            let fault = faults(schedule, false, false).pop().unwrap_or_default();
            assert_eq!(fault, want, "{schedule}");
        }
    }

    #[test]
    fn two_zones_are_named_only_for_a_schedule_that_had_one() {
        let fault = |keeps| {
            faults("TZ=UTC * * * * *", true, keeps)
                .pop()
                .unwrap_or_default()
        };
        let one = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        let two = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
        assert_eq!((fault(false).as_str(), fault(true).as_str()), (one, two));
    }
}
