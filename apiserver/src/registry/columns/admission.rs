//! Role bindings, and the kinds of `admissionregistration.k8s.io`.

use serde_json::{Value, json};

use super::view::{View, or_unset};

pub(super) fn role_binding(view: View<'_>) -> Vec<Value> {
    let subjects = |kind: &str| {
        let of_kind = view
            .items("/subjects")
            .filter(|subject| subject.str("/kind") == kind);
        let name = |subject: View<'_>| match kind {
            "ServiceAccount" => format!("{}/{}", subject.str("/namespace"), subject.str("/name")),
            _ => subject.str("/name").to_owned(),
        };
        json!(of_kind.map(name).collect::<Vec<_>>().join(", "))
    };
    vec![
        view.name(),
        json!(format!(
            "{}/{}",
            view.str("/roleRef/kind"),
            view.str("/roleRef/name")
        )),
        view.age(),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

pub(super) fn configuration(kind: &str, view: View<'_>) -> Option<Vec<Value>> {
    Some(match kind {
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            vec![view.name(), json!(view.len("/webhooks")), view.age()]
        }
        "MutatingAdmissionPolicy" => policy(view, "/spec/mutations"),
        "ValidatingAdmissionPolicy" => policy(view, "/spec/validations"),
        "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding" => vec![
            view.name(),
            json!(view.str("/spec/policyName")),
            json!(joined(
                view,
                "/spec/paramRef/namespace",
                "/spec/paramRef/name"
            )),
            view.age(),
        ],
        _ => return None,
    })
}

fn policy(view: View<'_>, rules: &str) -> Vec<Value> {
    let param_kind = joined(view, "/spec/paramKind/apiVersion", "/spec/paramKind/kind");
    vec![
        view.name(),
        json!(view.len(rules)),
        json!(param_kind),
        view.age(),
    ]
}

/// Two fields with a slash between; one of them, or both, may be absent.
fn joined(view: View<'_>, first: &str, second: &str) -> String {
    let parts = [view.str(first), view.str(second)];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    or_unset(parts.join("/"))
}
