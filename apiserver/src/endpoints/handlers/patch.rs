//! PATCH of an object, or of its status.

use std::borrow::Cow;

use super::{Answer, Request, apply, decode, owner_references, update};
use crate::json::{Map, Value};
use crate::meta::GroupVersionKind;
use crate::meta::object::{copy_field, name};
use crate::patch::{self, PatchType};
use crate::request::options::field_validation;
use crate::schema;
use crate::status::ApiError;
use crate::store::Subresource;

pub(super) async fn patch(request: &Request<'_>) -> Answer {
    patch_subresource(request, Subresource::None).await
}

pub(super) async fn patch_subresource(request: &Request<'_>, subresource: Subresource) -> Answer {
    let patch_type = request.patch_type()?;
    let dry_run = request.patch_options(patch_type)?;
    if patch_type == PatchType::Apply {
        return apply::apply(request, subresource, dry_run).await;
    }
    let gvk = request.resource.gvk();
    let store = request.store(dry_run);
    let written = store.update(
        request.namespace(),
        request.name(),
        subresource,
        |current| {
            let mut object = patched(request, gvk, patch_type, subresource, current)?;
            owner_references::dedup(request, &mut object);
            Ok(object)
        },
    );
    let written = written.await?;
    request.written(200, &written)
}

/// `current`, an object of kind `gvk`, with the patch of the request applied.
pub(super) fn patched(
    request: &Request<'_>,
    gvk: &GroupVersionKind,
    patch_type: PatchType,
    subresource: Subresource,
    current: &Value,
) -> Result<Value, ApiError> {
    let schema = schema::builtin(gvk).map(|schema| &**schema);
    let validation = field_validation(&request.query, "PatchOptions")?;
    let body = schema::readable(&request.body);
    let decoded = |apart: Option<Apart>| -> Result<Value, ApiError> {
        let live = match apart {
            Some(apart) => Cow::Owned(apart.without(current)),
            None => Cow::Borrowed(current),
        };
        let outcome = patch::apply(patch_type, &body, live, schema, validation)?;
        let mut object = decode::patched(request, gvk, outcome)?;
        if let Some(apart) = apart {
            apart.put_back(&mut object, current);
        }
        Ok(object)
    };
    let apart = Apart::of(subresource, patch_type, &request.body, schema.is_some());
    // Custom resources and bytes are converted, which the text is needed for.
    let may_be_plain = schema.is_some() && gvk.kind != "Secret";
    let merged = apart
        .filter(|_| patch_type == PatchType::Merge && may_be_plain)
        .and_then(|apart| {
            let mut object = decode::merged(gvk, &body, apart.without(current))?;
            apart.put_back(&mut object, current);
            Some(object)
        });
    let mut object = match merged.map_or_else(|| decoded(apart), Ok) {
        // A refusal may show the whole object.
        Err(_) if apart.is_some() => decoded(None)?,
        decoded => decoded?,
    };
    update::check_place(request, &request.store(false), &mut object)?;
    Ok(object)
}

/// The parts of an object that a patch leaves unchanged, so that they need not be copied and
/// decoded with the rest: they are the greater part of many objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Apart {
    /// The spec too, not just the managed fields.
    spec: bool,
}

impl Apart {
    /// The parts that a patch surely keeps: its text names neither them nor a directive.
    fn of(
        subresource: Subresource,
        patch_type: PatchType,
        body: &[u8],
        typed: bool,
    ) -> Option<Self> {
        let body = std::str::from_utf8(body).ok()?;
        let names = |texts: &[&str]| texts.iter().any(|text| body.contains(text));
        let merges = matches!(patch_type, PatchType::Merge | PatchType::StrategicMerge);
        if !merges || names(&["managedFields", "$patch", "$retainKeys", "\\u"]) {
            return None;
        }
        // A write of a status keeps the spec by itself, so that only its faults would show.
        let spec = typed && subresource == Subresource::Status && !body.contains("spec\"");
        Some(Self { spec })
    }

    /// A copy of `object` without these parts.
    fn without(self, object: &Value) -> Value {
        let copied = |fields: &Value, skips: &dyn Fn(&str) -> bool| -> Map {
            let fields = fields.as_object().into_iter().flatten();
            let kept = fields.filter(|(field, _)| !skips(field));
            kept.map(|(field, value)| (field.clone(), value.clone()))
                .collect()
        };
        let skips = |field: &str| field == "metadata" || (self.spec && field == "spec");
        let mut rest = copied(object, &skips);
        let metadata = copied(&object["metadata"], &|field| field == "managedFields");
        rest.insert("metadata", Value::Object(metadata));
        Value::Object(rest)
    }

    /// Copies these parts from `current` to `object`.
    fn put_back(self, object: &mut Value, current: &Value) {
        if self.spec {
            copy_field(object, current, "spec");
        }
        // Without a name the patch has removed the metadata as a whole.
        if !name(object).is_empty() {
            let metadata = &mut object["metadata"];
            copy_field(metadata, &current["metadata"], "managedFields");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn what_a_patch_may_mean_does_not_stand_apart() {
        let apart = |patch_type, subresource, body: &str| {
            Apart::of(subresource, patch_type, body.as_bytes(), true)
        };
        let status = r#"{"status":{"phase":"Running","$setElementOrder/conditions":[]}}"#;
        let spec = |spec| Some(Apart { spec });
        let merge = PatchType::StrategicMerge;
        assert_eq!(apart(merge, Subresource::Status, status), spec(true));
        assert_eq!(apart(merge, Subresource::None, status), spec(false));
        assert_eq!(
            apart(merge, Subresource::Status, r#"{"spec":null}"#),
            spec(false)
        );
        let labels = r#"{"metadata":{"labels":null}}"#;
        assert_eq!(
            apart(PatchType::Merge, Subresource::None, labels),
            spec(false)
        );
        assert_eq!(apart(PatchType::Json, Subresource::None, "[]"), None);
        for body in [
            r#"{"metadata":{"managedFields":null}}"#,
            r#"{"metadata":{"managed\u0046ields":null}}"#,
            r#"{"metadata":{"$patch":"replace"}}"#,
            r#"{"metadata":{"$retainKeys":["name"]}}"#,
        ] {
            assert_eq!(apart(merge, Subresource::Status, body), None, "{body}");
        }
    }

    #[test]
    fn what_stands_apart_is_left_out_and_comes_back() {
        let object = json!({
            "metadata": { "name": "a", "managedFields": [{}] },
            "spec": { "a": "b" },
            "status": {},
        });
        for (spec, rest) in [
            (true, json!({ "metadata": { "name": "a" }, "status": {} })),
            (
                false,
                json!({ "metadata": { "name": "a" }, "spec": { "a": "b" }, "status": {} }),
            ),
        ] {
            let apart = Apart { spec };
            let mut left = apart.without(&object);
            assert_eq!(left, rest);
            apart.put_back(&mut left, &object);
            assert_eq!(left, object);
        }
        let mut nameless = json!({ "metadata": {} });
        Apart { spec: false }.put_back(&mut nameless, &object);
        assert_eq!(nameless, json!({ "metadata": {} }));
    }
}
