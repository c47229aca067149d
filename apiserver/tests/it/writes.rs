//! Creates, updates and deletions: their refusals, with messages, and their effects.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::json::{Value, json};

use crate::support::requests::{Answer, send, server};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const NAMESPACES: &str = "/api/v1/namespaces";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn create(server: &ApiServer, collection: &str, metadata: Value) -> Answer {
    let body = json!({ "metadata": metadata });
    send(server, &format!("POST {collection}"), body).await
}

async fn get(server: &ApiServer, path: &str) -> Answer {
    send(server, &format!("GET {path}"), Value::Null).await
}

async fn delete(server: &ApiServer, path: &str, options: Value) -> Answer {
    send(server, &format!("DELETE {path}"), options).await
}

fn bound_pod(name: &str) -> Value {
    let spec = json!({ "nodeName": "n", "containers": [{ "name": "c", "image": "i" }] });
    json!({ "metadata": { "name": name }, "spec": spec })
}

#[tokio::test(start_paused = true)]
async fn a_version_given_at_creation_is_refused_by_storage_and_so_last() {
    let server = server();
    let versioned = |name: &str, rv: &str| json!({ "name": name, "resourceVersion": rv });
    let refused = create(&server, CONFIGMAPS, versioned("a", "5")).await;
    assert_eq!(refused.code, 500);
    assert_eq!(
        refused.message(),
        "resourceVersion should not be set on objects to be created"
    );
    // Validation comes first, and a text that is not a number is dropped like 0.
    assert_eq!(
        create(&server, CONFIGMAPS, versioned("A", "5")).await.code,
        422
    );
    assert_eq!(
        create(&server, CONFIGMAPS, versioned("b", "x")).await.code,
        201
    );
    assert_eq!(
        create(&server, CONFIGMAPS, versioned("b", "5")).await.code,
        500
    );
    let dry = format!("{CONFIGMAPS}?dryRun=All");
    let dry = create(&server, &dry, versioned("c", "5")).await;
    assert_eq!((dry.code, dry.meta("resourceVersion")), (201, &json!("5")));
}

#[tokio::test(start_paused = true)]
async fn a_prefix_beside_a_taken_name_changes_the_refusal() {
    let server = server();
    let both = json!({ "name": "a", "generateName": "a-" });
    assert_eq!(create(&server, CONFIGMAPS, both.clone()).await.code, 201);
    let again = create(&server, CONFIGMAPS, both).await;
    assert_eq!(
        again.message(),
        "configmaps \"a\" already exists, the server was not able to generate a unique name for the object"
    );
    assert_eq!(again.body["details"]["retryAfterSeconds"], 1);
}

#[tokio::test(start_paused = true)]
async fn an_owner_given_twice_is_kept_once_and_the_client_warned() {
    let server = server();
    let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1" });
    let twice = json!({ "name": "a", "ownerReferences": [owner, owner] });
    let created = create(&server, CONFIGMAPS, twice.clone()).await;
    assert_eq!(created.meta("ownerReferences"), &json!([owner]));
    assert!(created.warnings[0].ends_with("duplicate UID(s) observed: 1\""));
    let put = format!("PUT {CONFIGMAPS}/a");
    let updated = send(&server, &put, json!({ "metadata": twice })).await;
    assert_eq!(updated.meta("ownerReferences"), &json!([owner]));
    assert_eq!(updated.warnings.len(), 1);
    let patch = format!("PATCH {CONFIGMAPS}/a");
    let patched = send(&server, &patch, json!({ "metadata": twice })).await;
    assert_eq!(patched.meta("ownerReferences"), &json!([owner]));
    let late = "duplicate entries after mutating admission happens; API server";
    assert!(
        patched.warnings[0].contains(late),
        "{}",
        patched.warnings[0]
    );
}

