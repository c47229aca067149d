//! The faults of definitions.
//!
//! Upstream validates definitions in its internal form, where properties common to all versions are
//! at the top: faults there name `spec.validation`, not `spec.versions[0].schema`.

mod defaults;
mod field_path;
mod names;
mod schema;
mod structural;
mod version;
pub(super) mod webhook_client;

use std::collections::BTreeSet;

use super::{approval, conditions};
use crate::json::{Value, html_escape, json};
use crate::meta::order::Ordered;
use crate::meta::validation::{FIELD_IMMUTABLE, dns1035_label, dns1123_subdomain};

use crate::status::{CauseReason, FieldErrors, FieldPath};
use crate::x509;

/// The versions of `ConversionReview` that a server can send.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// The faults of a new definition.
pub(super) fn create(definition: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = &definition["spec"];
    let wanted = format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group"));
    let name = text(&definition["metadata"], "name");
    if !name.is_empty() && name != wanted {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.invalid(&FieldPath::new("metadata.name"), &name.into(), detail);
    }
    validate_spec(spec, false, &mut errors);
    validate_status(definition, &mut errors);
    approval::validate(definition, None, &mut errors);
    validate_preserved(spec, &mut errors);
    errors
}

/// The faults of an update.
pub(super) fn update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, old_spec) = (&new["spec"], &old["spec"]);
    // An unreadable CA bundle is allowed only if the old one was unreadable, or if the definition
    // is not established.
    let established = conditions::is_true(old, "Established");
    let client = &old_spec["conversion"]["webhook"]["clientConfig"];
    let checks_authority = established && x509::check_authority(client).is_ok();
    validate_spec(spec, checks_authority, &mut errors);
    let mut immutable = |names: &[&str]| {
        let value = |spec: &Value| {
            names
                .iter()
                .fold(spec.clone(), |value, name| value[*name].clone())
        };
        if value(spec) != value(old_spec) {
            let path = FieldPath::new(&format!("spec.{}", names.join(".")));
            errors.invalid(&path, &value(spec), FIELD_IMMUTABLE);
        }
    };
    if established {
        immutable(&["scope"]);
        immutable(&["names", "kind"]);
    }
    immutable(&["group"]);
    immutable(&["names", "plural"]);
    validate_status(new, &mut errors);
    approval::validate(new, Some(old), &mut errors);
    if old_spec["preserveUnknownFields"] != true {
        validate_preserved(spec, &mut errors);
    }
    errors
}

/// The faults of an update of the status.
pub(super) fn status_update(new: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("status.acceptedNames");
    names::validate(&new["status"]["acceptedNames"], &path, &mut errors);
    errors
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the value of `field` that all versions have in common; `None` if they differ.
fn common<'v>(versions: &'v [Value], field: &str) -> Option<&'v Value> {
    let first = &versions.first()?[field];
    let same = versions.iter().all(|version| version[field] == *first);
    same.then_some(first)
}

/// The fields that all versions have in common; their faults are reported once.
struct CommonFields(BTreeSet<&'static str>);

impl CommonFields {
    fn of(versions: &[Value]) -> Self {
        let fields = [
            "schema",
            "subresources",
            "additionalPrinterColumns",
            "selectableFields",
        ];
        let is_common = |field: &&'static str| common(versions, field).is_some();
        Self(fields.into_iter().filter(is_common).collect())
    }

    /// A field of one version; null where all versions have it in common.
    fn own<'v>(&self, version: &'v Value, field: &str) -> &'v Value {
        match self.0.contains(field) {
            true => &Value::Null,
            false => &version[field],
        }
    }
}

fn has_status(subresources: &Value) -> bool {
    subresources["status"].is_object()
}

