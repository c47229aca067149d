//! Faults and warnings of kinds as upstream words them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod devices;
mod jobs;
mod registration;
mod updates;
mod volumes;
mod writes;

use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use crate::support::requests::{Answer, send};

/// `field: message` of each cause.
fn causes(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.code, 422, "{}", answer.message());
    let causes = answer.body["details"]["causes"].as_array();
    let causes = causes.unwrap_or_else(|| panic!("{}", answer.body)).iter();
    let text = |cause: &Value, field: &str| cause[field].as_str().unwrap_or_default().to_owned();
    causes
        .map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message")))
        .collect()
}

/// Creates an object `x` in vain.
async fn refused(path: &str, mut object: Value) -> Vec<String> {
    let server = ApiServer::builder().build();
    if object["metadata"].is_null() {
        object["metadata"] = json!({ "name": "x" });
    }
    causes(&send(&server, &format!("POST {path}"), object).await)
}

const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";

#[tokio::test]
async fn an_ingress_has_backends_and_absolute_paths() {
    assert_eq!(
        refused(INGRESSES, json!({})).await,
        ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]
    );
    let paths = json!([
        { "path": "a//b/..", "pathType": "Prefix", "backend": { "service": { "name": "", "port": {} } } },
        { "pathType": "Odd", "backend": {} },
        { "path": "/" },
        { "path": "x", "pathType": "ImplementationSpecific", "backend": {
            "service": { "name": "s", "port": { "name": "http", "number": 80 } } } },
    ]);
    let spec = json!({
        "rules": [
            { "host": "1.2.3.4", "http": { "paths": paths } }, { "host": "*.*.x" },
            { "http": { "paths": [] } },
        ],
        "tls": [{ "hosts": ["A"], "secretName": "B" }],
        "ingressClassName": "C",
    });
    let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
         characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
         'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    assert_eq!(
        refused(INGRESSES, json!({ "spec": spec })).await,
        [
            "spec.rules[0].host: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address"
                .to_owned(),
            "spec.rules[0].http.paths[0].path: Invalid value: \"a//b/..\": must be an absolute path"
                .to_owned(),
            "spec.rules[0].http.paths[0].path: Invalid value: \"a//b/..\": must not contain '//'"
                .to_owned(),
            "spec.rules[0].http.paths[0].path: Invalid value: \"a//b/..\": cannot end with '/..'"
                .to_owned(),
            "spec.rules[0].http.paths[0].backend.service.name: Required value".to_owned(),
            "spec.rules[0].http.paths[0].backend: Required value: port name or number is required"
                .to_owned(),
            "spec.rules[0].http.paths[1].pathType: Unsupported value: \"Odd\": supported values: \
             \"Exact\", \"ImplementationSpecific\", \"Prefix\""
                .to_owned(),
            "spec.rules[0].http.paths[1].backend: Invalid value: \"\": resource or service backend \
             is required"
                .to_owned(),
            "spec.rules[0].http.paths[2].pathType: Required value: pathType must be specified"
                .to_owned(),
            "spec.rules[0].http.paths[3].path: Invalid value: \"x\": must be an absolute path"
                .to_owned(),
            "spec.rules[0].http.paths[3].backend: Invalid value: \"\": cannot set both port name & \
             port number"
                .to_owned(),
            "spec.rules[1].host: Invalid value: \"*.*.x\": a wildcard DNS-1123 subdomain must start \
             with '*.', followed by a valid DNS subdomain, which must consist of lower case \
             alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. \
             '*.example.com', regex used for validation is \
             '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
            "spec.rules[2].http.paths: Required value".to_owned(),
            format!("spec.tls[0].hosts[0]: Invalid value: \"A\": {subdomain}"),
            format!("spec.tls[0].secretName: Invalid value: \"B\": {subdomain}"),
            format!("spec.ingressClassName: Invalid value: \"C\": {subdomain}"),
        ]
    );
}

