//! The families of `/metrics` and their counts, under simulated time to the byte.

use std::time::Duration;

use http_body_util::BodyExt;
use kubeproof_apiserver::json::{Value, json};
use kubeproof_apiserver::{ApiServer, Clock};

use super::{CONFIGMAPS, ask, read, respond, server};

const JSON: (&str, &str) = ("content-type", "application/json");

async fn send(server: &ApiServer, request: &str, headers: &[(&str, &str)], body: Value) -> u16 {
    let headers = [&[JSON], headers].concat();
    let body = body.to_string();
    let response = respond(server, request, &headers, body.as_bytes()).await;
    read(response).await.0
}

fn configmap(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

async fn metrics(server: &ApiServer) -> String {
    let (code, text) = ask(server, "GET /metrics").await;
    assert_eq!(code, 200);
    text
}

/// The family `name` with its help and type.
fn family(text: &str, name: &str) -> String {
    let help = format!("# HELP {name} ");
    let start = text
        .find(&help)
        .unwrap_or_else(|| panic!("{name} in\n{text}"));
    let rest = &text[start..];
    let end = rest[1..].find("# HELP ").map_or(rest.len(), |at| at + 1);
    rest[..end].to_owned()
}

/// The lines of the family `name`, without help, type, and the buckets of a histogram.
fn series(text: &str, name: &str) -> Vec<String> {
    let family = family(text, name);
    let lines = family.lines().filter(|line| !line.starts_with('#'));
    let lines = lines.filter(|line| !line.contains("_bucket{"));
    lines.map(|line| line[name.len()..].to_owned()).collect()
}

fn has(text: &str, line: &str) -> bool {
    text.contains(&format!("\n{line}\n"))
}

#[tokio::test(start_paused = true)]
async fn a_run_under_simulated_time_prints_the_same_bytes() {
    let run = async || {
        let server = server();
        let post = format!("POST {CONFIGMAPS}");
        assert_eq!(send(&server, &post, &[], configmap("a")).await, 201);
        ask(&server, &format!("GET {CONFIGMAPS}")).await;
        let watch = format!("GET {CONFIGMAPS}?watch=1&timeoutSeconds=7");
        read(respond(&server, &watch, &[], b"").await).await;
        metrics(&server).await
    };
    let text = run().await;
    assert_eq!(text, run().await);
    assert!(
        has(&text, "process_start_time_seconds 1767225600"),
        "{text}"
    );
    assert!(
        !text.contains("process_cpu_seconds_total"),
        "of the machine"
    );
}

#[tokio::test]
async fn a_server_in_real_time_shows_its_process() {
    let server = ApiServer::builder().clock(Clock::real()).build();
    let text = metrics(&server).await;
    if cfg!(target_os = "linux") {
        for name in ["process_open_fds", "process_resident_memory_bytes"] {
            let lines = family(&text, name);
            let value = lines.lines().last().unwrap().rsplit(' ').next().unwrap();
            assert!(value.parse::<f64>().unwrap() > 0.0, "{lines}");
        }
        assert!(text.contains("\n# TYPE process_cpu_seconds_total counter\n"));
    }
    let version = "version_info{binary=\"1.36.2\",component=\"kube\",emulation=\"1.36\",min_compat=\"1.35\"} 1";
    assert!(has(&text, version), "{text}");
    let gate = "kubernetes_feature_enabled{name=\"MaxUnavailableStatefulSet\",stage=\"BETA\"} 0";
    assert!(has(&text, gate), "{text}");
}

#[tokio::test(start_paused = true)]
async fn steps_of_admission_and_their_plugins_are_counted() {
    let server = server();
    let text = metrics(&server).await;
    assert!(!text.contains("apiserver_admission_"), "nobody has written");

    let post = format!("POST {CONFIGMAPS}");
    assert_eq!(send(&server, &post, &[], configmap("a")).await, 201);
    assert_eq!(
        send(
            &server,
            "POST /api/v1/namespaces/no/configmaps",
            &[],
            configmap("a")
        )
        .await,
        404
    );
    assert_eq!(
        send(
            &server,
            "DELETE /api/v1/namespaces/default",
            &[],
            Value::Null
        )
        .await,
        403
    );
    let text = metrics(&server).await;
    let summary = "apiserver_admission_step_admission_duration_seconds_summary";
    let of = |operation: &str, rejected: bool, step: &str| {
        let labels = format!("operation=\"{operation}\",rejected=\"{rejected}\",type=\"{step}\"");
        let quantiles = ["0.5", "0.9", "0.99"]
            .map(|quantile| format!("{summary}{{{labels},quantile=\"{quantile}\"}} 0\n"));
        let [median, most, all] = quantiles;
        format!("{median}{most}{all}{summary}_sum{{{labels}}} 0\n{summary}_count{{{labels}}} 1\n")
    };
    let wanted = [
        of("CREATE", false, "admit"),
        of("CREATE", false, "validate"),
        of("CREATE", true, "admit"),
        of("DELETE", true, "admit"),
    ];
    let help = format!(
        "# HELP {summary} [ALPHA] Admission sub-step latency summary in seconds, broken out for \
         each operation and API resource and step type (validate or admit).\n\
         # TYPE {summary} summary\n"
    );
    assert_eq!(family(&text, summary), help + &wanted.concat());

    let name = "apiserver_admission_controller_admission_duration_seconds";
    let count = |plugin: &str, operation: &str, rejected: bool, step: &str| {
        let labels = format!("operation=\"{operation}\",rejected=\"{rejected}\",type=\"{step}\"");
        let line = format!("_count{{name=\"{plugin}\",{labels}}} ");
        let series = series(&text, name);
        let line = series.iter().find_map(|own| own.strip_prefix(&line));
        line.map(|count| count.parse::<u64>().unwrap())
    };
    assert_eq!(
        count("NamespaceLifecycle", "CREATE", false, "admit"),
        Some(1)
    );
    assert_eq!(
        count("NamespaceLifecycle", "CREATE", true, "admit"),
        Some(1)
    );
    assert_eq!(
        count("NamespaceLifecycle", "DELETE", true, "admit"),
        Some(1)
    );
    // Nobody is asked behind a refusal.
    assert_eq!(
        count("MutatingAdmissionWebhook", "CREATE", false, "admit"),
        Some(1)
    );
    assert_eq!(
        count("MutatingAdmissionWebhook", "DELETE", false, "admit"),
        None
    );
    assert_eq!(count("ResourceQuota", "CREATE", false, "validate"), Some(1));
    assert_eq!(
        count("ServiceAccount", "CREATE", false, "admit"),
        None,
        "it is off"
    );
    assert_eq!(count("LimitRanger", "UPDATE", false, "admit"), None);
}

#[tokio::test(start_paused = true)]
async fn a_pod_meets_the_plugins_that_know_pods() {
    let server = server();
    let pod = json!({ "metadata": { "name": "a" },
        "spec": { "priorityClassName": "none", "containers": [{ "name": "c", "image": "i" }] } });
    let post = "POST /api/v1/namespaces/default/pods";
    assert_eq!(send(&server, post, &[], pod).await, 403);
    let text = metrics(&server).await;
    let name = "apiserver_admission_controller_admission_duration_seconds";
    let counts = series(&text, name);
    let counts: Vec<&String> = counts
        .iter()
        .filter(|line| line.starts_with("_count"))
        .collect();
    let of = |plugin: &str, rejected: bool| {
        let labels = format!("operation=\"CREATE\",rejected=\"{rejected}\",type=\"admit\"");
        format!("_count{{name=\"{plugin}\",{labels}}} 1")
    };
    // In the order of their names; those after the one that refuses have not been asked.
    let wanted = [
        of("LimitRanger", false),
        of("NamespaceLifecycle", false),
        of("Priority", true),
        of("TaintNodesByCondition", false),
    ];
    assert_eq!(counts, wanted.iter().collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn authentication_impersonation_and_authorization_are_counted_by_outcome() {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    let builder = ApiServer::builder().clock(Clock::simulated(epoch));
    let server = builder.token(Some("t".to_owned())).build();
    let admin = ("authorization", "Bearer t");
    let bob = ("impersonate-user", "bob");
    let get = async |headers: &[(&str, &str)]| {
        let request = format!("GET {CONFIGMAPS}");
        read(respond(&server, &request, headers, b"").await).await.0
    };
    assert_eq!(get(&[admin]).await, 200);
    assert_eq!(get(&[]).await, 403);
    assert_eq!(get(&[("authorization", "Bearer no")]).await, 401);
    assert_eq!(get(&[admin, bob]).await, 403);
    assert_eq!(get(&[bob]).await, 403);
    let account = json!({ "metadata": { "name": "a" } });
    let accounts = "POST /api/v1/namespaces/default/serviceaccounts";
    assert_eq!(send(&server, accounts, &[admin], account).await, 201);
    let binding = json!({ "metadata": { "name": "a" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob" }] });
    let bindings = "POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(send(&server, bindings, &[admin], binding).await, 201);
    assert_eq!(get(&[admin, bob]).await, 200);
    let request = format!("{accounts}/a/token");
    let headers = [JSON, admin];
    let response = respond(&server, &request, &headers, b"{\"spec\":{}}").await;
    let (_, _, issued) = read(response).await;
    let issued: Value = serde_json::from_slice(&issued).unwrap();
    let bearer = format!("Bearer {}", issued["status"]["token"].as_str().unwrap());
    assert_eq!(get(&[("authorization", &bearer)]).await, 403);

    let response = respond(&server, "GET /metrics", &[admin], b"").await;
    let (_, _, text) = read(response).await;
    let text = String::from_utf8(text.to_vec()).unwrap();
    for line in [
        // A token's user and the anonymous user count like any other user.
        "authentication_attempts{result=\"error\"} 1",
        "authentication_attempts{result=\"success\"} 10",
        "authentication_duration_seconds_count{result=\"success\"} 10",
        "authentication_duration_seconds_sum{result=\"success\"} 0",
        "authentication_duration_seconds_bucket{result=\"error\",le=\"0.001\"} 1",
        "apiserver_request_filter_duration_seconds_count{filter=\"authentication\"} 11",
        "authorization_attempts_total{result=\"allowed\"} 6",
        "authorization_attempts_total{result=\"no-opinion\"} 3",
        "authorization_duration_seconds_count{result=\"no-opinion\"} 3",
        "apiserver_authorization_decisions_total{decision=\"allowed\",name=\"rbac\",type=\"RBAC\"} 1",
        "apiserver_impersonation_attempts_total{decision=\"allowed\",mode=\"user-info\"} 2",
        "apiserver_impersonation_attempts_total{decision=\"denied\",mode=\"\"} 1",
        "apiserver_impersonation_authorization_attempts_total{decision=\"denied\",mode=\"legacy\"} 1",
        // A token without a warning time is not counted.
        "serviceaccount_valid_tokens_total 0",
        "serviceaccount_stale_tokens_total 0",
        "apiserver_client_certificate_expiration_seconds_count 0",
    ] {
        assert!(has(&text, line), "{line} in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn lists_and_watches_of_the_window_are_counted_by_resource() {
    let server = server();
    let post = format!("POST {CONFIGMAPS}");
    for name in ["a", "b"] {
        assert_eq!(send(&server, &post, &[], configmap(name)).await, 201);
    }
    let version = server.resource_version();
    assert_eq!(send(&server, &post, &[], configmap("c")).await, 201);
    for query in [
        "",
        "?resourceVersion=0",
        "?fieldSelector=metadata.name%3Da",
        "?limit=2",
    ] {
        ask(&server, &format!("GET {CONFIGMAPS}{query}")).await;
    }
    let present = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                   &allowWatchBookmarks=true&timeoutSeconds=1";
    for query in [
        present.to_owned(),
        format!("watch=1&resourceVersion={version}&timeoutSeconds=1"),
    ] {
        let watch = format!("GET {CONFIGMAPS}?{query}");
        read(respond(&server, &watch, &[], b"").await).await;
    }
    let text = metrics(&server).await;
    let current = server.resource_version();
    let labels = "group=\"\",resource=\"configmaps\"";
    let index = "group=\"\",index=\"\",resource=\"configmaps\"";
    for line in [
        format!("apiserver_cache_list_total{{{index}}} 4"),
        format!("apiserver_cache_list_fetched_objects_total{{{index}}} 9"),
        format!("apiserver_cache_list_returned_objects_total{{{labels}}} 9"),
        "apiserver_watch_cache_consistent_read_total{fallback=\"false\",group=\"\",resource=\"configmaps\",success=\"true\"} 3".to_owned(),
        format!("apiserver_watch_cache_read_wait_seconds_count{{{labels}}} 3"),
        format!("apiserver_watch_cache_events_received_total{{{labels}}} 3"),
        format!("apiserver_watch_cache_events_dispatched_total{{{labels}}} 3"),
        format!("apiserver_storage_events_received_total{{{labels}}} 3"),
        format!("apiserver_watch_cache_initializations_total{{{labels}}} 1"),
        format!("apiserver_watch_cache_resource_version{{{labels}}} {current}"),
        format!("watch_cache_capacity{{{labels}}} 4096"),
        // Three objects, and the event after the version.
        format!("apiserver_init_events_total{{{labels}}} 4"),
        "apiserver_watch_list_duration_seconds_count{group=\"\",resource=\"configmaps\",scope=\"namespace\",version=\"v1\"} 1".to_owned(),
        "apiserver_watch_list_duration_seconds_sum{group=\"\",resource=\"configmaps\",scope=\"namespace\",version=\"v1\"} 0".to_owned(),
        // A fresh server has a config map of its own.
        format!("apiserver_resource_objects{{{labels}}} 4"),
    ] {
        assert!(has(&text, &line), "{line} in\n{text}");
    }
    assert!(!text.contains("apiserver_terminated_watchers_total{"));
    let watch = "component=\"apiserver\",group=\"\",resource=\"configmaps\",scope=\"namespace\",\
                 subresource=\"\",verb=\"WATCH\",version=\"v1\"";
    let sizes = format!("apiserver_response_sizes_count{{{watch}}} 2");
    assert!(has(&text, &sizes), "{text}");
    let indicated = format!("apiserver_request_sli_duration_seconds_count{{{watch}}}");
    assert!(
        !text.contains(&indicated),
        "a watch lasts as its client wants"
    );
    assert!(
        !text.contains("apiserver_storage_list_total"),
        "there is no storage behind"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_waits_for_a_version_and_is_closed_when_it_falls_behind() {
    let server = server();
    let post = format!("POST {CONFIGMAPS}");
    assert_eq!(send(&server, &post, &[], configmap("a")).await, 201);
    let ahead = server.resource_version().after(1);
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let path = format!("GET {CONFIGMAPS}?watch=1&resourceVersion={ahead}&{query}");
    let mut watch = respond(&server, &path, &[], b"").await.into_body();
    let writes = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(send(&server, &post, &[], configmap("b")).await, 201);
    };
    let (first, ()) = tokio::join!(watch.frame(), writes);
    assert!(first.unwrap().is_ok());
    // It has read the window once; all that follows is forgotten before it looks again.
    watch.frame().await.unwrap().unwrap();
    assert_eq!(send(&server, &post, &[], configmap("c")).await, 201);
    watch.frame().await.unwrap().unwrap();
    assert_eq!(send(&server, &post, &[], configmap("d")).await, 201);
    server.compact();
    let last = watch.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(last.starts_with(b"{\"type\":\"ERROR\""), "{last:?}");
    let text = metrics(&server).await;
    let labels = "group=\"\",resource=\"configmaps\"";
    for line in [
        format!("apiserver_watch_cache_read_wait_seconds_sum{{{labels}}} 2"),
        format!("apiserver_watch_cache_read_wait_seconds_count{{{labels}}} 1"),
        format!("apiserver_terminated_watchers_total{{{labels}}} 1"),
    ] {
        assert!(has(&text, &line), "{line} in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn probes_openapi_and_aggregated_discovery_are_requests_without_a_resource() {
    let server = server();
    for path in [
        "/readyz",
        "/readyz/ping",
        "/openapi/v2",
        "/openapi/v3/api/v1",
        "/version",
        "/api",
    ] {
        assert_eq!(ask(&server, &format!("GET {path}")).await.0, 200, "{path}");
    }
    let aggregated = "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList";
    let accept = [("accept", aggregated)];
    let response = respond(&server, "GET /apis", &accept, b"").await;
    assert_eq!(response.status(), 200);
    metrics(&server).await;
    let text = metrics(&server).await;
    let totals = series(&text, "apiserver_request_total");
    let of = |component: &str, subresource: &str| {
        format!(
            "{{code=\"200\",component=\"{component}\",dry_run=\"\",group=\"\",resource=\"\",\
             scope=\"\",subresource=\"{subresource}\",verb=\"GET\",version=\"\"}} 1"
        )
    };
    assert_eq!(
        totals,
        [
            of("", "/readyz"),
            of("", "openapi/v3/"),
            of("apiserver", "apis")
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn bodies_deprecated_resources_and_the_servers_own_requests_are_counted() {
    let server = server();
    let post = format!("POST {CONFIGMAPS}");
    let body = configmap("a");
    let bytes = body.to_string().len();
    assert_eq!(send(&server, &post, &[], body).await, 201);
    let dry = format!("{post}?dryRun=All");
    assert_eq!(send(&server, &dry, &[], configmap("b")).await, 201);
    let delete = format!("DELETE {CONFIGMAPS}/a");
    let own = [("user-agent", "kube-apiserver/v1.36.2")];
    let response = respond(&server, &delete, &own, b"").await;
    assert_eq!(response.status(), 200);
    ask(&server, "GET /api/v1/namespaces/default/endpoints").await;
    let text = metrics(&server).await;
    let sizes = "apiserver_request_body_size_bytes";
    let of = |verb: &str| format!("group=\"\",resource=\"configmaps\",verb=\"{verb}\"");
    let sli = "apiserver_request_sli_duration_seconds_count{component=\"apiserver\",group=\"\",\
               resource=\"configmaps\",scope=\"resource\",subresource=\"\",verb=\"POST\",\
               version=\"v1\"}";
    for line in [
        format!("{sizes}_sum{{{}}} {}", of("create"), 2 * bytes),
        format!("{sizes}_count{{{}}} 2", of("create")),
        format!("{sizes}_bucket{{{},le=\"50000\"}} 1", of("delete")),
        format!("{sizes}_bucket{{{},le=\"3050000\"}} 1", of("delete")),
        format!("{sli} 1"),
        "apiserver_requested_deprecated_apis{group=\"\",removed_release=\"\",resource=\"endpoints\",subresource=\"\",version=\"v1\"} 1".to_owned(),
        "apiserver_selfrequest_total{group=\"\",resource=\"configmaps\",subresource=\"\",verb=\"DELETE\"} 1".to_owned(),
        "apiserver_tls_handshake_errors_total 0".to_owned(),
        "apiserver_current_inqueue_requests{request_kind=\"mutating\"} 0".to_owned(),
    ] {
        assert!(has(&text, &line), "{line} in\n{text}");
    }
}
