//! System calls that programs of Rust do not make: perl makes them by number.

use std::process::{Command, Stdio};

/// Runs perl, not traced; false, with a message, if there is none.
pub(crate) fn perl(arguments: &[&str]) -> Result<bool, Box<dyn std::error::Error>> {
    if !is_there("perl") {
        return Ok(false);
    }
    let status = Command::new("perl").arg("-e").args(arguments).status()?;
    assert!(status.success(), "{status}");
    Ok(true)
}

fn is_there(program: &str) -> bool {
    let mut asked = Command::new(program);
    let asked = asked.arg("--version").stdout(Stdio::null()).status();
    let is_there = asked.is_ok_and(|status| status.success());
    if !is_there {
        eprintln!("{program} is missing: skipped");
    }
    is_there
}
