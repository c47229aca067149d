//! `cargo xtask pgo`: builds the program for a release, optimized by a profile of its own work.
//!
//! The program is built twice with the profile `dist`. The first one counts how often each of its branches is taken
//! while it starts a cluster, runs the scenarios and is under load. The compiler reads the counts when it builds the
//! second one. On Linux, the linker also puts functions that were executed next to one another. The functions of both
//! programs have the same names only if both are built for the same target with the same settings.

mod order;

use std::ffi::{OsStr, OsString};
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

/// How long a program that counts has to start a cluster, and to wait afterwards.
const START_SECONDS: &str = "20";
/// The exit code of `timeout` if the program was still running.
const TIMED_OUT: i32 = 124;

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
    let host = host(&output("rustc", ["--version", "--verbose"])?)?;
    let sysroot = output("rustc", ["--print", "sysroot"])?;
    let tools = tools(Path::new(sysroot.trim()), &host)?;
    let target = args.target.as_deref().unwrap_or(&host);
    let directory = root().join("target/pgo");
    let counts = directory.join("counts");
    let profile = directory.join(format!("{target}.profdata"));

    let generate = flag("-Cprofile-generate=", &counts);
    let counting = build(target, &directory.join("counting"), &[generate])?;
    forget(&counts)?;
    work(&counting)?;
    tools.merge(&counts, &profile)?;
    let mut flags = vec![flag("-Cprofile-use=", &profile)];
    if has_order(target) {
        let counts = directory.join("start");
        forget(&counts)?;
        start(&counting, &counts)?;
        let of_start = directory.join(format!("{target}.start.profdata"));
        tools.merge(&counts, &of_start)?;
        let lines = order::order(&tools.executed(&of_start)?, &tools.executed(&profile)?);
        let order = directory.join(format!("{target}.order"));
        fs::write(&order, lines).with_context(|| format!("cannot write {}", order.display()))?;
        flags.extend(tools.ordering(target, &order));
    }
    let program = build(target, &directory.join("optimized"), &flags)?;
    println!("pgo: {}", program.display());
    Ok(ExitCode::SUCCESS)
}

/// Whether the linker that comes with the compiler can link programs for the target. It orders functions by a list of
/// symbols.
fn has_order(target: &str) -> bool {
    target.contains("-linux-")
}

/// Lets the program start a cluster with all controllers and then wait, and has its counts written into the directory.
fn start(program: &Path, counts: &Path) -> anyhow::Result<()> {
    let mut serve = Command::new("timeout");
    serve
        .arg(START_SECONDS)
        .arg(program)
        .args(["serve", "--nodes", "1"]);
    serve.env("LLVM_PROFILE_FILE", counts.join("%p.profraw"));
    let status = serve.status().context("cannot start timeout")?;
    ensure!(status.code() == Some(TIMED_OUT), "serve: {status}");
    Ok(())
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

/// Builds the program with these flags of the compiler, and returns its path.
fn build(target: &str, directory: &Path, flags: &[OsString]) -> anyhow::Result<PathBuf> {
    let mut command = cargo();
    command
        .args(building(target))
        .arg("--target-dir")
        .arg(directory);
    // Unlike in RUSTFLAGS, a space in a path ends no flag here.
    check(command.env("CARGO_ENCODED_RUSTFLAGS", flags.join(OsStr::new("\u{1f}"))))?;
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

/// Tools that come with the compiler.
struct Tools {
    profdata: PathBuf,
    /// The directory of the linker, under the name by which a compiler of C finds it.
    linkers: PathBuf,
}

/// Finds the tools of the compiler.
///
/// # Errors
/// They are not installed.
fn tools(sysroot: &Path, host: &str) -> anyhow::Result<Tools> {
    let programs = sysroot.join("lib/rustlib").join(host).join("bin");
    let profdata = programs.join(format!("llvm-profdata{}", std::env::consts::EXE_SUFFIX));
    ensure!(
        profdata.is_file(),
        "this needs llvm-profdata of the compiler; `rustup component add llvm-tools` installs it"
    );
    let linkers = programs.join("gcc-ld");
    Ok(Tools { profdata, linkers })
}

impl Tools {
    /// Merges the counts of a directory into a profile.
    fn merge(&self, counts: &Path, profile: &Path) -> anyhow::Result<()> {
        let mut command = Command::new(&self.profdata);
        check(command.args(["merge", "--output"]).args([profile, counts]))
    }

    /// The functions that a profile has as executed.
    fn executed(&self, profile: &Path) -> anyhow::Result<order::Executed> {
        let shown = output(
            &self.profdata,
            [
                OsStr::new("show"),
                OsStr::new("--all-functions"),
                OsStr::new("--counts"),
                profile.as_os_str(),
            ],
        )?;
        Ok(order::executed(&shown))
    }

    /// The flags by which the compiler's own linker puts functions into the order of a file. The file has symbols that the
    /// program lacks, as of functions that were inlined; the linker is not to warn of them.
    fn ordering(&self, target: &str, order: &Path) -> Vec<OsString> {
        let mut flags = vec![
            flag("-Clink-arg=-B", &self.linkers),
            OsString::from("-Clink-arg=-fuse-ld=lld"),
            flag("-Clink-arg=-Wl,--symbol-ordering-file=", order),
            OsString::from("-Clink-arg=-Wl,--no-warn-symbol-ordering"),
        ];
        // The addresses that a start changes take a megabyte less. glibc reads that form only since 2.36.
        if target.ends_with("-musl") {
            flags.push(OsString::from("-Clink-arg=-Wl,-z,pack-relative-relocs"));
        }
        flags
    }
}

/// The output of a program that succeeds.
fn output(
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> anyhow::Result<String> {
    let name = program.as_ref().display();
    let output = Command::new(&program).args(arguments).output();
    let output = output.with_context(|| format!("cannot start {name}"))?;
    ensure!(output.status.success(), "{name} {}", output.status);
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
    fn linux_programs_are_linked_in_the_order_of_their_functions() {
        assert!(has_order("x86_64-unknown-linux-musl"));
        assert!(!has_order("aarch64-apple-darwin") && !has_order("x86_64-pc-windows-msvc"));
        let tools = Tools {
            profdata: PathBuf::new(),
            linkers: PathBuf::from("/compiler/gcc-ld"),
        };
        let flags = |target: &str| {
            let flags = tools.ordering(target, Path::new("/a b/order"));
            flags.join(OsStr::new("\n")).into_string().unwrap()
        };
        let glibc = "-Clink-arg=-B/compiler/gcc-ld\n\
            -Clink-arg=-fuse-ld=lld\n\
            -Clink-arg=-Wl,--symbol-ordering-file=/a b/order\n\
            -Clink-arg=-Wl,--no-warn-symbol-ordering";
        assert_eq!(flags("x86_64-unknown-linux-gnu"), glibc);
        let packed = "\n-Clink-arg=-Wl,-z,pack-relative-relocs";
        assert_eq!(
            flags("x86_64-unknown-linux-musl"),
            format!("{glibc}{packed}")
        );
    }

    #[test]
    fn the_compiler_names_its_host_and_has_its_tools_there() {
        let version =
            "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\nhost: aarch64-apple-darwin\n";
        assert_eq!(host(version).unwrap(), "aarch64-apple-darwin");
        assert!(host("rustc 1.95.0\n").is_err());
        let none = tools(Path::new("/nowhere"), "aarch64-apple-darwin");
        let message = none.err().unwrap().to_string();
        assert!(message.contains("rustup component add llvm-tools"));
    }
}
