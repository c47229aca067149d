//! Faults of a volume's source, whatever its type.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::container::{validate_field_ref, validate_resource_field};
use super::volumes::{
    validate_descending, validate_files, validate_mode, validate_no_backsteps,
    validate_non_reserved,
};
use crate::core::claim_spec::{validate_claim_spec, validate_template_meta};
use crate::json::Value;
use crate::meta::validation::{dns1123_label, dns1123_subdomain};
use crate::status::{FieldErrors, FieldPath, quoted};
use crate::unstructured::{entries, is_empty, items, text};
use crate::validation::{invalid_each, one_of, required};

/// The sources in upstream's order of validation.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "flocker",
    "downwardAPI",
    "fc",
    "azureFile",
    "flexVolume",
    "configMap",
    "quobyte",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];
pub(crate) const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];
/// Fields of a pod that a file of a volume can show.
const DOWNWARD_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
const MIN_TOKEN_SECONDS: i64 = 600;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;
const CSI_NAME_BYTES_MAX: usize = 63;
const BYTE_RANGE: &str = "must be between 0 and 255, inclusive";
const UNPREFIXED: &str = "must be valid format starting with iqn, eui, or naa";
const IQN: &str = r"^(iqn\.\d{4}-\d{2}\.([[:alnum:]\-.]+)(:[^,;*&$|\s]+)|eui.[[:alnum:]]{16}|naa.[[:alnum:]]{32})$";

/// Faults of one volume's source: there is at most one, and it is complete. `pod` is the name of the pod; a template
/// has none.
pub(crate) fn validate_source(
    volume: &Value,
    pod: Option<&str>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let present = SOURCES.iter().filter(|field| !volume[**field].is_null());
    for (index, source) in present.enumerate() {
        // Upstream has other names for some, whether they are one too many or not.
        if index > 0 {
            let name = match *source {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                source => source,
            };
            errors.forbidden(&path.child(name), "may not specify more than 1 volume type");
            continue;
        }
        let name = match *source {
            "gcePersistentDisk" => "persistentDisk",
            source => source,
        };
        if *source == "image" && pod.is_some() {
            let path = path.child("image").child("reference");
            required(&volume["image"]["reference"], &path, errors);
        }
        validate_one(&volume[*source], source, &path.child(name), errors);
        if let ("ephemeral", Some(pod)) = (*source, pod) {
            validate_claim_name(&volume["name"], pod, &path.child("name"), errors);
        }
    }
}

/// Faults of the name that the claim of an ephemeral volume will have. Missing names are faults elsewhere.
fn validate_claim_name(volume: &Value, pod: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if pod.is_empty() || text(volume).is_empty() {
        return;
    }
    let claim = format!("{pod}-{}", text(volume));
    for fault in dns1123_subdomain(&claim) {
        let detail = format!("PVC name {}: {fault}", quoted(&claim));
        errors.invalid(path, volume, &detail);
    }
}

/// Fields that must have a text.
fn needed(source: &str) -> &'static [&'static str] {
    match source {
        "gitRepo" => &["repository"],
        "gcePersistentDisk" => &["pdName"],
        "awsElasticBlockStore" | "cinder" | "portworxVolume" => &["volumeID"],
        "secret" => &["secretName"],
        "hostPath" => &["path"],
        "persistentVolumeClaim" => &["claimName"],
        "nfs" => &["server", "path"],
        "iscsi" => &["targetPortal"],
        "glusterfs" => &["endpoints", "path"],
        "azureFile" => &["secretName", "shareName"],
        "flexVolume" => &["driver"],
        "configMap" => &["name"],
        "vsphereVolume" => &["volumePath"],
        "photonPersistentDisk" => &["pdID"],
        "azureDisk" => &["diskName", "diskURI"],
        "storageos" => &["volumeName"],
        "scaleIO" => &["gateway", "system", "volumeName"],
        _ => &[],
    }
}

