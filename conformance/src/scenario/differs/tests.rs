//! The form of entries of `differs`, and the runs that they are about.

use super::*;

fn read(text: &str) -> Result<Differs, String> {
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

fn is_about(with: &str, plan: &str) -> bool {
    let entry = read(&format!("{{with: {with}, because: b}}")).unwrap();
    entry.with.is_about(&plan.parse().unwrap(), 0)
}

#[test]
fn a_pattern_fits_by_whole_values() {
    let plan =
        "crash-after update statefulsets.apps/status default/web #2 from statefulset-controller";
    for (pattern, fits) in [
        ("{fault: crash-after, verb: update}", true),
        ("{fault: crash-after, anywhere: true}", true),
        (
            "{fault: crash-after, resource: statefulsets.apps/status}",
            true,
        ),
        (
            "{fault: crash-after, name: web, from: statefulset-controller, occurrence: 2}",
            true,
        ),
        ("{fault: crash-before, verb: update}", false),
        ("{fault: crash-after, verb: patch}", false),
        ("{fault: crash-after, resource: statefulsets.apps}", false),
        ("{fault: crash-after, name: we}", false),
        ("{fault: crash-after, name: web, from: statefulset}", false),
        ("{fault: crash-after, name: web, occurrence: 1}", false),
    ] {
        assert_eq!(is_about(pattern, plan), fits, "{pattern}");
    }
    let missed = "miss MODIFIED pods default/web-0 from c";
    assert!(is_about("{fault: miss, event: MODIFIED}", missed));
    assert!(!is_about("{fault: miss, event: ADDED}", missed));
}

#[test]
fn a_plan_fits_as_a_whole_and_not_by_its_beginning() {
    let plan = "refuse create pods default/web-1 from c";
    assert!(is_about(plan, plan));
    assert!(is_about(
        plan,
        &format!("{plan}; conflict update pods default/a from c")
    ));
    assert!(!is_about(plan, "refuse create pods default/web-10 from c"));
    assert!(!is_about(
        plan,
        "refuse create pods default/web-1 #2 from c"
    ));
    let pair = format!("'{plan}; conflict update pods default/a from c'");
    assert!(!is_about(&pair, plan));
    assert!(is_about(
        &format!("['{plan}', {{fault: miss, event: ADDED}}]"),
        plan
    ));
}

#[test]
fn an_order_is_no_plan() {
    let entry = "{with: order, in: [{object: pod/a-*, fields: [NODE]}], because: b}";
    let entry = read(entry).unwrap();
    assert!(entry.with.is_about(&Plan::default(), 1));
    assert!(!entry.with.is_about(&Plan::default(), 0));
}

#[test]
fn what_excuses_too_much_or_nothing_is_refused() {
    let error = |with: &str| read(&format!("{{with: {with}, because: b}}")).unwrap_err();
    for (with, why) in [
        ("{fault: crash, verb: create}", "unknown variant `crash`"),
        ("{fault: miss}", "say `anywhere: true`"),
        ("{fault: miss, from: c}", "say `anywhere: true`"),
        (
            "{fault: miss, event: ADDED, anywhere: true}",
            "`anywhere` is for",
        ),
        ("{fault: miss, verb: create}", "name an `event`"),
        ("{fault: refuse, event: ADDED}", "name a `verb`"),
        ("{fault: miss, event: DELETED}", "tries no"),
        ("{fault: conflict, verb: create}", "tries no"),
        (
            "{fault: conflict, verb: update, occurrence: 0}",
            "counted from one",
        ),
        (
            "{fault: conflict, verb: update, object: a}",
            "unknown field `object`",
        ),
        ("crash-after create", "neither `order` nor an exact plan"),
        ("crash-after", "neither `order` nor an exact plan"),
        ("conflict create pods default/a from c", "tries no"),
        ("[]", "empty list"),
        ("order", "needs `in`"),
    ] {
        let message = error(with);
        assert!(message.contains(why), "{with}: {message}");
    }
    let plan = "refuse create pods default/web-1 from c";
    for (rest, why) in [
        ("because: ' '", "no reason"),
        (
            "because: b, in: [{object: pod, fields: [NODE]}]",
            "is not an object",
        ),
        (
            "because: b, in: [{object: pod/a*b, fields: [NODE]}]",
            "is not an object",
        ),
        (
            "because: b, in: [{object: pod/a, fields: []}]",
            "no `fields`",
        ),
        (
            "because: b, in: [{event: A, regarding: pod/a, atLeast: 2, atMost: 1}]",
            "no number",
        ),
        ("because: b, in: [{step: 1}]", "none of: an `object`"),
        (
            "because: b, in: [{failingStep: 1, event: A}]",
            "what may differ",
        ),
        (
            "because: b, in: [{violates: no write loops, step: 1}]",
            "what may differ",
        ),
    ] {
        let error = read(&format!("{{with: {plan}, {rest}}}")).unwrap_err();
        assert!(error.contains(why), "{rest}: {error}");
    }
}

#[test]
fn kinds_are_read_as_they_are_written() {
    for kind in Kind::ALL {
        let read: Kind = serde_json::from_value(kind.as_str().into()).unwrap();
        assert_eq!(read, kind);
    }
}

#[test]
fn an_entry_is_judged_when_all_that_it_is_about_was_run() {
    let faults = |with: &str| match read(&format!("{{with: {with}, because: b}}")).unwrap().with {
        With::Faults(faults) => faults[0].clone(),
        With::Order => panic!("{with} is an order"),
    };
    let kinds = |kinds: &[Kind]| kinds.iter().copied().collect::<BTreeSet<_>>();
    let from = |from: &[&str]| {
        from.iter()
            .map(|one| (*one).to_owned())
            .collect::<BTreeSet<_>>()
    };
    let pattern = faults("{fault: refuse, verb: create}");
    assert!(pattern.is_within(&kinds(&[]), &from(&[])));
    assert!(pattern.is_within(&kinds(&[Kind::Refuse]), &from(&[])));
    assert!(!pattern.is_within(&kinds(&[Kind::Conflict]), &from(&[])));
    assert!(
        !pattern.is_within(&kinds(&[]), &from(&["c"])),
        "others may explain it"
    );
    let of_client = faults("{fault: refuse, verb: create, from: c}");
    assert!(of_client.is_within(&kinds(&[]), &from(&["c", "d"])));
    assert!(!of_client.is_within(&kinds(&[]), &from(&["d"])));
    let plan = "refuse create pods default/web-1 from c";
    assert!(faults(plan).is_within(&kinds(&[]), &from(&["c"])));
    let pair = format!("'{plan}; refuse create pods default/web-2 from c'");
    assert!(
        !faults(&pair).is_within(&kinds(&[]), &from(&[])),
        "few pairs are run"
    );
}
