//! Admission plugins that flags switch on and off, and their configuration.
//!
//! Source: `pkg/kubeapiserver/options/plugins.go`, `plugin/pkg/admission`.

use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{
    AdmissionConfiguration, AdmissionFlags, AdmissionPlugins, ApiServer, Clock,
};

use crate::support::requests::{Answer, read, respond, send, send_as};

const PODS: &str = "POST /api/v1/namespaces/default/pods";

fn names(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|name| (*name).to_owned()).collect())
}

fn plugins(enable: &[&str], disable: &[&str]) -> AdmissionPlugins {
    let mut disable = disable.to_vec();
    disable.push("ServiceAccount");
    let flags = AdmissionFlags {
        enable: names(enable),
        disable: names(&disable),
        admission_control: None,
    };
    AdmissionPlugins::from_flags(&flags).unwrap()
}

fn with(enable: &[&str]) -> ApiServer {
    let plugins = plugins(enable, &[]);
    ApiServer::builder().admission_plugins(plugins).build()
}

fn without(disable: &[&str]) -> ApiServer {
    let plugins = plugins(&[], disable);
    ApiServer::builder().admission_plugins(plugins).build()
}

fn configured(enable: &[&str], configuration: &Value) -> ApiServer {
    let plugins = plugins(enable, &[]);
    let file = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
        "plugins": configuration,
    });
    let none = |path: &str| Err(format!("open {path}: no such file or directory"));
    let configuration = AdmissionConfiguration::read(&file.to_string(), plugins, none);
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    ApiServer::builder()
        .clock(Clock::simulated(epoch))
        .admission_plugins(plugins)
        .admission_configuration(configuration.unwrap())
        .build()
}

fn pod(name: &str, spec: Value) -> Value {
    let mut own = json!({ "containers": [{ "name": "c", "image": "i:1" }] });
    let spec = spec.as_object().unwrap().clone();
    own.as_object_mut().unwrap().extend(spec);
    json!({ "metadata": { "name": name }, "spec": own })
}

async fn annotate(server: &ApiServer, annotations: Value) -> Answer {
    let patch = json!({ "metadata": { "annotations": annotations } });
    send(server, "PATCH /api/v1/namespaces/default", patch).await
}

#[tokio::test]
async fn plugins_that_are_off_change_and_refuse_nothing() {
    let server = without(&[
        "NamespaceLifecycle",
        "DefaultTolerationSeconds",
        "Priority",
        "StorageObjectInUseProtection",
        "TaintNodesByCondition",
    ]);
    let absent = "POST /api/v1/namespaces/absent/pods";
    let created = send(&server, absent, pod("a", json!({}))).await;
    assert_eq!(created.code, 201);
    assert!(created.body["spec"]["tolerations"].is_null());
    assert!(created.body["spec"]["priority"].is_null());
    let node = json!({ "metadata": { "name": "n" } });
    let node = send(&server, "POST /api/v1/nodes", node).await;
    assert!(node.body["spec"]["taints"].is_null());
    let claim = json!({ "metadata": { "name": "c" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } });
    let claims = "POST /api/v1/namespaces/default/persistentvolumeclaims";
    let claim = send(&server, claims, claim).await;
    assert!(claim.meta("finalizers").is_null());
    let deleted = send(
        &server,
        "DELETE /api/v1/namespaces/kube-public",
        Value::Null,
    )
    .await;
    assert_eq!(deleted.code, 200);
    let response = respond(&server, "GET /metrics", &[("accept", "text/plain")], "").await;
    let (_, text) = read(response).await;
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(!text.contains("name=\"Priority\""));
    assert!(text.contains("name=\"LimitRanger\""));
}

