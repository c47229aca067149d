mod printed;

use super::super::catalog::Catalog;
use super::*;
use crate::json::{Value, json};

const NOW: &str = "2024-01-01T00:05:00Z";

/// The cells of `object`, which was created five minutes ago.
fn row(group: &str, version: &str, plural: &str, mut object: Value) -> Value {
    let info = Catalog::builtin().resource(group, version, plural).unwrap();
    object["metadata"]["creationTimestamp"] = json!("2024-01-01T00:00:00Z");
    let cells = info.cells(&object, NOW.parse().unwrap());
    // Upstream gives an address a cell for its age, and no column.
    let extra = usize::from(plural == "ipaddresses");
    assert_eq!(
        cells.len(),
        info.columns.len() + extra,
        "{plural}: a cell for each column"
    );
    Value::Array(cells)
}

/// Ready, Status and Restarts of a pod.
fn pod(object: Value) -> (String, String, String) {
    let cells = row("", "v1", "pods", object);
    let text = |index: usize| cells[index].as_str().unwrap().to_owned();
    (text(1), text(2), text(3))
}

fn shows(object: Value, ready: &str, status: &str, restarts: &str) {
    assert_eq!(
        pod(object),
        (ready.to_owned(), status.to_owned(), restarts.to_owned())
    );
}

#[test]
fn every_resource_has_a_cell_for_each_column_even_of_an_empty_object() {
    for info in Catalog::builtin().resources() {
        let gvr = info.gvr();
        row(
            &gvr.group,
            &gvr.version,
            &gvr.resource,
            json!({"metadata": {"name": "x"}}),
        );
    }
}

