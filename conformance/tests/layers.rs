//! The modules of the API server are layers: each names only those below it. Those of the controllers form no circle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use regex::Regex;

/// The modules of `kubeproof-apiserver`, from the bottom up.
const LAYERS: &[&str] = &[
    "clock",
    "gvk",
    "status",
    "cancellation",
    "x509",
    "nesting",
    "meta",
    "schema",
    "storage",
    "cel",
    "patch",
    "field_manager",
    "yaml",
    "request",
    "suggestion",
    "fault",
    "registry",
    "metrics",
    "webhook",
    "cluster",
    "auth",
    "admission",
    "store",
    "apiextensions",
    "resource_quota",
    "type_checking",
    "invariant",
    "certificate_authority",
    "spdy",
    "kubelet",
    "endpoints",
    "server",
    "fuzzing",
];

/// Finds what a file names at the root of its crate.
struct Names {
    comment: Regex,
    /// A path that begins there.
    path: Regex,
    /// A group of paths that begin there.
    group: Regex,
}

impl Names {
    /// For files `depth` modules below the root.
    fn at(depth: usize) -> Self {
        let root = format!(r"\b(?:crate|{})::", vec!["super"; depth].join("::"));
        let compiled = |pattern: &str| Regex::new(pattern).expect("a regex");
        Self {
            comment: compiled("(?m)//.*$"),
            path: compiled(&format!(r"{root}(\w+)")),
            group: compiled(&format!(r"{root}\{{")),
        }
    }

    fn of(&self, text: &str) -> BTreeSet<String> {
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
        let code = self.comment.replace_all(code, "");
        let paths = self.path.captures_iter(&code);
        let mut found: BTreeSet<String> = paths.map(|own| own[1].to_owned()).collect();
        for start in self.group.find_iter(&code) {
            let (mut level, mut name) = (0, String::new());
            for letter in code[start.end()..].chars() {
                match letter {
                    '{' => level += 1,
                    '}' if level == 0 => break,
                    '}' => level -= 1,
                    ',' if level == 0 => found.extend(first(&std::mem::take(&mut name))),
                    _ if level == 0 => name.push(letter),
                    _ => {}
                }
            }
            found.extend(first(&name));
        }
        found
    }
}

fn first(path: &str) -> Option<String> {
    let name = path.trim().split([':', ' ']).next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// The sources of a member that are no tests, with their paths below `src`.
fn sources(member: &str) -> Vec<(PathBuf, String)> {
    let members = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = members.join(member).join("src");
    let (mut open, mut found) = (vec![root.clone()], Vec::new());
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).expect("the sources can be listed") {
            let path = entry.expect("an entry").path();
            let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
            if is_test {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("sources are text");
                let below = path.strip_prefix(&root).expect("below the root");
                found.push((below.to_owned(), text));
            }
        }
    }
    found.sort();
    found
}

/// The root items that each module at the root of a member names.
fn names_by_module(member: &str) -> BTreeMap<String, BTreeSet<String>> {
    let names: Vec<Names> = (0..8).map(Names::at).collect();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let sources = sources(member);
    assert!(sources.len() > 100, "{} sources", sources.len());
    for (path, text) in &sources {
        let module = path.components().next().expect("a file").as_os_str();
        let module = module.to_string_lossy();
        let module = module.trim_end_matches(".rs").to_owned();
        if module != "lib" {
            let named = names[path.components().count()].of(text);
            found.entry(module).or_default().extend(named);
        }
    }
    found
}

#[test]
fn modules_of_the_server_name_only_what_is_below_them() {
    let rank = |name: &str| LAYERS.iter().position(|own| *own == name);
    let mut upward = Vec::new();
    for (module, named) in names_by_module("apiserver") {
        let own = rank(&module).unwrap_or_else(|| panic!("{module} is in no layer"));
        let named = named.into_iter();
        let above = named.filter(|name| rank(name).is_some_and(|other| other > own));
        upward.extend(above.map(|name| format!("{module} names {name}")));
    }
    assert!(upward.is_empty(), "upward: {upward:#?}");
}

#[test]
fn modules_of_the_controllers_form_no_circle() {
    let mut left = names_by_module("controller");
    loop {
        let modules: BTreeSet<String> = left.keys().cloned().collect();
        let before = left.len();
        left.retain(|own, named| {
            named
                .iter()
                .any(|name| name != own && modules.contains(name))
        });
        if left.len() == before {
            break;
        }
    }
    assert!(left.is_empty(), "circles among: {:?}", left.keys());
}

#[test]
fn controllers_name_nothing_of_nodes_but_what_runs_there() {
    // OpenKruise's daemon runs on nodes; its controllers of images know how nodes call images.
    let runs_there = ["kruise", "image_pull_job", "manager", "node"];
    let reaching: Vec<String> = names_by_module("controller")
        .into_iter()
        .filter(|(module, named)| named.contains("node") && !runs_there.contains(&module.as_str()))
        .map(|(module, _)| module)
        .collect();
    assert!(reaching.is_empty(), "{reaching:?}");
}

#[test]
fn every_form_of_a_name_is_found() {
    let text = "
        use crate::server::Core;
        use crate::{endpoints, store::{Part, Store}, nesting as room};
        // crate::comment::x
        fn f() { crate::auth::authorize(); super::super::webhook::post(); super::sibling::f() }
        #[cfg(test)]\nmod tests { use crate::fuzzing; }";
    let found = Names::at(2).of(&text.replace("        #[cfg(test)]", "#[cfg(test)]"));
    let expected = ["auth", "endpoints", "nesting", "server", "store", "webhook"];
    assert_eq!(found, expected.map(str::to_owned).into());
}