#[tokio::test]
async fn quotas_and_limits_can_be_off() {
    let server = without(&["ResourceQuota", "LimitRanger", "PodSecurity"]);
    let quota = json!({ "metadata": { "name": "q" }, "spec": { "hard": { "pods": "0" } } });
    let quotas = "POST /api/v1/namespaces/default/resourcequotas";
    send(&server, quotas, quota).await;
    let limit = json!({ "metadata": { "name": "l" }, "spec": { "limits": [
        { "type": "Container", "default": { "cpu": "1" }, "max": { "cpu": "1" } } ] } });
    send(
        &server,
        "POST /api/v1/namespaces/default/limitranges",
        limit,
    )
    .await;
    let labels = json!({ "pod-security.kubernetes.io/enforce": "restricted" });
    let labels = json!({ "metadata": { "labels": labels } });
    send(&server, "PATCH /api/v1/namespaces/default", labels).await;
    let created = send(&server, PODS, pod("a", json!({}))).await;
    assert_eq!(created.code, 201);
    assert!(created.body["spec"]["containers"][0]["resources"] == json!({}));
}

#[tokio::test]
async fn webhooks_and_policies_can_be_off() {
    let policy = json!({ "metadata": { "name": "p" }, "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": { "resourceRules": [{ "apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CREATE"], "resources": ["configmaps"] }] },
        "validations": [{ "expression": "false" }],
    } });
    let binding = json!({ "metadata": { "name": "b" }, "spec": {
        "policyName": "p", "validationActions": ["Deny"] } });
    let rules = json!([{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["configmaps"] }]);
    let webhooks = |kind: &str| {
        json!({ "metadata": { "name": kind }, "webhooks": [{
            "name": "a.example.com", "rules": rules, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "failurePolicy": "Fail",
            "clientConfig": { "url": "https://127.0.0.1:1" },
        }] })
    };
    let group = "POST /apis/admissionregistration.k8s.io/v1";
    let (validating, mutating) = (
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
    );
    for (is_on, expected) in [(true, 422), (false, 201)] {
        let server = match is_on {
            true => with(&[]),
            false => without(&[
                "MutatingAdmissionWebhook",
                "ValidatingAdmissionWebhook",
                "ValidatingAdmissionPolicy",
                "MutatingAdmissionPolicy",
            ]),
        };
        if !is_on {
            for plural in [validating, mutating] {
                let made = send(&server, &format!("{group}/{plural}"), webhooks(plural)).await;
                assert_eq!(made.code, 201);
            }
        }
        let policies = format!("{group}/validatingadmissionpolicies");
        assert_eq!(send(&server, &policies, &policy).await.code, 201);
        let bindings = format!("{group}/validatingadmissionpolicybindings");
        assert_eq!(send(&server, &bindings, &binding).await.code, 201);
        let map = json!({ "metadata": { "name": "m" } });
        let created = send(&server, "POST /api/v1/namespaces/default/configmaps", map).await;
        assert_eq!(created.code, expected, "{}", created.message());
    }
}

#[tokio::test]
async fn flagz_shows_the_plugins_that_differ_from_a_cluster() {
    let plugins = plugins(&["AlwaysPullImages"], &["Priority"]);
    let server = ApiServer::builder().admission_plugins(plugins).build();
    let response = respond(&server, "GET /flagz", &[("accept", "text/plain")], "").await;
    let (_, text) = read(response).await;
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(
        text.contains("enable-admission-plugins: [AlwaysPullImages]"),
        "{text}"
    );
    assert!(
        text.contains("disable-admission-plugins: [ServiceAccount,Priority]"),
        "{text}"
    );
}

#[tokio::test]
async fn namespaces_are_made_for_what_is_created_in_them() {
    let server = with(&["NamespaceAutoProvision"]);
    let map = json!({ "metadata": { "name": "m" } });
    let maps = "/api/v1/namespaces/new/configmaps";
    let dry = send(&server, &format!("POST {maps}?dryRun=All"), &map).await;
    assert_eq!(dry.message(), "namespaces \"new\" not found");
    let created = send(&server, &format!("POST {maps}"), &map).await;
    assert_eq!(created.code, 201);
    let namespace = send(&server, "GET /api/v1/namespaces/new", Value::Null).await;
    assert_eq!(namespace.body["status"]["phase"], "Active");
}

