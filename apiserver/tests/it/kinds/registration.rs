//! Registration of API services and of webhook configurations.

use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use super::refused;
use crate::support::requests::send;

#[tokio::test]
async fn an_api_service_is_decoded_and_there_at_once_if_it_is_local() {
    let server = ApiServer::builder().build();
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    let mut service = json!({
        "metadata": { "name": "v1.a.b" }, "status": {},
        "spec": { "group": "a.b", "version": "v1", "groupPriorityMinimum": "x", "odd": 1 },
    });
    let refused = send(&server, &format!("POST {path}"), service.clone()).await;
    assert_eq!(refused.code, 400);
    assert!(
        refused.message().ends_with(
            "json: cannot unmarshal string into Go struct field \
             APIServiceSpec.spec.groupPriorityMinimum of type int32"
        ),
        "{}",
        refused.message()
    );
    service["spec"]["groupPriorityMinimum"] = 1.into();
    service["spec"]["versionPriority"] = 1.into();
    let created = send(&server, &format!("POST {path}"), service).await;
    assert_eq!(created.code, 201, "{}", created.message());
    assert_eq!(created.body["spec"]["odd"], Value::Null);
    assert_eq!(created.body["status"]["conditions"][0]["reason"], "Local");
    let owned = &created.body["metadata"]["managedFields"][0]["fieldsV1"];
    let spec = json!({
        "f:group": {}, "f:groupPriorityMinimum": {}, "f:version": {}, "f:versionPriority": {},
    });
    assert_eq!(owned, &json!({ "f:spec": spec }));
}

#[tokio::test]
async fn the_url_of_a_webhook_is_one() {
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    for (url, fault) in [
        ("https://::1/x", "invalid port \"::1\" after host"),
        ("https://a b/x", "invalid character \" \" in host name"),
        ("https://a/%zz", "invalid URL escape \"%zz\""),
    ] {
        let webhook = json!({
            "name": "a.b.c", "clientConfig": { "url": url }, "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        });
        assert_eq!(
            refused(path, json!({ "webhooks": [webhook] })).await,
            [format!(
                "webhooks[0].clientConfig.url: Required value: url must be a valid URL: parse \
                 {url:?}: {fault}; desired format: https://host[/path]"
            )]
        );
    }
}
