//! Admission policies: what they refuse and change, and which are refused themselves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use crate::support::requests::{Answer, send, send_as};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

fn constraints() -> Value {
    json!({ "resourceRules": [{
        "operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"],
        "resources": ["configmaps"],
    }] })
}

async fn create(server: &ApiServer, plural: &str, name: &str, spec: Value) -> Answer {
    let object = json!({ "metadata": { "name": name }, "spec": spec });
    send(server, &format!("POST {GROUP}/{plural}"), object).await
}

/// Stores a validating policy for config maps, and binds it.
async fn validating(server: &ApiServer, mut spec: Value, binding: Value) {
    spec["matchConstraints"] = constraints();
    let created = create(server, "validatingadmissionpolicies", "p", spec).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let mut own = json!({ "policyName": "p", "validationActions": ["Deny"] });
    own.as_object_mut()
        .unwrap()
        .extend(binding.as_object().unwrap().clone());
    let created = create(server, "validatingadmissionpolicybindings", "b", own).await;
    assert_eq!(created.code, 201, "{}", created.body);
}

async fn configmap(server: &ApiServer, name: &str, data: Value) -> Answer {
    let object = json!({ "metadata": { "name": name }, "data": data });
    send(server, &format!("POST {CONFIGMAPS}"), object).await
}

#[tokio::test]
async fn a_denied_write_says_who_denied_it_and_why() {
    let server = ApiServer::builder().build();
    let spec = json!({
        "variables": [{ "name": "size", "expression": "size(object.data)" }],
        "validations": [
            { "expression": "variables.size < 2", "reason": "Forbidden",
              "messageExpression": "'too many: ' + string(variables.size)" },
            { "expression": "object.metadata.name != 'never'" },
        ],
    });
    validating(&server, spec, json!({})).await;
    assert_eq!(configmap(&server, "a", json!({"k": "v"})).await.code, 201);
    let denied = configmap(&server, "b", json!({"k": "v", "l": "w"})).await;
    assert_eq!(denied.code, 403);
    let message = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: too many: 2";
    assert_eq!(
        denied.message(),
        format!("configmaps \"b\" is forbidden: {message}")
    );
    assert_eq!(
        denied.body["details"]["causes"],
        json!([{ "message": message }])
    );
    let denied = configmap(&server, "never", json!({"k": "v"})).await;
    assert_eq!(
        (denied.code, &denied.body["reason"]),
        (422, &json!("Invalid"))
    );
    assert!(
        denied
            .message()
            .ends_with("failed expression: object.metadata.name != 'never'"),
        "{}",
        denied.message()
    );
    let got = send(&server, &format!("GET {CONFIGMAPS}/b"), Value::Null).await;
    assert_eq!(got.code, 404);
}

async fn metrics(server: &ApiServer) -> String {
    let request = http::Request::get("/metrics").body(Full::<Bytes>::default());
    let response = server.handle(request.unwrap()).await;
    let text = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(text.to_vec()).unwrap()
}

/// The counts of policies and conditions.
async fn checks(server: &ApiServer) -> Vec<String> {
    let text = metrics(server).await;
    let lines = text.lines().filter(|line| {
        let is_count = line.contains("_check_total{") || line.contains("_duration_seconds_count{");
        let is_condition = line.starts_with("apiserver_admission_match_condition_")
            && (line.contains("_count{") || line.contains("_total{"));
        (is_count && line.contains("policy=")) || is_condition
    });
    lines.map(str::to_owned).collect()
}

