//! The modules of the API server and of the harness are layers: each names only those below it. In the crates of
//! controllers, of the machinery and of storage, the modules of no folder form a circle, and each folder of controllers
//! names only the folders listed for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

/// The modules of `kubeproof-machinery`, from the bottom up.
const MACHINERY_LAYERS: &[&str] = &[
    "json",
    "clock",
    "gvk",
    "status",
    "cancellation",
    "x509",
    "nesting",
    "meta",
    "schema",
    "patch",
    "field_manager",
    "yaml",
    "request",
    "suggestion",
    "int_or_percent",
    "pod_resources",
    "cron",
];

/// The modules of `kubeproof-apiserver`, from the bottom up.
const SERVER_LAYERS: &[&str] = &[
    "fault",
    "metrics",
    "audit",
    "webhook",
    "api_services",
    "metric_values",
    "cluster",
    "usage",
    "auth",
    "admission",
    "store",
    "apiextensions",
    "aggregator",
    "resource_quota",
    "type_checking",
    "device_selection",
    "invariant",
    "certificate_authority",
    "spdy",
    "kubelet",
    "endpoints",
    "server",
    "fuzzing",
];

/// The modules of `kubeproof`, library and program, from the bottom up.
const HARNESS_LAYERS: &[&str] = &[
    "causes",
    "user_agent",
    "threads",
    "time",
    "credentials",
    "in_process",
    "quota_usage",
    "type_checking",
    "device_selection",
    "nodes",
    "wire",
    "table",
    "generated",
    "heartbeat",
    "api",
    "refusals",
    "timeline",
    "fold",
    "outcome",
    "properties",
    "kruise",
    "fault_plan",
    "incident",
    "scenario",
    "log",
    "recording",
    "quiescence",
    "testbed",
    "first_scenario",
    "runner",
    "replay",
    "explore",
    "shrink",
    "suite",
    "report",
    "served",
    "rbac",
    "upgrade",
    "exchange",
    "cli",
    "main",
];

/// The folders of `kubeproof-controller`, each with the folders that its modules may name.
const FOLDERS: &[(&str, &[&str])] = &[
    ("workload", &[]),
    ("admissionregistration", &[]),
    ("apps", &["workload"]),
    ("autoscaling", &[]),
    ("batch", &["workload"]),
    ("certificates", &[]),
    ("cloud", &[]),
    ("core", &[]),
    ("garbage_collector", &[]),
    ("kruise", &["workload"]),
    ("networking", &[]),
    ("policy", &[]),
    ("rbac", &[]),
    ("resource", &[]),
];

/// The crate of nodes, which few controllers name.
const NODE: &str = "kubeproof_node";

/// The modules that name one more folder, or nodes.
const CROSSINGS: &[(&str, &str)] = &[
    // A ReplicationController is a ReplicaSet with a simpler selector.
    ("core::replication_controller", "apps"),
    // OpenKruise's daemon runs on nodes; its controller of pulls knows how nodes call images.
    ("kruise::daemon", NODE),
    ("kruise::image_pull_job", NODE),
];

/// The modules above the folders; they may name all, and nodes.
const ABOVE: &[&str] = &["credentials", "error", "manager"];

/// The path of a module below the root of its crate.
type ModulePath = Vec<String>;

/// The paths that `module` names in `text`, from the root of its crate; of other crates of the workspace the name only. A
/// program calls its library by name.
fn named(text: &str, module: &[String]) -> BTreeSet<ModulePath> {
    static COMMENT: LazyLock<Regex> = LazyLock::new(|| Regex::new("(?m)//.*$").expect("a regex"));
    static CRATE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\bkubeproof_\w+").expect("a regex"));
    static START: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\b(crate|kubeproof|super(?:::super)*)::").expect("a regex"));
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
    let code = COMMENT.replace_all(code, "");
    let crates = CRATE.find_iter(&code);
    let mut found: BTreeSet<ModulePath> = crates.map(|own| vec![own.as_str().to_owned()]).collect();
    for start in START.captures_iter(&code) {
        let whole = start.get(0).expect("the match");
        let ups = start[1].matches("super").count();
        let below = match ups {
            0 => Some(0),
            ups => module.len().checked_sub(ups),
        };
        if let Some(below) = below {
            branches(&code[whole.end()..], &module[..below], &mut found);
        }
    }
    found
}

