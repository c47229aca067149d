//! The parameters of a policy in the light of a binding.

use super::compiled::Policy;
use crate::admission::request::Admission;
use crate::json::Value;
use crate::meta::selector::LabelSelector;
use crate::storage::ObjectKey;

impl Admission<'_> {
    /// The parameters of a policy, which is evaluated once with each; null if it has no parameters.
    ///
    /// # Errors
    /// The reason why the parameters are unknown, in upstream's words.
    pub(super) fn params(&self, policy: &Policy, binding: &Value) -> Result<Vec<Value>, String> {
        let reference = &binding["spec"]["paramRef"];
        let Some((api_version, kind)) = &policy.param_kind else {
            return Ok(vec![Value::Null]);
        };
        if !reference.is_object() {
            return Ok(vec![Value::Null]);
        }
        let catalog = self.state.definitions.catalog();
        let found = catalog
            .resources()
            .find(|info| info.gvk().kind == *kind && info.gvk().api_version() == *api_version);
        let Some(info) = found else {
            return Err(format!(
                "paramKind kind `{api_version}, Kind={kind}` not known"
            ));
        };
        let stated = reference["namespace"].as_str().unwrap_or_default();
        let namespace = match (info.namespaced, stated) {
            (false, "") => None,
            (false, _) => {
                let why =
                    "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
                return Err(why.to_owned());
            }
            (true, "") if self.namespace.is_empty() => {
                let why = "cannot use namespaced paramRef in policy binding that matches \
                           cluster-scoped resources";
                return Err(why.to_owned());
            }
            (true, "") => Some(self.namespace.as_str()),
            (true, stated) => Some(stated),
        };
        let table = self.state.storage.table(info.gvr());
        let found: Vec<Value> = match reference["name"].as_str().unwrap_or_default() {
            "" => {
                let selector = LabelSelector::from_object(&reference["selector"]);
                let selector = selector.unwrap_or_else(|_| LabelSelector::nothing());
                let snapshot = table.snapshot();
                let all = snapshot.range(namespace, None);
                all.filter(|object| selector.matches(&object.value()["metadata"]["labels"]))
                    .map(|object| info.shown(&object.value()).into_owned())
                    .collect()
            }
            name => {
                let found = table.get(&ObjectKey::new(namespace, name));
                let found = found.map(|object| info.shown(&object.value()).into_owned());
                found.into_iter().collect()
            }
        };
        if found.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
            let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
            return Err(why.to_owned());
        }
        Ok(found)
    }

    /// Whether the parameters of a policy are of a kind that the server knows.
    ///
    /// # Errors
    /// The error for an unknown kind.
    pub(super) fn check_param_kind(&self, policy: &Policy) -> Result<(), String> {
        let Some((api_version, kind)) = &policy.param_kind else {
            return Ok(());
        };
        let catalog = self.state.definitions.catalog();
        let known = catalog
            .resources()
            .any(|info| info.gvk().kind == *kind && info.gvk().api_version() == *api_version);
        match known {
            true => Ok(()),
            false => {
                let group = match api_version.contains('/') {
                    true => api_version.clone(),
                    false => format!("/{api_version}"),
                };
                Err(format!(
                    "failed to find resource referenced by paramKind: '{group}, Kind={kind}'"
                ))
            }
        }
    }
}
