//! kubectl: the one on the PATH.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use super::Program;
use crate::cli::out;

/// Set for a kubectl that this program hands over to, which may be this program again.
const HANDED_OVER: &str = "KUBEPROOF_OWN_KUBECTL";

pub(super) fn run() -> ExitCode {
    match other() {
        Some(other) => hand_over(&other),
        None => {
            out::note("error: there is no kubectl on the PATH beside kubeproof's");
            ExitCode::FAILURE
        }
    }
}

/// Another kubectl than this program on the PATH.
fn other() -> Option<PathBuf> {
    if std::env::var_os(HANDED_OVER).is_some() {
        return None;
    }
    let own = std::env::current_exe().ok()?;
    let path = std::env::var_os("PATH")?;
    let mut candidates =
        std::env::split_paths(&path).map(|dir| dir.join(Program::Kubectl.file_name()));
    candidates.find(|candidate| is_program(candidate) && !is_same_file(candidate, &own))
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.is_file())
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(one).is_some_and(|one| Some(one) == real(other))
}

/// Runs `program` with the arguments of this process in its place.
fn hand_over(program: &Path) -> ExitCode {
    let mut command = Command::new(program);
    command
        .args(std::env::args_os().skip(1))
        .env(HANDED_OVER, "1");
    let failed = |error: std::io::Error| {
        out::note(&format!("error: {}: {error}", program.display()));
        ExitCode::FAILURE
    };
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt as _;
        failed(command.exec())
    }
    #[cfg(not(unix))]
    match command.status() {
        Ok(status) => {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            code.map_or(ExitCode::FAILURE, ExitCode::from)
        }
        Err(error) => failed(error),
    }
}
