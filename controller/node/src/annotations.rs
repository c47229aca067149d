//! The annotations that steer a simulated pod.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::{Pace, Timings};

const PREFIX: &str = "kubeproof.dev/";
/// The infix between a pod's name and the key in annotations of the pod's Namespace.
const POD_INFIX: &str = ".pods.kubeproof.dev/";

/// A delay, finite or infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delay {
    After(Duration),
    Never,
}

/// The phase that an annotation sets for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForcedPhase {
    Pending,
    Failed,
    Succeeded,
}

/// The behavior of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Behavior {
    pub(super) ready: bool,
    pub(super) phase: Option<ForcedPhase>,
    pub(super) start: Delay,
    pub(super) ready_after: Delay,
    pub(super) stop: Delay,
    /// Whether containers receive signals and end by themselves; else `stop` decides.
    pub(super) signals: Option<Pace>,
}

/// The annotations that steer one pod.
#[derive(Clone, Copy)]
pub(super) struct Annotations<'a> {
    /// The pod's name.
    pub(super) name: &'a str,
    /// The annotations of the pod.
    pub(super) pod: Option<&'a BTreeMap<String, String>>,
    /// The annotations of the pod's Namespace.
    pub(super) namespace: Option<&'a BTreeMap<String, String>>,
}

impl Annotations<'_> {
    /// Returns the value of `key` on the pod, or else on its Namespace for this pod.
    fn value(&self, key: &str) -> Option<&str> {
        let own = self
            .pod
            .and_then(|annotations| annotations.get(&format!("{PREFIX}{key}")));
        let name = self.name;
        own.or_else(|| self.namespace?.get(&format!("{name}{POD_INFIX}{key}")))
            .map(|value| value.trim())
    }

    /// Returns the ports forwarded to programs on loopback: `80=127.0.0.1:3000`, separated by
    /// commas.
    pub(super) fn forwards(&self) -> BTreeMap<u16, SocketAddr> {
        let forwards = self.value("port-forward").unwrap_or_default().split(',');
        let forwards = forwards.filter_map(|forward| {
            let (port, address) = forward.split_once('=')?;
            let port = port.trim().parse().ok().filter(|port| *port != 0)?;
            Some((port, loopback(address.trim())?))
        });
        forwards.collect()
    }
}

impl Behavior {
    /// Reads the annotations of the pod, then those of its Namespace for it, then the defaults. A
    /// value that can't be parsed is ignored.
    pub(super) fn read(annotations: Annotations<'_>, timings: &Timings) -> Self {
        let value = |key: &str| annotations.value(key);
        let delay = |key: &str, default: Duration| {
            value(key)
                .and_then(parse_delay)
                .unwrap_or(Delay::After(default))
        };
        // A container that receives SIGTERM has the whole grace period.
        let stop = match timings.pace {
            Some(_) => Duration::MAX,
            None => timings.stop,
        };
        let stated = value("stop-seconds").and_then(parse_delay);
        Self {
            ready: value("ready") != Some("false"),
            phase: value("phase").and_then(parse_phase),
            start: delay("start-seconds", timings.start),
            ready_after: delay("ready-seconds", timings.ready),
            stop: stated.unwrap_or(Delay::After(stop)),
            signals: timings.pace.filter(|_| stated.is_none()),
        }
    }
}

/// Parses `127.0.0.1:3000`, `[::1]:3000` or `localhost:3000`; `None` for an address that is not
/// loopback.
#[must_use]
pub fn loopback(text: &str) -> Option<SocketAddr> {
    let address: SocketAddr = match text.strip_prefix("localhost:") {
        Some(port) => (Ipv4Addr::LOCALHOST, port.parse().ok()?).into(),
        None => text.parse().ok()?,
    };
    (address.ip().is_loopback() && address.port() != 0).then_some(address)
}

fn parse_delay(value: &str) -> Option<Delay> {
    if value == "never" {
        return Some(Delay::Never);
    }
    let seconds: f64 = value.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok().map(Delay::After)
}

