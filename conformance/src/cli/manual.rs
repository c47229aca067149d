//! Texts made of the commands and their flags: completions, manual pages, the version.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::LazyLock;

use anyhow::Context as _;
use clap::{Args, Command};
use clap_complete::Shell;

use super::out;
use super::program::shell_word;

/// Name, commit and the version of Kubernetes that is served.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let commit = match env!("KUBEPROOF_COMMIT") {
        "" => String::new(),
        commit => format!(" ({commit})"),
    };
    let kubernetes = kubeproof_apiserver::KUBERNETES_VERSION;
    format!(
        "{}{commit}, Kubernetes {kubernetes}",
        env!("CARGO_PKG_VERSION")
    )
});

/// The text that `--version` prints after the name of the program.
pub(super) fn version() -> &'static str {
    &VERSION
}

/// Returns the program with its version, and its command line as a shell reads it.
pub(super) fn made_by() -> String {
    let arguments = std::env::args().skip(1);
    let arguments: Vec<String> = arguments.map(|text| shell_word(&text)).collect();
    format!("kubeproof {}: kubeproof {}", version(), arguments.join(" "))
}

#[derive(Args)]
pub(super) struct CompletionsArgs {
    /// The shell that reads the script.
    shell: Shell,
}

/// Prints the script by which a shell completes commands and flags.
pub(super) fn completions(
    args: &CompletionsArgs,
    mut command: Command,
) -> anyhow::Result<ExitCode> {
    let (name, mut script) = (command.get_name().to_owned(), Vec::new());
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    let script = String::from_utf8(script).context("the script is text")?;
    out::say(script.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Args)]
pub(super) struct ManArgs {
    /// The directory for the pages; it is created if it does not exist.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Writes a manual page for the program and one for each command.
pub(super) fn pages(args: &ManArgs, command: Command) -> anyhow::Result<ExitCode> {
    let directory = &args.directory;
    let cannot = || format!("cannot write pages into {}", directory.display());
    std::fs::create_dir_all(directory).with_context(cannot)?;
    clap_mangen::generate_to(command, directory).with_context(cannot)?;
    Ok(ExitCode::SUCCESS)
}
