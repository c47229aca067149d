//! Devices, their classes, and claims of them.

use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::json;

use super::{causes, refused};
use crate::support::requests::{send, send_as};

const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";

#[tokio::test]
async fn rights_of_an_administrator_are_asked_for_before_all_else() {
    let request = json!({
        "name": "r", "exactly": { "deviceClassName": "", "adminAccess": true },
    });
    let admin = "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires \
         the `resource.kubernetes.io/admin-access: true` label on the containing namespace";
    let faults = refused(
        CLAIMS,
        json!({ "spec": { "devices": { "requests": [request] } } }),
    )
    .await;
    assert_eq!(
        faults,
        [
            admin,
            "spec.devices.requests[0].exactly.deviceClassName: Required value"
        ]
    );
}

#[tokio::test]
async fn the_status_of_devices_goes_with_their_allocation() {
    let server = ApiServer::builder().build();
    let request = json!({ "name": "r", "exactly": { "deviceClassName": "c" } });
    let claim = json!({
        "metadata": { "name": "x" }, "spec": { "devices": { "requests": [request] } },
    });
    let created = send(&server, &format!("POST {CLAIMS}"), claim).await;
    assert_eq!(created.code, 201, "{}", created.message());
    let device = json!({ "driver": "d.io", "pool": "p", "device": "v" });
    let mut result = device.clone();
    result["request"] = "r".into();
    let status = format!("PATCH {CLAIMS}/x/status");
    let reported = json!({ "status": {
        "allocation": { "devices": { "results": [result] } }, "devices": [device],
    } });
    let reported = send(&server, &status, reported).await;
    assert_eq!(reported.code, 200, "{}", reported.message());
    assert_eq!(reported.body["status"]["devices"][0]["device"], "v");
    let taken = send(
        &server,
        &status,
        json!({ "status": { "allocation": null } }),
    )
    .await;
    assert_eq!(taken.code, 200, "{}", taken.message());
    assert_eq!(taken.body["status"], json!({}));
    // A device that was never allocated has no status.
    let unknown = json!({ "status": { "devices": [device] } });
    assert_eq!(
        causes(&send(&server, &status, unknown).await),
        [
            "status.devices[0]: Invalid value: {\"Driver\":\"d.io\",\"Pool\":\"p\",\
             \"Device\":\"v\",\"ShareID\":\"\"}: must be an allocated device in the claim"
        ]
    );
}

#[tokio::test]
async fn an_attribute_of_two_types_is_shown_whole() {
    let device =
        json!({ "name": "d", "attributes": { "x": { "string": "a", "int": 1 }, "y": {} } });
    let spec = json!({
        "driver": "d.io", "allNodes": true, "devices": [device],
        "pool": { "name": "p", "generation": 1, "resourceSliceCount": 1 },
    });
    let path = "/apis/resource.k8s.io/v1/resourceslices";
    assert_eq!(
        refused(path, json!({ "spec": spec })).await,
        [
            "spec.devices[0].attributes[x]: Invalid value: {\"IntValue\":1,\"BoolValue\":null,\
             \"StringValue\":\"a\",\"VersionValue\":null,\"IntValues\":null,\"BoolValues\":null,\
             \"StringValues\":null,\"VersionValues\":null}: exactly one value must be specified",
            "spec.devices[0].attributes[y]: Invalid value: \"\": exactly one value must be specified",
        ]
    );
}

#[tokio::test]
async fn selectors_of_a_class_are_expressions_of_a_device() {
    let cel = |text: &str| json!({ "cel": { "expression": text } });
    let selectors = json!([cel(""), cel("device.attributes")]);
    let path = "/apis/resource.k8s.io/v1/deviceclasses";
    let faults = refused(path, json!({ "spec": { "selectors": selectors } })).await;
    let start = "spec.selectors[0].cel.expression: Invalid value: \"\": compilation failed: ERROR: \
         <input>:1:0: Syntax error: mismatched input '<EOF>' expecting {";
    assert!(faults[0].starts_with(start), "{faults:?}");
    assert!(faults[0].ends_with("IDENTIFIER}"), "{faults:?}");
    assert_eq!(
        faults[1],
        "spec.selectors[1].cel.expression: Invalid value: \"device.attributes\": must evaluate to \
         bool or the unknown type, not map(string, map(string, google.protobuf.Any))"
    );
}

/// Grants permissions of the API group in a role of everybody.
async fn grant(server: &ApiServer, name: &str, resource: &str, verbs: &[&str]) {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rules =
        json!([{ "apiGroups": ["resource.k8s.io"], "resources": [resource], "verbs": verbs }]);
    let role = json!({ "metadata": { "name": name }, "rules": rules });
    send(server, &format!("POST {rbac}/clusterroles"), role).await;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": name },
        "subjects": [{ "apiGroup": group, "kind": "Group", "name": "system:authenticated" }],
    });
    send(server, &format!("POST {rbac}/clusterrolebindings"), binding).await;
}

#[tokio::test]
async fn parts_of_a_status_take_permissions_of_their_own() {
    let server = ApiServer::builder().build();
    let request = json!({ "name": "r", "exactly": { "deviceClassName": "c" } });
    let claim = json!({
        "metadata": { "name": "x" }, "spec": { "devices": { "requests": [request] } },
    });
    send(&server, &format!("POST {CLAIMS}"), claim).await;
    grant(&server, "status", "resourceclaims/status", &["patch"]).await;
    let device = json!({ "driver": "d.io", "pool": "p", "device": "v" });
    let mut result = device.clone();
    result["request"] = "r".into();
    let status = format!("PATCH {CLAIMS}/x/status");
    let allocation = json!({ "status": { "allocation": { "devices": { "results": [result] } } } });
    let refused = send_as(&server, "eve", &status, allocation.clone()).await;
    assert_eq!(refused.code, 422);
    assert_eq!(
        refused.message(),
        "ResourceClaim.resource.k8s.io \"x\" is invalid: status.allocation: Forbidden: changing \
         status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", \
         verb=\"patch\" permission: resourceclaims.resource.k8s.io is forbidden: User \"eve\" \
         cannot patch resource \"resourceclaims/binding\" in API group \"resource.k8s.io\" at the \
         cluster scope"
    );
    grant(&server, "binding", "resourceclaims/binding", &["patch"]).await;
    let allocated = send_as(&server, "eve", &status, allocation).await;
    assert_eq!(allocated.code, 200, "{}", allocated.message());
    let reported = json!({ "status": { "devices": [device] } });
    let refused = send_as(&server, "eve", &status, reported.clone()).await;
    assert_eq!(
        refused.message(),
        "ResourceClaim.resource.k8s.io \"x\" is invalid: status.devices: Forbidden: changing \
         status.devices requires resource=\"resourceclaims/driver\", \
         verb=\"[arbitrary-node:patch]\" permission: resourceclaims.resource.k8s.io \"d.io\" is \
         forbidden: User \"eve\" cannot arbitrary-node:patch resource \"resourceclaims/driver\" in \
         API group \"resource.k8s.io\" in the namespace \"default\""
    );
    let verbs = ["arbitrary-node:patch"];
    grant(&server, "driver", "resourceclaims/driver", &verbs).await;
    let reported = send_as(&server, "eve", &status, reported).await;
    assert_eq!(reported.code, 200, "{}", reported.message());
}
