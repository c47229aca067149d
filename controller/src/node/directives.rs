//! What annotations ask of a simulated pod.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Timings;

const PREFIX: &str = "kubeproof.dev/";
/// Between a pod's name and the key, on the pod's Namespace.
const POD_INFIX: &str = ".pods.kubeproof.dev/";

/// A time to wait, which may have no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delay {
    After(Duration),
    Never,
}

/// Where an annotation drives a pod's phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForcedPhase {
    Pending,
    Failed,
    Succeeded,
}

/// The behaviour of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Directives {
    pub(super) ready: bool,
    pub(super) phase: Option<ForcedPhase>,
    pub(super) start: Delay,
    pub(super) ready_after: Delay,
    pub(super) stop: Delay,
}

type Annotations = BTreeMap<String, String>;

impl Directives {
    /// Reads the annotations of the pod `name`, then those its Namespace keeps for it, then the
    /// defaults. A value that can't be read counts as absent.
    pub(super) fn read(
        name: &str,
        pod: Option<&Annotations>,
        namespace: Option<&Annotations>,
        timings: &Timings,
    ) -> Self {
        let value = |key: &str| {
            let own = pod.and_then(|annotations| annotations.get(&format!("{PREFIX}{key}")));
            own.or_else(|| namespace?.get(&format!("{name}{POD_INFIX}{key}")))
                .map(|value| value.trim())
        };
        let delay = |key: &str, default: Duration| {
            value(key)
                .and_then(parse_delay)
                .unwrap_or(Delay::After(default))
        };
        Self {
            ready: value("ready") != Some("false"),
            phase: value("phase").and_then(parse_phase),
            start: delay("start-seconds", timings.start),
            ready_after: delay("ready-seconds", timings.ready),
            stop: delay("stop-seconds", timings.stop),
        }
    }
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

    fn read(pod: &[(&str, &str)], namespace: &[(&str, &str)]) -> Directives {
        let annotations = |pairs: &[(&str, &str)]| -> Annotations {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        let timings = Timings {
            start: Duration::from_secs(1),
            ready: Duration::from_secs(2),
            stop: Duration::from_secs(3),
        };
        Directives::read(
            "web-1",
            Some(&annotations(pod)),
            Some(&annotations(namespace)),
            &timings,
        )
    }

    #[test]
    fn the_pod_precedes_its_namespace_and_that_the_defaults() {
        let defaults = read(&[], &[("web-2.pods.kubeproof.dev/ready", "false")]);
        assert_eq!(
            defaults,
            Directives {
                ready: true,
                phase: None,
                start: Delay::After(Duration::from_secs(1)),
                ready_after: Delay::After(Duration::from_secs(2)),
                stop: Delay::After(Duration::from_secs(3)),
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
            Directives {
                ready: true,
                phase: Some(ForcedPhase::Failed),
                start: Delay::After(Duration::from_millis(500)),
                ready_after: Delay::After(Duration::from_secs(2)),
                stop: Delay::Never,
            }
        );
    }

    #[test]
    fn unreadable_values_count_as_absent() {
        for value in ["-1", "soon", "NaN", ""] {
            let read = read(&[("kubeproof.dev/start-seconds", value)], &[]);
            assert_eq!(read.start, Delay::After(Duration::from_secs(1)), "{value}");
        }
    }
}
