//! The page that shows runs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;

use kubeproof::report::chart::MarkKind;
use kubeproof::report::matrix::{Cell, Diverged, Row};
use kubeproof::report::{Chart, Matrix, Page, ScenarioReport};
use kubeproof::runner::RunOptions;
use kubeproof::scenario::ScenarioFile;
use kubeproof::suite::{self, Update, Verdict};
use regex::Regex;

use crate::support::process::file;

fn report(scenario: &str) -> ScenarioReport {
    let path = suite::scenarios_dir().join(format!("{scenario}.yaml"));
    let checked = suite::check(&path, &RunOptions::default());
    ScenarioReport::of(&checked, 0)
}

/// A chart as text: lanes with their states, then marks.
fn in_words(chart: &Chart) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "width {}", chart.width);
    for (x, words) in &chart.steps {
        let _ = writeln!(text, "step {x} {words}");
    }
    for (title, places) in [("ticks", &chart.ticks), ("gaps", &chart.gaps)] {
        let places: Vec<String> = places
            .iter()
            .map(|(x, words)| format!("{x} {words}"))
            .collect();
        let _ = writeln!(text, "{title}: {}", places.join(", "));
    }
    for lane in &chart.lanes {
        let _ = writeln!(text, "\n{} {}", lane.kind, lane.name);
        for (from, to, shown) in &lane.spans {
            let deleting = if shown.is_deleting { " deleting" } else { "" };
            let phase = format!("{:?}", shown.phase).to_lowercase();
            let _ = writeln!(
                text,
                "  {from:>4} to {to:>4} {phase}{deleting} {}",
                shown.label
            );
        }
    }
    text.push('\n');
    for mark in &chart.marks {
        let lane = &chart.lanes[mark.lane];
        let kind = format!("{:?}", mark.kind).to_lowercase();
        let _ = writeln!(
            text,
            "{:>4} {:<14} {kind:<8} {:<5} {}: {}",
            mark.x,
            format!("{} {}", lane.kind, lane.name),
            mark.time,
            mark.actor,
            mark.what
        );
    }
    text.lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

#[test]
fn lanes_show_what_the_golden_has() {
    let one = report("statefulset/sts-ondelete-to-rolling");
    insta::assert_snapshot!("ondelete-to-rolling", in_words(&one.chart));
    // Every change in the timeline is a mark.
    let golden = one.transcript.unwrap();
    let (timeline, _) = golden.split_once("\noutcome\n").unwrap();
    let (_, timeline) = timeline.split_once("\ntimeline: ").unwrap();
    let timeline = timeline.split_once('\n').unwrap().1;
    let lines = timeline
        .lines()
        .filter(|line| line.starts_with("  +") || line.starts_with("► +"));
    // A change of the next sync at the beginning of a line comes after two spaces or more.
    let folded = timeline.matches(" · ").count() + timeline.matches(" ‖ ").count()
        - timeline.matches("  ‖ ").count();
    let listed = timeline.matches("web-{").count();
    assert_eq!(listed, 0, "no line is for several objects");
    assert_eq!(one.chart.marks.len(), lines.count() + folded);
}

#[test]
fn faults_refusals_and_silences_are_in_the_lanes() {
    let one = report("statefulset/sts-create-pod-error");
    insta::assert_snapshot!("create-pod-error", in_words(&one.chart));
}

const HOSTILE: &str =
    "\"><img src=x onerror=alert(1)></script><script>alert('2')</script><!-- {{data}} &amp;";

fn hostile() -> Page {
    let text = format!(
        "title: {title}\nsource: {title}\ngiven: {{nodes: 0, controllers: []}}\nsteps:\n- create:\n    \
         apiVersion: v1\n    kind: ConfigMap\n    metadata: {{name: a, annotations: {{x: {title}}}}}\n",
        title = serde_json::to_string(HOSTILE).unwrap()
    );
    let file = ScenarioFile::parse(format!("area/{HOSTILE}"), text, |_| Err(String::new()));
    let checked = suite::check_file(file.unwrap(), &RunOptions::default());
    assert!(
        matches!(checked.verdict, Verdict::Failed(_)),
        "it has no golden"
    );
    let diverged = Diverged {
        scenario: HOSTILE.to_owned(),
        plan: HOSTILE.to_owned(),
        others: 1,
        outcome: format!("-{HOSTILE}\n+b"),
        timelines: Some([HOSTILE.to_owned(), format!("{HOSTILE}\nb")]),
        replay: HOSTILE.to_owned(),
    };
    let cell = Cell {
        runs: 3,
        diverged: 1,
        explained: 1,
    };
    Page {
        scenarios: vec![ScenarioReport {
            log: Some(HOSTILE.to_owned()),
            ..ScenarioReport::of(&checked, 0)
        }],
        matrix: Some(Matrix {
            kinds: vec![HOSTILE.to_owned()],
            rows: vec![Row {
                scenario: HOSTILE.to_owned(),
                cells: vec![cell],
            }],
            divergences: vec![diverged],
        }),
        made_by: Some(HOSTILE.to_owned()),
    }
}

