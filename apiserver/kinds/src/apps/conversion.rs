//! Conversion to upstream's internal version: some numbers are annotations in version 1 and fields
//! of the internal types.

use crate::json::Value;
use crate::meta::object::meta_mut;
use crate::status::quoted;

/// The template generation of a DaemonSet.
pub(crate) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
/// The revision that a Deployment is to return to.
pub(crate) const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

/// Returns the annotation that carries a number of `object`; `None` for other kinds.
fn annotation(object: &Value) -> Option<&'static str> {
    if object["apiVersion"] != "apps/v1" {
        return None;
    }
    match object["kind"].as_str()? {
        "DaemonSet" => Some(TEMPLATE_GENERATION),
        "Deployment" => Some(ROLLBACK_TO),
        _ => None,
    }
}

/// The number that `annotation` of `object` carries.
pub fn number(object: &Value, annotation: &str) -> Option<i64> {
    object["metadata"]["annotations"][annotation]
        .as_str()?
        .parse()
        .ok()
}

/// Why upstream cannot convert `object`.
pub fn error(object: &Value) -> Option<String> {
    let annotation = annotation(object)?;
    let text = object["metadata"]["annotations"][annotation].as_str()?;
    let unset = text.is_empty() && annotation == ROLLBACK_TO;
    if unset || text.parse::<i64>().is_ok() {
        return None;
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let why = match is_number {
        true => "value out of range",
        false => "invalid syntax",
    };
    let why = format!("strconv.ParseInt: parsing {}: {why}", quoted(text));
    Some(match annotation {
        ROLLBACK_TO => format!("failed to parse annotation[{annotation}]={text} as int64: {why}"),
        _ => why,
    })
}

/// Removes from `metadata` of `object` the annotation that is a field of the internal type.
pub fn hide_internal(metadata: &mut Value, object: &Value) {
    let Some(annotation) = annotation(object) else {
        return;
    };
    let annotations = metadata.get_mut("annotations");
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.remove(annotation);
    }
    drop_if_empty(metadata);
}

/// Writes the annotation as upstream does: the number itself, or nothing.
pub(crate) fn normalize(object: &mut Value, annotation: &str) {
    let number = number(object, annotation);
    let metadata = meta_mut(object);
    let annotations = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut);
    if let Some(annotations) = annotations.filter(|own| own.contains_key(annotation)) {
        match number {
            Some(number) => annotations.insert(annotation.to_owned(), number.to_string().into()),
            None => annotations.remove(annotation),
        };
        drop_if_empty(&mut object["metadata"]);
    }
}

fn drop_if_empty(metadata: &mut Value) {
    if let Some(fields) = metadata.as_object_mut()
        && fields
            .get("annotations")
            .and_then(Value::as_object)
            .is_some_and(|annotations| annotations.is_empty())
    {
        fields.remove("annotations");
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    fn object(kind: &str, annotations: &Value) -> Value {
        let metadata = json!({"name": "a", "annotations": annotations});
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata})
    }

    #[test]
    fn only_numbers_are_converted() {
        let rollback = |text: &str| error(&object("Deployment", &json!({ROLLBACK_TO: text})));
        assert_eq!(rollback("-5"), None);
        assert_eq!(rollback(""), None);
        let want = "failed to parse annotation[deprecated.deployment.rollback.to]=1x as int64: strconv.ParseInt: parsing \"1x\": invalid syntax";
        assert_eq!(rollback("1x").as_deref(), Some(want));
        let template =
            |text: &str| error(&object("DaemonSet", &json!({TEMPLATE_GENERATION: text})));
        let want = "strconv.ParseInt: parsing \"\": invalid syntax";
        assert_eq!(template("").as_deref(), Some(want));
        let want = "strconv.ParseInt: parsing \"9223372036854775808\": value out of range";
        assert_eq!(template("9223372036854775808").as_deref(), Some(want));
        assert_eq!(
            error(&object("ReplicaSet", &json!({ROLLBACK_TO: "x"}))),
            None
        );
    }

    #[test]
    fn a_number_is_no_annotation_of_the_internal_type() {
        let hidden = |kind: &str, annotations: Value| {
            let object = object(kind, &annotations);
            let mut metadata = object["metadata"].clone();
            hide_internal(&mut metadata, &object);
            metadata
        };
        let annotations = json!({TEMPLATE_GENERATION: "1", ROLLBACK_TO: "2"});
        let left = hidden("DaemonSet", annotations.clone());
        assert_eq!(left["annotations"], json!({ROLLBACK_TO: "2"}));
        assert_eq!(
            hidden("StatefulSet", annotations.clone())["annotations"],
            annotations
        );
        assert_eq!(
            hidden("Deployment", json!({ROLLBACK_TO: "2"})),
            json!({"name": "a"})
        );
    }

    #[test]
    fn a_number_is_written_as_such() {
        let mut own = object("Deployment", &json!({ROLLBACK_TO: "+07"}));
        normalize(&mut own, ROLLBACK_TO);
        assert_eq!(own["metadata"]["annotations"], json!({ROLLBACK_TO: "7"}));
        let mut own = object("Deployment", &json!({ROLLBACK_TO: ""}));
        normalize(&mut own, ROLLBACK_TO);
        assert_eq!(own["metadata"], json!({"name": "a"}));
    }
}
