//! The admission plugins of v1.36 by name, in the order of calls.
//!
//! Source: `pkg/kubeapiserver/options/plugins.go`, and the operations that each plugin handles.

use super::{Phase, Step};
use crate::request::Operation;
use Operation::{Connect, Create, Delete, Update};

/// An admission plugin of kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plugin {
    AlwaysAdmit,
    NamespaceAutoProvision,
    NamespaceLifecycle,
    NamespaceExists,
    LimitPodHardAntiAffinityTopology,
    LimitRanger,
    ServiceAccount,
    NodeRestriction,
    TaintNodesByCondition,
    AlwaysPullImages,
    ImagePolicyWebhook,
    PodSecurity,
    PodNodeSelector,
    Priority,
    DefaultTolerationSeconds,
    PodTolerationRestriction,
    EventRateLimit,
    ExtendedResourceToleration,
    DefaultStorageClass,
    StorageObjectInUseProtection,
    PodGroupProtection,
    OwnerReferencesPermissionEnforcement,
    PersistentVolumeClaimResize,
    RuntimeClass,
    CertificateApproval,
    CertificateSigning,
    ClusterTrustBundleAttest,
    CertificateSubjectRestriction,
    DefaultIngressClass,
    DenyServiceExternalIPs,
    PodTopologyLabels,
    PodGroupWorkloadExists,
    NodeDeclaredFeatureValidator,
    JobValidation,
    PodResizeValidator,
    MutatingAdmissionPolicy,
    MutatingAdmissionWebhook,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionWebhook,
    ResourceQuota,
    AlwaysDeny,
}

/// A plugin's row in the table.
#[derive(Debug)]
struct Facts {
    plugin: Plugin,
    name: &'static str,
    default: Default,
    steps: &'static [Step],
    operations: &'static [Operation],
}

/// The state of a plugin that no flag names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Default {
    On,
    Off,
    /// On in a cluster, and not built here: its kinds are not served, or it checks what only a
    /// node knows.
    Idle,
    /// Off, and not built here.
    Missing,
}

const ADMIT: &[Step] = &[Step::Admit];
const VALIDATE: &[Step] = &[Step::Validate];
const BOTH: &[Step] = &[Step::Admit, Step::Validate];

const CREATE: &[Operation] = &[Create];
const UPDATE: &[Operation] = &[Update];
const CREATE_UPDATE: &[Operation] = &[Create, Update];
const CREATE_DELETE_UPDATE: &[Operation] = &[Create, Delete, Update];
const CONNECT_CREATE_UPDATE: &[Operation] = &[Connect, Create, Update];
const EVERY: &[Operation] = &[Connect, Create, Delete, Update];

