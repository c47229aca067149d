//! Cases in the manner of upstream's `replica_calculator_test.go`.

use kubeproof_runtime::decode::from_value;
use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T01:00:00Z";

fn ago(minutes: i64) -> String {
    let now: Timestamp = NOW.parse().unwrap();
    (now - SignedDuration::from_mins(minutes)).to_string()
}

/// A pod with one container that requests one processor and 1 KiB, ready since its start an hour ago.
fn pod(name: &str) -> Value {
    let requests = json!({"requests": {"cpu": "1", "memory": "1Ki"}});
    json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "app", "resources": requests}]},
        "status": {"phase": "Running", "startTime": ago(60), "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": ago(60)}]},
    })
}

fn with(mut pod: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    pod.pointer_mut(parent).unwrap()[field] = value;
    pod
}

fn pods(values: impl IntoIterator<Item = Value>) -> Vec<Arc<Pod>> {
    let pods = values.into_iter();
    pods.map(|pod| Arc::new(from_value(pod).unwrap())).collect()
}

/// Metrics of the pods `a`, `b` and so on; without a number the pod has none.
fn metrics(values: &[Option<i64>]) -> PodMetrics {
    let named = ('a'..).zip(values);
    let known = named.filter_map(|(name, value)| Some((name, (*value)?)));
    known
        .map(|(name, value)| {
            let metric = PodMetric {
                timestamp: NOW.parse().unwrap(),
                window: SignedDuration::from_secs(15),
                value,
            };
            (name.to_string(), metric)
        })
        .collect()
}

fn calculator(pods: &[Arc<Pod>]) -> Calculator<'_> {
    Calculator {
        pods,
        tolerances: Tolerances::DEFAULT,
        now: NOW.parse().unwrap(),
    }
}

fn ready(count: usize) -> Vec<Value> {
    let names = ('a'..).take(count);
    names.map(|name| pod(&name.to_string())).collect()
}

/// The replicas for a target of `target` percent of the requests, of as many as there are pods.
fn by_cpu(all: Vec<Value>, values: &[Option<i64>], target: i32) -> i32 {
    let all = pods(all);
    let current = i32::try_from(all.len()).unwrap();
    let calculator = calculator(&all);
    let found = calculator.of_utilization(current, metrics(values), ("cpu", ""), target);
    found.unwrap().replicas
}

fn used(values: &[i64]) -> Vec<Option<i64>> {
    values.iter().copied().map(Some).collect()
}

#[test]
fn replicas_follow_the_ratio_of_utilization_to_target() {
    for (values, target, replicas) in [
        (vec![300, 500, 700], 30, 5),
        (vec![500, 500, 500], 50, 3),
        (vec![100, 300, 500, 250, 250], 50, 3),
        (vec![1000], 10, 10),
        (vec![10, 10], 100, 1),
        (vec![0, 0], 50, 0),
    ] {
        let found = by_cpu(ready(values.len()), &used(&values), target);
        assert_eq!(found, replicas, "{values:?} {target}");
    }
}

#[test]
fn a_ratio_within_the_tolerance_changes_nothing() {
    // 44 % is not within 10 % of 50 %; 45 % and 55 % are.
    for (value, replicas) in [(440, 9), (450, 10), (550, 10), (560, 12)] {
        let found = by_cpu(ready(10), &used(&[value; 10]), 50);
        assert_eq!(found, replicas, "{value}");
    }
    let all = pods(ready(10));
    let tolerances = Tolerances { down: 0.5, up: 0.0 };
    let calculator = Calculator {
        tolerances,
        ..calculator(&all)
    };
    let replicas = |value| {
        let metrics = metrics(&used(&[value; 10]));
        let found = calculator.of_utilization(10, metrics, ("cpu", ""), 50);
        found.unwrap().replicas
    };
    assert_eq!([replicas(250), replicas(240), replicas(510)], [10, 5, 11]);
}

#[test]
fn the_utilization_is_that_of_the_pods_that_count() {
    let all = pods(ready(2));
    let metrics = metrics(&used(&[300, 301]));
    let found = calculator(&all).of_utilization(2, metrics, ("cpu", ""), 30);
    let expected = Proposal {
        replicas: 2,
        usage: 300,
        utilization: Some(30),
    };
    assert_eq!(found, Ok(expected));
}

