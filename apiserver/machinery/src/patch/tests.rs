use crate::json::json;

use super::*;
use crate::meta::GroupVersionKind;
use crate::schema::builtin;

fn schema(group: &str, kind: &str) -> &'static Object {
    let gvk = GroupVersionKind {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
    };
    builtin(&gvk).expect("a built-in kind")
}

/// A status code and message instead of the object.
type Refusal = (u16, String);

fn refusal(error: ApiError) -> Refusal {
    (error.code(), error.to_string())
}

fn outcome(patch_type: PatchType, body: &str, current: &Value) -> Result<Patched, Refusal> {
    let schema = Some(schema("", "Pod"));
    let validation = FieldValidation::Warn;
    apply(
        patch_type,
        body.as_bytes(),
        Cow::Borrowed(current),
        schema,
        validation,
    )
    .map_err(refusal)
}

fn patched(patch_type: PatchType, patch: &Value, current: &Value) -> Result<Value, Refusal> {
    let Patched { outcome, .. } = outcome(patch_type, &patch.to_string(), current)?;
    Ok(match outcome {
        Outcome::Text(text) => serde_json::from_str(&text).unwrap(),
        Outcome::Fields(object) => object,
    })
}

fn json_patched(patch: Value, current: &Value) -> Result<Value, Refusal> {
    patched(PatchType::Json, &patch, current)
}

/// Applies a strategic merge patch to the spec of a pod.
fn spec_patched(patch: Value, spec: Value) -> Result<Value, Refusal> {
    let patch = json!({ "spec": patch });
    let object = patched(PatchType::StrategicMerge, &patch, &json!({ "spec": spec }))?;
    Ok(object["spec"].clone())
}

const NOT_APPLICABLE: &str = "the server rejected our request due to an error in our request";

#[test]
fn content_types_name_patch_types() {
    for (text, patch_type) in [
        ("application/json-patch+json", PatchType::Json),
        (
            "application/merge-patch+json; charset=utf-8",
            PatchType::Merge,
        ),
        (
            "application/strategic-merge-patch+json",
            PatchType::StrategicMerge,
        ),
        ("application/apply-patch+yaml", PatchType::Apply),
    ] {
        assert_eq!(PatchType::from_content_type(text), Ok(patch_type));
    }
    for text in [
        "",
        "application/json",
        "application/vnd.nope",
        "Application/merge-patch+json",
    ] {
        let error = PatchType::from_content_type(text).unwrap_err();
        assert_eq!(refusal(error), (415, "415: Unsupported Media Type".into()));
    }
}

#[test]
fn malformed_patches_are_bad_requests() {
    let go_map = "Go value of type map[string]interface {}";
    let cases: &[(PatchType, &str, String)] = &[
        (
            PatchType::Merge,
            "{\"a\":",
            "error decoding patch: unexpected end of JSON input".into(),
        ),
        (
            PatchType::Merge,
            "[]",
            format!("error decoding patch: json: cannot unmarshal array into {go_map}"),
        ),
        (PatchType::Merge, "null", "Invalid JSON Patch".into()),
        (
            PatchType::StrategicMerge,
            "1",
            format!("json: cannot unmarshal number into {go_map}"),
        ),
        (
            PatchType::StrategicMerge,
            "{\"spec\":{\"$retainKeys\":[\"a\"],\"b\":1}}",
            "invalid patch format of retainKeys".into(),
        ),
        (
            PatchType::StrategicMerge,
            "{\"metadata\":{\"$deleteFromPrimitiveList\":[]}}",
            "invalid patch format of primitive list".into(),
        ),
        (
            PatchType::Json,
            "{}",
            "error decoding patch: json: cannot unmarshal object into Go value of type \
             []handlers.jsonPatchOp"
                .into(),
        ),
        (
            PatchType::Json,
            "[{\"op\":1}]",
            "error decoding patch: json: cannot unmarshal number into Go struct field \
             jsonPatchOp.op of type string"
                .into(),
        ),
    ];
    let current = json!({"metadata": {}, "spec": {}});
    for (patch_type, body, message) in cases {
        let found = outcome(*patch_type, body, &current).unwrap_err();
        assert_eq!(found, (400, message.clone()), "{body}");
    }
}

