//! Runs that have ended, in words and as JSON.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kubeproof::explore::Part;
use kubeproof::report::ScenarioReport;
use kubeproof::scenario::ScenarioFile;
use kubeproof::suite::Verdict;
use kubeproof_machinery::json::json;

use super::RunArgs;
use crate::cli::out;
use crate::cli::program::{quoted, shell_word};

/// A run that has ended.
pub(super) struct Finished {
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// The seed of its order.
    pub(super) schedule_seed: u64,
    pub(super) verdict: Verdict,
    pub(super) took: Duration,
    /// Whether it would pass if its transcript were the golden.
    pub(super) offers: bool,
    /// The golden that was written, or the file left for review.
    pub(super) wrote: Option<PathBuf>,
    pub(super) shown: Option<ScenarioReport>,
    /// Of a scenario that may differ in other orders: the file, and the parts of `differs` that this order needed.
    pub(super) differs: Option<(Box<ScenarioFile>, BTreeSet<Part>)>,
}

impl Finished {
    pub(super) fn has_failed(&self) -> bool {
        self.verdict != Verdict::Passed
    }
}

pub(super) fn in_words(one: &Finished) -> String {
    let time = out::faint(&format!("({} ms)", one.took.as_millis()));
    let wrote = one.wrote.as_ref();
    let wrote = wrote.map(|path| format!("\n     wrote {}", path.display()));
    let wrote = wrote.unwrap_or_default();
    match &one.verdict {
        Verdict::Passed => format!("{}   {}  {time}{wrote}", out::good("ok"), one.name),
        Verdict::Failed(why) => format!(
            "{} {}  {time}\n{}{wrote}",
            out::bad("FAIL"),
            one.name,
            out::diff(why.trim_end())
        ),
    }
}

pub(super) fn in_json(one: &Finished) -> String {
    let millis = u64::try_from(one.took.as_millis()).unwrap_or(u64::MAX);
    let (passed, why) = match &one.verdict {
        Verdict::Passed => (true, None),
        Verdict::Failed(why) => (false, Some(why)),
    };
    let mut line =
        json!({"scenario": one.name, "passed": passed, "milliseconds": millis, "failure": why});
    if let Some(path) = &one.wrote {
        line["wrote"] = path.display().to_string().into();
    }
    line.to_string()
}

/// The flags with which a run is repeated, each with a blank before it.
pub(super) fn again(args: &RunArgs) -> String {
    let mut flags = String::new();
    let kubeconfig = args
        .cluster
        .kubeconfig
        .as_deref()
        .map(|path| quoted(&path.display().to_string()));
    let controllers = args.controllers.clone();
    let kubeconfig = kubeconfig.map(|value| ("kubeconfig", value));
    let controllers = controllers.map(|value| ("controllers", value));
    let scheduler = args.scheduler_config.path();
    let scheduler = scheduler.map(|path| ("scheduler-config", quoted(&path.display().to_string())));
    for (flag, value) in kubeconfig.into_iter().chain(controllers).chain(scheduler) {
        let _ = write!(flags, " --{flag} {value}");
    }
    flags.push_str(&args.program.again());
    flags
}

/// Lists the failed runs, each with the command that shows it and, where a golden can be accepted, the command that
/// accepts it.
pub(super) fn failures(finished: &[Finished], flags: &str) -> String {
    let mut lines = vec![format!("\n{}", out::bad("failures:"))];
    for one in finished.iter().filter(|one| one.has_failed()) {
        let run = format!("kubeproof run {}{flags}", shell_path(&one.path));
        let show = match one.schedule_seed {
            0 => run.clone(),
            schedule_seed => format!("{run} --seed {schedule_seed}"),
        };
        lines.push(format!("  {}", one.name));
        lines.push(format!("    show:   {show}"));
        if one.offers {
            lines.push(format!("    accept: {run} --accept"));
        } else if one.wrote.is_some() {
            lines.push(format!("    accept: cargo insta review, or {run} --accept"));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

fn shell_path(path: &Path) -> String {
    shell_word(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted_into_a_shell() {
        assert_eq!(shell_path(Path::new("a/b-c.yaml")), "a/b-c.yaml");
        assert_eq!(
            shell_path(Path::new("my files/it's")),
            r"'my files/it'\''s'"
        );
    }
}
