//! The option that configures the simulated scheduler.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use kubeproof_node::SchedulerConfig;

use super::out;

#[derive(Args)]
pub(super) struct SchedulerConfigArgs {
    /// The profiles of the simulated scheduler: a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1), as
    /// kube-scheduler takes it with --config. Read are names of profiles; plugins at preFilter, filter, postFilter, score
    /// and multiPoint, with weights; the arguments of InterPodAffinity, NodeAffinity, NodeResourcesBalancedAllocation,
    /// NodeResourcesFit and PodTopologySpread; and percentageOfNodesToScore. Accepted without effect are extenders, other
    /// extension points and arguments, parallelism, leader election, the client connection, back-off and profiling.
    #[arg(long, value_name = "FILE")]
    scheduler_config: Option<PathBuf>,
}

impl SchedulerConfigArgs {
    /// The file, if one is given.
    pub(super) fn path(&self) -> Option<&Path> {
        self.scheduler_config.as_deref()
    }

    /// Reads the configuration, if one is given; says what has no effect.
    pub(super) fn read(&self) -> anyhow::Result<Option<SchedulerConfig>> {
        let Some(path) = &self.scheduler_config else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        let config = SchedulerConfig::parse(&text);
        let config = config.with_context(|| path.display().to_string())?;
        for warning in config.warnings() {
            out::note(&format!("warning: {warning}"));
        }
        Ok(Some(config))
    }
}
