//! kubectl: the one on the PATH, or else the commands that test harnesses call.
//!
//! Harnesses read objects and the server's health, apply manifests, ask for the version and edit a kubeconfig.
//! Source: fabric8's kube-api-test (`KubeConfig`, `ProcessReadinessChecker`), kwok's `pkg/kwokctl/runtime`,
//! controller-runtime's `KubeCtl`.

mod apply;
mod config;
mod connection;
mod discovery;
mod failure;
mod flags;
mod get;
mod kubeconfig;
mod printing;
mod version;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::Program;
use crate::cli::out;
use failure::Failure;
use flags::{Command, Line};

/// Set for a kubectl that this program hands over to, which may be this program again.
const HANDED_OVER: &str = "KUBEPROOF_OWN_KUBECTL";

pub(super) fn run() -> ExitCode {
    match other() {
        Some(other) => hand_over(&other),
        None => match stand_in() {
            Ok(()) => ExitCode::SUCCESS,
            Err(Failure(text)) => {
                out::note(&text);
                ExitCode::FAILURE
            }
        },
    }
}

/// Carries out the command of this process.
fn stand_in() -> Result<(), Failure> {
    let (command, flags) = match flags::read(std::env::args().skip(1))? {
        Line::Command(command, flags) => (command, flags),
        Line::Other(None) => {
            printing::print(&flags::usage());
            return Ok(());
        }
        Line::Other(Some(name)) => {
            return Err(Failure::error(format_args!(
                "unknown command {name:?}: kubeproof's kubectl has get, apply, version and config; \
                 a kubectl that is installed on the PATH is used instead and has all commands"
            )));
        }
    };
    if flags.is_on("help") {
        printing::print(&command.help());
        return Ok(());
    }
    if command == Command::Config {
        return config::run(&flags);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::error)?;
    runtime.block_on(async {
        match command {
            Command::Get => get::run(&flags).await,
            Command::Apply => apply::run(&flags).await,
            Command::Version | Command::Config => version::run(&flags).await,
        }
    })
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
    let mut command = std::process::Command::new(program);
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
