//! Faults of a pod's volumes and of the mounts in its containers.

use std::collections::{BTreeMap, BTreeSet};

use crate::json::Value;
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::{items, text};
use crate::validation::{one_of, required};

/// The greatest file mode, 0777.
const MAX_MODE: i64 = 511;

/// Faults of the keys that become files, and of their modes.
pub(crate) fn validate_files(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    validate_mode(&value["defaultMode"], &path.child("defaultMode"), errors);
    for (index, item) in items(&value["items"]).enumerate() {
        let path = path.child("items").index(index);
        required(&item["key"], &path.child("key"), errors);
        let own = &item["path"];
        let own_path = path.child("path");
        required(own, &own_path, errors);
        validate_non_reserved(own, &own_path, errors);
        validate_mode(&item["mode"], &path.child("mode"), errors);
    }
}

/// Faults of a file mode; a missing mode has none.
pub(crate) fn validate_mode(mode: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if mode
        .as_i64()
        .is_some_and(|mode| !(0..=MAX_MODE).contains(&mode))
    {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.invalid(path, mode, detail);
    }
}

/// A path below where it starts.
pub(crate) fn validate_descending(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if text(value).starts_with('/') {
        errors.invalid(path, value, "must be a relative path");
    }
    validate_no_backsteps(value, path, errors);
}

/// A descending path whose first name does not begin with two dots, as those of versions do.
pub(crate) fn validate_non_reserved(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    validate_descending(value, path, errors);
    let own = text(value);
    if own.starts_with("..") && !own.starts_with("../") {
        errors.invalid(path, value, "must not start with '..'");
    }
}

/// A path without the name of a parent.
pub(crate) fn validate_no_backsteps(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if has_backsteps(value) {
        errors.invalid(path, value, "must not contain '..'");
    }
}

fn has_backsteps(value: &Value) -> bool {
    text(value).split('/').any(|part| part == "..")
}

/// The volumes of a pod by name.
pub(crate) type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

/// Faults of a container's mounts and block devices; `volumes` are the pod's.
pub(crate) fn validate_mounts(
    container: &Value,
    volumes: &Volumes<'_>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    // Of devices with equal names, only the last path counts here.
    let devices: BTreeMap<&str, &str> = items(&container["volumeDevices"])
        .map(|device| (text(&device["name"]), text(&device["devicePath"])))
        .collect();
    let device_paths: BTreeSet<&str> = devices.values().copied().collect();
    let mounts = path.child("volumeMounts");
    let mut mounted = BTreeSet::new();
    for (index, mount) in items(&container["volumeMounts"]).enumerate() {
        let path = mounts.index(index);
        let name = text(&mount["name"]);
        let name_path = path.child("name");
        required(&mount["name"], &name_path, errors);
        if !volumes.contains_key(name) {
            errors.not_found(&name_path, &name.into());
        }
        let at = &mount["mountPath"];
        let at_path = path.child("mountPath");
        required(at, &at_path, errors);
        if !mounted.insert(text(at)) {
            errors.invalid(&at_path, at, "must be unique");
        }
        if devices.contains_key(name) {
            let detail = "must not already exist in volumeDevices";
            errors.invalid(&name_path, &name.into(), detail);
        }
        if device_paths.contains(text(at)) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.invalid(&at_path, at, detail);
        }
        // Upstream leaves the index out of some of these.
        validate_descending(&mount["subPath"], &mounts.child("subPath"), errors);
        let expression = &mount["subPathExpr"];
        if !text(&mount["subPath"]).is_empty() && !text(expression).is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.invalid(&path.child("subPathExpr"), expression, detail);
        }
        validate_descending(expression, &mounts.child("subPathExpr"), errors);
        validate_propagation(container, mount, &mounts, errors);
    }
    validate_devices(container, volumes, path, errors);
}

fn validate_propagation(
    container: &Value,
    mount: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let propagation = &mount["mountPropagation"];
    if !propagation.is_null() {
        let path = path.child("mountPropagation");
        let modes = ["Bidirectional", "HostToContainer", "None"];
        one_of(propagation, &path, &modes, errors);
        let privileged = container["securityContext"]["privileged"] == true;
        if propagation == "Bidirectional" && !privileged {
            let detail =
                "Bidirectional mount propagation is available only to privileged containers";
            errors.forbidden(&path, detail);
        }
    }
    let recursive = &mount["recursiveReadOnly"];
    let path = path.child("recursiveReadOnly");
    match text(recursive) {
        "" | "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if mount["readOnly"] != true {
                errors.forbidden(&path, "may only be specified when readOnly is true");
            }
            if !matches!(text(propagation), "" | "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.forbidden(&path, detail);
            }
        }
        _ => {
            let modes = ["Disabled", "Enabled", "IfPossible"];
            errors.not_supported(&path, recursive, &modes);
        }
    }
}

fn validate_devices(
    container: &Value,
    volumes: &Volumes<'_>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let mut names = BTreeSet::new();
    let mut paths = BTreeSet::new();
    let mounts: BTreeMap<&str, &str> = items(&container["volumeMounts"])
        .map(|mount| (text(&mount["name"]), text(&mount["mountPath"])))
        .collect();
    let mount_paths: BTreeSet<&str> = mounts.values().copied().collect();
    for (index, device) in items(&container["volumeDevices"]).enumerate() {
        let path = path.child("volumeDevices").index(index);
        let (name, at) = (&device["name"], &device["devicePath"]);
        let (name_path, at_path) = (path.child("name"), path.child("devicePath"));
        required(name, &name_path, errors);
        if names.contains(text(name)) {
            errors.invalid(&name_path, name, "must be unique");
        }
        match volumes.get(text(name)) {
            None => errors.not_found(&name_path, name),
            Some(own) if own["persistentVolumeClaim"].is_null() && own["ephemeral"].is_null() => {
                let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(&name_path, name, detail);
            }
            Some(_) => {}
        }
        required(at, &at_path, errors);
        if paths.contains(text(at)) {
            errors.invalid(&at_path, at, "must be unique");
        }
        if has_backsteps(at) {
            errors.invalid(&at_path, at, "can not contain backsteps ('..')");
        } else {
            paths.insert(text(at));
        }
        if mounts.contains_key(text(name)) {
            let detail = "must not already exist in volumeMounts";
            errors.invalid(&name_path, name, detail);
        }
        if mount_paths.contains(text(at)) {
            let detail = "must not already exist as a path in volumeMounts";
            errors.invalid(&at_path, at, detail);
        }
        if !text(name).is_empty() {
            names.insert(text(name));
        }
    }
}
