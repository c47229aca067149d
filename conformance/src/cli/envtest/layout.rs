//! Directories with the programs that test harnesses start, each the running program under another name.

use std::fs::{self, File, FileTimes, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::Program;

/// Installs the programs that harnesses look for into `dir`, which is created if it does not exist. Files of these
/// names are replaced at once, so that a program that is starting never sees half a file.
///
/// # Errors
/// When the directory cannot be written.
pub(super) fn install(dir: &Path) -> anyhow::Result<()> {
    let own = std::env::current_exe().context("the program does not know its own file")?;
    let write = || -> io::Result<()> {
        fs::create_dir_all(dir)?;
        let mut source = own.clone();
        for program in Program::ALL {
            let target = dir.join(program.file_name());
            place(&source, &target)?;
            // After one copy to another file system the others are links of it.
            source = target;
        }
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", dir.display()))
}

/// Makes `target` a hard link of `source`, or a copy where file systems differ.
fn place(source: &Path, target: &Path) -> io::Result<()> {
    let from = fs::metadata(source)?;
    if fs::metadata(target).is_ok_and(|to| is_same(&from, &to)) {
        return Ok(());
    }
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let draft = target.with_file_name(format!(".{name}.{}", std::process::id()));
    // A draft of this name is of a process that has ended.
    let _ = fs::remove_file(&draft);
    if fs::hard_link(source, &draft).is_err() {
        fs::copy(source, &draft)?;
        let times = FileTimes::new().set_modified(from.modified()?);
        File::options().write(true).open(&draft)?.set_times(times)?;
    }
    fs::rename(&draft, target)?;
    // Renaming a link of a file to another link of it does nothing, and leaves both.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether two files are one, or a file and its copy.
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    let of = |file: &Metadata| (file.len(), file.modified().ok());
    of(one) == of(other)
}

/// The directory of the programs if the user names none. Its last part does not look like a version, because
/// setup-envtest looks such directories up in a store of its own.
///
/// # Errors
/// When the user has no home directory.
pub(super) fn default_dir() -> anyhow::Result<PathBuf> {
    Ok(cache_dir()?.join(env!("CARGO_PKG_VERSION")).join("envtest"))
}

/// The directory for files that can be made again.
///
/// # Errors
/// When the user has no home directory.
pub(super) fn cache_dir() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let home = || set("HOME").map(PathBuf::from);
    let cache = match std::env::consts::OS {
        "windows" => set("LocalAppData").map(PathBuf::from),
        "macos" => home().map(|home| home.join("Library/Caches")),
        _ => {
            let cache = set("XDG_CACHE_HOME").map(PathBuf::from);
            cache.or_else(|| home().map(|home| home.join(".cache")))
        }
    };
    match cache {
        Some(cache) => Ok(cache.join("kubeproof")),
        None => bail!("there is no home directory; name a directory with --into"),
    }
}

/// The name of a version's directory in the stores of setup-envtest, envtest and kube-api-test.
pub(super) fn store_entry(version: &str) -> String {
    format!("{version}-{}-{}", os(), arch())
}

/// The operating system, as Go calls it.
pub(super) fn os() -> &'static str {
    match std::env::consts::OS {
        "macos" => "darwin",
        own => own,
    }
}

/// The architecture of the processor, as Go calls it.
pub(super) fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        own => own,
    }
}
