//! Probes of a container: what they look at, and when they change their mind.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container as Spec, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::container::Container;

/// Where images that serve files keep them: a part of the image's name, and the directory.
const DOCUMENT_ROOTS: &[(&str, &str)] = &[
    ("httpd", "/usr/local/apache2/htdocs"),
    ("nginx", "/usr/share/nginx/html"),
];

/// A readiness probe of one container.
#[derive(Clone)]
pub(super) struct Prober {
    probe: Probe,
    container: Container,
    document_root: Option<&'static str>,
}

impl Prober {
    /// The readiness probe of `spec`, if it has one.
    pub(super) fn readiness(spec: &Spec, container: &Container) -> Option<Self> {
        let image = spec.image.as_deref().unwrap_or_default();
        let served = DOCUMENT_ROOTS.iter().find(|(name, _)| image.contains(name));
        Some(Self {
            probe: spec.readiness_probe.clone()?,
            container: container.clone(),
            document_root: served.map(|(_, directory)| *directory),
        })
    }

    /// Probes until enough outcomes in a row are not what `ready` says; `None` as long as nothing
    /// has been probed.
    pub(super) async fn change(self, ready: Option<bool>) -> bool {
        if ready.is_none() {
            tokio::time::sleep(seconds(self.probe.initial_delay_seconds, 0)).await;
        } else {
            tokio::time::sleep(self.period()).await;
        }
        let ready = ready.unwrap_or(false);
        let threshold = match ready {
            true => self.probe.failure_threshold.unwrap_or(3),
            false => self.probe.success_threshold.unwrap_or(1),
        };
        let mut others = 0;
        loop {
            others = match self.succeeds().await == ready {
                true => 0,
                false => others + 1,
            };
            if others >= threshold {
                return !ready;
            }
            tokio::time::sleep(self.period()).await;
        }
    }

    fn period(&self) -> Duration {
        seconds(self.probe.period_seconds, 10)
    }

    async fn succeeds(&self) -> bool {
        if let Some(exec) = &self.probe.exec {
            let command = exec.command.clone().unwrap_or_default();
            let (process, running) = self.container.process(command, false);
            let drained = async { while process.output.read().await.is_some() {} };
            let ended = async { tokio::join!(running, drained).0 };
            let timeout = seconds(self.probe.timeout_seconds, 1);
            return tokio::time::timeout(timeout, ended).await == Ok(Some(0));
        }
        if let Some(get) = &self.probe.http_get {
            let served = match &get.port {
                IntOrString::Int(port) => *port != 0,
                IntOrString::String(port) => !port.is_empty(),
            };
            // What no image is known to serve is answered by a program that serves everything.
            let Some(root) = self.document_root.filter(|_| served) else {
                return served;
            };
            let path = get.path.as_deref().unwrap_or("/");
            let path = path.split('?').next().unwrap_or_default();
            let file = format!("{root}/{path}");
            let files = &self.container.files;
            return match files.is_directory(&file) {
                true => files.exists(&format!("{file}/index.html")),
                false => files.exists(&file),
            };
        }
        // A socket is open as long as the container runs.
        true
    }
}

/// A number of seconds that the API gives a default.
fn seconds(stated: Option<i32>, default: u64) -> Duration {
    let stated = stated.and_then(|stated| u64::try_from(stated).ok());
    Duration::from_secs(stated.unwrap_or(default))
}
