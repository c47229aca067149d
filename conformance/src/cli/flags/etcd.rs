//! The command line of etcd v3.6.
//!
//! Source: etcd `server/etcdmain/{config,help}.go`, `server/embed/config.go`.

use kubeproof_apiserver::status::quoted;

use super::super::pflag::{FlagError, FlagSet, Syntax};
use super::{Invocation, Refusal};

/// The version of etcd whose flags these are.
pub(crate) const VERSION: &str = "3.6.13";

/// All flags of the program. The file says which are honored.
const TABLE: &str = include_str!("etcd.txt");
const USAGE: &str = "\
Usage:

  etcd [flags]
    Answer as etcd does, without a state: kubeproof's is in the API server.

  etcd --version
    Print the version.

  etcd -h | --help
    Print all flags.
";

/// Reads the arguments after the program's name.
///
/// # Errors
/// The first fault of the command line.
pub(crate) fn read(args: impl IntoIterator<Item = String>) -> Result<Invocation, Refusal> {
    let flags = FlagSet::new(Syntax::Go, TABLE);
    let parsed = match flags.parse(args) {
        Ok(parsed) => parsed,
        Err(FlagError::Help) => return Ok(Invocation::Print(format!("{USAGE}{}", flags.help()))),
        Err(fault) => {
            return Err(Refusal {
                message: format!("{fault}\n{USAGE}"),
                code: 2,
            });
        }
    };
    if let Some(arg) = parsed.args().first() {
        return Err(Refusal {
            message: format!("{} is not a valid flag", quoted(arg)),
            code: 1,
        });
    }
    if parsed.is_on("version") {
        return Ok(Invocation::Print(version()));
    }
    Ok(Invocation::Serve(Box::new(parsed)))
}

/// Returns the four lines of `etcd --version`.
fn version() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        system => system,
    };
    let processor = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        processor => processor,
    };
    format!(
        "etcd Version: {VERSION}\nGit SHA: kubeproof {}\nGo Version: none\nGo OS/Arch: {system}/{processor}\n",
        env!("CARGO_PKG_VERSION")
    )
}