#[test]
fn no_text_becomes_markup() {
    let html = hostile().to_html();
    assert!(!html.contains("<img"), "an element out of a text");
    // The page's own scripts: one of data for the scenario, and the program.
    assert_eq!(html.matches("<script").count(), 2);
    assert_eq!(html.matches("</script").count(), 2);
    assert!(html.contains("&lt;img src=x onerror=alert(1)&gt;"));
    assert!(html.contains("\\u003c/script\\u003e"));
    let data = html.split("id=\"d0\">").nth(1).unwrap();
    let data = data.split("</script>").next().unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["source"], HOSTILE);
}

#[test]
fn nothing_in_a_page_refers_to_the_network() {
    let html = Page {
        scenarios: vec![report("statefulset/sts-create-ordered")],
        ..hostile()
    }
    .to_html();
    // Embedded data is shown as text, so that URLs in it are not references.
    let data = Regex::new("(?s)<script type=\"application/json\".*?</script>").unwrap();
    let own = data.replace_all(&html, "");
    for scheme in [
        "http:",
        "https:",
        "ws:",
        "//cdn",
        "@import",
        "fetch(",
        "XMLHttpRequest",
        "import(",
    ] {
        assert!(!own.contains(scheme), "{scheme}");
    }
    let reference = Regex::new(r#"\b(?:src|href|action|srcset|poster|data)="([^"]*)""#).unwrap();
    for found in reference.captures_iter(&own) {
        // A log's place is filled in by the program, and escaped there.
        let inside = found[1].starts_with('#') || found[1].starts_with("' + escaped(");
        assert!(inside, "{}", &found[0]);
    }
    let url = Regex::new(r"url\(([^)]*)\)").unwrap();
    assert!(
        url.captures_iter(&own)
            .all(|found| found[1].starts_with('#'))
    );
    assert!(own.contains("default-src 'none'"));
}

/// A scenario file of this test run that creates ConfigMaps of these names.
fn created(directory: &str, names: &[&str]) -> std::path::PathBuf {
    let mut text = "title: t\nsource: s\ngiven: {nodes: 0, controllers: []}\nsteps:\n".to_owned();
    for name in names {
        let _ = writeln!(
            text,
            "- create: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}"
        );
    }
    file(&format!("{directory}/a.yaml"), &text)
}

/// The data of the first scenario of a page.
fn data(page: &Page) -> serde_json::Value {
    let html = page.to_html();
    let data = html.split("id=\"d0\">").nth(1).unwrap();
    serde_json::from_str(data.split("</script>").next().unwrap()).unwrap()
}

#[test]
fn a_run_that_differs_from_its_golden_is_shown_beside_it() {
    let path = created("report-sides", &["a", "b", "c", "d", "e", "f", "g"]);
    let checked = suite::check(&path, &RunOptions::default());
    suite::update(&checked, Update::Accept).unwrap();
    let accepted = suite::check(&path, &RunOptions::default());
    assert_eq!(accepted.verdict, Verdict::Passed);
    assert_eq!(ScenarioReport::of(&accepted, 0).compared, None);
    let path = created("report-sides", &["a", "b", "c", "d", "e", "f", "h"]);
    let checked = suite::check(&path, &RunOptions::default());
    let one = ScenarioReport::of(&checked, 0);
    let [golden, run] = one.compared.as_ref().unwrap();
    assert_eq!((&*golden.title, &*run.title), ("Golden", "This run"));
    assert!(
        golden.text.contains("configmap g created") && run.text.contains("configmap h created")
    );
    // The two sides say it all.
    assert_eq!((&one.failure, &one.transcript), (&None, &None));
    let page = Page {
        scenarios: vec![one],
        ..Page::default()
    };
    let sides = data(&page)["sides"].as_str().unwrap().to_owned();
    assert!(
        sides.contains("configmap <b>g</b> created</del><ins>"),
        "{sides}"
    );
    assert!(
        sides.contains("equal lines <small>5. create configmap e"),
        "{sides}"
    );
    assert_eq!(sides.matches("configmap b created").count(), 1);
    let [accepted] = <[ScenarioReport; 1]>::try_from(page.scenarios).unwrap();
    let accepted = accepted.accepted();
    assert!(accepted.has_passed);
    assert_eq!(accepted.compared.unwrap()[0].title, "Golden before");
    // The rest of the message stays.
    let violated = suite::Checked {
        verdict: match checked.verdict {
            Verdict::Failed(diff) => Verdict::Failed(format!("a property is violated\n{diff}")),
            Verdict::Passed => unreachable!("the golden has another name"),
        },
        ..checked
    };
    let failure = ScenarioReport::of(&violated, 0).failure;
    assert_eq!(failure.as_deref(), Some("a property is violated"));
}

#[test]
fn the_timelines_of_a_difference_are_side_by_side() {
    let html = hostile().to_html();
    let (_, sides) = html.split_once("<h3>Timelines</h3>").unwrap();
    let (sides, _) = sides.split_once("</details>").unwrap();
    assert!(
        sides.starts_with(
            "<div class=\"sides\"><p class=\"heads\"><b>Without faults</b><b>With the faults</b>"
        ),
        "{sides}"
    );
    assert!(sides.contains("<div class=\"pair\"><span></span><ins>b</ins></div>"));
}

#[test]
fn the_same_runs_make_the_same_page() {
    let page = || Page {
        scenarios: vec![report("statefulset/sts-create-ordered")],
        ..Page::default()
    };
    assert_eq!(page().to_html(), page().to_html());
}

#[test]
fn what_a_fault_meets_at_once_is_one_mark() {
    let one = report("node/node-control-plane-down");
    let faults = one
        .chart
        .marks
        .iter()
        .filter(|mark| mark.kind == MarkKind::Fault);
    let faults: Vec<_> = faults.collect();
    // An outage of ten minutes that meets every watch and lease of a cluster again and again.
    assert!(faults.len() < 30, "{} marks", faults.len());
    let all: usize = faults.iter().map(|mark| mark.count).sum();
    assert!(all > 500, "{all} requests");
    let most = faults.iter().max_by_key(|mark| mark.count).unwrap();
    let more = format!("; and {} more", most.count - 4);
    assert!(
        most.what.starts_with("outage: ") && most.what.ends_with(&more),
        "{}",
        most.what
    );
    let places: Vec<u32> = faults.iter().map(|mark| mark.x).collect();
    assert!(places.is_sorted_by(|one, next| one < next), "{places:?}");
}

#[test]
fn openkruises_statefulsets_are_told_apart_from_the_others() {
    let kinds = |scenario: &str| -> Vec<String> {
        let lanes = report(scenario).chart.lanes.into_iter();
        lanes
            .map(|lane| lane.kind)
            .filter(|kind| kind.contains("statefulset"))
            .collect()
    };
    assert_eq!(kinds("asts/asts-rolling-default"), ["advanced statefulset"]);
    assert_eq!(kinds("statefulset/sts-create-ordered"), ["statefulset"]);
}

#[test]
fn failures_areas_and_what_made_the_page_are_at_its_top() {
    let mut failed = report("statefulset/sts-create-ordered");
    failed.has_passed = false;
    let page = Page {
        scenarios: vec![report("gc/gc-policy-switch"), failed],
        matrix: None,
        made_by: Some("kubeproof 1: run <all>".to_owned()),
    };
    let html = page.to_html();
    let (top, _) = html.split_once("<details class=\"one ").unwrap();
    for part in [
        "<a href=\"#failures\"><b class=\"bad\">1 failed</b></a>",
        "made by <code>kubeproof 1: run &lt;all&gt;</code>",
        "<h2 id=\"failures\">Failed</h2>",
        "<li><a href=\"#statefulset/sts-create-ordered\">",
        "<a href=\"#area:gc\">gc</a> <small>1</small>",
        "<details class=\"legend\">",
    ] {
        assert!(top.contains(part), "{part}");
    }
    assert!(!top.contains("<li><a href=\"#gc/"), "it has passed");
    assert!(html.contains("<h2 id=\"area:gc\">gc <small data-all=\"1\">1</small></h2>"));
    let page = Page {
        scenarios: vec![report("gc/gc-policy-switch")],
        ..Page::default()
    };
    let html = page.to_html();
    assert!(
        !html.contains("id=\"failures\"") && !html.contains("made by"),
        "nothing has failed"
    );
    assert!(!html.contains("class=\"areas\""), "there is one area");
}

#[test]
fn differences_of_an_exploration_are_at_the_top_and_the_first_is_open() {
    let html = hostile().to_html();
    let diverged = "1 failed</b></a>; 3 runs with faults, \
                    <a href=\"#exploration\"><b class=\"bad\">1 diverged</b></a>, 1 diverged as expected";
    assert!(html.contains(diverged), "{html}");
    assert!(html.contains("<h2 id=\"exploration\">"));
    assert!(html.contains(">1✗ 1≈ of 3</td>"), "{html}");
    assert!(html.contains("<details class=\"divergence\" open>"));
    let cell = Cell {
        runs: 3,
        ..Cell::default()
    };
    let same = Page {
        matrix: Some(Matrix {
            kinds: vec!["refuse".to_owned()],
            rows: vec![Row {
                scenario: "a/b".to_owned(),
                cells: vec![cell],
            }],
            divergences: Vec::new(),
        }),
        ..Page::default()
    };
    let html = same.to_html();
    assert!(
        html.contains("; 3 runs with faults, none diverged"),
        "{html}"
    );
    assert!(html.contains("<td title=\"3 runs, 0 diverged, 0 diverged as expected\">3</td>"));
}

#[test]
fn lanes_are_explained_where_there_are_some() {
    let with = report("gc/gc-policy-switch");
    let without = ScenarioReport {
        chart: Chart::default(),
        ..with.clone()
    };
    for (one, is_explained) in [(with, true), (without, false)] {
        let page = Page {
            scenarios: vec![one],
            ..Page::default()
        };
        let html = page.to_html();
        assert_eq!(html.contains("How to read the lanes"), is_explained);
    }
}
