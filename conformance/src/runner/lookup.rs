//! Values in a step that are read from the server: `$(configmap/other .metadata.uid)`.

use kubeproof_machinery::json::Value;

use crate::api::{Api, ApiError};
use crate::scenario::{Target, field};

/// `value` with the field of a live object in place of each string `$(kind/name .path)`.
///
/// A field that is not there becomes null.
///
/// # Errors
/// [`ApiError`] when an object named cannot be read.
pub(super) async fn resolve(api: &Api, value: &Value) -> Result<Value, ApiError> {
    let mut resolved = value.clone();
    let mut open = vec![&mut resolved];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(map) => open.extend(map.values_mut()),
            Value::Array(items) => open.extend(items.iter_mut()),
            Value::String(text) => {
                if let Some((target, path)) = parse(text) {
                    let target = (target.resource.as_str(), target.name.as_str());
                    let object = api.get(target, None).await?;
                    *value = field(&object, &path).cloned().unwrap_or_default();
                }
            }
            _ => {}
        }
    }
    Ok(resolved)
}

fn parse(text: &str) -> Option<(Target, String)> {
    let inner = text.strip_prefix("$(")?.strip_suffix(')')?;
    let (target, path) = inner.split_once(' ')?;
    Some((Target::try_from(target.to_owned()).ok()?, path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_string_with_target_and_path_is_looked_up() {
        let (target, path) = parse("$(configmap/other .metadata.uid)").unwrap();
        assert_eq!(target.to_string(), "configmap other");
        assert_eq!(path, ".metadata.uid");
        assert!(parse("echo $(configmap/other .metadata.uid)").is_none());
        assert!(parse("$(VARIABLE)").is_none());
    }
}