/// Adds the paths of a `use` tree that begins with `text` below `root`.
fn branches(text: &str, root: &[String], found: &mut BTreeSet<ModulePath>) {
    let text = text.trim_start();
    if let Some(group) = text.strip_prefix('{') {
        for item in items(group) {
            branches(item, root, found);
        }
        return;
    }
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    let mut path = root.to_vec();
    if !name.is_empty() {
        path.push(name.to_owned());
    }
    match rest.strip_prefix("::") {
        Some(rest) if !name.is_empty() => branches(rest, &path, found),
        _ => _ = found.insert(path),
    }
}

/// The items of a group, up to its closing brace.
fn items(group: &str) -> Vec<&str> {
    let (mut level, mut start, mut found) = (0, 0, Vec::new());
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => level += 1,
            '}' if level > 0 => level -= 1,
            ',' | '}' if level == 0 => {
                found.extend(Some(&group[start..at]).filter(|item| !item.trim().is_empty()));
                start = at + 1;
                if letter == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    found
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

/// The members of the workspace that have sources: one has tests alone, and one has fuzz targets.
fn members() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).expect("the manifest is text");
    let members = manifest.lines().find(|line| line.starts_with("members = "));
    let quoted = members.expect("a list of members").split('"');
    let found = quoted.skip(1).step_by(2).map(str::to_owned);
    let found: Vec<String> = found
        .filter(|member| root.join(member).join("src").is_dir())
        .collect();
    assert!(found.len() >= 10, "{found:?}");
    found
}

/// Every module of a member, with the paths that it names.
fn modules(member: &str) -> BTreeMap<ModulePath, BTreeSet<ModulePath>> {
    let sources = sources(member);
    assert!(sources.len() >= 5, "{} sources", sources.len());
    let mut found = BTreeMap::new();
    for (path, text) in &sources {
        let parts = path.with_extension("");
        let parts = parts.iter().map(|part| part.to_string_lossy().into_owned());
        let module: ModulePath = parts.collect();
        if module != ["lib"] {
            let named = named(text, &module);
            found.insert(module, named);
        }
    }
    found
}

/// The modules directly below `folder`, each with what it names there.
fn names_below(
    modules: &BTreeMap<ModulePath, BTreeSet<ModulePath>>,
    folder: &[String],
) -> BTreeMap<String, BTreeSet<String>> {
    let below = |path: &ModulePath| path.strip_prefix(folder)?.first().cloned();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (module, named) in modules {
        if let Some(name) = below(module) {
            let named = named.iter().filter_map(below);
            found.entry(name).or_default().extend(named);
        }
    }
    found
}

/// The modules directly below `folder` that form circles, or connect two of them.
fn circles(
    modules: &BTreeMap<ModulePath, BTreeSet<ModulePath>>,
    folder: &[String],
) -> BTreeSet<String> {
    let mut left = names_below(modules, folder);
    loop {
        let names: BTreeSet<String> = left.keys().cloned().collect();
        let is_named = |own: &String| {
            let mut others = left.iter().filter(|(other, _)| *other != own);
            others.any(|(_, named)| named.contains(own))
        };
        let named: BTreeSet<String> = names.iter().filter(|own| is_named(own)).cloned().collect();
        let names_other = |own: &String, named_by: &BTreeSet<String>| {
            let mut others = named_by.iter().filter(|name| *name != own);
            others.any(|name| names.contains(name))
        };
        left.retain(|own, named_by| named.contains(own) && names_other(own, named_by));
        if left.len() == names.len() {
            return names;
        }
    }
}

/// The root of a member, and every folder below it.
fn folders(modules: &BTreeMap<ModulePath, BTreeSet<ModulePath>>) -> BTreeSet<ModulePath> {
    let above = |module: &ModulePath| -> Vec<ModulePath> {
        let lengths = 0..module.len();
        lengths.map(|length| module[..length].to_vec()).collect()
    };
    modules.keys().flat_map(above).collect()
}

/// The names above a module of `member`, each with the module that names it.
fn upward(member: &str, layers: &[&str]) -> Vec<String> {
    let rank = |name: &str| layers.iter().position(|own| *own == name);
    let mut upward = Vec::new();
    for (module, named) in names_below(&modules(member), &[]) {
        let own = rank(&module).unwrap_or_else(|| panic!("{module} is in no layer"));
        let named = named.into_iter();
        let above = named.filter(|name| rank(name).is_some_and(|other| other > own));
        upward.extend(above.map(|name| format!("{module} names {name}")));
    }
    upward
}

