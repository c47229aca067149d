//! How a simulated pod moves on: a pure function of what is known and of the time.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::directives::{Delay, Directives, ForcedPhase};

/// How far a pod has come on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Bound to the node; nothing reported yet.
    Bound,
    /// Reported as `ContainerCreating`.
    Creating { since: Timestamp },
    /// Its containers run.
    Running,
    /// All containers have ended, for good.
    Ended,
    /// The node has let go of it; what is left is the API server's business.
    Released,
}

/// A container that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instance {
    pub(super) image: String,
    pub(super) restarts: i32,
    pub(super) since: Timestamp,
}

/// What the API shows of a running pod, as far as it moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Readiness {
    /// By container name.
    pub(super) containers: BTreeMap<String, bool>,
    /// All containers and all readiness gates.
    pub(super) pod: bool,
}

/// What a decision is made from.
pub(super) struct View<'a> {
    pub(super) directives: Directives,
    /// Every claim the pod names is bound.
    pub(super) volumes_bound: bool,
    pub(super) gates_met: bool,
    pub(super) deletion: Option<Deletion>,
    /// Container name to image, as the spec has it.
    pub(super) images: &'a BTreeMap<String, String>,
    /// The containers that run, by name.
    pub(super) instances: &'a BTreeMap<String, Instance>,
    /// What was reported last.
    pub(super) reported: &'a Readiness,
}

/// A deletion the node has heard of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deletion {
    pub(super) since: Timestamp,
    pub(super) grace: Duration,
}

/// How containers end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Completed,
    Error,
    /// By SIGKILL, at the end of the grace period.
    Killed,
    /// The pod was deleted before any of them ran.
    Unstarted,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing until a change or, if given, that time.
    Wait(Option<Timestamp>),
    ReportCreating,
    Start,
    /// These containers run another image than the spec says.
    Restart(Vec<String>),
    Report(Readiness),
    End(Ending),
    /// The last DELETE, with no grace.
    Release,
}

/// The next step of a pod.
pub(super) fn next(stage: Stage, view: &View<'_>, now: Timestamp) -> Step {
    if let Some(deletion) = view.deletion {
        // A silent node doesn't act on deletions.
        let Delay::After(stop) = view.directives.stop else {
            return Step::Wait(None);
        };
        return match stage {
            Stage::Released => Step::Wait(None),
            // What never ran has failed, so that nobody takes the pod for one yet to come.
            Stage::Bound | Stage::Creating { .. } => Step::End(Ending::Unstarted),
            Stage::Ended => Step::Release,
            Stage::Running => stopping(view, stop, deletion, now),
        };
    }
    match stage {
        Stage::Bound => Step::ReportCreating,
        Stage::Creating { since } => creating(view, since, now),
        Stage::Running => running(view, now),
        Stage::Ended | Stage::Released => Step::Wait(None),
    }
}

fn stopping(view: &View<'_>, stop: Duration, deletion: Deletion, now: Timestamp) -> Step {
    let due = after(deletion.since, stop.min(deletion.grace));
    if now >= due {
        return Step::End(if stop > deletion.grace {
            Ending::Killed
        } else {
            Ending::Completed
        });
    }
    match running(view, now) {
        Step::Wait(wake) => Step::Wait(Some(wake.map_or(due, |wake| wake.min(due)))),
        // No container of a pod on its way out is started again.
        Step::Restart(_) => Step::Wait(Some(due)),
        step => step,
    }
}

fn creating(view: &View<'_>, since: Timestamp, now: Timestamp) -> Step {
    let Delay::After(start) = view.directives.start else {
        return Step::Wait(None);
    };
    if !view.volumes_bound || view.directives.phase == Some(ForcedPhase::Pending) {
        return Step::Wait(None);
    }
    let due = after(since, start);
    if now < due {
        return Step::Wait(Some(due));
    }
    forced_ending(view).map_or(Step::Start, Step::End)
}

fn running(view: &View<'_>, now: Timestamp) -> Step {
    if let Some(ending) = forced_ending(view) {
        return Step::End(ending);
    }
    let outdated: Vec<String> = view
        .instances
        .iter()
        .filter(|(name, instance)| {
            view.images
                .get(*name)
                .is_some_and(|image| *image != instance.image)
        })
        .map(|(name, _)| name.clone())
        .collect();
    if !outdated.is_empty() {
        return Step::Restart(outdated);
    }
    let (readiness, wake) = readiness(view.directives, view.instances, view.gates_met, now);
    if readiness == *view.reported {
        Step::Wait(wake)
    } else {
        Step::Report(readiness)
    }
}

