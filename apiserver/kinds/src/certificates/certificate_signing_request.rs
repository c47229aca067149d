//! Requests for certificates: what each of their three parts may write.

mod der;
pub mod request;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::clock::rfc3339;
use crate::columns::{Printable, human_duration};
use crate::json::{Value, json};
use crate::meta::object::{child_mut, copy_field};
use crate::meta::validation::NameRule;
use crate::rest::SubresourceRest;
use crate::status::{FieldErrors, FieldPath, quoted};
use crate::{Context, MetadataCheck, ResetFields, Strategy};

const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";

/// A request, or its approval, which is a part of its status with other rules.
#[derive(Debug)]
pub(crate) struct CertificateSigningRequest {
    pub approval: bool,
}

impl Strategy for CertificateSigningRequest {
    fn subresource_rest(&self, name: &str) -> Option<SubresourceRest> {
        matches!(name, "status" | "approval").then_some(SubresourceRest::Status)
    }

    fn subresource(&self, name: &str) -> Option<&'static dyn Strategy> {
        (name == "approval").then_some(&Self { approval: true })
    }

    /// The requestor is the user, whatever the body states.
    fn set_requestor(&self, request: &mut Value, user: &dyn Fn() -> Value) {
        let user = user();
        let spec = child_mut(request, "spec");
        for field in ["username", "uid", "groups", "extra"] {
            match user.get(field) {
                Some(value) => spec.insert(field.to_owned(), value.clone()),
                None => spec.remove(field),
            };
        }
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta, MetadataCheck::ObjectMetaUpdate]
    }

    fn status_metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta, MetadataCheck::ObjectMetaUpdate]
    }

    fn reset_fields(&self, subresource: &str) -> ResetFields {
        match subresource {
            "" => &[&["spec"], &["status"]],
            "approval" => &[&["spec"], &["status", "certificate"]],
            "status" => &[&["spec"]],
            _ => &[&["status"]],
        }
    }

    fn has_table(&self, subresource: &str) -> bool {
        subresource != "approval"
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Any
    }

    fn validate(&self, request: &Value) -> FieldErrors {
        request::validate(request)
    }

    fn validate_update(&self, _new: &Value, _old: &Value) -> FieldErrors {
        // The spec is immutable, and was validated at creation.
        FieldErrors::new()
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _context: Context<'_>) {
        copy_field(new, old, "spec");
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, context: Context<'_>) {
        if self.approval {
            copy_field(&mut new["status"], &old["status"], "certificate");
        } else {
            keep_decisions(new, old);
        }
        date(new, old, &rfc3339(context.now));
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validate_conditions(new, &mut errors);
        validate_certificate(new, &mut errors);
        let path = FieldPath::new("status.conditions");
        let of = |request: &Value, kind: &str| -> Vec<Value> {
            let all = conditions(request);
            all.filter(|own| own["type"] == kind).cloned().collect()
        };
        for kind in [APPROVED, DENIED, FAILED] {
            if of(new, kind).len() < of(old, kind).len() {
                let detail = format!(
                    "updates may not remove a condition of type {}",
                    quoted(kind)
                );
                errors.forbidden(&path, &detail);
            }
        }
        for kind in [APPROVED, DENIED] {
            if !self.approval && of(new, kind).len() > of(old, kind).len() {
                let detail = format!("updates may not add a condition of type {}", quoted(kind));
                errors.forbidden(&path, &detail);
            }
        }
        let [was, is] = [old, new].map(certificate);
        if !was.is_empty() && was != is {
            let detail = "updates may not modify existing certificate content";
            errors.forbidden(&FieldPath::new("status.certificate"), detail);
        }
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let duration = view.get("/spec/expirationSeconds").and_then(Value::as_i64);
        let requested = duration.map_or_else(|| "<none>".to_owned(), human_duration);
        let mut condition = match (view.condition("Denied"), view.condition("Approved")) {
            (Some(_), _) => "Denied",
            (None, Some(_)) => "Approved",
            (None, None) => "Pending",
        }
        .to_owned();
        if view.condition("Failed").is_some() {
            condition.push_str(",Failed");
        }
        if !view.str("/status/certificate").is_empty() {
            condition.push_str(",Issued");
        }
        Some(vec![
            view.name(),
            view.age(),
            json!(view.str_or("/spec/signerName", "<none>")),
            json!(view.str("/spec/username")),
            json!(requested),
            json!(condition),
        ])
    }
}

fn conditions(request: &Value) -> impl Iterator<Item = &Value> {
    let conditions = request["status"]["conditions"].as_array();
    conditions.into_iter().flatten()
}

fn certificate(request: &Value) -> &str {
    request["status"]["certificate"]
        .as_str()
        .unwrap_or_default()
}

/// A status cannot change the decisions: as many as there were stay as they were, and more or fewer
/// of them are a fault.
fn keep_decisions(new: &mut Value, old: &Value) {
    for kind in [APPROVED, DENIED] {
        let is_of = |own: &&Value| own["type"] == kind;
        let held: Vec<Value> = conditions(old).filter(is_of).cloned().collect();
        if conditions(new).filter(is_of).count() != held.len() {
            continue;
        }
        let now = new.pointer_mut("/status/conditions");
        let now = now.and_then(Value::as_array_mut).into_iter().flatten();
        for (own, held) in now.filter(|own| own["type"] == kind).zip(held) {
            *own = held;
        }
    }
}