/// Faults of the fields of one source.
pub(crate) fn validate_one(
    value: &Value,
    source: &str,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    for field in needed(source) {
        required(&value[*field], &path.child(field), errors);
    }
    match source {
        "emptyDir" if text(&value["sizeLimit"]).starts_with('-') => {
            let detail = "SizeLimit field must be a valid resource quantity";
            errors.forbidden(&path.child("sizeLimit"), detail);
        }
        "hostPath" => {
            validate_no_backsteps(&value["path"], &path.child("path"), errors);
            let kind = path.child("type");
            one_of(&value["type"], &kind, &HOST_PATH_TYPES, errors);
        }
        "gitRepo" => validate_descending(&value["directory"], &path.child("directory"), errors),
        "quobyte" => validate_quobyte(value, path, errors),
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            let partition = &value["partition"];
            if partition
                .as_i64()
                .is_some_and(|own| !(0..=255).contains(&own))
            {
                // Upstream's text is stricter than its check.
                let detail = "must be between 1 and 255, inclusive";
                errors.invalid(&path.child("partition"), partition, detail);
            }
        }
        "flexVolume" => validate_flex_options(&value["options"], &path.child("options"), errors),
        "nfs" if !text(&value["path"]).starts_with('/') => {
            let shown = text(&value["path"]).into();
            errors.invalid(&path.child("path"), &shown, "must be an absolute path");
        }
        "iscsi" => validate_iscsi(value, path, UNPREFIXED, errors),
        "rbd" | "cephfs" => {
            if is_empty(&value["monitors"]) {
                errors.required(&path.child("monitors"), "");
            }
            if source == "rbd" {
                required(&value["image"], &path.child("image"), errors);
            }
        }
        "storageos" => {
            for field in ["volumeName", "volumeNamespace"] {
                let (own, path) = (&value[field], path.child(field));
                if !text(own).is_empty() {
                    invalid_each(dns1123_label(text(own)), own, &path, errors);
                }
            }
            validate_secret_name(value, path, errors);
        }
        "cinder" => validate_secret_name(value, path, errors),
        "flocker" => validate_flocker(value, path, errors),
        "downwardAPI" => {
            validate_mode(&value["defaultMode"], &path.child("defaultMode"), errors);
            validate_downward(value, path, errors);
        }
        "fc" => validate_fc(value, path, errors),
        "secret" | "configMap" => validate_files(value, path, errors),
        "azureDisk" => validate_azure_disk(value, path, errors),
        "projected" => validate_projected(value, path, errors),
        "csi" => {
            validate_csi_driver_name(&value["driver"], &path.child("driver"), errors);
            let secret = &value["nodePublishSecretRef"];
            if !secret.is_null() {
                let path = path.child("nodePublishSecretRef").child("name");
                required(&secret["name"], &path, errors);
            }
        }
        "ephemeral" => validate_ephemeral(value, path, errors),
        "image" => {
            let policies = ["Always", "IfNotPresent", "Never"];
            let policy = path.child("pullPolicy");
            one_of(&value["pullPolicy"], &policy, &policies, errors);
        }
        _ => {}
    }
}

fn validate_secret_name(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if !value["secretRef"].is_null() {
        let path = path.child("secretRef").child("name");
        required(&value["secretRef"]["name"], &path, errors);
    }
}

/// Options that are Kubernetes' own are not for users to set.
fn validate_flex_options(options: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for (key, _) in entries(options) {
        let domain = key
            .split_once('/')
            .map_or(key.as_str(), |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if [".kubernetes.io", ".k8s.io"]
            .iter()
            .any(|own| domain.ends_with(own))
        {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.invalid(&path.key(key), &key.as_str().into(), detail);
        }
    }
}

fn validate_byte(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if value.as_i64().is_some_and(|own| !(0..=255).contains(&own)) {
        errors.invalid(path, value, BYTE_RANGE);
    }
}

/// Validates a target of iSCSI; `unprefixed` is the fault of a name of no known kind.
pub(crate) fn validate_iscsi(
    value: &Value,
    path: &FieldPath,
    unprefixed: &str,
    errors: &mut FieldErrors,
) {
    static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(IQN).expect("it compiles"));
    let begins = |name: &str| {
        ["iqn", "eui", "naa"]
            .iter()
            .any(|own| name.starts_with(own))
    };
    let iqn = &value["iqn"];
    let at = path.child("iqn");
    match text(iqn) {
        "" => errors.required(&at, ""),
        name if !begins(name) => errors.invalid(&at, iqn, unprefixed),
        name if !NAME.is_match(name) => errors.invalid(&at, iqn, "must be valid format"),
        _ => {}
    }
    validate_byte(&value["lun"], &path.child("lun"), errors);
    let chap = value["chapAuthDiscovery"] == true || value["chapAuthSession"] == true;
    if chap && value["secretRef"].is_null() {
        errors.required(&path.child("secretRef"), "");
    }
    if let Some(initiator) = value["initiatorName"].as_str()
        && !NAME.is_match(initiator)
    {
        let detail = match begins(initiator) {
            true => "must be valid format",
            false => unprefixed,
        };
        errors.invalid(&path.child("initiatorname"), &initiator.into(), detail);
    }
}

