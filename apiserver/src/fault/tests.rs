use std::sync::Arc;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::*;
use crate::clock::Clock;
use crate::json::{Value, from_value, json};
use crate::meta::ResourceVersion;
use crate::request::RequestInfo;
use crate::storage::EventType;

fn asked(method: &Method, path: &str) -> RequestFacts {
    let info = RequestInfo::parse(method, path, "").unwrap();
    RequestFacts::of(&info, "statefulset-controller/1.36 (x)").unwrap()
}

/// The effects on a request with this body, when the last resource version is `last`.
fn effects(faults: &Faults, asked: &RequestFacts, body: &[u8], last: u64) -> Vec<Effect> {
    let met = faults.meet(Some(asked.clone()), body, ResourceVersion::new(last));
    met.effects
}

fn requests(yaml: Value) -> Requests {
    from_value(yaml).unwrap()
}

#[test]
fn a_rule_is_about_what_all_its_fields_agree_with() {
    let pod = asked(&Method::DELETE, "/api/v1/namespaces/default/pods/web-1");
    let set = "/apis/apps/v1/namespaces/default/statefulsets/web/status";
    let status = asked(&Method::PUT, set);
    let rule = |value| requests(value);
    assert!(Requests::default().include(&pod));
    let of_pod = rule(json!({
        "verb": "delete", "resource": "pods", "name": "web-1", "from": "statefulset-controller"
    }));
    assert!(of_pod.include(&pod) && !of_pod.include(&status));
    assert!(rule(json!({"resource": "statefulsets.apps/status"})).include(&status));
    assert!(!rule(json!({"resource": "statefulsets"})).include(&status));
    assert!(!rule(json!({"resource": "statefulsets.x/status"})).include(&status));
    assert!(!rule(json!({"from": "kubelet"})).include(&pod));
}