#[test]
fn a_custom_resource_takes_no_strategic_merge_patch() {
    let validation = FieldValidation::Ignore;
    let found = apply(
        PatchType::StrategicMerge,
        b"{}",
        Cow::Owned(json!({})),
        None,
        validation,
    );
    assert_eq!(
        refusal(found.unwrap_err()),
        (
            415,
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, \
             application/apply-patch+yaml"
                .into()
        )
    );
}

#[test]
fn json_patches_that_apply() {
    let current = json!({"data": {"k": "v", "a/b": "1", "t~k": "2"}, "list": [1, 2]});
    let cases = [
        (
            json!([{"op": "add", "path": "/data/n", "value": "w"}]),
            "/data/n",
            json!("w"),
        ),
        (
            json!([{"op": "replace", "path": "/data/a~1b", "value": 9}]),
            "/data/a~1b",
            json!(9),
        ),
        (
            json!([{"op": "replace", "path": "/data/new", "value": 9}]),
            "/data/new",
            json!(9),
        ),
        (
            json!([{"op": "test", "path": "/data/t~0k", "value": "2"}, {"op": "remove", "path": "/list/0"}]),
            "/list",
            json!([2]),
        ),
        (
            json!([{"op": "test", "path": "/data/none", "value": null}]),
            "/list",
            json!([1, 2]),
        ),
        (
            json!([{"op": "add", "path": "/list/-", "value": 3}, {"op": "add", "path": "/list/0", "value": 0}]),
            "/list",
            json!([0, 1, 2, 3]),
        ),
        (
            json!([{"op": "replace", "path": "/list/-1", "value": 7}]),
            "/list",
            json!([1, 7]),
        ),
        (
            json!([{"op": "add", "path": "/list/-1", "value": 7}]),
            "/list",
            json!([1, 2, 7]),
        ),
        (
            json!([{"op": "move", "from": "/data/k", "path": "/list/1"}]),
            "/list",
            json!([1, "v", 2]),
        ),
        (
            json!([{"op": "copy", "from": "/list", "path": "/data/l"}]),
            "/data/l",
            json!([1, 2]),
        ),
        (
            json!([{"op": "replace", "path": "", "value": {"x": 1}}]),
            "",
            json!({"x": 1}),
        ),
    ];
    for (patch, at, value) in cases {
        let object = json_patched(patch.clone(), &current).unwrap();
        assert_eq!(object.pointer(at), Some(&value), "{patch}");
    }
}

#[test]
fn json_patches_that_do_not_apply_are_unprocessable() {
    let current = json!({"data": {"k": "v"}, "list": [1, 2]});
    for patch in [
        json!([{"op": "replace", "path": "/data/k", "value": "n"}, {"op": "test", "path": "/data/k", "value": "v"}]),
        json!([{"op": "test", "path": "/data/k"}]),
        json!([{"op": "replace", "path": "/none/k", "value": 1}]),
        json!([{"op": "add", "path": "/none/k", "value": 1}]),
        json!([{"op": "add", "path": "", "value": {}}]),
        json!([{"op": "replace", "path": "", "value": 1}]),
        json!([{"op": "add", "path": "/data/k/x", "value": 1}]),
        json!([{"op": "remove", "path": "/none"}]),
        json!([{"op": "remove", "path": "/list/2"}]),
        json!([{"op": "remove", "path": "/list/-3"}]),
        json!([{"op": "add", "path": "/list/3", "value": 1}]),
        json!([{"op": "add", "path": "/list/x", "value": 1}]),
        json!([{"op": "move", "from": "/none", "path": "/a"}]),
        json!([{"op": "frobnicate", "path": "/a"}]),
        json!([{"path": "/a"}]),
        json!([{"op": "add", "value": 1}]),
    ] {
        let found = json_patched(patch.clone(), &current);
        assert_eq!(found, Err((422, NOT_APPLICABLE.into())), "{patch}");
    }
}

#[test]
fn an_unprocessable_patch_has_empty_details() {
    let status = unprocessable().to_status();
    assert_eq!(status["details"], json!({}));
}

