//! PersistentVolumes.

mod sources;

use super::claim_spec::{VOLUME_MODES, validate_access_modes};
use super::node::deprecated_labels;
use super::pod::affinity::validate_node_selector;
use super::pod::defaults::SOURCE_DEFAULTS;
use super::pod::warnings::GONE_SOURCES;
use super::resource_list::round_amounts;
use crate::clock::rfc3339;
use crate::columns::Printable;
use crate::columns::volume::{access_modes, class, phase, scalar_or_unset};
use crate::go_struct::{diff_sources, shown};
use crate::json::{Value, json};
use crate::meta::object::{child_mut, copy_field, default, meta};
use crate::meta::validation::{dns1123_subdomain, validate_immutable};
use crate::status::{CauseReason, FieldErrors, FieldPath};
use crate::unstructured::{default_text, entries, is_empty, items, object_in, text};
use crate::validation::{invalid_as, invalid_each, one_of};
use crate::{Context, MetadataCheck, Strategy};

/// Deprecated labels of nodes and their stable names.
const STABLE_LABELS: [(&str, &str); 5] = [
    (
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    (
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
    ),
];
/// Sources that upstream warns of, in its order.
const GONE: [&str; 6] = [
    "cephfs",
    "photonPersistentDisk",
    "scaleIO",
    "storageos",
    "glusterfs",
    "rbd",
];
/// Sources for which the annotation with options of mounts is allowed.
const MOUNTED_WITH_OPTIONS: [&str; 13] = [
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
];

#[derive(Debug)]
pub(crate) struct PersistentVolume;

impl Strategy for PersistentVolume {
    fn return_deleted_object(&self) -> bool {
        true
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMeta, MetadataCheck::ObjectMeta]
    }

    fn default(&self, volume: &mut Value) {
        default_text(child_mut(volume, "status"), "phase", "Pending");
        let spec = child_mut(volume, "spec");
        if let Some(capacity) = spec.get_mut("capacity") {
            round_amounts(capacity);
        }
        default_text(spec, "persistentVolumeReclaimPolicy", "Retain");
        default(spec, "volumeMode", "Filesystem");
        for (source, field, value) in SOURCE_DEFAULTS {
            if spec.contains_key(source) {
                default_text(object_in(spec, source), field, value);
            }
        }
        if spec.contains_key("hostPath") {
            default(object_in(spec, "hostPath"), "type", "");
        }
        if spec.contains_key("azureDisk") {
            default(object_in(spec, "azureDisk"), "readOnly", false);
        }
    }

    fn prepare_for_create(&self, volume: &mut Value, _context: Context<'_>) {
        let now = meta(volume, "creationTimestamp").to_owned();
        volume["status"] = json!({ "phase": "Pending", "lastPhaseTransitionTime": now });
    }

    /// A new phase comes with its time, unless that is sent too.
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, context: Context<'_>) {
        let (now, before) = (&new["status"], &old["status"]);
        let time = "lastPhaseTransitionTime";
        let changed = now["phase"] != before["phase"];
        if !changed && now[time].is_null() {
            copy_field(&mut new["status"], before, time);
        } else if changed && (now[time].is_null() || now[time] == before[time]) {
            child_mut(new, "status").insert(time.to_owned(), rfc3339(context.now).into());
        }
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        warn_of_old_class(new, &mut warnings);
        if new["spec"]["persistentVolumeReclaimPolicy"] == "Recycle" {
            let warning = "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
            warnings.push(warning.to_owned());
        }
        let terms = &new["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
        let path = FieldPath::new("spec.nodeAffinity.required.nodeSelectorTerms");
        for (index, term) in items(terms).enumerate() {
            deprecated_labels::warn_of_term(term, &path.index(index), &mut warnings);
        }
        for own in GONE {
            let source = GONE_SOURCES.iter().find(|(source, ..)| *source == own);
            if let Some((source, name, why)) = source
                && !new["spec"][*source].is_null()
            {
                warnings.push(format!("spec.{name}: {why}"));
            }
        }
        warnings
    }

    fn validate(&self, volume: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let spec = &volume["spec"];
        let path = FieldPath::new("spec");
        let modes = path.child("accessModes");
        if is_empty(&spec["accessModes"]) {
            errors.required(&modes, "");
        }
        validate_access_modes(&spec["accessModes"], &modes, &mut errors);
        validate_capacity(&spec["capacity"], &path.child("capacity"), &mut errors);
        let policy = &spec["persistentVolumeReclaimPolicy"];
        let policies = ["Delete", "Recycle", "Retain"];
        let policy_path = path.child("persistentVolumeReclaimPolicy");
        one_of(policy, &policy_path, &policies, &mut errors);
        let affinity = &spec["nodeAffinity"];
        let at = path.child("nodeAffinity").child("required");
        if !affinity["required"].is_null() {
            validate_node_selector(&affinity["required"], &at, &mut errors);
        } else if !affinity.is_null() {
            errors.required(&at, "must specify required node constraints");
        }
        sources::validate_sources(spec, &path, &mut errors);
        if policy == "Recycle" && is_root(text(&spec["hostPath"]["path"])) {
            let detail = "may not be 'recycle' for a hostPath mount of '/'";
            errors.forbidden(&policy_path, detail);
        }
        let class = text(&spec["storageClassName"]);
        if !class.is_empty() {
            let path = path.child("storageClassName");
            invalid_each(dns1123_subdomain(class), &class.into(), &path, &mut errors);
        }
        let mode = path.child("volumeMode");
        one_of(&spec["volumeMode"], &mode, &VOLUME_MODES, &mut errors);
        if let Some(class) = spec["volumeAttributesClassName"].as_str() {
            let at = path.child("volumeAttributesClassName");
            match class {
                "" => errors.required(&at, "an empty string is disallowed"),
                own => invalid_each(dns1123_subdomain(own), &own.into(), &at, &mut errors),
            }
            if spec["csi"].is_null() {
                let detail = "has to be specified when using volumeAttributesClassName";
                errors.required(&path.child("csi"), detail);
            }
        }
        validate_mount_options(volume, &mut errors);
        errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> FieldErrors {
        // Upstream asks the same twice.
        let mut errors = self.validate(new);
        errors.extend(self.validate(new));
        let (now, before) = (&new["spec"], &old["spec"]);
        let diff = diff_sources(&sources::INTERNAL, before, &with_old_secret(now, before));
        if !diff.is_empty() {
            let detail = "spec.persistentvolumesource is immutable after creation";
            let path = FieldPath::new("spec.persistentvolumesource");
            errors.forbidden(&path, &format!("{detail}\n{diff}"));
        }
        let mode = |volume: &Value| volume["spec"]["volumeMode"].clone();
        let path = FieldPath::new("volumeMode");
        validate_immutable(&mode(new), &mode(old), &path, &mut errors);
        let class = "volumeAttributesClassName";
        let lost = !before[class].is_null() && now[class].is_null();
        let (affinity, had) = (&now["nodeAffinity"], &before["nodeAffinity"]);
        if !had.is_null() && with_stable_labels(had, affinity) != *affinity {
            let shown = match affinity.is_null() {
                true => "null".to_owned(),
                false => shown("VolumeNodeAffinity", affinity),
            };
            let detail = "field is immutable, except for updating from beta label to GA";
            invalid_as(&FieldPath::new("nodeAffinity"), &shown, detail, &mut errors);
        }
        if lost {
            let path = FieldPath::new("spec").child(class);
            errors.forbidden(&path, "update from non-nil value to nil is forbidden");
        }
        errors
    }

    fn cells(&self, view: Printable<'_>) -> Option<Vec<Value>> {
        let or_unset = |pointer| scalar_or_unset(view, pointer);
        let claim = match view.get("/spec/claimRef") {
            Some(_) => {
                format!(
                    "{}/{}",
                    view.str("/spec/claimRef/namespace"),
                    view.str("/spec/claimRef/name")
                )
            }
            None => String::new(),
        };
        Some(vec![
            view.name(),
            json!(
                view.scalar("/spec/capacity/storage")
                    .unwrap_or_else(|| "0".to_owned())
            ),
            json!(access_modes(view, "/spec/accessModes")),
            json!(view.str("/spec/persistentVolumeReclaimPolicy")),
            json!(phase(view)),
            json!(claim),
            json!(class(view)),
            or_unset("/spec/volumeAttributesClassName"),
            json!(view.str("/status/reason")),
            view.age(),
            or_unset("/spec/volumeMode"),
        ])
    }
}

/// Faults of the spec of a volume within an attachment: it has a driver, and no fields that only a
/// PersistentVolume object has.
pub(crate) fn validate_inline(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const INLINE: &str = "in the context of inline volumes";
    let forbid = |field: &str, errors: &mut FieldErrors| {
        let is_set = match &spec[field] {
            Value::String(own) => !own.is_empty(),
            own => !own.is_null() && (!own.is_object() || field != "capacity" || !is_empty(own)),
        };
        if is_set {
            let detail = format!("may not be specified {INLINE}");
            errors.forbidden(&path.child(field), &detail);
        }
    };
    forbid("claimRef", errors);
    forbid("capacity", errors);
    if spec["csi"].is_null() {
        let detail = format!("has to be specified {INLINE}");
        errors.required(&path.child("csi"), &detail);
    }
    let modes = path.child("accessModes");
    if is_empty(&spec["accessModes"]) {
        errors.required(&modes, "");
    }
    validate_access_modes(&spec["accessModes"], &modes, errors);
    if !matches!(text(&spec["persistentVolumeReclaimPolicy"]), "" | "Retain") {
        let detail = format!("may only be Retain {INLINE}");
        errors.forbidden(&path.child("persistentVolumeReclaimPolicy"), &detail);
    }
    forbid("nodeAffinity", errors);
    sources::validate_sources(spec, path, errors);
    forbid("storageClassName", errors);
    if !matches!(text(&spec["volumeMode"]), "" | "Filesystem") {
        let detail = format!("may not specify volumeMode other than Filesystem {INLINE}");
        errors.forbidden(&path.child("volumeMode"), &detail);
    }
}

/// Warns of the annotation that named a class before there was a field.
pub(crate) fn warn_of_old_class(own: &Value, warnings: &mut Vec<String>) {
    const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
    if !own["metadata"]["annotations"][CLASS].is_null() {
        let path = FieldPath::new("metadata.annotations").key(CLASS);
        warnings.push(format!(
            "{path}: deprecated since v1.8; use \"storageClassName\" attribute instead"
        ));
    }
}

/// The annotation with options of mounts is for sources that are mounted with options.
fn validate_mount_options(volume: &Value, errors: &mut FieldErrors) {
    const OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
    let is_mounted = MOUNTED_WITH_OPTIONS
        .iter()
        .any(|source| !volume["spec"][*source].is_null());
    if !is_mounted && !volume["metadata"]["annotations"][OPTIONS].is_null() {
        let path = FieldPath::new("metadata.annotations").child(OPTIONS);
        errors.forbidden(&path, "may not specify mount options for this volume type");
    }
}

/// A secret for expansions may be added later.
fn with_old_secret(now: &Value, before: &Value) -> Value {
    let mut spec = now.clone();
    let field = "controllerExpandSecretRef";
    if before["csi"].is_object()
        && before["csi"][field].is_null()
        && let Some(csi) = spec["csi"].as_object_mut()
    {
        csi.remove(field);
    }
    spec
}

/// Returns `affinity` with deprecated labels renamed where `now` has their stable names.
fn with_stable_labels(affinity: &Value, now: &Value) -> Value {
    let mut renamed = affinity.clone();
    let terms = renamed.pointer_mut("/required/nodeSelectorTerms");
    let terms = terms.and_then(Value::as_array_mut).into_iter().flatten();
    for (at, term) in terms.enumerate() {
        let all = term
            .get_mut("matchExpressions")
            .and_then(Value::as_array_mut);
        for (index, expression) in all.into_iter().flatten().enumerate() {
            let path = format!("/required/nodeSelectorTerms/{at}/matchExpressions/{index}/key");
            let own = now.pointer(&path).unwrap_or(&Value::Null);
            let stable = STABLE_LABELS
                .iter()
                .find(|(old, _)| expression["key"] == *old);
            if stable.is_some_and(|(_, stable)| own == stable) {
                expression["key"] = own.clone();
            }
        }
    }
    renamed
}

fn validate_capacity(capacity: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if is_empty(capacity) {
        errors.required(path, "");
    }
    if capacity["storage"].is_null() || entries(capacity).count() > 1 {
        errors.not_supported(path, capacity, &["storage"]);
    }
    for (resource, quantity) in entries(capacity) {
        let path = path.key(resource);
        let amount = text(quantity);
        if amount.starts_with('-') {
            // Upstream shows the number here and its text below.
            let message = format!("Invalid value: {amount}: must be a valid resource quantity");
            errors.push(CauseReason::Invalid, &path, message);
        }
        if amount.starts_with('-') || amount == "0" {
            errors.invalid(&path, quantity, "must be greater than zero");
        }
    }
}
/// Whether a path leads to where all paths begin.
fn is_root(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}