fn validate_spec(spec: &Value, checks_authority: bool, errors: &mut FieldErrors) {
    let path = FieldPath::new("spec");
    validate_group(text(spec, "group"), &path.child("group"), errors);
    let scope = path.child("scope");
    match text(spec, "scope") {
        "" => errors.required(&scope, ""),
        "Cluster" | "Namespaced" => {}
        other => errors.not_supported(&scope, &other.into(), &["Cluster", "Namespaced"]),
    }
    let versions = list(&spec["versions"]);
    let common_schema = common(versions, "schema");
    if common_schema.is_none_or(|schema| schema["openAPIV3Schema"].is_null()) {
        for (index, version) in versions.iter().enumerate() {
            if common_schema.is_some() || version["schema"]["openAPIV3Schema"].is_null() {
                let path = path.child("versions").index(index);
                errors.required(&path.child("schema").child("openAPIV3Schema"), "");
            }
        }
    }
    let mut schemas = versions.iter().map(|own| &own["schema"]["openAPIV3Schema"]);
    if spec["preserveUnknownFields"] == true && schemas.any(structural::has_defaults) {
        let detail = "must be false in order to use defaults in the schema";
        errors.invalid(&path.child("preserveUnknownFields"), &true.into(), detail);
    }
    let common_fields = CommonFields::of(versions);
    for (index, version) in versions.iter().enumerate() {
        let path = path.child("versions").index(index);
        version::validate(&common_fields, version, &path, errors);
    }
    validate_version_list(spec, &path, errors);
    names::validate_required(&spec["names"], &path.child("names"), errors);
    names::validate(&spec["names"], &path.child("names"), errors);
    if let Some(schema) = common_schema {
        let any_status = versions
            .iter()
            .any(|version| has_status(&version["subresources"]));
        schema::validate(schema, any_status, &path.child("validation"), errors);
    }
    if let Some(subresources) = common(versions, "subresources") {
        version::validate_subresources(subresources, &path.child("subresources"), errors);
    }
    if let Some(columns) = common(versions, "additionalPrinterColumns") {
        let path = path.child("additionalPrinterColumns");
        version::validate_columns(columns, &path, errors);
    }
    if let Some(fields) = common(versions, "selectableFields").filter(|fields| !fields.is_null()) {
        let path = path.child("selectableFields");
        match common_schema.filter(|schema| !schema.is_null()) {
            Some(schema) => version::validate_selectable(fields, schema, &path, errors),
            None => {
                let detail = "may only be set when validations.schema is included";
                errors.invalid(&path, &"".into(), detail);
            }
        }
    }
    let path = path.child("conversion");
    validate_conversion(spec, checks_authority, &path, errors);
}

fn validate_group(group: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let faults = dns1123_subdomain(group);
    if group.is_empty() {
        errors.required(path, "");
    } else if !faults.is_empty() {
        errors.invalid(path, &group.into(), &faults.join(","));
    } else if !group.contains('.') {
        errors.invalid(
            path,
            &group.into(),
            "should be a domain with at least one dot",
        );
    }
}

/// Names and storage of the versions as a whole.
fn validate_version_list(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let versions = list(&spec["versions"]);
    let mut invalid = |detail: &str| {
        let shown = shown_versions(&spec["versions"]);
        let text = format!("Invalid value: {shown}: {detail}");
        errors.push(CauseReason::Invalid, &path.child("versions"), text);
    };
    let names: Vec<&str> = versions
        .iter()
        .map(|version| text(version, "name"))
        .collect();
    let mut seen = BTreeSet::new();
    if names.iter().any(|name| !seen.insert(name)) {
        invalid("must contain unique version names");
    }
    let stored = versions.iter().filter(|version| version["storage"] == true);
    if stored.count() != 1 {
        invalid("must have exactly one version marked as storage version");
    }
    if let Some(first) = names.first().filter(|name| !name.is_empty()) {
        let faults = dns1035_label(first);
        if !faults.is_empty() {
            errors.invalid(&path.child("version"), &(*first).into(), &faults.join(","));
        }
    }
}

/// The versions as upstream's own form of them shows in JSON, its fields in their order.
fn shown_versions(versions: &Value) -> String {
    let Some(versions) = versions.as_array() else {
        return "null".to_owned();
    };
    let common_fields = CommonFields::of(versions);
    let own = |version: &Value, field: &str| common_fields.own(version, field).clone();
    let shown = versions.iter().map(|version| {
        let fields = [
            ("Name", version["name"].clone()),
            ("Served", version["served"].clone()),
            ("Storage", version["storage"].clone()),
            ("Deprecated", json!(version["deprecated"] == true)),
            ("DeprecationWarning", version["deprecationWarning"].clone()),
            ("Schema", own(version, "schema")),
            ("Subresources", own(version, "subresources")),
            (
                "AdditionalPrinterColumns",
                own(version, "additionalPrinterColumns"),
            ),
            ("SelectableFields", own(version, "selectableFields")),
        ];
        let fields = fields.map(|(name, value)| format!("{name:?}:{value}"));
        format!("{{{}}}", fields.join(","))
    });
    let shown = format!("[{}]", shown.collect::<Vec<_>>().join(","));
    html_escape(&shown).into_owned()
}

