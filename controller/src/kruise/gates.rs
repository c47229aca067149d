//! OpenKruise's feature gates.
//!
//! Source: openkruise/kruise pkg/features; k8s.io/component-base featuregate.

use std::str::FromStr;

use thiserror::Error;

use Stage::{Alpha, Beta};

/// Which gates are on, of those that change outcomes here. Its text is that of upstream's
/// `--feature-gates`: `AllAlpha=true,TemplateNoDefaults=false`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `CloneSetPartitionRollback`: a partition that is raised takes updated pods back.
    pub partition_rollback: bool,
    /// `PreparingUpdateAsUpdate`: a pod that is prepared for its update counts as updated when a
    /// CloneSet is scaled, and when an Advanced StatefulSet chooses which pods to update.
    pub preparing_update_as_update: bool,
    /// `ForceDeleteTimeoutExpectationGate`: a CloneSet gives up waiting for what never comes.
    pub force_delete_timeout_expectation: bool,
    /// `ResourcesDeletionProtection`: a workload whose label says so is not deleted.
    pub resources_deletion_protection: bool,
    /// `StatefulSetAutoResizePVCGate`: claims of an Advanced StatefulSet grow with their templates.
    pub auto_resize_claims: bool,
    /// `CloneSetShortHash`: pods of a CloneSet are labeled with the hash of their revision alone.
    pub short_hash: bool,
    /// `StatefulSetStartOrdinal`: an Advanced StatefulSet uses `ordinals.start`.
    pub start_ordinal: bool,
    /// `TemplateNoDefaults`: the webhooks leave templates as they are written.
    pub template_no_defaults: bool,
    /// `DefaultHostNetworkHostPortsInPodTemplates`: in templates of pods on the network of their
    /// host the webhooks write the ports of the host.
    pub default_host_ports: bool,
    /// `RecreatePodWhenChangeVCTInCloneSetGate`: pods of a CloneSet whose claim templates have
    /// changed are not updated in place.
    pub recreate_for_claims: bool,
    /// `KruiseDaemon`: nodes have OpenKruise's daemon. On by default; what needs it is off without.
    pub daemon: bool,
    /// `InPlaceUpdateEnvFromMetadata`: updates in place restart containers that read changed
    /// metadata. On by default.
    pub env_from_metadata: bool,
    /// `ImagePullJobGate`: ImagePullJobs are admitted and worked on.
    pub image_pull_job: bool,
    /// `PreDownloadImageForInPlaceUpdate`: nodes pull the images of an update in place before it
    /// reaches them. Turns `ImagePullJobGate` on.
    pub pre_download: bool,
}

/// A fault in the text of feature gates. The messages are those of component-base.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum GateError {
    /// No such gate.
    #[error("unrecognized feature gate: {name} (known: AllAlpha, AllBeta, {})", known().join(", "))]
    Unknown {
        /// The name in the text.
        name: String,
    },
    /// A name without `=true` or `=false`.
    #[error("missing bool value for {name}")]
    Missing {
        /// The name.
        name: String,
    },
    /// A value other than `true` and `false`.
    #[error(
        "invalid value of {name}={value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax"
    )]
    Value {
        /// The name.
        name: String,
        /// The value after the `=`.
        value: String,
    },
}

/// How far a gate is; gates in beta are on by default.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Alpha,
    Beta,
}

/// A gate of upstream's.
struct Gate {
    name: &'static str,
    stage: Stage,
    /// The field of [`Gates`] that holds the gate; None for gates that change nothing here.
    field: Option<fn(&mut Gates) -> &mut bool>,
}

const fn gate(name: &'static str, stage: Stage, field: fn(&mut Gates) -> &mut bool) -> Gate {
    Gate {
        name,
        stage,
        field: Some(field),
    }
}

const fn other(name: &'static str, stage: Stage) -> Gate {
    Gate {
        name,
        stage,
        field: None,
    }
}

/// Beside the other gate of this kind, what turns `ImagePullJobGate` on.
const PRE_DOWNLOAD_FOR_DAEMON_SETS: &str = "PreDownloadImageForDaemonSetUpdate";

