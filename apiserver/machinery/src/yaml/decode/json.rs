//! JSON, which is YAML as well and is read faster: what clients send as YAML is mostly JSON.

use crate::json::{Map, Value};
use crate::schema::unique_fields;

/// Bytes of a document that cannot have too many values.
const BYTES_MAX: usize = 1024 * 1024;

/// Bytes that a key of YAML's flow style may have at most.
const KEY_BYTES_MAX: usize = 1000;

/// The nesting limit of values that are read here.
const DEPTH_MAX: usize = 50;

/// Returns the fields of a JSON object that Go's decoder for YAML reads in the same way, without duplicate fields.
/// `None` for any other document, and where a doubt is left.
#[must_use]
pub fn json_object(document: &[u8]) -> Option<Map> {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n');
    if document.first() != Some(&b'{')
        || document.len() > BYTES_MAX
        || !document.iter().all(is_plain)
        || !has_shared_escapes(document)
    {
        return None;
    }
    let fields = unique_fields(document)?;
    are_plain(&fields, DEPTH_MAX).then_some(fields)
}

/// Whether each escape is one that both languages have.
fn has_shared_escapes(document: &[u8]) -> bool {
    let mut bytes = document.iter();
    while let Some(byte) = bytes.next() {
        if *byte == b'\\' && !matches!(bytes.next(), Some(b'"' | b'\\' | b'n' | b't' | b'r')) {
            return false;
        }
    }
    true
}

fn are_plain(fields: &Map, depth: usize) -> bool {
    let is_plain_key = |key: &str| key != "<<" && key.len() <= KEY_BYTES_MAX;
    fields
        .iter()
        .all(|(key, value)| is_plain_key(key) && is_plain(value, depth))
}

/// Whether a value has whole numbers only: others are not written alike.
fn is_plain(value: &Value, depth: usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => number.is_i64(),
        Value::Array(_) | Value::Object(_) if depth == 0 => false,
        Value::Array(items) => items.iter().all(|item| is_plain(item, depth - 1)),
        Value::Object(fields) => are_plain(fields, depth - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Yaml;
    use super::*;

    #[test]
    fn what_is_read_as_json_is_the_same_as_yaml() {
        for document in [
            r#"{}"#,
            r#"{"a":{"b":[1,-2,true,false,null,"x",{}],"c":""}}"#,
            "{\n  \"a\": \"1\",\n  \"b\": [\n    9223372036854775807\n  ]\n}\n",
            r##"{"a":"yes","on":"~","b":"1e3","c":"# no comment","d":"a: b","e":"*x","1":"&y"}"##,
            r#"{"a":"\"\\ \n\t\r","b/c.d":"{}[],:","e":"2001-01-01","f":"0x1f"}"#,
            r#"{ "a" : [ ] , "b" : "!!str" }"#,
        ] {
            let read = json_object(document.as_bytes()).expect(document);
            let yaml = Yaml::parse(document.as_bytes()).expect(document);
            let yaml: Value = serde_json::from_slice(&yaml.json).unwrap();
            assert_eq!(Value::Object(read), yaml, "{document}");
        }
    }

    #[test]
    fn what_may_differ_is_not_read_as_json() {
        let long = format!("{{\"{}\":1}}", "k".repeat(KEY_BYTES_MAX + 1));
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(60), "]".repeat(60));
        for document in [
            "",
            "a: 1",
            "[]",
            "{a: 1}",
            r#"{"a":1,"a":2}"#,
            r#"{"a":1.0}"#,
            r#"{"a":1e3}"#,
            r#"{"a":-0}"#,
            r#"{"a":18446744073709551615}"#,
            r#"{"a":"\u0041"}"#,
            r#"{"a":"\/"}"#,
            "{\"a\":\t1}",
            "{\"a\":\"é\"}",
            r#"{"<<":{"a":1}}"#,
            "{} x",
            "{}\n---\n{}",
            &long,
            &deep,
        ] {
            assert_eq!(json_object(document.as_bytes()), None, "{document}");
        }
    }
}