#[tokio::test]
async fn checks_of_policies_are_counted_until_the_policies_are_gone() {
    let server = ApiServer::builder().build();
    let spec = json!({
        "matchConditions": [{ "name": "n", "expression": "object.metadata.name != 'free'" }],
        "validations": [
            { "expression": "object.metadata.name != 'bad'" },
            { "expression": "object.data.k == 'v'" },
        ],
    });
    validating(
        &server,
        spec,
        json!({ "validationActions": ["Deny", "Audit"] }),
    )
    .await;
    let mutation = json!({ "expression": "Object{metadata: Object.metadata{labels: {'a': 'b'}}}" });
    let mutation = json!({ "patchType": "ApplyConfiguration", "applyConfiguration": mutation });
    mutating(&server, "m", "Never", mutation).await;
    assert_eq!(configmap(&server, "a", json!({"k": "v"})).await.code, 201);
    assert_eq!(configmap(&server, "free", json!({})).await.code, 201);
    // One validation is false, and the other fails.
    assert_eq!(configmap(&server, "bad", json!({})).await.code, 422);
    let of = |name: &str, labels: &str| {
        let labels = format!("{{{labels}}}");
        let (start, total) = (format!("apiserver_{name}_admission_policy_check"), "_total");
        [
            format!("{start}_duration_seconds_count{labels}"),
            format!("{start}{total}{labels}"),
        ]
    };
    let [mutated_seconds, mutated] = of(
        "mutating",
        "error_type=\"no_error\",policy=\"m\",policy_binding=\"m\"",
    );
    let denied = |action: &str| {
        let rest = "error_type=\"invalid_error\",policy=\"p\",policy_binding=\"b\"";
        of(
            "validating",
            &format!("enforcement_action=\"{action}\",{rest}"),
        )
    };
    let [audit_seconds, audit] = denied("audit");
    let [deny_seconds, deny] = denied("deny");
    let condition = "apiserver_admission_match_condition_evaluation_seconds_count\
                     {kind=\"policy\",name=\"p\",operation=\"CREATE\",type=\"validate\"} 1";
    let wanted = [
        condition.to_owned(),
        format!("{mutated_seconds} 3"),
        format!("{mutated} 3"),
        format!("{audit_seconds} 2"),
        format!("{deny_seconds} 2"),
        format!("{audit} 2"),
        format!("{deny} 2"),
    ];
    assert_eq!(checks(&server).await, wanted);
    let path = format!("DELETE {GROUP}/validatingadmissionpolicies/p");
    assert_eq!(send(&server, &path, Value::Null).await.code, 200);
    assert_eq!(checks(&server).await, wanted[1..3]);
}

#[tokio::test]
async fn a_binding_may_warn_and_conditions_may_not_hold() {
    let server = ApiServer::builder().build();
    let spec = json!({
        "matchConditions": [{ "name": "n", "expression": "request.userInfo.username != 'eve'" }],
        "validations": [{ "expression": "false", "message": "no" }],
    });
    validating(
        &server,
        spec,
        json!({ "validationActions": ["Warn", "Audit"] }),
    )
    .await;
    let created = configmap(&server, "a", json!({})).await;
    assert_eq!(created.code, 201);
    assert_eq!(
        created.warnings,
        ["299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': no\""]
    );
    let object = json!({ "metadata": { "name": "e" } });
    let request = format!("POST {CONFIGMAPS}?dryRun=All");
    let created = send_as(&server, "eve", &request, object).await;
    assert!(created.warnings.is_empty(), "{:?}", created.warnings);
}

#[tokio::test]
async fn a_policy_asks_its_parameters() {
    let server = ApiServer::builder().build();
    configmap(&server, "limits", json!({"max": "1"})).await;
    let spec = json!({
        "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" },
        "validations": [{ "expression": "size(object.data) <= int(params.data.max)" }],
    });
    let reference = json!({ "name": "limits", "parameterNotFoundAction": "Deny" });
    validating(&server, spec, json!({ "paramRef": reference })).await;
    assert_eq!(configmap(&server, "a", json!({"k": "v"})).await.code, 201);
    assert_eq!(
        configmap(&server, "b", json!({"k": "v", "l": "w"}))
            .await
            .code,
        422
    );
    send(&server, &format!("DELETE {CONFIGMAPS}/limits"), Value::Null).await;
    let denied = configmap(&server, "c", json!({"k": "v"})).await;
    assert_eq!(
        denied.message(),
        "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied \
         request: failed to configure binding: no params found for policy binding with `Deny` \
         parameterNotFoundAction"
    );
}

