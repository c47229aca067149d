//! Kinds about the cluster itself: namespaces, component and API services, devices, flow control.

use std::cmp::Ordering;

use serde_json::{Value, json};

use super::view::View;

pub(super) fn namespace(view: View<'_>) -> Vec<Value> {
    vec![view.name(), json!(view.str("/status/phase")), view.age()]
}

pub(super) fn component_status(view: View<'_>) -> Vec<Value> {
    let mut conditions = view.items("/conditions");
    let healthy = conditions.find(|condition| condition.str("/type") == "Healthy");
    let status = match healthy.map(|condition| condition.str("/status")) {
        Some("True") => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    };
    let text = |field: &str| json!(healthy.map_or("", |condition| condition.str(field)));
    vec![view.name(), json!(status), text("/message"), text("/error")]
}

pub(super) fn api_service(view: View<'_>) -> Vec<Value> {
    let service = match view.get("/spec/service") {
        Some(_) => {
            format!(
                "{}/{}",
                view.str("/spec/service/namespace"),
                view.str("/spec/service/name")
            )
        }
        None => "Local".to_owned(),
    };
    let available = match view.condition("Available") {
        Some(condition) => match (condition.str("/status"), condition.str("/reason")) {
            ("True", _) => "True".to_owned(),
            (status, "") => status.to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        },
        None => "Unknown".to_owned(),
    };
    vec![view.name(), json!(service), json!(available), view.age()]
}

pub(super) fn signing_request(view: View<'_>) -> Vec<Value> {
    let duration = view.get("/spec/expirationSeconds").and_then(Value::as_i64);
    let requested = duration.map_or_else(|| "<none>".to_owned(), super::human_duration);
    let mut condition = match (view.condition("Denied"), view.condition("Approved")) {
        (Some(_), _) => "Denied",
        (None, Some(_)) => "Approved",
        (None, None) => "Pending",
    }
    .to_owned();
    if view.condition("Failed").is_some() {
        condition.push_str(",Failed");
    }
    if !view.str("/status/certificate").is_empty() {
        condition.push_str(",Issued");
    }
    vec![
        view.name(),
        view.age(),
        json!(view.str_or("/spec/signerName", "<none>")),
        json!(view.str("/spec/username")),
        json!(requested),
        json!(condition),
    ]
}

pub(super) fn resource_claim(view: View<'_>) -> Vec<Value> {
    let mut states = Vec::new();
    if view.is_terminating() {
        states.push("deleted");
    }
    if view.get("/status/allocation").is_none() {
        if states.is_empty() {
            states.push("pending");
        }
    } else {
        states.push("allocated");
        if view.len("/status/reservedFor") > 0 {
            states.push("reserved");
        }
    }
    vec![view.name(), json!(states.join(",")), view.age()]
}

pub(super) fn resource_slice(view: View<'_>) -> Vec<Value> {
    vec![
        view.name(),
        json!(view.str("/spec/nodeName")),
        json!(view.str("/spec/driver")),
        json!(view.str("/spec/pool/name")),
        view.age(),
    ]
}

pub(super) fn flow_schema(view: View<'_>) -> Vec<Value> {
    let dangling = view
        .condition("Dangling")
        .map_or("?", |condition| condition.str("/status"));
    vec![
        view.name(),
        json!(view.str("/spec/priorityLevelConfiguration/name")),
        json!(view.int("/spec/matchingPrecedence")),
        json!(
            view.scalar("/spec/distinguisherMethod/type")
                .unwrap_or_else(|| "<none>".to_owned())
        ),
        view.age(),
        json!(dangling),
    ]
}

/// By precedence, then by name.
pub(super) fn flow_schema_order(a: &Value, b: &Value) -> Ordering {
    let key = |object: &Value| {
        let precedence = object.pointer("/spec/matchingPrecedence");
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        let precedence = precedence.and_then(Value::as_i64).unwrap_or_default();
        (precedence, name.unwrap_or_default().to_owned())
    };
    key(a).cmp(&key(b))
}

pub(super) fn priority_level(view: View<'_>) -> Vec<Value> {
    let number = |pointer: &str| {
        view.get(pointer)
            .cloned()
            .unwrap_or_else(|| json!("<none>"))
    };
    vec![
        view.name(),
        json!(view.str("/spec/type")),
        // An exempt level's shares aren't shown.
        number("/spec/limited/nominalConcurrencyShares"),
        number("/spec/limited/limitResponse/queuing/queues"),
        number("/spec/limited/limitResponse/queuing/handSize"),
        number("/spec/limited/limitResponse/queuing/queueLengthLimit"),
        view.age(),
    ]
}
