//! Probes of a container: their checks and thresholds.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container as Spec, Probe};

use super::containers::Run;
use super::server::{Answer, REFUSED, Server};

/// The kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProbeKind {
    Liveness,
    Readiness,
    Startup,
}

impl ProbeKind {
    /// Returns the name of the probe in events.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
            Self::Startup => "Startup",
        }
    }

    fn of(self, spec: &Spec) -> Option<Probe> {
        match self {
            Self::Liveness => spec.liveness_probe.clone(),
            Self::Readiness => spec.readiness_probe.clone(),
            Self::Startup => spec.startup_probe.clone(),
        }
    }
}

/// A probe of one run of a container.
pub(super) struct Prober {
    pub(super) kind: ProbeKind,
    probe: Probe,
    run: Arc<Run>,
    server: Server,
    /// The current result; `None` until a threshold was reached.
    said: Option<bool>,
    /// The number of consecutive outcomes that differ from the current result.
    others: i32,
    probed: bool,
}

/// A reportable outcome of a check.
pub(super) struct Outcome {
    /// The new result, if it has changed.
    pub(super) verdict: Option<bool>,
    /// The message of a failed check.
    pub(super) failure: Option<String>,
    /// The grace period of a container that the probe kills.
    pub(super) grace: Option<Duration>,
}

impl Prober {
    /// Creates the probe of this kind; `None` if the container has no such probe.
    pub(super) fn new(kind: ProbeKind, run: &Arc<Run>) -> Option<Self> {
        Some(Self {
            kind,
            probe: kind.of(&run.spec())?,
            run: Arc::clone(run),
            server: run.server(),
            // Until the first result, a container counts as alive but not ready.
            said: (kind != ProbeKind::Startup).then_some(kind == ProbeKind::Liveness),
            others: 0,
            probed: false,
        })
    }

    /// Checks until there is a reportable outcome.
    pub(super) async fn next(&mut self) -> Outcome {
        loop {
            let wait = match std::mem::replace(&mut self.probed, true) {
                false => seconds(self.probe.initial_delay_seconds, 0),
                true => seconds(self.probe.period_seconds, 10),
            };
            tokio::time::sleep(wait).await;
            let failure = self.look().await.err();
            let verdict = self.count(failure.is_none());
            if failure.is_some() || verdict.is_some() {
                let grace = self.probe.termination_grace_period_seconds;
                return Outcome {
                    verdict,
                    failure,
                    grace: grace
                        .and_then(|grace| u64::try_from(grace).ok().map(Duration::from_secs)),
                };
            }
        }
    }

    /// Counts an outcome. Returns the new result if it changes.
    fn count(&mut self, success: bool) -> Option<bool> {
        if self.said == Some(success) {
            self.others = 0;
            return None;
        }
        // Without a result, only consecutive outcomes of one kind count.
        self.others = match self.said {
            None if self.others.is_positive() != success => 0,
            _ => self.others,
        };
        self.others += if self.said.is_none() && !success {
            -1
        } else {
            1
        };
        let threshold = match success {
            true => self.probe.success_threshold.unwrap_or(1),
            false => self.probe.failure_threshold.unwrap_or(3),
        };
        if self.others.abs() < threshold {
            return None;
        }
        self.others = 0;
        self.said = Some(success);
        Some(success)
    }

    async fn look(&self) -> Result<(), String> {
        if let Some(exec) = &self.probe.exec {
            let command = exec.command.clone().unwrap_or_default();
            let timeout = seconds(self.probe.timeout_seconds, 1);
            let ended = self.run.container.collect(command.clone());
            return match tokio::time::timeout(timeout, ended).await {
                Ok((0, _)) => Ok(()),
                Ok((_, output)) => Err(String::from_utf8_lossy(&output).into_owned()),
                Err(_) => Err(format!(
                    "command timed out: \"{}\" timed out after {}s",
                    command.join(" "),
                    timeout.as_secs()
                )),
            };
        }
        if let Some(get) = &self.probe.http_get {
            return match self.server.get(get, &self.run.container) {
                Answer::Status(..400) => Ok(()),
                Answer::Status(code) => Err(format!("HTTP probe failed with statuscode: {code}")),
                Answer::Refused => Err(REFUSED.to_owned()),
            };
        }
        let socket = self.probe.tcp_socket.as_ref();
        let own = socket.filter(|socket| socket.host.as_deref().is_none_or(str::is_empty));
        match own {
            Some(socket) if !self.server.listens_on(&socket.port) => Err(REFUSED.to_owned()),
            _ => Ok(()),
        }
    }
}

/// Returns a number of seconds, or the API's default.
fn seconds(stated: Option<i32>, default: u64) -> Duration {
    let stated = stated.and_then(|stated| u64::try_from(stated).ok());
    Duration::from_secs(stated.unwrap_or(default))
}