#[tokio::test]
async fn a_policy_asks_what_the_user_may_do() {
    let server = ApiServer::builder().build();
    let expression = "authorizer.group('').resource('secrets').namespace('default').check('get').allowed() \
                      && !authorizer.serviceAccount('default', 'nobody').path('/x').check('get').allowed()";
    let spec = json!({ "validations": [{ "expression": expression }] });
    validating(&server, spec, json!({})).await;
    assert_eq!(configmap(&server, "a", json!({})).await.code, 201);
}

#[tokio::test]
async fn mutations_apply_configurations_and_json_patches_in_order() {
    let server = ApiServer::builder().build();
    let apply = "Object{metadata: Object.metadata{labels: {'team': 'a'}}, data: {'n': string(size(object.data))}}";
    let patch = "[JSONPatch{op: 'test', path: '/data/n', value: '1'}, \
                  JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('x'), value: object.metadata.labels['team']}]";
    let spec = json!({
        "matchConstraints": constraints(),
        "reinvocationPolicy": "Never",
        "mutations": [
            { "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": apply } },
            { "patchType": "JSONPatch", "jsonPatch": { "expression": patch } },
        ],
    });
    let created = create(&server, "mutatingadmissionpolicies", "m", spec).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let spec = json!({ "policyName": "m" });
    let created = create(&server, "mutatingadmissionpolicybindings", "b", spec).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let created = configmap(&server, "a", json!({"k": "v"})).await;
    assert_eq!(
        created.body["metadata"]["labels"],
        json!({"team": "a"}),
        "{}",
        created.body
    );
    assert_eq!(created.body["data"], json!({"k": "v", "n": "1", "x": "a"}));
    let created = configmap(&server, "b", json!({"k": "v", "l": "w"})).await;
    assert_eq!(created.body["data"], json!({"k": "v", "l": "w", "n": "2"}));
}

#[tokio::test]
async fn a_mutation_of_another_shape_is_refused() {
    let server = ApiServer::builder().build();
    let apply = "Object{metadata: Object.spec{labels: {'team': 'a'}}}";
    let spec = json!({
        "matchConstraints": constraints(),
        "reinvocationPolicy": "Never",
        "mutations": [
            { "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": apply } },
        ],
    });
    create(&server, "mutatingadmissionpolicies", "m", spec).await;
    let spec = json!({ "policyName": "m" });
    create(&server, "mutatingadmissionpolicybindings", "b", spec).await;
    let refused = configmap(&server, "a", json!({})).await;
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.message(),
        "policy 'm' with binding 'b' denied request: type mismatch: unexpected type name \
         \"Object.spec\", expected \"Object.metadata\", which matches field name path from root \
         Object type"
    );
}