#[test]
fn pods_without_metrics_use_nothing_when_the_target_grows() {
    // Two at 90 % and one at 0 % are 60 %: 1.2 times the target for three.
    assert_eq!(by_cpu(ready(3), &[Some(900), Some(900), None], 50), 4);
    // With the missing one the ratio is 1.07, which is within the tolerance.
    assert_eq!(by_cpu(ready(3), &[Some(800), Some(800), None], 50), 3);
    // With two missing the ratio turns round: 0.6.
    assert_eq!(by_cpu(ready(3), &[Some(900), None, None], 50), 3);
}

#[test]
fn pods_without_metrics_use_all_when_the_target_shrinks() {
    // 10 %, 10 % and 100 % are 40 %: 0.5 times the target for three.
    assert_eq!(by_cpu(ready(3), &[Some(100), Some(100), None], 80), 2);
    assert_eq!(by_cpu(ready(3), &[Some(100), None, None], 80), 3);
    // Of a target above 100 % they use the target.
    assert_eq!(by_cpu(ready(2), &[Some(100), None], 200), 2);
    assert_eq!(by_cpu(ready(4), &[Some(0), Some(0), Some(0), None], 200), 1);
}

#[test]
fn unready_pods_use_nothing_when_the_target_grows_and_do_not_count_otherwise() {
    let unready = |name: &str| {
        let pod = with(pod(name), "/status/startTime", json!(ago(1)));
        with(pod, "/status/conditions/0/status", json!("False"))
    };
    let all = || vec![pod("a"), pod("b"), unready("c")];
    assert_eq!(by_cpu(all(), &used(&[800, 800, 800]), 50), 3);
    assert_eq!(by_cpu(all(), &used(&[100, 100, 900]), 50), 1);
    let pending = || with(pod("c"), "/status/phase", json!("Pending"));
    let all = || vec![pod("a"), pod("b"), pending()];
    // Two at 80 % and one at 0 % are 53 %, within the tolerance. The two alone would ask for four.
    assert_eq!(by_cpu(all(), &used(&[800, 800]), 50), 3);
    assert_eq!(by_cpu(all(), &used(&[250, 250]), 50), 1);
}

#[test]
fn failed_and_terminating_pods_do_not_count() {
    let failed = || with(pod("c"), "/status/phase", json!("Failed"));
    let leaving = || with(pod("c"), "/metadata/deletionTimestamp", json!(NOW));
    for third in [failed(), leaving()] {
        let all = vec![pod("a"), pod("b"), third];
        assert_eq!(by_cpu(all, &used(&[250, 250, 9000]), 50), 1);
    }
}

#[test]
fn a_pod_counts_by_the_time_since_its_start_and_since_it_got_ready() {
    let of = |started: &str, ready: &str, since: &str, measured: i64| {
        let pod = with(pod("a"), "/status/startTime", json!(started));
        let pod = with(pod, "/status/conditions/0/status", json!(ready));
        let since = json!(since);
        let pod = with(pod, "/status/conditions/0/lastTransitionTime", since);
        let all = pods([pod]);
        let mut metrics = metrics(&[Some(100)]);
        let now: Timestamp = NOW.parse().unwrap();
        let metric = metrics.get_mut("a").unwrap();
        metric.timestamp = now - SignedDuration::from_secs(measured);
        calculator(&all).group(&metrics, Some("cpu")).ready == 1
    };
    // In the first five minutes a pod has to be ready, and for the whole measurement.
    assert!(of(&ago(4), "True", &ago(1), 0));
    assert!(!of(&ago(4), "True", &ago(1), 46));
    assert!(!of(&ago(4), "False", &ago(4), 0));
    // Later it counts, unless it was never ready: not after the first 30 seconds.
    assert!(of(&ago(6), "True", &ago(0), 0));
    assert!(of(&ago(6), "False", &ago(5), 0));
    assert!(!of(&ago(6), "False", &ago(6), 0));
}