#[tokio::test]
async fn namespaces_have_to_exist() {
    let plugins = plugins(&["NamespaceExists"], &["NamespaceLifecycle"]);
    let server = ApiServer::builder().admission_plugins(plugins).build();
    let map = json!({ "metadata": { "name": "m" } });
    let refused = send(&server, "POST /api/v1/namespaces/absent/configmaps", &map).await;
    assert_eq!(refused.code, 404);
    assert_eq!(refused.message(), "namespaces \"absent\" not found");
    let created = send(&server, "POST /api/v1/namespaces/default/configmaps", &map).await;
    assert_eq!(created.code, 201);
}

#[tokio::test]
async fn every_write_is_denied() {
    let server = with(&["AlwaysDeny"]);
    let map = json!({ "metadata": { "generateName": "m-" } });
    let refused = send(&server, "POST /api/v1/namespaces/default/configmaps", map).await;
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.message(),
        "configmaps \"m-\" is forbidden: admission control is denying all modifications"
    );
    let services = "/api/v1/namespaces/default/services/kubernetes";
    let patch = json!({ "metadata": { "labels": { "a": "b" } } });
    for (request, body) in [("PATCH", patch), ("DELETE", Value::Null)] {
        let refused = send(&server, &format!("{request} {services}"), body).await;
        assert_eq!(
            refused.message(),
            "services \"kubernetes\" is forbidden: admission control is denying all modifications"
        );
    }
    assert_eq!(
        send(&server, &format!("GET {services}"), Value::Null)
            .await
            .code,
        200
    );
}

#[tokio::test]
async fn images_are_always_pulled() {
    let server = with(&["AlwaysPullImages"]);
    let spec = json!({
        "initContainers": [{ "name": "i", "image": "i:1", "imagePullPolicy": "Never" }],
        "volumes": [{ "name": "v", "image": { "reference": "r:1", "pullPolicy": "IfNotPresent" } }],
    });
    let created = send(&server, PODS, pod("a", spec)).await;
    let spec = &created.body["spec"];
    assert_eq!(spec["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!(spec["initContainers"][0]["imagePullPolicy"], "Always");
    assert_eq!(spec["volumes"][0]["image"]["pullPolicy"], "Always");
}

#[tokio::test]
async fn pods_keep_others_off_their_node_alone() {
    let server = with(&["LimitPodHardAntiAffinityTopology"]);
    let affinity = |key: &str| {
        json!({ "affinity": { "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                { "labelSelector": { "matchLabels": { "a": "b" } }, "topologyKey": key }
            ] } } })
    };
    let refused = send(&server, PODS, pod("a", affinity("zone"))).await;
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.message(),
        "pods \"a\" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has \
         TopologyKey zone but only key kubernetes.io/hostname is allowed"
    );
    let created = send(&server, PODS, pod("a", affinity("kubernetes.io/hostname"))).await;
    assert_eq!(created.code, 201);
}

#[tokio::test]
async fn external_addresses_are_denied_to_services_that_lack_them() {
    let server = with(&["DenyServiceExternalIPs"]);
    let service = |addresses: &[&str]| {
        json!({ "metadata": { "name": "s" },
            "spec": { "ports": [{ "port": 80 }], "externalIPs": addresses } })
    };
    let services = "/api/v1/namespaces/default/services";
    let refused = send(&server, &format!("POST {services}"), service(&["1.2.3.4"])).await;
    assert_eq!(
        refused.message(),
        "services \"s\" is forbidden: Use of external IPs is denied by admission control"
    );
    let created = send(&server, &format!("POST {services}"), service(&[])).await;
    assert_eq!(created.code, 201);
}