/// All gates of upstream's, by name.
const GATES: [Gate; 36] = [
    other("CloneSetEventHandlerOptimization", Alpha),
    gate("CloneSetPartitionRollback", Alpha, |gates| {
        &mut gates.partition_rollback
    }),
    gate("CloneSetShortHash", Alpha, |gates| &mut gates.short_hash),
    other("DaemonSetPruneIneligibleNodes", Alpha),
    other("DaemonWatchingPod", Beta),
    gate(
        "DefaultHostNetworkHostPortsInPodTemplates",
        Alpha,
        |gates| &mut gates.default_host_ports,
    ),
    other("DeletionProtectionForCRDCascadingGate", Alpha),
    other("EnableExternalCerts", Alpha),
    other("EnablePodProbeMarkerOnServerless", Alpha),
    other("EnableSortSidecarContainerByName", Alpha),
    other("EnhancedLivenessProbe", Alpha),
    gate("ForceDeleteTimeoutExpectationGate", Alpha, |gates| {
        &mut gates.force_delete_timeout_expectation
    }),
    gate("ImagePullJobGate", Alpha, |gates| &mut gates.image_pull_job),
    other("InPlacePodVerticalScaling", Alpha),
    gate("InPlaceUpdateEnvFromMetadata", Beta, |gates| {
        &mut gates.env_from_metadata
    }),
    other("InPlaceWorkloadVerticalScaling", Alpha),
    gate("KruiseDaemon", Beta, |gates| &mut gates.daemon),
    other("KruisePodReadinessGate", Alpha),
    other("PodIndexLabel", Beta),
    other("PodProbeMarkerGate", Beta),
    other("PodUnavailableBudgetDeleteGate", Beta),
    other("PodUnavailableBudgetUpdateGate", Alpha),
    other("PodWebhook", Beta),
    other(PRE_DOWNLOAD_FOR_DAEMON_SETS, Alpha),
    gate("PreDownloadImageForInPlaceUpdate", Alpha, |gates| {
        &mut gates.pre_download
    }),
    gate("PreparingUpdateAsUpdate", Alpha, |gates| {
        &mut gates.preparing_update_as_update
    }),
    gate("RecreatePodWhenChangeVCTInCloneSetGate", Alpha, |gates| {
        &mut gates.recreate_for_claims
    }),
    other("ResourceDistributionGate", Beta),
    gate("ResourcesDeletionProtection", Beta, |gates| {
        &mut gates.resources_deletion_protection
    }),
    other("SidecarSetPatchPodMetadataDefaultsAllowed", Alpha),
    other("SidecarTerminator", Alpha),
    other("StatefulSetAutoDeletePVC", Beta),
    gate("StatefulSetAutoResizePVCGate", Alpha, |gates| {
        &mut gates.auto_resize_claims
    }),
    gate("StatefulSetStartOrdinal", Alpha, |gates| {
        &mut gates.start_ordinal
    }),
    gate("TemplateNoDefaults", Alpha, |gates| {
        &mut gates.template_no_defaults
    }),
    other("WorkloadSpread", Beta),
];

fn known() -> Vec<&'static str> {
    GATES.iter().map(|gate| gate.name).collect()
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            partition_rollback: false,
            preparing_update_as_update: false,
            force_delete_timeout_expectation: false,
            resources_deletion_protection: true,
            auto_resize_claims: false,
            short_hash: false,
            start_ordinal: false,
            template_no_defaults: false,
            default_host_ports: false,
            recreate_for_claims: false,
            daemon: true,
            env_from_metadata: true,
            image_pull_job: false,
            pre_download: false,
        }
    }
}

impl Gates {
    /// The gates of upstream's in `text` that change nothing here, as what they are about is not
    /// here; those of a stage are not counted.
    #[must_use]
    pub fn without_effect(text: &str) -> Vec<&'static str> {
        let names: Vec<&str> = assignments(text).map(|(name, _)| name).collect();
        let without = GATES.iter().filter(|gate| gate.field.is_none());
        let named = without.filter(|gate| names.contains(&gate.name));
        named.map(|gate| gate.name).collect()
    }

    fn turn(&mut self, stage: Stage, is_on: bool) {
        for gate in GATES.iter().filter(|gate| gate.stage == stage) {
            if let Some(field) = gate.field {
                *field(self) = is_on;
            }
        }
    }

    fn set(&mut self, name: &str, is_on: bool) -> Result<(), GateError> {
        let unknown = || GateError::Unknown {
            name: name.to_owned(),
        };
        let gate = GATES.iter().find(|gate| gate.name == name);
        if let Some(field) = gate.ok_or_else(unknown)?.field {
            *field(self) = is_on;
        }
        Ok(())
    }
}

