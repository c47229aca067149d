//! The scenarios that a command is about.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::Args;
use kubeproof::{scenario, suite};
use regex::Regex;

use super::{known, out};

#[derive(Args)]
pub(super) struct Chosen {
    /// Scenario files, or directories of them [default: the nearest `scenarios` or `conformance/scenarios`
    /// upwards from the working directory, else those this program was built with].
    #[arg(value_name = "SCENARIO.yaml|DIR")]
    paths: Vec<PathBuf>,
    /// Only scenarios whose name, AREA/NAME, matches.
    #[arg(long, value_name = "REGEX")]
    only: Option<Regex>,
}

impl Chosen {
    /// Chooses the scenarios at `path`, too.
    pub(super) fn add(&mut self, path: PathBuf) {
        self.paths.insert(0, path);
    }

    /// Chooses the default directory, and prints it, if nothing is chosen.
    pub(super) fn complete(&mut self) -> anyhow::Result<()> {
        if self.paths.is_empty() {
            self.paths.push(default_directory()?);
        }
        Ok(())
    }

    /// The files and directories that are chosen.
    pub(super) fn roots(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Returns the files, sorted within each given path. Without a path, prints the directory that is used.
    pub(super) fn files(mut self) -> anyhow::Result<Vec<PathBuf>> {
        self.complete()?;
        self.present()
    }

    /// Returns the files that are there now, sorted within each given path.
    pub(super) fn present(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for root in &self.paths {
            let cannot = || format!("cannot read {}", root.display());
            std::fs::metadata(root).with_context(cannot)?;
            let below = suite::find(root).with_context(cannot)?;
            ensure!(
                !below.is_empty(),
                "there is no scenario file (*.yaml) in {}",
                root.display()
            );
            found.extend(below);
        }
        let Some(only) = &self.only else {
            return Ok(found);
        };
        let names: Vec<String> = found.iter().map(|path| scenario::name(path)).collect();
        found.retain(|path| only.is_match(&scenario::name(path)));
        let names = names.iter().map(String::as_str);
        ensure!(
            !found.is_empty(),
            "{}",
            known::unknown("scenario that matches", only.as_str(), names)
        );
        Ok(found)
    }
}

fn default_directory() -> anyhow::Result<PathBuf> {
    let here = std::env::current_dir().context("there is no working directory")?;
    if let Some(nearest) = suite::nearest(&here) {
        out::note(&format!("scenarios: {}", nearest.display()));
        return Ok(nearest);
    }
    let built_with = suite::scenarios_dir();
    ensure!(
        built_with.is_dir(),
        "there is no directory `scenarios` with scenario files in {} or above it; name a file or directory",
        here.display()
    );
    out::note(&format!(
        "scenarios: {} (those this program was built with; there are none in {} or above it)",
        built_with.display(),
        here.display()
    ));
    Ok(built_with)
}
