//! The plugins of a cluster by name, and the measuring of what they take.

use jiff::Timestamp;

use super::webhook::Operation;
use crate::clock::nanos_between;
use crate::endpoints::metrics::admission::{Phase, Step};
use crate::server::Core;
use crate::status::ApiError;

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
    /// The order in which plugins are asked.
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

    /// Whether it is asked in a phase.
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

    /// The operations that it is asked about.
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

/// A step of admission under way, with the time that each plugin takes.
#[derive(Debug)]
pub(crate) struct Course<'c> {
    /// `None` for what the server writes itself, which no client has asked for.
    core: Option<&'c Core>,
    phase: Phase,
    start: Timestamp,
    /// When the last plugin answered.
    last: Timestamp,
    /// Whether a plugin has refused whose turn comes in the next step.
    refused_ahead: bool,
}

impl<'c> Course<'c> {
    /// Begins a step of a client's write; without a `core` nothing is measured.
    pub(crate) fn start(core: Option<&'c Core>, step: Step, operation: Operation) -> Self {
        let start = core.map_or(Timestamp::UNIX_EPOCH, |core| core.clock.now());
        Self {
            core,
            phase: Phase { step, operation },
            start,
            last: start,
            refused_ahead: false,
        }
    }

    /// What the write does.
    pub(crate) fn operation(&self) -> Operation {
        self.phase.operation
    }

    /// Notes that `plugin` has come to `outcome`, and passes it on.
    ///
    /// # Errors
    /// That of the plugin.
    pub(crate) fn asked<T>(
        &mut self,
        plugin: Plugin,
        outcome: Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let Some(core) = self.core else {
            return outcome;
        };
        let now = core.clock.now();
        let nanos = nanos_between(self.last, now);
        self.last = now;
        let counts = core.metrics.admission();
        counts.plugin(plugin, self.phase, outcome.is_err(), nanos);
        outcome
    }

    /// Notes the same of a plugin whose turn upstream comes in the validating step.
    ///
    /// # Errors
    /// That of the plugin.
    pub(crate) fn asked_ahead<T>(
        &mut self,
        plugin: Plugin,
        outcome: Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let step = std::mem::replace(&mut self.phase.step, Step::Validate);
        let outcome = self.asked(plugin, outcome);
        self.phase.step = step;
        self.refused_ahead = outcome.is_err();
        outcome
    }

    /// Notes that `plugin` has done what it had to do.
    pub(crate) fn passed(&mut self, plugin: Plugin) {
        let _ = self.asked(plugin, Ok(()));
    }

    /// Notes that the built-in plugins are asked again.
    pub(crate) fn again(&mut self) {
        if let Some(core) = self.core {
            core.metrics.admission().again(self.phase.operation);
        }
    }

    /// Ends the step, and passes its outcome on.
    ///
    /// # Errors
    /// That of the step.
    pub(crate) fn end<T>(self, outcome: Result<T, ApiError>) -> Result<T, ApiError> {
        let Some(core) = self.core else {
            return outcome;
        };
        let now = core.clock.now();
        let nanos = nanos_between(self.start, now);
        let counts = core.metrics.admission();
        let Phase { operation, .. } = self.phase;
        let is_refused = outcome.is_err() && !self.refused_ahead;
        counts.step(self.phase, is_refused, (now, nanos));
        if self.refused_ahead {
            let step = Step::Validate;
            counts.step(Phase { step, operation }, true, (now, 0));
        }
        outcome
    }
}