#[tokio::test]
async fn a_flow_schema_says_whose_requests_of_what_it_is_about() {
    let path = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
    let spec = json!({
        "matchingPrecedence": 1,
        "rules": [{
            "subjects": [{ "kind": "User", "group": { "name": "g" } }, { "kind": "Odd" }],
            "resourceRules": [{ "verbs": ["get", "jump"], "apiGroups": ["*", "a"], "resources": [] }],
            "nonResourceRules": [{ "verbs": [], "nonResourceURLs": ["a", "/b*"] }],
        }, {}],
    });
    assert_eq!(
        refused(path, json!({ "spec": spec })).await,
        [
            "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have \
             matchingPrecedence 1",
            "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
            "spec.rules[0].subjects[0].user: Required value: user is required when subject kind is \
             'User'",
            "spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is \
             not 'Group'",
            "spec.rules[0].subjects[1].kind: Unsupported value: \"Odd\": supported values: \
             \"Group\", \"ServiceAccount\", \"User\"",
            "spec.rules[0].resourceRules[0].verbs: Unsupported value: [\"get\",\"jump\"]: supported \
             values: \"create\", \"delete\", \"deletecollection\", \"get\", \"list\", \"patch\", \
             \"proxy\", \"update\", \"watch\"",
            "spec.rules[0].resourceRules[0].apiGroups: Invalid value: [\"*\",\"a\"]: if '*' is \
             present, must not specify other api groups",
            "spec.rules[0].resourceRules[0].resources: Required value: resource rules must supply \
             at least one resource",
            "spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are \
             not cluster scoped must supply at least one namespace",
            "spec.rules[0].nonResourceRules[0].verbs: Required value: verbs must contain at least \
             one value",
            "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: \"a\": must start \
             with slash",
            "spec.rules[0].nonResourceRules[0].nonResourceURLs[1]: Invalid value: \"/b*\": wildcard \
             can only do suffix matching",
            "spec.rules[1].subjects: Required value: subjects must contain at least one value",
            "spec.rules[1]: Required value: at least one of resourceRules and nonResourceRules has \
             to be non-empty",
        ]
    );
}

#[tokio::test]
async fn addresses_attachments_and_classes_of_volumes_have_their_rules() {
    let addresses = "/apis/networking.k8s.io/v1/ipaddresses";
    let object = json!({ "metadata": { "name": "010.0.0.1" }, "spec": { "parentRef": {} } });
    assert_eq!(
        refused(addresses, object).await,
        [
            "metadata.name: Invalid value: \"010.0.0.1\": must not have leading 0s",
            "spec.parentRef.resource: Required value",
            "spec.parentRef.name: Required value",
        ]
    );
    let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
    assert_eq!(
        refused(attachments, json!({ "spec": { "nodeName": "n" } })).await,
        [
            "spec.attacher: Required value",
            "spec.source: Required value: must specify exactly one of inlineVolumeSpec and \
             persistentVolumeName",
        ]
    );
    let classes = "/apis/storage.k8s.io/v1/volumeattributesclasses";
    assert_eq!(
        refused(classes, json!({})).await,
        [
            "driverName: Required value",
            "parameters: Required value: must contain at least one key/value pair",
        ]
    );
    let nodes = "/apis/storage.k8s.io/v1/csinodes";
    let drivers = json!([
        { "name": "d", "nodeID": "", "topologyKeys": ["a", "a"], "allocatable": { "count": -1 } },
        { "name": "d", "nodeID": "n" },
    ]);
    assert_eq!(
        refused(nodes, json!({ "spec": { "drivers": drivers } })).await,
        [
            "spec.drivers[0].nodeID: Required value",
            "spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
            "spec.drivers[0]: Duplicate value: \"a\"",
            "spec.drivers[1].name: Duplicate value: \"d\"",
        ]
    );
}

#[tokio::test]
async fn a_service_account_knows_its_secrets_by_name() {
    let server = ApiServer::builder().build();
    let account = json!({
        "metadata": { "name": "a", "annotations": { "kubernetes.io/enforce-mountable-secrets": "true" } },
        "secrets": [{ "name": "s", "namespace": "other" }],
    });
    let accounts = "POST /api/v1/namespaces/default/serviceaccounts";
    let created = send(&server, accounts, account).await;
    assert_eq!(created.body["secrets"], json!([{ "name": "s" }]));
    assert_eq!(created.warnings.len(), 1);
}

#[tokio::test]
async fn a_certificate_signing_request_is_one() {
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let spec = json!({
        "request": "Zm9v", "signerName": "x", "usages": ["any", "any"], "expirationSeconds": 1,
    });
    assert_eq!(
        refused(path, json!({ "spec": spec })).await,
        [
            "spec.request: Invalid value: \"Zm9v\": PEM block type must be CERTIFICATE REQUEST",
            "spec.usages[1]: Duplicate value: \"any\"",
            "spec.signerName: Invalid value: \"x\": must be a fully qualified domain and path of \
             the form 'example.com/signer-name'",
            "spec.expirationSeconds: Invalid value: 1: may not specify a duration less than 600 \
             seconds (10 minutes)",
        ]
    );
}

