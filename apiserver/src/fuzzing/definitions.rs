//! Schemas of definitions, the objects that they describe, and the rules in them.

use serde_json::{Value, json};

use super::requests::Peer;
use super::{lines, object};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const FUZZES: &str = "/apis/example.com/v1/namespaces/default/fuzzes";
const FUZZ: &str = "/apis/example.com/v1/namespaces/default/fuzzes/f";

/// A schema, an object of it, and what replaces the object.
pub(super) fn definition(data: &[u8]) {
    let mut lines = lines(data);
    if let Some(schema) = object(lines.next()) {
        serve(schema, lines.map_while(|line| object(Some(line))));
    }
}

/// A rule, the schema of what it is about, a value of that, and what replaces the value.
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

/// Defines a kind by its schema, creates an object of it, updates it, and reads what there is.
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
                "subresources": { "status": {} },
                "additionalPrinterColumns": [
                    { "name": "A", "type": "string", "jsonPath": ".spec.a" },
                ],
            }],
        },
    });
    if peer.send("POST", DEFINITIONS, &definition.to_string()) != Some(201) {
        return;
    }
    for (turn, mut object) in objects.take(4).enumerate() {
        object["apiVersion"] = "example.com/v1".into();
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
            _ => peer.send("PUT", &format!("{FUZZ}/status"), &body),
        };
    }
    peer.send("TABLE", FUZZES, "");
    peer.send("GET", "/openapi/v3/apis/example.com/v1", "");
}
