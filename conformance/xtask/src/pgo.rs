//! `cargo xtask pgo`: builds the program for a release, optimized by a profile of its own work.
//!
//! The program is built twice with the profile `dist`. The first one counts how often each of its branches is taken
//! while it runs the scenarios and is under load. The compiler reads the counts when it builds the second one. Their
//! functions have the same names only if both are built for the same target with the same settings.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, ensure};

use crate::ci::cargo;
use crate::packages::{BINARY, check};
use crate::root;

/// Benchmarks, with their arguments, that the program is optimized for as it is for the scenarios. They are not optimized
/// themselves, because to build them so takes longer than they run.
const LOADS: [(&str, &[&str]); 2] = [
    ("load", &["requests", "lists", "watches", "selectors"]),
    // Nodes and pods.
    ("nodes", &["300", "3000"]),
];

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The target to build for, whose programs have to run on this machine [default: the one of the compiler].
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
}

/// Builds the program and prints where it is.
///
/// # Errors
/// The compiler's tools are not installed, a build fails, or the program fails at the work.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let host = host(&output("rustc", &["--version", "--verbose"])?)?;
    let sysroot = output("rustc", &["--print", "sysroot"])?;
    let merge = profdata(Path::new(sysroot.trim()), &host)?;
    let target = args.target.as_deref().unwrap_or(&host);
    let directory = root().join("target/pgo");
    let counts = directory.join("counts");
    let profile = directory.join(format!("{target}.profdata"));

    let generate = flag("-Cprofile-generate=", &counts);
    let counting = build(target, &directory.join("counting"), generate)?;
    forget(&counts)?;
    work(&counting)?;
    let mut merging = Command::new(merge);
    merging
        .arg("merge")
        .arg("--output")
        .args([&profile, &counts]);
    check(&mut merging)?;
    let apply = flag("-Cprofile-use=", &profile);
    let program = build(target, &directory.join("optimized"), apply)?;
    println!("pgo: {}", program.display());
    Ok(ExitCode::SUCCESS)
}

/// Lets the program do the work that it is optimized for.
fn work(program: &Path) -> anyhow::Result<()> {
    check(Command::new(program).current_dir(root()).arg("run"))?;
    for (bench, arguments) in LOADS {
        let mut command = cargo();
        command.args(measuring(bench, arguments));
        check(command.env(BINARY, program))?;
    }
    Ok(())
}

/// Builds the program with this flag of the compiler, and returns its path.
fn build(target: &str, directory: &Path, flag: OsString) -> anyhow::Result<PathBuf> {
    let mut command = cargo();
    command
        .args(building(target))
        .arg("--target-dir")
        .arg(directory);
    // Unlike in RUSTFLAGS, a space in a path ends no flag here.
    check(command.env("CARGO_ENCODED_RUSTFLAGS", flag))?;
    let name = match target.contains("windows") {
        true => "kubeproof.exe",
        false => "kubeproof",
    };
    Ok(directory.join(target).join("dist").join(name))
}

/// The arguments of cargo that build the program. With a target, the flags of the compiler are not for build scripts.
fn building(target: &str) -> [&str; 8] {
    [
        "build",
        "--profile",
        "dist",
        "--locked",
        "--bin",
        "kubeproof",
        "--target",
        target,
    ]
}

/// The arguments of cargo that run a benchmark.
fn measuring<'a>(bench: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    let fixed = ["bench", "--profile", "dev", "--locked", "-p", "kubeproof"];
    let chosen = fixed.into_iter().chain(["--bench", bench, "--"]);
    chosen.chain(arguments.iter().copied()).collect()
}

fn flag(name: &str, path: &Path) -> OsString {
    let mut flag = OsString::from(name);
    flag.push(path);
    flag
}

/// Removes the counts of an earlier run.
fn forget(counts: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(counts) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", counts.display()))
        }
        _ => Ok(()),
    }
}

/// The target of the compiler itself, by what it says of its version.
fn host(version: &str) -> anyhow::Result<String> {
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host
        .context("rustc does not say what its host is")?
        .to_owned())
}

/// The program of the compiler's that merges counts.
///
/// # Errors
/// It is not installed.
fn profdata(sysroot: &Path, host: &str) -> anyhow::Result<PathBuf> {
    let programs = sysroot.join("lib/rustlib").join(host).join("bin");
    let program = programs.join(format!("llvm-profdata{}", std::env::consts::EXE_SUFFIX));
    ensure!(
        program.is_file(),
        "this needs llvm-profdata of the compiler; `rustup component add llvm-tools` installs it"
    );
    Ok(program)
}

/// The output of a program that succeeds.
fn output(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    ensure!(output.status.success(), "{program} {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_programs_are_built_with_the_profile_of_releases() {
        let arguments = building("x86_64-unknown-linux-musl").join(" ");
        let workspace = crate::published::toml("Cargo.toml").unwrap();
        assert!(workspace["profile"].get("dist").is_some());
        assert_eq!(
            arguments,
            "build --profile dist --locked --bin kubeproof --target x86_64-unknown-linux-musl"
        );
    }

    #[test]
    fn the_loads_are_benchmarks_that_take_another_program() {
        let benches = root().join("conformance/benches");
        let read = |file: String| fs::read_to_string(benches.join(file)).ok();
        for (bench, _) in LOADS {
            let source = read(format!("{bench}.rs")).or_else(|| read(format!("{bench}/main.rs")));
            let source = source.unwrap_or_else(|| panic!("there is no benchmark {bench}"));
            assert!(source.contains("mod program;"), "{bench}");
        }
        let program = read("load/program.rs".to_owned()).unwrap();
        assert!(program.contains(&format!("\"{BINARY}\"")));
        let arguments = measuring("nodes", &["300", "3000"]).join(" ");
        assert_eq!(
            arguments,
            "bench --profile dev --locked -p kubeproof --bench nodes -- 300 3000"
        );
    }

    #[test]
    fn the_compiler_names_its_host_and_has_its_tools_there() {
        let version =
            "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\nhost: aarch64-apple-darwin\n";
        assert_eq!(host(version).unwrap(), "aarch64-apple-darwin");
        assert!(host("rustc 1.95.0\n").is_err());
        let none = profdata(Path::new("/nowhere"), "aarch64-apple-darwin");
        let message = none.unwrap_err().to_string();
        assert!(message.contains("rustup component add llvm-tools"));
    }
}