#[test]
fn durations_lose_precision_as_they_grow() {
    let cases = [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (599, "9m59s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (11_100, "3h5m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (352_800, "4d2h"),
        (691_200, "8d"),
        (63_071_999, "729d"),
        (63_072_000, "2y"),
        (66_960_000, "2y45d"),
        (252_288_000, "8y"),
    ];
    for (seconds, text) in cases {
        assert_eq!(human_duration(seconds), text, "{seconds} seconds");
    }
}

#[test]
fn a_pod_shows_its_containers_over_its_phase() {
    let with = |state: Value| {
        json!({
            "spec": {"containers": [{"name": "c"}]},
            "status": {"phase": "Running", "containerStatuses": [
                {"name": "c", "ready": false, "restartCount": 0, "state": state},
            ]},
        })
    };
    shows(
        json!({"spec": {"containers": [{}]}, "status": {"phase": "Pending"}}),
        "0/1",
        "Pending",
        "0",
    );
    shows(
        with(json!({"waiting": {"reason": "ContainerCreating"}})),
        "0/1",
        "ContainerCreating",
        "0",
    );
    shows(
        with(json!({"terminated": {"exitCode": 1, "reason": "Error"}})),
        "0/1",
        "Error",
        "0",
    );
    shows(
        with(json!({"terminated": {"exitCode": 7}})),
        "0/1",
        "ExitCode:7",
        "0",
    );
    shows(
        with(json!({"terminated": {"exitCode": 143, "signal": 15}})),
        "0/1",
        "Signal:15",
        "0",
    );
    let mut gated = with(json!({}));
    gated["status"]["conditions"] =
        json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
    shows(gated, "0/1", "SchedulingGated", "0");
}

#[test]
fn a_pod_that_is_deleted_shows_terminating_unless_it_ended_or_lost_its_node() {
    let deleted = |status: Value| {
        json!({
            "metadata": {"deletionTimestamp": NOW},
            "spec": {"containers": [{}]},
            "status": status,
        })
    };
    shows(
        deleted(json!({"phase": "Running"})),
        "0/1",
        "Terminating",
        "0",
    );
    shows(deleted(json!({"phase": "Failed"})), "0/1", "Failed", "0");
    shows(
        deleted(json!({"phase": "Running", "reason": "NodeLost"})),
        "0/1",
        "Unknown",
        "0",
    );
}

#[test]
fn restarts_show_when_the_last_one_was() {
    let mut object = json!({
        "spec": {"containers": [{"name": "c"}, {"name": "d"}]},
        "status": {"phase": "Running", "containerStatuses": [
            {"name": "c", "ready": true, "restartCount": 2, "state": {"running": {}},
             "lastState": {"terminated": {"finishedAt": "2024-01-01T00:00:00Z"}}},
            {"name": "d", "ready": false, "restartCount": 3,
             "state": {"waiting": {"reason": "CrashLoopBackOff"}},
             "lastState": {"terminated": {"finishedAt": "2024-01-01T00:02:30Z"}}},
        ]},
    });
    shows(object.clone(), "1/2", "CrashLoopBackOff", "5 (2m30s ago)");
    for index in [0, 1] {
        object["status"]["containerStatuses"][index]["lastState"] = json!({});
    }
    shows(object, "1/2", "CrashLoopBackOff", "5");
}

#[test]
fn init_containers_show_until_the_pod_is_initialized_and_sidecars_count() {
    let init = |statuses: Value, phase: &str, conditions: Value| {
        json!({
            "spec": {
                "containers": [{"name": "c"}],
                "initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "j"}],
            },
            "status": {
                "phase": phase,
                "conditions": conditions,
                "initContainerStatuses": statuses,
                "containerStatuses": [
                    {"name": "c", "ready": phase == "Running", "restartCount": 1,
                     "state": if phase == "Running" { json!({"running": {}}) }
                              else { json!({"waiting": {"reason": "PodInitializing"}}) }},
                ],
            },
        })
    };
    let sidecar = json!({"name": "s", "ready": true, "started": true, "restartCount": 2,
                         "state": {"running": {}}});
    let running = json!([sidecar, {"name": "j", "restartCount": 0, "state": {"running": {}}}]);
    shows(init(running, "Pending", json!([])), "1/2", "Init:1/2", "2");
    let failed = json!([sidecar, {"name": "j", "state": {"terminated": {"exitCode": 3}}}]);
    shows(
        init(failed, "Pending", json!([])),
        "1/2",
        "Init:ExitCode:3",
        "2",
    );
    let done = json!([sidecar, {"name": "j", "restartCount": 4,
                                "state": {"terminated": {"exitCode": 0}}}]);
    let initialized = json!([{"type": "Initialized", "status": "True"}]);
    shows(init(done, "Running", initialized), "2/2", "Running", "3");
}

#[test]
fn wide_pod_columns_show_address_node_and_readiness_gates() {
    let cells = row(
        "",
        "v1",
        "pods",
        json!({
            "metadata": {"name": "p"},
            "spec": {"nodeName": "n1", "containers": [{}],
                     "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]},
            "status": {"phase": "Running", "podIPs": [{"ip": "10.1.2.3"}],
                       "conditions": [{"type": "a", "status": "True"}]},
        }),
    );
    assert_eq!(
        cells,
        json!([
            "p", "0/1", "Running", "0", "5m", "10.1.2.3", "n1", "<none>", "1/2"
        ])
    );
}

#[test]
fn a_pod_that_ended_is_marked_completed() {
    let info = Catalog::builtin().resource("", "v1", "pods").unwrap();
    let conditions = |phase: &str| {
        info.strategy()
            .row_conditions(&json!({"status": {"phase": phase}}))
    };
    assert_eq!(conditions("Succeeded")[0]["reason"], "Succeeded");
    assert_eq!(conditions("Failed")[0]["message"], "The pod failed.");
    assert!(conditions("Running").is_empty());
}

#[test]
fn nodes_show_readiness_roles_and_versions() {
    let mut node = json!({
        "metadata": {"name": "n", "labels": {
            "node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": "",
            "kubernetes.io/role": "gpu",
        }},
        "spec": {"unschedulable": true},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
            "nodeInfo": {"kubeletVersion": "v1.36.0", "osImage": "Linux", "kernelVersion": "6.1.0",
                         "architecture": "amd64", "containerRuntimeVersion": "containerd://1.7"},
        },
    });
    assert_eq!(
        row("", "v1", "nodes", node.clone()),
        json!([
            "n",
            "Ready,SchedulingDisabled",
            "control-plane,gpu,worker",
            "5m",
            "v1.36.0",
            "1.2.3.4",
            "<none>",
            "Linux",
            "6.1.0 (amd64)",
            "containerd://1.7"
        ])
    );
    node["status"]["conditions"][0]["status"] = json!("Unknown");
    assert_eq!(
        row("", "v1", "nodes", node)[1],
        "NotReady,SchedulingDisabled"
    );
    assert_eq!(
        row("", "v1", "nodes", json!({"metadata": {"name": "n"}})),
        json!([
            "n",
            "Unknown",
            "<none>",
            "5m",
            "",
            "<none>",
            "<none>",
            "<unknown>",
            "<unknown>",
            "<unknown>"
        ])
    );
}

#[test]
fn workloads_show_replicas_containers_and_selectors() {
    let spec = json!({
        "replicas": 2,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
    });
    let object = json!({"metadata": {"name": "w"}, "spec": spec,
                        "status": {"replicas": 2, "readyReplicas": 1}});
    assert_eq!(
        row("apps", "v1", "deployments", object.clone()),
        json!(["w", "1/2", 0, 0, "5m", "c", "i", "a=b"])
    );
    assert_eq!(
        row("apps", "v1", "replicasets", object.clone()),
        json!(["w", 2, 2, 1, "5m", "c", "i", "a=b"])
    );
    assert_eq!(
        row("apps", "v1", "statefulsets", object),
        json!(["w", "1/2", "5m", "c", "i"])
    );
    let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web",
                        "controller": true}]);
    let revision = json!({"metadata": {"name": "r", "ownerReferences": owner}, "revision": 3});
    assert_eq!(
        row("apps", "v1", "controllerrevisions", revision),
        json!(["r", "statefulset.apps/web", 3, "5m"])
    );
}

