//! The command line: `kubeproof serve`, `run` and `exchange`.

mod cli;

use std::process::ExitCode;

/// Objects are trees of small allocations, which the C library serves slowly.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(code) = kubeproof_tracer::helper(std::env::args_os()) {
        std::process::exit(code);
    }
    cli::main()
}
