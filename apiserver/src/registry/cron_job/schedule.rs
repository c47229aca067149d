//! The syntax of a CronJob's schedule: five fields, or a descriptor.

/// Least and greatest value of each field, and the names that stand for values.
const FIELDS: [(u32, u32, &[&str]); 5] = [
    (0, 59, &[]),
    (0, 23, &[]),
    (1, 31, &[]),
    (
        1,
        12,
        &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    ),
    (0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];
const DESCRIPTORS: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];

/// What is wrong with a schedule. A zone within it is a relic that only a schedule that has one
/// already may keep.
pub(super) fn faults(schedule: &str, has_zone: bool, keeps_zone: bool) -> Vec<String> {
    let mut faults: Vec<String> = syntax_fault(schedule).into_iter().collect();
    if schedule.contains("TZ") {
        if has_zone {
            faults.push("cannot use both timeZone field and TZ or CRON_TZ in schedule".to_owned());
        } else if !keeps_zone {
            faults.push(
                "cannot use TZ or CRON_TZ in schedule, use timeZone field instead".to_owned(),
            );
        }
    }
    faults
}

fn syntax_fault(schedule: &str) -> Option<String> {
    let mut rest = schedule;
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        let (zone, fields) = schedule.split_once(' ')?;
        let zone = zone.split_once('=').map_or("", |(_, zone)| zone);
        if jiff::tz::TimeZone::get(zone).is_err() {
            return Some(format!(
                "provided bad location {zone}: unknown time zone {zone}"
            ));
        }
        rest = fields.trim();
    }
    if rest.starts_with('@') {
        let known = DESCRIPTORS.contains(&rest) || rest.starts_with("@every ");
        return (!known).then(|| format!("unrecognized descriptor: {rest}"));
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Some(format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            fields.join(" ")
        ));
    }
    fields.iter().zip(FIELDS).find_map(|(field, bounds)| {
        field
            .split(',')
            .filter(|range| !range.is_empty())
            .find_map(|range| range_fault(range, bounds))
    })
}

fn range_fault(range: &str, (least, greatest, names): (u32, u32, &[&str])) -> Option<String> {
    let parts: Vec<&str> = range.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let single = ends.len() == 1;
    let (start, mut end) = if matches!(ends[0], "*" | "?") {
        (least, greatest)
    } else {
        let value = |text: &str| value(text, least, names);
        match (value(ends[0]), ends.get(1).map(|end| value(end))) {
            (Err(fault), _) | (_, Some(Err(fault))) => return Some(fault),
            (Ok(start), None) => (start, start),
            (Ok(_), Some(Ok(_))) if ends.len() > 2 => {
                return Some(format!("too many hyphens: {range}"));
            }
            (Ok(start), Some(Ok(end))) => (start, end),
        }
    };
    let mut step = 1;
    match parts[..] {
        [_] => {}
        [_, own] => {
            match number(own) {
                Ok(own) => step = own,
                Err(fault) => return Some(fault),
            }
            if single {
                end = greatest;
            }
        }
        _ => return Some(format!("too many slashes: {range}")),
    }
    if start < least {
        Some(format!(
            "beginning of range ({start}) below minimum ({least}): {range}"
        ))
    } else if end > greatest {
        Some(format!(
            "end of range ({end}) above maximum ({greatest}): {range}"
        ))
    } else if start > end {
        Some(format!(
            "beginning of range ({start}) beyond end of range ({end}): {range}"
        ))
    } else if step == 0 {
        Some(format!(
            "step of range should be a positive number: {range}"
        ))
    } else {
        None
    }
}

fn value(text: &str, least: u32, names: &[&str]) -> Result<u32, String> {
    let named = names
        .iter()
        .zip(least..)
        .find_map(|(name, value)| name.eq_ignore_ascii_case(text).then_some(value));
    named.map_or_else(|| number(text), Ok)
}

fn number(text: &str) -> Result<u32, String> {
    let negative = text
        .strip_prefix('-')
        .is_some_and(|digits| digits.parse::<u32>().is_ok());
    if negative {
        return Err(format!("negative number ({text}) not allowed: {text}"));
    }
    text.parse().map_err(|_| {
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
    })
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
}
