//! The API server's type checker of policies, for the controller that records its warnings.

use k8s_openapi::api::admissionregistration::v1::ExpressionWarning;
use kubeproof_apiserver::type_checking::{self, Kind};
use kubeproof_controller::admissionregistration::policy_status::{TypedKind, TypedPolicy};

/// Finds the expressions of a policy that do not fit the types of its objects.
#[must_use]
pub fn check(policy: TypedPolicy<'_>) -> Vec<ExpressionWarning> {
    let kinds: Vec<Kind<'_>> = policy.kinds.iter().map(kind).collect();
    let params = policy.params.as_ref().map(kind);
    let nanosecond = policy.time.subsec_nanosecond();
    let warnings = type_checking::check(policy.spec, &kinds, params, nanosecond);
    let warnings = warnings.into_iter().map(|own| ExpressionWarning {
        field_ref: own.field_ref,
        warning: own.warning,
    });
    warnings.collect()
}

fn kind<'d>(own: &TypedKind<'d>) -> Kind<'d> {
    Kind {
        group: own.group,
        version: own.version,
        kind: own.kind,
        document: own.document,
    }
}