#[tokio::test]
async fn the_policies_of_a_job_have_rules() {
    let template = json!({ "spec": {
        "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }],
    } });
    let spec = json!({
        "template": template, "completionMode": "Indexed", "completions": 2,
        "podFailurePolicy": { "rules": [
            { "action": "Odd" },
            { "action": "FailIndex", "onExitCodes": {
                "operator": "In", "values": [1, 0, 1], "containerName": "x" } },
            { "onPodConditions": [{ "type": "a b", "status": "Odd" }] },
        ] },
        "successPolicy": { "rules": [
            {}, { "succeededIndexes": "0-5" }, { "succeededIndexes": "0", "succeededCount": 2 },
        ] },
    });
    let causes = refused(
        "/apis/batch/v1/namespaces/default/jobs",
        json!({ "spec": spec }),
    )
    .await;
    let shown: Vec<&str> = causes
        .iter()
        .map(|own| own.split(" (e.g.").next().unwrap())
        .collect();
    let rules = "spec.podFailurePolicy.rules";
    assert_eq!(
        shown,
        [
            format!("{rules}[0].action: Unsupported value: \"Odd\": supported values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\""),
            format!("{rules}[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"),
            format!("{rules}[1].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set"),
            format!("{rules}[1].onExitCodes.containerName: Invalid value: \"x\": must be one of the container or initContainer names in the pod template"),
            format!("{rules}[1].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator"),
            format!("{rules}[1].onExitCodes.values[2]: Duplicate value: 1"),
            format!("{rules}[1].onExitCodes.values: Invalid value: [1,0,1]: must be ordered"),
            format!("{rules}[2].action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]"),
            format!("{rules}[2].onPodConditions[0].type: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"),
            format!("{rules}[2].onPodConditions[0].status: Unsupported value: \"Odd\": supported values: \"False\", \"True\", \"Unknown\""),
            "spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified".to_owned(),
            "spec.successPolicy.rules[1].succeededIndexes: Invalid value: \"0-5\": error parsing succeededIndexes: too large index: \"5\"".to_owned(),
            "spec.successPolicy.rules[2].succeededCount: Invalid value: 2: must be less than or equal to 1 (the number of indexes in the specified succeededIndexes field)".to_owned(),
        ]
    );
}

