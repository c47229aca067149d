//! `gzip`, `gunzip` and `zcat`.

use std::io::{Read, Write};

use flate2::read::MultiGzDecoder;
use flate2::{Compression, GzBuilder};

use super::super::filesystem::FileError;
use super::MEMORY_BYTES_MAX;
use super::files::Task;

/// The suffix that gzip appends to a file's name.
const SUFFIX: &str = ".gz";

/// Compresses `bytes` in gzip's format; equal input gives equal output.
pub(super) fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::default());
    let written = encoder.write_all(bytes);
    let finished = written.and_then(|()| encoder.finish());
    finished.expect("memory takes all that is written")
}

/// Decompresses gzip's format.
///
/// # Errors
/// Busybox's message for invalid data.
pub(super) fn decompressed(bytes: &[u8]) -> Result<Vec<u8>, String> {
    if !is_compressed(bytes) {
        return Err("invalid magic".to_owned());
    }
    let limit = u64::try_from(MEMORY_BYTES_MAX).unwrap_or(u64::MAX);
    let mut decoder = MultiGzDecoder::new(bytes).take(limit + 1);
    let mut out = Vec::new();
    match decoder.read_to_end(&mut out) {
        Ok(_) if out.len() > MEMORY_BYTES_MAX => Err(FileError::NoSpace.to_string()),
        Ok(_) => Ok(out),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err("unexpected end of file".to_owned())
        }
        Err(_) => Err("corrupted data".to_owned()),
    }
}

pub(super) fn is_compressed(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

impl Task<'_> {
    /// `gzip` and `gunzip`: replaces each file, or with `-c` writes to standard output. Reads
    /// standard input if no files are named.
    pub(super) async fn compress(&self, operands: &[&str]) -> i32 {
        let unpacks = self.name != "gzip" || self.has('d') || self.has('t');
        let shows = self.name == "zcat" || self.has('c') || self.has('t');
        let operands = if operands.is_empty() {
            &["-"]
        } else {
            operands
        };
        let mut code = 0;
        for operand in operands {
            if let Err(message) = self.compress_one(operand, unpacks, shows).await {
                code = self.complain(&message);
            }
        }
        code
    }

    async fn compress_one(&self, operand: &str, unpacks: bool, shows: bool) -> Result<(), String> {
        let files = &self.shell.files;
        let bytes = self.whole(operand).await;
        let bytes = bytes.map_err(|error| format!("{operand}: {error}"))?;
        let in_place = !shows && operand != "-";
        let target = match (in_place, unpacks) {
            (false, _) => None,
            (true, false) => Some(format!("{operand}{SUFFIX}")),
            (true, true) => {
                let name = operand.strip_suffix(SUFFIX);
                let name = name.map(str::to_owned).or_else(|| {
                    let stem = operand.strip_suffix(".tgz")?;
                    Some(format!("{stem}.tar"))
                });
                let unknown = || format!("{operand}: unknown suffix - ignored");
                Some(name.ok_or_else(unknown)?)
            }
        };
        let made = match unpacks {
            true => decompressed(&bytes)?,
            false => compressed(&bytes),
        };
        let Some(target) = target else {
            if !self.has('t') {
                self.io.stdout.ready().await;
                self.io.stdout.write(&made);
            }
            return Ok(());
        };
        let path = self.path(&target);
        if files.exists(&path) && !self.has('f') {
            return Err(format!("can't open '{target}': {}", FileError::Exists));
        }
        let written = files.write(&path, &made, false);
        written.map_err(|error| format!("can't open '{target}': {error}"))?;
        if !self.has('k') {
            let removed = files.remove(&self.path(operand), false);
            removed.map_err(|error| format!("can't remove '{operand}': {error}"))?;
        }
        Ok(())
    }
}
