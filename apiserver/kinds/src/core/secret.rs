//! Secrets.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::config_map::{byte_count, validate_key, validate_size, validate_stays};
use crate::columns::Printable;
use crate::json::{Value, json};
use crate::meta::validation::validate_immutable;
use crate::status::{CauseReason, FieldErrors, FieldPath};
use crate::unstructured::{default_text, entries, object_in, text};
use crate::{MetadataCheck, Strategy};

const SERVICE_ACCOUNT: &str = "kubernetes.io/service-account.name";

/// The strategy of Secrets.
#[derive(Debug)]
pub struct Secret;

impl Strategy for Secret {
    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMetaUpdate, MetadataCheck::ObjectMeta]
    }

    /// The texts of `stringData`, which is only ever written, become data.
    fn default(&self, secret: &mut Value) {
        let Some(fields) = secret.as_object_mut() else {
            return;
        };
        default_text(fields, "type", "Opaque");
        let Some(Value::Object(texts)) = fields.remove("stringData") else {
            return;
        };
        if texts.is_empty() {
            return;
        }
        let data = object_in(fields, "data");
        for (key, value) in texts {
            data.insert(key, STANDARD.encode(text(&value)).into());
        }
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let decoded = |key: &str| {
            let own = STANDARD.decode(text(&new["data"][key])).unwrap_or_default();
            String::from_utf8_lossy(&own).into_owned()
        };
        if new["type"] != "kubernetes.io/tls" {
            return Vec::new();
        }
        let what = if !decoded("tls.crt").contains("-----BEGIN") {
            "certificate"
        } else if !decoded("tls.key").contains("-----BEGIN") {
            "key"
        } else {
            return Vec::new();
        };
        vec![format!("tls: failed to find any PEM data in {what} input")]
    }

    fn validate(&self, secret: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("data");
        for (key, _) in entries(&secret["data"]) {
            validate_key(key, &path.key(key), &mut errors);
        }
        validate_size(byte_count(&secret["data"]), &path, &mut errors);
        validate_type(secret, &path, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("type");
        validate_immutable(&new["type"], &old["type"], &path, &mut errors);
        validate_stays(new, old, &["data"], &mut errors);
        errors.extend(self.validate(new));
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        Some(vec![
            view.name(),
            json!(view.str("/type")),
            json!(view.len("/data")),
            view.age(),
        ])
    }
}

fn validate_type(secret: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let data = &secret["data"];
    let has = |key: &str| data.get(key).is_some();
    let mut needed = |keys: &[&str]| {
        for key in keys.iter().filter(|key| !has(key)) {
            errors.required(&path.key(key), "");
        }
    };
    match text(&secret["type"]) {
        "kubernetes.io/service-account-token"
            if text(&secret["metadata"]["annotations"][SERVICE_ACCOUNT]).is_empty() =>
        {
            let path = FieldPath::new("metadata.annotations").key(SERVICE_ACCOUNT);
            errors.required(&path, "");
        }
        "kubernetes.io/dockercfg" if !has(".dockercfg") => needed(&[".dockercfg"]),
        "kubernetes.io/dockercfg" => validate_json(data, ".dockercfg", path, errors),
        "kubernetes.io/dockerconfigjson" if !has(".dockerconfigjson") => {
            needed(&[".dockerconfigjson"]);
        }
        "kubernetes.io/dockerconfigjson" => {
            validate_json(data, ".dockerconfigjson", path, errors);
        }
        // Either of the two will do.
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            needed(&["username", "password"]);
        }
        "kubernetes.io/ssh-auth" if text(&data["ssh-privatekey"]).is_empty() => {
            errors.required(&path.key("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => needed(&["tls.crt", "tls.key"]),
        _ => {}
    }
}

/// Checks that the data at `key` are the JSON of a map.
fn validate_json(data: &Value, key: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let bytes = STANDARD.decode(text(&data[key])).unwrap_or_default();
    let fault = crate::schema::syntax_error(&bytes).or_else(|| {
        let kind = match serde_json::from_slice(&bytes).ok()? {
            Value::Null | Value::Object(_) => return None,
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
        };
        Some(format!(
            "json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        ))
    });
    if let Some(fault) = fault {
        let message = format!("Invalid value: \"<secret contents redacted>\": {fault}");
        errors.push(CauseReason::Invalid, &path.key(key), message);
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn each_type_has_its_data() {
        let config = ".dockerconfigjson";
        let table = [
            (
                "kubernetes.io/ssh-auth",
                json!({"ssh-privatekey": ""}),
                "Required value",
            ),
            (
                "kubernetes.io/dockerconfigjson",
                json!({config: STANDARD.encode("null")}),
                "",
            ),
            (
                "kubernetes.io/dockerconfigjson",
                json!({config: STANDARD.encode("[]")}),
                "Invalid value: \"<secret contents redacted>\": json: cannot unmarshal array into Go value of type map[string]interface {}",
            ),
            (
                "kubernetes.io/dockerconfigjson",
                json!({config: STANDARD.encode("{")}),
                "Invalid value: \"<secret contents redacted>\": unexpected end of JSON input",
            ),
        ];
        for (kind, data, want) in table {
            let errors = Secret.validate(&json!({"type": kind, "data": data}));
            let found = errors.causes().first().map_or("", |own| &own.message);
            assert_eq!(found, want, "{kind} {data}");
        }
    }
}