#[tokio::test]
async fn claims_and_volumes_say_where_and_what_from() {
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
        "dataSourceRef": { "kind": "Odd", "name": "" },
    });
    assert_eq!(
        refused(claims, json!({ "spec": spec })).await,
        [
            "spec.dataSource.name: Required value",
            "spec.dataSource: Invalid value: \"Odd\": must be 'PersistentVolumeClaim' when \
             referencing the default apiGroup",
            "spec.dataSourceRef.name: Required value",
            "spec.dataSourceRef: Invalid value: \"Odd\": must be 'PersistentVolumeClaim' when \
             referencing the default apiGroup",
        ]
    );
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
        "hostPath": { "path": "/x", "type": "Odd" }, "nodeAffinity": {},
    });
    assert_eq!(
        refused("/api/v1/persistentvolumes", json!({ "spec": spec })).await[0],
        "spec.nodeAffinity.required: Required value: must specify required node constraints"
    );
    let cidrs = json!({ "spec": { "cidrs": ["10.0.0.1/24"] } });
    assert_eq!(
        refused("/apis/networking.k8s.io/v1/servicecidrs", cidrs).await,
        [
            "spec.cidrs[0]: Invalid value: \"10.0.0.1/24\": must not have bits set beyond the \
             prefix length"
        ]
    );
}

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn a_container_mounts_volumes_and_claims_that_its_pod_has() {
    let container = json!({
        "name": "c", "image": " i ",
        "volumeMounts": [
            { "name": "bad", "mountPath": "/a" },
            { "name": "v", "mountPath": "/b", "subPath": "/x", "readOnly": true,
                "recursiveReadOnly": "Enabled", "mountPropagation": "HostToContainer" },
        ],
        "env": [
            { "name": "A", "valueFrom": { "fieldRef": { "apiVersion": "v2", "fieldPath": "metadata.name" } } },
            { "name": "B", "valueFrom": { "fieldRef": { "fieldPath": "status.phase" } } },
        ],
        "resources": { "claims": [{ "name": "r" }, { "name": "r" }, { "name": "q" }] },
        "ports": [{ "containerPort": 80, "hostPort": 81 }],
    });
    let spec = json!({
        "hostNetwork": true,
        "volumes": [{ "name": "bad", "hostPath": { "path": "" } }, { "name": "v", "emptyDir": {} }],
        "resourceClaims": [{ "name": "r" }],
        "containers": [container],
    });
    let claim = "{\"Name\":\"r\",\"ResourceClaimName\":null,\"ResourceClaimTemplateName\":null}";
    let supported = "\"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \
         \"spec.nodeName\", \"spec.serviceAccountName\", \"status.hostIP\", \"status.hostIPs\", \
         \"status.podIP\", \"status.podIPs\"";
    let at = "spec.containers[0]";
    assert_eq!(
        refused(PODS, json!({ "spec": spec })).await,
        [
            "spec.volumes[0].hostPath.path: Required value".to_owned(),
            format!(
                "spec.resourceClaims[0]: Invalid value: {claim}: must specify one of: \
                 `resourceClaimName`, `resourceClaimTemplateName`"
            ),
            format!(
                "{at}.env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"metadata.name\": error \
                 converting fieldPath: unsupported pod version: v2"
            ),
            format!(
                "{at}.env[1].valueFrom.fieldRef.fieldPath: Unsupported value: \"status.phase\": \
                 supported values: {supported}"
            ),
            format!("{at}.volumeMounts[0].name: Not found: \"bad\""),
            format!("{at}.volumeMounts.subPath: Invalid value: \"/x\": must be a relative path"),
            format!(
                "{at}.volumeMounts.recursiveReadOnly: Forbidden: may only be specified when \
                 mountPropagation is None or not specified"
            ),
            format!("{at}.resources.claims[1]: Duplicate value: \"r\""),
            format!(
                "{at}.resources.claims[2]: Not found: \"q\": must be one of the names in \
                 pod.spec.resourceClaims: r"
            ),
            format!(
                "{at}.ports[0].hostPort: Invalid value: 81: must match `containerPort` when \
                 `hostNetwork` is true"
            ),
            format!(
                "{at}.image: Invalid value: \" i \": must not have leading or trailing whitespace"
            ),
        ]
    );
}

#[tokio::test]
async fn a_volume_has_one_complete_source() {
    let volumes = "/api/v1/persistentvolumes";
    let volume = |source: &str, value: Value| json!({ "spec": { "capacity": { "storage": "1" }, "accessModes": ["ReadWriteOnce"], source: value } });
    assert_eq!(
        refused(
            volumes,
            volume("gcePersistentDisk", json!({ "partition": 256 }))
        )
        .await,
        [
            "spec.persistentDisk.pdName: Required value",
            "spec.persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive",
        ]
    );
    assert_eq!(
        refused(volumes, volume("rbd", json!({}))).await,
        [
            "spec.rbd.monitors: Required value",
            "spec.rbd.image: Required value"
        ]
    );
    let secret = json!({ "name": "s" });
    let csi = json!({ "driver": "d", "volumeHandle": "v", "nodeExpandSecretRef": secret });
    assert_eq!(
        refused(volumes, volume("csi", csi)).await,
        ["spec.csi.nodeExpandSecretRef.namespace: Required value"]
    );
    assert_eq!(
        refused(
            volumes,
            volume("nfs", json!({ "server": "s", "path": "p" }))
        )
        .await,
        ["spec.nfs.path: Invalid value: \"p\": must be an absolute path"]
    );
}

#[tokio::test]
async fn annotations_and_projections_of_pods_are_looked_into() {
    let spec = json!({
        "containers": [{ "name": "c", "image": "i" }],
        "serviceAccountName": "s",
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": { "matchExpressions": [{ "key": "a", "operator": "Exists", "values": ["b"] }] },
        }],
        "volumes": [{ "name": "v", "projected": { "sources": [
            { "secret": { "name": "s", "items": [{ "key": "k", "path": "p" }] } },
            {
                "configMap": { "name": "m", "items": [{ "key": "k", "path": "p" }] },
                "serviceAccountToken": { "path": "" },
            },
        ] } }],
    });
    let annotations = json!({
        "controller.kubernetes.io/pod-deletion-cost": "07",
        "kubernetes.io/config.mirror": "m",
    });
    let pod = json!({ "metadata": { "name": "x", "annotations": annotations }, "spec": spec });
    assert_eq!(
        refused(PODS, pod).await,
        [
            "metadata.annotations[kubernetes.io/config.mirror]: Invalid value: \"m\": must set \
             spec.nodeName if mirror pod annotation is set",
            "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \
             \"07\": must be a 32bit integer",
            "spec.volumes[0].projected: Invalid value: \"m\": conflicting duplicate paths",
            "spec.volumes[0].projected.path: Required value",
            "spec.volumes[0].projected.sources[1]: Forbidden: may not specify more than 1 volume type per source",
            "spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].values: Forbidden: \
             may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ]
    );
}

