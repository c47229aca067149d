//! The command line of kube-apiserver v1.36.
//!
//! Source: Kubernetes `cmd/kube-apiserver/app`, `pkg/controlplane/apiserver/options`, `pkg/kubeapiserver/options`,
//! apiserver `pkg/server/options`, component-base.

use super::super::pflag::{FlagSet, Parsed, Syntax};

/// All flags of the program. The file says which are honored.
const TABLE: &str = include_str!("kube_apiserver.txt");

/// Returns the flags of kube-apiserver.
pub(crate) fn flags() -> FlagSet {
    FlagSet::new(Syntax::Pflag, TABLE)
}

/// Returns what `kube-apiserver --help` prints.
pub(crate) fn help() -> String {
    let about = "kubeproof as kube-apiserver: an in-memory Kubernetes API server for tests.";
    let help = flags().help();
    format!("{about}\n\nUsage:\n  kube-apiserver [flags]\n{help}")
}

/// Returns what `kube-apiserver --version` prints, if the command line has the flag.
pub(crate) fn version(parsed: &Parsed) -> Option<String> {
    let version = kubeproof_apiserver::KUBERNETES_VERSION;
    match parsed.text("version")? {
        "raw" => {
            let mut numbers = version.trim_start_matches('v').split('.');
            let (major, minor) = (numbers.next()?, numbers.next()?);
            Some(format!(
                "version.Info{{Major:{major:?}, Minor:{minor:?}, GitVersion:{version:?}, \
                 Compiler:\"kubeproof {}\"}}",
                env!("CARGO_PKG_VERSION")
            ))
        }
        _ => parsed
            .is_on("version")
            .then(|| format!("Kubernetes {version}")),
    }
}
