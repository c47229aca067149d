//! JSON with line breaks and indents, as Go's `json.MarshalIndent` writes it.

use crate::json::Value;
use crate::schema::write_answer;

/// Writes a value with its keys in the order of upstream's types, without a line break at the end.
pub(crate) fn to_vec(value: &Value) -> Vec<u8> {
    let mut text = Vec::new();
    write_answer(&mut text, value);
    indented(&text)
}

/// Puts each member and item of a document on a line of its own. Empty objects and arrays stay as
/// they are.
fn indented(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let mut depth = 0;
    let mut in_string = false;
    let mut escaped = false;
    let mut bytes = json.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if in_string {
            out.push(byte);
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'{' | b'[' => {
                out.push(byte);
                if let Some(end) = bytes.next_if(|next| matches!(next, b'}' | b']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    break_line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth -= 1;
                break_line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                break_line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            _ => {
                in_string = byte == b'"';
                out.push(byte);
            }
        }
    }
    out
}

fn break_line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.resize(out.len() + 2 * depth, b' ');
}

#[cfg(test)]
mod tests {
    use crate::json::json;

    use super::*;

    #[test]
    fn documents_are_indented_as_go_indents_them() {
        let json = br#"{"a":[],"b":{},"c":[1,{"d":"x,{\"\\"}],"e":[[2]]}"#;
        let want = "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n    {\n      \"d\": \
                    \"x,{\\\"\\\\\"\n    }\n  ],\n  \"e\": [\n    [\n      2\n    ]\n  ]\n}";
        assert_eq!(String::from_utf8(indented(json)).unwrap(), want);
    }

    #[test]
    fn keys_are_in_the_order_of_upstream_s_types() {
        let keys = |value: &Value| -> Vec<String> {
            let text = String::from_utf8(to_vec(value)).unwrap();
            let lines = text.lines().filter_map(|line| line.split_once("\": "));
            lines
                .map(|(key, _)| key.trim_start_matches([' ', '"']).to_owned())
                .collect()
        };
        for (value, want) in [
            (
                json!({ "apiVersion": "v1", "kind": "ConfigMapList", "items": [
                    { "data": { "a": "b" }, "metadata": { "uid": "u", "name": "n" } },
                ], "metadata": { "continue": "c", "resourceVersion": "1" } }),
                "kind apiVersion metadata resourceVersion continue items metadata name uid data a",
            ),
            (
                json!({ "apiVersion": "example.com/v1", "kind": "FooList", "metadata": {},
                    "items": [{ "apiVersion": "example.com/v1", "kind": "Foo", "a": 1,
                        "metadata": { "uid": "u", "name": "n" } }] }),
                "apiVersion items a apiVersion kind metadata name uid kind metadata",
            ),
            (
                json!({ "apiVersion": "meta.k8s.io/v1", "kind": "Table", "metadata": {},
                    "rows": [{ "object": { "kind": "PartialObjectMetadata",
                        "apiVersion": "meta.k8s.io/v1", "metadata": { "uid": "u", "name": "n" } },
                        "cells": [1] }],
                    "columnDefinitions": [{ "description": "d", "format": "f", "name": "n",
                        "priority": 0, "type": "t" }] }),
                "kind apiVersion metadata columnDefinitions name type format description priority \
                 rows cells object kind apiVersion metadata name uid",
            ),
            (
                json!({ "apiVersion": "v1", "kind": "Status", "code": 404, "message": "m",
                    "metadata": {}, "status": "Failure", "details": { "kind": "k", "name": "n" } }),
                "kind apiVersion metadata status message details name kind code",
            ),
        ] {
            assert_eq!(keys(&value).join(" "), want);
        }
    }
}
