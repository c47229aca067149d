//! `cargo xtask ci`: everything that a change has to pass.
//!
//! One build serves all tests, the scenarios, and the exploration: an optimized build takes longer than it would save.

use std::process::{Command, ExitCode};
use std::thread::available_parallelism;
use std::time::Instant;

use anyhow::{Context as _, ensure};

/// A step, which is a command.
struct Step {
    name: &'static str,
    program: Program,
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
}

/// The program of a step.
#[derive(Clone, Copy)]
enum Program {
    Cargo,
    /// As the step `test` has built it.
    Kubeproof,
}

/// The steps in their order. The one named [`NIGHTLY`] runs only if it is named.
const STEPS: [Step; 12] = [
    Step {
        name: "fmt",
        program: Program::Cargo,
        args: &["fmt", "--check"],
        env: &[],
    },
    Step {
        name: "deny",
        program: Program::Cargo,
        args: &[
            "run",
            "--quiet",
            "--locked",
            "--package",
            "xtask",
            "--",
            "deny",
        ],
        env: &[],
    },
    // With the fuzz targets. A check links nothing, so libFuzzer need not be built, which takes a compiler of C++.
    Step {
        name: "clippy",
        program: Program::Cargo,
        args: &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--features",
            "kubeproof-apiserver-fuzz/libfuzzer",
            "--locked",
            "--",
            "-D",
            "warnings",
        ],
        env: &[("CUSTOM_LIBFUZZER_PATH", "/unused/libfuzzer.a")],
    },
    // As a test of a controller depends on it.
    Step {
        name: "library",
        program: Program::Cargo,
        args: &[
            "check",
            "-p",
            "kubeproof",
            "--no-default-features",
            "--locked",
        ],
        env: &[],
    },
    Step {
        name: "doc",
        program: Program::Cargo,
        args: &["doc", "--no-deps", "--workspace", "--locked"],
        env: &[("RUSTDOCFLAGS", "-Dwarnings")],
    },
    // All tests but the target `scenarios`, whose goldens the step `scenarios` compares. `--lib` would compile the tests of
    // the excluded crates, which are targets of `conformance/unit-tests`.
    Step {
        name: "test",
        program: Program::Cargo,
        args: &[
            "test",
            "--workspace",
            "--exclude",
            "kubeproof-machinery",
            "--exclude",
            "kubeproof-runtime",
            "--exclude",
            "kubeproof-storage",
            "--locked",
            "--lib",
            "--bins",
            "--examples",
            "--test",
            ALL_BUT_SCENARIOS,
        ],
        env: &[],
    },
    // A run of tests that names targets leaves these out.
    Step {
        name: "doctest",
        program: Program::Cargo,
        args: &["test", "--workspace", "--locked", "--doc"],
        env: &[],
    },
    // About a minute of the fuzz targets' entries on mutations of their seeds, with overflow checks.
    Step {
        name: "fuzzing",
        program: Program::Cargo,
        args: &[
            "test",
            "--workspace",
            "--exclude",
            "kubeproof-machinery",
            "--exclude",
            "kubeproof-runtime",
            "--exclude",
            "kubeproof-storage",
            "--locked",
            "--lib",
            "fuzzing::tests",
        ],
        env: &[("KUBEPROOF_FUZZ_TIMES", "60")],
    },
    // With a hundredth of what they measure.
    Step {
        name: "benches",
        program: Program::Cargo,
        args: &["test", "--workspace", "--locked", "--bench", "*"],
        env: &[],
    },
    // In the orders of two seeds; before a release it is more.
    Step {
        name: "scenarios",
        program: Program::Kubeproof,
        args: &["run", "--seeds", "1"],
        env: &[],
    },
    // Every single fault, in a minute.
    Step {
        name: "explore",
        program: Program::Kubeproof,
        args: &["explore", "--only", EXPLORED],
        env: &[],
    },
    // Each situation of each scenario of StatefulSets, with each default kind of fault.
    Step {
        name: NIGHTLY,
        program: Program::Kubeproof,
        args: &["explore", "--only", "^statefulset/", "--points", "covering"],
        env: &[],
    },
];

/// The step that takes too long for each change.
const NIGHTLY: &str = "nightly";

/// The scenarios that are explored: each kind of workload, deletion with claims, and the garbage collector.
const EXPLORED: &str = "^(statefulset/sts-(create-ordered|retention-both)|asts/asts-reserve-release\
    |cloneset/cloneset-specified-delete-surge|gc/gc-foreground)$";

/// A pattern for test targets.
const ALL_BUT_SCENARIOS: &str = "[!s]*";