#[test]
fn json_patches_are_limited() {
    let operations = vec![json!({"op": "test", "path": "/none"}); 10_001];
    let (code, message) = json_patched(operations.into(), &json!({})).unwrap_err();
    assert_eq!(code, 413);
    assert_eq!(
        message,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got \
         10001"
    );
    let current = json!({"a": "x".repeat(2 << 20)});
    let copy = json!({"op": "copy", "from": "/a", "path": "/b"});
    assert!(json_patched(json!([copy]), &current).is_ok());
    assert!(json_patched(json!([copy, copy]), &current).is_err());
}

#[test]
fn merge_patches() {
    let current = json!({"a": 1, "o": {"x": 1, "y": 2}, "l": [1, 2]});
    for (patch, expected) in [
        (json!({}), current.clone()),
        (
            json!({"a": null, "none": null, "o": {"x": null, "z": 3}}),
            json!({"o": {"y": 2, "z": 3}, "l": [1, 2]}),
        ),
        (json!({"o": null, "l": [3]}), json!({"a": 1, "l": [3]})),
        (
            json!({"n": {"deep": {"gone": null, "kept": 1}}, "a": [{"gone": null}, null]}),
            json!({"a": [{}, null], "n": {"deep": {"kept": 1}}, "o": {"x": 1, "y": 2}, "l": [1, 2]}),
        ),
    ] {
        assert_eq!(patched(PatchType::Merge, &patch, &current), Ok(expected));
    }
}

#[test]
fn strict_faults_are_found_in_patches() {
    let faults = |patch_type, body: &str| {
        let current = json!({"data": {"a": "1"}});
        outcome(patch_type, body, &current).map(|patched| patched.faults)
    };
    let operations =
        r#"[{"valu": 1, "op": "add", "op": "add", "path": "/a", "value": {"b": 1, "b": 2}}]"#;
    let found = [
        "json patch unknown field \"[0].valu\"",
        "json patch duplicate field \"[0].op\"",
        "json patch duplicate field \"[0].value.b\"",
    ];
    assert_eq!(
        faults(PatchType::Json, operations),
        Ok(found.map(str::to_owned).to_vec())
    );
    assert_eq!(
        faults(PatchType::Merge, r#"{"a": {"b": 1, "b": 2}}"#),
        Ok(vec!["duplicate field \"a.b\"".to_owned()])
    );
}

#[test]
fn without_field_validation_the_faults_of_a_patch_are_reported_by_the_patch_library() {
    let go = "json: cannot unmarshal";
    for (patch_type, body, refused) in [
        (
            PatchType::Json,
            "{}",
            (
                400,
                format!("{go} object into Go value of type jsonpatch.Patch"),
            ),
        ),
        (
            PatchType::Json,
            "[1]",
            (
                400,
                format!("{go} number into Go value of type jsonpatch.Operation"),
            ),
        ),
        (
            PatchType::Json,
            r#"[{"op": 1}]"#,
            (422, NOT_APPLICABLE.into()),
        ),
        (PatchType::Merge, "{", (400, "Invalid JSON Patch".into())),
        (PatchType::Merge, "1", (400, "Invalid JSON Patch".into())),
    ] {
        let validation = FieldValidation::Ignore;
        let found = apply(
            patch_type,
            body.as_bytes(),
            Cow::Owned(json!({})),
            None,
            validation,
        );
        assert_eq!(refusal(found.unwrap_err()), refused, "{body}");
    }
}

#[test]
fn the_text_that_was_patched_is_sorted_as_far_as_the_patch_looked_into_it() {
    let current = json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": "a", "labels": {"z": "1", "a": "<"}, "annotations": {"b": ""}},
    });
    let text = |patch_type, body: &str| match outcome(patch_type, body, &current).unwrap().outcome {
        Outcome::Text(text) => text,
        Outcome::Fields(_) => unreachable!("not a strategic merge patch"),
    };
    assert_eq!(
        text(
            PatchType::Json,
            r#"[{"op": "add", "path": "/x", "value": { "z": 1, "a": 2 }}]"#
        ),
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"a":"\u003c","z":"1"},"annotations":{"b":""}},"x":{"z":1,"a":2}}"#
    );
    assert_eq!(
        text(
            PatchType::Merge,
            r#"{"metadata": {"labels": null}, "x": { "z": 1, "a": 2 }}"#
        ),
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{"b":""},"name":"a"},"x":{"a":2,"z":1}}"#
    );
}