#[tokio::test(start_paused = true)]
async fn an_update_is_of_the_place_and_version_it_says() {
    let server = server();
    create(&server, CONFIGMAPS, json!({ "name": "a" })).await;
    let table: &[(&str, Value, u16, &str)] = &[
        (
            "none",
            json!({ "name": "none", "namespace": "other" }),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            "a",
            json!({ "name": "a", "resourceVersion": "abc" }),
            500,
            "strconv.ParseUint: parsing \"abc\": invalid syntax",
        ),
        (
            "a",
            json!({ "name": "a", "resourceVersion": "99999999999999999999" }),
            500,
            "strconv.ParseUint: parsing \"99999999999999999999\": value out of range",
        ),
    ];
    for (name, metadata, code, message) in table {
        let put = format!("PUT {CONFIGMAPS}/{name}");
        let answer = send(&server, &put, json!({ "metadata": metadata })).await;
        assert_eq!((answer.code, answer.message()), (*code, *message));
    }
}

#[tokio::test(start_paused = true)]
async fn a_put_creates_where_the_kind_allows_it_unless_it_means_a_certain_object() {
    let server = server();
    let put = format!("PUT {LEASES}/l");
    let meant = json!({ "metadata": { "name": "l", "uid": "u" } });
    let refused = send(&server, &put, meant).await;
    assert_eq!(refused.code, 409);
    assert!(
        refused.message().ends_with(
            "Key: /registry/leases/default/l, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: u, UID in object meta: "
        ),
        "{}",
        refused.message()
    );
    let versioned = json!({ "metadata": { "name": "l", "resourceVersion": "7" } });
    assert_eq!(send(&server, &put, versioned).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn the_faults_of_write_options_are_reported_at_once() {
    let server = server();
    let path = format!("{CONFIGMAPS}?dryRun=x&fieldManager=a%09b&fieldValidation=y");
    let refused = create(&server, &path, json!({ "name": "a" })).await;
    assert_eq!(
        refused.message(),
        "CreateOptions.meta.k8s.io \"\" is invalid: [\
         fieldManager: Invalid value: \"a\\tb\": invalid character U+0009 (at position 1), \
         dryRun: Unsupported value: [\"x\"]: supported values: \"All\", \
         fieldValidation: Unsupported value: \"y\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"]"
    );
}

#[tokio::test(start_paused = true)]
async fn delete_options_are_of_the_body_or_else_of_the_query() {
    let server = server();
    create(&server, CONFIGMAPS, json!({ "name": "a" })).await;
    let path = |query: &str| format!("{CONFIGMAPS}/a?{query}");
    let faults: &[(&str, &str)] = &[
        (
            "propagationPolicy=",
            "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
        ),
        (
            "propagationPolicy=x&dryRun=y",
            "DeleteOptions.meta.k8s.io \"\" is invalid: [propagationPolicy: Unsupported value: \"x\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\", dryRun: Unsupported value: [\"y\"]: supported values: \"All\"]",
        ),
        (
            "gracePeriodSeconds=",
            "strconv.ParseInt: parsing \"\": invalid syntax",
        ),
        (
            "gracePeriodSeconds=99999999999999999999",
            "strconv.ParseInt: parsing \"99999999999999999999\": value out of range",
        ),
    ];
    for (query, message) in faults {
        let refused = delete(&server, &path(query), Value::Null).await;
        assert_eq!(refused.message(), *message);
    }
    for guard in ["uid=x", "resourceVersion=1"] {
        let refused = delete(&server, &path(guard), Value::Null).await;
        assert_eq!(refused.code, 409, "{guard}");
    }
    let deleted = delete(&server, &path("dryRun=All&uid=x"), json!({})).await;
    assert_eq!(deleted.code, 200);
    assert_eq!(get(&server, &path("")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn the_old_flag_for_cascading_is_answered_202_while_the_object_is_there() {
    let server = server();
    let held = json!({ "name": "a", "finalizers": ["example.com/f"] });
    create(&server, CONFIGMAPS, held).await;
    let path = format!("{CONFIGMAPS}/a?orphanDependents=false");
    assert_eq!(delete(&server, &path, Value::Null).await.code, 202);
    create(&server, CONFIGMAPS, json!({ "name": "b" })).await;
    let path = format!("{CONFIGMAPS}/b?orphanDependents=false");
    assert_eq!(delete(&server, &path, Value::Null).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn the_collector_leaves_events_alone() {
    let server = server();
    create(&server, EVENTS, json!({ "name": "e" })).await;
    let path = format!("{EVENTS}/e?propagationPolicy=Foreground");
    let deleted = delete(&server, &path, Value::Null).await;
    assert_eq!(deleted.body["status"], "Success");
}

#[tokio::test(start_paused = true)]
async fn a_terminating_object_loses_the_collectors_finalizer_and_goes_in_one_event() {
    let server = server();
    create(&server, CONFIGMAPS, json!({ "name": "a" })).await;
    let path = |policy: &str| format!("{CONFIGMAPS}/a?propagationPolicy={policy}");
    let waiting = delete(&server, &path("Foreground"), Value::Null).await;
    assert_eq!(waiting.meta("finalizers"), &json!(["foregroundDeletion"]));
    let before = server.resource_version();
    let gone = delete(&server, &path("Background"), Value::Null).await;
    assert_eq!(gone.body["status"], "Success");
    assert_eq!(server.resource_version(), before.after(1));
}

#[tokio::test(start_paused = true)]
async fn a_pods_grace_is_shortened_by_what_is_asked_and_by_nothing_else() {
    let server = server();
    send(&server, &format!("POST {PODS}"), bound_pod("p")).await;
    let path = format!("{PODS}/p");
    delete(&server, &path, Value::Null).await;
    let done = json!({ "status": { "phase": "Failed" } });
    send(&server, &format!("PATCH {path}/status"), done).await;
    let again = delete(&server, &path, Value::Null).await;
    assert_eq!(again.meta("deletionGracePeriodSeconds"), 30);
    let shorter = format!("{path}?gracePeriodSeconds=20");
    let shorter = delete(&server, &shorter, Value::Null).await;
    assert_eq!(shorter.meta("deletionGracePeriodSeconds"), 20);
    assert_eq!(get(&server, &path).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_grace_beyond_gos_durations_wraps_around_as_upstream() {
    let server = server();
    let cases = [
        (1_000_000_000_000_i64, "2148-10-27T00:40:19Z", 19),
        (i64::MAX, "2025-12-31T23:59:59Z", 20),
        (9_223_372_037, "1733-09-22T00:12:43Z", 19),
        (10_000_000_000, "1758-05-02T18:12:06Z", 19),
        (9_223_372_036, "2318-04-12T23:47:16Z", 20),
    ];
    // A shorter grace lacks the fraction of a second by which the stored time was cut.
    for (grace, due, left) in cases {
        send(&server, &format!("POST {PODS}"), bound_pod("p")).await;
        let path = format!("{PODS}/p?gracePeriodSeconds={grace}");
        let marked = delete(&server, &path, Value::Null).await;
        assert_eq!(marked.code, 200);
        assert_eq!(marked.meta("deletionTimestamp"), due, "{grace}");
        assert_eq!(marked.meta("deletionGracePeriodSeconds"), grace);
        let shorter = format!("{PODS}/p?gracePeriodSeconds=20");
        let shorter = delete(&server, &shorter, Value::Null).await;
        assert_eq!(shorter.meta("deletionGracePeriodSeconds"), 20);
        let sooner = format!("2026-01-01T00:00:{left}Z");
        assert_eq!(shorter.meta("deletionTimestamp"), &json!(sooner));
        let now = format!("{PODS}/p?gracePeriodSeconds=0");
        assert_eq!(delete(&server, &now, Value::Null).await.code, 200);
    }
    // A pod's own grace is as long as it says.
    let mut pod = bound_pod("p");
    pod["spec"]["terminationGracePeriodSeconds"] = i64::MAX.into();
    send(&server, &format!("POST {PODS}"), pod).await;
    let marked = delete(&server, &format!("{PODS}/p"), Value::Null).await;
    assert_eq!(marked.meta("deletionTimestamp"), "2025-12-31T23:59:59Z");
    assert_eq!(server.panics(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn times_are_kept_up_to_the_last_year_of_four_digits_and_beyond() {
    let server = server();
    let cases = [
        ("9999-12-31T23:59:59.000000Z", "9999-12-31T23:59:59.000000Z"),
        (
            "9999-12-31T23:59:59.000000-01:00",
            "10000-01-01T00:59:59.000000Z",
        ),
        (
            "0000-01-01T00:00:00.000000+01:00",
            "-0001-12-31T23:00:00.000000Z",
        ),
    ];
    for (index, (time, kept)) in cases.into_iter().enumerate() {
        let name = format!("l{index}");
        let lease = json!({ "metadata": { "name": name }, "spec": { "renewTime": time } });
        let created = send(&server, &format!("POST {LEASES}"), lease).await;
        assert_eq!(created.code, 201, "{time}: {}", created.message());
        let read = get(&server, &format!("{LEASES}/{name}")).await;
        assert_eq!(read.body["spec"]["renewTime"], kept);
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_in_two_steps() {
    let server = server();
    create(&server, NAMESPACES, json!({ "name": "n" })).await;
    let path = format!("{NAMESPACES}/n");
    let free = json!({ "metadata": { "name": "n" }, "spec": { "finalizers": [] } });
    send(&server, &format!("PUT {path}/finalize"), free).await;
    let first = delete(&server, &path, Value::Null).await;
    assert_eq!(first.body["status"]["phase"], "Terminating");
    let second = delete(&server, &path, Value::Null).await;
    assert_eq!(
        (second.code, &second.body["kind"]),
        (200, &json!("Namespace"))
    );
    assert_eq!(get(&server, &path).await.code, 404);

    create(&server, NAMESPACES, json!({ "name": "m" })).await;
    let path = format!("{NAMESPACES}/m");
    let flag = format!("{path}?orphanDependents=false");
    let waiting = delete(&server, &flag, Value::Null).await;
    assert_eq!(waiting.meta("finalizers"), &json!(["foregroundDeletion"]));
    // What holds it decides; options of a later request change nothing.
    let later = format!("{path}?propagationPolicy=Background");
    let later = delete(&server, &later, Value::Null).await;
    assert_eq!(later.meta("finalizers"), &json!(["foregroundDeletion"]));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_named_by_a_label_and_checked_in_each_part() {
    let server = server();
    let generated = create(&server, NAMESPACES, json!({ "generateName": "g-" })).await;
    let label = &generated.meta("labels")["kubernetes.io/metadata.name"];
    assert_eq!(label, generated.meta("name"));
    let named = json!({ "name": "n" });
    let body = json!({ "metadata": named, "spec": { "finalizers": ["odd"] } });
    let refused = send(&server, &format!("POST {NAMESPACES}"), body.clone()).await;
    let standard = "name is neither a standard finalizer name nor is it fully qualified";
    assert_eq!(
        refused.message(),
        format!("Namespace \"n\" is invalid: spec.finalizers: Invalid value: \"odd\": {standard}")
    );
    create(&server, NAMESPACES, named.clone()).await;
    let finalize = format!("PUT {NAMESPACES}/n/finalize");
    let refused = send(&server, &finalize, body).await;
    assert_eq!(
        refused.message(),
        format!(
            "Namespace \"n\" is invalid: spec.finalizers[0]: Invalid value: \"odd\": {standard}"
        )
    );
    let phase = json!({ "metadata": named, "status": { "phase": "Terminating" } });
    let refused = send(&server, &format!("PUT {NAMESPACES}/n/status"), phase).await;
    assert_eq!(
        refused.message(),
        "Namespace \"n\" is invalid: status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"
    );
    // All but the status is written, as in a PUT of the namespace itself.
    let labelled = json!({ "name": "n", "labels": { "a": "b" } });
    let body = json!({ "metadata": labelled, "spec": { "finalizers": ["kubernetes", "a.b/c"] } });
    let written = send(&server, &finalize, body).await;
    assert_eq!(written.meta("labels")["a"], "b");
    assert_eq!(written.body["status"]["phase"], "Active");
}

#[tokio::test(start_paused = true)]
async fn a_path_says_whether_the_resource_is_in_a_namespace() {
    let server = server();
    let rows = [
        ("GET /api/v1/namespaces/default/nodes", 404),
        ("GET /api/v1/namespaces/default/nodes/n", 404),
        ("GET /api/v1/configmaps/a", 404),
        ("DELETE /api/v1/configmaps/a", 404),
        ("DELETE /api/v1/configmaps", 405),
        ("POST /api/v1/configmaps", 405),
        ("GET /api/v1/configmaps", 200),
    ];
    for method in ["GET", "DELETE"] {
        let odd = send(
            &server,
            &format!("{method} {CONFIGMAPS}/a%25b"),
            Value::Null,
        )
        .await;
        let message = "Name parameter invalid: \"a%b\": may not contain '%'";
        assert_eq!((odd.code, odd.message()), (400, message));
    }
    for (request, code) in rows {
        let answer = send(&server, request, Value::Null).await;
        assert_eq!(answer.code, code, "{request}");
        if code == 404 {
            let message = "the server could not find the requested resource";
            assert_eq!(answer.message(), message, "{request}");
        }
    }
}

#[tokio::test]
async fn a_service_account_keeps_its_old_name_beside_the_new_one_in_every_pod_spec() {
    let server = server();
    let templates = "/api/v1/namespaces/default/podtemplates";
    let body = json!({
        "metadata": {"name": "t"},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
            "serviceAccountName": "x", "containers": [{"name": "c", "image": "i"}],
        }},
    });
    let created = send(&server, &format!("POST {templates}"), body).await;
    assert_eq!(created.body["template"]["spec"]["serviceAccount"], "x");
    let rows = [
        (json!({"serviceAccountName": "y"}), json!("y")),
        (json!({"serviceAccountName": null}), json!("y")),
        (
            json!({"serviceAccountName": null, "serviceAccount": null}),
            Value::Null,
        ),
    ];
    for (spec, want) in rows {
        let patch = json!({"template": {"spec": spec}});
        let patched = send(&server, &format!("PATCH {templates}/t"), patch).await;
        let spec = &patched.body["template"]["spec"];
        assert_eq!((patched.code, &spec["serviceAccount"]), (200, &want));
        assert_eq!(spec["serviceAccountName"], want);
    }
}

/// kubernetes#19403: a deletion without grace removes the object despite concurrent writes.
#[tokio::test]
async fn a_deletion_without_grace_tolerates_others_that_write() {
    let server = ApiServer::builder().build();
    let others = (server.clone(), Arc::new(AtomicBool::new(true)));
    let running = Arc::clone(&others.1);
    // On a thread of its own, so that its writes come between those of one deletion.
    let writer = std::thread::spawn(move || {
        let (server, running) = others;
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().unwrap();
        runtime.block_on(async {
            let mut turn = 0_u64;
            while running.load(Ordering::Acquire) {
                turn += 1;
                let body = json!({"status": {"message": turn.to_string()}});
                send(&server, &format!("PATCH {PODS}/p/status"), body).await;
            }
        });
    });
    for round in 0..1000 {
        let spec = json!({"containers": [{"name": "c", "image": "i"}]});
        let pod = json!({"metadata": {"name": "p"}, "spec": spec});
        assert_eq!(send(&server, &format!("POST {PODS}"), pod).await.code, 201);
        let options = json!({"gracePeriodSeconds": 0});
        let deleted = send(&server, &format!("DELETE {PODS}/p"), options).await;
        assert_eq!(deleted.code, 200, "{round}: {}", deleted.message());
        assert_eq!(deleted.meta("name"), &json!("p"));
    }
    running.store(false, Ordering::Release);
    writer.join().unwrap();
}
