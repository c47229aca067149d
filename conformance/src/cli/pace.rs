//! The pace of a cluster.

use std::time::Duration;

use clap::{Args, ValueEnum};
use kubeproof_controller::core::namespace;
use kubeproof_node::{self as node, Timings};

/// A simulated pod starts and gets ready at once, but takes a moment to stop: `kubectl delete` looks
/// for the pod after its request, and would take one recreated meanwhile for the old one.
const POD_STOP: Duration = Duration::from_millis(300);

#[derive(Args)]
pub(super) struct PaceArgs {
    /// The pace of simulated pods and namespaces. `fast`: hardly any delay. `real`: as on a machine; a kubelet asks
    /// its runtime once a second, images and containers take their time, processes without a handler for SIGTERM
    /// (sleep, tail, a shell without trap) are killed when the grace period is over, and a namespace is emptied some
    /// seconds after its deletion.
    #[arg(
        long,
        value_name = "fast|real",
        default_value = "fast",
        hide_possible_values = true
    )]
    pub(super) pace: Pace,
}

/// The pace of nodes and of waits for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Pace {
    /// With hardly any delay.
    Fast,
    /// As on machines.
    Real,
}

impl Pace {
    /// The durations of pods' phases.
    pub(super) fn timings(self) -> Timings {
        match self {
            Self::Fast => Timings {
                stop: POD_STOP,
                ..Timings::default()
            },
            Self::Real => Timings {
                pace: Some(node::Pace::NODE),
                ..Timings::default()
            },
        }
    }

    /// The settings of the namespace controller.
    pub(super) fn namespace(self) -> namespace::Settings {
        match self {
            Self::Fast => namespace::Settings::EAGER,
            Self::Real => namespace::Settings::default(),
        }
    }
}