fn names(list: &Value) -> Vec<&str> {
    let items = list.as_array().unwrap().iter();
    items.map(|item| item["name"].as_str().unwrap()).collect()
}

#[test]
fn lists_are_merged_by_key_and_scalars_by_value() {
    let spec = json!({"containers": [
        {"name": "c", "image": "i", "args": ["one"], "env": [
            {"name": "E", "value": "1"}, {"name": "F", "value": "2"},
        ]},
        {"name": "d", "image": "i"},
    ]});
    let patch = json!({"containers": [{"name": "c", "args": ["two"], "env": [
        {"name": "F", "value": "22"}, {"name": "G", "value": "3"}, {"name": "E", "$patch": "delete"},
    ]}]});
    assert_eq!(
        spec_patched(patch, spec).unwrap(),
        json!({"containers": [
            {"name": "c", "image": "i", "args": ["two"], "env": [
                {"name": "F", "value": "22"}, {"name": "G", "value": "3"},
            ]},
            {"name": "d", "image": "i"},
        ]})
    );
    let current = json!({"metadata": {"finalizers": ["x.io/1", "x.io/2"]}});
    for (patch, finalizers) in [
        (
            json!({"finalizers": ["x.io/3", "x.io/2"]}),
            json!(["x.io/3", "x.io/1", "x.io/2"]),
        ),
        (
            json!({"$deleteFromPrimitiveList/finalizers": ["x.io/1"]}),
            json!(["x.io/2"]),
        ),
        (
            json!({"$setElementOrder/finalizers": ["x.io/2", "x.io/1"]}),
            json!(["x.io/2", "x.io/1"]),
        ),
    ] {
        let patch = json!({ "metadata": patch });
        let object = patched(PatchType::StrategicMerge, &patch, &current).unwrap();
        assert_eq!(object["metadata"]["finalizers"], finalizers, "{patch}");
    }
}

#[test]
fn the_order_of_merged_lists() {
    let spec = || {
        let names = ["a", "b", "c"];
        json!({"containers": names.map(|name| json!({"name": name}))})
    };
    let list =
        |names: &[&str]| -> Vec<Value> { names.iter().map(|name| json!({"name": name})).collect() };
    for (order, patch, expected) in [
        (None, vec!["x"], vec!["x", "a", "b", "c"]),
        (None, vec!["c", "x"], vec!["a", "b", "c", "x"]),
        (None, vec!["c", "a"], vec!["b", "c", "a"]),
        (Some(vec!["c", "a"]), vec![], vec!["b", "c", "a"]),
        (
            Some(vec!["x", "c", "a"]),
            vec!["x", "a"],
            vec!["x", "b", "c", "a"],
        ),
    ] {
        let mut document = json!({});
        if !patch.is_empty() {
            document["containers"] = list(&patch).into();
        }
        if let Some(order) = &order {
            document["$setElementOrder/containers"] = list(order).into();
        }
        let found = spec_patched(document, spec()).unwrap();
        assert_eq!(names(&found["containers"]), expected, "{order:?} {patch:?}");
    }
}