#[test]
fn services_show_addresses_by_type() {
    let service = |spec: Value, status: Value| {
        let object = json!({"metadata": {"name": "s"}, "spec": spec, "status": status});
        row("", "v1", "services", object)
    };
    assert_eq!(
        service(
            json!({"type": "NodePort", "clusterIPs": ["10.0.0.1"], "selector": {"a": "b"},
                   "ports": [{"port": 80, "nodePort": 30071, "protocol": "TCP"}]}),
            json!({})
        ),
        json!([
            "s",
            "NodePort",
            "10.0.0.1",
            "<none>",
            "80:30071/TCP",
            "5m",
            "a=b"
        ])
    );
    assert_eq!(
        service(
            json!({"type": "ExternalName", "externalName": "foo.example.com"}),
            json!({})
        ),
        json!([
            "s",
            "ExternalName",
            "<none>",
            "foo.example.com",
            "<none>",
            "5m",
            "<none>"
        ])
    );
    let balanced = json!({"loadBalancer": {"ingress": [{"hostname": "lb"}, {"ip": "1.2.3.4"}]}});
    assert_eq!(
        service(json!({"type": "LoadBalancer"}), balanced)[3],
        "1.2.3.4,lb"
    );
    assert_eq!(
        service(json!({"type": "LoadBalancer"}), json!({}))[3],
        "<pending>"
    );
}

#[test]
fn claims_and_volumes_show_what_they_are_bound_to() {
    let claim = json!({
        "metadata": {"name": "c"},
        "spec": {"volumeName": "pv1", "storageClassName": "fast", "volumeMode": "Filesystem"},
        "status": {"phase": "Bound", "capacity": {"storage": "2Gi"},
                   "accessModes": ["ReadOnlyMany", "ReadWriteOnce"]},
    });
    assert_eq!(
        row("", "v1", "persistentvolumeclaims", claim),
        json!([
            "c",
            "Bound",
            "pv1",
            "2Gi",
            "RWO,ROX",
            "fast",
            "<unset>",
            "5m",
            "Filesystem"
        ])
    );
    let volume = json!({
        "metadata": {"name": "v"},
        "spec": {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOncePod"],
                 "persistentVolumeReclaimPolicy": "Delete",
                 "claimRef": {"namespace": "ns", "name": "c"}},
        "status": {"phase": "Bound"},
    });
    assert_eq!(
        row("", "v1", "persistentvolumes", volume),
        json!([
            "v", "2Gi", "RWOP", "Delete", "Bound", "ns/c", "", "<unset>", "", "5m", "<unset>"
        ])
    );
}

#[test]
fn events_of_both_groups_show_alike() {
    let core = json!({
        "metadata": {"name": "f"}, "type": "Normal", "reason": "Pulled", "message": "text\n",
        "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"},
        "source": {"component": "kubelet", "host": "n"}, "count": 3,
        "firstTimestamp": "2024-01-01T00:00:00Z", "lastTimestamp": "2024-01-01T00:04:00Z",
    });
    assert_eq!(
        row("", "v1", "events", core),
        json!([
            "60s",
            "Normal",
            "Pulled",
            "pod/p",
            "spec.containers{c}",
            "kubelet, n",
            "text",
            "5m",
            3,
            "f"
        ])
    );
    let new = json!({
        "metadata": {"name": "e"}, "type": "Normal", "reason": "Pulled", "note": "hello",
        "regarding": {"kind": "Pod", "name": "p"}, "eventTime": "2024-01-01T00:00:00.000000Z",
        "reportingController": "example.com/c", "reportingInstance": "i",
    });
    assert_eq!(
        row("events.k8s.io", "v1", "events", new),
        json!([
            "5m",
            "Normal",
            "Pulled",
            "pod/p",
            "",
            "example.com/c, i",
            "hello",
            "5m",
            1,
            "e"
        ])
    );
}
