//! The one kind that is written in protobuf: a client that accepts nothing else is told so in it.

use serde_json::Value;

/// A `Status` in its envelope. Absent texts and numbers are written as empty ones, as Go does.
pub(crate) fn encode_status(status: &Value) -> Vec<u8> {
    let metadata = &status["metadata"];
    let mut list_meta = Vec::new();
    text(&mut list_meta, 1, &metadata["selfLink"]);
    text(&mut list_meta, 2, &metadata["resourceVersion"]);
    text(&mut list_meta, 3, &metadata["continue"]);

    let mut message = Vec::new();
    bytes(&mut message, 1, &list_meta);
    text(&mut message, 2, &status["status"]);
    text(&mut message, 3, &status["message"]);
    text(&mut message, 4, &status["reason"]);
    if status["details"].is_object() {
        bytes(&mut message, 5, &details(&status["details"]));
    }
    number(&mut message, 6, &status["code"]);

    let mut type_meta = Vec::new();
    text(&mut type_meta, 1, &status["apiVersion"]);
    text(&mut type_meta, 2, &status["kind"]);
    let mut envelope = super::PREFIX.to_vec();
    bytes(&mut envelope, 1, &type_meta);
    bytes(&mut envelope, 2, &message);
    // Neither an encoding nor a type of content.
    bytes(&mut envelope, 3, &[]);
    bytes(&mut envelope, 4, &[]);
    envelope
}

fn details(details: &Value) -> Vec<u8> {
    let mut message = Vec::new();
    text(&mut message, 1, &details["name"]);
    text(&mut message, 2, &details["group"]);
    text(&mut message, 3, &details["kind"]);
    for cause in details["causes"].as_array().into_iter().flatten() {
        let mut part = Vec::new();
        text(&mut part, 1, &cause["reason"]);
        text(&mut part, 2, &cause["message"]);
        text(&mut part, 3, &cause["field"]);
        bytes(&mut message, 4, &part);
    }
    number(&mut message, 5, &details["retryAfterSeconds"]);
    text(&mut message, 6, &details["uid"]);
    message
}

fn text(out: &mut Vec<u8>, field: u64, value: &Value) {
    bytes(out, field, value.as_str().unwrap_or_default().as_bytes());
}

/// A field of length and content.
fn bytes(out: &mut Vec<u8>, field: u64, content: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

fn number(out: &mut Vec<u8>, field: u64, value: &Value) {
    varint(out, field << 3);
    varint(out, value.as_u64().unwrap_or(0));
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_is_written_as_go_writes_it() {
        let status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "no",
            "reason": "NotFound",
            "details": { "name": "a", "causes": [{ "reason": "R" }] },
            "code": 404,
        });
        let written = b"k8s\0\n\x0c\n\x02v1\x12\x06Status\x12\x38\
            \n\x06\n\0\x12\0\x1a\0\x12\x07Failure\x1a\x02no\x22\x08NotFound\
            \x2a\x14\n\x01a\x12\0\x1a\0\x22\x07\n\x01R\x12\0\x1a\0\x28\0\x32\0\x30\x94\x03\x1a\0\x22\0";
        assert_eq!(encode_status(&status), written);
    }
}
