//! Passes to the program the commit from which it is built.
//!
//! Only release builds ask: a new commit would have every development build compile the crate anew.
//! The commit comes from what `cargo package` notes in a package, or from git; without both the
//! program's version has no commit. The same commit gives the same program.

use std::path::{Path, PathBuf};
use std::process::Command;

/// How many digits of the commit are shown.
const DIGITS: usize = 7;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = match is_release {
        true => packaged(&root).or_else(|| checked_out(&root)),
        false => None,
    };
    let commit = commit.and_then(|commit| Some(commit.get(..DIGITS)?.to_owned()));
    println!(
        "cargo:rustc-env=KUBEPROOF_COMMIT={}",
        commit.unwrap_or_default()
    );
}

/// The commit that a package is made of.
fn packaged(root: &Path) -> Option<String> {
    let text = std::fs::read_to_string(root.join(".cargo_vcs_info.json")).ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    let sha1 = rest.split('"').nth(1)?;
    is_commit(sha1).then(|| sha1.to_owned())
}

/// The commit of the checkout that this file belongs to.
fn checked_out(root: &Path) -> Option<String> {
    // The sources may lie in a repository of something else, unknown to it.
    git(root, &["ls-files", "--error-unmatch", "build.rs"])?;
    for file in ["HEAD", "logs/HEAD"] {
        let path = root.join(git(root, &["rev-parse", "--git-path", file])?);
        // A file that is not there would have cargo ask each time.
        if path.exists() {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    let commit = git(root, &["rev-parse", "HEAD"])?;
    is_commit(&commit).then_some(commit)
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    let ran = command.args(arguments).current_dir(root).output().ok()?;
    let said = String::from_utf8(ran.stdout).ok()?;
    ran.status.success().then(|| said.trim().to_owned())
}

fn is_commit(text: &str) -> bool {
    text.len() >= DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
