//! Defaults of a pod's spec, wherever one occurs: in pods and in every template.

use super::image::pulls_always;
use crate::core::resource_list::round_amounts;
use crate::json::{Map, Value, json};
use crate::meta::object::default;
use crate::unstructured::default_text;

/// File mode 0644, in decimal as JSON has it.
const MODE: i64 = 420;

/// Sources of volumes, their fields and what these are unless given.
pub(crate) const SOURCE_DEFAULTS: [(&str, &str, &str); 9] = [
    ("iscsi", "iscsiInterface", "default"),
    ("rbd", "pool", "rbd"),
    ("rbd", "user", "admin"),
    ("rbd", "keyring", "/etc/ceph/keyring"),
    ("scaleIO", "storageMode", "ThinProvisioned"),
    ("scaleIO", "fsType", "xfs"),
    ("azureDisk", "cachingMode", "ReadWrite"),
    ("azureDisk", "fsType", "ext4"),
    ("azureDisk", "kind", "Shared"),
];

/// Fills in the spec of a pod or of a pod template.
pub(crate) fn default_pod_spec(spec: &mut Value) {
    let Some(spec) = spec.as_object_mut() else {
        return;
    };
    // The field's old name is kept as well.
    let account = ["serviceAccountName", "serviceAccount"];
    if let Some(account_name) = account.iter().find_map(|field| spec.get(field).cloned()) {
        for field in account {
            spec.insert(field.to_owned(), account_name.clone());
        }
    }
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "restartPolicy", "Always");
    default(spec, "schedulerName", "default-scheduler");
    default(spec, "securityContext", json!({}));
    let grace = spec
        .entry("terminationGracePeriodSeconds")
        .or_insert(Value::Null);
    match grace.as_i64() {
        None => *grace = 30.into(),
        Some(seconds) if seconds < 0 => *grace = 1.into(),
        Some(_) => {}
    }
    drop_gated(spec);
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in items(spec, list) {
            default_container(container);
        }
    }
    for volume in items(spec, "volumes") {
        default_volume(volume);
    }
}

/// Leaves out what gates keep from being used unless they are opened.
fn drop_gated(spec: &mut Map) {
    spec.remove("schedulingGroup");
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in items(spec, list) {
            let lifecycle = container
                .get_mut("lifecycle")
                .and_then(Value::as_object_mut);
            let dropped =
                lifecycle.is_some_and(|own| own.remove("stopSignal").is_some() && own.is_empty());
            if dropped {
                container.remove("lifecycle");
            }
        }
    }
    for volume in items(spec, "volumes") {
        let projected = volume.get_mut("projected").and_then(Value::as_object_mut);
        for source in projected.into_iter().flat_map(|own| items(own, "sources")) {
            source.remove("clusterTrustBundle");
            source.remove("podCertificate");
        }
    }
}

fn items<'a>(map: &'a mut Map, list: &str) -> impl Iterator<Item = &'a mut Map> {
    map.get_mut(list)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

fn default_container(container: &mut Map) {
    if !container
        .get("imagePullPolicy")
        .is_some_and(Value::is_string)
    {
        let image = container.get("image").and_then(Value::as_str);
        let policy = if pulls_always(image.unwrap_or_default()) {
            "Always"
        } else {
            "IfNotPresent"
        };
        default(container, "imagePullPolicy", policy);
    }
    default(container, "resources", json!({}));
    for half in ["limits", "requests"] {
        if let Some(amounts) = container
            .get_mut("resources")
            .and_then(|resources| resources.get_mut(half))
        {
            round_amounts(amounts);
        }
    }
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    for port in items(container, "ports") {
        default(port, "protocol", "TCP");
    }
    for variable in items(container, "env") {
        let field = variable
            .get_mut("valueFrom")
            .and_then(|source| source.get_mut("fieldRef"))
            .and_then(Value::as_object_mut);
        if let Some(field) = field {
            default(field, "apiVersion", "v1");
        }
        let file = variable
            .get_mut("valueFrom")
            .and_then(|source| source.get_mut("fileKeyRef"))
            .and_then(Value::as_object_mut);
        if let Some(file) = file {
            default(file, "optional", false);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).and_then(Value::as_object_mut) {
            default_probe(probe);
        }
    }
    if let Some(lifecycle) = container
        .get_mut("lifecycle")
        .and_then(Value::as_object_mut)
    {
        for hook in ["postStart", "preStop"] {
            if let Some(hook) = lifecycle.get_mut(hook).and_then(Value::as_object_mut) {
                default_http_get(hook);
            }
        }
    }
}

