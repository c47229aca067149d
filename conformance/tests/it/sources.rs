//! The sources of scenarios: every file, test and identifier that they name is one of upstream's.
//!
//! `conformance/sources.txt` has the names, each with the place where it was found. To look them up again, set
//! `KUBEPROOF_UPSTREAM` to the source trees of Kubernetes and OpenKruise, with a colon between.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use kubeproof::scenario::ScenarioFile;
use kubeproof::suite;
use regex::Regex;

/// Trees of source code: where names are looked up.
const TREES: &str = "KUBEPROOF_UPSTREAM";
/// The directories of a tree with its code.
const CODE: [&str; 9] = [
    "apis",
    "cmd",
    "config",
    "docs",
    "pkg",
    "plugin",
    "staging",
    "test",
    "vendor/k8s.io",
];
/// Words before the title of a page, which is in no tree.
const PAGES: [&str; 4] = ["documentation", "document", "docs", "concepts"];
/// Names with capitals that are no identifiers of upstream's code.
const PROPER: [&str; 5] = [
    "OpenKruise",
    "CronJob",
    "CloneSet",
    "StatefulSet",
    "ReplicaSet",
];

static QUOTED: LazyLock<Regex> = LazyLock::new(|| Regex::new("\"([^\"]+)\"").expect("a regex"));
static FILE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[A-Za-z0-9_/.-]+\.(?:go|yaml|md)\b").expect("a regex"));
static IDENTIFIER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b[A-Za-z]+[a-z0-9][A-Z][A-Za-z0-9]*\b").expect("a regex"));

/// What a source names: files, quoted titles and identifiers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cited {
    File(String),
    Title(String),
    Identifier(String),
}

impl Cited {
    /// The line of the list without the place.
    fn line(&self) -> String {
        match self {
            Self::File(name) => format!("file {name}"),
            Self::Title(title) => format!("title {title}"),
            Self::Identifier(name) => format!("identifier {name}"),
        }
    }

    /// The place in the text of the file at `path`, if it is there.
    fn is_in(&self, path: &str, text: &str) -> bool {
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        match self {
            Self::File(name) => path == name || path.ends_with(&format!("/{name}")),
            Self::Title(title) => text.contains(title),
            Self::Identifier(name) => text.match_indices(name.as_str()).any(|(at, _)| {
                !is_word(text[..at].chars().next_back())
                    && !is_word(text[at + name.len()..].chars().next())
            }),
        }
    }
}

fn cited(source: &str) -> BTreeSet<Cited> {
    let mut cited = BTreeSet::new();
    let mut rest = source.to_owned();
    let mut is_page = false;
    let mut end = 0;
    for found in QUOTED.captures_iter(source) {
        let whole = found.get(0).expect("the whole match");
        let before = source[end..whole.start()].trim();
        // Further titles after a comma are of the same kind.
        is_page = PAGES.iter().any(|page| before.ends_with(page)) || (is_page && before == ",");
        end = whole.end();
        if !is_page {
            cited.insert(Cited::Title(found[1].to_owned()));
        }
        rest = rest.replacen(whole.as_str(), "", 1);
    }
    cited.extend(
        FILE.find_iter(&rest)
            .map(|file| Cited::File(file.as_str().to_owned())),
    );
    let rest = FILE.replace_all(&rest, "");
    let names = IDENTIFIER.find_iter(&rest).map(|name| name.as_str());
    let names = names.filter(|name| !PROPER.contains(name));
    cited.extend(names.map(|name| Cited::Identifier(name.to_owned())));
    cited
}

/// What all scenarios cite, each with the scenarios that do.
fn all() -> BTreeMap<Cited, Vec<String>> {
    let mut all: BTreeMap<Cited, Vec<String>> = BTreeMap::new();
    for path in suite::find(&suite::scenarios_dir()).expect("scenarios") {
        let file = ScenarioFile::read(&path).expect("a scenario");
        for cited in cited(&file.scenario.source) {
            all.entry(cited).or_default().push(file.name.clone());
        }
    }
    all
}

