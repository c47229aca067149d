//! The command line of kube-apiserver v1.36.
//!
//! Source: Kubernetes `cmd/kube-apiserver/app/server.go`, component-base `cli/run.go`, `cli/flag/sectioned.go`,
//! `version/verflag`.

use kubeproof_apiserver::KUBERNETES_VERSION;
use kubeproof_apiserver::status::quoted;

use super::super::pflag::{FlagSet, Parsed, Syntax};
use super::{Invocation, Refusal, validation};

/// All flags of the program. The file says which are honored.
const TABLE: &str = include_str!("kube_apiserver.txt");
const ABOUT: &str = "kubeproof as kube-apiserver: an in-memory Kubernetes API server for tests.";

/// Reads the arguments after the program's name.
///
/// # Errors
/// The first fault of the command line, or all faults of its values.
pub(crate) fn read(args: impl IntoIterator<Item = String>) -> Result<Invocation, Refusal> {
    let flags = FlagSet::new(Syntax::Pflag, TABLE);
    let refuse = |message: String| Refusal { message, code: 1 };
    let parsed = flags
        .parse(args)
        .map_err(|fault| refuse(format!("Error: {fault}")))?;
    if parsed.is_on("help") {
        let help = flags.help();
        return Ok(Invocation::Print(format!(
            "{ABOUT}\n\nUsage:\n  kube-apiserver [flags]\n{help}"
        )));
    }
    if parsed.args().iter().any(|arg| !arg.is_empty()) {
        let args: Vec<String> = parsed.args().iter().map(|arg| quoted(arg)).collect();
        return Err(refuse(format!(
            "Error: \"kube-apiserver\" does not take any arguments, got [{}]",
            args.join(" ")
        )));
    }
    if let Some(version) = version(&parsed) {
        return Ok(Invocation::Print(version));
    }
    match validation::validate(&parsed) {
        Ok(()) => Ok(Invocation::Serve(Box::new(parsed))),
        Err(faults) => Err(refuse(format!(
            "\"command failed\" err={}",
            quoted(&faults)
        ))),
    }
}

/// Returns the version as harnesses read it, if the command line asks for it.
fn version(parsed: &Parsed) -> Option<String> {
    match parsed.text("version")? {
        "raw" => {
            let mut numbers = KUBERNETES_VERSION.trim_start_matches('v').split('.');
            let (major, minor) = (numbers.next()?, numbers.next()?);
            let compiler = format!("kubeproof {}", env!("CARGO_PKG_VERSION"));
            Some(format!(
                "version.Info{{Major:{major:?}, Minor:{minor:?}, GitVersion:{KUBERNETES_VERSION:?}, \
                 Compiler:{compiler:?}}}\n"
            ))
        }
        _ => parsed
            .is_on("version")
            .then(|| format!("Kubernetes {KUBERNETES_VERSION}\n")),
    }
}
