use kubeproof_runtime::decode::from_value;

use super::*;

fn refused(decided: Result<(), Refusal>) -> String {
    decided.map_or_else(
        |refusal| format!("{} {}", refusal.code, refusal.message),
        |()| "ok".to_owned(),
    )
}

fn spec(rest: Value) -> Value {
    let mut spec = json!({
        "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "c", "image": "nginx:1.25"}]}},
    });
    for (field, value) in rest.as_object().cloned().unwrap_or_default() {
        spec[field] = value;
    }
    json!({"metadata": {"name": "s", "namespace": "ns"}, "spec": spec})
}

/// The object with defaults.
fn defaulted(kind: &str, version: &str, object: &Value) -> Value {
    let request = Request {
        uid: "",
        version,
        operation: "CREATE",
        object,
        old: &Value::Null,
    };
    let spec = match kind {
        "cloneset" => clone_set::default(&request, Gates::default()),
        _ => stateful_set::default(&request, Gates::default()),
    };
    let mut object = object.clone();
    object["spec"] = spec.unwrap();
    object
}

async fn created(kind: &str, version: &str, rest: Value) -> String {
    let object = defaulted(kind, version, &spec(rest));
    let request = Request {
        uid: "",
        version,
        operation: "CREATE",
        object: &object,
        old: &Value::Null,
    };
    refused(match kind {
        "cloneset" => clone_set::validate(&request, None).await,
        _ => stateful_set::validate(&request, Gates::default(), None).await,
    })
}

#[test]
fn an_advanced_stateful_set_gets_its_defaults() {
    let object = defaulted("statefulset", "v1beta1", &spec(json!({})));
    let spec = &object["spec"];
    assert_eq!(
        spec["updateStrategy"],
        json!({"type": "RollingUpdate", "rollingUpdate":
        {"partition": 0, "maxUnavailable": 1, "podUpdatePolicy": "ReCreate", "minReadySeconds": 0}})
    );
    assert_eq!(spec["podManagementPolicy"], "OrderedReady");
    assert_eq!(
        (&spec["replicas"], &spec["revisionHistoryLimit"]),
        (&json!(1), &json!(10))
    );
    let container = &spec["template"]["spec"]["containers"][0];
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(container["terminationMessagePath"], "/dev/termination-log");
}

#[test]
fn containers_pull_always_and_init_containers_by_their_tag() {
    let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {
        "initContainers": [{"name": "i", "image": "nginx:1.25"}, {"name": "j", "image": "nginx"}],
        "containers": [{"name": "c", "image": "nginx:1.25"},
            {"name": "d", "image": "nginx", "imagePullPolicy": "Never"}]}});
    for (kind, version) in [
        ("statefulset", "v1alpha1"),
        ("statefulset", "v1beta1"),
        ("cloneset", "v1alpha1"),
        ("cloneset", "v1beta1"),
    ] {
        let object = defaulted(kind, version, &spec(json!({"template": template})));
        let spec = &object["spec"]["template"]["spec"];
        let policy = |list: &str, index: usize| spec[list][index]["imagePullPolicy"].clone();
        assert_eq!(policy("initContainers", 0), "IfNotPresent");
        assert_eq!(policy("initContainers", 1), "Always");
        assert_eq!(policy("containers", 0), "Always");
        assert_eq!(policy("containers", 1), "Never");
    }
}

#[test]
fn gates_decide_what_templates_get() {
    let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"hostNetwork": true,
        "containers": [{"name": "c", "image": "nginx:1.25", "ports": [{"containerPort": 80}]}]}});
    let object = spec(json!({"template": template}));
    let request = Request {
        uid: "",
        version: "v1beta1",
        operation: "CREATE",
        object: &object,
        old: &Value::Null,
    };
    let container = |gates: &str| {
        let spec = clone_set::default(&request, gates.parse().unwrap()).unwrap();
        spec["template"]["spec"]["containers"][0].clone()
    };
    assert_eq!(container("")["ports"][0]["hostPort"], Value::Null);
    let gate = "DefaultHostNetworkHostPortsInPodTemplates=true";
    assert_eq!(container(gate)["ports"][0]["hostPort"], 80);
    assert_eq!(
        container("AllAlpha=true"),
        json!({"name": "c", "image": "nginx:1.25", "ports": [{"containerPort": 80}], "resources": {}}),
        "as Go writes it, without defaults"
    );
}