#[tokio::test]
async fn what_go_makes_of_odd_values_is_what_is_answered() {
    let pods = "/api/v1/namespaces/default/pods";
    let containers = json!([{ "name": "c", "image": "i" }]);
    let cron_jobs = "/apis/batch/v1/namespaces/default/cronjobs";
    let template = json!({ "spec": { "restartPolicy": "Never", "containers": containers } });
    let job = json!({
        "schedule": "0 * * * *", "timeZone": "LOCAL",
        "jobTemplate": { "spec": { "template": template } },
    });
    assert_eq!(
        refused(cron_jobs, json!({ "spec": job })).await,
        [
            "spec.timeZone: Invalid value: \"LOCAL\": timeZone must be an explicit time zone as \
             defined in https://www.iana.org/time-zones",
            "spec.timeZone: Invalid value: \"LOCAL\": unknown time zone LOCAL",
        ]
    );
    let volume = json!({
        "capacity": { "storage": "1" }, "accessModes": ["ReadWriteOnce"], "volumeMode": "",
        "hostPath": { "path": "/x" },
    });
    assert_eq!(
        refused("/api/v1/persistentvolumes", json!({ "spec": volume })).await,
        ["spec.volumeMode: Unsupported value: \"\": supported values: \"Block\", \"Filesystem\""]
    );
    let claim = json!({
        "metadata": { "uid": "u" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1" } } },
    });
    let volumes = json!([{ "name": "v", "ephemeral": { "volumeClaimTemplate": claim } }]);
    assert_eq!(
        refused(
            pods,
            json!({ "spec": { "containers": containers, "volumes": volumes } })
        )
        .await,
        ["spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.uID: Forbidden: cannot be set"]
    );
    let levels = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
    let shares = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";
    let level = json!({
        "metadata": { "name": "x", "annotations": { shares: "" } },
        "spec": { "type": "Limited", "limited": { "limitResponse": { "type": "Reject" } } },
    });
    assert_eq!(
        refused(levels, level).await,
        [format!(
            "metadata.annotations: Forbidden: annotation '{shares}' is forbidden"
        )]
    );
    let server = ApiServer::builder().build();
    let create = format!("POST {pods}");
    let metadata = json!({ "name": "x" });
    let spec = json!({ "containers": containers, "runtimeClassName": "a/b" });
    let unnamed = send(
        &server,
        &create,
        json!({ "metadata": metadata, "spec": spec }),
    )
    .await;
    assert_eq!(
        (unnamed.code, unnamed.message()),
        (500, "invalid resource name \"a/b\": [may not contain '/']")
    );
    assert_eq!(unnamed.body.get("reason"), None);
    let pod = json!({
        "metadata": metadata, "spec": { "containers": containers },
        "status": { "qosClass": "Guaranteed" },
    });
    let created = send(&server, &create, pod).await;
    assert_eq!(created.body["status"]["qosClass"], "Guaranteed");
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let source =
        json!({ "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s" });
    let mut reference = source.clone();
    reference["namespace"] = json!("");
    let mut spec = claim["spec"].clone();
    spec["dataSourceRef"] = reference;
    let claim = json!({ "metadata": metadata, "spec": spec });
    let created = send(&server, &format!("POST {claims}"), claim).await;
    assert_eq!(
        (created.code, &created.body["spec"]["dataSource"]),
        (201, &source)
    );
}

#[tokio::test]
async fn a_policy_of_reinvocation_that_is_there_is_a_known_one() {
    let webhook = json!({
        "name": "a.b.c", "clientConfig": { "url": "https://x.y" }, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "reinvocationPolicy": "",
    });
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    assert_eq!(
        refused(path, json!({ "webhooks": [webhook] })).await,
        [
            "webhooks[0].reinvocationPolicy: Unsupported value: \"\": supported values: \
             \"IfNeeded\", \"Never\""
        ]
    );
}
