//! The command line: `kubeproof serve` and `kubeproof run`.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
