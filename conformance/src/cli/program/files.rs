//! The files of a program, by the command that starts it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

/// The files among the words of a command of the shell, with their true paths. Files that it writes are left out.
pub(in crate::cli) fn files_in(command: &str) -> Vec<PathBuf> {
    let files = words(command).filter(|word| Path::new(word).is_file());
    files
        .filter_map(|word| Path::new(word).canonicalize().ok())
        .collect()
}

/// The words of a command that could name files which it reads.
fn words(command: &str) -> impl Iterator<Item = &str> {
    let mut is_written = false;
    let words = command.split(|at: char| at.is_whitespace() || "'\";&|()=".contains(at));
    let words = words.filter(|word| !word.is_empty());
    words.filter(move |word| {
        let was_written = is_written;
        is_written = word.ends_with('>');
        !was_written
    })
}

/// A digest of the files in these commands, and of the programs that they name by the search path.
///
/// # Errors
/// When a file cannot be read.
pub(in crate::cli) fn digest(commands: &[String]) -> anyhow::Result<[u8; 32]> {
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let mut files = BTreeSet::new();
    for command in commands {
        files.extend(files_in(command));
        files.extend(words(command).filter_map(|word| found(word, &search_path)));
    }
    let mut digest = Sha256::new();
    for file in files {
        let path = file.as_os_str().as_encoded_bytes();
        digest.update(path.len().to_le_bytes());
        digest.update(path);
        let read = add(&mut digest, &file);
        read.with_context(|| format!("cannot read {}", file.display()))?;
    }
    Ok(digest.finalize().into())
}

/// The file of a program without a directory in its name.
fn found(word: &str, search_path: &OsStr) -> Option<PathBuf> {
    if word.contains(std::path::is_separator) {
        return None;
    }
    let mut directories = std::env::split_paths(search_path);
    let file = directories.find_map(|directory| {
        let file = directory.join(word);
        file.is_file().then_some(file)
    });
    file.and_then(|file| file.canonicalize().ok())
}

/// Adds the content of a file, and its length.
fn add(digest: &mut Sha256, path: &Path) -> io::Result<()> {
    let mut file = File::open(path)?;
    let (mut buffer, mut length) = (vec![0; 1 << 16], 0_u64);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => {
                digest.update(&buffer[..read]);
                length += read as u64;
            }
        }
    }
    digest.update(length.to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_command_are_found() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.rs");
        let path = file.display();
        for command in [
            format!("exec {path} --namespace {{namespace}}"),
            format!("LOG=debug sh -c 'cd /; {path}'"),
        ] {
            assert_eq!(files_in(&command), std::slice::from_ref(&file), "{command}");
        }
        assert!(files_in("kubectl get pods").is_empty());
        assert!(files_in(&format!("echo > {path}")).is_empty());
    }

    #[test]
    fn programs_are_found_by_the_search_path() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
        let found = |word| super::found(word, directory.as_os_str());
        assert_eq!(found("build.rs"), Some(directory.join("build.rs")));
        assert_eq!(found("src"), None);
        assert_eq!(found("./build.rs"), None);
    }

    #[test]
    fn another_file_has_another_digest() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
        let digest = |name: &str| digest(&[directory.join(name).display().to_string()]).unwrap();
        assert_eq!(digest("build.rs"), digest("build.rs"));
        assert_ne!(digest("build.rs"), digest("Cargo.toml"));
    }
}
