//! ResourceClaims and their templates.

mod status;

use std::collections::BTreeSet;

use super::device_class;
use super::devices::{
    LIST_MAX, validate_binding, validate_full_name, validate_label, validate_list,
    validate_pool_name, validate_set, validate_toleration,
};
use crate::columns::Printable;
use crate::core::claim_spec::validate_template_meta;
use crate::core::pod::affinity::validate_node_selector;
use crate::core::pod::volume_sources::validate_csi_driver_name;
use crate::go_struct::shown_as;
use crate::json::{Map, Value, json};
use crate::meta::GroupVersionKind;
use crate::meta::object::{child_mut, default};
use crate::meta::validation::{
    FIELD_IMMUTABLE, dns1123_label, dns1123_subdomain, semantically_equal,
};
use crate::schema::{Schema, builtin};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{items, items_mut, text};
use crate::validation::{invalid_as, invalid_each};
use crate::{Context, MetadataCheck, ResetFields, Strategy};

/// How many alternatives a request may have.
const ALTERNATIVES_MAX: usize = 8;
const MODES: [&str; 2] = ["All", "ExactCount"];
const ONE_KIND: &str = "exactly one of `exactly` or `firstAvailable` is required";
const KNOWN_REQUEST: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

#[derive(Debug)]
pub(crate) struct ResourceClaim;

impl Strategy for ResourceClaim {
    fn return_deleted_object(&self) -> bool {
        true
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta, MetadataCheck::ObjectMetaUpdate]
    }

    fn reset_fields(&self, subresource: &str) -> ResetFields {
        match subresource {
            "status" => &[&["spec"], &["metadata"]],
            _ => &[&["status"]],
        }
    }

    fn has_table(&self, subresource: &str) -> bool {
        subresource != "status"
    }

    fn default(&self, claim: &mut Value) {
        default_spec(child_mut(claim, "spec"));
    }

    fn validate(&self, claim: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validate_spec(&claim["spec"], &FieldPath::new("spec"), &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validate_stays(
            "ResourceClaim",
            "spec",
            &new["spec"],
            &old["spec"],
            &mut errors,
        );
        errors
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _context: Context<'_>) {
        status::forget_deallocated(child_mut(new, "status"), &old["status"]);
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validate_status(new, old, &mut errors);
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let mut states = Vec::new();
        if view.is_terminating() {
            states.push("deleted");
        }
        if view.get("/status/allocation").is_none() {
            if states.is_empty() {
                states.push("pending");
            }
        } else {
            states.push("allocated");
            if view.len("/status/reservedFor") > 0 {
                states.push("reserved");
            }
        }
        Some(vec![view.name(), json!(states.join(",")), view.age()])
    }
}

#[derive(Debug)]
pub(crate) struct ResourceClaimTemplate;

impl Strategy for ResourceClaimTemplate {
    fn return_deleted_object(&self) -> bool {
        true
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta, MetadataCheck::ObjectMetaUpdate]
    }

    fn default(&self, template: &mut Value) {
        let spec = child_mut(template, "spec");
        if let Some(spec) = spec.get_mut("spec").and_then(Value::as_object_mut) {
            default_spec(spec);
        }
    }

    fn validate(&self, template: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("spec");
        let spec = &template["spec"];
        validate_template_meta(&spec["metadata"], &path.child("metadata"), &mut errors);
        validate_spec(&spec["spec"], &path.child("spec"), &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(new);
        let (new, old) = (&new["spec"], &old["spec"]);
        validate_stays("ResourceClaimTemplate", "spec", new, old, &mut errors);
        errors
    }
}

fn default_spec(spec: &mut Map) {
    let Some(devices) = spec.get_mut("devices").and_then(Value::as_object_mut) else {
        return;
    };
    for request in items_mut(devices, "requests") {
        if let Some(exactly) = request.get_mut("exactly").and_then(Value::as_object_mut) {
            default_request(exactly);
        }
        items_mut(request, "firstAvailable").for_each(default_request);
    }
}

fn default_request(request: &mut Map) {
    if request
        .get("allocationMode")
        .is_none_or(|own| text(own).is_empty())
    {
        request.insert("allocationMode", "ExactCount".into());
    }
    if request["allocationMode"] == "ExactCount" {
        default(request, "count", 1);
    }
    for toleration in items_mut(request, "tolerations") {
        default(toleration, "operator", "Equal");
    }
}

/// A field that does not change; the fault shows the new value as upstream's struct.
fn validate_stays(kind: &str, field: &str, new: &Value, old: &Value, errors: &mut FieldErrors) {
    if semantically_equal(new, old) {
        return;
    }
    let kind = GroupVersionKind {
        group: "resource.k8s.io".to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
    };
    let mut schema = builtin(&kind);
    for name in field.split('.') {
        schema = match schema
            .and_then(|own| own.field(name))
            .map(|own| &own.schema)
        {
            Some(Schema::Object(own)) => Some(own),
            _ => None,
        };
    }
    if let Some(schema) = schema {
        let shown = shown_as(schema, new);
        invalid_as(&FieldPath::new(field), &shown, FIELD_IMMUTABLE, errors);
    }
}

