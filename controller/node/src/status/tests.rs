use kubeproof_runtime::decode::from_value;

use super::*;

fn pod() -> Pod {
    from_value(json!({
        "metadata": { "name": "web-0", "uid": "u", "generation": 1 },
        "spec": {
            "containers": [{ "name": "main", "image": "nginx:1" }],
            "readinessGates": [{ "conditionType": "example.io/in" }],
        },
    }))
    .unwrap()
}

fn container_spec() -> ContainerSpec {
    ContainerSpec::all(pod().spec.as_ref().unwrap()).remove(0)
}

fn readiness_of(main: ContainerReadiness) -> Readiness {
    let mut readiness = Readiness::default();
    readiness.set("main", main);
    readiness
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn patch(containers: Containers<'_>, before: Option<&PodStatus>, now: i64) -> Value {
    Report {
        pod: &pod(),
        before,
        containers,
        same_images: &SameImages::default(),
        host_ip: "172.18.0.2",
        pod_ip: "10.244.1.2",
        started: at(0),
        now: at(now),
    }
    .patch()
}

fn condition(patch: &Value, type_: &str) -> Vec<Value> {
    let conditions = patch["status"]["conditions"].as_array().unwrap();
    let found = conditions
        .iter()
        .find(|found| found["type"] == type_)
        .unwrap();
    ["status", "reason", "message", "lastTransitionTime"]
        .iter()
        .map(|field| found[*field].clone())
        .collect()
}

#[test]
fn transition_times_move_only_with_the_status() {
    let creating = patch(Containers::Creating, None, 0);
    assert_eq!(creating["status"]["phase"], "Pending");
    assert_eq!(
        creating["status"]["containerStatuses"][0]["state"]["waiting"]["reason"],
        "ContainerCreating"
    );
    let before: PodStatus = from_value(&creating["status"]).unwrap();
    let container_runs =
        ContainerRuns::from_iter([("main".into(), ContainerRun::first(&container_spec(), at(7)))]);
    let readiness = readiness_of(ContainerReadiness {
        ready: Some(true),
        ..ContainerReadiness::default()
    });
    let running = Containers::Running {
        container_runs: &container_runs,
        readiness: &readiness,
    };
    let running = patch(running, Some(&before), 7);
    assert_eq!(running["status"]["phase"], "Running");
    assert_eq!(
        condition(&running, "ContainersReady"),
        [
            json!("True"),
            Value::Null,
            Value::Null,
            json!("1970-01-01T00:00:07Z")
        ]
    );
    let message = "corresponding condition of pod readiness gate \"example.io/in\" \
        does not exist.";
    assert_eq!(
        condition(&running, "Ready"),
        [
            json!("False"),
            json!("ReadinessGatesNotReady"),
            json!(message),
            json!("1970-01-01T00:00:00Z")
        ]
    );
}

#[test]
fn a_pod_deleted_before_it_ran_has_failed() {
    let ended = Containers::Ended {
        container_runs: &ContainerRuns::default(),
        ending: Ending::Unstarted,
    };
    let ended = patch(ended, None, 3);
    assert_eq!(ended["status"]["phase"], "Failed");
    let container = &ended["status"]["containerStatuses"][0];
    assert_eq!(container["imageID"], "");
    let state = &container["state"]["terminated"];
    assert_eq!(state["exitCode"], 137);
    assert_eq!(state["reason"], "ContainerStatusUnknown");
}

#[test]
fn an_ended_pod_shows_how_its_containers_ended() {
    let container_runs =
        ContainerRuns::from_iter([("main".into(), ContainerRun::first(&container_spec(), at(7)))]);
    for (ending, phase, code) in [
        (Ending::Completed, "Succeeded", 0),
        (Ending::Error, "Failed", 1),
        (Ending::Killed, "Failed", 137),
    ] {
        let patch = patch(
            Containers::Ended {
                container_runs: &container_runs,
                ending,
            },
            None,
            9,
        );
        assert_eq!(patch["status"]["phase"], phase);
        let status = &patch["status"]["containerStatuses"][0];
        assert_eq!(status["state"]["terminated"]["exitCode"], code);
        assert_eq!(status["ready"], false);
    }
}

#[test]
fn a_container_in_back_off_shows_how_it_ended() {
    let mut container_run = ContainerRun::first(&container_spec(), at(7));
    container_run.exit = Some(Exit {
        code: 3,
        at: at(8),
        killed: false,
    });
    let container_runs = ContainerRuns::from_iter([("main".into(), container_run)]);
    let readiness = readiness_of(ContainerReadiness {
        ready: Some(false),
        halt: Some(Halt::BackOff(Duration::from_secs(80))),
        ..ContainerReadiness::default()
    });
    let running = Containers::Running {
        container_runs: &container_runs,
        readiness: &readiness,
    };
    let patch = patch(running, None, 9);
    assert_eq!(patch["status"]["phase"], "Running");
    let status = &patch["status"]["containerStatuses"][0];
    assert_eq!(
        status["state"]["waiting"]["message"],
        "back-off 1m20s restarting failed container=main pod=web-0_(u)"
    );
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 3);
    assert_eq!(
        status["lastState"]["terminated"]["finishedAt"],
        "1970-01-01T00:00:08Z"
    );
    assert_eq!(
        (&status["ready"], &status["started"]),
        (&json!(false), &json!(false))
    );
}
