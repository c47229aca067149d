//! PersistentVolumeClaims.

use std::cmp::Ordering;

use super::claim_spec::{validate_claim_spec, validate_spec, warn_of_claim_spec};
use super::persistent_volume::warn_of_old_class;
use super::resource_list::round_amounts;
use super::resource_names::is_native;
use crate::columns::Printable;
use crate::columns::volume::{access_modes, class, phase, scalar_or_unset};
use crate::json::{Value, json};
use crate::meta::object::{child_mut, copy_field, default};
use crate::meta::validation::{FIELD_IMMUTABLE, qualified_name, validate_immutable};
use crate::schema::quantity::Quantity;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{default_text, entries, is_empty, text};
use crate::validation::invalid_each;
use crate::{Context, MetadataCheck, Strategy, go_struct};

/// The annotation that named the class before there was a field.
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// How far the growth of a claim has come.
const RESIZE_STATES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

#[derive(Debug)]
pub(crate) struct PersistentVolumeClaim;

impl Strategy for PersistentVolumeClaim {
    fn return_deleted_object(&self) -> bool {
        true
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMetaUpdate, MetadataCheck::ObjectMeta]
    }

    fn default(&self, claim: &mut Value) {
        default_text(child_mut(claim, "status"), "phase", "Pending");
        default(child_mut(claim, "spec"), "volumeMode", "Filesystem");
        for amounts in [
            "/spec/resources/limits",
            "/spec/resources/requests",
            "/status/capacity",
            "/status/allocatedResources",
        ] {
            if let Some(amounts) = claim.pointer_mut(amounts) {
                round_amounts(amounts);
            }
        }
    }

    fn prepare_for_create(&self, claim: &mut Value, _context: Context<'_>) {
        claim["status"] = json!({ "phase": "Pending" });
        agree_on_data_source(claim, &Value::Null);
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value, _context: Context<'_>) {
        agree_on_data_source(new, &old["spec"]);
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let status = &new["status"];
        if is_empty(&new["spec"]["accessModes"]) {
            errors.required(&FieldPath::new("Spec.accessModes"), "");
        }
        let path = FieldPath::new("status.capacity");
        for (resource, amount) in entries(&status["capacity"]) {
            validate_amount(amount, &path.key(resource), &mut errors);
        }
        let path = FieldPath::new("status.allocatedResourceStatuses");
        for (resource, state) in entries(&status["allocatedResourceStatuses"]) {
            validate_resource_key(resource, &path, &mut errors);
            if !RESIZE_STATES.contains(&text(state)) {
                // Upstream shows the resource.
                errors.not_supported(&path, &resource.as_str().into(), &RESIZE_STATES);
            }
        }
        let path = FieldPath::new("status.allocatedResources");
        for (resource, amount) in entries(&status["allocatedResources"]) {
            if validate_resource_key(resource, &path, &mut errors) {
                validate_amount(amount, &path.key(resource), &mut errors);
            }
        }
        errors
    }

    fn validate(&self, claim: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validate_claim_spec(&claim["spec"], &FieldPath::new("spec"), &mut errors);
        errors
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        warn_of_old_class(new, &mut warnings);
        warn_of_claim_spec(&new["spec"], &FieldPath::new("spec"), &mut warnings);
        warnings
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        // A claim that names a group already may name any.
        let named = ["dataSource", "dataSourceRef"]
            .iter()
            .any(|field| !old["spec"][*field]["apiGroup"].is_null());
        let mut errors = FieldErrors::new();
        validate_spec(&new["spec"], &FieldPath::new("spec"), !named, &mut errors);
        let mut now = new["spec"].clone();
        let mut before = old["spec"].clone();
        // The binder gives an unbound claim its volume.
        if text(&before["volumeName"]).is_empty() {
            copy_field(&mut before, &now, "volumeName");
        }
        match class_change(new, old) {
            ClassChange::FromAnnotation => copy_field(&mut now, &before, "storageClassName"),
            ClassChange::FromNothing => {
                validate_annotation_stays(new, old, &mut errors);
                copy_field(&mut now, &before, "storageClassName");
            }
            ClassChange::Other => validate_annotation_stays(new, old, &mut errors),
        }
        // Only a bound claim may request more.
        if new["status"]["phase"] == "Bound" {
            let size = |claim: &Value| claim["spec"]["resources"]["requests"]["storage"].clone();
            if now["resources"]["requests"].is_object() {
                now["resources"]["requests"]["storage"] = size(old);
            }
            copy_field(&mut now, &before, "volumeAttributesClassName");
        }
        if now != before {
            let detail = "spec is immutable after creation except resources.requests and \
                          volumeAttributesClassName for bound claims";
            let diff = go_struct::diff("PersistentVolumeClaimSpec", &before, &now);
            errors.forbidden(&FieldPath::new("spec"), &format!("{detail}\n{diff}"));
        }
        validate_not_shrunk(new, old, &mut errors);
        let mode = |claim: &Value| claim["spec"]["volumeMode"].clone();
        let path = FieldPath::new("volumeMode");
        validate_immutable(&mode(new), &mode(old), &path, &mut errors);
        validate_attributes_stay(new, old, &mut errors);
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let or_unset = |pointer| scalar_or_unset(view, pointer);
        // The granted capacity and modes are shown once the claim is bound; the requested ones never
        // are.
        let (capacity, modes) = match view.str("/spec/volumeName") {
            "" => (String::new(), String::new()),
            _ => (
                view.scalar("/status/capacity/storage")
                    .unwrap_or_else(|| "0".to_owned()),
                access_modes(view, "/status/accessModes"),
            ),
        };
        Some(vec![
            view.name(),
            json!(phase(view)),
            json!(view.str("/spec/volumeName")),
            json!(capacity),
            json!(modes),
            json!(class(view)),
            or_unset("/spec/volumeAttributesClassName"),
            view.age(),
            or_unset("/spec/volumeMode"),
        ])
    }
}