#[tokio::test]
async fn pods_that_request_devices_tolerate_their_taints() {
    let server = with(&["ExtendedResourceToleration"]);
    let spec = json!({ "containers": [{ "name": "c", "image": "i:1", "resources": {
        "limits": { "example.com/gpu": "1", "cpu": "1" } } }] });
    let created = send(&server, PODS, pod("a", spec)).await;
    let tolerations = created.body["spec"]["tolerations"].as_array().unwrap();
    let own = json!({ "key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule" });
    assert_eq!(tolerations.len(), 3);
    assert!(tolerations.contains(&own));
}

#[tokio::test]
async fn namespaces_choose_the_nodes_of_their_pods() {
    let server = with(&["PodNodeSelector"]);
    let selector = "scheduler.alpha.kubernetes.io/node-selector";
    annotate(&server, json!({ selector: "env=test, tier=a" })).await;
    let created = send(
        &server,
        PODS,
        pod("a", json!({ "nodeSelector": { "own": "x" } })),
    )
    .await;
    assert_eq!(
        created.body["spec"]["nodeSelector"],
        json!({ "env": "test", "own": "x", "tier": "a" })
    );
    let refused = send(
        &server,
        PODS,
        pod("b", json!({ "nodeSelector": { "env": "x" } })),
    )
    .await;
    assert_eq!(
        refused.message(),
        "pods \"b\" is forbidden: pod node label selector conflicts with its namespace node label \
         selector"
    );
    annotate(&server, json!({ selector: "env" })).await;
    let failed = send(&server, PODS, pod("c", json!({}))).await;
    assert_eq!(
        (failed.code, failed.message()),
        (500, "invalid selector: [env]")
    );
}

#[tokio::test]
async fn the_configuration_has_node_selectors_for_namespaces() {
    let selectors = json!({ "clusterDefaultNodeSelector": "env=test", "default": "env=test" });
    let server = configured(
        &["PodNodeSelector"],
        &json!([{ "name": "PodNodeSelector",
            "configuration": { "podNodeSelectorPluginConfig": selectors } }]),
    );
    let created = send(&server, PODS, pod("a", json!({}))).await;
    assert_eq!(
        created.body["spec"]["nodeSelector"],
        json!({ "env": "test" })
    );
    let refused = send(
        &server,
        PODS,
        pod("b", json!({ "nodeSelector": { "own": "x" } })),
    )
    .await;
    assert_eq!(
        refused.message(),
        "pods \"b\" is forbidden: pod node label selector labels conflict with its namespace \
         whitelist"
    );
}

#[tokio::test]
async fn namespaces_restrict_what_their_pods_tolerate() {
    let plugins = plugins(&["PodTolerationRestriction"], &["DefaultTolerationSeconds"]);
    let server = ApiServer::builder().admission_plugins(plugins).build();
    let (defaults, allowed) = (
        "scheduler.alpha.kubernetes.io/defaultTolerations",
        "scheduler.alpha.kubernetes.io/tolerationsWhitelist",
    );
    let toleration = json!([{ "key": "a", "operator": "Exists" }]).to_string();
    annotate(
        &server,
        json!({ defaults: toleration, allowed: toleration }),
    )
    .await;
    let created = send(&server, PODS, pod("a", json!({}))).await;
    assert_eq!(
        created.body["spec"]["tolerations"],
        json!([{ "key": "a", "operator": "Exists" }])
    );
    let spec = json!({ "tolerations": [{ "key": "b", "operator": "Exists" }] });
    let refused = send(&server, PODS, pod("b", spec)).await;
    assert_eq!(refused.code, 500);
    assert_eq!(
        refused.message(),
        "pod tolerations (possibly merged with namespace default tolerations) conflict with its \
         namespace whitelist"
    );
}

