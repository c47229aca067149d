use crate::json::json;

use super::*;
use crate::schema::tests::kind;

/// Decodes the value and its text, and requires equal results.
fn decode(value: &Value, validation: FieldValidation) -> Result<Decoded, DecodeError> {
    let text = |key: &str| value[key].as_str().unwrap();
    let object = kind(text("apiVersion"), text("kind"));
    let decoded = decode_json(object, value.to_string().as_bytes(), validation);
    assert_eq!(decoded, decode_value(object, value.clone(), validation));
    decoded
}

/// `fields` as an object of a kind.
fn object(api_version: &str, kind: &str, mut fields: Value) -> Value {
    fields["apiVersion"] = api_version.into();
    fields["kind"] = kind.into();
    fields
}

#[track_caller]
fn check(api_version: &str, kind: &str, given: Value, want: Value) {
    let got = decode(&object(api_version, kind, given), FieldValidation::Strict);
    let got = got.unwrap().value;
    assert_eq!(got, object(api_version, kind, want));
    let again = decode(&got, FieldValidation::Strict).unwrap();
    assert_eq!(again.value, got, "decoding is idempotent");
}

#[test]
fn a_stateful_set_gets_the_zero_values_that_go_encodes() {
    check(
        "apps/v1",
        "StatefulSet",
        json!({
            "metadata": { "name": "web", "labels": {}, "creationTimestamp": null },
            "spec": {
                "replicas": 0,
                "selector": { "matchLabels": { "app": "web" } },
                "template": {
                    "metadata": { "labels": { "app": "web" } },
                    "spec": { "containers": [{ "image": "i", "stdin": false, "args": [] }] },
                },
                "volumeClaimTemplates": [{
                    "metadata": { "name": "data" },
                    "spec": { "resources": { "requests": { "storage": "1024Mi" } } },
                }],
            },
        }),
        json!({
            "metadata": { "name": "web" },
            "spec": {
                "replicas": 0,
                "selector": { "matchLabels": { "app": "web" } },
                "serviceName": "",
                "template": {
                    "metadata": { "labels": { "app": "web" } },
                    "spec": { "containers": [{ "name": "", "image": "i", "resources": {} }] },
                },
                "updateStrategy": {},
                "volumeClaimTemplates": [{
                    "metadata": { "name": "data" },
                    "spec": { "resources": { "requests": { "storage": "1Gi" } } },
                    "status": {},
                }],
            },
            "status": { "availableReplicas": 0, "replicas": 0 },
        }),
    );
}

#[test]
fn a_pod_keeps_pointers_to_zero_and_drops_empty_values() {
    check(
        "v1",
        "Pod",
        json!({
            "metadata": {
                "name": "p",
                "creationTimestamp": "2024-01-01T02:00:00.9+02:00",
                "deletionTimestamp": null,
                "managedFields": [{ "fieldsV1": { "f:a": { "b": null } }, "time": null }],
            },
            "spec": {
                "containers": [{
                    "name": "c",
                    "env": [{ "name": "A", "valueFrom": { "resourceFieldRef": {
                        "resource": "limits.cpu" } } }],
                    "livenessProbe": { "httpGet": {}, "periodSeconds": 0 },
                    "resources": { "limits": { "cpu": 0.5, "memory": null } },
                }],
                "hostNetwork": false,
                "nodeName": "",
                "securityContext": {},
                "terminationGracePeriodSeconds": 0,
                "volumes": [{ "name": "v", "emptyDir": {} }],
            },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        }),
        json!({
            "metadata": {
                "name": "p",
                "creationTimestamp": "2024-01-01T00:00:00Z",
                "managedFields": [{ "fieldsV1": { "f:a": { "b": null } } }],
            },
            "spec": {
                "containers": [{
                    "name": "c",
                    "env": [{ "name": "A", "valueFrom": { "resourceFieldRef": {
                        "resource": "limits.cpu", "divisor": "0" } } }],
                    "livenessProbe": { "httpGet": { "port": 0 } },
                    "resources": { "limits": { "cpu": "500m", "memory": "0" } },
                }],
                "securityContext": {},
                "terminationGracePeriodSeconds": 0,
                "volumes": [{ "name": "v", "emptyDir": {} }],
            },
            "status": { "conditions": [{ "type": "Ready", "status": "True",
                "lastProbeTime": null, "lastTransitionTime": null }] },
        }),
    );
}

