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
            json!(param_ref(view)),
            view.age(),
        ],
        _ => return None,
    })
}

fn policy(view: View<'_>, rules: &str) -> Vec<Value> {
    let kind = view.at("/spec/paramKind");
    let kind = kind.map(|kind| format!("{}/{}", kind.str("/apiVersion"), kind.str("/kind")));
    vec![
        view.name(),
        json!(view.len(rules)),
        json!(or_unset(kind.unwrap_or_default())),
        view.age(),
    ]
}

/// Returns the cell for the parameters of a binding: namespace and name (`*` for any namespace), or
/// the selector, which upstream prints as a Go value.
fn param_ref(view: View<'_>) -> String {
    let Some(reference) = view.at("/spec/paramRef") else {
        return "<unset>".to_owned();
    };
    match (reference.str("/name"), reference.at("/selector")) {
        ("", None) => "<unset>".to_owned(),
        ("", Some(selector)) => go_selector(selector),
        (name, _) => format!("{}/{name}", reference.str_or("/namespace", "*")),
    }
}

fn go_selector(selector: View<'_>) -> String {
    let labels = selector.get("/matchLabels").and_then(Value::as_object);
    let mut labels: Vec<(&str, &str)> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
        .collect();
    labels.sort_unstable();
    let labels: String = labels
        .iter()
        .map(|(key, value)| format!("{key}: {value},"))
        .collect();
    let expression = |expression: View<'_>| {
        format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            expression.str("/key"),
            expression.str("/operator"),
            expression.strs("/values").join(" ")
        )
    };
    let expressions: String = selector
        .items("/matchExpressions")
        .map(expression)
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