#[tokio::test]
async fn owners_are_named_by_those_who_may_delete_and_finalize() {
    let server = with(&["OwnerReferencesPermissionEnforcement"]);
    let role = json!({ "metadata": { "name": "r" }, "rules": [
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "update", "patch"] },
        { "apiGroups": ["apps"], "resources": ["deployments/finalizers"], "verbs": ["update"] },
    ] });
    let rbac = "POST /apis/rbac.authorization.k8s.io/v1/namespaces/default";
    assert_eq!(
        send(&server, &format!("{rbac}/roles"), role).await.code,
        201
    );
    let binding = json!({ "metadata": { "name": "b" },
        "subjects": [{ "kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io" }],
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" } });
    assert_eq!(
        send(&server, &format!("{rbac}/rolebindings"), binding)
            .await
            .code,
        201
    );
    let owner = |kind: &str, api_version: &str, blocks: bool| {
        json!([{ "apiVersion": api_version, "kind": kind, "name": "o", "uid": "u",
            "blockOwnerDeletion": blocks }])
    };
    let map = |name: &str, owners: Value| json!({ "metadata": { "name": name, "ownerReferences": owners } });
    let maps = "/api/v1/namespaces/default/configmaps";
    let create = format!("POST {maps}");
    let allowed = [
        owner("ReplicaSet", "apps/v1", false),
        owner("Deployment", "apps/v1", true),
    ];
    for (index, owners) in allowed.into_iter().enumerate() {
        let created = send_as(&server, "jane", &create, map(&format!("m{index}"), owners)).await;
        assert_eq!(created.code, 201, "{}", created.message());
    }
    let refused = send_as(
        &server,
        "jane",
        &create,
        map("n", owner("ReplicaSet", "apps/v1", true)),
    );
    assert_eq!(
        refused.await.message(),
        "configmaps \"n\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers \
         to a resource you can't set finalizers on: , <nil>"
    );
    let unknown = send_as(
        &server,
        "jane",
        &create,
        map("n", owner("Widget", "example.com/v1", true)),
    );
    assert_eq!(
        unknown.await.message(),
        "configmaps \"n\" is forbidden: cannot set blockOwnerDeletion in this case because cannot \
         find RESTMapping for APIVersion example.com/v1 Kind Widget: no matches for kind \
         \"Widget\" in version \"example.com/v1\""
    );
    let patch = json!({ "metadata": { "ownerReferences": null } });
    let refused = send_as(&server, "jane", &format!("PATCH {maps}/m0"), &patch).await;
    assert_eq!(
        refused.message(),
        "configmaps \"m0\" is forbidden: cannot set an ownerRef on a resource you can't delete: , \
         <nil>"
    );
    let admin = send(&server, &format!("PATCH {maps}/m0"), patch).await;
    assert_eq!(admin.code, 200);
}

#[tokio::test(start_paused = true)]
async fn events_beyond_a_limit_are_refused() {
    let server = configured(
        &["EventRateLimit"],
        &json!([{ "name": "EventRateLimit", "configuration": {
            "apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration",
            "limits": [{ "type": "Namespace", "qps": 1, "burst": 2 }],
        } }]),
    );
    let event = |name: &str, namespace: &str| {
        json!({ "metadata": { "name": name },
            "involvedObject": { "kind": "Pod", "namespace": namespace, "name": "p" } })
    };
    let events = "POST /api/v1/namespaces/default/events";
    for name in ["a", "b"] {
        let created = send(&server, events, event(name, "default")).await;
        assert_eq!(created.code, 201);
    }
    let refused = send(&server, events, event("c", "default")).await;
    assert_eq!(
        (refused.code, &refused.body["reason"]),
        (429, &json!("TooManyRequests"))
    );
    assert_eq!(
        refused.message(),
        "Too many requests: limit reached on type Namespace for key default"
    );
    let elsewhere = "POST /api/v1/namespaces/kube-system/events";
    assert_eq!(
        send(&server, elsewhere, event("c", "kube-system"))
            .await
            .code,
        201
    );
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    assert_eq!(send(&server, events, event("c", "default")).await.code, 201);
}

#[tokio::test]
async fn the_configuration_has_the_pod_security_of_unlabeled_namespaces() {
    let server = configured(
        &[],
        &json!([{ "name": "PodSecurity", "configuration": {
            "apiVersion": "pod-security.admission.config.k8s.io/v1",
            "kind": "PodSecurityConfiguration",
            "defaults": { "enforce": "baseline", "enforce-version": "v1.30" },
            "exemptions": { "namespaces": ["kube-system"], "usernames": ["admin-like"],
                "runtimeClasses": ["sandbox"] },
        } }]),
    );
    let class = json!({ "metadata": { "name": "sandbox" }, "handler": "h" });
    send(&server, "POST /apis/node.k8s.io/v1/runtimeclasses", class).await;
    let privileged = pod("a", json!({ "hostNetwork": true }));
    let refused = send(&server, PODS, &privileged).await;
    assert_eq!(
        refused.message(),
        "pods \"a\" is forbidden: violates PodSecurity \"baseline:v1.30\": host namespaces \
         (hostNetwork=true)"
    );
    let exempt = "POST /api/v1/namespaces/kube-system/pods";
    assert_eq!(send(&server, exempt, &privileged).await.code, 201);
    let sandboxed = pod(
        "b",
        json!({ "hostNetwork": true, "runtimeClassName": "sandbox" }),
    );
    assert_eq!(send(&server, PODS, sandboxed).await.code, 201);
    let labels = json!({ "pod-security.kubernetes.io/enforce": "restricted" });
    let labels = json!({ "metadata": { "labels": labels } });
    let labeled = send(&server, "PATCH /api/v1/namespaces/kube-system", labels).await;
    assert_eq!(
        labeled.warnings,
        [
            "299 - \"namespace \\\"kube-system\\\" is exempt from Pod Security, and the policy \
             (enforce=restricted:v1.30) will be ignored\""
        ]
    );
}

#[test]
fn faults_of_the_configuration_are_in_upstreams_words() {
    let read = |text: &str| {
        let plugins = plugins(&["EventRateLimit", "PodNodeSelector"], &[]);
        let file = |path: &str| match path {
            "limits.yaml" => Ok("apiVersion: eventratelimit.admission.k8s.io/v1alpha1\n\
                 kind: Configuration\nlimits: [{type: Server, qps: 0, burst: 1}]\n"
                .to_owned()),
            path => Err(format!("open {path}: no such file or directory")),
        };
        let read = AdmissionConfiguration::read(text, plugins, file);
        read.map_err(|error| error.to_string())
    };
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n";
    for (text, expected) in [
        (
            "a: b".to_owned(),
            "failed to read plugin config: Object 'Kind' is missing in '{\"a\":\"b\"}'",
        ),
        (
            format!("{head}plugins: [{{name: EventRateLimit, path: limits.yaml}}]"),
            "couldn't init admission plugin \"EventRateLimit\": limits[0].qps: Invalid value: 0: \
             must be positive",
        ),
        (
            format!("{head}plugins: [{{name: PodSecurity, path: absent.yaml}}]"),
            "open absent.yaml: no such file or directory",
        ),
        (
            format!(
                "{head}plugins: [{{name: PodSecurity, configuration: {{kind: \
                 PodSecurityConfiguration, apiVersion: pod-security.admission.config.k8s.io/v1, \
                 defaults: {{enforce: strict}}}}}}]"
            ),
            "failed to initialize admission plugin \"PodSecurity\": PodSecurity configuration \
             error: defaults.enforce: Invalid value: \"strict\": must be one of privileged, \
             baseline, restricted",
        ),
    ] {
        assert_eq!(read(&text).unwrap_err(), expected);
    }
    let legacy = "podNodeSelectorPluginConfig: {default: a=b}";
    assert_eq!(read(legacy).unwrap().without_effect().count(), 0);
    let quota = format!("{head}plugins: [{{name: ResourceQuota, configuration: {{a: b}}}}]");
    let quota = read(&quota).unwrap();
    assert_eq!(
        quota.without_effect().collect::<Vec<_>>(),
        ["ResourceQuota"]
    );
}
