//! `cargo xtask packages`: builds the packages for other languages from a program that is already built, and the packages
//! of the crates, installs them into directories of their own, and runs their tests as their users would.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, bail, ensure};

use crate::ci::cargo;
use crate::published::{flags, names};
use crate::root;

/// The variable by which packages and benchmarks find a program other than their own.
pub(crate) const BINARY: &str = "KUBEPROOF_BINARY";

/// Arguments of the task.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program to package. It has to be built for this machine.
    #[arg(long, value_name = "FILE", default_value = "target/release/kubeproof")]
    binary: PathBuf,
    /// Only these packages: python, npm, go, action, docker, rust.
    #[arg(value_name = "PACKAGE")]
    packages: Vec<String>,
}

/// A package and the way to try it.
struct Package {
    name: &'static str,
    try_out: fn(&Trial) -> anyhow::Result<Outcome>,
}

const PACKAGES: [Package; 6] = [
    Package {
        name: "python",
        try_out: python,
    },
    Package {
        name: "npm",
        try_out: npm,
    },
    Package {
        name: "go",
        try_out: go,
    },
    Package {
        name: "action",
        try_out: action,
    },
    Package {
        name: "docker",
        try_out: docker,
    },
    Package {
        name: "rust",
        try_out: rust,
    },
];

/// What came of a package that has not failed.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// The machine lacks something, which the text names.
    Skipped(String),
}

/// The program, and the directory of one package.
struct Trial {
    binary: PathBuf,
    /// `packaging/NAME`.
    source: PathBuf,
    /// An empty directory.
    scratch: PathBuf,
}

