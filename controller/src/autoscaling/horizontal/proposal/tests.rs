use std::sync::Arc;

use kubeproof_runtime::decode::from_value;
use kubeproof_runtime::pod::Pod;
use serde_json::{Value, json};

use super::super::calculator::{PodMetric, Tolerances};
use super::*;

fn pods() -> Vec<Arc<Pod>> {
    let pod = json!({
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "app",
            "resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}]},
        "status": {"phase": "Running", "startTime": "2025-01-01T00:00:00Z", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}]},
    });
    vec![Arc::new(from_value(pod).unwrap())]
}

fn of(spec: &Value, observation: &Observation) -> Result<Proposed, Failure> {
    let pods = pods();
    let calculator = Calculator {
        pods: &pods,
        tolerances: Tolerances::DEFAULT,
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
    };
    let metric = Metric {
        observation,
        namespace: "default",
        replicas: (1, 1),
        calculator,
    };
    of_metric(&from_value(spec).unwrap(), metric)
}

fn usage(value: i64) -> Observation {
    let metric = PodMetric {
        timestamp: "2026-01-01T00:00:00Z".parse().unwrap(),
        window: jiff::SignedDuration::from_secs(15),
        value,
    };
    Ok(Reading::Pods([("a".to_owned(), metric)].into()))
}

fn resource(kind: &str, name: &str, target: &Value) -> Value {
    let mut source = json!({"name": name, "target": target});
    if kind == "containerResource" {
        source["container"] = json!("app");
    }
    json!({"type": "any", kind: source})
}

const OBJECT: &str = r#"{"apiVersion": "v1", "kind": "Service", "name": "web"}"#;

fn object(target: &Value) -> Value {
    let described: Value = serde_json::from_str(OBJECT).unwrap();
    json!({"type": "Object", "object": {"describedObject": described,
        "metric": {"name": "rps"}, "target": target}})
}

fn external(target: &Value) -> Value {
    json!({"type": "External", "external": {"metric": {"name": "queue",
        "selector": {"matchLabels": {"b": "2", "a": "1"}}}, "target": target}})
}

#[test]
fn each_kind_of_metric_has_its_name_and_its_status() {
    let average = json!({"type": "AverageValue", "averageValue": "500m"});
    let percent = json!({"type": "Utilization", "averageUtilization": 50});
    let value = json!({"type": "Value", "value": "2"});
    let number = Ok(Reading::Value(1500));
    let numbers = Ok(Reading::Values(vec![1000, 500]));
    let of_pods = json!({"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": average}});
    let selector = "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{},}";
    let external_name = format!("external metric queue({selector})");
    let cases = [
        (
            resource("resource", "cpu", &percent),
            usage(250),
            "cpu resource utilization (percentage of request)",
            "Resource",
            json!({"averageUtilization": 25, "averageValue": "250m"}),
        ),
        (
            resource("resource", "memory", &average),
            usage(2_097_152_000),
            "memory resource",
            "Resource",
            json!({"averageValue": "2Mi"}),
        ),
        (
            resource("containerResource", "cpu", &percent),
            usage(250),
            "cpu container resource utilization (percentage of request)",
            "ContainerResource",
            json!({"averageUtilization": 25, "averageValue": "250m"}),
        ),
        (
            of_pods,
            usage(1000),
            "pods metric rps",
            "Pods",
            json!({"averageValue": "1"}),
        ),
        (
            object(&value),
            number.clone(),
            "Service metric rps",
            "Object",
            json!({"value": "1500m"}),
        ),
        (
            object(&average),
            number,
            "external metric rps(nil)",
            "Object",
            json!({"averageValue": "1500m"}),
        ),
        (
            external(&value),
            numbers.clone(),
            &external_name,
            "External",
            json!({"value": "1500m"}),
        ),
        (
            external(&average),
            numbers,
            &external_name,
            "External",
            json!({"averageValue": "1500m"}),
        ),
    ];
    for (spec, read, name, kind, current) in cases {
        let found = of(&spec, &read).unwrap();
        assert_eq!(found.name, name);
        let status = serde_json::to_value(&found.status).unwrap();
        assert_eq!(status["type"], kind);
        let field = format!("{}{}", kind[..1].to_lowercase(), &kind[1..]);
        assert_eq!(status[field]["current"], current, "{status}");
    }
}

