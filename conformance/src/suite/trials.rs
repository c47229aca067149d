//! The scenarios of a directory as tests of any crate.

use std::path::{Path, PathBuf};

use libtest_mimic::{Arguments, Failed, Trial};

use super::{Update, Verdict};
use crate::runner::RunOptions;
use crate::testbed::ControllerUnderTest;

/// The scenarios of a directory, each of which becomes a test named by its path, `area/name`.
///
/// For a test target with `harness = false`; [`scenarios!`](crate::scenarios) writes its `main`.
#[derive(Debug)]
#[must_use]
pub struct Scenarios {
    directory: PathBuf,
    options: RunOptions,
}

/// Makes each scenario of a directory, named as seen from the crate's own, a test of the crate.
///
/// The given controllers run next to those that a scenario names; each is a user agent and a function that starts it
/// with a client. They restart where a scenario's fault crashes them.
///
/// A golden that is missing or differs fails its test and is left as `.snap.new` next to it for `cargo insta review`,
/// unless `CI` is set; `INSTA_UPDATE=always` writes goldens, `INSTA_UPDATE=no` nothing.
///
/// ```
/// // tests/scenarios.rs, whose target in Cargo.toml has `harness = false`.
/// kubeproof::scenarios!("scenarios", "idle-controller" => |client: kube::Client| async move {
///     let _ = client.apiserver_version().await;
///     std::future::pending::<()>().await
/// });
/// ```
#[macro_export]
macro_rules! scenarios {
    ($directory:literal $(, $user_agent:literal => $run:expr)* $(,)?) => {
        fn main() {
            $crate::Scenarios::of(concat!(env!("CARGO_MANIFEST_DIR"), "/", $directory))
                $(.controller($user_agent, $run))*
                .main()
        }
    };
}

impl Scenarios {
    /// Takes the scenarios at or below `directory`.
    pub fn of(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            options: RunOptions::default(),
        }
    }

    /// Adds a controller: `run` is given a client that signs its requests with `user_agent`, and is called again
    /// after each crash.
    pub fn controller<F>(
        mut self,
        user_agent: &'static str,
        run: impl Fn(kube::Client) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let controller = ControllerUnderTest::new(user_agent, run);
        self.options.under_test.push(controller);
        self
    }

    /// Runs the tests that the arguments of the process choose, and ends it.
    pub fn main(self) -> ! {
        let arguments = Arguments::from_args();
        let trials = self.trials();
        if trials.is_empty() {
            eprintln!(
                "there is no scenario file (*.yaml) in {}",
                self.directory.display()
            );
            std::process::exit(101);
        }
        libtest_mimic::run(&arguments, trials).exit()
    }

    fn trials(&self) -> Vec<Trial> {
        let paths = super::find(&self.directory).unwrap_or_default();
        let trials = paths.into_iter().map(|path| {
            let stem = path.with_extension("");
            let name = stem.strip_prefix(&self.directory).unwrap_or(&stem);
            let (name, options) = (name.display().to_string(), self.options.clone());
            Trial::test(name, move || check(&path, &options))
        });
        trials.collect()
    }
}

fn check(path: &Path, options: &RunOptions) -> Result<(), Failed> {
    let checked = super::check(path, options);
    let Verdict::Failed(why) = &checked.verdict else {
        return Ok(());
    };
    let asked = std::env::var("INSTA_UPDATE").unwrap_or_default();
    let is_ci = std::env::var_os("CI").is_some();
    let Some(update) = update_of(&asked, is_ci, checked.golden.is_some()) else {
        return Err(why.into());
    };
    let Some(wrote) = super::update(&checked, update)? else {
        return Err(why.into());
    };
    // `cargo insta test` asks about all of them at its end.
    if update == Update::Accept || std::env::var("INSTA_FORCE_PASS").is_ok_and(|force| force == "1")
    {
        return Ok(());
    }
    Err(format!(
        "{why}\nwrote {}\naccept: cargo insta review, or kubeproof run {} --accept, or INSTA_UPDATE=always",
        wrote.display(),
        path.display()
    )
    .into())
}

/// Returns the way to write a golden that is not right, by insta's rules.
fn update_of(asked: &str, is_ci: bool, has_golden: bool) -> Option<Update> {
    match asked {
        "always" => Some(Update::Accept),
        "unseen" if !has_golden => Some(Update::Accept),
        "new" | "unseen" => Some(Update::Review),
        "" | "auto" if !is_ci => Some(Update::Review),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goldens_are_written_as_insta_is_configured() {
        for (asked, is_ci, has_golden, expected) in [
            ("", false, true, Some(Update::Review)),
            ("", true, true, None),
            ("auto", true, false, None),
            ("new", true, true, Some(Update::Review)),
            ("always", true, true, Some(Update::Accept)),
            ("unseen", false, false, Some(Update::Accept)),
            ("unseen", false, true, Some(Update::Review)),
            ("no", false, false, None),
        ] {
            let found = update_of(asked, is_ci, has_golden);
            assert_eq!(found, expected, "{asked:?} {is_ci} {has_golden}");
        }
    }
}
