//! The permissions of kubelets.

use kubeproof_apiserver::Authorization;
use kubeproof_apiserver::json::{Value, json};

use super::{ADMIN, ApiServer, send};

const N1: &[(&str, &str)] = &[
    ADMIN,
    ("impersonate-user", "system:node:n1"),
    ("impersonate-group", "system:nodes"),
];

/// A server with a pod on `n1` that refers to `near-…`, and one on `n2` that refers to `far-…`.
async fn server() -> ApiServer {
    let modes = vec![Authorization::Node, Authorization::Rbac];
    let builder = ApiServer::builder().token(Some("secret".to_owned()));
    let server = builder.authorization_modes(modes).build();
    for (node, side) in [("n1", "near"), ("n2", "far")] {
        let name = |what: &str| format!("{side}-{what}");
        let pod = json!({ "metadata": { "name": name("pod") }, "spec": {
            "nodeName": node,
            "serviceAccountName": name("account"),
            "imagePullSecrets": [{ "name": name("pull") }],
            "containers": [{
                "name": "c", "image": "i",
                "envFrom": [
                    { "configMapRef": { "name": name("env-from") } },
                    { "secretRef": { "name": name("env-from") } },
                ],
                "env": [
                    { "name": "A", "valueFrom": { "secretKeyRef": { "name": name("env"), "key": "k" } } },
                    { "name": "B", "valueFrom": { "configMapKeyRef": { "name": name("env"), "key": "k" } } },
                ],
            }],
            "initContainers": [{
                "name": "d", "image": "i", "envFrom": [{ "secretRef": { "name": name("init") } }],
            }],
            "volumes": [
                { "name": "a", "secret": { "secretName": name("volume") } },
                { "name": "b", "configMap": { "name": name("volume") } },
                { "name": "c", "projected": { "sources": [
                    { "secret": { "name": name("projected") } },
                    { "configMap": { "name": name("projected") } },
                ] } },
                { "name": "d", "csi": {
                    "driver": "x", "nodePublishSecretRef": { "name": name("driver") },
                } },
                { "name": "e", "persistentVolumeClaim": { "claimName": name("claim") } },
                { "name": "f", "ephemeral": { "volumeClaimTemplate": { "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": { "requests": { "storage": "1Gi" } },
                } } } },
            ],
            "resourceClaims": [{ "name": "r", "resourceClaimName": name("devices") }],
        } });
        let volume = json!({ "metadata": { "name": name("volume") }, "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": { "storage": "1Gi" },
            "claimRef": { "namespace": "default", "name": name("claim") },
            "csi": {
                "driver": "x", "volumeHandle": "h",
                "nodeStageSecretRef": { "namespace": "vault", "name": name("stage") },
                "controllerPublishSecretRef": { "namespace": "vault", "name": name("controller") },
            },
        } });
        let attachment = json!({ "metadata": { "name": name("attachment") }, "spec": {
            "attacher": "x", "nodeName": node, "source": { "persistentVolumeName": name("volume") },
        } });
        let slice = json!({ "metadata": { "name": name("slice") }, "spec": {
            "driver": "x.example", "nodeName": node, "pool": {
                "name": "p", "generation": 1, "resourceSliceCount": 1,
            },
        } });
        for (path, object) in [
            ("/api/v1/namespaces/default/pods", pod),
            ("/api/v1/persistentvolumes", volume),
            ("/apis/storage.k8s.io/v1/volumeattachments", attachment),
            ("/apis/resource.k8s.io/v1/resourceslices", slice),
        ] {
            let (code, answer) = send(&server, &format!("POST {path}"), &[ADMIN], object).await;
            assert_eq!(code, 201, "{answer}");
        }
    }
    let mirror = json!({ "metadata": {
        "name": "mirror", "annotations": { "kubernetes.io/config.mirror": "x" },
    }, "spec": {
        "nodeName": "n1", "containers": [{ "name": "c", "image": "i" }],
        "volumes": [{ "name": "a", "secret": { "secretName": "stolen" } }],
    } });
    let pods = "POST /api/v1/namespaces/default/pods";
    assert_eq!(send(&server, pods, &[ADMIN], mirror).await.0, 201);
    server
}

