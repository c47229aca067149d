//! Schemas of definitions, the objects that they describe, and the rules in them.

use super::requests::Peer;
use super::{lines, object};
use crate::json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const FUZZES: &str = "/apis/example.com/v1/namespaces/default/fuzzes";
const FUZZ: &str = "/apis/example.com/v1/namespaces/default/fuzzes/f";
const CONVERTED: &str = "/apis/example.com/v2/namespaces/default/fuzzes/f";

/// The input is a schema, an object of it, and a replacement of the object.
pub(super) fn definition(data: &[u8]) {
    let mut lines = lines(data);
    if let Some(schema) = object(lines.next()) {
        serve(schema, lines.map_while(|line| object(Some(line))));
    }
}

/// The input is a rule, the schema of its value, a value, and a replacement of the value.
pub(super) fn cel(data: &[u8]) {
    let mut lines = lines(data);
    let (Some(rule), Some(mut part)) = (lines.next(), object(lines.next())) else {
        return;
    };
    part["x-kubernetes-validations"] = json!([{ "rule": rule, "messageExpression": rule }]);
    let schema = json!({ "type": "object", "properties": { "spec": part } });
    let values = lines.map_while(|line| serde_json::from_str::<Value>(line).ok());
    serve(schema, values.map(|value| json!({ "spec": value })));
}

/// Defines a kind by its schema, creates an object of it, updates it in all ways and both versions,
/// and reads it.
fn serve(schema: Value, objects: impl Iterator<Item = Value>) {
    let peer = Peer::new();
    let definition = json!({
        "metadata": { "name": "fuzzes.example.com" },
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": { "plural": "fuzzes", "kind": "Fuzz" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema },
                "subresources": { "status": {}, "scale": {
                    "specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a",
                    "labelSelectorPath": ".status.b",
                } },
                "additionalPrinterColumns": [
                    { "name": "A", "type": "string", "jsonPath": ".spec.a" },
                ],
            }, {
                "name": "v2", "served": true, "storage": false,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    });
    if peer.send("POST", DEFINITIONS, &definition.to_string()) != Some(201) {
        return;
    }
    for (turn, mut object) in objects.take(5).enumerate() {
        let version = if turn == 4 { "v2" } else { "v1" };
        object["apiVersion"] = format!("example.com/{version}").into();
        object["kind"] = "Fuzz".into();
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        object["metadata"]["name"] = "f".into();
        let body = object.to_string();
        match turn {
            0 => peer.send("POST", FUZZES, &body),
            1 => peer.send("PUT", FUZZ, &body),
            2 => peer.send("APPLY", &format!("{FUZZ}?fieldManager=a&force=true"), &body),
            3 => peer.send("PUT", &format!("{FUZZ}/status"), &body),
            _ => peer.send("PUT", CONVERTED, &body),
        };
    }
    let scale = r#"{"spec":{"replicas":2}}"#;
    peer.send("APPLY", &format!("{FUZZ}/scale?fieldManager=b"), scale);
    peer.send("GET", &format!("{FUZZ}/scale"), "");
    peer.send("TABLE", CONVERTED, "");
    peer.send("TABLE", FUZZES, "");
    peer.send("GET", "/openapi/v3/apis/example.com/v1", "");
}