fn default_probe(probe: &mut Map) {
    default(probe, "timeoutSeconds", 1);
    default(probe, "periodSeconds", 10);
    default(probe, "successThreshold", 1);
    default(probe, "failureThreshold", 3);
    default_http_get(probe);
    if let Some(grpc) = probe.get_mut("grpc").and_then(Value::as_object_mut) {
        default(grpc, "service", "");
    }
}

fn default_http_get(handler: &mut Map) {
    if let Some(get) = handler.get_mut("httpGet").and_then(Value::as_object_mut) {
        default(get, "path", "/");
        default(get, "scheme", "HTTP");
    }
}

fn default_volume(volume: &mut Map) {
    let has_source = volume.keys().any(|field| field != "name");
    if !has_source {
        volume.insert("emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source).and_then(Value::as_object_mut) {
            default(source, "defaultMode", MODE);
        }
    }
    for (name, source) in volume.iter_mut() {
        let Some(source) = source.as_object_mut() else {
            continue;
        };
        let own = SOURCE_DEFAULTS.iter().filter(|(own, ..)| own == name);
        own.for_each(|(_, field, value)| default_text(source, field, value));
    }
    if let Some(disk) = volume.get_mut("azureDisk").and_then(Value::as_object_mut) {
        default(disk, "readOnly", false);
    }
    if let Some(image) = volume.get_mut("image").and_then(Value::as_object_mut) {
        let reference = image.get("reference").and_then(Value::as_str);
        let policy = if pulls_always(reference.unwrap_or_default()) {
            "Always"
        } else {
            "IfNotPresent"
        };
        default_text(image, "pullPolicy", policy);
    }
    if let Some(path) = volume.get_mut("hostPath").and_then(Value::as_object_mut) {
        default(path, "type", "");
    }
    if let Some(downward) = volume.get_mut("downwardAPI").and_then(Value::as_object_mut) {
        default_field_refs(downward);
    }
    if let Some(projected) = volume.get_mut("projected").and_then(Value::as_object_mut) {
        for source in items(projected, "sources") {
            if let Some(token) = source
                .get_mut("serviceAccountToken")
                .and_then(Value::as_object_mut)
            {
                default(token, "expirationSeconds", 3600);
            }
            if let Some(downward) = source.get_mut("downwardAPI").and_then(Value::as_object_mut) {
                default_field_refs(downward);
            }
        }
    }
    if let Some(claim) = volume
        .get_mut("ephemeral")
        .and_then(|source| source.get_mut("volumeClaimTemplate"))
        .and_then(|template| template.get_mut("spec"))
        .and_then(Value::as_object_mut)
    {
        default(claim, "volumeMode", "Filesystem");
    }
}

fn default_field_refs(source: &mut Map) {
    for item in items(source, "items") {
        if let Some(field) = item.get_mut("fieldRef").and_then(Value::as_object_mut) {
            default(field, "apiVersion", "v1");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_of_one_container_gets_upstreams_defaults() {
        let mut spec = json!({"containers": [{"name": "c", "image": "i:1", "ports": [{"containerPort": 80}]}]});
        default_pod_spec(&mut spec);
        let want = json!({
            "containers": [{
                "name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent", "resources": {},
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            }],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "securityContext": {},
            "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30,
        });
        assert_eq!(spec, want);
        default_pod_spec(&mut spec);
        assert_eq!(spec, want);
    }
}