#[test]
fn readiness_does_not_matter_for_memory() {
    let unready = with(pod("b"), "/status/startTime", json!(ago(1)));
    let unready = with(unready, "/status/conditions/0/status", json!("False"));
    let all = pods([pod("a"), unready]);
    let metrics = metrics(&used(&[1_024_000, 1_024_000]));
    let found = calculator(&all).of_utilization(2, metrics, ("memory", ""), 50);
    assert_eq!(found.unwrap().replicas, 4);
}

#[test]
fn requests_are_those_of_the_pod_of_all_containers_or_of_one() {
    let requests = |cpu: &str| json!({"requests": {"cpu": cpu}});
    let container = |name: &str, cpu: &str| json!({"name": name, "resources": requests(cpu)});
    let two = json!([container("app", "1"), container("proxy", "500m")]);
    let mut sidecar = container("log", "100m");
    sidecar["restartPolicy"] = json!("Always");
    let two = with(pod("a"), "/spec/containers", two);
    let all = with(
        two,
        "/spec/initContainers",
        json!([sidecar, container("init", "8")]),
    );
    let of = |pod: &Value, name: &str, resource: &str| {
        request(&from_value(pod).unwrap(), name, resource)
    };
    assert_eq!(of(&all, "", "cpu"), Ok(1600));
    assert_eq!(of(&all, "proxy", "cpu"), Ok(500));
    let missing = "missing request for memory in container app of Pod a";
    assert_eq!(of(&all, "", "memory"), Err(missing.to_owned()));
    let missing = "container db not found in Pod a";
    assert_eq!(of(&all, "db", "cpu"), Err(missing.to_owned()));
    let own = with(all, "/spec/resources", requests("4"));
    assert_eq!(of(&own, "", "cpu"), Ok(4000));
    assert_eq!(of(&own, "proxy", "cpu"), Ok(500));
    let missing = "missing pod-level request for memory in Pod a";
    assert_eq!(of(&own, "", "memory"), Err(missing.to_owned()));
}

#[test]
fn without_pods_or_metrics_there_is_no_number() {
    let none = calculator(&[]).of_utilization(1, metrics(&[Some(1)]), ("cpu", ""), 50);
    assert_eq!(none, Err(NO_PODS.to_owned()));
    let all = pods([with(pod("a"), "/status/phase", json!("Pending"))]);
    let none = calculator(&all).of_utilization(1, metrics(&[Some(1)]), ("cpu", ""), 50);
    let error = "did not receive metrics for targeted pods (pods might be unready)";
    assert_eq!(none, Err(error.to_owned()));
}

#[test]
fn an_average_is_compared_with_the_target_per_pod() {
    let replicas = |values: &[Option<i64>], target: i64| {
        let all = pods(ready(values.len()));
        let current = i32::try_from(all.len()).unwrap();
        let metrics = metrics(values);
        let found = calculator(&all).of_average(current, metrics, None, target);
        found.unwrap().replicas
    };
    assert_eq!(replicas(&used(&[20_000, 10_000, 30_000]), 15_000), 4);
    assert_eq!(replicas(&used(&[12_000, 12_000]), 15_000), 2);
    assert_eq!(replicas(&used(&[10_500]), 10_000), 1);
    // A missing pod has the target when the target shrinks, and nothing when it grows.
    assert_eq!(replicas(&[Some(1_000), Some(1_000), None], 10_000), 2);
    // With the missing one the average is 10.666, within the tolerance. The two alone would ask for four.
    assert_eq!(replicas(&[Some(16_000), Some(16_000), None], 10_000), 3);
}

#[test]
fn a_value_for_all_changes_the_number_of_ready_pods() {
    let unready = with(pod("d"), "/status/conditions/0/status", json!("False"));
    let all = pods(ready(3).into_iter().chain([unready]));
    let replicas = |current, usage, target| {
        let found = calculator(&all).of_value(current, usage, target);
        found.map(|found| found.replicas)
    };
    assert_eq!(replicas(4, 20_000, 15_000), Ok(4));
    assert_eq!(replicas(4, 16_000, 15_000), Ok(4));
    assert_eq!(replicas(4, 40_000, 15_000), Ok(8));
    // From zero there is nothing to multiply.
    assert_eq!(replicas(0, 20_000, 15_000), Ok(2));
    assert_eq!(replicas(4, i64::MAX, 1), Ok(i32::MAX));
    let none = calculator(&[]).of_value(4, 40_000, 15_000);
    let error = format!("unable to calculate ready pods: {NO_PODS}");
    assert_eq!(none, Err(error));
}