/// Returns the reason of a refusal in a review of a kubelet's permission; `None` if it is allowed.
async fn refusal(server: &ApiServer, attributes: &str) -> Option<String> {
    let (verb, rest) = attributes.split_once(' ').unwrap();
    let (group, rest) = rest.split_once('/').unwrap();
    let mut parts = rest.split(' ');
    let mut part = || parts.next().unwrap_or_default();
    let (resource, namespace, name, selector) = (part(), part(), part(), part());
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let dash = |text: &str| {
        if text == "-" {
            String::new()
        } else {
            text.to_owned()
        }
    };
    let mut review = json!({ "spec": {
        "user": "system:node:n1",
        "groups": ["system:nodes"],
        "resourceAttributes": {
            "verb": verb, "group": group, "resource": resource, "subresource": subresource,
            "namespace": dash(namespace), "name": dash(name),
        },
    } });
    if !selector.is_empty() {
        review["spec"]["resourceAttributes"]["fieldSelector"] = json!({ "rawSelector": selector });
    }
    let reviews = "POST /apis/authorization.k8s.io/v1/subjectaccessreviews";
    let (code, answer) = send(server, reviews, &[ADMIN], review).await;
    assert_eq!(code, 201, "{answer}");
    let status = &answer["status"];
    match status["allowed"] == true {
        true => None,
        false => Some(status["reason"].as_str().unwrap_or_default().to_owned()),
    }
}

#[tokio::test]
async fn a_node_reads_what_its_own_pods_refer_to() {
    let server = server().await;
    let rows = [
        "get /pods default SIDE-pod",
        "list /pods default SIDE-pod",
        "get /secrets default SIDE-pull",
        "get /secrets default SIDE-env-from",
        "get /secrets default SIDE-env",
        "get /secrets default SIDE-init",
        "watch /secrets default SIDE-volume",
        "list /secrets default SIDE-projected",
        "get /secrets default SIDE-driver",
        "get /secrets vault SIDE-stage",
        "get /configmaps default SIDE-env-from",
        "get /configmaps default SIDE-env",
        "get /configmaps default SIDE-volume",
        "get /configmaps default SIDE-projected",
        "get /persistentvolumeclaims default SIDE-claim",
        "get /persistentvolumeclaims default SIDE-pod-f",
        "patch /persistentvolumeclaims/status default SIDE-claim",
        "get /persistentvolumes - SIDE-volume",
        "get resource.k8s.io/resourceclaims default SIDE-devices",
        "get storage.k8s.io/volumeattachments - SIDE-attachment",
        "update resource.k8s.io/resourceslices - SIDE-slice",
        "get /serviceaccounts default SIDE-account",
        "create /serviceaccounts/token default SIDE-account",
    ];
    let unrelated = "no relationship found between node 'n1' and this object";
    for row in rows {
        assert_eq!(
            refusal(&server, &row.replace("SIDE", "near")).await,
            None,
            "{row}"
        );
        let refused = refusal(&server, &row.replace("SIDE", "far")).await;
        assert_eq!(refused.as_deref(), Some(unrelated), "{row}");
    }
    for row in [
        "get /secrets default near-claim",
        "get /secrets other near-pull",
        "get /secrets vault near-controller",
        "get /secrets default stolen",
    ] {
        assert_eq!(
            refusal(&server, row).await.as_deref(),
            Some(unrelated),
            "{row}"
        );
    }
    // The reference ends with the pod.
    let pod = "DELETE /api/v1/namespaces/default/pods/near-pod?gracePeriodSeconds=0";
    assert_eq!(send(&server, pod, &[ADMIN], Value::Null).await.0, 200);
    let refused = refusal(&server, "get /secrets default near-pull").await;
    assert_eq!(refused.as_deref(), Some(unrelated));
}