impl FromStr for Gates {
    type Err = GateError;

    /// Stages first, whatever the order: what is named has its own value.
    fn from_str(text: &str) -> Result<Self, GateError> {
        let mut gates = Self::default();
        let mut named = Vec::new();
        for (name, value) in assignments(text) {
            let is_on = boolean(name, value)?;
            match name {
                "AllAlpha" => gates.turn(Alpha, is_on),
                "AllBeta" => gates.turn(Beta, is_on),
                _ => named.push((name, is_on)),
            }
        }
        let mut needs_jobs = false;
        for (name, is_on) in named {
            gates.set(name, is_on)?;
            needs_jobs |= is_on && name == PRE_DOWNLOAD_FOR_DAEMON_SETS;
        }
        gates.env_from_metadata &= gates.daemon;
        gates.pre_download &= gates.daemon;
        gates.image_pull_job &= gates.daemon;
        // Asked for by name, the one for DaemonSets is off without the daemon, too.
        gates.image_pull_job |= gates.pre_download || needs_jobs && gates.daemon;
        Ok(gates)
    }
}

/// Names with what stands behind their `=`.
fn assignments(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let parts = text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    parts.map(|part| match part.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (part, None),
    })
}

/// As Go reads it.
fn boolean(name: &str, value: Option<&str>) -> Result<bool, GateError> {
    let name = || name.to_owned();
    match value.ok_or_else(|| GateError::Missing { name: name() })? {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        other => Err(GateError::Value {
            name: name(),
            value: other.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_as_upstream_reads_them() {
        let read = |text: &str| text.parse::<Gates>();
        assert_eq!(read(""), Ok(Gates::default()));
        let all = read("TemplateNoDefaults=false, AllAlpha=true").unwrap();
        assert!(all.preparing_update_as_update && all.short_hash && all.start_ordinal);
        assert!(!all.template_no_defaults, "what is named has its own value");
        assert!(all.resources_deletion_protection, "it is on by default");
        let beta = read("AllBeta=false").unwrap();
        assert!(!beta.resources_deletion_protection && !beta.short_hash);
        let without = read("KruiseDaemon=f").unwrap();
        assert!(!without.env_from_metadata, "it needs the daemon");
        let without = read("KruiseDaemon=f,AllAlpha=true").unwrap();
        assert!(!without.pre_download && !without.image_pull_job);
        let ahead = read("PreDownloadImageForInPlaceUpdate=true,ImagePullJobGate=false").unwrap();
        assert!(ahead.image_pull_job, "pulling ahead needs the jobs");
        let others = read("PreDownloadImageForDaemonSetUpdate=true").unwrap();
        assert!(others.image_pull_job && !others.pre_download);
        assert!(
            !read("InPlaceUpdateEnvFromMetadata=0")
                .unwrap()
                .env_from_metadata
        );
    }

    #[test]
    fn what_is_no_gate_is_refused() {
        let refused = |text: &str| text.parse::<Gates>().unwrap_err().to_string();
        let unknown = refused("ShortHash=true");
        let start = "unrecognized feature gate: ShortHash (known: AllAlpha, AllBeta, CloneSetEvent";
        assert!(unknown.starts_with(start), "{unknown}");
        assert_eq!(refused("AllAlpha"), "missing bool value for AllAlpha");
        assert_eq!(
            refused("AllAlpha=yes"),
            "invalid value of AllAlpha=yes, err: strconv.ParseBool: parsing \"yes\": invalid syntax"
        );
    }

    #[test]
    fn every_gate_has_a_field_of_its_own() {
        let fields = GATES.iter().filter_map(|gate| gate.field);
        let mut seen = Vec::new();
        for field in fields {
            let mut gates = Gates::default();
            *field(&mut gates) ^= true;
            assert!(!seen.contains(&gates) && gates != Gates::default());
            seen.push(gates);
        }
        assert!(known().is_sorted());
        assert_eq!(
            Gates::without_effect("AllAlpha=true,WorkloadSpread=false"),
            ["WorkloadSpread"]
        );
    }
}
