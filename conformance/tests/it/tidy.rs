//! The rules that files of this repository keep.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kubeproof::runner::remote::unportable;
use kubeproof::scenario::ScenarioFile;
use kubeproof::suite;
use regex::Regex;

/// Names of behaviors, one a line.
const KRUISE_CATALOG: &str = include_str!("../../kruise-catalog.txt");
/// The scenarios that OpenKruise 1.6 comes out of differently.
const KRUISE_1_6: &str = include_str!("../../kruise-1.6.yaml");
/// No line of a golden has more characters, and half of the goldens have no more lines.
const GOLDEN_WIDTH_MAX: usize = 200;
const GOLDEN_LINES_MEDIAN_MAX: usize = 40;
const SOURCE_LINES_MAX: usize = 599;
/// The source directories of the workspace's members.
const SOURCE_DIRS: &[&str] = &["src", "tests", "benches", "examples"];

fn scenarios() -> Vec<ScenarioFile> {
    let paths = suite::find(&suite::scenarios_dir()).expect("the scenarios can be listed");
    let read = paths
        .iter()
        .map(|path| ScenarioFile::read(path).expect("a scenario"));
    read.collect()
}

/// Every `.rs` file of every member, with its path from the root of the workspace.
fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a member has the workspace above it");
    let (outer, inner): (Vec<_>, Vec<_>) = entries(root)
        .into_iter()
        .filter(|member| member.join("Cargo.toml").is_file())
        .map(|member| (member.clone(), entries(&member)))
        .unzip();
    let mut open: Vec<PathBuf> = outer
        .into_iter()
        .chain(inner.into_iter().flatten())
        .filter(|member| member.join("Cargo.toml").is_file())
        .flat_map(|member| SOURCE_DIRS.iter().map(move |dir| member.join(dir)))
        .filter(|dir| dir.is_dir())
        .collect();
    let mut found = Vec::new();
    while let Some(dir) = open.pop() {
        for path in entries(&dir) {
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("sources are text");
                found.push((
                    path.strip_prefix(root).expect("below the root").to_owned(),
                    text,
                ));
            }
        }
    }
    found.sort();
    found
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("a directory that can be listed");
    entries
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

fn offenders(is_offender: impl Fn(&Path, &str) -> bool) -> Vec<PathBuf> {
    let sources = sources();
    assert!(!sources.is_empty(), "no sources found");
    let offending = sources
        .into_iter()
        .filter(|(path, text)| is_offender(path, text));
    offending.map(|(path, _)| path).collect()
}

#[test]
fn every_scenario_says_what_it_shows_and_where_that_comes_from() {
    let wanting: Vec<String> = scenarios()
        .into_iter()
        .filter(|file| {
            let scenario = &file.scenario;
            scenario.title.trim().is_empty() || scenario.source.trim().is_empty()
        })
        .map(|file| file.name)
        .collect();
    assert!(wanting.is_empty(), "without title or source: {wanting:?}");
}

#[test]
fn every_scenario_has_a_golden_and_every_golden_a_scenario() {
    let wanted: BTreeSet<String> = scenarios()
        .into_iter()
        .map(|file| format!("{}.snap", suite::snapshot_name(&file.name)))
        .collect();
    let found: BTreeSet<String> = entries(&suite::snapshots_dir())
        .into_iter()
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "snap")
        })
        .map(|path| {
            path.file_name()
                .expect("an entry has a name")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert_eq!(wanted, found, "scenarios on the left, goldens on the right");
}

#[test]
fn goldens_are_short() {
    let goldens: Vec<String> = entries(&suite::snapshots_dir())
        .into_iter()
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "snap")
        })
        .map(|path| std::fs::read_to_string(path).expect("a golden that can be read"))
        .collect();
    let wide: Vec<&str> = goldens
        .iter()
        .flat_map(|golden| golden.lines())
        .filter(|line| line.chars().count() > GOLDEN_WIDTH_MAX)
        .collect();
    assert!(wide.is_empty(), "too wide: {wide:#?}");
    let mut lengths: Vec<usize> = goldens
        .iter()
        .map(|golden| suite::content(golden).lines().count())
        .collect();
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2];
    assert!(
        median <= GOLDEN_LINES_MEDIAN_MAX,
        "the median golden has {median} lines"
    );
}

