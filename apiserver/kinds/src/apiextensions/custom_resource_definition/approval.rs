//! Approval of definitions in the community's groups, by an annotation.

use crate::json::Value;
use crate::status::{FieldErrors, FieldPath};

const APPROVED: &str = "api-approved.kubernetes.io";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// The state that the approval annotation of a definition stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// There is no annotation.
    Missing,
    /// The annotation gives a reason for having no approval.
    Bypassed,
    /// The annotation is the URL of an approval.
    Approved,
    /// The annotation is something else.
    Invalid,
}

impl Approval {
    /// Reads the value of the annotation.
    pub fn of(annotation: &str) -> Self {
        if annotation.is_empty() {
            return Self::Missing;
        }
        if annotation.starts_with("unapproved") {
            return Self::Bypassed;
        }
        match annotation.split_once("://") {
            Some((scheme, rest)) if !scheme.is_empty() && !rest.is_empty() => Self::Approved,
            _ => Self::Invalid,
        }
    }

    /// Returns the message of the condition `KubernetesAPIApprovalPolicyConformant`.
    pub fn message(self, annotation: &str) -> String {
        match self {
            Self::Missing => {
                format!("protected groups must have approval annotation {APPROVED:?}, {SEE}")
            }
            Self::Bypassed => format!("not approved: {annotation:?}"),
            Self::Approved => format!("approved in {annotation}"),
            Self::Invalid => format!(
                "protected groups must have approval annotation {APPROVED:?} with either a URL or a reason starting with \"unapproved\", {SEE}"
            ),
        }
    }

    /// Returns the reason of the condition `KubernetesAPIApprovalPolicyConformant`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Missing => "MissingAnnotation",
            Self::Bypassed => "UnapprovedAnnotation",
            Self::Approved => "ApprovedAnnotation",
            Self::Invalid => "InvalidAnnotation",
        }
    }
}

/// Whether a group is one of the community's.
pub fn is_protected(group: &str) -> bool {
    let is_within = |suffix: &str| {
        let rest = group.strip_suffix(suffix);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    is_within("k8s.io") || is_within("kubernetes.io")
}

/// Returns the annotation `api-approved.kubernetes.io` of a definition, or an empty string.
pub fn annotation(definition: &Value) -> &str {
    let own = &definition["metadata"]["annotations"][APPROVED];
    own.as_str().unwrap_or_default()
}

/// Whether a definition in a group of the community's says who approved it.
pub(super) fn validate(definition: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    let own = annotation(definition);
    let approval = Approval::of(own);
    if !is_protected(group) || old.is_some_and(|old| Approval::of(annotation(old)) == approval) {
        return;
    }
    let path = FieldPath::new("metadata.annotations").key(APPROVED);
    match approval {
        Approval::Missing => errors.required(&path, &approval.message(own)),
        Approval::Invalid => errors.invalid(&path, &own.into(), &approval.message(own)),
        Approval::Bypassed | Approval::Approved => {}
    }
}
