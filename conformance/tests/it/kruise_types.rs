//! OpenKruise's kinds as Rust types have the definitions that upstream publishes.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use kubeproof::json::{Map, Value, json, to_value};
use kubeproof::kruise;
use kubeproof_controller::kruise::{CloneSet, StatefulSet, v1alpha1};

/// A schema without descriptions and without the nullability of optional fields.
fn plain(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let is_int_or_string = fields.contains_key("x-kubernetes-int-or-string");
            let kept = fields
                .iter()
                .filter(|(key, value)| !is_remark(key, value))
                // The extension says as much.
                .filter(|(key, _)| key.as_str() != "anyOf" || !is_int_or_string)
                .map(|(key, value)| match (key.as_str(), value) {
                    ("properties", Value::Object(own)) => {
                        let own = own
                            .iter()
                            .map(|(name, schema)| (name.clone(), plain(schema)));
                        (key.clone(), Value::Object(own.collect()))
                    }
                    ("required", Value::Array(names)) => {
                        let mut names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
                        names.sort_unstable();
                        (key.clone(), json!(names))
                    }
                    _ => (key.clone(), plain(value)),
                });
            Value::Object(kept.collect::<Map>())
        }
        Value::Array(items) => Value::Array(items.iter().map(plain).collect()),
        other => other.clone(),
    }
}

fn is_remark(key: &str, value: &Value) -> bool {
    key == "nullable" || (key == "description" && value.is_string())
}

/// A version of a definition: what a client sees of it.
fn version(definition: &Value, name: &str) -> Value {
    let versions = definition["spec"]["versions"].as_array().expect("a list");
    let version = versions
        .iter()
        .find(|one| one["name"] == name)
        .expect("the version");
    let schema = &version["schema"]["openAPIV3Schema"]["properties"];
    let columns = version["additionalPrinterColumns"]
        .as_array()
        .expect("a list");
    let columns: Vec<Value> = columns
        .iter()
        .map(|column| {
            let mut column = plain(column);
            // The smallest priority is the usual one.
            if column["priority"] == 0 {
                column.as_object_mut().expect("a column").remove("priority");
            }
            column
        })
        .collect();
    json!({
        "spec": plain(&schema["spec"]),
        "status": plain(&schema["status"]),
        "columns": columns,
        "subresources": version["subresources"],
    })
}

fn names(definition: &Value) -> Value {
    let names = &definition["spec"]["names"];
    json!({ "group": definition["spec"]["group"], "scope": definition["spec"]["scope"],
        "kind": names["kind"], "plural": names["plural"], "singular": names["singular"],
        "shortNames": names["shortNames"] })
}

#[test]
fn generated_definitions_are_upstreams() {
    let official = |plural: &str| {
        let mut objects = kruise::objects().into_iter();
        let found = objects.find(|object| object["spec"]["names"]["plural"] == plural);
        found.expect("the definition")
    };
    let generated: [(CustomResourceDefinition, &str, &str); 4] = [
        (StatefulSet::crd(), "statefulsets", "v1beta1"),
        (v1alpha1::StatefulSet::crd(), "statefulsets", "v1alpha1"),
        (CloneSet::crd(), "clonesets", "v1beta1"),
        (v1alpha1::CloneSet::crd(), "clonesets", "v1alpha1"),
    ];
    for (definition, plural, name) in generated {
        let (ours, theirs) = (to_value(definition).expect("JSON"), official(plural));
        assert_eq!(names(&ours), names(&theirs), "{plural}");
        let (ours, theirs) = (version(&ours, name), version(&theirs, name));
        for part in ["columns", "subresources", "spec", "status"] {
            assert_eq!(ours[part], theirs[part], "{plural} {name} {part}");
        }
    }
}