#[test]
fn other_kinds_are_normalized() {
    check(
        "v1",
        "Service",
        json!({ "metadata": {}, "spec": { "ports": [{ "port": 80 }], "clusterIP": "" } }),
        json!({
            "metadata": {},
            "spec": { "ports": [{ "port": 80, "targetPort": 0 }] },
            "status": { "loadBalancer": {} },
        }),
    );
    check(
        "v1",
        "Pod",
        json!({}),
        json!({ "metadata": {}, "spec": { "containers": null }, "status": {} }),
    );
    check(
        "v1",
        "ConfigMap",
        json!({ "data": { "a": null }, "binaryData": { "b": "YWJ\nj" } }),
        json!({ "metadata": {}, "data": { "a": "" }, "binaryData": { "b": "YWJj" } }),
    );
    check(
        "coordination.k8s.io/v1",
        "Lease",
        json!({ "spec": { "renewTime": "2024-01-01T00:00:00.120000-01:00" } }),
        json!({ "metadata": {}, "spec": { "renewTime": "2024-01-01T01:00:00.120000Z" } }),
    );
    check(
        "apps/v1",
        "ControllerRevision",
        json!({ "data": { "any": [null] }, "revision": 1 }),
        json!({ "metadata": {}, "data": { "any": [null] }, "revision": 1 }),
    );
}

#[track_caller]
fn check_errors(cases: &[(&str, Value, &str)]) {
    for (kind, fields, want) in cases {
        let (api_version, kind) = kind.split_once(' ').unwrap();
        let given = object(api_version, kind, fields.clone());
        let got = decode(&given, FieldValidation::Ignore);
        assert_eq!(got, Err(DecodeError::Type((*want).to_owned())));
    }
}

#[test]
fn a_wrong_type_is_named_as_go_names_it() {
    let cases = [
        (
            "apps/v1 Deployment",
            json!({ "spec": { "replicas": "3" } }),
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas \
             of type int32",
        ),
        (
            "apps/v1 Deployment",
            json!({ "spec": { "replicas": 2_147_483_648_u32 } }),
            "json: cannot unmarshal number 2147483648 into Go struct field \
             DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "apps/v1 Deployment",
            json!({ "spec": { "replicas": 1.5 } }),
            "json: cannot unmarshal number 1.5 into Go struct field \
             DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "apps/v1 StatefulSet",
            json!({ "spec": { "updateStrategy": { "rollingUpdate": { "maxUnavailable": {} } } } }),
            "json: cannot unmarshal object into Go struct field RollingUpdateStatefulSetStrategy\
             .spec.updateStrategy.rollingUpdate.maxUnavailable of type int32",
        ),
        (
            "scheduling.k8s.io/v1 PriorityClass",
            json!({ "value": "x" }),
            "json: cannot unmarshal string into Go struct field PriorityClass.value of type int32",
        ),
        (
            "v1 ConfigMap",
            json!({ "data": { "k": 1 } }),
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "v1 ConfigMap",
            json!({ "metadata": { "labels": ["x"] } }),
            "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels \
             of type map[string]string",
        ),
        (
            "v1 Pod",
            json!({ "spec": { "containers": [{ "ports": [{ "protocol": 7 }] }] } }),
            "json: cannot unmarshal number into Go struct field ContainerPort\
             .spec.containers.ports.protocol of type v1.Protocol",
        ),
        (
            "v1 Pod",
            json!({ "spec": { "containers": true, "volumes": "second" } }),
            "json: cannot unmarshal bool into Go struct field PodSpec.spec.containers \
             of type []v1.Container",
        ),
        (
            "v1 DeleteOptions",
            json!({ "gracePeriodSeconds": "ten" }),
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds \
             of type int64",
        ),
        (
            "v1 Pod",
            json!({ "metadata": { "creationTimestamp": 5 } }),
            "json: cannot unmarshal number into Go struct field \
             ObjectMeta.metadata.creationTimestamp of type string",
        ),
    ];
    check_errors(&cases);
}

#[test]
fn a_wrong_type_is_named_with_the_structs_that_json_inlines() {
    let policy = "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy";
    let rules = json!([{ "operations": [5] }]);
    let groups = json!([{ "apiGroups": "a" }]);
    let of_policy = |rules| json!({ "spec": { "matchConstraints": { "resourceRules": rules } } });
    let cases = [
        (
            "v1 Pod",
            json!({ "spec": { "volumes": [{ "hostPath": { "path": 5 } }] } }),
            "json: cannot unmarshal number into Go struct field \
             HostPathVolumeSource.spec.volumes.VolumeSource.hostPath.path of type string",
        ),
        (
            "apps/v1 StatefulSet",
            json!({ "spec": { "volumeClaimTemplates": [{ "kind": 5 }] } }),
            "json: cannot unmarshal number into Go struct field \
             PersistentVolumeClaim.spec.volumeClaimTemplates.TypeMeta.kind of type string",
        ),
        (
            policy,
            of_policy(rules),
            "json: cannot unmarshal number into Go struct field \
             NamedRuleWithOperations.spec.matchConstraints.resourceRules.RuleWithOperations\
             .operations of type v1.OperationType",
        ),
        (
            policy,
            of_policy(groups),
            "json: cannot unmarshal string into Go struct field \
             NamedRuleWithOperations.spec.matchConstraints.resourceRules.RuleWithOperations\
             .Rule.apiGroups of type []string",
        ),
    ];
    check_errors(&cases);
}