/// Every plugin in the order of calls: its name, whether it is on, when it is called.
#[rustfmt::skip]
static TABLE: [Facts; 41] = [
    facts(Plugin::AlwaysAdmit, "AlwaysAdmit", Default::Off, BOTH, EVERY),
    facts(Plugin::NamespaceAutoProvision, "NamespaceAutoProvision", Default::Off, ADMIT, CREATE),
    facts(Plugin::NamespaceLifecycle, "NamespaceLifecycle", Default::On, ADMIT, CREATE_DELETE_UPDATE),
    facts(Plugin::NamespaceExists, "NamespaceExists", Default::Off, VALIDATE, CREATE_DELETE_UPDATE),
    facts(Plugin::LimitPodHardAntiAffinityTopology, "LimitPodHardAntiAffinityTopology", Default::Off, VALIDATE, CREATE_UPDATE),
    facts(Plugin::LimitRanger, "LimitRanger", Default::On, BOTH, CREATE_UPDATE),
    facts(Plugin::ServiceAccount, "ServiceAccount", Default::On, BOTH, CREATE_UPDATE),
    facts(Plugin::NodeRestriction, "NodeRestriction", Default::Missing, ADMIT, CREATE_DELETE_UPDATE),
    facts(Plugin::TaintNodesByCondition, "TaintNodesByCondition", Default::On, ADMIT, CREATE),
    facts(Plugin::AlwaysPullImages, "AlwaysPullImages", Default::Off, BOTH, CREATE_UPDATE),
    facts(Plugin::ImagePolicyWebhook, "ImagePolicyWebhook", Default::Missing, VALIDATE, CREATE_UPDATE),
    facts(Plugin::PodSecurity, "PodSecurity", Default::On, VALIDATE, CREATE_UPDATE),
    facts(Plugin::PodNodeSelector, "PodNodeSelector", Default::Off, BOTH, CREATE),
    facts(Plugin::Priority, "Priority", Default::On, BOTH, CREATE_DELETE_UPDATE),
    facts(Plugin::DefaultTolerationSeconds, "DefaultTolerationSeconds", Default::On, ADMIT, CREATE_UPDATE),
    facts(Plugin::PodTolerationRestriction, "PodTolerationRestriction", Default::Off, BOTH, CREATE_UPDATE),
    facts(Plugin::EventRateLimit, "EventRateLimit", Default::Off, VALIDATE, CREATE_UPDATE),
    facts(Plugin::ExtendedResourceToleration, "ExtendedResourceToleration", Default::Off, ADMIT, CREATE_UPDATE),
    facts(Plugin::DefaultStorageClass, "DefaultStorageClass", Default::On, ADMIT, CREATE),
    facts(Plugin::StorageObjectInUseProtection, "StorageObjectInUseProtection", Default::On, ADMIT, CREATE),
    facts(Plugin::PodGroupProtection, "PodGroupProtection", Default::Idle, ADMIT, CREATE),
    facts(Plugin::OwnerReferencesPermissionEnforcement, "OwnerReferencesPermissionEnforcement", Default::Off, VALIDATE, CREATE_UPDATE),
    facts(Plugin::PersistentVolumeClaimResize, "PersistentVolumeClaimResize", Default::On, VALIDATE, UPDATE),
    facts(Plugin::RuntimeClass, "RuntimeClass", Default::On, BOTH, CREATE),
    facts(Plugin::CertificateApproval, "CertificateApproval", Default::On, VALIDATE, UPDATE),
    facts(Plugin::CertificateSigning, "CertificateSigning", Default::On, VALIDATE, UPDATE),
    facts(Plugin::ClusterTrustBundleAttest, "ClusterTrustBundleAttest", Default::Idle, VALIDATE, CREATE_UPDATE),
    facts(Plugin::CertificateSubjectRestriction, "CertificateSubjectRestriction", Default::On, VALIDATE, CREATE),
    facts(Plugin::DefaultIngressClass, "DefaultIngressClass", Default::On, ADMIT, CREATE),
    facts(Plugin::DenyServiceExternalIPs, "DenyServiceExternalIPs", Default::Off, VALIDATE, CREATE_UPDATE),
    facts(Plugin::PodTopologyLabels, "PodTopologyLabels", Default::On, ADMIT, CREATE),
    facts(Plugin::PodGroupWorkloadExists, "PodGroupWorkloadExists", Default::Idle, VALIDATE, CREATE),
    facts(Plugin::NodeDeclaredFeatureValidator, "NodeDeclaredFeatureValidator", Default::Idle, VALIDATE, UPDATE),
    facts(Plugin::JobValidation, "JobValidation", Default::Idle, VALIDATE, UPDATE),
    facts(Plugin::PodResizeValidator, "PodResizeValidator", Default::Idle, VALIDATE, UPDATE),
    facts(Plugin::MutatingAdmissionPolicy, "MutatingAdmissionPolicy", Default::On, ADMIT, CONNECT_CREATE_UPDATE),
    facts(Plugin::MutatingAdmissionWebhook, "MutatingAdmissionWebhook", Default::On, ADMIT, EVERY),
    facts(Plugin::ValidatingAdmissionPolicy, "ValidatingAdmissionPolicy", Default::On, VALIDATE, EVERY),
    facts(Plugin::ValidatingAdmissionWebhook, "ValidatingAdmissionWebhook", Default::On, VALIDATE, EVERY),
    facts(Plugin::ResourceQuota, "ResourceQuota", Default::On, VALIDATE, CREATE_UPDATE),
    facts(Plugin::AlwaysDeny, "AlwaysDeny", Default::Off, BOTH, EVERY),
];

const fn facts(
    plugin: Plugin,
    name: &'static str,
    default: Default,
    steps: &'static [Step],
    operations: &'static [Operation],
) -> Facts {
    Facts {
        plugin,
        name,
        default,
        steps,
        operations,
    }
}

impl Plugin {
    /// The number of plugins.
    pub(crate) const COUNT: usize = TABLE.len();

    /// All plugins, in the order of calls.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|facts| facts.plugin)
    }

    const fn facts(self) -> &'static Facts {
        &TABLE[self as usize]
    }

    /// The plugin at a place in the order of calls.
    pub(crate) const fn at(index: usize) -> Self {
        TABLE[index].plugin
    }

    /// The plugin of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::all().find(|plugin| plugin.as_str() == name)
    }

    /// The name under which a cluster's flags and metrics know it.
    pub(crate) fn as_str(self) -> &'static str {
        self.facts().name
    }

    /// Whether a cluster has it on if no flag names it.
    pub(crate) const fn is_on_by_default(self) -> bool {
        matches!(self.facts().default, Default::On | Default::Idle)
    }

    /// Whether this server has its code.
    pub(crate) fn is_built(self) -> bool {
        matches!(self.facts().default, Default::On | Default::Off)
    }

    /// Whether the plugin is called in a phase.
    pub(crate) fn is_in(self, phase: Phase) -> bool {
        let Facts {
            steps, operations, ..
        } = self.facts();
        steps.contains(&phase.step) && operations.contains(&phase.operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_order_of_the_plugins() {
        for (index, facts) in TABLE.iter().enumerate() {
            assert_eq!(facts.plugin as usize, index, "{}", facts.name);
        }
    }
}