#[tokio::test]
async fn faults_of_expressions_are_those_of_the_compiler() {
    let server = ApiServer::builder().build();
    let spec = json!({
        "matchConstraints": constraints(),
        "failurePolicy": "Odd",
        "matchConditions": [{ "name": "c", "expression": "1" }],
        "variables": [{ "name": "1x", "expression": "request.nope" }],
        "validations": [
            { "expression": "request.name", "messageExpression": "1", "reason": "Odd" },
            { "expression": " ", "message": "a\nb" },
        ],
        "auditAnnotations": [
            { "key": "k", "valueExpression": "true" }, { "key": "k", "valueExpression": "''" },
        ],
    });
    let refused = create(&server, "validatingadmissionpolicies", "p", spec).await;
    let causes = refused.body["details"]["causes"].as_array().unwrap();
    let causes: Vec<String> = causes
        .iter()
        .map(|cause| {
            let text = |field: &str| cause[field].as_str().unwrap().to_owned();
            format!("{} {}", text("field"), text("message"))
        })
        .collect();
    assert_eq!(
        causes,
        [
            "spec.failurePolicy Unsupported value: \"Odd\": supported values: \"Fail\", \"Ignore\"",
            "spec.matchConditions[0].expression Invalid value: \"1\": must evaluate to bool but got int",
            "spec.variables[0].name Invalid value: \"1x\": must be a valid CEL identifier",
            "spec.variables[0].expression Invalid value: \"request.nope\": compilation failed: \
             ERROR: <input>:1:8: undefined field 'nope'\n | request.nope\n | .......^",
            "spec.validations[0].expression Invalid value: \"request.name\": must evaluate to bool \
             but got string",
            "spec.validations[0].messageExpression Invalid value: \"1\": must evaluate to string \
             but got int",
            "spec.validations[0].reason Unsupported value: \"Odd\": supported values: \
             \"Forbidden\", \"Invalid\", \"RequestEntityTooLarge\"",
            "spec.validations[1].expression Required value: expression is not specified",
            "spec.validations[1].message Invalid value: \"a\\nb\": must not contain line breaks",
            "spec.auditAnnotations[0].valueExpression Invalid value: \"true\": must evaluate to \
             one of [string null_type] but got bool",
            "spec.auditAnnotations[1].key Duplicate value: \"k\"",
        ]
    );
}

/// Stores a mutating policy for config maps, and binds it.
async fn mutating(server: &ApiServer, name: &str, again: &str, mutation: Value) {
    let spec = json!({
        "matchConstraints": constraints(), "reinvocationPolicy": again, "mutations": [mutation],
    });
    let created = create(server, "mutatingadmissionpolicies", name, spec).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let spec = json!({ "policyName": name });
    let created = create(server, "mutatingadmissionpolicybindings", name, spec).await;
    assert_eq!(created.code, 201, "{}", created.body);
}

#[tokio::test]
async fn a_json_patch_says_what_it_did_not_find() {
    let table = [
        (
            "op: 'replace', path: '/data/k', value: 'v'",
            "replace operation does not apply: doc is missing path: /data/k: missing value",
        ),
        (
            "op: 'test', path: '/data/k', value: 'v'",
            "test operation does not apply: is missing path: /data/k: missing value",
        ),
        ("op: 'explode', path: '/data'", "Unexpected kind: explode"),
    ];
    for (operation, why) in table {
        let server = ApiServer::builder().build();
        let patch = json!({ "expression": format!("[JSONPatch{{{operation}}}]") });
        let mutation = json!({ "patchType": "JSONPatch", "jsonPatch": patch });
        mutating(&server, "m", "Never", mutation).await;
        let refused = send(
            &server,
            &format!("POST {CONFIGMAPS}"),
            json!({"metadata": {"name": "a"}}),
        )
        .await;
        assert_eq!(
            refused.message(),
            format!("policy 'm' with binding 'm' denied request: JSON Patch: {why}")
        );
    }
}