/// Validates a status. Consumers have names and require an allocation, and a claim that is being
/// deleted gets no new consumers; an allocation is immutable until it is removed. Source:
/// ValidateResourceClaimStatusUpdate.
fn validate_status(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let path = FieldPath::new("status");
    let (consumers, reserved) = (&new["status"]["reservedFor"], path.child("reservedFor"));
    status::validate_consumers(consumers, &reserved, errors);
    status::validate_devices(&new["status"], &path.child("devices"), errors);
    let (now, before) = (&new["status"]["allocation"], &old["status"]["allocation"]);
    let is_known = |own: &Value| items(&old["status"]["reservedFor"]).any(|known| known == own);
    if items(consumers).next().is_some() && now.is_null() {
        let detail = "may not be specified when `allocated` is not set";
        errors.forbidden(&reserved, detail);
    } else if !new["metadata"]["deletionTimestamp"].is_null() && !items(consumers).all(is_known) {
        let detail = "new entries may not be added while `deallocationRequested` or \
            `deletionTimestamp` are set";
        errors.forbidden(&reserved, detail);
    }
    match (now.is_null(), before.is_null()) {
        (false, false) => validate_stays("ResourceClaim", "status.allocation", now, before, errors),
        (false, true) => {
            let known = request_names(&new["spec"]["devices"]);
            let at = path.child("allocation").child("devices");
            validate_list(
                &now["devices"]["results"],
                LIST_MAX,
                &at.child("results"),
                errors,
                |result, path, errors| {
                    let request = path.child("request");
                    validate_reference(&result["request"], &known, &request, errors);
                    validate_csi_driver_name(&result["driver"], &path.child("driver"), errors);
                    validate_pool_name(text(&result["pool"]), &path.child("pool"), errors);
                    validate_device_name(&result["device"], &path.child("device"), errors);
                    validate_binding(result, path, errors);
                    status::validate_uid(&result["shareID"], &path.child("shareID"), errors);
                },
            );
            validate_list(
                &now["devices"]["config"],
                2 * LIST_MAX,
                &at.child("config"),
                errors,
                |config, path, errors| {
                    let source = &config["source"];
                    let at = path.child("source");
                    match text(source) {
                        "" => errors.required(&at, ""),
                        "FromClaim" | "FromClass" => {}
                        _ => errors.not_supported(&at, source, &["FromClaim", "FromClass"]),
                    }
                    validate_known(config, &known, path, errors);
                    device_class::validate_config(config, path, errors);
                },
            );
            if !now["nodeSelector"].is_null() {
                let path = path.child("allocation").child("nodeSelector");
                validate_node_selector(&now["nodeSelector"], &path, errors);
            }
        }
        (true, _) => {}
    }
}

/// Validates the name of an allocated device; a missing name is reported as invalid, not as
/// required.
fn validate_device_name(name: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let name = text(name);
    invalid_each(dns1123_label(name), &name.into(), path, errors);
}

/// Returns the names that allocations and constraints may use: requests, and alternatives as
/// `request/alternative`.
fn request_names(devices: &Value) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for request in items(&devices["requests"]) {
        let name = text(&request["name"]);
        known.insert(name.to_owned());
        let alternatives = items(&request["firstAvailable"]);
        known.extend(alternatives.map(|own| format!("{name}/{}", text(&own["name"]))));
    }
    known
}

fn validate_spec(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let path = path.child("devices");
    let devices = &spec["devices"];
    validate_set(
        &devices["requests"],
        LIST_MAX,
        |own| text(&own["name"]),
        &path.child("requests"),
        errors,
        |request, path, errors| {
            validate_label(text(&request["name"]), &path.child("name"), errors);
            let (exactly, alternatives) = (&request["exactly"], &request["firstAvailable"]);
            match (exactly.is_null(), items(alternatives).next().is_none()) {
                (true, true) => errors.required(path, ONE_KIND),
                (false, false) => {
                    let detail = format!("{ONE_KIND}, but multiple fields are set");
                    errors.invalid(path, &Value::Null, &detail);
                }
                (false, true) => validate_request(exactly, &path.child("exactly"), errors),
                (true, false) => validate_alternatives(alternatives, path, errors),
            }
        },
    );
    let known = request_names(devices);
    validate_list(
        &devices["constraints"],
        LIST_MAX,
        &path.child("constraints"),
        errors,
        |constraint, path, errors| {
            validate_known(constraint, &known, path, errors);
            for field in ["matchAttribute", "distinctAttribute"] {
                if let Some(name) = constraint[field].as_str() {
                    return validate_full_name(name, &path.child(field), errors);
                }
            }
            let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
            errors.required(path, detail);
        },
    );
    validate_list(
        &devices["config"],
        LIST_MAX,
        &path.child("config"),
        errors,
        |config, path, errors| {
            validate_known(config, &known, path, errors);
            device_class::validate_config(config, path, errors);
        },
    );
}

