use super::*;

fn after(schedule: &str, times: &[&str]) {
    let schedule = Schedule::parse(schedule).unwrap();
    let mut times = times.iter().map(|time| time.parse::<Timestamp>().unwrap());
    let mut at = times.next().unwrap();
    for time in times {
        assert_eq!(schedule.next(at), Some(time), "after {at}");
        at = time;
    }
}

#[test]
fn the_next_time_is_the_first_that_all_fields_allow() {
    after(
        "*/20 * * * *",
        &[
            "2026-01-01T00:00:30Z",
            "2026-01-01T00:20:00Z",
            "2026-01-01T00:40:00Z",
            "2026-01-01T01:00:00Z",
        ],
    );
    after(
        "30 2 * * *",
        &["2026-01-01T02:30:00Z", "2026-01-02T02:30:00Z"],
    );
    after(
        "@monthly",
        &[
            "2026-01-31T12:00:00Z",
            "2026-02-01T00:00:00Z",
            "2026-03-01T00:00:00Z",
        ],
    );
    after(
        "0 0 29 feb *",
        &["2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"],
    );
    after(
        "59 23 31 12 *",
        &[
            "2026-06-15T00:00:00Z",
            "2026-12-31T23:59:00Z",
            "2027-12-31T23:59:00Z",
        ],
    );
    after(
        "0 12 * * mon-fri",
        &["2026-01-02T12:00:00Z", "2026-01-05T12:00:00Z"],
    );
    after(
        "@every 90m",
        &[
            "2026-01-01T00:00:00.7Z",
            "2026-01-01T01:30:00Z",
            "2026-01-01T03:00:00Z",
        ],
    );
}

#[test]
fn of_two_days_given_either_is_enough_and_a_star_leaves_the_choice() {
    after(
        "0 0 13 * fri",
        &[
            "2026-03-07T00:00:00Z",
            "2026-03-13T00:00:00Z",
            "2026-03-20T00:00:00Z",
        ],
    );
    after(
        "0 0 */2 * fri",
        &["2026-03-01T00:00:00Z", "2026-03-03T00:00:00Z"],
    );
    after(
        "0 0 * * fri",
        &["2026-03-01T00:00:00Z", "2026-03-06T00:00:00Z"],
    );
}

#[test]
fn a_day_that_never_comes_has_no_time() {
    let never = Schedule::parse("59 23 31 2 *").unwrap();
    assert_eq!(never.next("2026-01-01T00:00:00Z".parse().unwrap()), None);
}

#[test]
fn times_are_in_the_zone_and_hours_that_clocks_skip_or_repeat_are_as_in_go() {
    after(
        "TZ=Asia/Tokyo 0 9 * * *",
        &["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"],
    );
    // Berlin skips 2:30 on 29 March, and has it twice on 25 October.
    after(
        "TZ=Europe/Berlin 30 2 * * *",
        &["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"],
    );
    after(
        "TZ=Europe/Berlin 30 2 * * *",
        &[
            "2026-10-24T00:30:00Z",
            "2026-10-25T00:30:00Z",
            "2026-10-25T01:30:00Z",
            "2026-10-26T01:30:00Z",
        ],
    );
    // Havana's days begin at one o'clock when summer does.
    after(
        "TZ=America/Havana 0 12 * * sun",
        &["2026-03-07T00:00:00Z", "2026-03-08T16:00:00Z"],
    );
    let utc = Schedule::parse("0 9 * * *").unwrap();
    let there = utc.in_zone(TimeZone::get("America/New_York").unwrap());
    let time = there.next("2026-07-01T00:00:00Z".parse().unwrap());
    assert_eq!(time, Some("2026-07-01T13:00:00Z".parse().unwrap()));
}

#[test]
fn what_is_wrong_is_said_in_upstreams_words() {
    let table = [
        ("@sometimes", "unrecognized descriptor: @sometimes"),
        ("bad", "expected exactly 5 fields, found 1: [bad]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        (
            "5-1 * * * *",
            "beginning of range (5) beyond end of range (1): 5-1",
        ),
        (
            "*/0 * * * *",
            "step of range should be a positive number: */0",
        ),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        (
            "x * * * *",
            "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            "TZ=Nowhere * * * * *",
            "provided bad location Nowhere: unknown time zone Nowhere",
        ),
        (
            "@every 5",
            "failed to parse duration @every 5: time: missing unit in duration \"5\"",
        ),
        (
            "@every 5d",
            "failed to parse duration @every 5d: time: unknown unit \"d\" in duration \"5d\"",
        ),
        (
            "@every x",
            "failed to parse duration @every x: time: invalid duration \"x\"",
        ),
    ];
    for (text, fault) in table {
        assert_eq!(
            Schedule::parse(text).unwrap_err().to_string(),
            fault,
            "{text}"
        );
    }
    for text in [
        "*/5 0-12 1,15 jan-DEC mon",
        "@daily",
        "@every 1h30m",
        "0 0 ? * *",
    ] {
        Schedule::parse(text).unwrap();
    }
}
