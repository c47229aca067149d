//! PATCH of an object, or of its status.

use serde_json::{Map, Value};

use super::{Answer, Request, apply, decode, owner_references, update};
use crate::endpoints::options::field_validation;
use crate::meta::GroupVersionKind;
use crate::meta::object::{copy_field, name};
use crate::patch::{self, PatchType};
use crate::registry::store::Part;
use crate::schema;
use crate::status::ApiError;

pub(super) async fn patch(request: &Request<'_>) -> Answer {
    patch_part(request, Part::Main).await
}

pub(super) async fn patch_part(request: &Request<'_>, part: Part) -> Answer {
    let patch_type = request.patch_type()?;
    let dry_run = request.query.patch_options(patch_type)?;
    if patch_type == PatchType::Apply {
        return apply::apply(request, part, dry_run).await;
    }
    let gvk = request.resource.gvk();
    let store = request.store(dry_run);
    let written = store.update(request.namespace(), request.name(), part, |current| {
        let mut object = patched(request, gvk, patch_type, current)?;
        owner_references::dedup(request, &mut object);
        Ok(object)
    });
    let written = written.await?;
    request.written(200, &written)
}

/// `current`, an object of kind `gvk`, with the patch of the request applied.
pub(super) fn patched(
    request: &Request<'_>,
    gvk: &GroupVersionKind,
    patch_type: PatchType,
    current: &Value,
) -> Result<Value, ApiError> {
    let schema = schema::builtin(gvk).map(|schema| &**schema);
    let validation = field_validation(&request.query, "PatchOptions")?;
    let apart = leaves_managed_fields(patch_type, &request.body)
        .then(|| without_managed_fields(current))
        .flatten();
    let body = schema::readable(&request.body);
    let live = apart.as_ref().unwrap_or(current);
    let outcome = patch::apply(patch_type, &body, live, schema, validation)?;
    let mut object = decode::patched(request, gvk, outcome)?;
    // Without a name the patch has removed the metadata as a whole.
    if apart.is_some() && !name(&object).is_empty() {
        copy_field(
            &mut object["metadata"],
            &current["metadata"],
            "managedFields",
        );
    }
    update::check_place(request, &request.store(false), &mut object)?;
    Ok(object)
}

/// Whether a patch surely keeps the managed fields while there is metadata, however it is read: it
/// names neither them nor a directive.
fn leaves_managed_fields(patch_type: PatchType, body: &[u8]) -> bool {
    let Ok(body) = std::str::from_utf8(body) else {
        return false;
    };
    matches!(patch_type, PatchType::Merge | PatchType::StrategicMerge)
        && ["managedFields", "$patch", "$retainKeys", "\\u"]
            .iter()
            .all(|text| !body.contains(text))
}

/// The object less its managed fields, which are the greater part of many objects and would be
/// copied and decoded for nothing; `None` if it has none.
fn without_managed_fields(object: &Value) -> Option<Value> {
    object["metadata"].get("managedFields")?;
    let copied = |fields: &Value, skipped: &str| -> Map<String, Value> {
        let fields = fields.as_object().into_iter().flatten();
        let kept = fields.filter(|(field, _)| *field != skipped);
        kept.map(|(field, value)| (field.clone(), value.clone()))
            .collect()
    };
    let mut rest = copied(object, "metadata");
    let metadata = copied(&object["metadata"], "managedFields");
    rest.insert("metadata".to_owned(), Value::Object(metadata));
    Some(Value::Object(rest))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn managed_fields_stand_apart_unless_a_patch_may_mean_them() {
        let leaves = |patch_type, body: &str| leaves_managed_fields(patch_type, body.as_bytes());
        let status = r#"{"status":{"phase":"Running","$setElementOrder/conditions":[]}}"#;
        assert!(leaves(PatchType::StrategicMerge, status));
        assert!(leaves(PatchType::Merge, r#"{"metadata":{"labels":null}}"#));
        assert!(!leaves(PatchType::Json, "[]"));
        for body in [
            r#"{"metadata":{"managedFields":null}}"#,
            r#"{"metadata":{"managed\u0046ields":null}}"#,
            r#"{"metadata":{"$patch":"replace"}}"#,
            r#"{"metadata":{"$retainKeys":["name"]}}"#,
        ] {
            assert!(!leaves(PatchType::StrategicMerge, body), "{body}");
        }
    }

    #[test]
    fn nothing_but_managed_fields_is_left_out() {
        let object =
            json!({ "metadata": { "name": "a", "managedFields": [{}] }, "data": { "a": "b" } });
        let rest = json!({ "metadata": { "name": "a" }, "data": { "a": "b" } });
        assert_eq!(without_managed_fields(&object), Some(rest.clone()));
        assert_eq!(without_managed_fields(&rest), None);
    }
}
