//! Kinds that only hold settings: config maps, secrets, quotas, leases, classes.

use serde_json::{Value, json};

use super::view::{View, scalar};

pub(super) fn config_map(view: View<'_>) -> Vec<Value> {
    vec![
        view.name(),
        json!(view.len("/data") + view.len("/binaryData")),
        view.age(),
    ]
}

pub(super) fn secret(view: View<'_>) -> Vec<Value> {
    vec![
        view.name(),
        json!(view.str("/type")),
        json!(view.len("/data")),
        view.age(),
    ]
}

pub(super) fn lease(view: View<'_>) -> Vec<Value> {
    vec![
        view.name(),
        json!(view.str("/spec/holderIdentity")),
        view.age(),
    ]
}

pub(super) fn runtime_class(view: View<'_>) -> Vec<Value> {
    vec![view.name(), json!(view.str("/handler")), view.age()]
}

pub(super) fn priority_class(view: View<'_>) -> Vec<Value> {
    vec![
        view.name(),
        json!(view.int("/value")),
        json!(view.bool("/globalDefault")),
        view.age(),
        json!(view.str("/preemptionPolicy")),
    ]
}

/// Used and hard amount of each resource; limits have a column of their own.
pub(super) fn resource_quota(view: View<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    let hard = view
        .get("/status/hard")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    for (resource, amount) in hard {
        let used = view.get("/status/used").and_then(|used| used.get(resource));
        let used = used.map_or_else(|| "0".to_owned(), scalar);
        let column = if resource.starts_with("limits.") {
            &mut limits
        } else {
            &mut requests
        };
        column.push(format!("{resource}: {used}/{}", scalar(amount)));
    }
    vec![
        view.name(),
        json!(requests.join(", ")),
        json!(limits.join(", ")),
        view.age(),
    ]
}