fn validate_conversion(
    spec: &Value,
    checks_authority: bool,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let conversion = &spec["conversion"];
    if conversion.is_null() {
        return;
    }
    let strategy = text(conversion, "strategy");
    if strategy != "None" && spec["preserveUnknownFields"] == true {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.invalid(&path.child("strategy"), &strategy.into(), detail);
    }
    match strategy {
        "" => errors.required(&path.child("strategy"), ""),
        "None" | "Webhook" => {}
        other => {
            errors.not_supported(&path.child("strategy"), &other.into(), &["None", "Webhook"]);
        }
    }
    let webhook = &conversion["webhook"];
    let client = path.child("webhookClientConfig");
    let reviewed = path.child("conversionReviewVersions");
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if !webhook["clientConfig"].is_null() {
            errors.forbidden(&client, detail);
        }
        if !list(&webhook["conversionReviewVersions"]).is_empty() {
            errors.forbidden(&reviewed, detail);
        }
        return;
    }
    if webhook["clientConfig"].is_null() {
        errors.required(&client, "required when strategy is set to Webhook");
    } else {
        let config = &webhook["clientConfig"];
        webhook_client::validate(config, &client, errors);
        if let (true, Err(why)) = (checks_authority, x509::check_authority(config)) {
            errors.invalid(&client.child("caBundle"), &config["caBundle"], &why);
        }
    }
    validate_review_versions(&webhook["conversionReviewVersions"], &reviewed, errors);
}

fn validate_review_versions(versions: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let listed = list(versions);
    if listed.is_empty() {
        errors.required(path, "");
        return;
    }
    let mut is_known = false;
    let mut seen = BTreeSet::new();
    for (index, version) in listed.iter().enumerate() {
        if !seen.insert(Ordered(version)) {
            errors.invalid(&path.index(index), version, "duplicate version");
            continue;
        }
        let name = version.as_str().unwrap_or_default();
        for fault in dns1035_label(name) {
            errors.invalid(&path.index(index), version, &fault);
        }
        is_known |= REVIEW_VERSIONS.contains(&name);
    }
    if !is_known {
        let detail = format!(
            "must include at least one of {}",
            REVIEW_VERSIONS.join(", ")
        );
        errors.invalid(path, versions, &detail);
    }
}

fn validate_status(definition: &Value, errors: &mut FieldErrors) {
    let status = &definition["status"];
    let path = FieldPath::new("status");
    names::validate(
        &status["acceptedNames"],
        &path.child("acceptedNames"),
        errors,
    );
    let path = path.child("storedVersions");
    let stored = list(&status["storedVersions"]);
    if stored.is_empty() {
        let detail = "must have at least one stored version";
        errors.invalid(&path, &status["storedVersions"], detail);
        return;
    }
    let versions = list(&definition["spec"]["versions"]);
    let is_stored: BTreeSet<_> = stored.iter().map(Ordered).collect();
    for version in versions {
        if version["storage"] == true && !is_stored.contains(&Ordered(&version["name"])) {
            let detail = format!("must have the storage version {}", text(version, "name"));
            errors.invalid(&path, &status["storedVersions"], &detail);
        }
    }
    let names: BTreeSet<_> = versions.iter().map(|own| Ordered(&own["name"])).collect();
    for (index, name) in stored.iter().enumerate() {
        if !names.contains(&Ordered(name)) {
            let shown = name.as_str().unwrap_or_default();
            let detail = format!(
                "missing from spec.versions; {shown} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {shown} and removes {shown} from status.storedVersions"
            );
            errors.invalid(&path.index(index), name, &detail);
        }
    }
}

fn validate_preserved(spec: &Value, errors: &mut FieldErrors) {
    if spec["preserveUnknownFields"] == true {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        let path = FieldPath::new("spec.preserveUnknownFields");
        errors.invalid(&path, &true.into(), detail);
    }
}