#[test]
fn failures_are_told_in_upstreams_words() {
    let average = json!({"type": "AverageValue", "averageValue": "500m"});
    let percent = json!({"type": "Utilization", "averageUtilization": 50});
    let value = json!({"type": "Value", "value": "2"});
    let none = json!({"type": "Value"});
    let of_pods = json!({"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": average}});
    let cases = [
        (
            resource("resource", "cpu", &percent),
            "FailedGetResourceMetric",
            "failed to get cpu utilization: unable to get metrics for resource cpu: gone",
            "failed to get cpu resource metric value: ",
        ),
        (
            resource("resource", "cpu", &average),
            "FailedGetResourceMetric",
            "failed to get cpu usage: unable to get metrics for resource cpu: gone",
            "failed to get cpu resource metric value: ",
        ),
        (
            resource("containerResource", "cpu", &percent),
            "FailedGetContainerResourceMetric",
            "failed to get cpu utilization: unable to get metrics for resource cpu: gone",
            "failed to get app container metric value: ",
        ),
        (
            of_pods,
            "FailedGetPodsMetric",
            "unable to get metric rps: gone",
            "failed to get pods metric value: ",
        ),
        (
            object(&value),
            "FailedGetObjectMetric",
            "unable to get metric rps: Service on default web/gone",
            "failed to get object metric value: ",
        ),
        (
            object(&average),
            "FailedGetObjectMetric",
            "unable to get metric rps: Service on default web/gone",
            "failed to get object metric value: failed to get rps object metric: ",
        ),
        (
            object(&none),
            "FailedGetObjectMetric",
            "invalid object metric source: neither a value target nor an average value target was set",
            "failed to get object metric value: ",
        ),
        (
            external(&value),
            "FailedGetExternalMetric",
            "unable to get external metric default/queue/&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{},}: gone",
            "failed to get queue external metric value: failed to get external metric queue: ",
        ),
        (
            external(&average),
            "FailedGetExternalMetric",
            "unable to get external metric default/queue/&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{},}: gone",
            "failed to get queue external metric value: failed to get queue external metric: ",
        ),
        (
            json!({"type": "Other"}),
            "InvalidMetricSourceType",
            "unknown metric source type \"Other\"",
            "",
        ),
    ];
    for (spec, reason, message, prefix) in cases {
        let failure = of(&spec, &Err(Unread::Api("gone".to_owned()))).unwrap_err();
        let expected = Failure {
            reason,
            message: message.to_owned(),
            error: format!("{prefix}{message}"),
        };
        assert_eq!(failure, expected);
    }
}

#[test]
fn an_invalid_selector_is_told_without_the_words_of_a_read() {
    let average = json!({"type": "AverageValue", "averageValue": "500m"});
    let value = json!({"type": "Value", "value": "2"});
    let of_pods = json!({"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": average}});
    for (spec, error) in [
        (of_pods, "failed to get pods metric value: no selector"),
        (
            object(&average),
            "failed to get object metric value: no selector",
        ),
        (
            external(&average),
            "failed to get queue external metric value: failed to get queue external metric: no selector",
        ),
        (
            external(&value),
            "failed to get queue external metric value: failed to get external metric queue: no selector",
        ),
    ] {
        let failure = of(&spec, &Err(Unread::Selector("no selector".to_owned()))).unwrap_err();
        assert_eq!(failure.message, "no selector");
        assert_eq!(failure.error, error);
    }
}

#[test]
fn sums_of_external_metrics_are_capped() {
    for (values, capped, per_pod) in [
        (vec![1, 2], 3, 3),
        (vec![i64::MAX, 1, -5], i64::MAX, i64::MAX),
        (vec![-5, 3], -2, i64::MAX),
        (vec![i64::MIN, -1], i64::MAX, i64::MAX),
        (vec![5, -3], 2, 2),
    ] {
        assert_eq!(capped_sum(&values), capped, "{values:?}");
        assert_eq!(sum_of_shares(&values), per_pod, "{values:?}");
    }
}