/// Tests at once, per processor. Some tests wait for programs in real time, and others use the processor meanwhile.
const TESTS_PER_PROCESSOR: usize = 3;

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these steps: fmt, deny, clippy, library, doc, test, doctest, fuzzing, benches, scenarios, explore; or nightly,
    /// which runs only if it is named.
    #[arg(value_name = "STEP")]
    steps: Vec<String>,
}

/// Runs the steps one after another, until one fails, and prints the seconds that each has taken.
///
/// # Errors
/// A step is unknown, or its program cannot be started.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let processors = available_parallelism().map_or(1, usize::from);
    let threads = (processors * TESTS_PER_PROCESSOR).to_string();
    for step in chosen(&args.steps)? {
        let began = Instant::now();
        let (program, mut command) = match step.program {
            Program::Cargo => ("cargo", cargo()),
            Program::Kubeproof => ("kubeproof", kubeproof()?),
        };
        println!("ci: {}: {program} {}", step.name, step.args.join(" "));
        command.args(step.args).env("CI", "true");
        command.env("RUST_TEST_THREADS", &threads);
        let status = command.envs(step.env.iter().copied()).status();
        if !status
            .with_context(|| format!("cannot start {program}"))?
            .success()
        {
            println!("ci: {} failed", step.name);
            return Ok(ExitCode::FAILURE);
        }
        println!("ci: {}: {} s", step.name, began.elapsed().as_secs());
    }
    Ok(ExitCode::SUCCESS)
}

/// The cargo that runs this task, at the root of the workspace.
pub(crate) fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(crate::root());
    command
}

/// The program in the directory of this one, at the root of the workspace.
fn kubeproof() -> anyhow::Result<Command> {
    let this = std::env::current_exe()?;
    let name = format!("kubeproof{}", std::env::consts::EXE_SUFFIX);
    let mut command = Command::new(this.with_file_name(name));
    command.current_dir(crate::root());
    Ok(command)
}

/// The steps with these names, in the order of [`STEPS`]; all but the nightly one if none is named.
fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Step>> {
    for name in names {
        let known = STEPS.iter().any(|step| step.name == name);
        ensure!(known, "there is no step {name}");
    }
    let is_chosen = |step: &&Step| match names {
        [] => step.name != NIGHTLY,
        names => names.iter().any(|name| name == step.name),
    };
    Ok(STEPS.iter().filter(is_chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_chosen_by_name_and_run_in_their_order() {
        let names = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let steps = chosen(&names)?;
            anyhow::Ok(steps.iter().map(|step| step.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["test", "fmt"]).unwrap(), ["fmt", "test"]);
        let all = names(&[]).unwrap();
        assert_eq!(all.len(), STEPS.len() - 1);
        assert!(!all.contains(&NIGHTLY));
        assert_eq!(names(&[NIGHTLY]).unwrap(), [NIGHTLY]);
        assert!(names(&["tset"]).is_err());
    }

    #[test]
    fn crates_whose_unit_tests_are_targets_of_another_package_are_excluded() {
        let manifest = crate::published::toml("Cargo.toml").unwrap();
        let members = manifest["workspace"]["members"].as_array().unwrap().iter();
        let mut elsewhere: Vec<String> = members
            .map(|member| format!("{}/Cargo.toml", member.as_str().unwrap()))
            .filter_map(|path| {
                let manifest = crate::published::toml(&path).unwrap();
                let is_tested = manifest.get("lib").is_none_or(|lib| lib["test"] != false);
                let name = manifest["package"]["name"].as_str().unwrap().to_owned();
                (!is_tested).then_some(name)
            })
            .collect();
        elsewhere.sort();
        for step in STEPS.iter().filter(|step| step.args.contains(&"--lib")) {
            let pairs = step.args.windows(2);
            let excluded = pairs.filter(|pair| pair[0] == "--exclude");
            let excluded: Vec<&str> = excluded.map(|pair| pair[1]).collect();
            assert_eq!(excluded, elsewhere, "{}", step.name);
        }
        assert!(!elsewhere.is_empty());
    }

    #[test]
    fn the_scenarios_are_the_only_tests_that_the_step_for_tests_leaves_out() {
        let manifest = crate::published::toml("Cargo.toml").unwrap();
        let members = manifest["workspace"]["members"].as_array().unwrap().iter();
        let members = members.map(|member| member.as_str().unwrap());
        let left_out = members.flat_map(|member| {
            let tests = std::fs::read_dir(crate::root().join(member).join("tests"));
            let targets = tests.into_iter().flatten();
            targets.filter_map(|target| {
                let name = target.unwrap().file_name().into_string().unwrap();
                name.starts_with('s').then_some(name)
            })
        });
        assert_eq!(left_out.collect::<Vec<_>>(), ["scenarios.rs"]);
        assert_eq!(ALL_BUT_SCENARIOS, "[!s]*");
    }
}
