//! Programs of simulated pods that answer requests through the proxies of pods and services.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use kubeproof::testbed::Testbed;
use serde_json::Value;

const NAMESPACE: &str = "/api/v1/namespaces/default";

/// Sends a request without a body; the text of the answer, or the message of the refusal.
async fn send(testbed: &Testbed, request: &str) -> Result<String, String> {
    let (method, path) = request.split_once(' ').unwrap();
    let request = http::Request::builder().method(method).uri(path);
    let request = request.body(Vec::new()).unwrap();
    let answered = testbed.client().request_text(request).await;
    answered.map_err(|error| match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    })
}

async fn testbed(manifests: &str) -> Testbed {
    let testbed = Testbed::builder()
        .nodes(2)
        .metrics(true)
        .controllers(["deployment", "replicaset", "endpointslice"])
        .start()
        .await
        .unwrap();
    testbed.apply(manifests).await.unwrap();
    testbed.settle(Duration::from_secs(60)).await.unwrap();
    testbed
}

#[tokio::test(start_paused = true)]
async fn a_pod_answers_through_its_proxy_and_that_of_its_service() {
    let testbed = testbed(
        "
apiVersion: v1
kind: Pod
metadata: {name: host, labels: {app: host}}
spec:
  containers:
  - {name: idle, image: busybox, command: [sleep, 1h]}
  - {name: main, image: registry.k8s.io/e2e-test-images/agnhost:2.59, args: [serve-hostname], ports: [{containerPort: 9376}]}
---
apiVersion: v1
kind: Pod
metadata: {name: files}
spec: {containers: [{name: main, image: nginx, ports: [{containerPort: 80}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: host}, ports: [{name: http, port: 80, targetPort: 9376}]}
---
apiVersion: v1
kind: Service
metadata: {name: nobody}
spec: {selector: {app: nobody}, ports: [{port: 80}]}
",
    )
    .await;
    let host = Ok("host".to_owned());
    for path in [
        "GET pods/host/proxy",
        "GET pods/host:9376/proxy/any/path?and=query",
        "POST pods/http:host:9376/proxy",
        "GET services/web/proxy",
        "GET services/web:80/proxy",
        "GET services/web:http/proxy/",
    ] {
        let (method, path) = path.split_once(' ').unwrap();
        let answer = send(&testbed, &format!("{method} {NAMESPACE}/{path}")).await;
        assert_eq!(answer, host, "{path}");
    }
    let page = send(
        &testbed,
        &format!("GET {NAMESPACE}/pods/files/proxy/index.html"),
    )
    .await;
    assert!(page.unwrap().contains("Welcome to nginx!"));
    for (path, message) in [
        (
            "pods/host:81/proxy",
            "error trying to reach service: dial tcp 10.244.1.2:81: connect: connection refused",
        ),
        (
            "pods/https:host:9376/proxy",
            "error trying to reach service: http: server gave HTTP response to HTTPS client",
        ),
        (
            "services/nobody/proxy",
            "no endpoints available for service \"nobody\"",
        ),
    ] {
        let answer = send(&testbed, &format!("GET {NAMESPACE}/{path}")).await;
        assert_eq!(answer, Err(message.to_owned()), "{path}");
    }
    testbed.shutdown().await;
}

/// The processor time and the memory that metrics.k8s.io has for a pod: millicores and MiB.
async fn usage(testbed: &Testbed, pod: &str) -> (i64, i64) {
    let path = format!("GET /apis/metrics.k8s.io/v1beta1/namespaces/default/pods/{pod}");
    let metrics: Value = serde_json::from_str(&send(testbed, &path).await.unwrap()).unwrap();
    let usage = &metrics["containers"][0]["usage"];
    let number = |text: &Value, unit: &str| -> i64 {
        let text = text.as_str().unwrap();
        let digits = text.strip_suffix(unit).unwrap_or_else(|| panic!("{text}"));
        digits.parse().unwrap()
    };
    (number(&usage["cpu"], "m"), number(&usage["memory"], "Mi"))
}

#[tokio::test(start_paused = true)]
async fn consumers_use_what_their_controller_spreads_over_them() {
    let testbed = testbed(
        "
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app: consumer}}
spec:
  containers:
  - name: main
    image: registry.k8s.io/e2e-test-images/resource-consumer:1.13
    resources: {limits: {cpu: 200m, memory: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: two, labels: {app: consumer}}
spec: {containers: [{name: main, image: registry.k8s.io/e2e-test-images/resource-consumer:1.13}]}
---
apiVersion: v1
kind: Service
metadata: {name: consumer}
spec: {selector: {app: consumer}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: ctrl, labels: {app: ctrl}}
spec:
  containers:
  - name: main
    image: registry.k8s.io/e2e-test-images/agnhost:2.59
    command: [/agnhost, resource-consumer-controller, --consumer-service-name=consumer, --consumer-service-namespace=default]
---
apiVersion: v1
kind: Service
metadata: {name: ctrl}
spec: {selector: {app: ctrl}, ports: [{name: http, port: 80, targetPort: 8080}]}
",
    )
    .await;
    assert_eq!(usage(&testbed, "one").await, (1, 1));
    let ask = async |function: &str, query: &str| {
        let path = format!("POST {NAMESPACE}/services/ctrl:http/proxy/{function}?{query}");
        send(&testbed, &path).await.unwrap()
    };
    let said = ask(
        "ConsumeCPU",
        "millicores=500&durationSec=60&requestSizeMillicores=100",
    )
    .await;
    assert_eq!(said.matches("Consumed 100 millicores").count(), 5, "{said}");
    let query = "megabytes=100&durationSec=60&requestSizeMegabytes=100";
    let said = ask("ConsumeMem", query).await;
    assert!(said.ends_with("Consumed 100 megabytes\n"), "{said}");
    testbed.advance(Duration::from_secs(30)).await;
    // The limit of one is 200m.
    assert_eq!(usage(&testbed, "one").await, (200, 101));
    assert_eq!(usage(&testbed, "two").await, (201, 1));
    testbed.advance(Duration::from_secs(60)).await;
    assert_eq!(usage(&testbed, "one").await, (1, 1));
    let alone =
        format!("POST {NAMESPACE}/pods/two:8080/proxy/ConsumeCPU?millicores=50&durationSec=60");
    let said = send(&testbed, &alone).await.unwrap();
    assert_eq!(said, "ConsumeCPU\n50 millicores\n60 durationSec\n");
    testbed.advance(Duration::from_secs(30)).await;
    assert_eq!(usage(&testbed, "two").await, (51, 1));
    testbed.shutdown().await;
}
