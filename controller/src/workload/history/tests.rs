//! Upstream's test vectors and names seen on real clusters.

use super::*;

fn vector_template() -> Value {
    json!({
        "metadata": {"annotations": {"test": "value"}, "labels": {"app": "foo"}},
        "spec": {
            "containers": [{
                "name": "test", "image": "test", "imagePullPolicy": "Always", "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File"
            }],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always",
            "schedulerName": "default-scheduler", "securityContext": {},
            "terminationGracePeriodSeconds": 30
        }
    })
}

fn nginx_template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "nginx"}},
        "spec": {
            "containers": [{
                "name": "nginx", "image": image, "imagePullPolicy": "IfNotPresent",
                "ports": [{"containerPort": 80, "name": "web", "protocol": "TCP"}],
                "resources": {}, "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File"
            }],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always",
            "schedulerName": "default-scheduler", "securityContext": {},
            "terminationGracePeriodSeconds": 10
        }
    })
}

fn revision(name: &str, number: i64, data: Value) -> Arc<ControllerRevision> {
    Arc::new(ControllerRevision {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data)),
        revision: number,
    })
}

#[test]
fn upstream_vectors_have_their_length_hash_and_name() {
    let data = template_data(&vector_template());
    let text = go_json(&data);
    assert_eq!(text.len(), 432, "{text}");
    assert_eq!(fnv1(format!("{text}0").as_bytes()), 3_325_552_446);
    assert_eq!(revision_name("test", &hash(&data, 0)), "test-776999688b");

    let mut before_1_34 = data;
    before_1_34["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    let text = go_json(&before_1_34);
    assert_eq!(text.len(), 457, "{text}");
    assert_eq!(fnv1(format!("{text}0").as_bytes()), 733_928_534);
    assert_eq!(
        revision_name("test", &hash(&before_1_34, 0)),
        "test-c77f6d978"
    );
}

#[test]
fn sets_seen_on_real_clusters_get_the_same_revision_names() {
    let table = [
        ("nginx:1.25", "web-f4b769f5f"),
        ("nginx:1.16", "web-f7546877"),
        ("nginx:1.17", "web-6556c99876"),
        ("nginx:1.9", "web-6f75c497fc"),
        ("nginx:1.18", "web-85d78df995"),
    ];
    for (image, name) in table {
        let data = template_data(&nginx_template(image));
        assert_eq!(revision_name("web", &hash(&data, 0)), name, "{image}");
    }
}

#[test]
fn html_characters_and_line_separators_are_escaped_as_go_does() {
    let text = go_json(&json!({"b": "a<b>&\u{2028}", "a": "\"\\\n\u{7f}é"}));
    assert_eq!(
        text,
        "{\"a\":\"\\\"\\\\\\n\u{7f}é\",\"b\":\"a\\u003cb\\u003e\\u0026\\u2028\"}"
    );
}

#[test]
fn the_newest_equal_revision_is_reused_and_an_older_one_rolled_back_to() {
    let (a, b, c) = (json!({"v": "a"}), json!({"v": "b"}), json!({"v": "c"}));
    assert_eq!(choose(&[], &a), Choice::Create);
    let revisions = [revision("a", 1, a.clone()), revision("b", 2, b.clone())];
    assert_eq!(choose(&revisions, &b), Choice::Reuse(1));
    assert_eq!(choose(&revisions, &a), Choice::Rollback(0));
    assert_eq!(choose(&revisions, &c), Choice::Create);
    assert_eq!(next_number(&revisions), 3);
}

#[test]
fn a_revision_with_a_null_creation_timestamp_means_the_same() {
    let data = template_data(&vector_template());
    let mut old = data.clone();
    old["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    let other = revision("other", 1, json!({}));
    assert_eq!(
        choose(&[other, revision("old", 2, old.clone())], &data),
        Choice::Reuse(1)
    );
    let newest_differs = [revision("old", 1, old), revision("other", 2, json!({}))];
    assert_eq!(
        choose(&newest_differs, &data),
        Choice::Create,
        "only the newest is compared so"
    );
}

#[test]
fn history_beyond_the_limit_goes_oldest_first_and_live_revisions_stay() {
    let revisions: Vec<_> = ["a", "b", "c", "d"]
        .iter()
        .zip(1..)
        .map(|(name, n)| revision(name, n, json!(n)))
        .collect();
    let live = BTreeSet::from(["a".to_owned(), "d".to_owned()]);
    assert_eq!(to_truncate(&revisions, &live, 10), Vec::<String>::new());
    assert_eq!(to_truncate(&revisions, &live, 1), ["b"]);
    assert_eq!(to_truncate(&revisions, &live, 0), ["b", "c"]);
    assert_eq!(to_truncate(&revisions, &live, -1), Vec::<String>::new());
}

#[test]
fn revisions_sort_by_number_then_age_then_name() {
    let mut revisions = [
        revision("b", 2, json!(0)),
        revision("a", 2, json!(0)),
        revision("c", 1, json!(0)),
    ];
    sort(&mut revisions);
    let names: Vec<_> = revisions
        .iter()
        .filter_map(|r| r.metadata.name.as_deref())
        .collect();
    assert_eq!(names, ["c", "a", "b"]);
}

#[test]
fn a_revision_carries_template_labels_hash_annotations_and_owner() {
    let owner = ObjectMeta {
        name: Some("web".to_owned()),
        namespace: Some("ns".to_owned()),
        uid: Some("u".to_owned()),
        annotations: Some(BTreeMap::from([("note".to_owned(), "x".to_owned())])),
        ..ObjectMeta::default()
    };
    let proposal = Proposal {
        owner_ref: kubeproof_runtime::controller_ref::controller_ref(
            "apps/v1",
            "StatefulSet",
            &owner,
        ),
        owner: &owner,
        template_labels: BTreeMap::from([("app".to_owned(), "nginx".to_owned())]),
        own_annotations: BTreeMap::new(),
        data: &template_data(&nginx_template("nginx:1.25")),
        revision: 1,
        collision_count: 0,
    };
    let built = serde_json::to_value(proposal.build()).unwrap();
    assert_eq!(
        built["metadata"],
        json!({
            "name": "web-f4b769f5f", "namespace": "ns", "annotations": {"note": "x"},
            "labels": {"app": "nginx", "controller.kubernetes.io/hash": "f4b769f5f"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web",
                "uid": "u", "controller": true, "blockOwnerDeletion": true}]
        })
    );
    assert_ne!(hash(proposal.data, 1), hash(proposal.data, 0));
}
