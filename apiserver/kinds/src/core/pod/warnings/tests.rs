//! The warnings of pods and templates, each as upstream words it.

use crate::json::json;

use super::*;

fn of_pod(mut spec: Value, annotations: Value) -> Vec<String> {
    if spec["containers"].is_null() {
        spec["containers"] = json!([{"name": "c"}]);
    }
    let mut warnings = Vec::new();
    let pod = json!({"metadata": {"annotations": annotations}, "spec": spec});
    warn_of_pod(&pod, &mut warnings);
    warnings
}

fn of_spec(spec: Value) -> Vec<String> {
    of_pod(spec, json!({}))
}

#[test]
fn what_is_deprecated_or_odd_is_warned_of() {
    let table = [
        (
            json!({"nodeSelector": {"beta.kubernetes.io/os": "linux"}}),
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
        ),
        (
            json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "node-role.kubernetes.io/master", "operator": "Exists"}]}]}}}}),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key: node-role.kubernetes.io/master is use \"node-role.kubernetes.io/control-plane\" instead",
        ),
        (
            json!({"topologySpreadConstraints": [{"topologyKey": "a"}]}),
            "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
        ),
        (
            json!({"volumes": [{"name": "v", "rbd": {}}]}),
            "spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+",
        ),
        (
            json!({"volumes": [{"name": "v", "storageos": {}}]}),
            "spec.volumes[0].storageOS: deprecated in v1.22, non-functional in v1.25+",
        ),
        (
            json!({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {
                "resources": {"requests": {"storage": "1500m"}}}}}}]}),
            "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer",
        ),
        (
            json!({"hostAliases": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.4"}]}),
            "spec.hostAliases[1].ip: duplicate ip \"1.2.3.4\"",
        ),
        (
            json!({"imagePullSecrets": [{"name": "a"}, {"name": "a"}]}),
            "spec.imagePullSecrets[1].name: duplicate name \"a\"",
        ),
        (
            json!({"imagePullSecrets": [{}]}),
            "spec.imagePullSecrets[0].name: invalid empty name \"\"",
        ),
        (
            json!({"overhead": {"memory": "1m"}}),
            "spec.overhead[memory]: fractional byte value \"1m\" is invalid, must be an integer",
        ),
        (
            json!({"initContainers": [{"resources": {"requests": {"memory": "100500m"}}}]}),
            "spec.initContainers[0].resources.requests[memory]: fractional byte value \"100500m\" is invalid, must be an integer",
        ),
        (
            json!({"terminationGracePeriodSeconds": -1}),
            "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
        ),
        (
            json!({"affinity": {"podAntiAffinity": {PREFERRED: [{"podAffinityTerm": {}}]}}}),
            "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector: a null labelSelector results in matching no pod",
        ),
        (
            json!({"dnsConfig": {"nameservers": ["FD00::1"]}}),
            "spec.dnsConfig.nameservers[0]: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")",
        ),
    ];
    for (spec, want) in table {
        assert_eq!(of_spec(spec), [want]);
    }
}

#[test]
fn a_variable_may_extend_what_it_was() {
    let hides = |env: Value| of_spec(json!({"containers": [{"env": env}]})).len();
    let first = json!({"name": "A", "value": "1"});
    for (second, want) in [
        (json!({"name": "A"}), 1),
        (json!({"name": "A", "value": "$(A)"}), 1),
        (json!({"name": "A", "value": "$(A)2"}), 0),
        (json!({"name": "B"}), 0),
    ] {
        assert_eq!(hides(json!([first, second])), want, "{second}");
    }
}

