//! The AppArmor profiles of containers, which annotations name for old nodes and fields for new ones.

use super::security_context::validate_app_armor;
use crate::json::{Value, json};
use crate::meta::object::child_mut;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{entries, items, text};

const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
const LOCALHOST: &str = "localhost/";
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The name of the annotation of a container.
pub fn annotation(container: &Value) -> String {
    format!("{ANNOTATION}{}", text(&container["name"]))
}

/// Returns the warning about an annotation without the field.
pub fn deprecation(path: &FieldPath) -> String {
    format!("{path}: deprecated since v1.30; use the \"appArmorProfile\" field instead")
}

/// The profile that an annotation names.
pub(crate) fn of_annotation(own: &str) -> Option<Value> {
    match own {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        _ => {
            let file = own.strip_prefix(LOCALHOST)?;
            Some(json!({"type": "Localhost", "localhostProfile": file}))
                .filter(|_| !file.is_empty())
        }
    }
}

fn is_valid(profile: &Value) -> bool {
    let mut errors = FieldErrors::new();
    validate_app_armor(profile, &FieldPath::default(), &mut errors);
    errors.is_empty()
}

/// Gives a new pod the fields for its annotations, and warns of annotations without fields.
pub(crate) fn synchronize(pod: &mut Value, warnings: &mut Vec<String>) {
    let is_annotated = |pod: &Value| {
        let mut annotations = entries(&pod["metadata"]["annotations"]);
        annotations.any(|(key, _)| key.starts_with(ANNOTATION))
    };
    if !is_annotated(pod) {
        return;
    }
    if pod["spec"]["os"]["name"] == "windows" {
        return;
    }
    let of_pod = pod["spec"]["securityContext"]["appArmorProfile"].clone();
    let annotations = pod["metadata"]["annotations"].clone();
    for list in CONTAINERS {
        let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let key = annotation(container);
            let own = &container["securityContext"]["appArmorProfile"];
            let Some(annotated) = annotations[&key].as_str().filter(|_| own.is_null()) else {
                continue;
            };
            let profile = of_annotation(annotated).filter(is_valid);
            if profile.as_ref() == Some(&of_pod) {
                continue;
            }
            warnings.push(deprecation(
                &FieldPath::new("metadata.annotations").key(&key),
            ));
            if let Some(profile) = profile {
                let context = child_mut(container, "securityContext");
                context.insert("appArmorProfile", profile);
            }
        }
    }
}

/// An annotation and the field of a new pod, or of a template with its spec at `path`, say the same.
pub(crate) fn validate_agreement(pod: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let spec = &pod["spec"];
    if spec["os"]["name"] == "windows" {
        return;
    }
    for list in CONTAINERS {
        for (index, container) in items(&spec[list]).enumerate() {
            let own = &container["securityContext"]["appArmorProfile"];
            let of_pod = &spec["securityContext"]["appArmorProfile"];
            let profile = if own.is_null() { of_pod } else { own };
            let annotated = &pod["metadata"]["annotations"][annotation(container)];
            let Some(annotated) = annotated.as_str().filter(|_| !profile.is_null()) else {
                continue;
            };
            let path = path.child(list).index(index);
            let path = path.child("securityContext").child("appArmorProfile");
            let file = annotated.strip_prefix(LOCALHOST);
            let agrees = match text(&profile["type"]) {
                "Localhost" if file.is_some() => {
                    if file != profile["localhostProfile"].as_str() {
                        let detail = "apparmor profile in annotation and field must match";
                        errors.forbidden(&path.child("localhostProfile"), detail);
                    }
                    true
                }
                "Unconfined" => annotated == "unconfined",
                "RuntimeDefault" => annotated == "runtime/default",
                kind => kind != "Localhost",
            };
            if !agrees {
                let detail = "apparmor type in annotation and field must match";
                errors.forbidden(&path.child("type"), detail);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_follow_annotations() {
        let key = format!("{ANNOTATION}c");
        let unconfined = json!({"type": "Unconfined"});
        let table = [
            // the annotation, the profiles of pod and container, what comes of both, warnings
            (
                json!({}),
                json!(null),
                json!(null),
                json!(null),
                json!(null),
                0,
            ),
            (
                json!({&key: "runtime/default"}),
                unconfined.clone(),
                json!(null),
                json!("runtime/default"),
                json!({"type": "RuntimeDefault"}),
                1,
            ),
            (
                json!({&key: "unconfined"}),
                unconfined.clone(),
                json!(null),
                json!("unconfined"),
                json!(null),
                0,
            ),
            (
                json!({&key: "odd"}),
                json!(null),
                json!(null),
                json!("odd"),
                json!(null),
                1,
            ),
            (
                json!({&key: "localhost/a"}),
                json!(null),
                json!({"type": "Localhost", "localhostProfile": "a"}),
                json!("localhost/a"),
                json!({"type": "Localhost", "localhostProfile": "a"}),
                0,
            ),
        ];
        for (annotations, of_pod, of_container, annotated, profile, count) in table {
            let mut pod = json!({"metadata": {"annotations": annotations}, "spec": {
                "securityContext": {"appArmorProfile": of_pod},
                "containers": [{"name": "c", "securityContext": {"appArmorProfile": of_container}}]}});
            let mut warnings = Vec::new();
            synchronize(&mut pod, &mut warnings);
            assert_eq!(pod["metadata"]["annotations"][&key], annotated);
            let own = &pod["spec"]["containers"][0]["securityContext"]["appArmorProfile"];
            assert_eq!(*own, profile);
            assert_eq!(warnings.len(), count);
        }
    }

    #[test]
    fn a_field_does_not_contradict_its_annotation() {
        let key = format!("{ANNOTATION}c");
        let table = [
            ("unconfined", json!({"type": "Unconfined"}), ""),
            ("unconfined", json!({"type": "RuntimeDefault"}), "type"),
            (
                "localhost/a",
                json!({"type": "Localhost", "localhostProfile": "b"}),
                "localhostProfile",
            ),
        ];
        for (annotated, profile, want) in table {
            let pod = json!({"metadata": {"annotations": {&key: annotated}}, "spec": {
                "containers": [{"name": "c", "securityContext": {"appArmorProfile": profile}}]}});
            let mut errors = FieldErrors::new();
            validate_agreement(&pod, &FieldPath::new("spec"), &mut errors);
            let found = errors.causes().first().map_or("", |own| &own.field);
            assert!(
                found.ends_with(want) && found.is_empty() == want.is_empty(),
                "{found}"
            );
        }
    }
}