fn forced_ending(view: &View<'_>) -> Option<Ending> {
    match view.directives.phase? {
        ForcedPhase::Failed => Some(Ending::Error),
        ForcedPhase::Succeeded => Some(Ending::Completed),
        ForcedPhase::Pending => None,
    }
}

/// Which containers are ready at `now`, and when the next one will be.
pub(super) fn readiness(
    directives: Directives,
    instances: &BTreeMap<String, Instance>,
    gates_met: bool,
    now: Timestamp,
) -> (Readiness, Option<Timestamp>) {
    let ready_at = |instance: &Instance| match directives.ready_after {
        Delay::After(delay) if directives.ready => Some(after(instance.since, delay)),
        Delay::After(_) | Delay::Never => None,
    };
    let containers: BTreeMap<String, bool> = instances
        .iter()
        .map(|(name, instance)| {
            let ready = ready_at(instance).is_some_and(|at| now >= at);
            (name.clone(), ready)
        })
        .collect();
    let pod = gates_met && containers.values().all(|ready| *ready);
    let wake = instances
        .values()
        .filter_map(ready_at)
        .filter(|at| *at > now)
        .min();
    (Readiness { containers, pod }, wake)
}

/// `time` moved on by `delay`; past the end of time, its end.
pub(super) fn after(time: Timestamp, delay: Duration) -> Timestamp {
    time.checked_add(delay).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn seconds(seconds: u64) -> Delay {
        Delay::After(Duration::from_secs(seconds))
    }

    fn calm() -> Directives {
        Directives {
            ready: true,
            phase: None,
            start: seconds(2),
            ready_after: seconds(3),
            stop: seconds(4),
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
        directives: Directives,
        volumes_bound: bool,
        gates_met: bool,
        deletion: Option<Deletion>,
        image: &'static str,
        reported: bool,
        now: i64,
    }

    /// A pod whose container started at 10 with image `v1`.
    fn case(stage: Stage, now: i64) -> Case {
        Case {
            stage,
            directives: calm(),
            volumes_bound: true,
            gates_met: true,
            deletion: None,
            image: "v1",
            reported: false,
            now,
        }
    }

    fn readiness_of(ready: bool) -> Readiness {
        Readiness {
            containers: BTreeMap::from([("main".to_owned(), ready)]),
            pod: ready,
        }
    }

    fn check(case: Case, expected: &Step) {
        let images = BTreeMap::from([("main".to_owned(), case.image.to_owned())]);
        let instance = Instance {
            image: "v1".to_owned(),
            restarts: 0,
            since: at(10),
        };
        let view = View {
            directives: case.directives,
            volumes_bound: case.volumes_bound,
            gates_met: case.gates_met,
            deletion: case.deletion,
            images: &images,
            instances: &BTreeMap::from([("main".to_owned(), instance)]),
            reported: &readiness_of(case.reported),
        };
        assert_eq!(next(case.stage, &view, at(case.now)), *expected);
    }

    #[test]
    fn containers_start_after_the_delay_and_once_volumes_are_bound() {
        let creating = Stage::Creating { since: at(0) };
        check(case(Stage::Bound, 0), &Step::ReportCreating);
        check(case(creating, 1), &Step::Wait(Some(at(2))));
        check(case(creating, 2), &Step::Start);
        let unbound = Case {
            volumes_bound: false,
            ..case(creating, 9)
        };
        check(unbound, &Step::Wait(None));
        for (directives, expected) in [
            (
                Directives {
                    start: Delay::Never,
                    ..calm()
                },
                Step::Wait(None),
            ),
            (
                Directives {
                    phase: Some(ForcedPhase::Pending),
                    ..calm()
                },
                Step::Wait(None),
            ),
            (
                Directives {
                    phase: Some(ForcedPhase::Failed),
                    ..calm()
                },
                Step::End(Ending::Error),
            ),
        ] {
            check(
                Case {
                    directives,
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
            directives: Directives {
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
    fn another_image_restarts_the_container() {
        let changed = Case {
            image: "v2",
            reported: true,
            ..case(Stage::Running, 20)
        };
        check(changed, &Step::Restart(vec!["main".to_owned()]));
        let dying = Case {
            image: "v2",
            reported: true,
            deletion: deletion(20, 30),
            ..case(Stage::Running, 21)
        };
        check(dying, &Step::Wait(Some(at(24))));
    }

    #[test]
    fn a_deleted_pod_stops_within_its_grace() {
        let deleted = |grace, now| Case {
            deletion: deletion(20, grace),
            reported: true,
            ..case(Stage::Running, now)
        };
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
                directives: Directives {
                    stop: Delay::Never,
                    ..calm()
                },
                deletion: deletion(20, 30),
                ..case(stage, 900)
            };
            check(silent, &Step::Wait(None));
        }
    }
}