#[test]
fn a_share_of_a_value_says_how_many_pods_there_are_to_be() {
    let all = pods(ready(3));
    let share = |replicas, usage, target| {
        let found = calculator(&all).of_share(replicas, usage, target);
        (found.replicas, found.usage)
    };
    assert_eq!(share(3, 8_600, 2_000), (5, 2_867));
    assert_eq!(share(3, 6_500, 2_000), (3, 2_167));
    assert_eq!(share(3, 0, 2_000), (0, 0));
    assert_eq!(share(3, i64::MAX, 1), (i32::MAX, i64::MAX));
    // As Go converts an infinite number.
    assert_eq!(share(0, 4_000, 2_000), (2, i64::MIN));
}

#[test]
fn amounts_wrap_around_at_64_bits_as_in_go() {
    // As an int64, 1000 times the greatest integer is -1000.
    assert_eq!(thousandths("9223372036854775807"), -1000);
    let greatest = [i64::MAX, i64::MAX];
    let all = pods(ready(2));
    let found = calculator(&all).of_utilization(2, metrics(&used(&greatest)), ("cpu", ""), 50);
    let expected = Proposal {
        replicas: 0,
        usage: -1,
        utilization: Some(0),
    };
    assert_eq!(found, Ok(expected));
    let found = calculator(&all).of_average(2, metrics(&used(&greatest)), None, 1);
    assert_eq!(found.map(|found| found.usage), Ok(-1));
    // The percentage has 32 bits: (2^31 + 50) % is less than none.
    let percent = (i64::from(i32::MAX) + 51) * 10;
    let all = pods(ready(1));
    let found = calculator(&all).of_utilization(1, metrics(&used(&[percent])), ("cpu", ""), 50);
    let found = found.unwrap().utilization;
    assert_eq!(found, Some(i32::MIN + 50));
}

#[test]
fn requests_wrap_around_at_64_bits_as_in_go() {
    let asking = |name: &str, amounts: &[&str]| {
        let containers = amounts
            .iter()
            .map(|cpu| json!({"name": "app", "resources": {"requests": {"cpu": cpu}}}));
        with(pod(name), "/spec/containers", containers.collect())
    };
    // The greatest number of thousandths, and one more than that.
    let (greatest, one) = ("9223372036854775807m", "1m");
    let both: Pod = from_value(asking("a", &[greatest, one])).unwrap();
    assert_eq!(request(&both, "", "cpu"), Ok(i64::MIN));
    // A hundred times the request of the missing pod is -100, so it has -1, and both have 0 % of a negative number.
    let all = vec![asking("a", &["1"]), asking("b", &[greatest])];
    assert_eq!(by_cpu(all, &[Some(100), None], 80), 0);
    let own = with(
        pod("a"),
        "/spec/resources",
        json!({"requests": {"memory": "1e37"}}),
    );
    let own: Pod = from_value(own).unwrap();
    request(&own, "", "memory").unwrap();
}

#[test]
fn times_at_the_end_of_the_calendar_do_not_panic() {
    const LAST: &str = "9999-12-30T21:59:00Z";
    let ready_since = |since: &str| {
        let pod = with(pod("a"), "/status/startTime", json!(LAST));
        with(pod, "/status/conditions/0/lastTransitionTime", json!(since))
    };
    // Both pods are within their first five minutes; one has been ready during the whole measurement.
    for (since, count) in [(ago(60), 1), (LAST.to_owned(), 0)] {
        let all = pods([ready_since(&since)]);
        let mut metrics = metrics(&[Some(100)]);
        metrics.get_mut("a").unwrap().window = SignedDuration::from_hours(1);
        let found = calculator(&all).group(&metrics, Some("cpu"));
        assert_eq!(found.ready, count, "{since}");
    }
}