/// How the class of a claim came to be another.
enum ClassChange {
    /// The new class equals the former annotation.
    FromAnnotation,
    /// There was no class before, as when a default class is set later.
    FromNothing,
    Other,
}

fn class_change(new: &Value, old: &Value) -> ClassChange {
    let [is, was] = [new, old].map(|claim| &claim["spec"]["storageClassName"]);
    let [noted, annotated] = [new, old].map(annotation);
    if !was.is_null() || is.is_null() {
        return ClassChange::Other;
    }
    match annotated {
        None => ClassChange::FromNothing,
        Some(own) if is == own => match noted.is_none_or(|noted| noted == own) {
            true => ClassChange::FromAnnotation,
            false => ClassChange::FromNothing,
        },
        Some(_) => ClassChange::Other,
    }
}

fn annotation(claim: &Value) -> Option<&Value> {
    claim["metadata"]["annotations"].get(OLD_CLASS)
}

fn validate_annotation_stays(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let [now, before] = [new, old].map(|claim| annotation(claim).map_or("", text));
    if now != before {
        let path = FieldPath::new("metadata.annotations").child(OLD_CLASS);
        errors.invalid(&path, &now.into(), FIELD_IMMUTABLE);
    }
}

/// Attributes that a volume has taken on are not given up.
fn validate_attributes_stay(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let [now, before] = [new, old].map(|claim| &claim["spec"]["volumeAttributesClassName"]);
    if now == before || old["status"]["currentVolumeAttributesClassName"].is_null() {
        return;
    }
    let to = match now.as_str() {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let detail = format!(
        "update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil"
    );
    errors.forbidden(&FieldPath::new("spec.volumeAttributesClassName"), &detail);
}

/// An amount that is not negative.
fn validate_amount(amount: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let own = amount.as_str().and_then(|own| Quantity::parse(own).ok());
    if let Some(own) = own.filter(Quantity::is_negative) {
        let shown = own.to_i64().unwrap_or(-1).into();
        errors.invalid(path, &shown, "must be a valid resource quantity");
    }
}

/// Whether a status may hold the resource: `storage`, or a name with a domain; adds faults if not.
fn validate_resource_key(resource: &str, path: &FieldPath, errors: &mut FieldErrors) -> bool {
    let faults = qualified_name(resource);
    let is_named = faults.is_empty();
    invalid_each(faults, &resource.into(), path, errors);
    if !is_named {
        return false;
    }
    let is_allowed = resource == "storage" || !is_native(resource);
    if !is_allowed {
        errors.not_supported(path, &resource.into(), &["storage"]);
    }
    is_allowed
}

/// Makes the older and the newer field for the data source of a volume agree. A claim may keep a
/// source that it had before.
fn agree_on_data_source(claim: &mut Value, before: &Value) {
    let spec = child_mut(claim, "spec");
    let referred = !before["dataSourceRef"].is_null();
    let sourced = referred || !before["dataSource"].is_null();
    // Sources in other namespaces are not there by default.
    if !referred
        && spec
            .get("dataSourceRef")
            .is_some_and(|own| !text(&own["namespace"]).is_empty())
    {
        spec.remove("dataSourceRef");
    }
    // The older field knows two kinds of sources only.
    if !sourced
        && !spec.contains_key("dataSourceRef")
        && let Some(source) = spec.get("dataSource")
    {
        let group = source["apiGroup"].as_str().unwrap_or_default();
        let is_known = matches!(
            (group, source["kind"].as_str()),
            ("", Some("PersistentVolumeClaim"))
                | ("snapshot.storage.k8s.io", Some("VolumeSnapshot"))
        );
        if !is_known {
            spec.remove("dataSource");
        }
    }
    match (
        spec.get("dataSource").cloned(),
        spec.get("dataSourceRef").cloned(),
    ) {
        (Some(source), None) => {
            spec.insert("dataSourceRef", source);
        }
        (None, Some(source)) if text(&source["namespace"]).is_empty() => {
            let mut source = source;
            if let Some(fields) = source.as_object_mut() {
                fields.remove("namespace");
            }
            spec.insert("dataSource", source);
        }
        _ => {}
    }
}

/// A claim may lower its request, but not to its capacity or below.
fn validate_not_shrunk(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let size = |value: &Value| value.as_str().and_then(|own| Quantity::parse(own).ok());
    let request = |claim: &Value| size(&claim["spec"]["resources"]["requests"]["storage"]);
    let or_nothing = |amount: Option<Quantity>| amount.unwrap_or_else(|| Quantity::from(0));
    let (now, before) = (or_nothing(request(new)), or_nothing(request(old)));
    let capacity = or_nothing(size(&old["status"]["capacity"]["storage"]));
    let smaller = now.compare(&before) == Ordering::Less;
    if smaller && now.compare(&capacity) != Ordering::Greater {
        let path = FieldPath::new("spec.resources.requests.storage");
        errors.forbidden(&path, "field can not be less than status.capacity");
    }
}
