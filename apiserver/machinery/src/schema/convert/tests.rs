use super::super::tests::kind;
use super::*;
use crate::json::json;

fn converted(value: Value) -> Result<Decoded, String> {
    convert(kind("apps/v1", "Deployment"), value)
}

#[test]
fn the_first_wrong_value_in_the_order_of_declaration_is_named_by_its_go_type() {
    let cases = [
        (json!({ "replicas": "x" }), "unrecognized type: int32"),
        (
            json!({ "replicas": 1.5 }),
            "cannot convert float64 to int32",
        ),
        (json!({ "paused": 1 }), "unrecognized type: bool"),
        (
            json!({ "selector": [] }),
            "cannot restore struct from: slice",
        ),
        (
            json!({ "selector": { "matchLabels": "a" } }),
            "cannot restore map from string",
        ),
        (
            json!({ "selector": { "matchLabels": { "a": 1 } } }),
            "cannot convert int64 to string",
        ),
        (
            json!({ "selector": { "matchLabels": { "a": 1.5 } } }),
            "unrecognized type: string",
        ),
        (
            json!({ "strategy": { "type": 1 } }),
            "cannot convert int64 to v1.DeploymentStrategyType",
        ),
        (
            json!({ "strategy": { "rollingUpdate": { "maxSurge": true } } }),
            "json: cannot unmarshal bool into Go value of type int32",
        ),
        (
            json!({ "template": { "spec": { "containers": { "a": 1 } } }, "replicas": {} }),
            "unrecognized type: int32",
        ),
        (
            json!({ "template": { "spec": { "containers": { "a": 1 } } } }),
            "cannot restore slice from map",
        ),
    ];
    for (spec, want) in cases {
        let found = converted(json!({ "spec": spec.clone() }));
        assert_eq!(found, Err(want.to_owned()), "{spec}");
    }
}

#[test]
fn numbers_are_cut_to_size_and_unknown_fields_sorted() {
    let found = converted(json!({
        "zap": 1,
        "kind": "Whatever",
        "spec": {
            "replicas": 4_294_967_298_i64,
            "paused": null,
            "minReadySeconds": 2.0,
            "template": { "spec": { "containers": [{ "name": "c", "nope": 1 }] } },
        },
    }));
    let Decoded { value, warnings } = found.unwrap();
    assert_eq!(value["spec"]["replicas"], 2);
    assert_eq!(value["spec"]["minReadySeconds"], 2);
    let unknown = [
        "unknown field \"spec.template.spec.containers[0].nope\"",
        "unknown field \"zap\"",
    ];
    assert_eq!(warnings, unknown);
}

#[test]
fn bytes_out_of_a_list_fail_at_their_first() {
    let secret = convert(kind("v1", "Secret"), json!({ "data": { "a": ["x"] } }));
    assert_eq!(secret, Err("unrecognized type: uint8".to_owned()));
}
