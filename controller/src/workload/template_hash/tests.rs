use serde_json::json;

use super::*;

/// The template of one container, with what the server adds to it.
fn template(app: &str, image: &str, pull_policy: &str, ports: &Value) -> Value {
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": {
            "containers": [{
                "name": "nginx",
                "image": image,
                "imagePullPolicy": pull_policy,
                "ports": ports,
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }],
            "dnsPolicy": "ClusterFirst",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "terminationGracePeriodSeconds": 30,
        },
    })
}

/// The pod template of the name server that kubeadm v1.36 runs.
fn name_server() -> Value {
    let probe = |path: &str, port: &str, more: Value| {
        let mut probe = json!({
            "httpGet": { "path": path, "port": port, "scheme": "HTTP" },
            "periodSeconds": 10, "successThreshold": 1,
        });
        for (key, value) in more.as_object().unwrap() {
            probe[key] = value.clone();
        }
        probe
    };
    let port = |name: &str, number: u16, protocol: &str| json!({ "containerPort": number, "name": name, "protocol": protocol });
    let selector = json!({ "matchExpressions": [
        { "key": "k8s-app", "operator": "In", "values": ["kube-dns"] },
    ] });
    json!({
        "metadata": { "labels": { "k8s-app": "kube-dns" } },
        "spec": {
            "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
                "podAffinityTerm": {
                    "labelSelector": selector, "topologyKey": "kubernetes.io/hostname",
                },
                "weight": 100,
            }] } },
            "containers": [{
                "args": ["-conf", "/etc/coredns/Corefile"],
                "image": "registry.k8s.io/coredns/coredns:v1.14.2",
                "imagePullPolicy": "IfNotPresent",
                "livenessProbe": probe("/health", "liveness-probe", json!({
                    "failureThreshold": 5, "initialDelaySeconds": 60, "timeoutSeconds": 5,
                })),
                "name": "coredns",
                "ports": [
                    port("dns", 53, "UDP"), port("dns-tcp", 53, "TCP"), port("metrics", 9153, "TCP"),
                    port("liveness-probe", 8080, "TCP"), port("readiness-probe", 8181, "TCP"),
                ],
                "readinessProbe": probe("/ready", "readiness-probe", json!({
                    "failureThreshold": 3, "timeoutSeconds": 1,
                })),
                "resources": {
                    "limits": { "memory": "170Mi" },
                    "requests": { "cpu": "100m", "memory": "70Mi" },
                },
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "capabilities": { "add": ["NET_BIND_SERVICE"], "drop": ["ALL"] },
                    "readOnlyRootFilesystem": true,
                },
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "volumeMounts": [
                    { "mountPath": "/etc/coredns", "name": "config-volume", "readOnly": true },
                ],
            }],
            "dnsPolicy": "Default",
            "nodeSelector": { "kubernetes.io/os": "linux" },
            "priorityClassName": "system-cluster-critical",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "serviceAccount": "coredns",
            "serviceAccountName": "coredns",
            "terminationGracePeriodSeconds": 30,
            "tolerations": [
                { "key": "CriticalAddonsOnly", "operator": "Exists" },
                { "effect": "NoSchedule", "key": "node-role.kubernetes.io/control-plane" },
            ],
            "volumes": [{
                "configMap": {
                    "defaultMode": 420,
                    "items": [{ "key": "Corefile", "path": "Corefile" }],
                    "name": "coredns",
                },
                "name": "config-volume",
            }],
        },
    })
}

#[test]
fn the_digest_is_fnv_1a() {
    assert_eq!(fnv1a(b""), 0x811c_9dc5);
    assert_eq!(fnv1a(b"foobar"), 0xbf9c_f968);
}

/// Hashes that clusters of v1.36 gave to these templates.
#[test]
fn hashes_are_those_of_a_cluster() {
    let created = template("nginx", "nginx", "Always", &json!([]));
    assert_eq!(hash(&created, None), "7f8fbb96d");
    let ports = json!([{ "containerPort": 80, "protocol": "TCP" }]);
    let applied = template("nginx-deployment", "nginx:1.24", "IfNotPresent", &ports);
    assert_eq!(hash(&applied, None), "9ff74b9fb");
    assert_eq!(hash(&name_server(), None), "589f44dc88");
}

#[test]
fn what_is_absent_or_null_or_empty_in_protobuf_is_one() {
    let template = |labels: Value| json!({ "metadata": { "labels": labels }, "spec": {} });
    let bare = json!({});
    for same in [template(Value::Null), template(json!({}))] {
        assert_eq!(dump::dump(&same), dump::dump(&bare), "{same}");
    }
    let present = json!({ "spec": { "securityContext": {} } });
    assert_ne!(dump::dump(&present), dump::dump(&bare));
}

#[test]
fn a_collision_changes_the_hash() {
    let template = json!({"spec": {"containers": []}});
    let hashes = [None, Some(1), Some(2)].map(|count| hash(&template, count));
    assert_ne!(hashes[0], hashes[1]);
    assert_ne!(hashes[1], hashes[2]);
    assert!(
        hashes
            .iter()
            .flat_map(|one| one.chars())
            .all(|c| c.is_ascii_alphanumeric())
    );
}