#[test]
fn ports_that_get_in_each_other_s_way() {
    let port = |name: &str, host: i64, ip: &str| json!({"name": name, "containerPort": 80, "protocol": "TCP", "hostPort": host, "hostIP": ip});
    let path = "spec.containers[0].ports";
    let table = [
        (
            [port("", 0, ""), port("", 0, "")],
            format!("{path}[1]: duplicate port definition with {path}[0]"),
        ),
        (
            [port("", 0, ""), port("", 8080, "")],
            format!("{path}[1]: overlapping port definition with {path}[0]"),
        ),
        (
            [port("", 8080, ""), port("", 8080, "1.2.3.4")],
            format!("{path}[1]: dangerously ambiguous port definition with {path}[0]"),
        ),
    ];
    for (ports, want) in table {
        assert_eq!(of_spec(json!({"containers": [{"ports": ports}]})), [want]);
    }
    let [one, other] = [("c", 80), ("d", 81)].map(
        |(name, port)| json!({"name": name, "ports": [{"name": "http", "containerPort": port}]}),
    );
    assert_eq!(
        of_spec(json!({"containers": [one, other]})),
        [
            "spec.containers[1].ports[0]: duplicate port name \"http\" with spec.containers[0].ports[0], services and probes that select ports by name will use spec.containers[0].ports[0]"
        ]
    );
    let lonely =
        json!({"name": "http", "containerPort": 80, "protocol": "TCP", "hostIP": "1.2.3.4"});
    assert_eq!(
        of_spec(json!({"containers": [{"ports": [lonely]}]})),
        [
            "spec.containers[0].ports[0]: hostIP set without hostPort: {Name:http HostPort:0 ContainerPort:80 Protocol:TCP HostIP:1.2.3.4}"
        ]
    );
}

#[test]
fn files_of_a_volume_that_hide_each_other() {
    let table = [
        (
            json!({"name": "v", "configMap": {"name": "m", "items": [{"path": "a"}, {"path": "a/b"}]}}),
            "volume \"v\" (ConfigMap \"m\"): overlapping paths: \"a/b\" with \"a\"",
        ),
        (
            json!({"name": "v", "projected": {"sources": [
                {"secret": {"name": "s", "items": [{"path": "a"}]}},
                {"serviceAccountToken": {"path": "a"}}]}}),
            "volume \"v\" (Projected): overlapping paths: \"a\" (ServiceAccountToken) with \"a\" (Secret \"s\")",
        ),
        (
            json!({"name": "v", "projected": {"sources": [{}]}}),
            "volume \"v\" (Projected) has no sources provided",
        ),
    ];
    for (volume, want) in table {
        assert_eq!(of_spec(json!({"volumes": [volume]})), [want]);
    }
}

#[test]
fn annotations_that_fields_have_replaced() {
    let critical = "scheduler.alpha.kubernetes.io/critical-pod";
    assert_eq!(
        of_pod(json!({}), json!({critical: ""})),
        [format!(
            "metadata.annotations[{critical}]: non-functional in v1.16+; use the \"priorityClassName\" field instead"
        )]
    );
    let key = format!("{}c", seccomp::OF_CONTAINER);
    let annotations = json!({&key: "x", seccomp::OF_POD: "x"});
    let want = [seccomp::OF_POD, &key].map(|key| format!("metadata.annotations[{key}]: {SECCOMP}"));
    assert_eq!(of_pod(json!({}), annotations.clone()), want);
    let profile = json!({"seccompProfile": {"type": "RuntimeDefault"}});
    let spec = json!({"securityContext": profile,
        "containers": [{"name": "c", "securityContext": profile}]});
    assert!(of_pod(spec, annotations).is_empty());
    let key = "container.apparmor.security.beta.kubernetes.io/c";
    let template = json!({"metadata": {"annotations": {key: "unconfined"}},
        "spec": {"containers": [{"name": "c"}]}});
    let mut warnings = Vec::new();
    warn_of_template(&template, &FieldPath::new("spec.template"), &mut warnings);
    let path = "spec.template.metadata.annotations";
    let want =
        format!("{path}[{key}]: deprecated since v1.30; use the \"appArmorProfile\" field instead");
    assert_eq!(warnings, [want]);
}

#[test]
fn templates_are_looked_at_when_they_change() {
    let object = |generation: i64| {
        json!({"metadata": {"name": "a.b", "generation": generation},
            "spec": {"template": {"spec": {"terminationGracePeriodSeconds": -1}}}})
    };
    let of = |old: Option<&Value>| of_named_template(&object(2), old, "spec.template");
    let grace = "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1";
    let [name, own] = of(None).try_into().unwrap();
    assert_eq!(
        name,
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"
    );
    assert_eq!(own, grace);
    assert_eq!(of(Some(&object(1))), [grace]);
    assert!(of(Some(&object(2))).is_empty());
}
