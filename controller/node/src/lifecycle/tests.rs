use kubeproof_machinery::json::json;
use kubeproof_runtime::decode::from_value;

use super::*;
use crate::restart_policy::{Exit, RestartPolicy};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn seconds(seconds: u64) -> Delay {
    Delay::After(Duration::from_secs(seconds))
}

fn calm() -> Behavior {
    Behavior {
        ready: true,
        phase: None,
        start: seconds(2),
        ready_after: seconds(3),
        stop: seconds(4),
        signals: None,
    }
}

fn deletion(since: i64, grace: u64) -> Option<Deletion> {
    Some(Deletion {
        since: at(since),
        grace: Duration::from_secs(grace),
    })
}

struct Case {
    stage: Stage,
    behavior: Behavior,
    volumes_bound: bool,
    gates_met: bool,
    deletion: Option<Deletion>,
    deadline: Option<Timestamp>,
    image: &'static str,
    reported: bool,
    /// Whether the container has been asked to stop.
    dismissed: bool,
    now: i64,
}

/// Returns a pod whose container started at 10 s with image `v1`.
fn case(stage: Stage, now: i64) -> Case {
    Case {
        stage,
        behavior: calm(),
        volumes_bound: true,
        gates_met: true,
        deletion: None,
        deadline: None,
        image: "v1",
        reported: false,
        dismissed: false,
        now,
    }
}

fn readiness_of(ready: bool) -> Readiness {
    let main = ContainerReadiness {
        ready: Some(ready),
        started: true,
        ..ContainerReadiness::default()
    };
    let mut readiness = Readiness::default();
    readiness.set("main", main);
    readiness.pod = ready;
    readiness
}

/// Returns the one container of a pod with a restart policy.
fn lone(image: &str, policy: RestartPolicy) -> Vec<ContainerSpec> {
    let container = json!({ "name": "main", "image": image });
    let spec = json!({ "containers": [container], "restartPolicy": format!("{policy:?}") });
    ContainerSpec::all(&from_value(spec).unwrap())
}

fn main() -> Vec<String> {
    vec!["main".to_owned()]
}

fn check(case: Case, expected: &Step) {
    let container_specs = lone(case.image, RestartPolicy::Always);
    let started = &lone("v1", RestartPolicy::Always)[0];
    let mut container_run = ContainerRun::first(started, at(10));
    container_run.dismissed = case.dismissed;
    let container_runs = match case.stage {
        Stage::Bound | Stage::Creating { .. } => ContainerRuns::default(),
        _ => ContainerRuns::from_iter([("main".into(), container_run)]),
    };
    let view = View {
        behavior: case.behavior,
        volumes_bound: case.volumes_bound,
        gates_met: case.gates_met,
        deletion: case.deletion,
        deadline: case.deadline,
        grace: Duration::from_secs(30),
        container_specs: &container_specs,
        container_runs: &container_runs,
        held: &BTreeMap::new(),
        reported: &readiness_of(case.reported),
    };
    assert_eq!(next(case.stage, &view, at(case.now)), *expected);
}

#[test]
fn containers_start_after_the_delay_and_once_volumes_are_bound() {
    let creating = Stage::Creating { since: at(0) };
    check(case(Stage::Bound, 0), &Step::ReportCreating);
    check(case(creating, 1), &Step::Wait(Some(at(2))));
    check(case(creating, 2), &Step::Start(main()));
    let unbound = Case {
        volumes_bound: false,
        ..case(creating, 9)
    };
    check(unbound, &Step::Wait(None));
    for (behavior, expected) in [
        (
            Behavior {
                start: Delay::Never,
                ..calm()
            },
            Step::Wait(None),
        ),
        (
            Behavior {
                phase: Some(ForcedPhase::Pending),
                ..calm()
            },
            Step::Wait(None),
        ),
        (
            Behavior {
                phase: Some(ForcedPhase::Failed),
                ..calm()
            },
            Step::End(Ending::Error),
        ),
    ] {
        check(
            Case {
                behavior,
                ..case(creating, 9)
            },
            &expected,
        );
    }
}

#[test]
fn readiness_follows_the_delay_the_gates_and_the_annotation() {
    check(case(Stage::Running, 11), &Step::Wait(Some(at(13))));
    check(case(Stage::Running, 13), &Step::Report(readiness_of(true)));
    let done = Case {
        reported: true,
        ..case(Stage::Running, 14)
    };
    check(done, &Step::Wait(None));
    let flipped = Case {
        behavior: Behavior {
            ready: false,
            ..calm()
        },
        reported: true,
        ..case(Stage::Running, 14)
    };
    check(flipped, &Step::Report(readiness_of(false)));
    let gated = Case {
        gates_met: false,
        reported: true,
        ..case(Stage::Running, 14)
    };
    let expected = Readiness {
        pod: false,
        ..readiness_of(true)
    };
    check(gated, &Step::Report(expected));
}

#[test]
fn nothing_is_kept_of_a_container_without_a_report() {
    let mut readiness = Readiness::default();
    let ended = ContainerReadiness {
        halt: Some(Halt::Terminated),
        ..ContainerReadiness::default()
    };
    readiness.set("init", ended.clone());
    assert_eq!(readiness.of("init"), &ended);
    readiness.forget_halt("init");
    assert_eq!(readiness.of("init"), &ContainerReadiness::default());
    assert_eq!(readiness, Readiness::default());
}

