//! APIServices: who serves a version of a group.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use crate::clock::rfc3339;
use crate::columns::Printable;
use crate::json::{Value, json};
use crate::meta::GroupResource;
use crate::meta::object::{default, name};
use crate::meta::validation::{NameRule, dns1035_label, dns1123_subdomain};
use crate::status::{FieldErrors, FieldPath, quoted};
use crate::unstructured::text;
use crate::validation::{invalid_each, required};
use crate::{Context, ResetFields, Strategy};

#[derive(Debug)]
pub(crate) struct ApiService;

impl Strategy for ApiService {
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn validates_finalizers(&self) -> bool {
        false
    }

    fn status_update_keeps(&self, field: &str) -> bool {
        field != "managedFields"
    }

    fn reset_fields(&self, subresource: &str) -> ResetFields {
        match subresource {
            "status" => &[&["spec"], &["metadata"]],
            _ => &[&["status"]],
        }
    }

    fn storage_prefix(&self, resource: &GroupResource) -> String {
        format!("{}/{}", resource.group, resource.resource)
    }

    /// It is held to the version and group below.
    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn default(&self, service: &mut Value) {
        let backend = service
            .get_mut("spec")
            .and_then(|spec| spec.get_mut("service"));
        if let Some(backend) = backend.and_then(Value::as_object_mut) {
            default(backend, "port", 443);
        }
    }

    /// A group without a service is served by this server, and so available at once.
    fn prepare_for_create(&self, service: &mut Value, context: Context<'_>) {
        let is_local = service["spec"]["service"].is_null();
        service["status"] = match is_local {
            true => local_status(context.now),
            false => json!({}),
        };
    }

    fn validate(&self, service: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("spec");
        let spec = &service["spec"];
        let (group, version) = (text(&spec["group"]), text(&spec["version"]));
        let wanted = format!("{version}.{group}");
        if !name(service).is_empty() && name(service) != wanted {
            let detail = format!(
                "must be `spec.version+\".\"+spec.group`: {}",
                quoted(&wanted)
            );
            let path = FieldPath::new("metadata.name");
            errors.invalid(&path, &name(service).into(), &detail);
        }
        if group.is_empty() && version != "v1" {
            let detail = "only v1 may have an empty group and it better be legacy kube";
            errors.required(&path.child("group"), detail);
        }
        if !group.is_empty() {
            invalid_each(
                dns1123_subdomain(group),
                &group.into(),
                &path.child("group"),
                &mut errors,
            );
        }
        let at = path.child("version");
        invalid_each(dns1035_label(version), &version.into(), &at, &mut errors);
        for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
            let own = spec[field].as_i64().unwrap_or(0);
            if !(1..=most).contains(&own) {
                let detail = format!("must be positive and less than {most}");
                errors.invalid(&path.child(field), &own.into(), &detail);
            }
        }
        validate_backend(spec, &path, &mut errors);
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let service = match view.get("/spec/service") {
            Some(_) => {
                format!(
                    "{}/{}",
                    view.str("/spec/service/namespace"),
                    view.str("/spec/service/name")
                )
            }
            None => "Local".to_owned(),
        };
        let available = match view.condition("Available") {
            Some(condition) => match (condition.str("/status"), condition.str("/reason")) {
                ("True", _) => "True".to_owned(),
                (status, "") => status.to_owned(),
                (status, reason) => format!("{status} ({reason})"),
            },
            None => "Unknown".to_owned(),
        };
        Some(vec![
            view.name(),
            json!(service),
            json!(available),
            view.age(),
        ])
    }
}

/// The status of a group that this server serves.
fn local_status(now: Timestamp) -> Value {
    json!({ "conditions": [{
        "type": "Available",
        "status": "True",
        "lastTransitionTime": rfc3339(now),
        "reason": "Local",
        "message": "Local APIServices are always available",
    }] })
}

fn validate_backend(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let service = &spec["service"];
    let has_bundle = !text(&spec["caBundle"]).is_empty();
    let insecure = spec["insecureSkipTLSVerify"] == true;
    let at = path.child("insecureSkipTLSVerify");
    if service.is_null() {
        if has_bundle {
            let detail = "local APIServices may not have a caBundle";
            let bytes = STANDARD.decode(text(&spec["caBundle"])).unwrap_or_default();
            let shown = format!("{} bytes", bytes.len());
            errors.invalid(&path.child("caBundle"), &shown.into(), detail);
        }
        if insecure {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.invalid(&at, &true.into(), detail);
        }
        return;
    }
    let own = path.child("service");
    for field in ["namespace", "name"] {
        required(&service[field], &own.child(field), errors);
    }
    let port = service["port"].as_i64().unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.invalid(&own.child("port"), &port.into(), detail);
    }
    if insecure && has_bundle {
        errors.invalid(&at, &true.into(), "may not be true if caBundle is present");
    }
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn the_name_is_made_of_version_and_group() {
        let service = |name: &str| {
            json!({"metadata": {"name": name}, "spec": {"group": "a.io", "version": "v1",
                "groupPriorityMinimum": 10, "versionPriority": 10}})
        };
        assert!(ApiService.validate(&service("v1.a.io")).is_empty());
        let errors = ApiService.validate(&service("a.io"));
        assert_eq!(errors.causes()[0].field, "metadata.name");
    }
}