#[tokio::test]
async fn claim_templates_may_be_mounted() {
    let with_mount = |volume: &str| {
        json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [
                {"name": "c", "image": "nginx:1.25",
                    "volumeMounts": [{"name": volume, "mountPath": "/data"}]}]}}})
    };
    for version in ["v1alpha1", "v1beta1"] {
        assert_eq!(created("cloneset", version, with_mount("data")).await, "ok");
        assert_eq!(
            created("cloneset", version, with_mount("other")).await,
            "422 spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"other\""
        );
        // The spec of its pods is left to the controller, which is refused the pods.
        assert_eq!(
            created("statefulset", version, with_mount("other")).await,
            "ok"
        );
    }
    let mut labelled = with_mount("data");
    labelled["template"]["metadata"]["labels"]["b c"] = json!("d");
    let refused = created("statefulset", "v1beta1", labelled).await;
    let start = "422 spec.template.labels: Invalid value: \"b c\": name part must consist of";
    assert!(refused.starts_with(start), "{refused}");
}

#[tokio::test]
async fn a_stateful_set_is_named_as_its_pods_are_hosts() {
    let mut object = defaulted("statefulset", "v1beta1", &spec(json!({})));
    object["metadata"]["name"] = json!("a.b");
    let request = Request {
        uid: "",
        version: "v1beta1",
        operation: "CREATE",
        object: &object,
        old: &Value::Null,
    };
    let checked = stateful_set::validate(&request, Gates::default(), None).await;
    let expected = "422 metadata.name: Invalid value: \"a.b\": must not contain dots";
    assert_eq!(refused(checked), expected);
}

#[test]
fn a_clone_set_gets_its_defaults_in_both_versions() {
    let old = defaulted("cloneset", "v1alpha1", &spec(json!({})));
    assert_eq!(
        old["spec"]["updateStrategy"],
        json!({"type": "ReCreate", "partition": 0, "maxUnavailable": "20%", "maxSurge": 0})
    );
    let new = defaulted("cloneset", "v1beta1", &spec(json!({})));
    assert_eq!(
        new["spec"]["updateStrategy"],
        json!({"type": "RollingUpdate", "rollingUpdate":
        {"podUpdatePolicy": "ReCreate", "partition": 0, "maxUnavailable": "20%", "maxSurge": 0}})
    );
    let in_place = json!({"updateStrategy": {"type": "InPlaceOnly"}});
    let old = defaulted("cloneset", "v1alpha1", &spec(in_place));
    let strategy = &old["spec"]["updateStrategy"];
    assert_eq!(strategy["inPlaceUpdateStrategy"], json!({}));
    let in_place =
        json!({"updateStrategy": {"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible"}}});
    let new = defaulted("cloneset", "v1beta1", &spec(in_place));
    let strategy = &new["spec"]["updateStrategy"]["rollingUpdate"];
    assert_eq!(strategy["inPlaceUpdateStrategy"], json!({}));
}

#[tokio::test]
async fn advanced_stateful_sets_are_checked() {
    let rolling = |rolling: Value| json!({"updateStrategy": {"rollingUpdate": rolling}});
    let parallel = |mut spec: Value| {
        spec["podManagementPolicy"] = json!("Parallel");
        spec
    };
    let at = "spec.updateStrategy.rollingUpdate";
    let table = [
        (rolling(json!({})), "ok".to_owned()),
        (
            rolling(json!({"maxUnavailable": 2})),
            format!("422 {at}.maxUnavailable: Invalid value: intstr.IntOrString{{Type:0, IntVal:2, StrVal:\"\"}}: can only work with Parallel PodManagementPolicyType"),
        ),
        (parallel(rolling(json!({"maxUnavailable": "20%"}))), "ok".to_owned()),
        (
            parallel(rolling(json!({"maxUnavailable": 0}))),
            format!("422 {at}.maxUnavailable: Invalid value: 0: should not be less than 1"),
        ),
        (
            rolling(json!({"unorderedUpdate": {}})),
            format!("422 {at}.unorderedUpdate: Required value: unorderedUpdate can only work with Parallel PodManagementPolicyType"),
        ),
        (
            rolling(json!({"podUpdatePolicy": "InPlaceIfPossible"})),
            "422 spec.template.spec.readinessGates: Invalid value: []v1.PodReadinessGate(nil): must contains InPlaceUpdateReady when podUpdatePolicy is InPlaceIfPossible".to_owned(),
        ),
        (
            rolling(json!({"minReadySeconds": 301})),
            format!("422 {at}.minReadySeconds: Invalid value: 301: must be no more than 300 seconds"),
        ),
        (
            json!({"reserveOrdinals": [0, "a-2"]}),
            "422 spec: Invalid value: []intstr.IntOrString{intstr.IntOrString{Type:0, IntVal:0, StrVal:\"\"}, intstr.IntOrString{Type:1, IntVal:0, StrVal:\"a-2\"}}: 1 th reserve ordinal is not a valid range: a-2".to_owned(),
        ),
        (
            json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}}),
            format!("422 {at}: Invalid value: {{\"partition\":1}}: only allowed for updateStrategy 'RollingUpdate'"),
        ),
    ];
    for (rest, expected) in table {
        assert_eq!(
            created("statefulset", "v1beta1", rest.clone()).await,
            expected,
            "{rest}"
        );
    }
}

