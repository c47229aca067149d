use crate::json::json;

use super::*;

fn shown(errors: &FieldErrors) -> Vec<String> {
    let show = |cause: &crate::status::Cause| {
        let text: String = cause.message.chars().take(110).collect();
        format!("{}: {text}", cause.field)
    };
    errors.causes().iter().map(show).collect()
}

fn on_create(meta: Value) -> Vec<String> {
    let path = FieldPath::new("metadata");
    shown(&validate_object_meta(
        &meta,
        true,
        NameRule::DnsSubdomain,
        &path,
    ))
}

fn on_update(new: Value, old: Value) -> Vec<String> {
    shown(&validate_object_meta_update(
        &new,
        &old,
        &FieldPath::new("metadata"),
    ))
}

#[test]
fn complete_metadata_has_no_faults() {
    let meta = json!({
        "name": "a.b", "generateName": "a.", "namespace": "ns", "generation": 1,
        "labels": {"example.com/x": "y", "e": ""},
        "annotations": {"Example.COM/X": "any thing"},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": true},
            {"apiVersion": "apps/v1", "kind": "X", "name": "q", "uid": "2", "controller": false},
            {"apiVersion": "events.k8s.io/v1", "kind": "Event", "name": "e", "uid": "3"},
        ],
        "finalizers": ["example.com/x", "orphan"],
        "managedFields": [{"operation": "Apply", "fieldsType": "FieldsV1", "manager": "m"}],
    });
    let mut meta = meta;
    meta["generateName"] = "a-".into();
    assert_eq!(on_create(meta), Vec::<String>::new());
}

#[test]
fn faults_come_in_upstreams_order() {
    let meta = json!({
        "labels": {"/k": "v"},
        "annotations": {"bad key": ""},
        "ownerReferences": [{}],
        "finalizers": ["orphan", "foregroundDeletion"],
        "managedFields": [{"operation": "", "fieldsType": "FieldsV2", "manager": "a\nb"}],
        "generation": -1,
        "generateName": "AB-",
    });
    let found = on_create(meta);
    let fields: Vec<&str> = found
        .iter()
        .map(|fault| fault.split_once(": ").unwrap().0)
        .collect();
    assert_eq!(
        fields,
        [
            "metadata.generateName",
            "metadata.name",
            "metadata.namespace",
            "metadata.generation",
            "metadata.labels",
            "metadata.annotations",
            "metadata.ownerReferences.apiVersion",
            "metadata.ownerReferences.kind",
            "metadata.ownerReferences.name",
            "metadata.ownerReferences.uid",
            "metadata.finalizers",
            "metadata.managedFields[0].operation",
            "metadata.managedFields[0].fieldsType",
            "metadata.managedFields[0].manager",
        ]
    );
    for fault in [
        "metadata.name: Required value: name or generateName is required",
        "metadata.namespace: Required value",
        "metadata.generation: Invalid value: -1: must be greater than or equal to 0",
        "metadata.labels: Invalid value: \"/k\": prefix part must be non-empty",
        "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
        "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
        "metadata.managedFields[0].manager: \
         Invalid value: \"a\\nb\": invalid character U+000A (at position 1)",
    ] {
        assert!(found.iter().any(|f| f == fault), "{fault}\n{found:#?}");
    }
}

#[test]
fn a_cluster_scoped_object_has_no_namespace() {
    let path = FieldPath::new("metadata");
    let check = |meta: Value| {
        shown(&validate_object_meta(
            &meta,
            false,
            NameRule::DnsLabel,
            &path,
        ))
    };
    assert_eq!(check(json!({"name": "a"})), Vec::<String>::new());
    assert_eq!(
        check(json!({"name": "a.b", "namespace": "x"})),
        [
            "metadata.name: Invalid value: \"a.b\": must not contain dots",
            "metadata.namespace: Forbidden: not allowed on this type",
        ]
    );
}

#[test]
fn annotations_are_limited_in_sum() {
    let meta = |size: usize| json!({"name": "a", "namespace": "n", "annotations": {"k": "x".repeat(size - 1)}});
    assert_eq!(on_create(meta(262_144)), Vec::<String>::new());
    assert_eq!(
        on_create(meta(262_145)),
        ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    );
}

