//! Requests to the metrics APIs, and errors made of their answers.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use kube::client::Body;
use kubeproof_runtime::decode::from_value;
use parking_lot::Mutex;
use serde_json::json;

use super::*;

/// A server with the custom metrics API in `versions`, with Deployments and Nodes; it notes the paths of metrics.
struct Server {
    versions: Vec<&'static str>,
    /// The answer for each metric.
    metrics: (u16, Value),
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(versions: &[&'static str], items: &Value) -> Self {
        Self {
            versions: versions.to_vec(),
            metrics: (200, json!({"items": items})),
            asked: Arc::default(),
        }
    }

    fn client(&self) -> Client {
        let versions: Vec<Value> = self
            .versions
            .iter()
            .map(|version| version_of(version))
            .collect();
        let custom =
            json!({"name": CUSTOM, "versions": versions, "preferredVersion": versions.first()});
        let groups = match versions.is_empty() {
            true => json!([]),
            false => json!([custom]),
        };
        let (metrics, asked) = (self.metrics.clone(), Arc::clone(&self.asked));
        let service = tower::service_fn(move |request: Request<Body>| {
            let accepts = request.headers().get(http::header::ACCEPT);
            let is_aggregated = accepts.is_some_and(|accepts| accepts.as_bytes().contains(&b'='));
            let (code, body) = match request.uri().path() {
                "/api" => (200, discovery("", "v1", &[("nodes", "Node", "Cluster")])),
                "/apis" if is_aggregated => {
                    let deployments = ("deployments", "Deployment", "Namespaced");
                    (200, discovery("apps", "v1", &[deployments]))
                }
                "/apis" => (200, json!({"groups": groups})),
                _ => {
                    asked.lock().push(request.uri().to_string());
                    metrics.clone()
                }
            };
            let response = Response::builder().status(code);
            let response = response.body(Body::from(Bytes::from(body.to_string())));
            std::future::ready(Ok::<_, std::convert::Infallible>(response.unwrap()))
        });
        Client::new(service, "default")
    }

    /// Reads the metric of `spec` in the namespace `n`, whose target's pods have the label `app=web`.
    async fn read(&self, spec: Value) -> Observation {
        let metrics = Metrics {
            client: &self.client(),
            targets: &Targets::default(),
            custom_version: OnceCell::new(),
        };
        let spec = from_value(spec).unwrap();
        let selector = LabelSelector::parse("app=web").unwrap();
        metrics.read_one(&spec, "n", &selector).await
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock())
    }
}

fn version_of(version: &str) -> Value {
    json!({"version": version, "groupVersion": format!("{CUSTOM}/{version}")})
}

/// Aggregated discovery of one group.
fn discovery(group: &str, version: &str, resources: &[(&str, &str, &str)]) -> Value {
    let resources = resources.iter().map(|(plural, kind, scope)| {
        json!({"resource": plural, "scope": scope, "verbs": ["list"], "responseKind": {
            "group": group, "version": version, "kind": kind}})
    });
    let resources: Vec<Value> = resources.collect();
    let versions = json!([{"version": version, "resources": resources}]);
    json!({"items": [{"metadata": {"name": group}, "versions": versions}]})
}

/// An object's metric whose name has characters that a path does not have.
fn object(api_version: &str, kind: &str) -> Value {
    let described = json!({"apiVersion": api_version, "kind": kind, "name": "a?b"});
    json!({"type": "Object", "object": {"describedObject": described,
        "metric": {"name": "rps#1"}, "target": {"type": "Value", "value": "1"}}})
}

fn pods() -> Value {
    let target = json!({"type": "AverageValue", "averageValue": "1"});
    json!({"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": target}})
}

fn value() -> Value {
    json!([{"describedObject": {"name": "web-0"}, "timestamp": "2026-01-01T00:00:00Z", "value": "7"}])
}