#[tokio::test]
async fn clone_sets_are_checked_by_version() {
    let surge = json!({"type": "InPlaceOnly", "maxSurge": 1});
    let refusal = "422 spec.updateStrategy.maxSurge: Invalid value: \"1\": can not use maxSurge with strategy type InPlaceOnly";
    assert_eq!(
        created("cloneset", "v1alpha1", json!({"updateStrategy": surge})).await,
        refusal
    );
    let surge = json!({"rollingUpdate": {"podUpdatePolicy": "InPlaceOnly", "maxSurge": 1}});
    let refusal = "422 spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: \"1\": can not use maxSurge with podUpdatePolicy InPlaceOnly";
    assert_eq!(
        created("cloneset", "v1beta1", json!({"updateStrategy": surge})).await,
        refusal
    );

    let none = json!({"updateStrategy": {"maxUnavailable": 0, "maxSurge": 1}});
    assert_eq!(created("cloneset", "v1alpha1", none).await, "ok");
    let none = json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}});
    let forgotten = created("cloneset", "v1beta1", none).await;
    assert!(
        forgotten.ends_with("maxUnavailable and maxSurge should not both be less than 1"),
        "{forgotten}"
    );
    let bad = json!({"updateStrategy": {"partition": "5"}});
    let refused = created("cloneset", "v1alpha1", bad).await;
    assert_eq!(
        refused,
        "422 spec.updateStrategy.partition: Invalid value: \"5\": failed GetScaledValueFromIntOrPercent for partition: invalid type: string is not a percentage"
    );
    let at = "spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadParallelism";
    for (parallelism, fault) in [
        (json!(2), None),
        (
            json!(-2),
            Some("-2: imagePreDownloadParallelism must be non-negative"),
        ),
        (
            json!("50%"),
            Some("\"50%\": imagePreDownloadParallelism does not support percentage value"),
        ),
        (
            json!("x"),
            Some(
                "\"x\": imagePreDownloadParallelism must be a valid integer: strconv.ParseInt: parsing \"x\": invalid syntax",
            ),
        ),
    ] {
        let ahead = json!({"updateStrategy": {"rollingUpdate": {"inPlaceUpdateStrategy": {
            "imagePreDownloadParallelism": parallelism}}}});
        let expected = fault.map_or("ok".to_owned(), |fault| {
            format!("422 {at}: Invalid value: {fault}")
        });
        assert_eq!(created("cloneset", "v1beta1", ahead).await, expected);
    }
    let twice = json!({"scaleStrategy": {"podsToDelete": ["a", "a"]}});
    let refused = created("cloneset", "v1beta1", twice).await;
    assert_eq!(
        refused,
        "422 spec.scaleStrategy.podsToDelete: Invalid value: []string{\"a\", \"a\"}: duplicated items [a]"
    );
    let late = json!({"progressDeadlineSeconds": 5, "minReadySeconds": 5});
    let refused = created("cloneset", "v1alpha1", late).await;
    assert_eq!(
        refused,
        "422 spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"
    );
}