/// The files that are cited together with a name.
fn beside() -> BTreeMap<Cited, BTreeSet<Cited>> {
    let mut beside: BTreeMap<Cited, BTreeSet<Cited>> = BTreeMap::new();
    for path in suite::find(&suite::scenarios_dir()).expect("scenarios") {
        let file = ScenarioFile::read(&path).expect("a scenario");
        let cited = cited(&file.scenario.source);
        let files = cited.iter().filter(|own| matches!(own, Cited::File(_)));
        for own in &cited {
            let own = beside.entry(own.clone()).or_default();
            own.extend(files.clone().cloned());
        }
    }
    beside
}

fn list() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sources.txt")
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            files(&path, found);
        } else if path
            .extension()
            .is_some_and(|is| ["go", "md", "yaml"].iter().any(|known| is == *known))
        {
            found.push(path);
        }
    }
}

/// Looks up in the trees where each name is: in a file that is cited with it, or else in the first that has it.
fn look_up(trees: &str, wanted: &BTreeMap<Cited, BTreeSet<Cited>>) -> String {
    let mut places: BTreeMap<&Cited, (bool, String)> = BTreeMap::new();
    for tree in trees.split(':') {
        let mut found = Vec::new();
        for code in CODE {
            files(&Path::new(tree).join(code), &mut found);
        }
        for path in found {
            let Ok(text) = std::fs::read_to_string(&path) else {
                continue;
            };
            let relative = path
                .strip_prefix(tree)
                .unwrap_or(&path)
                .display()
                .to_string();
            for (cited, beside) in wanted {
                let is_beside = beside.iter().any(|file| file.is_in(&relative, ""));
                let known = places.get(cited).map(|(is_beside, _)| *is_beside);
                let is_better = known.is_none_or(|known| is_beside && !known);
                if is_better && cited.is_in(&relative, &text) {
                    places.insert(cited, (is_beside, relative.clone()));
                }
            }
        }
    }
    let lines = places
        .iter()
        .map(|(cited, (_, place))| format!("{}\t{place}\n", cited.line()));
    lines.collect()
}

#[test]
fn what_sources_name_is_upstream() {
    let wanted = all();
    if let Ok(trees) = std::env::var(TREES) {
        std::fs::write(list(), look_up(&trees, &beside())).expect("the list can be written");
    }
    let list = std::fs::read_to_string(list()).expect("the list");
    let known: BTreeSet<&str> = list
        .lines()
        .filter_map(|line| Some(line.split_once('\t')?.0))
        .collect();
    let unknown: Vec<String> = wanted
        .iter()
        .filter(|(cited, _)| !known.contains(cited.line().as_str()))
        .map(|(cited, by)| format!("{}: {}", by.join(", "), cited.line()))
        .collect();
    assert!(
        unknown.is_empty(),
        "not found upstream:\n{}",
        unknown.join("\n")
    );
    let cited: BTreeSet<String> = wanted.keys().map(Cited::line).collect();
    let unused: Vec<&str> = known
        .into_iter()
        .filter(|line| !cited.contains(*line))
        .collect();
    assert!(
        unused.is_empty(),
        "nothing cites these any more: {unused:#?}"
    );
}

#[test]
fn files_titles_and_identifiers_are_told_apart() {
    let source = "kruise cloneset_scale.go createPods; e2e \"should scale\"; documentation \"Jobs\", \"TTL\"";
    let expected = [
        Cited::File("cloneset_scale.go".into()),
        Cited::Title("should scale".into()),
        Cited::Identifier("createPods".into()),
    ];
    assert_eq!(cited(source), BTreeSet::from(expected));
    let name = Cited::Identifier("createPods".into());
    assert!(name.is_in("a.go", "func createPods() {"));
    assert!(!name.is_in("a.go", "func createPodsNow() {"));
}