/// Sets the times that were left out; a condition that stays keeps the time since it holds.
fn date(new: &mut Value, old: &Value, now: &str) {
    let conditions_of_new = new.pointer_mut("/status/conditions");
    let conditions_of_new = conditions_of_new.and_then(Value::as_array_mut);
    for condition in conditions_of_new.into_iter().flatten() {
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = now.into();
        }
        if condition["lastTransitionTime"].is_null() {
            let held = conditions(old).find(|own| {
                own["type"] == condition["type"]
                    && own["status"] == condition["status"]
                    && own["lastTransitionTime"].is_string()
            });
            condition["lastTransitionTime"] = match held {
                Some(held) => held["lastTransitionTime"].clone(),
                None => now.into(),
            };
        }
    }
}

fn validate_conditions(request: &Value, errors: &mut FieldErrors) {
    let path = FieldPath::new("status.conditions");
    let mut seen: Vec<&str> = Vec::new();
    for (index, condition) in conditions(request).enumerate() {
        let own = path.index(index);
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        let (kind, status) = (text("type"), text("status"));
        if kind.is_empty() {
            errors.required(&own.child("type"), "");
        }
        let allowed: &[&str] = match kind {
            APPROVED | DENIED | FAILED => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        if status.is_empty() {
            errors.required(&own.child("status"), "");
        } else if !allowed.contains(&status) {
            errors.not_supported(&own.child("status"), &status.into(), allowed);
        }
        let other = match kind {
            APPROVED => DENIED,
            DENIED => APPROVED,
            _ => "",
        };
        if !other.is_empty() && seen.contains(&other) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.invalid(&path, &kind.into(), detail);
        }
        if seen.contains(&kind) {
            errors.duplicate(&own.child("type"), &kind.into());
        }
        seen.push(kind);
    }
}

/// A certificate is a text of PEM blocks, and nothing but certificates in them.
fn validate_certificate(request: &Value, errors: &mut FieldErrors) {
    let encoded = certificate(request);
    if encoded.is_empty() {
        return;
    }
    let text = STANDARD.decode(encoded).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    if let Err(why) = check_blocks(&text) {
        let path = FieldPath::new("status.certificate");
        errors.invalid(&path, &"<certificate data>".into(), &why);
    }
}

fn check_blocks(mut text: &str) -> Result<(), String> {
    let mut found = false;
    while let Some((block, rest)) = der::block(text) {
        if block.kind != "CERTIFICATE" {
            return Err(format!(
                "only CERTIFICATE PEM blocks are allowed, found {}",
                quoted(block.kind)
            ));
        }
        if block.has_headers {
            return Err("no PEM block headers are permitted".to_owned());
        }
        der::check_certificates(&block.bytes)?;
        (found, text) = (true, rest);
    }
    match found {
        true => Ok(()),
        false => Err("must contain at least one CERTIFICATE PEM block".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn request(conditions: &Value) -> Value {
        json!({ "status": { "conditions": conditions } })
    }

    fn faults(approval: bool, new: &Value, old: &Value) -> Vec<String> {
        let errors = CertificateSigningRequest { approval }.validate_status_update(new, old);
        let causes = errors.causes().iter();
        causes.map(|cause| cause.message.clone()).collect()
    }

    #[test]
    fn decisions_are_made_by_approval_once_and_for_all() {
        let none = request(&json!([]));
        let approved = request(&json!([{ "type": APPROVED, "status": "True" }]));
        let added = "Forbidden: updates may not add a condition of type \"Approved\"";
        assert_eq!(faults(false, &approved, &none), [added]);
        assert_eq!(faults(true, &approved, &none), [""; 0]);
        let removed = "Forbidden: updates may not remove a condition of type \"Approved\"";
        assert_eq!(faults(true, &none, &approved), [removed]);
        let both = request(&json!([
            { "type": APPROVED, "status": "True" }, { "type": DENIED, "status": "False" },
        ]));
        let [status, exclusive] = faults(true, &both, &none).try_into().unwrap();
        assert_eq!(
            status,
            "Unsupported value: \"False\": supported values: \"True\""
        );
        assert_eq!(
            exclusive,
            "Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive"
        );
        let mut changed = request(&json!([
            { "type": "Other", "status": "True" },
            { "type": APPROVED, "status": "True", "message": "m" },
        ]));
        keep_decisions(&mut changed, &approved);
        assert_eq!(conditions(&changed).last(), conditions(&approved).last());
        let mut lost = request(&json!([{ "type": "Other", "status": "True" }]));
        keep_decisions(&mut lost, &approved);
        assert_eq!(faults(false, &lost, &approved), [removed]);
    }

    #[test]
    fn a_certificate_is_made_of_certificates() {
        let with = |text: &str| json!({ "status": { "certificate": STANDARD.encode(text) } });
        let fault = |text: &str| {
            faults(false, &with(text), &json!({}))
                .pop()
                .unwrap_or_default()
        };
        let shown = "Invalid value: \"<certificate data>\": ";
        assert_eq!(
            fault("x"),
            format!("{shown}must contain at least one CERTIFICATE PEM block")
        );
        assert_eq!(
            fault("-----BEGIN KEY-----\nAA==\n-----END KEY-----\n"),
            format!("{shown}only CERTIFICATE PEM blocks are allowed, found \"KEY\"")
        );
        assert_eq!(
            fault("-----BEGIN CERTIFICATE-----\nA: b\n\nAA==\n-----END CERTIFICATE-----\n"),
            format!("{shown}no PEM block headers are permitted")
        );
    }

    #[test]
    fn a_condition_that_stays_keeps_its_time() {
        let old = request(&json!([
            { "type": APPROVED, "status": "True", "lastTransitionTime": "then" },
        ]));
        let mut new = request(&json!([
            { "type": APPROVED, "status": "True" }, { "type": FAILED, "status": "True" },
        ]));
        date(&mut new, &old, "now");
        let times: Vec<&Value> = conditions(&new)
            .map(|own| &own["lastTransitionTime"])
            .collect();
        assert_eq!(times, ["then", "now"]);
    }
}
