//! `cargo xtask goldens`: the loop of reviewing goldens that a change makes differ.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use clap::Subcommand;
use similar::TextDiff;

/// The directory of goldens, from the root of the workspace.
const SNAPSHOTS: &str = "conformance/snapshots";
const GOLDEN: &str = "snap";
/// Extension of the files that a run leaves next to goldens that differ.
const PENDING: &str = "snap.new";

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Run the scenarios and list the goldens that differ (the default).
    Run {
        /// Only scenarios whose names match.
        #[arg(long, value_name = "REGEX")]
        only: Option<String>,
    },
    /// Print the difference of a golden, or of the first that is still to be reviewed.
    Show {
        /// Name of the scenario, such as statefulset/scale-up.
        name: Option<String>,
    },
    /// Take what these scenarios came to as their goldens. There is no way to take all.
    Accept {
        /// Names of scenarios.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Forget what these scenarios came to.
    Reject {
        /// Names of scenarios.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

/// Runs the task.
///
/// # Errors
/// A file cannot be read or written, or a name has nothing to review.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let goldens = Goldens(crate::root().join(SNAPSHOTS));
    match &args.action {
        None => run_scenarios(&goldens, None),
        Some(Action::Run { only }) => run_scenarios(&goldens, only.as_deref()),
        Some(Action::Show { name }) => {
            let name = match name {
                Some(name) => name.clone(),
                None => match goldens.pending()?.into_iter().next() {
                    Some(name) => name,
                    None => {
                        println!("no golden is to be reviewed");
                        return Ok(ExitCode::SUCCESS);
                    }
                },
            };
            print!("{}", goldens.diff(&name)?);
            println!("\naccept it with: cargo xtask goldens accept {name}");
            Ok(ExitCode::SUCCESS)
        }
        Some(Action::Accept { names }) => each(&goldens, names, "accepted", Goldens::accept),
        Some(Action::Reject { names }) => each(&goldens, names, "rejected", Goldens::reject),
    }
}

fn each(
    goldens: &Goldens,
    names: &[String],
    done: &str,
    act: impl Fn(&Goldens, &str) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    for name in names {
        act(goldens, name)?;
        println!("{done} {name}");
    }
    println!("{} still to be reviewed", goldens.pending()?.len());
    Ok(ExitCode::SUCCESS)
}

fn run_scenarios(goldens: &Goldens, only: Option<&str>) -> anyhow::Result<ExitCode> {
    let mut command = crate::ci::cargo();
    command.args([
        "run",
        "--release",
        "-p",
        "kubeproof",
        "--",
        "run",
        "--review",
    ]);
    if let Some(only) = only {
        command.args(["--only", only]);
    }
    let status = command.status().context("cannot start cargo")?;
    let pending = goldens.pending()?;
    // Scenarios that fail for another reason leave nothing to review, and have said why.
    if pending.is_empty() && !status.success() {
        bail!("the scenarios failed, and left nothing to review");
    }
    for name in &pending {
        println!("{name}");
    }
    println!("{} to be reviewed: cargo xtask goldens show", pending.len());
    Ok(match pending.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// A directory of goldens.
struct Goldens(PathBuf);

impl Goldens {
    /// The names of scenarios whose goldens are to be reviewed, sorted.
    fn pending(&self) -> anyhow::Result<Vec<String>> {
        let entries = std::fs::read_dir(&self.0);
        let entries = entries.with_context(|| format!("cannot list {}", self.0.display()))?;
        let mut names = Vec::new();
        for entry in entries {
            let file = entry?.file_name().to_string_lossy().into_owned();
            let name = file
                .strip_suffix(PENDING)
                .and_then(|name| name.strip_suffix('.'));
            names.extend(name.map(|name| name.replace("__", "/")));
        }
        names.sort();
        Ok(names)
    }

    /// The file with what the scenario came to, which is to be there, and its golden.
    fn files(&self, name: &str) -> anyhow::Result<(PathBuf, PathBuf)> {
        let file = |extension: &str| {
            self.0
                .join(format!("{}.{extension}", name.replace('/', "__")))
        };
        let pending = file(PENDING);
        ensure!(pending.is_file(), "nothing of {name} is to be reviewed");
        Ok((pending, file(GOLDEN)))
    }

    fn diff(&self, name: &str) -> anyhow::Result<String> {
        let (pending, golden) = self.files(name)?;
        let present = match golden.is_file() {
            true => read(&golden)?,
            false => String::new(),
        };
        let offered = read(&pending)?;
        let diff = TextDiff::from_lines(&present, &offered);
        let mut diff = diff.unified_diff();
        Ok(diff.header(name, "what it came to").to_string())
    }

    fn accept(&self, name: &str) -> anyhow::Result<()> {
        let (pending, golden) = self.files(name)?;
        let moved = std::fs::rename(&pending, &golden);
        moved.with_context(|| format!("cannot write {}", golden.display()))
    }

    fn reject(&self, name: &str) -> anyhow::Result<()> {
        let (pending, _) = self.files(name)?;
        let removed = std::fs::remove_file(&pending);
        removed.with_context(|| format!("cannot remove {}", pending.display()))
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of a test's own, with these files.
    fn goldens(test: &str, files: &[(&str, &str)]) -> Goldens {
        let dir = std::env::temp_dir().join(format!("xtask-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for (name, text) in files {
            std::fs::write(dir.join(name), text).unwrap();
        }
        Goldens(dir)
    }

    #[test]
    fn goldens_are_accepted_and_rejected_by_name() {
        let goldens = goldens(
            "accept",
            &[
                ("sea__sail.snap", "a\nb\n"),
                ("sea__sail.snap.new", "a\nc\n"),
                ("sea__row.snap.new", "d\n"),
                ("sea__same.snap", "e\n"),
            ],
        );
        assert_eq!(goldens.pending().unwrap(), ["sea/row", "sea/sail"]);
        let diff = goldens.diff("sea/sail").unwrap();
        assert!(diff.contains("-b\n+c\n"), "{diff}");
        assert!(goldens.diff("sea/row").unwrap().contains("+d\n"));
        goldens.accept("sea/sail").unwrap();
        goldens.reject("sea/row").unwrap();
        assert!(goldens.pending().unwrap().is_empty());
        assert_eq!(read(&goldens.0.join("sea__sail.snap")).unwrap(), "a\nc\n");
        assert!(goldens.accept("sea/same").is_err());
        std::fs::remove_dir_all(&goldens.0).unwrap();
    }
}
