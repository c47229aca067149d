//! Programs of Rust and of the shell that live through days of virtual time. This program is its own tracer and its own tracee.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod other_calls;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod programs;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod tests;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() {
    if let Some(code) = kubeproof_tracer::helper(std::env::args_os()) {
        std::process::exit(code);
    }
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, name] = arguments.as_slice()
        && role == programs::ROLE
    {
        return programs::run(name);
    }
    let arguments = libtest_mimic::Arguments::from_args();
    libtest_mimic::run(&arguments, tests::all()).exit();
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    assert!(kubeproof_tracer::check().is_err());
}