fn parse_phase(value: &str) -> Option<ForcedPhase> {
    match value {
        "Pending" => Some(ForcedPhase::Pending),
        "Failed" => Some(ForcedPhase::Failed),
        "Succeeded" => Some(ForcedPhase::Succeeded),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a directive read from the annotations of a pod and of its Namespace.
    fn steered<T>(
        pod: &[(&str, &str)],
        namespace: &[(&str, &str)],
        read: impl Fn(Annotations<'_>) -> T,
    ) -> T {
        let annotations = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        read(Annotations {
            name: "web-1",
            pod: Some(&annotations(pod)),
            namespace: Some(&annotations(namespace)),
        })
    }

    fn read(pod: &[(&str, &str)], namespace: &[(&str, &str)]) -> Behavior {
        let timings = Timings {
            start: Duration::from_secs(1),
            ready: Duration::from_secs(2),
            stop: Duration::from_secs(3),
            pace: None,
        };
        steered(pod, namespace, |own| Behavior::read(own, &timings))
    }

    #[test]
    fn ports_lead_to_loopback_and_nowhere_else() {
        let value = "80=127.0.0.1:3000, 81 = localhost:3001,82=[::1]:3002,83=10.0.0.1:1,84,85=x,0=127.0.0.1:1,\
                     86=127.0.0.1:0,99999=127.0.0.1:1";
        let own = [("kubeproof.dev/port-forward", value)];
        let kept = [("web-1.pods.kubeproof.dev/port-forward", "9=127.0.0.1:9")];
        let forwards = |pod: &[(&str, &str)]| {
            let forwards = steered(pod, &kept, |own| own.forwards()).into_iter();
            forwards
                .map(|(port, address)| format!("{port}={address}"))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(
            forwards(&own),
            "80=127.0.0.1:3000 81=127.0.0.1:3001 82=[::1]:3002"
        );
        assert_eq!(forwards(&[]), "9=127.0.0.1:9");
    }

    #[test]
    fn the_pod_precedes_its_namespace_and_that_the_defaults() {
        let defaults = read(&[], &[("web-2.pods.kubeproof.dev/ready", "false")]);
        assert_eq!(
            defaults,
            Behavior {
                ready: true,
                phase: None,
                start: Delay::After(Duration::from_secs(1)),
                ready_after: Delay::After(Duration::from_secs(2)),
                stop: Delay::After(Duration::from_secs(3)),
                signals: None,
            }
        );
        let both = read(
            &[
                ("kubeproof.dev/ready", "true"),
                ("kubeproof.dev/start-seconds", "0.5"),
            ],
            &[
                ("web-1.pods.kubeproof.dev/ready", "false"),
                ("web-1.pods.kubeproof.dev/phase", "Failed"),
                ("web-1.pods.kubeproof.dev/stop-seconds", "never"),
            ],
        );
        assert_eq!(
            both,
            Behavior {
                ready: true,
                phase: Some(ForcedPhase::Failed),
                start: Delay::After(Duration::from_millis(500)),
                ready_after: Delay::After(Duration::from_secs(2)),
                stop: Delay::Never,
                signals: None,
            }
        );
    }

    #[test]
    fn with_a_pace_containers_are_sent_signals_unless_an_annotation_says_otherwise() {
        let timings = Timings {
            pace: Some(Pace::NODE),
            ..Timings::default()
        };
        let read = |annotations: &[(&str, &str)]| {
            let read = |own: Annotations<'_>| Behavior::read(own, &timings);
            let read = steered(annotations, &[], read);
            (read.stop, read.signals)
        };
        assert_eq!(read(&[]), (Delay::After(Duration::MAX), Some(Pace::NODE)));
        let own = [("kubeproof.dev/stop-seconds", "2")];
        let stop = Delay::After(Duration::from_secs(2));
        assert_eq!(read(&own), (stop, None));
    }

    #[test]
    fn unreadable_values_count_as_absent() {
        for value in ["-1", "soon", "NaN", ""] {
            let read = read(&[("kubeproof.dev/start-seconds", value)], &[]);
            assert_eq!(read.start, Delay::After(Duration::from_secs(1)), "{value}");
        }
    }
}