#[tokio::test(start_paused = true)]
async fn a_rule_meets_as_many_requests_as_it_says_and_ends_in_time() {
    let faults = Faults::new(Clock::simulated(Timestamp::UNIX_EPOCH));
    let create = asked(&Method::POST, "/api/v1/namespaces/default/pods");
    let named = br#"{"metadata":{"name":"web-1"}}"#;
    faults.inject(Fault {
        name: "second".to_owned(),
        requests: requests(json!({"name": "web-1"})),
        after: 1,
        times: Some(1),
        lasts: None,
        effect: Effect::DropResponse,
    });
    let meet = |body: &[u8]| effects(&faults, &create, body, 1);
    assert_eq!(meet(b"{}"), []);
    assert_eq!(meet(named), []);
    assert_eq!(meet(named), [Effect::DropResponse]);
    assert_eq!(meet(named), []);
    assert_eq!(faults.met()[0].1, 1);
    faults.inject(Fault {
        name: "minute".to_owned(),
        requests: Requests::default(),
        after: 0,
        times: None,
        lasts: Some(Duration::from_secs(60)),
        effect: Effect::Unreachable,
    });
    assert_eq!(meet(b"{}"), [Effect::Unreachable]);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(meet(b"{}"), []);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_held_goes_on_when_the_fault_is_lifted() {
    let faults = Faults::new(Clock::simulated(Timestamp::UNIX_EPOCH));
    let watch = asked(&Method::GET, "/api/v1/watch/pods");
    faults.inject(Fault {
        name: "held".to_owned(),
        requests: requests(json!({"verb": "watch", "resource": "pods"})),
        after: 0,
        times: None,
        lasts: None,
        effect: Effect::Hold,
    });
    let mut held = std::pin::pin!(faults.let_deliver(&watch));
    assert!(futures::poll!(held.as_mut()).is_pending());
    assert!(faults.lift("held"));
    assert_eq!(held.await, Turn::Deliver);
    assert_eq!(faults.met()[0].1, 1);
}

fn rule(value: Value) -> Fault {
    from_value(value).unwrap()
}

#[test]
fn a_fault_has_exactly_one_effect_and_durations_with_units() {
    let missed = rule(json!({ "name": "a", "miss": "1m30s", "for": "500ms", "times": 2 }));
    assert_eq!(missed.effect, Effect::MissEvents(Duration::from_secs(90)));
    assert_eq!(missed.lasts, Some(Duration::from_millis(500)));
    assert_eq!(
        rule(json!({ "name": "b", "crash": "after" })).effect,
        Effect::Crash(Crash::After)
    );
    for wrong in [
        json!({ "name": "a" }),
        json!({ "name": "a", "hold": true, "break": true }),
    ] {
        let error = from_value::<Fault>(wrong).unwrap_err();
        assert!(error.to_string().contains("needs one of"), "{error}");
    }
    let unitless = from_value::<Fault>(json!({ "name": "a", "miss": "90" }));
    assert!(
        unitless
            .unwrap_err()
            .to_string()
            .contains("is not a duration")
    );
}

#[test]
fn points_name_the_faults_that_meet_them_and_no_others() {
    let faults = Faults::new(Clock::real());
    let create = asked(&Method::POST, "/api/v1/namespaces/default/pods");
    let pod = |name: &str| json!({ "metadata": { "name": name } }).to_string();
    let meet = |name: &str| effects(&faults, &create, pod(name).as_bytes(), 7);
    faults.record_points();
    for name in ["web-0", "web-1", "web-0"] {
        assert_eq!(meet(name), []);
    }
    let points = faults.points();
    let described: Vec<String> = points.iter().map(ToString::to_string).collect();
    assert_eq!(
        described,
        [
            "create pods web-0 from statefulset-controller",
            "create pods web-1 from statefulset-controller",
            "create pods web-0 #2 from statefulset-controller",
        ]
    );
    assert_eq!(
        (points[2].nth, points[2].after_rv),
        (1, ResourceVersion::new(7))
    );
    assert!(points[0].is_write());
    let again = Faults::new(Clock::real());
    again.inject(points[2].fault("third", Effect::DropResponse));
    let met: Vec<bool> = ["web-0", "web-1", "web-0", "web-0"]
        .map(|name| effects(&again, &create, pod(name).as_bytes(), 7))
        .map(|effects| !effects.is_empty())
        .into();
    assert_eq!(met, [false, false, true, false]);
}

#[test]
fn events_are_counted_by_the_object_they_are_about() {
    let faults = Faults::new(Clock::real());
    let watch = asked(&Method::GET, "/api/v1/watch/pods");
    faults.inject(rule(json!({
        "name": "second", "on": { "verb": "watch", "resource": "pods", "name": "web-1" },
        "after": 1, "times": 1, "expire": true,
    })));
    let meet =
        |name| faults.meet_event(&watch, (name, EventType::Modified, ResourceVersion::new(3)));
    assert_eq!(effects(&faults, &watch, b"", 3), []);
    assert_eq!(meet("web-1"), None);
    assert_eq!(meet("web-0"), None);
    assert_eq!(meet("web-1"), Some(EventEffect::Expire));
    assert_eq!(meet("web-1"), None);
}

#[tokio::test(start_paused = true)]
async fn a_view_is_what_all_rules_together_leave() {
    let faults = Faults::new(Clock::simulated(Timestamp::UNIX_EPOCH));
    let watch = asked(&Method::GET, "/api/v1/watch/pods");
    assert_eq!(faults.view(&watch), View::default());
    faults.inject(rule(json!({ "name": "a", "stale": 3, "for": "1m" })));
    faults.inject(rule(json!({ "name": "b", "withholdBookmarks": true })));
    let view = faults.view(&watch);
    assert_eq!((view.lag, view.withholds_bookmarks), (3, true));
    assert_eq!(faults.until(view.ends.unwrap()), Duration::from_secs(60));
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(
        (faults.view(&watch).lag, faults.view(&watch).ends),
        (0, None)
    );
}

#[test]
fn what_is_planned_strikes_before_what_is_injected() {
    let faults = Faults::new(Clock::real());
    let create = asked(&Method::POST, "/api/v1/namespaces/default/pods");
    let on = json!({ "verb": "create", "resource": "pods" });
    let with = |more: Value| {
        let mut fault = json!({ "name": "x", "on": on });
        let fields = more.as_object().unwrap().clone();
        fault.as_object_mut().unwrap().extend(fields);
        rule(fault)
    };
    let refusal = || with(json!({ "refuse": { "code": 403 } })).effect;
    faults.inject(with(json!({ "after": 1, "refuse": { "code": 403 } })));
    faults.plan(with(json!({ "times": 1, "crash": "before" })));
    faults.plan(with(json!({ "after": 2, "times": 1, "loseAnswer": true })));
    faults.plan(with(json!({ "after": 3, "times": 1, "crash": "after" })));
    faults.plan(with(json!({ "after": 3, "times": 1, "loseAnswer": true })));
    let meet = || effects(&faults, &create, b"{}", 1);
    assert_eq!(meet(), [Effect::Crash(Crash::Before)]);
    assert_eq!(meet(), [], "the first that came there is let through");
    assert_eq!(meet(), [Effect::DropResponse, refusal()]);
    assert_eq!(meet(), [Effect::Crash(Crash::After), refusal()]);
    // Two at one point: the second strikes when it is tried again.
    assert_eq!(meet(), [Effect::DropResponse, refusal()]);
    assert_eq!(meet(), [refusal()]);
}

#[test]
fn a_plan_begins_where_its_first_fault_would_strike_and_alone() {
    let faults = Faults::new(Clock::simulated(Timestamp::UNIX_EPOCH));
    let refusal = |name: &str, after| Fault {
        name: name.to_owned(),
        requests: requests(json!({"verb": "create"})),
        after,
        times: Some(1),
        lasts: None,
        effect: Effect::DropResponse,
    };
    faults.inject(refusal("own", 100));
    let asked_for = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked_for);
    let takes = move |index| {
        seen.lock().push(index);
        index == 2
    };
    let plans = vec![
        vec![refusal("passed over", 0)],
        vec![refusal("too late", 2)],
        vec![refusal("second", 3), refusal("first", 1)],
    ];
    faults.branch(plans, Arc::new(takes));
    let create = asked(&Method::POST, "/api/v1/namespaces/default/pods");
    let meet = || effects(&faults, &create, b"{}", 1).len();
    assert_eq!([meet(), meet(), meet(), meet(), meet()], [0, 1, 0, 1, 0]);
    assert_eq!(*asked_for.lock(), [0, 2]);
    let met = faults.met();
    let met: Vec<_> = met
        .iter()
        .map(|(fault, met)| (&*fault.name, *met))
        .collect();
    assert_eq!(met, [("own", 0), ("second", 1), ("first", 1)]);
}
