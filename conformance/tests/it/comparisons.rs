//! Pages that compare one intent as a StatefulSet, an Advanced StatefulSet and a CloneSet, side by side, made of the
//! goldens of `scenarios/compare`. `INSTA_UPDATE=always` rewrites them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The page, its title, and a remark for its reader.
const PAGES: &[(&str, &str, &str)] = &[
    ("scale", "From three pods to five and to two", ""),
    ("update", "Another image, one pod at a time", ""),
    (
        "canary",
        "Another image for one pod, then for the others",
        "",
    ),
    (
        "parallel",
        "Another image, three pods at a time",
        " A StatefulSet goes one by one: its maxUnavailable is behind a gate.",
    ),
    (
        "skip",
        "Away with the second pod",
        " The pod of a StatefulSet comes back; an ordinal that is reserved does not.",
    ),
    (
        "in-place",
        "Another image, without another pod",
        " A StatefulSet can only replace its pods.",
    ),
];
const KINDS: &[(&str, &str)] = &[
    ("statefulset", "StatefulSet"),
    ("asts", "Advanced StatefulSet"),
    ("cloneset", "CloneSet"),
];

/// The sign before a line that shows what its scenario claims.
const MARK: &str = "► ";

/// What happens to every pod.
const ROUTINE: &[&str] = &["InPlaceUpdateReady", "Normal", "running", "stopped"];

/// The timeline of a step: lines by their time, in tenths of milliseconds.
#[derive(Default)]
struct Step {
    title: String,
    moments: BTreeMap<u64, (String, Vec<String>)>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The steps of a golden.
fn steps(golden: &str) -> Vec<Step> {
    let (_, timeline) = golden.split_once("\ntimeline:").expect("a timeline");
    let (timeline, _) = timeline.split_once("\noutcome").expect("an outcome");
    let mut steps: Vec<Step> = Vec::new();
    // A wide line continues on the next.
    let continued = regex::Regex::new("\n *↳ ").expect("a regular expression");
    for line in continued.replace_all(timeline, " ").lines().skip(1) {
        if line.starts_with(|first: char| first.is_ascii_digit()) {
            let (_, title) = line.split_once(". ").expect("a number");
            steps.push(Step {
                title: title.to_owned(),
                ..Step::default()
            });
        } else if let Some(change) = line.trim().trim_start_matches(MARK).strip_prefix('+') {
            let step = steps.last_mut().expect("a step");
            let (time, rest) = change.split_once(' ').expect("a time");
            let (who, what) = rest.trim().split_once(' ').expect("who did it");
            if who == "scenario" {
                continue;
            }
            for (time, what) in changes(time, what.trim()) {
                let moment = step.moments.entry(moment(&time)).or_default();
                moment.0 = format!("+{time}");
                moment.1.push(what);
            }
        }
    }
    steps
}

/// The changes of a line that a reader compares, each with its time: those of pods and of the set's status, without the
/// routine of every pod.
fn changes(time: &str, what: &str) -> Vec<(String, String)> {
    let what = what.trim_start_matches("‖ ").replace(" ‖ ", " · ");
    let what = what
        .replace("statefulset web ", "")
        .replace("cloneset sample ", "");
    let pod: Vec<&str> = what.split(' ').take(2).collect();
    let pod = pod.join(" ");
    let mut changes: Vec<(String, String)> = Vec::new();
    let mut time = time.to_owned();
    for (index, part) in what.split(" · ").enumerate() {
        let mut part = part;
        if let Some((later, rest)) = part.strip_prefix('+').and_then(|part| part.split_once(' ')) {
            (time, part) = (later.to_owned(), rest);
        }
        let is_counters = part.starts_with(|first: char| first.is_ascii_digit());
        if index == 0 {
            changes.push((time.clone(), part.to_owned()));
        } else if !pod.starts_with("pod ") {
            let noun = if is_counters { "status " } else { "" };
            changes.push((time.clone(), format!("{noun}{part}")));
        } else if !ROUTINE.contains(&part) {
            changes.push((time.clone(), format!("{pod} {part}")));
        }
    }
    changes
}

/// `1m2.5s` in tenths of milliseconds.
fn moment(time: &str) -> u64 {
    let (minutes, seconds) = time.split_once('m').unwrap_or(("0", time));
    let seconds = seconds.trim_end_matches('s');
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let number = |text: &str| text.parse::<u64>().expect("a number");
    (number(minutes) * 60 + number(whole)) * 10_000 + number(&format!("{fraction:0<4}"))
}

fn page(name: &str, title: &str, remark: &str) -> String {
    let columns: Vec<Vec<Step>> = KINDS
        .iter()
        .map(|(kind, _)| {
            let file = format!("snapshots/compare__compare-{name}-{kind}.snap");
            steps(&std::fs::read_to_string(root().join(file)).expect("a golden"))
        })
        .collect();
    let mut page = format!("# {title}\n\nMade of the goldens of `compare-{name}-*`.{remark}\n");
    for index in 0..columns[0].len() {
        page.push_str("\n<table>\n<tr><th></th>");
        for (_, kind) in KINDS {
            let _ = write!(page, "<th>{kind}</th>");
        }
        page.push_str("</tr>\n<tr><td></td>");
        for column in &columns {
            let _ = write!(page, "<td><code>{}</code></td>", column[index].title);
        }
        page.push_str("</tr>\n");
        let mut times: BTreeMap<u64, &str> = BTreeMap::new();
        for column in &columns {
            let moments = column[index].moments.iter();
            times.extend(moments.map(|(moment, (time, _))| (*moment, time.as_str())));
        }
        for (moment, time) in times {
            let _ = write!(page, "<tr valign=\"top\"><td>{time}</td>");
            for column in &columns {
                let moment = column[index].moments.get(&moment);
                let lines = moment.map(|(_, lines)| lines.join("<br>\n"));
                let _ = write!(page, "<td>{}</td>", lines.unwrap_or_default());
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</table>\n");
    }
    page
}

#[test]
fn pages_are_those_of_the_goldens() {
    let writes = std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always");
    let mut stale: Vec<PathBuf> = Vec::new();
    for (name, title, remark) in PAGES {
        let path = root().join(format!("comparisons/{name}.md"));
        let page = page(name, title, remark);
        if std::fs::read_to_string(&path).is_ok_and(|stored| stored == page) {
            continue;
        }
        if writes {
            std::fs::write(&path, page).expect("a page can be written");
        } else {
            stale.push(path);
        }
    }
    assert!(stale.is_empty(), "INSTA_UPDATE=always writes {stale:?}");
}
