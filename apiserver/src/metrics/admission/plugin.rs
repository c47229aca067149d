//! The built-in plugins by name, and the phases that they take part in.

use super::{Phase, Step};
use crate::request::Operation;

/// A built-in admission plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plugin {
    NamespaceLifecycle,
    LimitRanger,
    ServiceAccount,
    TaintNodesByCondition,
    PodSecurity,
    Priority,
    DefaultTolerationSeconds,
    DefaultStorageClass,
    StorageObjectInUseProtection,
    PersistentVolumeClaimResize,
    RuntimeClass,
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
    DefaultIngressClass,
    PodTopologyLabels,
    MutatingAdmissionPolicy,
    MutatingAdmissionWebhook,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionWebhook,
    ResourceQuota,
}

impl Plugin {
    /// The order in which plugins are called.
    pub(crate) const ALL: [Self; 21] = [
        Self::NamespaceLifecycle,
        Self::LimitRanger,
        Self::ServiceAccount,
        Self::TaintNodesByCondition,
        Self::PodSecurity,
        Self::Priority,
        Self::DefaultTolerationSeconds,
        Self::DefaultStorageClass,
        Self::StorageObjectInUseProtection,
        Self::PersistentVolumeClaimResize,
        Self::RuntimeClass,
        Self::CertificateApproval,
        Self::CertificateSigning,
        Self::CertificateSubjectRestriction,
        Self::DefaultIngressClass,
        Self::PodTopologyLabels,
        Self::MutatingAdmissionPolicy,
        Self::MutatingAdmissionWebhook,
        Self::ValidatingAdmissionPolicy,
        Self::ValidatingAdmissionWebhook,
        Self::ResourceQuota,
    ];

    /// The name under which a cluster's flags and metrics know it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::NamespaceLifecycle => "NamespaceLifecycle",
            Self::LimitRanger => "LimitRanger",
            Self::ServiceAccount => "ServiceAccount",
            Self::TaintNodesByCondition => "TaintNodesByCondition",
            Self::PodSecurity => "PodSecurity",
            Self::Priority => "Priority",
            Self::DefaultTolerationSeconds => "DefaultTolerationSeconds",
            Self::DefaultStorageClass => "DefaultStorageClass",
            Self::StorageObjectInUseProtection => "StorageObjectInUseProtection",
            Self::PersistentVolumeClaimResize => "PersistentVolumeClaimResize",
            Self::RuntimeClass => "RuntimeClass",
            Self::CertificateApproval => "CertificateApproval",
            Self::CertificateSigning => "CertificateSigning",
            Self::CertificateSubjectRestriction => "CertificateSubjectRestriction",
            Self::DefaultIngressClass => "DefaultIngressClass",
            Self::PodTopologyLabels => "PodTopologyLabels",
            Self::MutatingAdmissionPolicy => "MutatingAdmissionPolicy",
            Self::MutatingAdmissionWebhook => "MutatingAdmissionWebhook",
            Self::ValidatingAdmissionPolicy => "ValidatingAdmissionPolicy",
            Self::ValidatingAdmissionWebhook => "ValidatingAdmissionWebhook",
            Self::ResourceQuota => "ResourceQuota",
        }
    }

    /// Whether the plugin is called in a phase.
    pub(crate) fn is_in(self, phase: Phase) -> bool {
        self.steps().contains(&phase.step) && self.operations().contains(&phase.operation)
    }

    /// The steps that it takes part in.
    fn steps(self) -> &'static [Step] {
        match self {
            Self::LimitRanger | Self::ServiceAccount | Self::Priority | Self::RuntimeClass => {
                &[Step::Admit, Step::Validate]
            }
            Self::PodSecurity
            | Self::PersistentVolumeClaimResize
            | Self::CertificateApproval
            | Self::CertificateSigning
            | Self::CertificateSubjectRestriction
            | Self::ValidatingAdmissionPolicy
            | Self::ValidatingAdmissionWebhook
            | Self::ResourceQuota => &[Step::Validate],
            Self::NamespaceLifecycle
            | Self::TaintNodesByCondition
            | Self::DefaultTolerationSeconds
            | Self::DefaultStorageClass
            | Self::StorageObjectInUseProtection
            | Self::DefaultIngressClass
            | Self::PodTopologyLabels
            | Self::MutatingAdmissionPolicy
            | Self::MutatingAdmissionWebhook => &[Step::Admit],
        }
    }

    /// The operations that the plugin is called for.
    fn operations(self) -> &'static [Operation] {
        use Operation::{Connect, Create, Delete, Update};
        match self {
            Self::MutatingAdmissionWebhook
            | Self::ValidatingAdmissionPolicy
            | Self::ValidatingAdmissionWebhook => &[Connect, Create, Delete, Update],
            Self::MutatingAdmissionPolicy => &[Connect, Create, Update],
            Self::NamespaceLifecycle | Self::Priority => &[Create, Delete, Update],
            Self::LimitRanger
            | Self::ServiceAccount
            | Self::PodSecurity
            | Self::DefaultTolerationSeconds
            | Self::ResourceQuota => &[Create, Update],
            Self::PersistentVolumeClaimResize
            | Self::CertificateApproval
            | Self::CertificateSigning => &[Update],
            Self::TaintNodesByCondition
            | Self::DefaultStorageClass
            | Self::StorageObjectInUseProtection
            | Self::RuntimeClass
            | Self::CertificateSubjectRestriction
            | Self::DefaultIngressClass
            | Self::PodTopologyLabels => &[Create],
        }
    }
}