#[tokio::test]
async fn policies_that_want_to_look_again_do_so_once_anything_was_changed() {
    let server = ApiServer::builder().build();
    let count = |field: &str| {
        let own = format!("has(object.data.{field}) ? object.data.{field} : ''");
        let expression = format!("Object{{data: {{'{field}': ({own}) + 'x'}}}}");
        json!({ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": expression } })
    };
    mutating(&server, "again", "IfNeeded", count("again")).await;
    mutating(&server, "once", "Never", count("once")).await;
    let created = configmap(&server, "a", json!({"k": "v"})).await;
    assert_eq!(
        created.body["data"],
        json!({"k": "v", "again": "xx", "once": "x"})
    );
}

#[tokio::test]
async fn built_in_plugins_look_again_at_what_a_policy_has_changed() {
    let server = ApiServer::builder().build();
    let rules = json!([{ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
        "resources": ["pods"] }]);
    let patch = "[JSONPatch{op: 'replace', path: '/spec/tolerations', value: []}]";
    let spec = json!({
        "matchConstraints": { "resourceRules": rules }, "reinvocationPolicy": "Never",
        "mutations": [{ "patchType": "JSONPatch", "jsonPatch": { "expression": patch } }],
    });
    let created = create(&server, "mutatingadmissionpolicies", "bare", spec).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let spec = json!({ "policyName": "bare" });
    let created = create(&server, "mutatingadmissionpolicybindings", "bare", spec).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let pod = json!({ "metadata": { "name": "a" },
        "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    let created = send(&server, "POST /api/v1/namespaces/default/pods", pod).await;
    let tolerations = created.body["spec"]["tolerations"].as_array();
    assert_eq!(tolerations.map(Vec::len), Some(2), "{}", created.body);
    let text = metrics(&server).await;
    let asked = |plugin: &str| {
        format!(
            "\napiserver_admission_controller_admission_duration_seconds_count{{name=\"{plugin}\",\
             operation=\"CREATE\",rejected=\"false\",type=\"admit\"}} "
        )
    };
    // One of three creations passed the plugins twice, those for pods and the others.
    for plugin in [
        "DefaultTolerationSeconds",
        "DefaultIngressClass",
        "MutatingAdmissionPolicy",
    ] {
        assert!(text.contains(&(asked(plugin) + "4\n")), "{plugin}: {text}");
    }
}

#[tokio::test]
async fn the_status_of_a_policy_has_warnings_at_paths_and_whole_conditions() {
    let server = ApiServer::builder().build();
    let spec = json!({ "validations": [{ "expression": "true" }] });
    validating(&server, spec, json!({})).await;
    let status = json!({ "status": {
        "typeChecking": { "expressionWarnings": [
            { "fieldRef": "spec.validations[0].expression", "warning": "w" },
            { "fieldRef": "a[", "warning": " " },
            { "fieldRef": " ", "warning": "" },
        ] },
        "conditions": [{ "type": "X", "status": "Odd", "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z" }],
    } });
    let request = format!("PATCH {GROUP}/validatingadmissionpolicies/p/status");
    let refused = send(&server, &request, status).await;
    let causes = refused.body["details"]["causes"].as_array().unwrap();
    let fields: Vec<&str> = causes
        .iter()
        .map(|cause| cause["field"].as_str().unwrap())
        .collect();
    assert_eq!(
        fields,
        [
            "status.typeChecking.expressionWarnings[1].fieldRef",
            "status.typeChecking.expressionWarnings[2].warning",
            "status.typeChecking.expressionWarnings[2].fieldRef",
            "status.conditions[0].status",
        ]
    );
}

#[tokio::test]
async fn a_mutation_moves_nothing_to_another_namespace_or_kind() {
    let table = [
        (
            "op: 'add', path: '/metadata/namespace', value: 'other'",
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            "op: 'replace', path: '/kind', value: 'Secret'",
            500,
            "Internal error occurred: failed to convert object: converting (v1.Secret) to \
             (core.ConfigMap): unknown conversion",
        ),
        (
            "op: 'replace', path: '/kind', value: 'Secrets'",
            500,
            "Internal error occurred: no kind \"Secrets\" is registered for version \"v1\" in scheme \
             \"pkg/runtime/scheme.go:111\"",
        ),
        (
            "op: 'replace', path: '/apiVersion', value: 'apps/v1'",
            500,
            "Internal error occurred: no kind \"ConfigMap\" is registered for version \"apps/v1\" in \
             scheme \"pkg/runtime/scheme.go:111\"",
        ),
    ];
    for (operation, code, why) in table {
        let server = ApiServer::builder().build();
        let patch = json!({ "expression": format!("[JSONPatch{{{operation}}}]") });
        let mutation = json!({ "patchType": "JSONPatch", "jsonPatch": patch });
        mutating(&server, "m", "Never", mutation).await;
        let refused = configmap(&server, "a", json!({})).await;
        assert_eq!((refused.code, refused.message()), (code, why));
    }
}
