//! The program that benchmarks start.

use std::env;
use std::path::PathBuf;

/// The variable with the absolute path of another program to measure, such as that of another build.
const BINARY: &str = "KUBEPROOF_BINARY";

/// The program that is measured: the one that [`BINARY`] names, or the one that cargo has built with the benchmark.
pub(crate) fn program() -> PathBuf {
    let own = || env!("CARGO_BIN_EXE_kubeproof").into();
    env::var_os(BINARY).map_or_else(own, PathBuf::from)
}