#[test]
fn directives_replace_delete_and_retain() {
    let spec = || {
        json!({
            "nodeSelector": {"disk": "ssd"},
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}],
            "securityContext": {"runAsUser": 1},
        })
    };
    for (patch, field, expected) in [
        (
            json!({"nodeSelector": {"$patch": "delete"}}),
            "nodeSelector",
            json!({}),
        ),
        (
            json!({"securityContext": {"$patch": "replace", "fsGroup": 2}}),
            "securityContext",
            json!({"fsGroup": 2}),
        ),
        (
            json!({"volumes": [{"name": "v", "$patch": "delete"}, {"name": "no", "$patch": "delete"}]}),
            "volumes",
            json!([{"name": "w", "emptyDir": {}}]),
        ),
        (
            json!({"volumes": [{"name": "x"}, {"$patch": "replace"}]}),
            "volumes",
            json!([{"name": "x"}]),
        ),
        (
            json!({"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "m"}}]}),
            "volumes",
            json!([{"name": "v", "configMap": {"name": "m"}}, {"name": "w", "emptyDir": {}}]),
        ),
        (
            json!({"initContainers": [{"name": "i", "x": null}, {"name": "j", "$patch": "delete"}]}),
            "initContainers",
            json!([{"name": "i"}]),
        ),
    ] {
        let found = spec_patched(patch.clone(), spec()).unwrap();
        assert_eq!(found[field], expected, "{patch}");
    }
}

#[test]
fn strategic_merge_patches_that_do_not_apply() {
    let spec = json!({"containers": [{"name": "c"}], "nodeSelector": {"a": "b"}});
    for (patch, message) in [
        (
            json!({"containers": [{"$patch": "frobnicate", "name": "c"}]}),
            "unknown patch type: frobnicate in map: map[$patch:frobnicate name:c]",
        ),
        (
            json!({"containers": [{"image": "j"}]}),
            "map: map[image:j] does not contain declared merge key: name",
        ),
        (
            json!({"containers": [{"$patch": "delete"}]}),
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            json!({"containers": [{"$patch": "merge", "name": "c"}]}),
            "merging lists cannot yet be specified in the patch",
        ),
        (
            json!({"containers": ["c"]}),
            "list element types are not identical: [[map[name:c]] [c]]",
        ),
        (
            json!({"nodeSelector": {"$patch": 1}}),
            "unknown patch type: %!s(int64=1) in map: map[$patch:1]",
        ),
        (
            json!({"$setElementOrder/containers": {}}),
            "expected a []interface {}, but received a map[string]interface {}",
        ),
        (
            json!({"$setElementOrder/containers": [{"name": "x"}], "containers": [{"name": "c"}]}),
            "The order in patch list:\n[map[name:c]]\n doesn't match $setElementOrder list:\n\
             [map[name:x]]\n",
        ),
    ] {
        let found = spec_patched(patch.clone(), spec.clone());
        assert_eq!(found, Err((500, message.to_owned())), "{patch}");
    }
}

#[test]
fn types_differing_from_what_is_held_replace_it() {
    let spec = json!({"containers": [{"name": "c"}], "hostname": "h"});
    let found = spec_patched(json!({"containers": "x", "hostname": {"a": null}}), spec).unwrap();
    assert_eq!(found, json!({"containers": "x", "hostname": {}}));
}

#[test]
fn patches_nested_as_deep_as_text_may_be_do_not_exhaust_the_stack() {
    let deep = format!("{}{}", r#"{"a":"#.repeat(9_999), "1").to_owned() + &"}".repeat(9_999);
    let list = "[".repeat(9_999) + &"]".repeat(9_999);
    let current = json!({ "a": { "b": 1 } });
    let patch = |patch_type, body: &str| {
        let validation = FieldValidation::Warn;
        let current = Cow::Borrowed(&current);
        apply(patch_type, body.as_bytes(), current, None, validation).is_ok()
    };
    let add = format!(r#"[{{"op":"add","path":"/a","value":{deep}}}]"#);
    for (patch_type, body) in [
        (PatchType::Merge, &deep),
        (PatchType::Merge, &list),
        (PatchType::Json, &add),
    ] {
        assert!(!patch(patch_type, body), "{patch_type:?}");
    }
    assert!(patch(PatchType::Merge, r#"{"a":"[[[[\\"}"#));
}

#[test]
fn copies_of_a_document_into_itself_are_not_followed_without_end() {
    let copy = r#"{"op":"copy","from":"/a","path":"/a/b"},"#.repeat(18);
    let path = "/b".repeat(200_000);
    let patch = format!(r#"[{copy}{{"op":"test","path":"/a{path}","value":1}}]"#);
    let current = json!({ "a": { "b": 1 } });
    let validation = FieldValidation::Ignore;
    let refused = apply(
        PatchType::Json,
        patch.as_bytes(),
        Cow::Owned(current),
        None,
        validation,
    );
    assert_eq!(
        refused.unwrap_err().to_string(),
        unprocessable().to_string()
    );
}
