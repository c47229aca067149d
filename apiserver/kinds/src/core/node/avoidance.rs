//! The annotation by which a node says which pods had better go elsewhere.

use crate::json::Value;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::items;

const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";

/// Faults of the annotation: each entry is about the pods of a controller.
pub(super) fn validate(node: &Value, errors: &mut FieldErrors) {
    let Some(text) = node["metadata"]["annotations"][ANNOTATION].as_str() else {
        return;
    };
    let path = FieldPath::new("metadata.annotations");
    let stated: Value = match serde_json::from_str(text) {
        Ok(stated) => stated,
        Err(_) if text.is_empty() => return,
        Err(why) => {
            let path = path.child("AvoidPods");
            return errors.invalid(&path, &ANNOTATION.into(), &why.to_string());
        }
    };
    for (index, own) in items(&stated["preferAvoidPods"]).enumerate() {
        let path = path.child(ANNOTATION).index(index).child("PodSignature");
        let controller = &own["podSignature"]["podController"];
        if controller.is_null() {
            errors.required(&path, "");
        } else if controller["controller"] != true {
            let path = path.child("PodController").child("Controller");
            errors.invalid(&path, &false.into(), "must point to a controller");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn entries_are_about_controllers() {
        let own =
            "metadata.annotations.scheduler.alpha.kubernetes.io/preferAvoidPods[0].PodSignature";
        let table = [
            (
                r#"{"preferAvoidPods":[{"podSignature":{"podController":{"controller":true}}}]}"#,
                "",
            ),
            (r#"{"preferAvoidPods":[{}]}"#, own),
            ("{", "metadata.annotations.AvoidPods"),
        ];
        for (text, want) in table {
            let node = json!({"metadata": {"annotations": {ANNOTATION: text}}});
            let mut errors = FieldErrors::new();
            validate(&node, &mut errors);
            let found = errors.causes().first().map_or("", |own| &own.field);
            assert_eq!(found, want, "{text}");
        }
    }
}
