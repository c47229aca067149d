//! Faults of the source of a volume.

use crate::core::pod::volume_sources::{validate_csi_driver_name, validate_iscsi, validate_one};
use crate::core::pod::volumes::validate_no_backsteps;
use crate::json::Value;
use crate::meta::validation::{dns1123_label, dns1123_subdomain};
use crate::status::{FieldErrors, FieldPath};
use crate::unstructured::text;
use crate::validation::{invalid_each, required};

/// The sources in upstream's order of validation.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];
/// The sources in the order of upstream's internal struct.
pub(super) const INTERNAL: [&str; 22] = [
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "hostPath",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "flexVolume",
    "cinder",
    "cephfs",
    "fc",
    "flocker",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];
const CSI_SECRETS: [&str; 4] = [
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
];

/// There is one source, and it is complete.
pub(super) fn validate_sources(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let present = SOURCES.iter().filter(|field| !spec[**field].is_null());
    let mut count = 0;
    for source in present {
        let value = &spec[*source];
        // Upstream names one of them otherwise where there are several, and another always.
        if count > 0 && *source != "flexVolume" {
            let name = if *source == "cephfs" {
                "cephFS"
            } else {
                source
            };
            errors.forbidden(&path.child(name), "may not specify more than 1 volume type");
            continue;
        }
        count += 1;
        let name = match *source {
            "gcePersistentDisk" => "persistentDisk",
            source => source,
        };
        validate_of_volume(value, source, &path.child(name), errors);
        if *source == "local" && spec["nodeAffinity"].is_null() {
            let detail = "Local volume requires node affinity";
            errors.required(&path.child("nodeAffinity"), detail);
        }
    }
    if count == 0 {
        errors.required(path, "must specify a volume type");
    }
}

/// A source of a volume; where it differs from that in a pod, its secrets have namespaces.
fn validate_of_volume(value: &Value, source: &str, path: &FieldPath, errors: &mut FieldErrors) {
    match source {
        "csi" => return validate_csi(value, path, errors),
        "local" => {
            required(&value["path"], &path.child("path"), errors);
            return validate_no_backsteps(&value["path"], &path.child("path"), errors);
        }
        "hostPath" if text(&value["path"]).is_empty() => {
            return errors.required(&path.child("path"), "");
        }
        "iscsi" => {
            required(&value["targetPortal"], &path.child("targetPortal"), errors);
            validate_iscsi(value, path, "must be valid format", errors);
            let secret = &value["secretRef"];
            if !secret.is_null() {
                let path = path.child("secretRef").child("name");
                required(&secret["name"], &path, errors);
            }
        }
        _ => validate_one(value, source, path, errors),
    }
    match source {
        "cinder" | "storageos" if !value["secretRef"].is_null() => {
            let path = path.child("secretRef").child("namespace");
            required(&value["secretRef"]["namespace"], &path, errors);
        }
        "azureFile" if value["secretNamespace"] == "" => {
            errors.required(&path.child("secretNamespace"), "");
        }
        "glusterfs" if value["endpointsNamespace"].is_string() => {
            let namespace = &value["endpointsNamespace"];
            let path = path.child("endpointsNamespace");
            match text(namespace) {
                "" => {
                    let detail =
                        "if the endpointnamespace is set, it must be a valid namespace name";
                    errors.invalid(&path, namespace, detail);
                }
                own => invalid_each(dns1123_label(own), namespace, &path, errors),
            }
        }
        _ => {}
    }
}

fn validate_csi(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    validate_csi_driver_name(&value["driver"], &path.child("driver"), errors);
    required(&value["volumeHandle"], &path.child("volumeHandle"), errors);
    for field in CSI_SECRETS {
        let secret = &value[field];
        if secret.is_null() {
            continue;
        }
        let path = path.child(field);
        for (field, faults) in [
            ("name", dns1123_subdomain as fn(&str) -> Vec<String>),
            ("namespace", dns1123_label),
        ] {
            let path = path.child(field);
            match text(&secret[field]) {
                "" => errors.required(&path, ""),
                own => invalid_each(faults(own), &own.into(), &path, errors),
            }
        }
    }
}
