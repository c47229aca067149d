mod widget;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};

use crate::json::{Value, json};
use crate::server::ApiServer;

const WIDGETS: &str = "/apis/testing.kubeproof.dev/v1/namespaces/default/widgets";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Sends `METHOD /path`; returns the code and the body of the answer.
async fn send(server: &ApiServer, request: &str, accept: &str, body: Value) -> (u16, Value) {
    let (method, path) = request.split_once(' ').unwrap();
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("accept", accept)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let response = server.handle(request).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_defined_in_one_file_is_served_as_any_other() {
    let builder = ApiServer::builder().install_api_group(&widget::GROUP, &widget::SOURCE);
    let server = builder.build();
    let json = "application/json";
    let sent = json!({
        "apiVersion": "testing.kubeproof.dev/v1", "kind": "Widget", "metadata": {"name": "a"},
        "spec": {"color": "red"},
    });
    let (code, created) = send(&server, &format!("POST {WIDGETS}"), json, sent).await;
    assert_eq!(code, 201, "{created}");
    // The size is defaulted, and the type has no color.
    assert_eq!(created["spec"], json!({"size": 1}));
    assert_eq!(created["metadata"]["generation"], 1);

    let path = format!("{WIDGETS}/a");
    let (code, table) = send(&server, &format!("GET {path}"), TABLE, Value::Null).await;
    assert_eq!((code, &table["kind"]), (200, &json!("Table")));
    assert_eq!(table["rows"][0]["cells"], json!(["a", 1, "0s"]));
    assert_eq!(table["columnDefinitions"][1]["name"], "Size");

    let mut changed = created;
    changed["spec"]["size"] = 11.into();
    let put = format!("PUT {path}");
    let (code, refused) = send(&server, &put, json, changed.clone()).await;
    assert_eq!(code, 422);
    assert_eq!(
        refused["message"],
        "Widget.testing.kubeproof.dev \"a\" is invalid: spec.size: Invalid value: 11: must be \
         between 1 and 10, inclusive"
    );
    changed["spec"]["size"] = 2.into();
    let (code, updated) = send(&server, &put, json, changed).await;
    assert_eq!((code, &updated["metadata"]["generation"]), (200, &json!(2)));

    let group = "GET /apis/testing.kubeproof.dev/v1";
    let (code, resources) = send(&server, group, json, Value::Null).await;
    assert_eq!(
        (code, &resources["resources"][0]["kind"]),
        (200, &json!("Widget"))
    );

    let (code, _) = send(&server, &format!("DELETE {path}"), json, Value::Null).await;
    assert_eq!(code, 200);
    let (code, gone) = send(&server, &format!("GET {path}"), json, Value::Null).await;
    assert_eq!(code, 404);
    assert_eq!(
        gone["message"],
        "widgets.testing.kubeproof.dev \"a\" not found"
    );
}

#[tokio::test(start_paused = true)]
async fn subresources_of_such_a_kind_follow_its_rules() {
    let builder = ApiServer::builder().install_api_group(&widget::GROUP, &widget::SOURCE);
    let server = builder.build();
    let json = "application/json";
    let sent = json!({
        "apiVersion": "testing.kubeproof.dev/v1", "kind": "Widget", "metadata": {"name": "a"},
    });
    let (_, created) = send(&server, &format!("POST {WIDGETS}"), json, sent).await;
    let changed = json!({
        "apiVersion": "testing.kubeproof.dev/v1", "kind": "Widget", "metadata": {"name": "a"},
        "spec": {"size": 3, "polish": "wax"}, "status": {"shines": true},
    });
    let put = |subresource: &str| format!("PUT {WIDGETS}/a{subresource}");

    let (code, polished) = send(&server, &put("/polish"), json, changed.clone()).await;
    assert_eq!(code, 200, "{polished}");
    assert_eq!(polished["spec"], json!({"size": 1, "polish": "wax"}));
    assert_eq!(polished["status"], created["status"]);

    let mut dull = changed.clone();
    dull["spec"]["polish"] = "paint".into();
    let (code, refused) = send(&server, &put("/polish"), json, dull.clone()).await;
    assert_eq!(code, 422);
    assert_eq!(
        refused["message"],
        "Widget.testing.kubeproof.dev \"a\" is invalid: spec.polish: Unsupported value: \"paint\": \
         supported values: \"wax\""
    );

    let (code, shining) = send(&server, &put("/status"), json, dull.clone()).await;
    assert_eq!((code, &shining["status"]), (200, &json!({"shines": true})));
    assert_eq!(shining["spec"], polished["spec"]);

    let (code, updated) = send(&server, &put(""), json, dull).await;
    assert_eq!(code, 200);
    assert_eq!(updated["spec"], json!({"size": 3, "polish": "wax"}));
    assert_eq!(updated["status"], shining["status"]);

    let (code, _) = send(&server, &put("/paint"), json, changed).await;
    assert_eq!(code, 404);
    let group = "GET /apis/testing.kubeproof.dev/v1";
    let (_, resources) = send(&server, group, json, Value::Null).await;
    assert_eq!(resources["resources"][1]["name"], "widgets/polish");
}
