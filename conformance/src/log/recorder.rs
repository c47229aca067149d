//! The log that a server writes while it serves.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{ApiServer, JournalEntry, on_deep_stack};

use super::format::{Commit, Line};

/// Only its owner reads what may hold Secrets.
#[cfg(unix)]
const OWNER_ONLY: u32 = 0o600;

/// Records the state of a server with a journal, and each commit from then on.
///
/// [`State`](super::State) reads it. Commits stand in the order in which they were made known: of two
/// resources that are written at the same time a later version may come first.
#[derive(Debug)]
pub struct Recorder {
    server: ApiServer,
    file: File,
    /// The version that the log begins with.
    from: ResourceVersion,
}

impl Recorder {
    /// Begins the log of `server` at `path`; the new log replaces an existing file once its beginning is written.
    /// From then on, only this recorder may take the server's journal.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn begin(server: &ApiServer, path: &Path) -> io::Result<Self> {
        let state = server.state();
        // The initial state of the log replaces the commits that led to it.
        drop(server.take_journal());
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let new = PathBuf::from(new);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, OWNER_ONLY);
        let mut file = options.open(&new)?;
        file.write_all(state.to_text().as_bytes())?;
        std::fs::rename(&new, path)?;
        Ok(Self {
            server: server.clone(),
            file,
            from: state.resource_version(),
        })
    }

    /// Writes the commits that have come since the last call, and returns how many.
    ///
    /// # Errors
    /// When the file cannot be written; these commits are lost to it.
    pub fn write(&mut self) -> io::Result<usize> {
        self.write_entries().map(|entries| entries.len())
    }

    /// Writes the commits that have come since the last call, and returns them.
    ///
    /// # Errors
    /// When the file cannot be written; these commits are lost to it.
    pub(crate) fn write_entries(&mut self) -> io::Result<Vec<JournalEntry>> {
        let entries = self.server.take_journal();
        let from = self.from;
        let (text, entries) = on_deep_stack(move || {
            let entries = entries.into_iter().filter(|entry| entry.rv > from);
            let entries: Vec<JournalEntry> = entries.collect();
            let lines = entries.iter();
            let lines = lines.map(|entry| Line::Commit(Commit::of(entry)).to_text() + "\n");
            (lines.collect::<String>(), entries)
        });
        self.file.write_all(text.as_bytes())?;
        Ok(entries)
    }
}
