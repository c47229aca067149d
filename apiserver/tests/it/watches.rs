//! Watches at the wire, in process: what they begin with, how they end, and what can be asked of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::meta::GroupResource;
use kubeproof_apiserver::{ApiServer, Clock, Dropped, ResponseBody, WatchControl};

use crate::support::requests::{read, respond, server};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

async fn send(server: &ApiServer, request: &str, accept: &str, body: Value) -> (u16, String) {
    let headers = [("accept", accept), ("content-type", "application/json")];
    let (code, body) = read(respond(server, request, &headers, body.to_string()).await).await;
    (code, String::from_utf8(body.to_vec()).unwrap())
}

async fn write(server: &ApiServer, request: &str, body: Value) -> Value {
    let (code, answer) = send(server, request, "application/json", body).await;
    assert!(code < 300, "{request}: {answer}");
    serde_json::from_str(&answer).unwrap()
}

async fn config_map(server: &ApiServer, name: &str) -> String {
    let body = json!({"metadata": {"name": name}});
    let created = write(server, &format!("POST {CONFIGMAPS}"), body).await;
    rv(&created)
}

fn rv(object: &Value) -> String {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// An open watch.
struct Watch(ResponseBody);

impl Watch {
    async fn open_as(server: &ApiServer, path: &str, accept: &str) -> Self {
        let request = Request::get(path)
            .header("accept", accept)
            .body(Full::<Bytes>::default())
            .unwrap();
        let response = server.handle(request).await;
        assert_eq!(response.status(), 200, "{path}");
        Self(response.into_body())
    }

    async fn open(server: &ApiServer, query: &str) -> Self {
        Self::open_as(server, &format!("{CONFIGMAPS}{query}"), "application/json").await
    }

    /// The next event; `None` at the end.
    async fn next(&mut self) -> Option<Result<Value, Dropped>> {
        let frame = self.0.frame().await?;
        Some(frame.map(|frame| serde_json::from_slice(&frame.into_data().unwrap()).unwrap()))
    }

    async fn event(&mut self) -> Value {
        self.next().await.unwrap().unwrap()
    }

    /// The next event as `TYPE name`.
    async fn shown(&mut self) -> String {
        let event = self.event().await;
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        format!(
            "{} {}",
            text(&event["type"]),
            text(&event["object"]["metadata"]["name"])
        )
    }
}

#[tokio::test(start_paused = true)]
async fn bookmarks_of_a_kind_differ_in_their_version_alone() {
    let server = server();
    let mut bookmarks = Vec::new();
    for names in [["a", "b"], ["c", "d"]] {
        for name in names {
            config_map(&server, name).await;
        }
        let mut watch = Watch::open(&server, "?watch=1&allowWatchBookmarks=1").await;
        let last = loop {
            let event = watch.event().await;
            if event["type"] == "BOOKMARK" {
                break event;
            }
        };
        bookmarks.push(last);
    }
    let version = |bookmark: &mut Value| {
        let metadata = bookmark["object"]["metadata"].as_object_mut().unwrap();
        let version = metadata.remove("resourceVersion").unwrap();
        version.as_str().unwrap().parse::<u64>().unwrap()
    };
    let versions: Vec<u64> = bookmarks.iter_mut().map(version).collect();
    assert_eq!(versions[1] - versions[0], 2, "two writes were between them");
    assert_eq!(bookmarks[0], bookmarks[1]);
    assert_eq!(bookmarks[0]["object"]["kind"], "ConfigMap");
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_version_is_a_watch_list() {
    let server = server();
    config_map(&server, "a").await;
    let end = |event: &Value| event["object"]["metadata"]["annotations"].clone();
    for query in ["?watch=1", "?watch=1&resourceVersion=0"] {
        let mut watch = Watch::open(&server, &format!("{query}&allowWatchBookmarks=1")).await;
        assert_eq!(watch.shown().await, "ADDED a", "{query}");
        let bookmark = watch.event().await;
        assert_eq!(bookmark["type"], "BOOKMARK");
        assert_eq!(end(&bookmark), json!({"k8s.io/initial-events-end": "true"}));
    }
    // The legacy path says nothing of initial events: the state first, and no end of it.
    let path = "/api/v1/watch/namespaces/default/configmaps?allowWatchBookmarks=1&timeoutSeconds=9";
    let mut watch = Watch::open_as(&server, path, "application/json").await;
    assert_eq!(watch.shown().await, "ADDED a");
    let bookmark = watch.event().await;
    assert_eq!(
        (&bookmark["type"], end(&bookmark)),
        (&json!("BOOKMARK"), Value::Null)
    );
    assert_eq!(watch.next().await, None);
    // Asked not to send the state, it begins now.
    let query = "?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let mut watch = Watch::open(&server, query).await;
    config_map(&server, "b").await;
    assert_eq!(watch.shown().await, "ADDED b");
}

#[tokio::test(start_paused = true)]
async fn options_that_exclude_one_another_are_all_reported() {
    let server = server();
    let requires = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
    let unless = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
    let with_continue = "resourceVersionMatch is forbidden when continue is provided";
    let unsupported = "Unsupported value: \"Exact\": supported values: \"NotOlderThan\"";
    let forbidden_for_list = "sendInitialEvents is forbidden for list";
    let legacy = "/api/v1/watch/namespaces/default/configmaps";
    let cases: [(String, &[&str]); 7] = [
        (
            format!("{CONFIGMAPS}?watch=1&sendInitialEvents=true"),
            &[requires],
        ),
        (
            format!("{CONFIGMAPS}?watch=1&resourceVersionMatch=NotOlderThan"),
            &[unless],
        ),
        (
            format!("{CONFIGMAPS}?watch=1&resourceVersionMatch=Exact&continue=x"),
            &[unless, unsupported, with_continue],
        ),
        (format!("{CONFIGMAPS}?watch=1&continue=x"), &[with_continue]),
        (
            format!("{CONFIGMAPS}?watch=1&sendInitialEvents=false&resourceVersionMatch=Exact"),
            &[requires, unsupported],
        ),
        (
            format!("{CONFIGMAPS}?sendInitialEvents=true"),
            &[forbidden_for_list],
        ),
        (
            format!("{legacy}?sendInitialEvents=true"),
            &[forbidden_for_list],
        ),
    ];
    for (path, want) in cases {
        let (code, body) = send(
            &server,
            &format!("GET {path}"),
            "application/json",
            Value::Null,
        )
        .await;
        let status: Value = serde_json::from_str(&body).unwrap();
        let causes = status["details"]["causes"].as_array().unwrap();
        let messages: Vec<&str> = causes
            .iter()
            .map(|cause| {
                let message = cause["message"].as_str().unwrap();
                message.strip_prefix("Forbidden: ").unwrap_or(message)
            })
            .collect();
        assert_eq!((code, messages.as_slice()), (422, want), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_list_of_a_version_to_come_waits_for_it_and_then_gives_up() {
    let server = server();
    let current = config_map(&server, "a").await.parse::<u64>().unwrap();
    let query = |rv: u64| {
        let only = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        format!("?watch=1&{only}&resourceVersion={rv}")
    };
    let mut patient = Watch::open(&server, &query(current + 1)).await;
    let mut hopeless = Watch::open(&server, &query(current + 9)).await;
    config_map(&server, "b").await;
    assert_eq!(patient.shown().await, "ADDED a");
    assert_eq!(patient.shown().await, "ADDED b");
    let error = hopeless.event().await;
    assert_eq!(error["type"], "ERROR");
    let message = format!(
        "Timeout: Too large resource version: {}, current: {}",
        current + 9,
        current + 1
    );
    assert_eq!(
        (&error["object"]["code"], &error["object"]["message"]),
        (&json!(504), &json!(message))
    );
    assert_eq!(hopeless.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_watch_lasts_as_long_as_asked_or_between_30_and_60_minutes() {
    let server = server();
    let from = config_map(&server, "a").await;
    let lasts = async |seconds: &str| {
        let query = format!("?watch=1&resourceVersion={from}&timeoutSeconds={seconds}");
        let mut watch = Watch::open(&server, &query).await;
        let start = tokio::time::Instant::now();
        assert_eq!(watch.next().await, None);
        start.elapsed()
    };
    assert_eq!(lasts("90").await.as_secs(), 90);
    assert_eq!(lasts("-1").await, Duration::ZERO);
    let minute = Duration::from_secs(60);
    let defaults = [lasts("0").await, lasts("0").await];
    for default in defaults {
        assert!((30 * minute..60 * minute).contains(&default), "{default:?}");
    }
    assert_ne!(
        defaults[0], defaults[1],
        "spread, so that watches don't all end together"
    );
    // Seconds beyond a Go duration wrap around: to less than none, to a fraction of one, or to many.
    assert_eq!(lasts("9223372036854775807").await, Duration::ZERO);
    assert_eq!(lasts("18446744074").await.as_millis(), 291);
    assert!(lasts("9223372036").await > 1000 * minute);
}

#[tokio::test(start_paused = true)]
async fn leaving_a_selection_shows_the_last_selected_state_at_the_new_version() {
    let server = server();
    let labelled = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "1"}});
    let from = rv(&write(&server, &format!("POST {CONFIGMAPS}"), labelled).await);
    let mut selected = Watch::open(
        &server,
        &format!("?watch=1&resourceVersion={from}&labelSelector=x%3Dy"),
    )
    .await;
    let mut unlabelled = Watch::open(
        &server,
        &format!("?watch=1&resourceVersion={from}&labelSelector=%21x"),
    )
    .await;
    let put = format!("PUT {CONFIGMAPS}/a");
    let plain = json!({"metadata": {"name": "a"}, "data": {"k": "2"}});
    let changed = rv(&write(&server, &put, plain).await);
    let left = selected.event().await;
    assert_eq!(left["type"], "DELETED");
    assert_eq!(left["object"]["data"]["k"], "1");
    assert_eq!(rv(&left["object"]), changed);
    let arrived = unlabelled.event().await;
    assert_eq!(
        (&arrived["type"], &arrived["object"]["data"]["k"]),
        (&json!("ADDED"), &json!("2"))
    );
    write(&server, &format!("DELETE {CONFIGMAPS}/a"), json!({})).await;
    assert_eq!(unlabelled.shown().await, "DELETED a");
    config_map(&server, "fence").await;
    let back = json!({"metadata": {"name": "b", "labels": {"x": "y"}}});
    write(&server, &format!("POST {CONFIGMAPS}"), back).await;
    assert_eq!(selected.shown().await, "ADDED b", "nothing in between");
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_one_name_takes_no_other_field_selector() {
    let server = server();
    let path = "/api/v1/watch/namespaces/default/configmaps/a";
    let (code, body) = send(
        &server,
        &format!("GET {path}?fieldSelector=metadata.name%3Db"),
        "application/json",
        Value::Null,
    )
    .await;
    assert_eq!(code, 400, "{body}");
    assert!(body.contains("fieldSelector metadata.name doesn't match requested name"));
    let query = "?fieldSelector=metadata.name%3Da";
    let mut watch = Watch::open_as(&server, &format!("{path}{query}"), "application/json").await;
    config_map(&server, "b").await;
    config_map(&server, "a").await;
    assert_eq!(watch.shown().await, "ADDED a");
}

#[tokio::test(start_paused = true)]
async fn tables_and_metadata_are_watched_with_their_bookmarks() {
    let server = server();
    config_map(&server, "a").await;
    let path = format!("{CONFIGMAPS}?watch=1&allowWatchBookmarks=1&includeObject=None");
    let mut tables = Watch::open_as(&server, &path, TABLE).await;
    let first = tables.event().await["object"].take();
    assert_eq!(first["kind"], "Table");
    assert_eq!(first["columnDefinitions"][0]["name"], "Name");
    assert_eq!(first["rows"][0]["object"], Value::Null);
    let bookmark = tables.event().await;
    assert_eq!(
        (&bookmark["type"], &bookmark["object"]["kind"]),
        (&json!("BOOKMARK"), &json!("Table"))
    );
    assert_eq!(bookmark["object"]["columnDefinitions"], Value::Null);
    let row = &bookmark["object"]["rows"][0];
    assert_eq!(row["cells"], json!(["", 0, "<unknown>"]));
    // Without the annotation, no client could know that the state is complete.
    assert_eq!(
        row["object"]["metadata"]["annotations"],
        json!({"k8s.io/initial-events-end": "true"})
    );
    let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let mut partial = Watch::open_as(&server, &path, metadata).await;
    assert_eq!(
        partial.event().await["object"]["kind"],
        "PartialObjectMetadata"
    );
    let lists = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let mut partial = Watch::open_as(&server, &path, lists).await;
    assert_eq!(partial.next().await, None, "no event is a list");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_show_an_empty_object_of_the_kind() {
    let server = server();
    let path = "/api/v1/pods?watch=1&allowWatchBookmarks=1";
    let mut watch = Watch::open_as(&server, path, "application/json").await;
    let bookmark = watch.event().await["object"].take();
    assert_eq!(bookmark["spec"], json!({"containers": null}));
    assert_eq!(bookmark["status"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn only_encodings_that_stream_are_watched() {
    let server = server();
    let request = format!("GET {CONFIGMAPS}?watch=1");
    let (code, body) = send(&server, &request, "application/yaml", Value::Null).await;
    assert_eq!(code, 406);
    assert!(
        body.contains("application/json;stream=watch") && body.starts_with("apiVersion: v1"),
        "{body}"
    );
    let accept = "application/yaml;q=0.1, application/json;stream=watch";
    let path = format!("{CONFIGMAPS}?watch=1&timeoutSeconds=1");
    assert_eq!(
        Watch::open_as(&server, &path, accept).await.next().await,
        None
    );
}

#[tokio::test(start_paused = true)]
async fn watches_can_be_asked_to_end_or_to_send_a_bookmark() {
    let server = server();
    let from = config_map(&server, "a").await;
    let resource = GroupResource {
        group: String::new(),
        resource: "configmaps".to_owned(),
    };
    let query = format!("?watch=1&resourceVersion={from}");
    let mut plain = Watch::open(&server, &query).await;
    let mut marked = Watch::open(&server, &format!("{query}&allowWatchBookmarks=1")).await;
    let path = format!("/api/v1/secrets{query}");
    let mut other = Watch::open_as(&server, &path, "application/json").await;

    server.control_watches(WatchControl::Bookmark, Some(&resource));
    let bookmark = marked.event().await;
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(rv(&bookmark["object"]), from);
    config_map(&server, "b").await;
    assert_eq!(
        plain.shown().await,
        "ADDED b",
        "no bookmark for who allows none"
    );
    assert_eq!(marked.shown().await, "ADDED b");

    let control = async |path: &str| {
        let request = format!("POST /kubeproof/v1/{path}");
        send(&server, &request, "application/json", Value::Null).await
    };
    assert_eq!(control("watches/close?resource=configmaps").await.0, 200);
    assert_eq!(plain.next().await, None);
    let mut plain = Watch::open(&server, &query).await;
    assert_eq!(
        plain.shown().await,
        "ADDED b",
        "only those that were open then"
    );
    assert_eq!(control("watches/drop?resource=configmaps").await.0, 200);
    assert_eq!(plain.next().await, Some(Err(Dropped)));
    let secret = json!({"metadata": {"name": "s"}});
    write(&server, "POST /api/v1/namespaces/default/secrets", secret).await;
    assert_eq!(other.shown().await, "ADDED s", "of another resource");
    assert_eq!(control("watches/close").await.0, 200);
    assert_eq!(other.next().await, None);

    assert_eq!(control("watches/nope").await.0, 404);
    assert_eq!(control("compact?resource=nopes").await.0, 400);
    let (code, _) = send(&server, "GET /kubeproof/v1/compact", "*/*", Value::Null).await;
    assert_eq!(code, 405);
}

#[tokio::test(start_paused = true)]
async fn compaction_expires_watches_lists_and_page_tokens_of_the_resource() {
    let server = server();
    let from = config_map(&server, "a").await;
    config_map(&server, "b").await;
    let get = async |query: &str| {
        let request = format!("GET {CONFIGMAPS}{query}");
        let (code, body) = send(&server, &request, "application/json", Value::Null).await;
        (code, serde_json::from_str::<Value>(&body).unwrap())
    };
    let (_, page) = get("?limit=1").await;
    let token = page["metadata"]["continue"].as_str().unwrap();
    let mut current =
        Watch::open(&server, &format!("?watch=1&resourceVersion={}", rv(&page))).await;
    config_map(&server, "c").await;
    assert_eq!(current.shown().await, "ADDED c");

    let request = "POST /kubeproof/v1/compact?resource=secrets";
    assert_eq!(send(&server, request, "*/*", Value::Null).await.0, 200);
    let mut watch = Watch::open(&server, &format!("?watch=1&resourceVersion={from}")).await;
    assert_eq!(
        watch.shown().await,
        "ADDED b",
        "another resource's events are all there"
    );

    let request = "POST /kubeproof/v1/compact?resource=configmaps";
    assert_eq!(send(&server, request, "*/*", Value::Null).await.0, 200);
    let mut watch = Watch::open(&server, &format!("?watch=1&resourceVersion={from}")).await;
    let error = watch.event().await;
    assert_eq!(
        (&error["type"], &error["object"]["reason"]),
        (&json!("ERROR"), &json!("Expired"))
    );
    let message = error["object"]["message"].as_str().unwrap();
    assert!(
        message.starts_with(&format!("too old resource version: {from} (")),
        "{message}"
    );
    let (code, status) = get(&format!(
        "?resourceVersion={from}&resourceVersionMatch=Exact"
    ))
    .await;
    assert_eq!(code, 410);
    assert_eq!(
        status["message"],
        "The resourceVersion for the provided list is too old."
    );
    let (code, status) = get(&format!("?limit=1&continue={token}")).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    let next = status["metadata"]["continue"].as_str().unwrap();
    let (code, page) = get(&format!("?limit=1&continue={next}")).await;
    assert_eq!(
        (code, &page["items"][0]["metadata"]["name"]),
        (200, &json!("b"))
    );
    config_map(&server, "d").await;
    assert_eq!(
        current.shown().await,
        "ADDED d",
        "who had seen everything goes on"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_forgot_nothing_answers_from_its_first_version() {
    let server = server();
    let path = "/api/v1/podtemplates?watch=1&resourceVersion=1&timeoutSeconds=5";
    let mut watch = Watch::open_as(&server, path, "application/json").await;
    assert_eq!(watch.next().await, None, "nothing ever happened");
    let path = "/api/v1/namespaces?watch=1&resourceVersion=1";
    let mut watch = Watch::open_as(&server, path, "application/json").await;
    let mut versions = Vec::new();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let event = watch.event().await;
        versions.push(rv(&event["object"]).parse::<u64>().unwrap());
        seen.push(event["object"]["metadata"]["name"].clone());
    }
    assert!(versions.is_sorted(), "{versions:?}");
    assert!(seen.contains(&json!("default")), "{seen:?}");
    let body = json!({"metadata": {"name": "later"}});
    write(&server, "POST /api/v1/namespaces", body).await;
    assert_eq!(watch.shown().await, "ADDED later");
    // From the middle only those that came after.
    let path = format!("/api/v1/namespaces?watch=1&resourceVersion={}", versions[2]);
    let mut watch = Watch::open_as(&server, &path, "application/json").await;
    let event = watch.event().await;
    assert_eq!(event["object"]["metadata"]["name"], seen[3]);
    assert_eq!(watch.shown().await, "ADDED later");
}

#[tokio::test(start_paused = true)]
async fn large_events_are_forgotten_before_many() {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    let builder = ApiServer::builder().clock(Clock::simulated(epoch));
    let server = builder.watch_window_bytes(200_000).build();
    let from = config_map(&server, "a").await;
    let path = format!("PUT {CONFIGMAPS}/a");
    let mut last = String::new();
    for round in 0..20 {
        let data = format!("{round}{}", "x".repeat(30_000));
        let body = json!({"metadata": {"name": "a"}, "data": {"k": data}});
        last = rv(&write(&server, &path, body).await);
    }
    let mut watch = Watch::open(&server, &format!("?watch=1&resourceVersion={from}")).await;
    let error = watch.event().await;
    let message = error["object"]["message"].as_str().unwrap();
    assert_eq!(error["object"]["code"], 410);
    assert!(
        message.starts_with(&format!("too old resource version: {from} (")),
        "{message}"
    );
    let recent = last.parse::<u64>().unwrap() - 3;
    let mut watch = Watch::open(&server, &format!("?watch=1&resourceVersion={recent}")).await;
    for _ in 0..3 {
        assert_eq!(watch.shown().await, "MODIFIED a");
    }
}

#[tokio::test(start_paused = true)]
async fn equal_watches_share_the_lines_of_tables_and_metadata() {
    const PARTIAL: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let server = server();
    config_map(&server, "a").await;
    let mut lines = Vec::new();
    for (accept, query) in [
        (TABLE, ""),
        (TABLE, ""),
        (TABLE, "&includeObject=None"),
        (PARTIAL, ""),
        (PARTIAL, ""),
        (PARTIAL, "&labelSelector=!tier"),
    ] {
        let path = format!("{CONFIGMAPS}?watch=1{query}");
        let mut watch = Watch::open_as(&server, &path, accept).await;
        assert_eq!(watch.event().await["type"], "ADDED");
        lines.push(watch);
    }
    config_map(&server, "b").await;
    let mut shared = Vec::new();
    for watch in &mut lines {
        let frame = watch.0.frame().await.unwrap().unwrap();
        shared.push(frame.into_data().unwrap());
    }
    let [table, same, bare, partial, alike, selected] = &shared[..] else {
        panic!("{shared:?}");
    };
    assert_eq!(table.as_ptr(), same.as_ptr());
    assert_eq!(partial.as_ptr(), alike.as_ptr());
    assert_eq!(
        partial.as_ptr(),
        selected.as_ptr(),
        "selectors do not matter"
    );
    assert_ne!(table, bare);
    let row = |line: &Bytes| -> Value {
        let event: Value = serde_json::from_slice(line).unwrap();
        event["object"]["rows"][0].clone()
    };
    assert_eq!(row(table)["object"]["metadata"]["name"], "b");
    assert_eq!(row(table)["cells"], row(bare)["cells"]);
    assert!(row(bare)["object"].is_null());
    let partial: Value = serde_json::from_slice(partial).unwrap();
    assert_eq!(partial["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(partial["object"]["metadata"]["name"], "b");
}
