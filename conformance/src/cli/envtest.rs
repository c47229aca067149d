//! `kubeproof envtest`, and the programs of a control plane that kubeproof stands in for.
//!
//! Test harnesses start `kube-apiserver` and `etcd` from a directory. Here such a directory has this program under those
//! names, and the program acts by the name that it was started with.

mod etcd;
mod kept;
mod kube_apiserver;
mod kubectl;
mod layout;
mod setup;
mod variables;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use kubeproof_apiserver::KUBERNETES_VERSION;

use super::flags::{Invocation, Refusal};
use super::out;
use super::pflag::Parsed;

/// A program that a harness starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    KubeApiserver,
    Etcd,
    Kubectl,
    SetupEnvtest,
}

impl Program {
    const ALL: [Self; 4] = [
        Self::KubeApiserver,
        Self::Etcd,
        Self::Kubectl,
        Self::SetupEnvtest,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::KubeApiserver => "kube-apiserver",
            Self::Etcd => "etcd",
            Self::Kubectl => "kubectl",
            Self::SetupEnvtest => "setup-envtest",
        }
    }

    /// The name with the suffix that programs have on this system.
    fn file_name(self) -> String {
        format!("{}{}", self.name(), std::env::consts::EXE_SUFFIX)
    }

    /// The program that this process was started as; `None` if it is `kubeproof` itself.
    pub(super) fn started() -> Option<Self> {
        let path = std::env::args_os().next()?;
        Self::of(Path::new(&path))
    }

    fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        Self::ALL
            .into_iter()
            .find(|program| program.file_name() == name || program.name() == name)
    }

    /// Runs the program with the arguments of this process.
    pub(super) fn run(self) -> ExitCode {
        match self {
            Self::KubeApiserver => kube_apiserver::run(),
            Self::Etcd => etcd::run(),
            Self::Kubectl => kubectl::run(),
            Self::SetupEnvtest => setup::run(),
        }
    }
}

/// The values to serve with; or else the exit code, after the text that the command line leads to.
fn values_to_serve(read: Result<Invocation, Refusal>) -> Result<Box<Parsed>, ExitCode> {
    match read {
        Ok(Invocation::Serve(parsed)) => Ok(parsed),
        Ok(Invocation::Print(text)) => {
            // A reader that is gone needs no output.
            let _ = std::io::stdout().lock().write_all(text.as_bytes());
            Err(ExitCode::SUCCESS)
        }
        Err(Refusal { message, code }) => {
            out::note(message.trim_end());
            Err(ExitCode::from(code))
        }
    }
}

/// The version of Kubernetes, without a `v`.
fn kubernetes_version() -> &'static str {
    KUBERNETES_VERSION.trim_start_matches('v')
}

#[derive(Args)]
#[command(after_help = variables::help())]
pub(super) struct EnvtestArgs {
    /// Write the programs into this directory [default: one in the user's cache].
    #[arg(long, value_name = "DIR", conflicts_with = "store")]
    into: Option<PathBuf>,
    /// What to print: the directory, a line for the shell, or the path of setup-envtest.
    #[arg(
        long,
        value_name = "path|env|setup",
        default_value = "path",
        hide_possible_values = true
    )]
    print: Print,
    /// Write the programs into a store of versions, as the directory VERSION-OS-ARCH: for envtest's
    /// BinaryAssetsDirectory, for setup-envtest's ~/.local/share/kubebuilder-envtest/k8s, or for ~/.kubeapitest/k8s.
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// The version in the name of that directory [default: the version of Kubernetes that is served].
    #[arg(long, value_name = "VERSION", requires = "store")]
    version: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Print {
    /// The directory.
    Path,
    /// A line that sets KUBEBUILDER_ASSETS in a shell.
    Env,
    /// The path of the program setup-envtest.
    Setup,
}

/// Writes a directory of programs, and prints what the user needs of it.
pub(super) fn envtest(args: EnvtestArgs) -> anyhow::Result<ExitCode> {
    let dir = match (args.into, args.store) {
        (Some(dir), _) => dir,
        (None, Some(store)) => {
            let version = args.version.as_deref().unwrap_or(kubernetes_version());
            store.join(layout::store_entry(version))
        }
        (None, None) => layout::default_dir()?,
    };
    layout::install(&dir)?;
    // Harnesses start the programs from other directories.
    let dir = std::path::absolute(dir)?;
    out::say(&match args.print {
        Print::Path => dir.display().to_string(),
        Print::Env => assets_line(&dir),
        Print::Setup => {
            let setup = dir.join(Program::SetupEnvtest.file_name());
            setup.display().to_string()
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The line by which a shell sets the directory of the programs.
fn assets_line(dir: &Path) -> String {
    let quoted = dir.display().to_string().replace('\'', r"'\''");
    format!("export KUBEBUILDER_ASSETS='{quoted}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_file_says_which_program_it_is() {
        let program = |path: &str| Program::of(Path::new(path));
        assert_eq!(program("/a/b/kube-apiserver"), Some(Program::KubeApiserver));
        assert_eq!(program("etcd"), Some(Program::Etcd));
        assert_eq!(program("./kubectl"), Some(Program::Kubectl));
        assert_eq!(program("kubeproof"), None);
        assert_eq!(program("/etcd/kubeproof"), None);
    }

    #[test]
    fn the_line_for_the_shell_is_quoted() {
        assert_eq!(
            assets_line(Path::new("/it's")),
            r"export KUBEBUILDER_ASSETS='/it'\''s'"
        );
    }
}