#[test]
fn at_most_one_owner_controls_and_an_event_never_owns() {
    let owner = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "name": "o", "uid": "u"});
    let mut first = owner("Pod");
    first["controller"] = true.into();
    let mut second = owner("Node");
    second["controller"] = true.into();
    let mut errors = FieldErrors::new();
    let meta = json!({"ownerReferences": [first, second, owner("Event")]});
    validate_owner_references(
        &meta,
        &FieldPath::new("metadata.ownerReferences"),
        &mut errors,
    );
    let messages: Vec<&str> = errors.causes().iter().map(|c| c.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "Invalid value: [{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"o\",\"uid\":\"u\",\
             \"controller\":true},{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"o\",\
             \"uid\":\"u\",\"controller\":true},{\"apiVersion\":\"v1\",\"kind\":\"Event\",\
             \"name\":\"o\",\"uid\":\"u\"}]: Only one reference can have Controller set to true. \
             Found \"true\" in references for Pod/o and Node/o",
            "Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"o\",\"uid\":\
             \"u\"}: /v1, Kind=Event is disallowed from being an owner",
        ]
    );
}

#[test]
fn an_unqualified_finalizer_must_be_a_standard_one() {
    let path = FieldPath::new("metadata");
    let meta = json!({"finalizers": ["orphan", "kubernetes", "x.io/a", "plain"]});
    assert_eq!(
        shown(&validate_standard_finalizers(&meta, &path)),
        [
            "metadata.finalizers[3]: Invalid value: \"plain\": name is neither a standard \
             finalizer name nor is it fully qualified"
        ]
    );
}

#[test]
fn an_update_keeps_what_identifies_the_object() {
    let old = json!({
        "name": "a", "namespace": "n", "uid": "1", "resourceVersion": "4", "generation": 3,
        "creationTimestamp": "2024-01-01T00:00:00Z",
    });
    assert_eq!(on_update(old.clone(), old.clone()), Vec::<String>::new());
    let new = json!({
        "name": "b", "namespace": "m", "uid": "2", "generation": 2,
        "creationTimestamp": "2025-01-01T00:00:00Z",
        "deletionTimestamp": "2025-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0,
    });
    assert_eq!(
        on_update(new, old),
        [
            "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
            "metadata.generation: Invalid value: 2: must not be decremented",
            "metadata.name: Invalid value: \"b\": field is immutable",
            "metadata.namespace: Invalid value: \"m\": field is immutable",
            "metadata.uid: Invalid value: \"2\": field is immutable",
            "metadata.creationTimestamp: Invalid value: \"2025-01-01T00:00:00Z\": field is \
             immutable",
            "metadata.deletionTimestamp: Invalid value: \"2025-01-01T00:00:00Z\": field is \
             immutable",
            "metadata.deletionGracePeriodSeconds: Invalid value: 0: field is immutable",
        ]
    );
}

#[test]
fn a_terminating_object_loses_finalizers_but_gains_none() {
    let meta = |finalizers: &[&str]| {
        json!({
            "name": "a", "resourceVersion": "4", "finalizers": finalizers,
            "deletionTimestamp": "2025-01-01T00:00:00Z",
        })
    };
    let old = meta(&["x.io/a", "x.io/b"]);
    assert_eq!(
        on_update(meta(&["x.io/b"]), old.clone()),
        Vec::<String>::new()
    );
    let new = meta(&["x.io/new", "x.io/a", "x.io/c"]);
    let errors = validate_object_meta_update(&new, &old, &FieldPath::new("metadata"));
    assert_eq!(
        errors.causes()[0].message,
        "Forbidden: no new finalizers can be added if the object is being deleted, found new \
         finalizers []string{\"x.io/c\", \"x.io/new\"}"
    );
}

#[test]
fn label_selectors_of_objects() {
    let path = FieldPath::new("spec.selector");
    let check = |selector: Value| {
        let mut errors = FieldErrors::new();
        validate_label_selector(&selector, false, &path, &mut errors);
        shown(&errors)
    };
    let good = json!({
        "matchLabels": {"a": "b"},
        "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["x"]},
            {"key": "b", "operator": "Exists"},
        ],
    });
    assert_eq!(check(good), Vec::<String>::new());
    let bad = json!({"matchExpressions": [
        {"key": "a", "operator": "In"},
        {"key": "b", "operator": "Odd", "values": ["x"]},
        {"key": "c", "operator": "DoesNotExist", "values": ["x"]},
    ]});
    assert_eq!(
        check(bad),
        [
            "spec.selector.matchExpressions[0].values: Required value: must be specified when \
             `operator` is 'In' or 'NotIn'",
            "spec.selector.matchExpressions[1].operator: Invalid value: \"Odd\": not a valid \
             selector operator",
            "spec.selector.matchExpressions[2].values: Forbidden: may not be specified when \
             `operator` is 'Exists' or 'DoesNotExist'",
        ]
    );
}
