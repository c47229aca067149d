use kubeproof_runtime::decode::from_value;
use serde_json::{Value, json};

use super::super::metrics::{Reading, Unread};
use super::*;

const NOW: &str = "2026-01-01T00:00:00Z";

/// An autoscaler of external metrics, each of which has to be 10 per pod.
fn autoscaler(metrics: &[&str]) -> HorizontalPodAutoscaler {
    let target = json!({"type": "AverageValue", "averageValue": "10"});
    let metrics = metrics.iter().map(|name| {
        json!({"type": "External", "external": {"metric": {"name": name}, "target": target}})
    });
    let spec = json!({"minReplicas": 2, "maxReplicas": 20, "metrics": metrics.collect::<Value>(),
        "scaleTargetRef": {"kind": "Deployment", "name": "web"}});
    let metadata = json!({"name": "web", "namespace": "default"});
    from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn scale(replicas: i32) -> Scale {
    let all = json!({"spec": {"replicas": replicas}, "status": {"replicas": replicas}});
    from_value(all).unwrap()
}

fn decided(metrics: &[&str], observations: &[Observation]) -> (Decision, Draft) {
    let hpa = autoscaler(metrics);
    let (mut memory, mut draft) = (Memory::default(), Draft::of(&hpa, NOW.parse().unwrap()));
    let read = (&[][..], observations);
    let decision = by_metrics(&hpa, &scale(5), read, &mut memory, &mut draft);
    (decision, draft)
}

fn value(value: i64) -> Observation {
    Ok(Reading::Values(vec![value * 1000]))
}

fn gone() -> Observation {
    Err(Unread::Api("gone".to_owned()))
}

fn condition(draft: &Draft, kind: &str) -> (String, String, String) {
    let mut conditions = draft.status.conditions.iter().flatten();
    let found = conditions.find(|own| own.type_ == kind).unwrap().clone();
    let text = Option::unwrap_or_default;
    (found.status, text(found.reason), text(found.message))
}

#[test]
fn the_greatest_proposal_of_several_metrics_counts() {
    let (decision, draft) = decided(&["a", "b", "c"], &[value(60), value(80), value(20)]);
    let rescale = Rescale {
        replicas: 8,
        reason: "external metric b(nil) above target".to_owned(),
    };
    assert_eq!((decision.rescale, decision.failure), (Some(rescale), None));
    assert_eq!(decision.metrics.len(), 3);
    let active = condition(&draft, SCALING_ACTIVE);
    let message =
        "the HPA was able to successfully calculate a replica count from external metric b(nil)";
    let expected = ("True", "ValidMetricFound", message);
    assert_eq!((&*active.0, &*active.1, &*active.2), expected);
}

#[test]
fn a_metric_that_fails_prevents_shrinking_but_not_growing() {
    let (decision, draft) = decided(&["a", "b"], &[gone(), value(80)]);
    assert_eq!(decision.rescale.unwrap().replicas, 8);
    assert_eq!(decision.failure, None);
    assert_eq!(decision.metrics[0].type_, "");
    assert_eq!(draft.events[0].reason, "FailedGetExternalMetric");
    let (decision, draft) = decided(&["a", "b"], &[gone(), value(20)]);
    let error = "failed to get a external metric value: failed to get a external metric: unable to get external metric default/a/nil: gone";
    let failure = format!("invalid metrics (1 invalid out of 2), first error is: {error}");
    assert_eq!((decision.rescale, decision.failure), (None, Some(failure)));
    let (status, reason, _) = condition(&draft, SCALING_ACTIVE);
    assert_eq!((&*status, &*reason), ("False", "FailedGetExternalMetric"));
    // A proposal of the present number is not a scale-down.
    let (decision, _) = decided(&["a", "b"], &[gone(), value(50)]);
    assert_eq!((decision.rescale, decision.failure), (None, None));
}

#[test]
fn without_any_metric_nothing_is_decided() {
    let (decision, draft) = decided(&["a", "b"], &[gone(), gone()]);
    assert!(
        decision
            .failure
            .unwrap()
            .starts_with("invalid metrics (2 invalid out of 2)")
    );
    assert_eq!(draft.events.len(), 2);
}

#[test]
fn the_limits_of_an_autoscaler_come_before_its_metrics() {
    let hpa = autoscaler(&[]);
    let limit = |replicas, reason| Plan::Limit { replicas, reason };
    let below = "Current number of replicas below Spec.MinReplicas";
    let above = "Current number of replicas above Spec.MaxReplicas";
    for (current, expected) in [
        (0, Plan::Disabled),
        (1, limit(2, below)),
        (2, Plan::Metrics),
        (20, Plan::Metrics),
        (21, limit(20, above)),
    ] {
        assert_eq!(plan(&hpa, current), expected, "{current}");
    }
}

#[test]
fn tolerances_are_those_of_the_behavior() {
    let mut hpa = autoscaler(&[]);
    assert_eq!(tolerances(&hpa), Tolerances::DEFAULT);
    let behavior = json!({"scaleUp": {"tolerance": "50m"}, "scaleDown": {}});
    hpa.spec.behavior = from_value(behavior).unwrap();
    let expected = Tolerances {
        down: 0.1,
        up: 0.05,
    };
    assert_eq!(tolerances(&hpa), expected);
}

#[test]
fn a_condition_changes_its_time_only_with_its_status() {
    let hpa = autoscaler(&[]);
    let mut draft = Draft::of(&hpa, NOW.parse().unwrap());
    let later = "2026-01-01T00:01:00Z".parse().unwrap();
    draft.set(ABLE_TO_SCALE, true, "A", "a");
    draft.now = later;
    draft.set(ABLE_TO_SCALE, true, "B", "b");
    let time = |draft: &Draft| {
        let conditions = draft.status.conditions.as_ref().unwrap();
        assert_eq!(conditions.len(), 1);
        conditions[0].last_transition_time.as_ref().unwrap().0
    };
    assert_eq!(time(&draft), NOW.parse().unwrap());
    assert_eq!(condition(&draft, ABLE_TO_SCALE).1, "B");
    draft.set(ABLE_TO_SCALE, false, "C", "c");
    assert_eq!(time(&draft), later);
}
