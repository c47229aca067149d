//! Cells as upstream prints them, by kind: `printed.jsonl` has objects and the cells of their rows.
//!
//! Each line is one branch of `pkg/printers/internalversion/printers.go`, or of the printer of its
//! API server. Objects are named `x` and were created five minutes ago; `cells` are those after the
//! first, which is the name but for events.

use crate::catalog::{Catalog, ResourceInfo};
use crate::json::{Value, json};

const NOW: &str = "2024-01-01T00:05:00Z";

/// The resource of `group/version/plural`.
fn resource(gvr: &str) -> &'static ResourceInfo {
    let (group_version, plural) = gvr.rsplit_once('/').unwrap();
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    Catalog::builtin().resource(group, version, plural).unwrap()
}

fn print(gvr: &str, mut object: Value) -> Vec<Value> {
    object["metadata"]["name"] = json!("x");
    object["metadata"]["creationTimestamp"] = json!("2024-01-01T00:00:00Z");
    resource(gvr).cells(&object, NOW.parse().unwrap())
}

#[test]
fn every_object_prints_as_upstream_prints_it() {
    let lines = include_str!("printed.jsonl").lines();
    let cases = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut differing = Vec::new();
    for line in cases {
        let case: Value = serde_json::from_str(line).unwrap();
        let printed = print(case["of"].as_str().unwrap(), case["object"].clone());
        if printed[1..] != case["cells"].as_array().unwrap()[..] {
            differing.push(format!("{line}\n  printed {}", json!(printed[1..])));
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn the_default_class_is_marked() {
    let name = |gvr: &str, annotation: &str| {
        let object = json!({"metadata": {"annotations": {annotation: "true"}}});
        print(gvr, object)[0].clone()
    };
    let storage = "storage.k8s.io/v1/storageclasses";
    let attributes = "storage.k8s.io/v1/volumeattributesclasses";
    let table = [
        (
            "networking.k8s.io/v1/ingressclasses",
            "ingressclass.kubernetes.io/is-default-class",
            "x (default)",
        ),
        (
            storage,
            "storageclass.kubernetes.io/is-default-class",
            "x (default)",
        ),
        (
            storage,
            "storageclass.beta.kubernetes.io/is-default-class",
            "x (default)",
        ),
        (
            storage,
            "volumeattributesclass.alpha.kubernetes.io/is-default-class",
            "x",
        ),
        (
            attributes,
            "volumeattributesclass.alpha.kubernetes.io/is-default-class",
            "x (default)",
        ),
    ];
    for (gvr, annotation, shown) in table {
        assert_eq!(name(gvr, annotation), shown, "{gvr} {annotation}");
    }
}

#[test]
fn flow_schemas_are_listed_as_they_are_matched() {
    let schema = |name: &str, precedence: u32| json!({"metadata": {"name": name}, "spec": {"matchingPrecedence": precedence}});
    let mut schemas = [
        schema("b", 100),
        schema("a", 900),
        schema("a", 100),
        schema("c", 1),
    ];
    resource("flowcontrol.apiserver.k8s.io/v1/flowschemas").sort_rows(&mut schemas);
    let sorted = [
        schema("c", 1),
        schema("a", 100),
        schema("b", 100),
        schema("a", 900),
    ];
    assert_eq!(schemas, sorted);
}