#[tokio::test]
async fn names_are_segments_of_paths() {
    let server = Server::new(&["v1beta2"], &value());
    let root = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/n";
    for (spec, path) in [
        (
            object("apps/v1", "Deployment"),
            "deployments.apps/a%3Fb/rps%231?",
        ),
        // As upstream, though a node is in no namespace, and a namespace is the one of the autoscaler.
        (object("v1", "Node"), "nodes/a%3Fb/rps%231?"),
        (object("v1", "Namespace"), "metrics/rps%231?"),
        (pods(), "pods/%2A/rps?labelSelector=app%3Dweb"),
    ] {
        server.read(spec).await.unwrap();
        assert_eq!(server.asked(), [format!("{root}/{path}")]);
    }
    let metric = json!({"name": "a/b"});
    let external = json!({"type": "External", "external": {"metric": metric,
        "target": {"type": "Value", "value": "1"}}});
    server.read(external).await.unwrap();
    let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/n/a%2Fb?labelSelector=";
    assert_eq!(server.asked(), [path]);
}

#[tokio::test]
async fn the_preferred_version_of_custom_metrics_is_read() {
    for (versions, read) in [
        (["v1beta1", "v1beta2"], "v1beta1"),
        (["v1", "v1beta1"], "v1beta1"),
    ] {
        let mut values = value();
        values[0]["window"] = json!(i64::MAX);
        let server = Server::new(&versions, &values);
        let Ok(Reading::Pods(metrics)) = server.read(pods()).await else {
            panic!("pods have metrics");
        };
        // As in Go, more seconds than a duration has wrap around.
        assert_eq!(metrics["web-0"].window, SignedDuration::from_secs(-1));
        assert_eq!(metrics["web-0"].value, 7000);
        let asked = server.asked().remove(0);
        assert!(asked.contains(&format!("/{CUSTOM}/{read}/")), "{asked}");
    }
}

#[tokio::test]
async fn errors_of_custom_metrics_are_told_in_upstreams_words() {
    let unknown = || object("example.io/v1", "Widget");
    let invalid = || {
        let mut spec = pods();
        let values = json!([{"key": "a", "operator": "Near"}]);
        spec["pods"]["metric"]["selector"] = json!({"matchExpressions": values});
        spec
    };
    let gone = || {
        let mut server = Server::new(&["v1beta2"], &json!([]));
        server.metrics = (404, json!("404 page not found"));
        server
    };
    for (server, spec, error) in [
        (
            Server::new(&[], &value()),
            unknown(),
            "no custom metrics API (custom.metrics.k8s.io) registered",
        ),
        (
            Server::new(&["v1"], &value()),
            unknown(),
            "no known available metric versions found",
        ),
        (
            Server::new(&["v1beta2"], &value()),
            unknown(),
            "unable to map kind Widget.example.io to resource: no matches for kind \"Widget\" in group \"example.io\"",
        ),
        (
            gone(),
            pods(),
            "the server could not find the requested resource (get pods.custom.metrics.k8s.io *)",
        ),
    ] {
        assert_eq!(
            server.read(spec).await,
            Err(Unread::Api(custom_error(error.to_owned())))
        );
    }
    // A selector is read before anything else.
    let error = "\"Near\" is not a valid label selector operator";
    let read = Server::new(&[], &value()).read(invalid()).await;
    assert_eq!(read, Err(Unread::Selector(error.to_owned())));
}

#[tokio::test]
async fn windows_are_durations_of_go() {
    let spec = json!({"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 50}}});
    let greatest = "9223372036854775807m";
    let usage = |window: &str| {
        let usage = json!({"usage": {"cpu": greatest}, "name": "a"});
        json!([{"metadata": {"name": "web-0"}, "timestamp": "2026-01-01T00:00:00Z",
            "window": window, "containers": [usage, usage]}])
    };
    for (window, millis) in [("1m30.5s", 90_500), ("-1h", -3_600_000), ("0", 0)] {
        let read = Server::new(&[], &usage(window)).read(spec.clone()).await;
        let Ok(Reading::Pods(metrics)) = read else {
            panic!("{read:?}");
        };
        assert_eq!(metrics["web-0"].window, SignedDuration::from_millis(millis));
        // The sum wraps around.
        assert_eq!(metrics["web-0"].value, -2);
    }
    let read = Server::new(&[], &usage("1 hour")).read(spec).await;
    let error = "unable to fetch metrics from resource metrics API: time: unknown unit \" hour\" in duration \"1 hour\"";
    assert_eq!(read, Err(Unread::Api(error.to_owned())));
}