/// Validates the registry, tenant and name of a Quobyte volume.
fn validate_quobyte(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    const TENANT_BYTES_MAX: usize = 64;
    let (registry, at) = (&value["registry"], path.child("registry"));
    if text(registry).is_empty() {
        errors.required(&at, PAIRS);
    } else if text(&value["tenant"]).len() > TENANT_BYTES_MAX {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.required(&path.child("tenant"), detail);
    } else {
        for pair in text(registry).split(',') {
            let host = pair.rsplit_once(':').map(|(host, _)| host);
            let is_bare = |host: &str| !host.contains(':') || host.ends_with(']');
            if !host.is_some_and(is_bare) {
                errors.invalid(&at, registry, PAIRS);
            }
        }
    }
    required(&value["volume"], &path.child("volume"), errors);
}

fn validate_flocker(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (name, uuid) = (text(&value["datasetName"]), text(&value["datasetUUID"]));
    match (name.is_empty(), uuid.is_empty()) {
        (true, true) => errors.required(path, "one of datasetName and datasetUUID is required"),
        (false, false) => {
            let detail = "datasetName and datasetUUID can not be specified simultaneously";
            errors.invalid(path, &"resource".into(), detail);
        }
        _ => {}
    }
    if name.contains('/') {
        errors.invalid(
            &path.child("datasetName"),
            &name.into(),
            "must not contain '/'",
        );
    }
}

fn validate_fc(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let names = &value["targetWWNs"];
    let at = path.child("targetWWNs");
    match (is_empty(names), is_empty(&value["wwids"])) {
        (true, true) => {
            errors.required(&at, "must specify either targetWWNs or wwids, but not both")
        }
        (false, false) => {
            let detail = "targetWWNs and wwids can not be specified simultaneously";
            errors.invalid(&at, names, detail);
        }
        _ => {}
    }
    if !is_empty(names) {
        let at = path.child("lun");
        match value["lun"].is_null() {
            true => errors.required(&at, "lun is required if targetWWNs is specified"),
            false => validate_byte(&value["lun"], &at, errors),
        }
    }
}

fn validate_azure_disk(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let mode = &value["cachingMode"];
    if !mode.is_null() {
        let modes = ["None", "ReadOnly", "ReadWrite"];
        one_of(mode, &path.child("cachingMode"), &modes, errors);
    }
    let kind = &value["kind"];
    if !kind.is_null() {
        let kinds = ["Dedicated", "Managed", "Shared"];
        one_of(kind, &path.child("kind"), &kinds, errors);
    }
    let uri = &value["diskURI"];
    let (start, shape) = match value["kind"] == "Managed" {
        true => (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ),
        false => (
            "https://",
            "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd",
        ),
    };
    if !text(uri).starts_with(start) {
        errors.not_supported(&path.child("diskURI"), uri, &[shape]);
    }
}

/// Faults of the files of a downward API; upstream leaves the index out.
fn validate_downward(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for item in items(&value["items"]) {
        let at = path.child("path");
        required(&item["path"], &at, errors);
        validate_non_reserved(&item["path"], &at, errors);
        let (field, amount) = (&item["fieldRef"], &item["resourceFieldRef"]);
        if !field.is_null() {
            validate_field_ref(field, &DOWNWARD_FIELDS, &path.child("fieldRef"), errors);
            if !amount.is_null() {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(path, &"resource".into(), detail);
            }
        } else if amount.is_null() {
            errors.required(path, "one of fieldRef and resourceFieldRef is required");
        } else {
            let path = path.child("resourceFieldRef");
            if text(&amount["containerName"]).is_empty() {
                errors.required(&path.child("containerName"), "");
            } else {
                validate_resource_field(amount, &path, errors);
            }
        }
        validate_mode(&item["mode"], &path.child("mode"), errors);
    }
}