#[tokio::test]
async fn only_images_change_in_place_only() {
    let object = |image: &str, cpu: &str| {
        let mut object = defaulted(
            "cloneset",
            "v1alpha1",
            &spec(json!({"updateStrategy": {"type": "InPlaceOnly"}})),
        );
        let container = &mut object["spec"]["template"]["spec"]["containers"][0];
        container["image"] = json!(image);
        container["resources"] = json!({"requests": {"cpu": cpu}});
        object
    };
    let old = object("a:1", "1");
    let updated = async |new: Value| {
        let request = Request {
            uid: "",
            version: "v1alpha1",
            operation: "UPDATE",
            object: &new,
            old: &old,
        };
        refused(clone_set::validate(&request, None).await)
    };
    assert_eq!(updated(object("a:2", "1")).await, "ok");
    let refused = updated(object("a:2", "2")).await;
    assert_eq!(
        refused,
        "422 spec: Forbidden: only allowed to update images in spec for InPlaceOnly, but found replace /containers/0/resources/requests/cpu"
    );
    let mut selector = object("a:1", "1");
    selector["spec"]["minReadySeconds"] = json!(5);
    assert_eq!(updated(selector.clone()).await, "ok");
    selector["spec"]["selector"] = json!({"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "app", "operator": "Exists"}]});
    assert!(
        updated(selector)
            .await
            .contains("updates to cloneset spec for fields other than")
    );
}

#[test]
fn versions_are_converted_there_and_back() {
    let old = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "spec": {
        "scaleStrategy": {"podsToDelete": ["p"]},
        "updateStrategy": {"type": "InPlaceIfPossible", "partition": "40%", "paused": true}}});
    let new = conversion::converted(&old, "apps.kruise.io/v1beta1");
    assert_eq!(
        new["spec"],
        json!({
        "scaleStrategy": {"podsToDelete": ["p"], "enablePVCReuse": true},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate":
            {"podUpdatePolicy": "InPlaceIfPossible", "partition": "40%", "paused": true}}})
    );
    assert_eq!(conversion::converted(&new, "apps.kruise.io/v1alpha1"), old);
    let plain = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
        "spec": {"updateStrategy": {"type": "OnDelete"}}});
    let back = conversion::converted(&plain, "apps.kruise.io/v1alpha1");
    assert_eq!(
        back["spec"],
        json!({"scaleStrategy": {"disablePVCReuse": true},
        "updateStrategy": {"type": "OnDelete"}}),
        "by default claims are not used again"
    );
}

#[tokio::test]
async fn a_fork_looks_up_its_own_pods() {
    let builder = ApiServer::builder();
    let webhook = webhook(Gates::default(), None);
    let server = builder
        .answer_service(SERVICE_NAMESPACE, SERVICE, PORT, webhook)
        .build();
    let mut loader = server.loader();
    for object in objects() {
        loader.create(object).await.unwrap();
    }
    loader.finish().await.unwrap();
    let mut set = spec(json!({}));
    set["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    set["kind"] = json!("CloneSet");
    set["metadata"] = json!({"name": "sample", "namespace": "default"});
    let api = |server: &ApiServer| {
        let kind = kube::core::GroupVersionKind::gvk("apps.kruise.io", "v1alpha1", "CloneSet");
        let resource = kube::core::ApiResource::from_gvk(&kind);
        let client = in_process::client(server, None);
        kube::Api::<kube::core::DynamicObject>::namespaced_with(client, "default", &resource)
    };
    let set = from_value(set).unwrap();
    let created = api(&server)
        .create(&Default::default(), &set)
        .await
        .unwrap();

    let fork = server.fork();
    let pod = from_value(json!({
        "metadata": {"name": "its", "ownerReferences": [{"apiVersion": "apps.kruise.io/v1beta1",
            "kind": "CloneSet", "name": "sample", "uid": created.metadata.uid, "controller": true}]},
        "spec": {"containers": [{"name": "c", "image": "nginx:1.25"}]},
    }));
    let client = in_process::client(&fork, None);
    let pods = kube::Api::<k8s_openapi::api::core::v1::Pod>::namespaced(client, "default");
    pods.create(&Default::default(), &pod.unwrap())
        .await
        .unwrap();

    let doomed = json!({"spec": {"scaleStrategy": {"podsToDelete": ["its"]}}});
    let patch = kube::api::Patch::Merge(&doomed);
    let patched = api(&fork)
        .patch("sample", &Default::default(), &patch)
        .await;
    assert!(patched.is_ok(), "{patched:?}");
    let refused = api(&server)
        .patch("sample", &Default::default(), &patch)
        .await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("find pod its failed: pods \\\"its\\\" not found")
            || refused.contains("find pod its failed: pods \"its\" not found"),
        "{refused}"
    );
}

