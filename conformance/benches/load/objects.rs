//! Objects as a cluster's own clients write them.

use serde_json::{Value, json};

/// The pod that the StatefulSet controller creates for an ordinal; the label `tenth` selects a tenth
/// of such pods.
pub(crate) fn pod(ordinal: usize) -> Value {
    let name = format!("web-{ordinal}");
    let probe = |path: &str| {
        json!({
            "httpGet": { "path": path, "port": 8080, "scheme": "HTTP" },
            "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
        })
    };
    let field = |path: &str| json!({ "fieldRef": { "apiVersion": "v1", "fieldPath": path } });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "generateName": "web-",
            "labels": {
                "app": "web",
                "tenth": (ordinal % 10).to_string(),
                "apps.kubernetes.io/pod-index": ordinal.to_string(),
                "controller-revision-hash": "web-6596ffb49b",
                "statefulset.kubernetes.io/pod-name": name,
            },
            "annotations": { "prometheus.io/scrape": "true", "prometheus.io/port": "8080" },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web",
                "uid": "9d6a3b0e-3f6a-4f63-93ac-0d3bd1a3f0a1",
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "hostname": name,
            "subdomain": "web",
            "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": format!("data-{name}") } },
                { "name": "kube-api-access-x7k2p", "projected": { "defaultMode": 420, "sources": [
                    { "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } },
                    { "configMap": { "name": "kube-root-ca.crt",
                        "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
                    { "downwardAPI": { "items": [{ "path": "namespace",
                        "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" } }] } },
                ] } },
            ],
            "containers": [{
                "name": "web",
                "image": "registry.k8s.io/nginx-slim:0.24",
                "ports": [{ "name": "http", "containerPort": 8080, "protocol": "TCP" }],
                "env": [
                    { "name": "POD_NAME", "valueFrom": field("metadata.name") },
                    { "name": "POD_IP", "valueFrom": field("status.podIP") },
                    { "name": "LOG_LEVEL", "value": "info" },
                ],
                "resources": {
                    "requests": { "cpu": "100m", "memory": "128Mi" },
                    "limits": { "cpu": "500m", "memory": "256Mi" },
                },
                "volumeMounts": [
                    { "name": "data", "mountPath": "/var/lib/web" },
                    { "name": "kube-api-access-x7k2p", "readOnly": true,
                      "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount" },
                ],
                "livenessProbe": probe("/healthz"),
                "readinessProbe": probe("/readyz"),
                "imagePullPolicy": "IfNotPresent",
            }],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "web",
            "nodeName": format!("node-{}", ordinal % 100),
            "securityContext": { "fsGroup": 1000, "runAsNonRoot": true },
            "schedulerName": "default-scheduler",
        },
    })
}

/// The strategic merge patch of a pod's status with which a kubelet reports that the pod runs.
pub(crate) fn status_patch(ordinal: usize, restarts: usize) -> Value {
    let time = "2026-01-01T00:00:07Z";
    let address = format!("10.1.{}.{}", ordinal / 250 % 250, ordinal % 250 + 1);
    let condition = |name: &str| {
        json!({
            "type": name, "status": "True", "observedGeneration": 1,
            "lastProbeTime": null, "lastTransitionTime": time,
        })
    };
    let types = [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ];
    let order: Vec<Value> = types.iter().map(|name| json!({ "type": name })).collect();
    json!({ "status": {
        "$setElementOrder/conditions": order,
        "conditions": types.map(condition),
        "containerStatuses": [{
            "name": "web",
            "containerID": format!("containerd://{:064x}", ordinal + 1),
            "image": "registry.k8s.io/nginx-slim:0.24",
            "imageID": "registry.k8s.io/nginx-slim@sha256:4e9f3a2d9b5b9e8c7f6a1d2c3b4a59687f6e5d4c3b2a19080706050403020100",
            "ready": true, "started": true, "restartCount": restarts, "lastState": {},
            "state": { "running": { "startedAt": time } },
        }],
        "hostIP": "172.18.0.2", "hostIPs": [{ "ip": "172.18.0.2" }],
        "observedGeneration": 1, "phase": "Running",
        "podIP": address, "podIPs": [{ "ip": address }],
        "startTime": "2026-01-01T00:00:00Z",
    } })
}

/// A small object.
pub(crate) fn config_map(index: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": format!("map-{index}") },
        "data": { "colour": "blue", "index": index.to_string() },
    })
}
