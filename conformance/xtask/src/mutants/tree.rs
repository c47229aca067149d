//! A copy of the workspace, with mutants in its sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::mutant::{Mutant, Mutated, mutate};

/// What of the workspace a build needs.
const COPIED: [&str; 7] = [
    ".cargo",
    "Cargo.lock",
    "Cargo.toml",
    "apiserver",
    "conformance",
    "controller",
    "fixtures",
];

/// The module that chooses mutants, and the crate that it is added to.
const SWITCH: &str = include_str!("switch.rs");
const SWITCH_CRATE: &str = "controller/runtime";
/// Crates with mutants.
const CRATES: [&str; 3] = ["controller", "controller/node", "controller/runtime"];

/// The files below a directory, with slashes and sorted.
///
/// # Errors
/// A directory cannot be listed.
pub(crate) fn files(dir: &Path) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(below) = open.pop() {
        let dir = dir.join(&below);
        let entries = std::fs::read_dir(&dir);
        for entry in entries.with_context(|| format!("cannot list {}", dir.display()))? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            match entry.file_type()?.is_dir() {
                true if entry.file_name() == "target" => {}
                true => open.push(path),
                false => found.push(path.to_string_lossy().replace('\\', "/")),
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a text file.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Writes a file unless it has this content, so that cargo sees a change only where there is one.
fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    if std::fs::read(path).is_ok_and(|present| present == content) {
        return Ok(());
    }
    let parent = path.parent().context("a file has a directory")?;
    std::fs::create_dir_all(parent)?;
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

/// Copies the workspace at `root` to `tree`, and puts these mutants in, each with its number. Returns the sources that
/// have mutants.
///
/// # Errors
/// A file cannot be read or written.
pub(crate) fn copy(
    root: &Path,
    tree: &Path,
    mutants: &[(u32, &Mutant)],
) -> anyhow::Result<BTreeMap<String, Mutated>> {
    let mut by_file: BTreeMap<&str, Vec<(u32, &Mutant)>> = BTreeMap::new();
    for (number, mutant) in mutants {
        let of_file = by_file.entry(&mutant.file).or_default();
        of_file.push((*number, *mutant));
    }
    let mut copied = BTreeSet::new();
    let mut mutated = BTreeMap::new();
    for part in COPIED {
        let from = root.join(part);
        let paths = match from.is_dir() {
            true => files(&from)?,
            false => vec![String::new()],
        };
        for path in paths {
            let path = match path.as_str() {
                "" => part.to_owned(),
                path => format!("{part}/{path}"),
            };
            let from = root.join(&path);
            let to = tree.join(&path);
            let (prefix, suffix) = added(&path);
            let mutants = by_file.get(path.as_str());
            if mutants.is_none() && prefix.is_empty() {
                let content = std::fs::read(&from);
                let content = content.with_context(|| format!("cannot read {}", from.display()));
                write(&to, &content?)?;
            } else {
                let mutants = mutants.map(Vec::as_slice).unwrap_or_default();
                let mut one = mutate(&read(&from)?, mutants, switch(&path), prefix);
                one.text.push_str(suffix);
                write(&to, one.text.as_bytes())?;
                mutated.insert(path.clone(), one);
            }
            copied.insert(path);
        }
    }
    let switch = format!("{SWITCH_CRATE}/src/mutant.rs");
    write(&tree.join(&switch), SWITCH.as_bytes())?;
    copied.insert(switch);
    for path in files(tree)? {
        if !copied.contains(&path) {
            std::fs::remove_file(tree.join(path))?;
        }
    }
    Ok(mutated)
}

/// What goes before and after a source.
fn added(path: &str) -> (&'static str, &'static str) {
    let of_crate = |dir: &&&str| path.strip_prefix(**dir) == Some("/src/lib.rs");
    match CRATES.iter().find(of_crate) {
        // A mutant leaves variables unused and code unreachable.
        Some(&SWITCH_CRATE) => ("#![allow(warnings)]", "\npub mod mutant;\n"),
        Some(_) => ("#![allow(warnings)]", ""),
        None => ("", ""),
    }
}

/// The path of the switch in a source.
fn switch(path: &str) -> &'static str {
    match path.strip_prefix(SWITCH_CRATE) {
        Some(rest) if rest.starts_with('/') => "crate::mutant::is",
        _ => "kubeproof_runtime::mutant::is",
    }
}