fn validate_alternatives(alternatives: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    validate_set(
        alternatives,
        ALTERNATIVES_MAX,
        |own| text(&own["name"]),
        &path.child("firstAvailable"),
        errors,
        |own, path, errors| {
            validate_label(text(&own["name"]), &path.child("name"), errors);
            validate_request(own, path, errors);
        },
    );
}

fn validate_known(
    own: &Value,
    known: &BTreeSet<String>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    validate_set(
        &own["requests"],
        LIST_MAX,
        text,
        &path.child("requests"),
        errors,
        |name, path, errors| validate_reference(name, known, path, errors),
    );
}

/// The name of a request, or of one of its alternatives.
fn validate_reference(
    name: &Value,
    known: &BTreeSet<String>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let parts: Vec<&str> = text(name).split('/').collect();
    if parts.len() <= 2 {
        for part in parts {
            validate_label(part, path, errors);
        }
    }
    if !known.contains(text(name)) {
        errors.invalid(path, name, KNOWN_REQUEST);
    }
}

fn validate_request(request: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let class = text(&request["deviceClassName"]);
    let at = path.child("deviceClassName");
    match class.is_empty() {
        true => errors.required(&at, ""),
        false => invalid_each(dns1123_subdomain(class), &class.into(), &at, errors),
    }
    let at = path.child("selectors");
    device_class::validate_selectors(&request["selectors"], &at, errors);
    let count = request["count"].as_i64().unwrap_or(0);
    let at = path.child("count");
    match text(&request["allocationMode"]) {
        "All" if count != 0 => {
            let detail = "must not be specified when allocationMode is 'All'";
            errors.invalid(&at, &json!(count), detail);
        }
        "ExactCount" if count <= 0 => {
            errors.invalid(&at, &json!(count), "must be greater than zero")
        }
        mode if !MODES.contains(&mode) => {
            errors.not_supported(&path.child("allocationMode"), &mode.into(), &MODES);
        }
        _ => {}
    }
    let tolerations = path.child("tolerations");
    for (index, own) in items(&request["tolerations"]).enumerate() {
        validate_toleration(own, &tolerations.index(index), errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_of_one_kind_and_have_names_of_their_own() {
        let table = [
            (
                json!([{"name": "r", "exactly": {"deviceClassName": "c"}}]),
                vec![],
            ),
            (json!([{"name": "r"}]), vec!["spec.devices.requests[0]"]),
            (
                json!([{"name": "r", "exactly": {"deviceClassName": "c", "count": -1}}]),
                vec!["spec.devices.requests[0].exactly.count"],
            ),
        ];
        for (requests, want) in table {
            let mut claim = json!({"spec": {"devices": {"requests": requests}}});
            ResourceClaim.default(&mut claim);
            let errors = ResourceClaim.validate(&claim);
            let fields: Vec<&str> = errors.causes().iter().map(|own| &*own.field).collect();
            assert_eq!(fields, want);
        }
    }

    #[test]
    fn what_is_reserved_is_allocated_and_an_allocation_stays() {
        let spec =
            json!({"devices": {"requests": [{"name": "r", "firstAvailable": [{"name": "s"}]}]}});
        let result = |request: &str| {
            json!({"devices": {"results": [{"request": request, "device": "d",
                "driver": "d.io", "pool": "p"}]}})
        };
        let pod = |uid: &str| json!({"resource": "pods", "name": "p", "uid": uid});
        let table = [
            (
                json!({"reservedFor": [pod("1")]}),
                json!({}),
                "",
                vec!["status.reservedFor"],
            ),
            (
                json!({"reservedFor": [pod("1")], "allocation": result("r/s")}),
                json!({}),
                "",
                vec![],
            ),
            (
                json!({"reservedFor": [pod("")], "allocation": result("x")}),
                json!({}),
                "",
                vec![
                    "status.reservedFor[0].uid",
                    "status.allocation.devices.results[0].request",
                ],
            ),
            (
                json!({"reservedFor": [pod("1"), pod("2")], "allocation": result("r")}),
                json!({"reservedFor": [pod("1")], "allocation": result("r")}),
                "2026-01-01T00:00:00Z",
                vec!["status.reservedFor"],
            ),
            (
                json!({"allocation": result("r")}),
                json!({"allocation": result("r/s")}),
                "",
                vec!["status.allocation"],
            ),
            (json!({}), json!({"allocation": result("r")}), "", vec![]),
        ];
        for (now, before, deleted, want) in table {
            let mut metadata = json!({});
            if !deleted.is_empty() {
                metadata["deletionTimestamp"] = json!(deleted);
            }
            let new = json!({"metadata": metadata, "spec": spec, "status": now});
            let old = json!({"spec": spec, "status": before});
            let errors = ResourceClaim.validate_status_update(&new, &old);
            let fields: Vec<&str> = errors.causes().iter().map(|own| &*own.field).collect();
            assert_eq!(fields, want, "{now} after {before}");
        }
    }
}
