//! Probes of a container: what they look at, and when they change their mind.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container as Spec, Probe};

use super::container::Container;
use super::server::{Answer, REFUSED, Server};

/// What a probe decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProbeKind {
    Liveness,
    Readiness,
    Startup,
}

impl ProbeKind {
    /// Its name, as events have it.
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
    container: Container,
    server: Server,
    /// What it says; nothing as long as nothing was decided.
    said: Option<bool>,
    /// The outcomes in a row, up to the last one, that are not what it says.
    others: i32,
    probed: bool,
}

/// What came of one look, where there is something to tell.
pub(super) struct Outcome {
    /// What the probe says from now on, if that is new.
    pub(super) verdict: Option<bool>,
    /// What was wrong.
    pub(super) failure: Option<String>,
    /// How long a container may take to stop whom the probe has ended.
    pub(super) grace: Option<Duration>,
}

impl Prober {
    /// The probe of this kind that `spec` has.
    pub(super) fn new(kind: ProbeKind, spec: &Spec, container: &Container) -> Option<Self> {
        Some(Self {
            kind,
            probe: kind.of(spec)?,
            container: container.clone(),
            server: Server::of(spec),
            // A container is not ready, but alive, until something else is found.
            said: (kind != ProbeKind::Startup).then_some(kind == ProbeKind::Liveness),
            others: 0,
            probed: false,
        })
    }

    /// Looks until there is something to tell.
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

    /// Counts an outcome; what the probe says from now on, if that changes it.
    fn count(&mut self, success: bool) -> Option<bool> {
        if self.said == Some(success) {
            self.others = 0;
            return None;
        }
        // As long as nothing is decided, one kind of outcome in a row counts.
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
            let ended = self.container.collect(command.clone());
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
            return match self.server.get(get, &self.container) {
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

/// A number of seconds that the API gives a default.
fn seconds(stated: Option<i32>, default: u64) -> Duration {
    let stated = stated.and_then(|stated| u64::try_from(stated).ok());
    Duration::from_secs(stated.unwrap_or(default))
}
