//! The log that a server writes while it serves.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kubeproof::log::Recorder;
use kubeproof_apiserver::ApiServer;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A task that writes commits down as they come.
pub(super) struct Recording {
    path: PathBuf,
    task: JoinHandle<std::io::Result<()>>,
    /// Set when no more commits will come.
    stop: watch::Sender<bool>,
    /// True once the file could not be written.
    failed: watch::Receiver<bool>,
}

impl Recording {
    /// Writes the state of `server` into a new file at `path`, and commits until [`Self::end`].
    pub(super) fn begin(server: &ApiServer, path: &Path) -> anyhow::Result<Self> {
        let recorder = Recorder::begin(server, path);
        let recorder = recorder.with_context(|| format!("cannot write {}", path.display()))?;
        let (stop, stopped) = watch::channel(false);
        let (fails, failed) = watch::channel(false);
        let commits = server.subscribe();
        let task = tokio::spawn(async move {
            let written = follow(recorder, commits, stopped).await;
            fails.send_replace(written.is_err());
            written
        });
        Ok(Self {
            path: path.to_owned(),
            task,
            stop,
            failed,
        })
    }

    pub(super) fn failed(&self) -> watch::Receiver<bool> {
        self.failed.clone()
    }

    /// Writes the last commits.
    ///
    /// # Errors
    /// When the file could not be written, now or before.
    pub(super) async fn end(self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        let written = self.task.await.context("recording does not panic")?;
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Completes when a recording has failed; never completes when there is no recording.
pub(super) async fn when_failed(failed: &mut Option<watch::Receiver<bool>>) {
    if let Some(failed) = failed
        && failed.wait_for(|failed| *failed).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

async fn follow(
    mut recorder: Recorder,
    mut commits: watch::Receiver<u64>,
    mut stopped: watch::Receiver<bool>,
) -> std::io::Result<()> {
    loop {
        let is_over = tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => true,
            changed = commits.changed() => changed.is_err(),
        };
        // A write to a local file is short enough to block a thread.
        tokio::task::block_in_place(|| recorder.write())?;
        if is_over {
            return Ok(());
        }
    }
}
