//! The directory in which a server keeps what it holds across restarts.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use kubeproof::log::{Moment, State};
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{ApiServer, TokenKeys};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::kubeconfig::write_private;

/// The least time between two snapshots.
const PAUSE_MIN: Duration = Duration::from_secs(3);

/// The least time between two snapshots, in times of what the last one took.
const PAUSE_FACTOR: u32 = 10;

/// A state directory, which no other server uses meanwhile.
pub(super) struct StateDir {
    path: PathBuf,
    /// Locked until it is closed.
    _lock: File,
}

impl StateDir {
    /// Opens the directory at `path`, and makes it if it does not exist.
    ///
    /// # Errors
    /// If the directory cannot be written, or another server uses it.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        let lock = path.join("lock");
        let file = File::create(&lock);
        let file = file.with_context(|| format!("cannot write {}", lock.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("{} is the state of a server that runs", path.display())
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", lock.display()));
            }
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: file,
        })
    }

    /// Reads what the last server held; None at the first start.
    ///
    /// # Errors
    /// If the file cannot be read, or is no state.
    pub(super) fn read(&self) -> anyhow::Result<Option<State>> {
        let path = self.file();
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let state = State::read(&text, Moment::End);
        Ok(Some(state.with_context(|| path.display().to_string())?))
    }

    /// Returns the keys of service accounts' tokens, which are made at the first start.
    ///
    /// # Errors
    /// If the file cannot be written or read, or has no key.
    pub(super) fn token_keys(&self) -> anyhow::Result<TokenKeys> {
        let path = self.path.join("service-account.key");
        if !path.exists() {
            write_private(&path, &TokenKeys::generate_pem())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let pem = std::fs::read(&path);
        let pem = pem.with_context(|| format!("cannot read {}", path.display()))?;
        TokenKeys::read(&pem, &[]).with_context(|| format!("cannot use {}", path.display()))
    }

    /// Takes a snapshot of `server` every few seconds in which it changes, until [`Keeper::end`].
    pub(super) fn keep(self, server: &ApiServer) -> Keeper {
        let (stop, stopped) = watch::channel(false);
        let (fails, failed) = watch::channel(false);
        let snapshots = Snapshots {
            server: server.clone(),
            written: None,
            path: self.file(),
        };
        let task = tokio::spawn(async move {
            let kept = snapshots.follow(stopped).await;
            fails.send_replace(kept.is_err());
            kept
        });
        Keeper {
            directory: self,
            task,
            stop,
            failed,
        }
    }

    fn file(&self) -> PathBuf {
        self.path.join("state.jsonl")
    }
}

/// A task that takes snapshots.
pub(super) struct Keeper {
    directory: StateDir,
    task: JoinHandle<std::io::Result<()>>,
    /// Set when the server has ended.
    stop: watch::Sender<bool>,
    /// True once a snapshot could not be written.
    failed: watch::Receiver<bool>,
}

impl Keeper {
    pub(super) fn failed(&self) -> watch::Receiver<bool> {
        self.failed.clone()
    }

    /// Takes the last snapshot.
    ///
    /// # Errors
    /// When a snapshot could not be written, now or before.
    pub(super) async fn end(self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        let kept = self.task.await.context("snapshots do not panic")?;
        kept.with_context(|| format!("cannot write {}", self.directory.file().display()))
    }
}

struct Snapshots {
    server: ApiServer,
    /// The version of the last snapshot.
    written: Option<ResourceVersion>,
    path: PathBuf,
}

impl Snapshots {
    async fn follow(mut self, mut stopped: watch::Receiver<bool>) -> std::io::Result<()> {
        let mut pause = PAUSE_MIN;
        loop {
            let is_over = tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => true,
                () = tokio::time::sleep(pause) => false,
            };
            let began = Instant::now();
            // A large state takes seconds, in which other threads serve requests.
            tokio::task::block_in_place(|| self.take())?;
            pause = PAUSE_MIN.max(began.elapsed() * PAUSE_FACTOR);
            if is_over {
                return Ok(());
            }
        }
    }

    /// Writes the present state, if it is not the one written last. A crash leaves one of the two.
    fn take(&mut self) -> std::io::Result<()> {
        if self.written == Some(self.server.resource_version()) {
            return Ok(());
        }
        let state = self.server.state();
        let new = self.path.with_extension("new");
        write_private(&new, &state.to_text())?;
        File::open(&new)?.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        self.written = Some(state.resource_version());
        Ok(())
    }
}