#[test]
fn every_behaviour_of_the_kruise_catalog_has_a_scenario() {
    let found: BTreeSet<String> = scenarios()
        .into_iter()
        .filter_map(|file| Some(file.name.rsplit_once('/')?.1.to_owned()))
        .collect();
    let shows = |name: &str, id: &str| {
        let rest = name.strip_prefix(id);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let ids = KRUISE_CATALOG.lines().filter(|line| !line.starts_with('#'));
    let (shown, missing): (Vec<&str>, Vec<&str>) =
        ids.partition(|id| found.iter().any(|name| shows(name, id)));
    assert!(missing.is_empty(), "without a scenario: {missing:?}");
    assert!(!shown.is_empty(), "the catalog is empty");
}

#[test]
fn what_differs_from_kruise_1_6_is_a_portable_scenario_and_has_a_reason() {
    let list: serde_json::Value = serde_saphyr::from_str(KRUISE_1_6).expect("it is YAML");
    let listed = list["scenarios"].as_array().expect("a list");
    let names: Vec<&str> = listed
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert!(
        names.is_sorted() && names.len() == listed.len(),
        "{names:?}"
    );
    let scenarios = scenarios();
    for one in listed {
        let name = one["name"].as_str().expect("a name");
        let mut found = scenarios.iter().filter(|file| file.name == name);
        let is_portable =
            found.any(|file| unportable(&file.scenario).is_none() && file.scenario.given.kruise);
        assert!(is_portable, "{name} is no portable scenario of OpenKruise");
        let cause = one["cause"].as_str().expect("a cause");
        assert!(
            ["order", "time", "version", "webhook"].contains(&cause),
            "{name}: {cause}"
        );
        let reason = one["because"].as_str().unwrap_or_default();
        assert!(!reason.is_empty(), "{name} has no reason");
    }
}

#[test]
fn each_spec_of_kruise_1_6_that_did_not_pass_at_once_is_accounted_for() {
    let list: serde_json::Value = serde_saphyr::from_str(KRUISE_1_6).expect("it is YAML");
    let groups = list["suite"].as_array().expect("a list");
    let mut runs = std::collections::BTreeMap::<&str, u64>::new();
    for group in groups {
        let number = |field: &str| group[field].as_u64().expect("a number");
        let others = group["others"].as_array().map_or(0, Vec::len);
        assert_eq!(number("run"), number("passed") + others as u64, "{group}");
        let manager = group["manager"].as_str().expect("a manager");
        *runs.entry(manager).or_default() += number("run");
    }
    assert_eq!(runs, [("1.6", 130), ("ours", 43)].into());
}

#[test]
fn every_source_file_says_what_it_is_for() {
    // `tests.rs` holds the unit tests of the module it belongs to, which says it.
    let silent = offenders(|path, text| !path.ends_with("tests.rs") && !text.starts_with("//!"));
    assert!(silent.is_empty(), "not beginning with //!: {silent:?}");
}

#[test]
fn no_source_file_is_too_long() {
    let long = offenders(|_, text| text.lines().count() > SOURCE_LINES_MAX);
    assert!(long.is_empty(), "over {SOURCE_LINES_MAX} lines: {long:?}");
}

/// Decoders that read values would double those that read texts, in each crate that has them.
#[test]
fn controllers_decode_objects_from_texts() {
    let valued = offenders(|path, text| {
        path.starts_with("controller") && text.contains("serde_json::from_value")
    });
    assert!(
        valued.is_empty(),
        "use kubeproof_runtime::decode: {valued:?}"
    );
}

/// Values of two types would be converted at each border, and `serde_json`'s take more work.
#[test]
fn the_server_has_one_type_of_values() {
    let theirs = Regex::new(r"serde_json::(json!|Value|Map|\{[^}]*\b(json|Value|Map)\b)").unwrap();
    let own = Path::new("apiserver/machinery/src/json");
    let other = offenders(|path, text| {
        path.starts_with("apiserver")
            && path.with_extension("") != own
            && !path.starts_with(own)
            && theirs.is_match(text)
    });
    assert!(other.is_empty(), "use kubeproof_machinery::json: {other:?}");
}

#[test]
fn no_module_is_called_mod_rs() {
    let named = offenders(|path, _| path.ends_with("mod.rs"));
    assert!(named.is_empty(), "{named:?}");
}

#[test]
fn contributing_says_where_every_embedded_data_file_is_from() {
    let text = include_str!("../../../CONTRIBUTING.md");
    let mut missing = BTreeSet::new();
    let mut found = 0;
    for (path, source) in sources() {
        let embedded = source
            .split("include_str!(\"")
            .chain(source.split("include_bytes!(\""));
        for rest in embedded {
            let name = rest.split('"').next().unwrap_or_default();
            let is_data = [".txt", ".json", ".jsonl"]
                .iter()
                .any(|end| name.ends_with(end));
            // The catalog of behaviors is this project's own, and names a scenario for each of them.
            if !is_data || path.ends_with("tidy.rs") || name.contains('\n') {
                continue;
            }
            found += 1;
            let file = path.with_file_name(name);
            if !text.contains(&file.display().to_string()) && !path.starts_with("conformance/xtask")
            {
                missing.insert(file);
            }
        }
    }
    assert!(found > 0, "nothing is embedded");
    assert!(missing.is_empty(), "not in CONTRIBUTING.md: {missing:?}");
}

#[test]
fn contributing_says_which_versions_are_needed_and_served() {
    let text = include_str!("../../../CONTRIBUTING.md");
    let compiler = format!("| Rust | {} or newer |", env!("CARGO_PKG_RUST_VERSION"));
    assert!(text.contains(&compiler), "{compiler}");
    let readme = include_str!("../../../README.md");
    let needed = format!("They need Rust {}:", env!("CARGO_PKG_RUST_VERSION"));
    assert!(readme.contains(&needed), "{needed}");
    let served = kubeproof::apiserver::KUBERNETES_VERSION;
    let (minor, _) = served.rsplit_once('.').expect("a patch version");
    let served = format!("| Kubernetes API | {minor}, as of {served} |");
    assert!(text.contains(&served), "{served}");
}

#[test]
fn readme_and_architecture_stay_short() {
    for (text, lines_max) in [
        (include_str!("../../../README.md"), 150),
        (include_str!("../../../ARCHITECTURE.md"), 199),
    ] {
        let lines = text.lines().count();
        assert!(
            lines <= lines_max,
            "{lines} of {lines_max}: {:?}",
            text.lines().next()
        );
    }
}

#[test]
fn a_create_and_a_watch_are_read_in_at_most_eight_files() {
    let text = include_str!("../../../ARCHITECTURE.md");
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("../apiserver");
    let paragraphs = text.split("\n\n");
    let lists: Vec<&str> = paragraphs
        .filter(|paragraph| paragraph.starts_with("Files of a "))
        .collect();
    assert_eq!(lists.len(), 2, "{lists:?}");
    for list in lists {
        let files: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
        assert!((2..=8).contains(&files.len()), "{files:?}");
        for file in files {
            let file = format!("{file}.rs");
            let found = [server.join("src"), server.clone()]
                .iter()
                .any(|folder| folder.join(&file).is_file());
            assert!(found, "{file} does not exist");
        }
    }
}