/// Tries the packages one after another.
///
/// # Errors
/// A package is unknown, or the program is not there. Packages that fail are reported by the exit code.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let chosen = chosen(&args.packages)?;
    let binary = root().join(&args.binary);
    ensure!(
        binary.is_file(),
        "{} does not exist; build it (`cargo build --release --bin kubeproof`) or name another with --binary",
        binary.display()
    );
    let binary = binary.canonicalize()?;
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for package in chosen {
        let trial = Trial::begin(&binary, package.name)?;
        match (package.try_out)(&trial) {
            Ok(Outcome::Passed) => {
                passed += 1;
                println!("packages: {} passed", package.name);
            }
            Ok(Outcome::Skipped(reason)) => {
                skipped += 1;
                println!("packages: {} skipped: {reason}", package.name);
            }
            Err(error) => {
                failed += 1;
                println!("packages: {} failed: {error:#}", package.name);
            }
        }
    }
    println!("packages: {passed} passed, {failed} failed, {skipped} skipped");
    Ok(match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// The packages with these names, in the order of [`PACKAGES`]; all if none is named.
fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Package>> {
    for name in names {
        let known = PACKAGES.iter().any(|package| package.name == name);
        ensure!(known, "there is no package {name}");
    }
    let is_chosen =
        |package: &&Package| names.is_empty() || names.iter().any(|name| name == package.name);
    Ok(PACKAGES.iter().filter(is_chosen).collect())
}

impl Trial {
    fn begin(binary: &Path, name: &str) -> anyhow::Result<Self> {
        let scratch = root().join("target/packages").join(name);
        if scratch.exists() {
            fs::remove_dir_all(&scratch)?;
        }
        fs::create_dir_all(&scratch)?;
        Ok(Self {
            binary: binary.to_owned(),
            source: root().join("packaging").join(name),
            scratch,
        })
    }

    /// Copies a file or directory of the package into the scratch directory.
    fn copy(&self, name: &str, into: &str) -> anyhow::Result<()> {
        copy(&self.source.join(name), &self.scratch.join(into))
    }
}

/// A wheel by maturin, and its tests in an environment that has only the wheel.
fn python(trial: &Trial) -> anyhow::Result<Outcome> {
    if !answers("python3", "--version") {
        return Ok(lacks("python3"));
    }
    let tools = trial.scratch.join("tools");
    let user = trial.scratch.join("user");
    for environment in [&tools, &user] {
        let made = Command::new("python3")
            .args(["-m", "venv"])
            .arg(environment)
            .status()?;
        if !made.success() {
            return Ok(lacks("python3's module venv"));
        }
    }
    if !succeeds(pip(&tools).arg("maturin>=1.16,<2"))? {
        return Ok(lacks("maturin, which pip cannot install"));
    }
    let clients = ["kopf", "kr8s", "kubernetes", "lightkube", "pytest"];
    if !succeeds(pip(&user).args(clients))? {
        return Ok(lacks(
            "the clients that the tests use, which pip cannot install",
        ));
    }
    let wheels = trial.scratch.join("wheels");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    check(
        Command::new(tools.join("bin/maturin"))
            .args(["build", "--out"])
            .arg(&wheels)
            .current_dir(&trial.source)
            .env("CARGO", trial.source.join("cargo-stand-in"))
            .env("REAL_CARGO", cargo)
            .env("KUBEPROOF_ROOT", root())
            .env(BINARY, &trial.binary),
    )?;
    check(pip(&user).args(files(&wheels)?))?;
    trial.copy("tests", "tests")?;
    check(
        Command::new(user.join("bin/pytest"))
            .args(["-W", "ignore:Kubernetes version:UserWarning", "tests"])
            .current_dir(&trial.scratch)
            .env_remove(BINARY),
    )?;
    Ok(Outcome::Passed)
}

fn pip(environment: &Path) -> Command {
    let mut command = Command::new(environment.join("bin/python"));
    command.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    command
}

/// The two packages of this platform, and their tests in a project that installs them.
fn npm(trial: &Trial) -> anyhow::Result<Outcome> {
    for program in ["node", "npm"] {
        if !answers(program, "--version") {
            return Ok(lacks(program));
        }
    }
    trial.copy("test", "user")?;
    let user = trial.scratch.join("user");
    let install = || {
        let mut command = Command::new("npm");
        command.args(["install", "--no-audit", "--no-fund", "--loglevel", "error"]);
        command.current_dir(&user);
        command
    };
    if !succeeds(&mut install())? {
        return Ok(lacks(
            "the packages that the tests use, which npm cannot install",
        ));
    }
    let packed = trial.scratch.join("packed");
    check(
        Command::new("node")
            .arg(trial.source.join("pack.js"))
            .arg("--binary")
            .arg(&trial.binary)
            .arg("--into")
            .arg(&packed),
    )?;
    // Offline, as the packages of other platforms are not there and the registry need not be asked for them.
    check(
        install()
            .args(["--offline", "--no-save"])
            .args(files(&packed)?),
    )?;
    check(
        Command::new("npm")
            .arg("test")
            .current_dir(&user)
            .env_remove(BINARY),
    )?;
    Ok(Outcome::Passed)
}

/// The module's own tests, with the program.
fn go(trial: &Trial) -> anyhow::Result<Outcome> {
    if !answers("go", "version") {
        return Ok(lacks("go"));
    }
    check(
        Command::new("go")
            .args(["vet", "./..."])
            .current_dir(&trial.source)
            .env("GOFLAGS", "-mod=mod"),
    )?;
    check(
        Command::new("go")
            .args(["test", "-count=1", "./..."])
            .current_dir(&trial.source)
            .env("GOFLAGS", "-mod=mod")
            .env(BINARY, &trial.binary),
    )?;
    Ok(Outcome::Passed)
}

/// The script of the GitHub Action, and the programs to which it points envtest suites.
fn action(trial: &Trial) -> anyhow::Result<Outcome> {
    if !answers("bash", "--version") {
        return Ok(lacks("bash"));
    }
    let environment = trial.scratch.join("environment");
    check(
        Command::new(trial.source.join("install.sh"))
            .env("INPUT_BINARY", &trial.binary)
            .env("RUNNER_TEMP", &trial.scratch)
            .env("GITHUB_ENV", &environment)
            .env("GITHUB_PATH", trial.scratch.join("path"))
            .env("GITHUB_OUTPUT", trial.scratch.join("output")),
    )?;
    let text = fs::read_to_string(environment)?;
    let mut lines = text.lines();
    let assets = lines.find_map(|line| line.strip_prefix("KUBEBUILDER_ASSETS="));
    let assets = Path::new(assets.context("KUBEBUILDER_ASSETS is not exported")?);
    for program in ["kube-apiserver", "etcd"] {
        check(Command::new(assets.join(program)).arg("--version"))?;
    }
    Ok(Outcome::Passed)
}

/// An image of nothing but the program, which has to be static. buildah needs no daemon.
fn docker(trial: &Trial) -> anyhow::Result<Outcome> {
    let has_docker = answers("docker", "info");
    if !has_docker && !answers("buildah", "--version") {
        return Ok(lacks("docker with a daemon, and buildah"));
    }
    if !is_static(&trial.binary)? {
        let reason = "the program is linked dynamically; build it for a musl target";
        return Ok(Outcome::Skipped(reason.to_owned()));
    }
    let context = trial.scratch.join("context");
    fs::create_dir(&context)?;
    trial.copy("Dockerfile", "context/Dockerfile")?;
    copy(&trial.binary, &context.join("kubeproof"))?;
    let image = "kubeproof:packages";
    if has_docker {
        check(
            Command::new("docker")
                .args(["build", "--tag", image, "."])
                .current_dir(&context),
        )?;
        check(Command::new("docker").args(["run", "--rm", image, "--version"]))?;
        return Ok(Outcome::Passed);
    }
    let buildah = || {
        let mut command = Command::new("buildah");
        command.args(["--storage-driver", "vfs", "--root"]);
        command.arg(trial.scratch.join("storage"));
        command.arg("--runroot").arg(trial.scratch.join("state"));
        command.current_dir(&context);
        command
    };
    let isolation = ["--isolation", "chroot"];
    check(
        buildah()
            .arg("bud")
            .args(isolation)
            .args(["--tag", image, "."]),
    )?;
    let container = "kubeproof-packages";
    check(buildah().args(["from", "--name", container, image]))?;
    let program = [container, "--", "/kubeproof", "--version"];
    check(buildah().arg("run").args(isolation).args(program))?;
    Ok(Outcome::Passed)
}

/// The crates as they are published, and a test in a crate that depends on them and on nothing of the repository.
fn rust(trial: &Trial) -> anyhow::Result<Outcome> {
    if !answers("tar", "--version") {
        return Ok(lacks("tar"));
    }
    let packed = trial.scratch.join("packed");
    check(
        cargo()
            .arg("package")
            .args(flags(&names()?))
            .args(["--no-verify", "--allow-dirty", "--quiet", "--target-dir"])
            .arg(&packed),
    )?;
    let crates = trial.scratch.join("crates");
    fs::create_dir_all(&crates)?;
    // In place of a registry that has them.
    let mut patches = "\n[patch.crates-io]\n".to_owned();
    for file in files(&packed.join("package"))? {
        if file.extension() != Some(OsStr::new("crate")) {
            continue;
        }
        check(
            Command::new("tar")
                .arg("xzf")
                .arg(&file)
                .arg("-C")
                .arg(&crates),
        )?;
        let unpacked = crates.join(file.file_stem().context("a package has a name")?);
        let directory = unpacked.display().to_string();
        let name = directory.rsplit(['/', '\\']).next().unwrap_or_default();
        let version = format!("-{}", env!("CARGO_PKG_VERSION"));
        let name = name.strip_suffix(&version);
        let name = name.with_context(|| format!("{directory} has another version"))?;
        patches += &format!("{name} = {{ path = {directory:?} }}\n");
    }
    for part in ["src", "tests"] {
        trial.copy(part, &format!("user/{part}"))?;
    }
    let user = trial.scratch.join("user");
    let manifest = fs::read_to_string(trial.source.join("Cargo.toml"))?;
    fs::write(user.join("Cargo.toml"), manifest + &patches)?;
    check(
        cargo()
            .arg("test")
            .current_dir(&user)
            .env("CARGO_TARGET_DIR", user.join("target")),
    )?;
    Ok(Outcome::Passed)
}

/// Whether a program can be started and succeeds with this argument.
fn answers(program: &str, argument: &str) -> bool {
    let mut command = Command::new(program);
    let silent = command.stdout(Stdio::null()).stderr(Stdio::null());
    silent
        .arg(argument)
        .status()
        .is_ok_and(|status| status.success())
}

fn lacks(what: &str) -> Outcome {
    Outcome::Skipped(format!("this machine lacks {what}"))
}

/// Whether an ELF file names no interpreter, which is the loader of dynamic libraries.
fn is_static(binary: &Path) -> anyhow::Result<bool> {
    /// The type of the program header that names an interpreter.
    const PT_INTERP: u32 = 3;
    let bytes = fs::read(binary)?;
    let number = |at: usize| -> Option<usize> {
        let field = bytes.get(at..at + 2)?.try_into().ok()?;
        Some(usize::from(u16::from_le_bytes(field)))
    };
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return Ok(false);
    }
    let headers = (|| {
        let start = u64::from_le_bytes(bytes.get(32..40)?.try_into().ok()?);
        let (size, count) = (number(54)?, number(56)?);
        let start = usize::try_from(start).ok()?;
        Some((0..count).map(move |index| start + index * size))
    })();
    let headers = headers.context("the program is cut short")?;
    let of_type = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    Ok(!headers.into_iter().any(|at| of_type(at) == Some(PT_INTERP)))
}

/// Runs a command, whose output is shown.
fn succeeds(command: &mut Command) -> anyhow::Result<bool> {
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    println!("xtask: {}", words.join(" "));
    let status = command.status();
    let status = status.with_context(|| format!("cannot start {}", words[0]))?;
    Ok(status.success())
}

/// Runs a command, which has to succeed.
pub(crate) fn check(command: &mut Command) -> anyhow::Result<()> {
    if !succeeds(command)? {
        bail!("{} has failed", command.get_program().to_string_lossy());
    }
    Ok(())
}

/// The files of a directory, by name.
fn files(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.map(|entry| Ok(entry?.path()));
    let mut files = entries.collect::<anyhow::Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

/// Copies a file, or a directory without what tools leave in it.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    if !from.is_dir() {
        let copied = fs::copy(from, to);
        copied.with_context(|| format!("cannot copy {}", from.display()))?;
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for path in files(from)? {
        let name = path.file_name().unwrap_or_default();
        let is_left = ["__pycache__", "node_modules"]
            .map(OsStr::new)
            .contains(&name);
        if !is_left {
            copy(&path, &to.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
