//! Admission webhooks, policies and their bindings.

pub mod admission_policy;
pub(crate) mod webhook_configuration;

use super::ApiGroup;

/// The strategies of `admissionregistration.k8s.io`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "admissionregistration.k8s.io",
    strategies: &[
        (
            "mutatingadmissionpolicies",
            &admission_policy::AdmissionPolicy { mutating: true },
        ),
        (
            "mutatingadmissionpolicybindings",
            &admission_policy::AdmissionPolicyBinding { mutating: true },
        ),
        (
            "mutatingwebhookconfigurations",
            &webhook_configuration::WebhookConfiguration { mutating: true },
        ),
        (
            "validatingadmissionpolicies",
            &admission_policy::AdmissionPolicy { mutating: false },
        ),
        (
            "validatingadmissionpolicybindings",
            &admission_policy::AdmissionPolicyBinding { mutating: false },
        ),
        (
            "validatingwebhookconfigurations",
            &webhook_configuration::WebhookConfiguration { mutating: false },
        ),
    ],
};