fn validate_projected(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    validate_mode(&value["defaultMode"], &path.child("defaultMode"), errors);
    let mut paths = BTreeSet::new();
    for (index, source) in items(&value["sources"]).enumerate() {
        let at = path.child("sources").index(index);
        let mut count = 0;
        for kind in ["secret", "configMap", "downwardAPI", "serviceAccountToken"] {
            let own = &source[kind];
            if own.is_null() {
                continue;
            }
            count += 1;
            let at = at.child(kind);
            match kind {
                "serviceAccountToken" => validate_token(own, &at, path, errors),
                "downwardAPI" => validate_downward(own, &at, errors),
                _ => {
                    required(&own["name"], &at.child("name"), errors);
                    validate_files(own, &at, errors);
                }
            }
            for item in items(&own["items"]) {
                let file = text(&item["path"]);
                if !file.is_empty() && !paths.insert(file) {
                    // Upstream names the whole volume, and shows where the files are from.
                    let shown = if kind == "downwardAPI" {
                        file
                    } else {
                        text(&own["name"])
                    };
                    errors.invalid(path, &shown.into(), "conflicting duplicate paths");
                }
            }
        }
        if count > 1 {
            errors.forbidden(&at, "may not specify more than 1 volume type per source");
        }
    }
}

/// A token's path is a fault of the whole volume, as upstream has it.
fn validate_token(token: &Value, path: &FieldPath, volume: &FieldPath, errors: &mut FieldErrors) {
    let seconds = &token["expirationSeconds"];
    let at = path.child("expirationSeconds");
    match seconds.as_i64() {
        Some(own) if own < MIN_TOKEN_SECONDS => {
            let detail = "may not specify a duration less than 10 minutes";
            errors.invalid(&at, seconds, detail);
        }
        Some(own) if own > MAX_TOKEN_SECONDS => {
            let detail = "may not specify a duration larger than 2^32 seconds";
            errors.invalid(&at, seconds, detail);
        }
        _ => {}
    }
    let at = volume.child("path");
    match text(&token["path"]).is_empty() {
        true => errors.required(&at, ""),
        false => validate_non_reserved(&token["path"], &at, errors),
    }
}

/// Faults of the name of a CSI driver.
pub(crate) fn validate_csi_driver_name(name: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let own = text(name);
    if own.is_empty() {
        errors.required(path, "");
        return;
    }
    if own.len() > CSI_NAME_BYTES_MAX {
        errors.too_long(path, CSI_NAME_BYTES_MAX);
    }
    invalid_each(dns1123_subdomain(&own.to_lowercase()), name, path, errors);
}

fn validate_ephemeral(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let template = &value["volumeClaimTemplate"];
    let path = path.child("volumeClaimTemplate");
    if template.is_null() {
        errors.required(&path, "");
        return;
    }
    validate_template_meta(&template["metadata"], &path.child("metadata"), errors);
    validate_claim_spec(&template["spec"], &path.child("spec"), errors);
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn each_source_needs_its_own_fields() {
        let table = [
            (json!({"flocker": {}}), vec!["v.flocker"]),
            (json!({"fc": {"targetWWNs": ["a"]}}), vec!["v.fc.lun"]),
            (json!({"rbd": {}}), vec!["v.rbd.monitors", "v.rbd.image"]),
            (json!({"csi": {"driver": "a b"}}), vec!["v.csi.driver"]),
            (
                json!({"iscsi": {"targetPortal": "p", "iqn": "iqn.2001-04.com.example:x", "lun": 1}}),
                vec![],
            ),
            (json!({"emptyDir": {}, "nfs": {}}), vec!["v.nfs"]),
            (
                json!({"downwardAPI": {"items": [{"path": "..x"}]}}),
                vec!["v.downwardAPI.path", "v.downwardAPI"],
            ),
        ];
        for (volume, want) in table {
            let mut errors = FieldErrors::new();
            validate_source(&volume, None, &FieldPath::new("v"), &mut errors);
            let fields: Vec<&str> = errors.causes().iter().map(|own| &*own.field).collect();
            assert_eq!(fields, want, "{volume}");
        }
    }
}