#[test]
fn another_image_restarts_the_container() {
    let changed = Case {
        image: "v2",
        reported: true,
        ..case(Stage::Running, 20)
    };
    check(changed, &Step::Launch(main()));
    let dying = Case {
        image: "v2",
        reported: true,
        deletion: deletion(20, 30),
        dismissed: true,
        ..case(Stage::Running, 21)
    };
    check(dying, &Step::Wait(Some(at(24))));
}

#[test]
fn a_pod_is_active_no_longer_than_it_may() {
    let limited = |stage, now| Case {
        deadline: Some(at(12)),
        ..case(stage, now)
    };
    check(limited(Stage::Running, 11), &Step::Wait(Some(at(12))));
    check(limited(Stage::Running, 12), &Step::End(Ending::Overdue));
    let creating = Stage::Creating { since: at(10) };
    check(limited(creating, 12), &Step::End(Ending::Overdue));
    check(limited(Stage::Ended, 12), &Step::Wait(None));
}

#[test]
fn a_deleted_pod_stops_within_its_grace() {
    let deleted = |grace, now| Case {
        deletion: deletion(20, grace),
        reported: true,
        dismissed: true,
        ..case(Stage::Running, now)
    };
    let undismissed = Case {
        dismissed: false,
        ..deleted(30, 21)
    };
    let order = Stopping {
        since: at(20),
        grace: Duration::from_secs(30),
        is_foreign: false,
    };
    check(undismissed, &Step::Dismiss(main(), order));
    check(deleted(30, 23), &Step::Wait(Some(at(24))));
    check(deleted(30, 24), &Step::End(Ending::Completed));
    check(deleted(1, 21), &Step::End(Ending::Killed));
    let unstarted = Step::End(Ending::Unstarted);
    for (stage, expected) in [
        (Stage::Bound, unstarted.clone()),
        (Stage::Creating { since: at(0) }, unstarted),
        (Stage::Ended, Step::Release),
        (Stage::Released, Step::Wait(None)),
    ] {
        let deleted = Case {
            deletion: deletion(20, 30),
            ..case(stage, 20)
        };
        check(deleted, &expected);
    }
}

#[test]
fn a_silent_node_never_finishes_a_deletion() {
    for stage in [Stage::Bound, Stage::Running, Stage::Ended] {
        let silent = Case {
            behavior: Behavior {
                stop: Delay::Never,
                ..calm()
            },
            deletion: deletion(20, 30),
            ..case(stage, 900)
        };
        check(silent, &Step::Wait(None));
    }
}

/// Returns the time and name of each step of a lone container that starts at 100 s and exits with
/// `code` after every `runs` seconds.
fn story(policy: RestartPolicy, code: i32, runs: i64, steps: usize) -> Vec<String> {
    let container_specs = lone("v1", policy);
    let mut container_run = ContainerRun::first(&container_specs[0], at(100));
    let mut reported = readiness_of(false);
    let mut now = at(100 + runs);
    let mut taken = Vec::new();
    while taken.len() < steps {
        if container_run.exit.is_none() {
            now = now.max(after(
                container_run.since,
                Duration::from_secs(runs.unsigned_abs()),
            ));
            container_run.exit = Some(Exit {
                code,
                at: now,
                killed: false,
            });
        }
        let container_runs = ContainerRuns::from_iter([("main".into(), container_run.clone())]);
        let view = View {
            behavior: calm(),
            volumes_bound: true,
            gates_met: true,
            deletion: None,
            deadline: None,
            grace: Duration::from_secs(30),
            container_specs: &container_specs,
            container_runs: &container_runs,
            held: &BTreeMap::new(),
            reported: &reported,
        };
        let step = next(Stage::Running, &view, now);
        let at = now.as_second();
        match step {
            Step::Wait(Some(wake)) => now = wake,
            Step::Launch(_) => {
                taken.push(format!("{at} restart"));
                container_run.restart(&container_specs[0], now);
                reported = readiness_of(false);
            }
            Step::Report(readiness) => {
                taken.push(match readiness.of("main").halt {
                    Some(Halt::Terminated) => format!("{at} terminated"),
                    Some(Halt::Unstarted) => format!("{at} unstarted"),
                    Some(Halt::BackOff(wait)) => format!("{at} waits {}", wait.as_secs()),
                    None => format!("{at} runs"),
                });
                reported = readiness;
            }
            Step::End(ending) => {
                taken.push(format!("{at} {ending:?}"));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    taken
}

#[test]
fn who_ends_again_and_again_waits_ever_longer() {
    let steps = story(RestartPolicy::Always, 1, 1, 8);
    let expected = [
        "101 terminated",
        "101 restart",
        "102 terminated",
        "102 waits 10",
        "112 restart",
        "113 terminated",
        "113 waits 20",
        "133 restart",
    ];
    assert_eq!(steps, expected);
    let long = story(RestartPolicy::OnFailure, 1, 601, 4);
    let expected = [
        "701 terminated",
        "701 restart",
        "1302 terminated",
        "1302 restart",
    ];
    assert_eq!(long, expected);
}

#[test]
fn the_policy_decides_whether_a_pod_ends() {
    for (policy, code, expected) in [
        (RestartPolicy::Never, 0, "101 Completed"),
        (RestartPolicy::Never, 3, "101 Error"),
        (RestartPolicy::OnFailure, 0, "101 Completed"),
        (RestartPolicy::OnFailure, 3, "101 terminated"),
        (RestartPolicy::Always, 0, "101 terminated"),
    ] {
        assert_eq!(story(policy, code, 1, 1), [expected], "{policy:?} {code}");
    }
}
