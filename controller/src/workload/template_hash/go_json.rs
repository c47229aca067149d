//! Objects as Go's `encoding/json` writes their structs: fields in the order of their declaration,
//! structs even when they are empty.
//!
//! Upstream's events quote objects in this form.

use serde_json::Value;

use super::dump::{Field, STRUCTS};

/// The strings that Go writes though they are empty.
const KEPT: [(&str, &str); 2] = [("v1.HTTPHeader", "value"), ("v1.Sysctl", "value")];

/// A Pod that was never created, as Kruise's `util.DumpJSON` has it.
pub(crate) fn pod(pod: &Value) -> String {
    object(pod, "v1.PodSpec")
}

/// A PersistentVolumeClaim that was never created.
pub(crate) fn claim(claim: &Value) -> String {
    object(claim, "v1.PersistentVolumeClaimSpec")
}

fn object(object: &Value, spec: &str) -> String {
    let mut out = "{\"metadata\":".to_owned();
    write(&mut out, "v1.ObjectMeta", &object["metadata"]);
    out.push_str(",\"spec\":");
    write(&mut out, spec, &object["spec"]);
    out.push_str(",\"status\":{}}");
    out
}

fn write(out: &mut String, type_: &str, value: &Value) {
    if let Some(item) = type_.strip_prefix("[]") {
        let items = value.as_array().into_iter().flatten();
        return write_all(out, ['[', ']'], items, |out, one| {
            write(out, item, one);
        });
    }
    match (type_, STRUCTS.get(type_)) {
        (_, Some(fields)) => {
            let mut entries = Vec::new();
            collect(&mut entries, type_, fields, value);
            write_all(out, ['{', '}'], entries.into_iter(), |out, (field, one)| {
                write_key(out, field.key.unwrap_or_default());
                let type_ = field.type_.trim_start_matches('*');
                write(out, type_, one);
            });
        }
        ("resource.Quantity", _) if value.is_null() => out.push_str("\"0\""),
        // Strings, numbers, and maps of them, whose keys are sorted.
        _ => out.push_str(&escaped(value)),
    }
}

/// The fields that Go writes, those of embedded structs included.
fn collect<'a>(
    entries: &mut Vec<(&'static Field, &'a Value)>,
    type_: &str,
    fields: &'static [Field],
    value: &'a Value,
) {
    for field in fields {
        let Some(key) = field.key else {
            let own = STRUCTS.get(field.type_).map_or(&[][..], Vec::as_slice);
            collect(entries, field.type_, own, value);
            continue;
        };
        let own = &value[key];
        let is_pointer = field.type_.starts_with('*');
        // Go knows no empty struct.
        let is_struct = !is_pointer
            && (STRUCTS.contains_key(field.type_)
                || matches!(field.type_, "v1.Time" | "resource.Quantity"));
        let is_set = !own.is_null() && (is_pointer || !is_zero(own));
        if is_struct || is_set || KEPT.contains(&(type_, key)) {
            entries.push((field, own));
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_i64() == Some(0),
        Value::String(value) => value.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.is_empty(),
    }
}

fn write_all<T>(
    out: &mut String,
    [open, close]: [char; 2],
    items: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) {
    out.push(open);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(close);
}

fn write_key(out: &mut String, key: &str) {
    out.push_str(&escaped(&Value::from(key)));
    out.push(':');
}

/// JSON with the characters escaped that Go escapes for HTML's sake.
fn escaped(value: &Value) -> String {
    let text = value.to_string();
    let text = text.replace('<', "\\u003c").replace('>', "\\u003e");
    let text = text.replace('&', "\\u0026");
    text.replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_written_in_the_order_of_gos_fields() {
        let pod = super::pod(&json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "labels": { "b": "2", "a": "1" }, "name": "web-0" },
            "spec": {
                "hostNetwork": false,
                "containers": [{
                    "image": "nginx",
                    "name": "main",
                    "args": ["a<b & c"],
                    "env": [{ "name": "CPU", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } }],
                    "readinessProbe": { "httpGet": { "port": 80, "httpHeaders": [{ "name": "H", "value": "" }] } },
                }],
                "volumes": [{ "name": "tmp", "emptyDir": {} }],
            },
        }));
        assert_eq!(
            pod,
            r#"{"metadata":{"name":"web-0","creationTimestamp":null,"labels":{"a":"1","b":"2"}},"#
                .to_owned()
                + r#""spec":{"volumes":[{"name":"tmp","emptyDir":{}}],"containers":[{"name":"main","#
                + r#""image":"nginx","args":["a\u003cb \u0026 c"],"env":[{"name":"CPU","valueFrom":"#
                + r#"{"resourceFieldRef":{"resource":"limits.cpu","divisor":"0"}}}],"resources":{},"#
                + r#""readinessProbe":{"httpGet":{"port":80,"httpHeaders":[{"name":"H","value":""}]}}"#
                + r#"}]},"status":{}}"#
        );
    }

    #[test]
    fn a_claim_has_resources_though_they_are_empty() {
        let claim = claim(&json!({ "metadata": { "name": "data" }, "spec": {} }));
        assert_eq!(
            claim,
            r#"{"metadata":{"name":"data","creationTimestamp":null},"spec":{"resources":{}},"status":{}}"#
        );
    }
}
