//! Requests as client-go writes them with `--kube-api-content-type=application/json`. By default it
//! prefers protobuf, whose answers have tests of their own (`wire/protobuf`, `round_trips`).

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

const AGENT: &str = "kube-controller-manager/v1.36.2 (linux/amd64) kubernetes/0000000";
const ACCEPT: &str = "application/json, */*";
/// The metadata client's `Accept` without the clause for protobuf, which comes first.
pub(crate) const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
pub(crate) const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A client of one server, with the credentials of one controller.
#[derive(Clone)]
pub(crate) struct Client {
    server: ApiServer,
    token: Option<String>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) content_type: String,
    pub(crate) body: Value,
}

impl Answer {
    /// The value at a JSON pointer.
    pub(crate) fn at(&self, pointer: &str) -> &Value {
        self.body.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// The text at a JSON pointer.
    pub(crate) fn text(&self, pointer: &str) -> String {
        self.at(pointer).as_str().unwrap_or_default().to_owned()
    }

    /// The items of a list; an empty list of metadata has none at all, as Go's nil slice.
    pub(crate) fn items(&self) -> &[Value] {
        self.at("/items").as_array().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn uid(&self) -> String {
        self.text("/metadata/uid")
    }

    pub(crate) fn version(&self) -> String {
        self.text("/metadata/resourceVersion")
    }

    /// The answer, which has to have this code.
    #[track_caller]
    pub(crate) fn expect(self, code: u16) -> Self {
        assert_eq!(self.code, code, "{}", self.body);
        self
    }
}

impl Client {
    /// A client of a fresh server without a token, as the administrator.
    pub(crate) fn new() -> Self {
        Self {
            server: ApiServer::builder().build(),
            token: None,
        }
    }

    /// A client of a fresh server that asks for a token, with that token.
    pub(crate) fn with_token() -> Self {
        let token = Some("secret".to_owned());
        Self {
            server: ApiServer::builder().token(token.clone()).build(),
            token,
        }
    }

    /// A client of the same server with another token.
    pub(crate) fn holding(&self, token: &str) -> Self {
        Self {
            server: self.server.clone(),
            token: Some(token.to_owned()),
        }
    }

    async fn send(
        &self,
        request: &str,
        headers: [&str; 2],
        body: String,
    ) -> http::Response<kubeproof_apiserver::ResponseBody> {
        let (method, uri) = request.split_once(' ').unwrap();
        let mut builder = Request::builder()
            .method(method)
            .uri(uri)
            .header("user-agent", AGENT)
            .header("accept", headers[0]);
        if !body.is_empty() {
            builder = builder.header("content-type", headers[1]);
        }
        if let Some(token) = &self.token {
            builder = builder.header("authorization", format!("Bearer {token}"));
        }
        let request = builder.body(Full::new(Bytes::from(body))).unwrap();
        self.server.handle(request).await
    }

    /// Sends `METHOD URI` with what a client accepts, and a body of a type.
    pub(crate) async fn request(&self, request: &str, headers: [&str; 2], body: &Value) -> Answer {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let response = self.send(request, headers, body).await;
        let content_type = response.headers().get("content-type");
        let content_type = content_type.map_or("", |value| value.to_str().unwrap());
        let (code, content_type) = (response.status().as_u16(), content_type.to_owned());
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
        Answer {
            code,
            content_type,
            body,
        }
    }

    pub(crate) async fn get(&self, uri: &str) -> Answer {
        self.request(&format!("GET {uri}"), [ACCEPT, ""], &Value::Null)
            .await
    }

    /// Gets or lists with the Accept header of the metadata client or of discovery.
    pub(crate) async fn get_as(&self, accept: &str, uri: &str) -> Answer {
        self.request(&format!("GET {uri}"), [accept, ""], &Value::Null)
            .await
    }

    pub(crate) async fn post(&self, uri: &str, body: &Value) -> Answer {
        self.request(&format!("POST {uri}"), [ACCEPT, "application/json"], body)
            .await
    }

    pub(crate) async fn put(&self, uri: &str, body: &Value) -> Answer {
        self.request(&format!("PUT {uri}"), [ACCEPT, "application/json"], body)
            .await
    }

    pub(crate) async fn delete(&self, uri: &str, options: &Value) -> Answer {
        self.request(
            &format!("DELETE {uri}"),
            [ACCEPT, "application/json"],
            options,
        )
        .await
    }

    pub(crate) async fn patch(&self, content_type: &str, uri: &str, patch: &Value) -> Answer {
        self.request(&format!("PATCH {uri}"), [ACCEPT, content_type], patch)
            .await
    }

    /// A patch of the metadata client.
    pub(crate) async fn patch_metadata(
        &self,
        content_type: &str,
        uri: &str,
        patch: &Value,
    ) -> Answer {
        self.request(&format!("PATCH {uri}"), [METADATA, content_type], patch)
            .await
    }

    /// A server-side apply with force.
    pub(crate) async fn apply(&self, uri: &str, manager: &str, object: &Value) -> Answer {
        let uri = format!("{uri}?fieldManager={manager}&force=true");
        self.patch(APPLY, &uri, object).await
    }

    /// The events of an informer's first watch, up to the bookmark that ends the initial ones, and the
    /// version from which the informer goes on.
    pub(crate) async fn watch_list(&self, accept: &str, uri: &str) -> (Vec<Value>, String) {
        let query = "allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true\
            &timeout=8m23s&timeoutSeconds=503&watch=true";
        let request = format!("GET {uri}?{query}");
        let response = self.send(&request, [accept, ""], String::new()).await;
        assert_eq!(response.status(), 200, "{uri}");
        assert_eq!(
            response.headers()["content-type"],
            "application/json",
            "{uri}"
        );
        let (mut body, mut text, mut events) = (response.into_body(), Vec::new(), Vec::new());
        loop {
            let frame = body.frame().await.unwrap().unwrap();
            text.extend_from_slice(&frame.into_data().unwrap());
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).unwrap();
                let annotations = &event["object"]["metadata"]["annotations"];
                if event["type"] == "BOOKMARK" {
                    assert_eq!(annotations["k8s.io/initial-events-end"], "true", "{uri}");
                    let version = event["object"]["metadata"]["resourceVersion"].as_str();
                    return (events, version.unwrap().to_owned());
                }
                events.push(event);
            }
        }
    }

    /// Creates an object in namespace `default` or in none, and answers it.
    pub(crate) async fn made(&self, uri: &str, object: Value) -> Answer {
        self.post(uri, &object).await.expect(201)
    }
}

/// The options that a typed or metadata client sends with a deletion.
pub(crate) fn options(api_version: &str, rest: Value) -> Value {
    let mut options = json!({"kind": "DeleteOptions", "apiVersion": api_version});
    let more = rest.as_object().unwrap().clone();
    options.as_object_mut().unwrap().extend(more);
    options
}

/// A pod's template or spec that the server takes.
pub(crate) fn containers() -> Value {
    json!({"containers": [{"name": "c", "image": "nginx:1.25", "resources": {}}]})
}

/// The reference of a controller to what it owns.
pub(crate) fn controller_ref(api_version: &str, kind: &str, owner: &Answer) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "name": owner.text("/metadata/name"),
        "uid": owner.uid(), "controller": true, "blockOwnerDeletion": true,
    })
}
