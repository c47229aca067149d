//! Server-side apply, and the unknown fields that it refuses.

use kubeproof_apiserver::FieldValidation;
use kubeproof_machinery::json::Value;

use super::{Api, ApiError};

/// The server's words for a field that the schema does not have.
const UNDECLARED: &str = "field not declared in schema";

/// The words by which a rejection by strict decoding is recognized in the server's message.
const STRICT: &str = "strict decoding error";

impl Api {
    /// Applies `object` as `kubectl apply --server-side --force-conflicts` does.
    ///
    /// Server-side apply refuses a field that the schema does not declare whatever the field validation. The errors
    /// of strict decoding are therefore looked up after a refusal: they are returned, or else those fields are left
    /// out.
    ///
    /// # Errors
    /// [`ApiError`] as the server answers.
    pub(crate) async fn server_side_apply(
        &self,
        object: &Value,
        field_manager: &str,
    ) -> Result<Value, ApiError> {
        let applied = self.server_side_apply_once(object, field_manager).await;
        let Err(ApiError::Refused(status)) = &applied else {
            return applied;
        };
        if !status.message.contains(UNDECLARED) {
            return applied;
        }
        let faults = self.field_faults(object).await?;
        if faults.is_empty() {
            return applied;
        }
        let mut known = object.clone();
        for fault in &faults {
            remove(&mut known, fault);
        }
        if self.field_validation == FieldValidation::Warn {
            self.warnings.lock().extend(faults);
        }
        self.server_side_apply_once(&known, field_manager).await
    }

    async fn server_side_apply_once(
        &self,
        object: &Value,
        field_manager: &str,
    ) -> Result<Value, ApiError> {
        let resource = self.resource_of(object)?;
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().filter(|name| !name.is_empty());
        let name = name.ok_or(ApiError::Unset("metadata.name"))?;
        let path = self.path(&resource, metadata["namespace"].as_str(), name);
        let path = self.strictly(path);
        let path = format!("{path}&fieldManager={field_manager}&force=true");
        let apply = "application/apply-patch+yaml";
        let applied = self.send("PATCH", &path, Some(object), apply).await?;
        self.learn(&resource, &applied);
        Ok(applied)
    }

    /// The unknown fields of an object, as a dry run of its creation warns of them.
    ///
    /// # Errors
    /// The refusal of the dry run, under [`FieldValidation::Strict`].
    async fn field_faults(&self, object: &Value) -> Result<Vec<String>, ApiError> {
        let resource = self.resource_of(object)?;
        let path = self.path(&resource, object["metadata"]["namespace"].as_str(), "");
        let validation = match self.field_validation {
            FieldValidation::Strict => FieldValidation::Strict,
            FieldValidation::Warn | FieldValidation::Ignore => FieldValidation::Warn,
        };
        let path = format!("{path}?dryRun=All&fieldValidation={}", validation.as_str());
        let asked = self.request("POST", &path, Some(object), "application/json");
        let (answer, warnings) = self.answer(asked).await?;
        match answer {
            Err(ApiError::Refused(status)) if status.message.contains(STRICT) => {
                Err(ApiError::Refused(status))
            }
            // The object may exist, or the request be refused for another reason.
            _ => Ok(warnings),
        }
    }
}

/// Removes the field that `fault` names, such as `unknown field "spec.containers[0].imag"`, from `object`; leaves it alone if `fault` names none.
fn remove(object: &mut Value, fault: &str) {
    let path = fault.strip_prefix("unknown field \"");
    if let Some(path) = path.and_then(|path| path.strip_suffix('"')) {
        remove_at(object, path);
    }
}

/// Names may have dots in them: the longest that the object has is meant.
fn remove_at(value: &mut Value, path: &str) {
    if let Some(rest) = path.strip_prefix('[') {
        let Some((index, rest)) = rest.split_once(']') else {
            return;
        };
        let item = index.parse::<usize>().ok();
        if let Some(item) = item.and_then(|index| value.get_mut(index)) {
            remove_at(item, rest.strip_prefix('.').unwrap_or(rest));
        }
        return;
    }
    let Some(fields) = value.as_object_mut() else {
        return;
    };
    if fields.remove(path).is_some() {
        return;
    }
    let ends = path.char_indices().rev();
    let ends = ends.filter(|(_, letter)| matches!(letter, '.' | '['));
    for (end, letter) in ends {
        if let Some(inner) = fields.get_mut(&path[..end]) {
            let rest = &path[end..];
            return remove_at(inner, if letter == '.' { &rest[1..] } else { rest });
        }
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::*;

    #[test]
    fn the_field_named_is_removed_and_nothing_else() {
        let mut object = json!({
            "spec": {"replica": 2, "replicas": 1, "containers": [{"a": 1}, {"imag": "x", "name": "c"}]},
            "data": {"a.b": {"c": 1}},
        });
        for path in [
            "spec.replica",
            "spec.containers[1].imag",
            "data.a.b.c",
            "spec.none[7].a",
        ] {
            remove(&mut object, &format!("unknown field \"{path}\""));
        }
        remove(&mut object, "duplicate field \"spec.replicas\"");
        let left = json!({
            "spec": {"replicas": 1, "containers": [{"a": 1}, {"name": "c"}]},
            "data": {"a.b": {}},
        });
        assert_eq!(object, left);
    }
}
