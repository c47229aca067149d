//! The annotations that once named seccomp profiles: they do nothing, and may not contradict the fields.

use crate::json::Value;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{items, text};

/// The annotation for a whole pod.
pub(crate) const OF_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
/// The prefix of the annotations for containers.
pub(crate) const OF_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Checks that annotations and fields agree in a new pod, or in a template with its spec at `path`.
pub(crate) fn validate_agreement(pod: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let annotations = &pod["metadata"]["annotations"];
    let spec = &pod["spec"];
    compare(&annotations[OF_POD], spec, path, errors);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in items(&spec[list]).enumerate() {
            let key = format!("{OF_CONTAINER}{}", text(&container["name"]));
            let path = path.child(list).index(index);
            compare(&annotations[key], container, &path, errors);
        }
    }
}

fn compare(annotation: &Value, owner: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let profile = &owner["securityContext"]["seccompProfile"];
    let Some(annotated) = annotation.as_str().filter(|_| !profile.is_null()) else {
        return;
    };
    let path = path.child("securityContext").child("seccompProfile");
    let file = annotated.strip_prefix("localhost/");
    let agrees = match text(&profile["type"]) {
        "Localhost" if file.is_some() => {
            if file != profile["localhostProfile"].as_str() {
                let detail = "seccomp profile in annotation and field must match";
                errors.forbidden(&path.child("localhostProfile"), detail);
            }
            true
        }
        "Unconfined" => annotated == "unconfined",
        "RuntimeDefault" => ["runtime/default", "docker/default"].contains(&annotated),
        kind => kind != "Localhost",
    };
    if !agrees {
        let detail = "seccomp type in annotation and field must match";
        errors.forbidden(&path.child("type"), detail);
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn annotations_agree_with_fields() {
        let file = json!({"type": "Localhost", "localhostProfile": "a"});
        let table = [
            ("unconfined", json!({"type": "Unconfined"}), None),
            ("docker/default", json!({"type": "RuntimeDefault"}), None),
            ("localhost/a", file.clone(), None),
            ("localhost/b", file.clone(), Some("localhostProfile")),
            ("unconfined", file, Some("type")),
            (
                "unconfined",
                json!({"type": "RuntimeDefault"}),
                Some("type"),
            ),
            ("unconfined", json!(null), None),
        ];
        for (annotated, profile, fault) in table {
            let key = format!("{OF_CONTAINER}c");
            let pod = json!({
                "metadata": {"annotations": {OF_POD: annotated, key: annotated}},
                "spec": {
                    "securityContext": {"seccompProfile": profile},
                    "containers": [{"name": "c", "securityContext": {"seccompProfile": profile}}],
                },
            });
            let mut errors = FieldErrors::new();
            validate_agreement(&pod, &FieldPath::new("template.spec"), &mut errors);
            let fields: Vec<_> = errors.causes().iter().map(|c| c.field.clone()).collect();
            let expected: Vec<_> = ["", ".containers[0]"]
                .into_iter()
                .filter_map(|owner| {
                    let fault = fault?;
                    Some(format!(
                        "template.spec{owner}.securityContext.seccompProfile.{fault}"
                    ))
                })
                .collect();
            assert_eq!(fields, expected, "{annotated} {profile}");
        }
    }
}
