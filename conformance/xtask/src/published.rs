//! The crates that are published: members of the workspace without `publish = false`.

use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::root;

/// The crates that are published, in the order of the workspace's members: the directory of each below the root of the
/// workspace, and the content of its `Cargo.toml`.
///
/// # Errors
/// A manifest cannot be read.
pub(crate) fn manifests() -> anyhow::Result<Vec<(String, Value)>> {
    manifests_by(toml)
}

/// The crates that are published, by the function that reads a file of the repository.
fn manifests_by(
    read: impl Fn(&str) -> anyhow::Result<Value>,
) -> anyhow::Result<Vec<(String, Value)>> {
    let members = read("Cargo.toml")?["workspace"]["members"].clone();
    let members: Vec<String> = serde_json::from_value(members)?;
    let mut found = Vec::new();
    for directory in members {
        let manifest = read(&format!("{directory}/Cargo.toml"))?;
        if manifest["package"]["publish"] != false {
            found.push((directory, manifest));
        }
    }
    Ok(found)
}

/// The names of these crates.
///
/// # Errors
/// A manifest cannot be read, or has no name.
pub(crate) fn names() -> anyhow::Result<Vec<String>> {
    named(manifests()?)
}

/// The names of the crates that were published as of a revision.
///
/// # Errors
/// git does not know the revision, or a manifest has no name.
pub(crate) fn names_at(revision: &str) -> anyhow::Result<Vec<String>> {
    let read = |path: &str| {
        let mut git = Command::new("git");
        git.current_dir(root());
        git.arg("show").arg(format!("{revision}:{path}"));
        let output = git.output().context("cannot start git")?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "cannot read {path} of {revision}: {}",
            error.trim()
        );
        let text = String::from_utf8(output.stdout)?;
        basic_toml::from_str(&text).with_context(|| format!("{path} of {revision} is no TOML"))
    };
    named(manifests_by(read)?)
}

fn named(manifests: Vec<(String, Value)>) -> anyhow::Result<Vec<String>> {
    let named = manifests.into_iter().map(|(directory, manifest)| {
        let name = manifest["package"]["name"].as_str();
        Ok(name
            .with_context(|| format!("{directory} has no name"))?
            .to_owned())
    });
    named.collect()
}

/// The flags by which commands of cargo choose crates.
pub(crate) fn flags(names: &[String]) -> Vec<&str> {
    let flags = names.iter().flat_map(|name| ["--package", name.as_str()]);
    flags.collect()
}

/// A file of the repository in TOML.
///
/// # Errors
/// The file cannot be read, or is no TOML.
pub(crate) fn toml(path: &str) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(root().join(path));
    let text = text.with_context(|| format!("cannot read {path}"))?;
    basic_toml::from_str(&text).with_context(|| format!("{path} is no TOML"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_of_tests_and_tasks_are_not_published() {
        let names = names().unwrap();
        for (name, is_published) in [
            ("kubeproof", true),
            ("kubeproof-apiserver", true),
            ("kubeproof-apiserver-fuzz", false),
            ("kubeproof-apiserver-tests", false),
            ("xtask", false),
        ] {
            assert_eq!(names.contains(&name.to_owned()), is_published, "{name}");
        }
    }

    #[test]
    fn crates_are_chosen_by_name() {
        let names = ["a", "b"].map(str::to_owned);
        assert_eq!(flags(&names), ["--package", "a", "--package", "b"]);
    }
}
