//! `kubeproof run --watch`: scenarios run again when a file changes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::Context as _;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::{RunArgs, once};
use crate::cli::out;
use crate::cli::program::files_in;

/// An editor writes a file in several steps; they are over when nothing has changed for this long.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs the scenarios, and then again and again those whose files have changed, or all after a change of a program.
///
/// # Errors
/// The files cannot be watched, or a run cannot report. A scenario that fails is no error.
pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let programs: BTreeSet<PathBuf> = args
        .program
        .commands()
        .iter()
        .flat_map(|command| files_in(command))
        .collect();
    // Before the first run, so that a change during it counts.
    let (_watcher, changes) = watch(args.chosen.roots(), &programs)?;
    once(args, args.chosen.present()?)?;
    loop {
        out::note("waiting for changes; Ctrl-C ends");
        let again = loop {
            let changed = next(&changes)?;
            // A file that cannot be read now is being written, or gone.
            let chosen = args.chosen.present().unwrap_or_default();
            let again = affected(&changed, chosen, &programs);
            if !again.is_empty() {
                break again;
            }
        };
        once(args, again)?;
    }
}

/// Watches the scenarios below `roots`, and the directories of the programs: a file that is replaced is another file.
fn watch(
    roots: &[PathBuf],
    programs: &BTreeSet<PathBuf>,
) -> anyhow::Result<(RecommendedWatcher, Receiver<PathBuf>)> {
    let (sender, changes) = mpsc::channel();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Runs read the files, which is an event, too. An error is a lost event, and the next change counts.
        let event = event.ok().filter(|event| !event.kind.is_access());
        for path in event.into_iter().flat_map(|event| event.paths) {
            // The receiver is gone when the program ends.
            let _ = sender.send(path);
        }
    })?;
    let roots = roots.iter().map(|root| root.canonicalize());
    let roots: Vec<PathBuf> = roots.collect::<Result<_, _>>().context("cannot watch")?;
    let (directories, files): (Vec<&PathBuf>, Vec<&PathBuf>) =
        roots.iter().partition(|root| root.is_dir());
    let parents: BTreeSet<&Path> = files
        .into_iter()
        .chain(programs)
        .filter_map(|file| file.parent())
        .collect();
    for (path, mode) in directories
        .into_iter()
        .map(|path| (path.as_path(), RecursiveMode::Recursive))
        .chain(
            parents
                .into_iter()
                .map(|path| (path, RecursiveMode::NonRecursive)),
        )
    {
        let watched = watcher.watch(path, mode);
        watched.with_context(|| format!("cannot watch {}", path.display()))?;
    }
    Ok((watcher, changes))
}

/// Waits for a change, and returns the files that have changed when no more follow.
fn next(changes: &Receiver<PathBuf>) -> anyhow::Result<BTreeSet<PathBuf>> {
    let mut changed = BTreeSet::from([changes.recv().context("files are no longer watched")?]);
    loop {
        match changes.recv_timeout(PAUSE) {
            Ok(path) => drop(changed.insert(path)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(changed),
        }
    }
}

/// The scenarios of `chosen` that run again after a change of the files `changed`.
fn affected(
    changed: &BTreeSet<PathBuf>,
    chosen: Vec<PathBuf>,
    programs: &BTreeSet<PathBuf>,
) -> Vec<PathBuf> {
    if !changed.is_disjoint(programs) {
        return chosen;
    }
    let has_changed = |path: &PathBuf| {
        path.canonicalize()
            .is_ok_and(|path| changed.contains(&path))
    };
    chosen.into_iter().filter(has_changed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_a_program_runs_everything_and_of_a_scenario_itself() {
        let file = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let (manifest, build) = (file("Cargo.toml"), file("build.rs"));
        let chosen = vec![manifest.clone(), build.clone()];
        let programs = BTreeSet::from([file("operator")]);
        let affected = |changed: &[PathBuf]| {
            let changed = changed.iter().cloned().collect();
            super::affected(&changed, chosen.clone(), &programs)
        };
        assert_eq!(affected(&[file("operator")]), chosen);
        assert_eq!(affected(&[build.clone(), file("other")]), [build]);
        assert!(affected(&[file("other")]).is_empty());
    }
}