#[test]
fn modules_of_the_machinery_name_only_what_is_below_them() {
    let upward = upward("apiserver/machinery", MACHINERY_LAYERS);
    assert!(upward.is_empty(), "upward: {upward:#?}");
}

#[test]
fn modules_of_the_server_name_only_what_is_below_them() {
    let upward = upward("apiserver", SERVER_LAYERS);
    assert!(upward.is_empty(), "upward: {upward:#?}");
}

#[test]
fn modules_of_the_harness_name_only_what_is_below_them() {
    let upward = upward("conformance", HARNESS_LAYERS);
    assert!(upward.is_empty(), "upward: {upward:#?}");
}

#[test]
fn the_files_of_a_folder_form_no_circle() {
    let mut circular: Vec<(String, BTreeSet<String>)> = Vec::new();
    for member in members() {
        let modules = modules(&member);
        for folder in folders(&modules) {
            let circle = circles(&modules, &folder);
            if !circle.is_empty() {
                circular.push((format!("{member}: {}", folder.join("::")), circle));
            }
        }
    }
    assert!(circular.is_empty(), "{circular:#?}");
}

#[test]
fn controllers_name_only_the_folders_below_them() {
    let modules = modules("controller");
    let folders: BTreeMap<&str, &[&str]> = FOLDERS.iter().copied().collect();
    let is_known = |name: &str| folders.contains_key(name) || ABOVE.contains(&name) || name == NODE;
    let (mut wrong, mut crossed) = (Vec::new(), BTreeSet::new());
    for (module, named) in &modules {
        let (folder, path) = (module[0].as_str(), module.join("::"));
        assert!(is_known(folder), "{folder} is in no list");
        if ABOVE.contains(&folder) {
            continue;
        }
        let named = named.iter().filter_map(|path| path.first());
        let others = named.filter(|name| is_known(name) && *name != folder);
        for name in others.filter(|name| !folders[folder].contains(&name.as_str())) {
            let is_crossing = |(from, to): &&(&str, &str)| {
                let below = path.strip_prefix(from);
                to == name && below.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
            };
            match CROSSINGS.iter().find(is_crossing) {
                Some(crossing) => _ = crossed.insert(*crossing),
                None => wrong.push(format!("{path} names {name}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(crossed, CROSSINGS.iter().copied().collect(), "unused");
}

#[test]
fn a_circle_deep_in_a_folder_is_found() {
    let path = |text: &str| -> ModulePath { text.split("::").map(str::to_owned).collect() };
    let module = |own: &str, named: &[&str]| {
        let named = named.iter().map(|text| path(text)).collect();
        (path(own), named)
    };
    let modules = BTreeMap::from([
        module("core", &[]),
        module("core::volume", &["core::volume::binder::bind"]),
        module("core::volume::binder", &["core::volume::matching::best"]),
        module("core::volume::matching", &["core::volume::binder::Volumes"]),
        module("core::volume::mount", &["core::volume::binder::bind"]),
        module("core::volume::size", &["core::claim"]),
    ]);
    let found = folders(&modules).into_iter();
    let found: Vec<(String, BTreeSet<String>)> = found
        .map(|folder| (folder.join("::"), circles(&modules, &folder)))
        .filter(|(_, circle)| !circle.is_empty())
        .collect();
    let circle = ["binder", "matching"].map(str::to_owned);
    assert_eq!(found, [("core::volume".to_owned(), circle.into())]);
}

#[test]
fn every_form_of_a_name_is_found() {
    let text = "
        use crate::server::Core;
        use crate::{endpoints, store::{Part, state::{self, Store}}, nesting as room};
        // crate::comment::x
        use super::super::webhook::*;
        use kubeproof_node as node;
        fn f() { crate::auth::authorize(); super::sibling::f(); super::super::super::super::lost() }
        #[cfg(test)]\nmod tests { use crate::fuzzing; }";
    let module = ["a", "b", "c"].map(str::to_owned);
    let found = named(
        &text.replace("        #[cfg(test)]", "#[cfg(test)]"),
        &module,
    );
    let found: Vec<String> = found.iter().map(|path| path.join("::")).collect();
    let expected = [
        "a::b::sibling::f",
        "a::webhook",
        "auth::authorize",
        "endpoints",
        "kubeproof_node",
        "nesting",
        "server::Core",
        "store::Part",
        "store::state::Store",
        "store::state::self",
    ];
    assert_eq!(found, expected);
}