#[tokio::test]
async fn a_node_writes_its_own_objects_and_is_refused_others_with_a_reason() {
    let server = server().await;
    let rows = [
        ("get /nodes - n1", ""),
        (
            "get /nodes - n2",
            "node 'n1' cannot read 'n2', only its own Node object",
        ),
        (
            "list /nodes - -",
            "node 'n1' cannot read all nodes, only its own Node object",
        ),
        ("update /nodes/status - n1", ""),
        ("create /pods default -", ""),
        ("create /pods/eviction default near-pod", ""),
        ("list /pods - - spec.nodeName=n1", ""),
        (
            "list /pods - - spec.nodeName=n2",
            "can only list/watch pods with spec.nodeName field selector",
        ),
        (
            "list /pods - - spec.nodeName!=n1",
            "can only list/watch pods with spec.nodeName field selector",
        ),
        (
            "list resource.k8s.io/resourceslices - - spec.nodeName=n1",
            "",
        ),
        (
            "deletecollection resource.k8s.io/resourceslices - -",
            "can only list/watch/deletecollection resourceslices with nodeName field selector",
        ),
        ("create resource.k8s.io/resourceslices - -", ""),
        ("list /secrets default -", "No Object name found"),
        (
            "list /secrets - x",
            "can only read namespaced object of this type",
        ),
        (
            "create /secrets default -",
            "can only read resources of this type",
        ),
        ("get /secrets/x default y", "cannot read subresource"),
        (
            "list /persistentvolumes - -",
            "can only get individual resources of this type",
        ),
        ("get /persistentvolumes/x - y", "cannot get subresource"),
        (
            "get /persistentvolumeclaims/status default near-claim",
            "can only get/update/patch this type",
        ),
        (
            "create /serviceaccounts default -",
            "can only create tokens for individual service accounts",
        ),
        (
            "create /serviceaccounts/x default near-account",
            "can only create token subresource of serviceaccount",
        ),
        ("update coordination.k8s.io/leases kube-node-lease n1", ""),
        ("create coordination.k8s.io/leases kube-node-lease -", ""),
        (
            "update coordination.k8s.io/leases kube-node-lease n2",
            "can only access node lease with the same name as the requesting node",
        ),
        (
            "update coordination.k8s.io/leases default n1",
            "can only access leases in the \"kube-node-lease\" system namespace",
        ),
        (
            "list coordination.k8s.io/leases kube-node-lease -",
            "can only get, create, update, patch, or delete a node lease",
        ),
        ("patch storage.k8s.io/csinodes - n1", ""),
        (
            "patch storage.k8s.io/csinodes - n2",
            "can only access CSINode with the same name as the requesting node",
        ),
        (
            "list storage.k8s.io/csinodes - -",
            "can only get, create, update, patch, or delete a CSINode",
        ),
        ("create /events default -", ""),
        ("list /services - -", ""),
    ];
    for (row, want) in rows {
        let refused = refusal(&server, row).await;
        assert_eq!(refused.unwrap_or_default(), want, "{row}");
    }
    // Other requests are not in the rules of nodes, and their refusals have no reason.
    for row in ["get apps/deployments default x", "delete /nodes - n1"] {
        assert_eq!(refusal(&server, row).await.as_deref(), Some(""), "{row}");
    }
}

#[tokio::test]
async fn requests_of_kubelets_are_authorized_by_what_they_select() {
    let server = server().await;
    let rows = [
        ("GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn1", 200),
        ("GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn2", 403),
        ("GET /api/v1/pods", 403),
        ("GET /api/v1/namespaces/default/secrets/near-pull", 404),
        ("GET /api/v1/namespaces/default/secrets/far-pull", 403),
        (
            "GET /api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dnear-pull",
            200,
        ),
    ];
    for (request, want) in rows {
        let (code, answer) = send(&server, request, N1, Value::Null).await;
        assert_eq!(code, want, "{request}: {answer}");
    }
    // A user without the group or without a name is not a node.
    let request = "GET /api/v1/services";
    let stranger = [ADMIN, ("impersonate-user", "system:node:n1")];
    assert_eq!(send(&server, request, &stranger, Value::Null).await.0, 403);
    let nameless = [
        ADMIN,
        ("impersonate-user", "system:node:"),
        ("impersonate-group", "system:nodes"),
    ];
    let (_, answer) = send(&server, request, &nameless, Value::Null).await;
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.ends_with(": unknown node for user \"system:node:\""),
        "{message}"
    );
    let rules = "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let own = json!({ "spec": { "namespace": "default" } });
    let (code, answer) = send(&server, rules, N1, own).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(answer["status"]["incomplete"], true);
    let error = "node authorizer does not support user rule resolution";
    assert_eq!(answer["status"]["evaluationError"], error);
}
