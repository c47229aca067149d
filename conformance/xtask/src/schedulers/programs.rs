//! The programs that are compared, as processes.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};

use super::profiles;
use super::server::Server;

/// A process that ends with this value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// A server and its scheduler.
pub(super) struct Side {
    pub(super) server: Server,
    _processes: Vec<Process>,
    /// The log of kube-scheduler.
    log: Option<PathBuf>,
}

impl Side {
    /// Starts kubeproof with its simulated scheduler. Files go into `dir`.
    pub(super) fn simulated(kubeproof: &Path, dir: &Path) -> anyhow::Result<Self> {
        let config = dir.join("simulated.yaml");
        std::fs::write(&config, profiles::configuration(None).to_string())?;
        let config = config.display().to_string();
        let flags = ["--scheduler", "simulated", "--scheduler-config", &config];
        let (process, server) = serve(kubeproof, &flags)?;
        Ok(Self {
            server,
            _processes: vec![process],
            log: None,
        })
    }

    /// Starts kubeproof without a scheduler, and kube-scheduler for it.
    pub(super) fn real(kubeproof: &Path, scheduler: &Path, dir: &Path) -> anyhow::Result<Self> {
        let config = dir.join("kubeconfig");
        let out = config.display().to_string();
        let (process, server) = serve(
            kubeproof,
            &["--scheduler", "none", "--kubeconfig-out", &out],
        )?;
        let profiles_file = dir.join("real.yaml");
        std::fs::write(
            &profiles_file,
            profiles::configuration(Some(&out)).to_string(),
        )?;
        let log = dir.join("kube-scheduler.log");
        let started = Command::new(scheduler)
            .arg(format!("--config={}", profiles_file.display()))
            .arg("--secure-port=0")
            .arg("--vmodule=schedule_one=10,runtime=10")
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| format!("cannot start {}", scheduler.display()))?;
        Ok(Self {
            server,
            _processes: vec![process, Process(started)],
            log: Some(log),
        })
    }

    /// Returns the final score of each node for a pod, as the log has them; none if only one node was left.
    pub(super) fn scores(&self, pod: &str) -> anyhow::Result<Vec<(String, i64)>> {
        let Some(log) = &self.log else {
            return Ok(Vec::new());
        };
        let mut scores = Vec::new();
        for line in BufReader::new(File::open(log)?).lines() {
            let line = line?;
            if line.contains("\"Calculated node's final score for pod\"")
                && line.contains(&format!("/{pod}\""))
            {
                let node = line
                    .split("node=\"")
                    .nth(1)
                    .and_then(|rest| rest.split('"').next());
                let score = line
                    .split("score=")
                    .nth(1)
                    .and_then(|score| score.trim().parse().ok());
                scores.extend(node.map(str::to_owned).zip(score));
            }
        }
        Ok(scores)
    }
}

/// Starts a server on a free port.
fn serve(kubeproof: &Path, more: &[&str]) -> anyhow::Result<(Process, Server)> {
    let mut process = Command::new(kubeproof)
        .args(["serve", "--controllers", "none", "--exit-with-parent"])
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", kubeproof.display()))?;
    let stdout = process.stdout.take().context("no standard output")?;
    let process = Process(process);
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let url = line.trim().strip_prefix("listening on ");
    ensure!(url.is_some(), "the server does not listen: {line:?}");
    let server = Server::at(url.unwrap_or_default());
    Ok((process, server))
}