#[test]
fn a_value_that_its_type_refuses_is_reported_in_its_own_words() {
    let cases = [
        (
            "v1 Secret",
            json!({ "data": { "a": "%%%" } }),
            "illegal base64 data at input byte 0",
        ),
        (
            "v1 Secret",
            json!({ "data": { "a": "YWJ" } }),
            "illegal base64 data at input byte 0",
        ),
        (
            "v1 Pod",
            json!({ "spec": { "overhead": { "cpu": "1 Gi" }, "containers": 1 } }),
            "quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            "coordination.k8s.io/v1 Lease",
            json!({ "spec": { "renewTime": "2024-01-01T00:00:00Z" } }),
            "parsing time \"2024-01-01T00:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\": \
             cannot parse \"Z\" as \".000000\"",
        ),
        (
            "coordination.k8s.io/v1 Lease",
            json!({ "metadata": { "creationTimestamp": "yesterday" } }),
            "parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": \
             cannot parse \"yesterday\" as \"2006\"",
        ),
        (
            "v1 Pod",
            json!({ "metadata": { "deletionTimestamp": "2024-13-01T00:00:00Z" } }),
            "parsing time \"2024-13-01T00:00:00Z\": month out of range",
        ),
    ];
    check_errors(&cases);
}

#[test]
fn unknown_fields_are_dropped_reported_or_refused() {
    let container = json!({ "name": "c", "resources": {} });
    let mut odd = container.clone();
    odd["nope"] = 1.into();
    let given = object(
        "v1",
        "Pod",
        json!({ "metadata": { "Name": "p" }, "spec": { "containers": [container, odd] } }),
    );
    let faults = [
        r#"unknown field "metadata.Name""#,
        r#"unknown field "spec.containers[1].nope""#,
    ];
    let ignored = decode(&given, FieldValidation::Ignore).unwrap();
    let expected = json!({ "containers": [container, container] });
    assert_eq!(ignored.value["spec"], expected);
    assert!(ignored.warnings.is_empty());
    let warned = decode(&given, FieldValidation::Warn).unwrap();
    assert_eq!(warned.value, ignored.value);
    assert_eq!(warned.warnings, faults);
    let refused = decode(&given, FieldValidation::Strict).unwrap_err();
    let message = format!("strict decoding error: {}", faults.join(", "));
    assert_eq!(refused.to_string(), message);
}

#[test]
fn strict_faults_come_in_the_order_of_the_document() {
    let json = br#"{"zap":1,"metadata":{"name":"a","name":"b","bogus":1},
        "data":{"k":"v","k":"w"},"bar":{"x":1,"x":2}}"#;
    let decoded = decode_json(kind("v1", "ConfigMap"), json, FieldValidation::Warn).unwrap();
    let want = [
        r#"unknown field "zap""#,
        r#"duplicate field "metadata.name""#,
        r#"unknown field "metadata.bogus""#,
        r#"duplicate field "data.k""#,
        r#"unknown field "bar""#,
    ];
    assert_eq!(decoded.warnings, want);
    let want = json!({ "metadata": { "name": "b" }, "data": { "k": "w" } });
    assert_eq!(decoded.value, want);
}

#[test]
fn duplicate_fields_of_any_document_are_found() {
    let json = br#"{"spec":{"a":1,"a":2,"l":[{"b":1,"b":1},{"b":1}]},"spec":{}}"#;
    let want = [
        r#"duplicate field "spec.a""#,
        r#"duplicate field "spec.l[0].b""#,
        r#"duplicate field "spec""#,
    ];
    assert_eq!(duplicate_fields(json), want);
    assert!(duplicate_fields(b"no json").is_empty());
}

#[test]
fn a_syntax_error_wins_over_a_wrong_type() {
    let cases = [
        ("{", "unexpected end of JSON input"),
        (
            r#"{"spec":{"replicas":"x"}} y"#,
            "invalid character 'y' after top-level value",
        ),
        (
            r#"{"metadata":{"creationTimestamp":5},}"#,
            "invalid character '}' looking for beginning of object key string",
        ),
    ];
    for (json, want) in cases {
        let object = kind("apps/v1", "Deployment");
        let decoded = decode_json(object, json.as_bytes(), FieldValidation::Ignore);
        assert_eq!(decoded, Err(DecodeError::Syntax(want.to_owned())));
    }
}