#[test]
fn what_the_older_version_says_of_images_in_annotations_the_newer_says_in_its_spec() {
    let key = |name: &str| format!("apps.kruise.io/image-predownload-{name}");
    let old = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
        "metadata": {"name": "s", "annotations": {
            key("parallelism"): "50%", key("timeout-seconds"): "100",
            key("min-updated-ready-pods"): "2", "other": "x"}},
        "spec": {"updateStrategy": {"type": "InPlaceIfPossible", "inPlaceUpdateStrategy": {"gracePeriodSeconds": 5}}},
    });
    let new = conversion::converted(&old, "apps.kruise.io/v1beta1");
    let rolling = &new["spec"]["updateStrategy"]["rollingUpdate"];
    assert_eq!(
        rolling["inPlaceUpdateStrategy"],
        json!({"gracePeriodSeconds": 5, "imagePreDownloadParallelism": "50%",
            "imagePreDownloadTimeoutSeconds": 100, "imagePreDownloadMinUpdatedReadyPods": 2})
    );
    let mut changed = new.clone();
    let strategy = "/spec/updateStrategy/rollingUpdate/inPlaceUpdateStrategy";
    changed.pointer_mut(strategy).unwrap()["imagePreDownloadParallelism"] = json!(3);
    let back = conversion::converted(&changed, "apps.kruise.io/v1alpha1");
    assert_eq!(back["metadata"]["annotations"][key("parallelism")], "3");
    assert_eq!(back["metadata"]["annotations"]["other"], "x");
    let strategy = &back["spec"]["updateStrategy"]["inPlaceUpdateStrategy"];
    assert_eq!(*strategy, json!({"gracePeriodSeconds": 5}));

    let mut bad = old.clone();
    bad["metadata"]["annotations"] = json!({key("timeout-seconds"): "soon"});
    bad["spec"]["updateStrategy"]["inPlaceUpdateStrategy"] = Value::Null;
    let new = conversion::converted(&bad, "apps.kruise.io/v1beta1");
    let rolling = &new["spec"]["updateStrategy"]["rollingUpdate"];
    assert_eq!(
        rolling["inPlaceUpdateStrategy"],
        json!({}),
        "it is no number"
    );
    let back = conversion::converted(&new, "apps.kruise.io/v1alpha1");
    let strategy = &back["spec"]["updateStrategy"];
    assert_eq!(*strategy, json!({"type": "InPlaceIfPossible"}));
}

#[test]
fn a_job_is_held_from_its_creation_on() {
    let object = json!({"metadata": {"finalizers": ["a"]}, "spec": {"image": "nginx", "completionPolicy": {}}});
    let patch = |operation| {
        let request = Request {
            uid: "",
            version: "v1beta1",
            operation,
            object: &object,
            old: &Value::Null,
        };
        images::default_job(&request).patch(&object)
    };
    let spec = json!({"image": "nginx", "completionPolicy": {"type": "Always"},
        "pullPolicy": {"timeoutSeconds": 600, "backoffLimit": 3}, "imagePullPolicy": "IfNotPresent"});
    let replaced = json!({"op": "replace", "path": "/spec", "value": spec});
    let held = json!(["a", "apps.kruise.io/deletion-protection"]);
    let held = json!({"op": "add", "path": "/metadata/finalizers", "value": held});
    assert_eq!(patch("CREATE"), [replaced.clone(), held]);
    assert_eq!(patch("UPDATE"), [replaced]);
}

#[test]
fn jobs_are_admitted_where_their_gate_is_on() {
    let object = json!({"spec": {"image": "nginx", "completionPolicy": {"type": "Always"}}});
    let request = Request {
        uid: "",
        version: "v1beta1",
        operation: "CREATE",
        object: &object,
        old: &Value::Null,
    };
    let admitted = |gates: &str| refused(images::validate_job(&request, gates.parse().unwrap()));
    assert_eq!(admitted("ImagePullJobGate=true"), "ok");
    assert_eq!(
        admitted(""),
        "403 feature-gate ImagePullJobGate is not enabled"
    );
    assert_eq!(
        admitted("KruiseDaemon=false,ImagePullJobGate=true"),
        "403 feature-gate KruiseDaemon is not enabled"
    );
}

#[test]
fn definitions_of_images_have_two_versions_of_one_form() {
    for definition in &image_objects()[..2] {
        let versions = definition["spec"]["versions"].as_array().unwrap();
        let names: Vec<&Value> = versions.iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["v1alpha1", "v1beta1"]);
        assert_eq!(
            (&versions[0]["storage"], &versions[1]["storage"]),
            (&json!(false), &json!(true))
        );
        let text = definition.to_string();
        assert!(!text.contains("\"nullable\"") && !text.contains("\"default\""));
        let spec = |version: &Value| {
            let mut spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"].clone();
            let secret =
                "/properties/images/additionalProperties/properties/pullSecrets/items/properties";
            if let Some(secret) = spec.pointer_mut(secret).and_then(Value::as_object_mut) {
                secret.remove("mode");
            }
            spec
        };
        assert_eq!(spec(&versions[0]), spec(&versions[1]));
    }
}
