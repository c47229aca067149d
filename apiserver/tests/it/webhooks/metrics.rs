//! Metrics of webhooks: calls, refusals, failures, match conditions.

use http::Request;
use http_body_util::{BodyExt, Full};
use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use super::{
    CONFIGURATIONS, Reply, allow, configure, create, for_configmaps, patch, response, send,
};
use crate::support::webhook_server::WebhookServer;

/// The lines of metrics about webhooks and conditions, without durations.
async fn counts(server: &ApiServer) -> Vec<String> {
    let request = Request::get("/metrics").body(Full::<bytes::Bytes>::default());
    let response = server.handle(request.unwrap()).await;
    let text = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(text.to_vec()).unwrap();
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("apiserver_admission_"));
    let about = |line: &&str| line.starts_with("webhook_") || line.starts_with("match_");
    let lines = lines.filter(about);
    let lines = lines.filter(|line| !line.contains("_bucket{") && !line.contains("_sum{"));
    lines.map(str::to_owned).collect()
}

/// Nobody listens there.
fn nowhere() -> Value {
    json!({ "url": "https://127.0.0.1:1/x" })
}

#[tokio::test]
async fn calls_of_webhooks_are_counted_by_their_outcomes_until_they_are_gone() {
    let deny = WebhookServer::start(|review| {
        let status = json!({ "message": "no", "code": 409 });
        response(review, json!({ "allowed": false, "status": status }))
    })
    .await;
    let changes = WebhookServer::start(|review| {
        patch(
            review,
            json!([{ "op": "add", "path": "/data", "value": { "k": "v" } }]),
        )
    })
    .await;
    let server = ApiServer::builder().build();
    let mut open = for_configmaps("open.example.com", nowhere());
    open["failurePolicy"] = "Ignore".into();
    let hooks = json!([
        open,
        for_configmaps("change.example.com", changes.by_url("/c"))
    ]);
    configure(&server, "MutatingWebhookConfiguration", "m", hooks).await;
    let mut picky = for_configmaps("deny.example.com", deny.by_url("/d"));
    picky["matchConditions"] =
        json!([{ "name": "n", "expression": "object.metadata.name == 'b'" }]);
    configure(
        &server,
        "ValidatingWebhookConfiguration",
        "v",
        json!([picky]),
    )
    .await;
    assert_eq!(create(&server, "a").await.code, 201);
    assert_eq!(create(&server, "b").await.code, 409);

    let admit = "operation=\"CREATE\",rejected=\"false\",type=\"admit\"";
    let denied = "name=\"deny.example.com\",operation=\"CREATE\"";
    let wanted = [
        format!(
            "match_condition_evaluation_seconds_count{{kind=\"webhook\",{denied},type=\"validating\"}} 1"
        ),
        format!(
            "match_condition_exclusions_total{{kind=\"webhook\",{denied},type=\"validate\"}} 1"
        ),
        format!(
            "webhook_admission_duration_seconds_count{{name=\"change.example.com\",{admit}}} 2"
        ),
        format!(
            "webhook_admission_duration_seconds_count{{{denied},rejected=\"true\",type=\"validating\"}} 1"
        ),
        format!("webhook_admission_duration_seconds_count{{name=\"open.example.com\",{admit}}} 2"),
        "webhook_fail_open_count{name=\"open.example.com\",type=\"admit\"} 2".to_owned(),
        format!(
            "webhook_rejection_count{{error_type=\"no_error\",{denied},rejection_code=\"409\",type=\"validating\"}} 1"
        ),
        format!("webhook_request_total{{code=\"200\",name=\"change.example.com\",{admit}}} 2"),
        format!(
            "webhook_request_total{{code=\"409\",{denied},rejected=\"true\",type=\"validating\"}} 1"
        ),
        format!("webhook_request_total{{code=\"503\",name=\"open.example.com\",{admit}}} 2"),
    ];
    assert_eq!(counts(&server).await, wanted);

    let path = format!("DELETE {CONFIGURATIONS}/mutatingwebhookconfigurations/m");
    assert_eq!(send(&server, &path, Value::Null).await.code, 200);
    let left = counts(&server).await;
    assert!(left.iter().all(|line| line.contains(denied)), "{left:?}");
    assert!(!left.is_empty());
}

/// The counts after a create that a mutating webhook answers like this.
async fn after(reply: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> (u16, Vec<String>) {
    let hook = WebhookServer::start(reply).await;
    let server = ApiServer::builder().build();
    let hooks = json!([for_configmaps("m.example.com", hook.by_url("/m"))]);
    configure(&server, "MutatingWebhookConfiguration", "m", hooks).await;
    let code = create(&server, "a").await.code;
    let counts = counts(&server).await.into_iter();
    let counts = counts.filter(|line| line.starts_with("webhook_rejection_count"));
    (code, counts.collect())
}

#[tokio::test]
async fn failures_of_webhooks_have_the_code_of_the_answer_or_503() {
    let line = |error_type: &str, code: u16| {
        format!(
            "webhook_rejection_count{{error_type=\"{error_type}\",name=\"m.example.com\",\
             operation=\"CREATE\",rejection_code=\"{code}\",type=\"admit\"}} 1"
        )
    };
    let call = "calling_webhook_error";
    let answer = after(|_| Reply::Text(404, "")).await;
    assert_eq!(answer, (500, vec![line(call, 404)]));
    let answer = after(|_| Reply::Text(200, "{}")).await;
    assert_eq!(answer, (500, vec![line(call, 503)]));
    // A patch that does not apply is a fault of the server, whatever upstream means by that.
    let answer = after(|review| patch(review, json!([{ "op": "remove", "path": "/none" }]))).await;
    assert_eq!(answer, (500, vec![line("apiserver_internal_error", 0)]));
    let answer = after(allow).await;
    assert_eq!(answer, (201, Vec::new()));
}
