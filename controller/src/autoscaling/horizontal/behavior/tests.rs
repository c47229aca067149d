//! Cases in the manner of upstream's `TestScaleUpOneMetric…` and `TestNormalizeDesiredReplicas…` in `horizontal_test.go`.

use kubeproof_runtime::decode::from_value;
use serde_json::{Value, json};

use super::*;

const BEGIN: &str = "2026-01-01T00:00:00Z";

fn at(seconds: i64) -> Timestamp {
    let begin: Timestamp = BEGIN.parse().unwrap();
    begin + SignedDuration::from_secs(seconds)
}

fn limits(current: i32, desired: i32) -> Limits<'static> {
    Limits {
        current,
        desired,
        min: 1,
        max: 100,
        behavior: None,
    }
}

/// A behavior, completed as the API server does it.
fn behavior(up: &Value, down: &Value) -> HorizontalPodAutoscalerBehavior {
    let rules = |mut rules: Value, given: &Value| {
        for (key, value) in given.as_object().unwrap() {
            rules[key] = value.clone();
        }
        rules
    };
    let policies = json!([{"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15}]);
    let scale_up =
        json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": policies});
    let policies = json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]);
    let scale_down = json!({"selectPolicy": "Max", "policies": policies});
    let all = json!({"scaleUp": rules(scale_up, up), "scaleDown": rules(scale_down, down)});
    from_value(all).unwrap()
}

fn policies(policies: &[(&str, i32, i32)]) -> Value {
    let policies = policies.iter().map(
        |(kind, value, period)| json!({"type": kind, "value": value, "periodSeconds": period}),
    );
    json!({"policies": policies.collect::<Value>()})
}

#[test]
fn without_behavior_a_step_doubles_at_most_but_may_reach_four() {
    for (current, desired, replicas, reason) in [
        (1, 10, 4, "ScaleUpLimit"),
        (3, 10, 6, "ScaleUpLimit"),
        (60, 200, 100, "TooManyReplicas"),
        (5, 7, 7, "DesiredWithinRange"),
        (5, 0, 1, "TooFewReplicas"),
    ] {
        let found = Memory::default().normalize(limits(current, desired), at(0));
        assert_eq!((found.replicas, found.limit.0), (replicas, reason));
        assert_eq!(found.is_limited, reason != "DesiredWithinRange");
        assert_eq!(found.stabilized.0, "ReadyForNewScale");
    }
}

#[test]
fn without_behavior_the_highest_recommendation_of_five_minutes_counts() {
    let mut memory = Memory::default();
    memory.begin(5, at(0));
    let mut step = |desired, seconds| {
        let found = memory.normalize(limits(5, desired), at(seconds));
        (found.replicas, found.stabilized.0)
    };
    assert_eq!(step(2, 15), (5, "ScaleDownStabilized"));
    assert_eq!(step(3, 30), (5, "ScaleDownStabilized"));
    // The recommendation of the beginning counts up to its 300th second.
    assert_eq!(step(2, 300), (5, "ScaleDownStabilized"));
    assert_eq!(step(2, 301), (3, "ScaleDownStabilized"));
    assert_eq!(step(2, 331), (2, "ReadyForNewScale"));
    assert_eq!(step(9, 332), (9, "ReadyForNewScale"));
}

#[test]
fn old_recommendations_make_room_for_new_ones() {
    let mut memory = Memory::default();
    for step in 0..1000 {
        memory.normalize(limits(5, 5), at(step * 15));
    }
    // The recommendations of the last five minutes, with those at their first second.
    assert_eq!(memory.recommendations.len(), 21);
}

#[test]
fn windows_of_a_behavior_hold_back_growth_and_shrinking() {
    let windows = behavior(
        &json!({"stabilizationWindowSeconds": 60}),
        &json!({"stabilizationWindowSeconds": 120}),
    );
    let mut memory = Memory::default();
    let mut step = |current, desired, seconds| {
        let limits = Limits {
            behavior: Some(&windows),
            ..limits(current, desired)
        };
        let found = memory.normalize(limits, at(seconds));
        (found.replicas, found.stabilized.0)
    };
    assert_eq!(step(5, 5, 0), (5, "ReadyForNewScale"));
    // The lowest recommendation of a minute is still 5, then 8, then 10.
    assert_eq!(step(5, 8, 30), (5, "ScaleUpStabilized"));
    assert_eq!(step(5, 10, 60), (8, "ScaleUpStabilized"));
    assert_eq!(step(8, 10, 90), (10, "ReadyForNewScale"));
    assert_eq!(step(10, 3, 120), (10, "ScaleDownStabilized"));
    assert_eq!(step(10, 3, 209), (10, "ScaleDownStabilized"));
    assert_eq!(step(10, 3, 210), (3, "ReadyForNewScale"));
}

#[test]
fn a_scale_down_without_a_window_has_the_default_one() {
    let none = behavior(&json!({}), &json!({}));
    let mut memory = Memory::default();
    memory.begin(5, at(0));
    let mut step = |seconds| {
        let limits = Limits {
            behavior: Some(&none),
            ..limits(5, 1)
        };
        memory.normalize(limits, at(seconds)).replicas
    };
    assert_eq!([step(299), step(300)], [5, 1]);
}

/// The replicas that `behavior` allows after the scales noted, and the reason of a limit.
fn allowed(
    behavior: &HorizontalPodAutoscalerBehavior,
    scales: &[(i32, i32, i64)],
    current: i32,
    desired: i32,
) -> (i32, &'static str) {
    let mut memory = Memory::default();
    for (before, after, seconds) in scales {
        memory.note_scale(Some(behavior), (*before, *after), at(*seconds));
    }
    let limits = Limits {
        behavior: Some(behavior),
        ..limits(current, desired)
    };
    let found = memory.normalize(limits, at(100));
    (found.replicas, found.limit.0)
}

#[test]
fn the_default_policies_add_four_pods_or_double_in_fifteen_seconds() {
    let default = behavior(&json!({}), &json!({}));
    assert_eq!(allowed(&default, &[], 1, 50), (5, "ScaleUpLimit"));
    assert_eq!(allowed(&default, &[], 10, 50), (20, "ScaleUpLimit"));
    assert_eq!(allowed(&default, &[], 90, 120), (100, "TooManyReplicas"));
    assert_eq!(allowed(&default, &[], 10, 0), (1, "TooFewReplicas"));
}

#[test]
fn policies_limit_the_change_of_their_periods() {
    let up = policies(&[("Pods", 3, 60)]);
    let down = json!({"policies": policies(&[("Percent", 50, 60)])["policies"],
        "stabilizationWindowSeconds": 0});
    let both = behavior(&up, &down);
    assert_eq!(allowed(&both, &[], 10, 50), (13, "ScaleUpLimit"));
    // Replicas added in the period count, those added before do not.
    assert_eq!(
        allowed(&both, &[(10, 12, 90)], 12, 50),
        (13, "ScaleUpLimit")
    );
    assert_eq!(
        allowed(&both, &[(10, 12, 40)], 12, 50),
        (15, "ScaleUpLimit")
    );
    assert_eq!(
        allowed(&both, &[(10, 13, 90)], 13, 50),
        (13, "ScaleUpLimit")
    );
    // Replicas removed in the period may be added again.
    assert_eq!(
        allowed(&both, &[(12, 10, 90)], 10, 50),
        (15, "ScaleUpLimit")
    );
    assert_eq!(allowed(&both, &[], 10, 1), (5, "ScaleDownLimit"));
    assert_eq!(allowed(&both, &[(10, 6, 90)], 6, 1), (5, "ScaleDownLimit"));
    assert_eq!(allowed(&both, &[(10, 5, 90)], 5, 1), (5, "ScaleDownLimit"));
    assert_eq!(allowed(&both, &[(10, 5, 40)], 5, 1), (2, "ScaleDownLimit"));
    // A percentage rounds up what may be added, and down what may stay.
    let percent = behavior(&policies(&[("Percent", 10, 60)]), &json!({}));
    assert_eq!(allowed(&percent, &[], 1, 50), (2, "ScaleUpLimit"));
}

#[test]
fn the_select_policy_chooses_among_policies() {
    let two = |select: &str| {
        let mut rules = policies(&[("Pods", 2, 60), ("Percent", 50, 60)]);
        rules["selectPolicy"] = json!(select);
        rules["stabilizationWindowSeconds"] = json!(0);
        behavior(&rules, &rules)
    };
    for (select, up, down) in [("Max", 15, 5), ("Min", 12, 8), ("Disabled", 10, 10)] {
        let rules = two(select);
        assert_eq!(allowed(&rules, &[], 10, 50).0, up, "{select}");
        assert_eq!(allowed(&rules, &[], 10, 1).0, down, "{select}");
    }
}

#[test]
fn scales_are_noted_only_for_policies_and_old_ones_make_room() {
    let mut memory = Memory::default();
    memory.note_scale(None, (1, 2), at(0));
    assert_eq!(memory, Memory::default());
    let rules = behavior(&policies(&[("Pods", 3, 60)]), &json!({}));
    for step in 0..100 {
        memory.note_scale(Some(&rules), (1, 2), at(step * 30));
    }
    assert_eq!((memory.ups.len(), memory.downs.len()), (3, 0));
}

#[test]
fn sums_of_changes_wrap_around_at_32_bits_as_in_go() {
    let mut memory = Memory::default();
    let own = behavior(
        &policies(&[("Pods", i32::MAX, 60)]),
        &policies(&[("Pods", 1, 60)]),
    );
    for (before, after) in [
        (0, i32::MAX),
        (i32::MAX, 0),
        (0, i32::MAX),
        (i32::MIN, i32::MAX),
    ] {
        memory.note_scale(Some(&own), (before, after), at(0));
    }
    // It grew by -2 and by -1, and shrank by 2^31 - 1: the period began with 2^31 + 9.
    let rules = own.scale_up.as_ref();
    let start = 7_i32.wrapping_add(3).wrapping_add(i32::MAX);
    assert_eq!(
        memory.up_limit(7, rules, at(1)),
        start.wrapping_add(i32::MAX)
    );
    let rules = own.scale_down.as_ref();
    assert_eq!(memory.down_limit(7, rules, at(1)), start.wrapping_sub(1));
}
