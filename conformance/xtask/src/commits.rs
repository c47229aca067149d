//! `cargo xtask commits RANGE`: whether commits are written as CONTRIBUTING.md asks.

use std::process::{Command, ExitCode};

use anyhow::{Context as _, ensure};

/// The longest subject, in columns.
const SUBJECT_MAX: usize = 72;

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Commits, as `git log` takes them, such as main..HEAD.
    #[arg(value_name = "RANGE")]
    range: String,
}

/// Prints what is wrong with each commit of the range, merges left out.
///
/// # Errors
/// Git cannot be run, or does not know the range.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut git = Command::new("git");
    git.current_dir(crate::root());
    git.args(["log", "--no-merges", "--reverse", "--format=%h%n%B%x00"]);
    let output = git.arg(&args.range).arg("--").output();
    let output = output.context("cannot start git")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let text = String::from_utf8(output.stdout).context("a commit's message is not UTF-8")?;
    let (mut count, mut wrong) = (0, 0);
    for commit in text
        .split('\0')
        .map(str::trim)
        .filter(|own| !own.is_empty())
    {
        let (id, message) = commit.split_once('\n').unwrap_or((commit, ""));
        let faults = faults(message);
        count += 1;
        wrong += usize::from(!faults.is_empty());
        for fault in faults {
            let subject = message.lines().next().unwrap_or_default();
            println!("{id} {subject}\n  {fault}");
        }
    }
    println!("{count} commits, {wrong} to be mended");
    Ok(match wrong {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// The faults of a message.
fn faults(message: &str) -> Vec<String> {
    let mut lines = message.lines();
    let subject = lines.next().unwrap_or_default();
    let mut faults = Vec::new();
    let columns = subject.chars().count();
    if columns > SUBJECT_MAX {
        faults.push(format!(
            "the subject has {columns} columns, over {SUBJECT_MAX}"
        ));
    }
    let area = subject.split_once(": ").filter(|(area, rest)| {
        let is_word =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_/. ,".contains(c);
        !area.is_empty() && area.chars().all(is_word) && !rest.trim().is_empty()
    });
    if area.is_none() {
        faults.push("the subject does not begin with `area: `".to_owned());
    }
    if subject.ends_with('.') {
        faults.push("the subject ends with a full stop".to_owned());
    }
    match lines.next() {
        Some(line) if !line.trim().is_empty() => {
            faults.push("no empty line follows the subject".to_owned());
        }
        _ if lines.all(|line| line.trim().is_empty()) => {
            faults.push("there is no body".to_owned());
        }
        _ => {}
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_an_area_a_short_subject_and_a_body() {
        let long = format!("watch: {}\n\nBody.", "x".repeat(66));
        for (message, expected) in [
            ("watch: close slow watches\n\nThey held memory.\n", &[][..]),
            ("apiserver, cel: price lists\n\nBody.", &[]),
            (&long, &["the subject has 73 columns, over 72"]),
            (
                "Close slow watches\n\nBody.",
                &["the subject does not begin with `area: `"],
            ),
            (
                "watch: \n\nBody.",
                &["the subject does not begin with `area: `"],
            ),
            (
                "watch: close.\n\nBody.",
                &["the subject ends with a full stop"],
            ),
            ("watch: close\n\n", &["there is no body"]),
            ("watch: close", &["there is no body"]),
            (
                "watch: close\nBody.",
                &["no empty line follows the subject"],
            ),
        ] {
            assert_eq!(faults(message), expected, "{message:?}");
        }
    }
}
