use serde::Deserialize;
use serde::de::IgnoredAny;

use super::*;
use crate::json::Value;
use crate::meta::GroupVersionKind;
use crate::nesting::with_room;
use crate::schema::{self, FieldValidation, decode_json};

/// Texts that are not JSON, or that hold what a string or a number can't.
const REFUSED: [&str; 47] = [
    "",
    " ",
    "{",
    "}",
    "[",
    "[1",
    "[1,",
    "[1,]",
    "[,1]",
    "[1 2]",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{a:1}",
    "{1:1}",
    "{\"a\" 1}",
    "{,}",
    "01",
    "-",
    "+1",
    "1.",
    ".5",
    "1e",
    "1-2",
    "--1",
    "0x1",
    "tru",
    "nul",
    "nulls",
    "True",
    "\"",
    "\"a",
    "\"\\",
    "\"\\\"",
    "\"\\x\"",
    "\"\\u12\"",
    "\"\\ud800\"",
    "\"\n\"",
    "\"12345678\n\"",
    "\"\\n\n\"",
    "1 1",
    "{} {}",
    "[}",
    "{]",
    "'a'",
    "NaN",
    "1e400",
];

/// Reads a whole text with the reader, by itself and as a deserializer.
fn read(json: &str) -> Result<Value, Fault> {
    let mut reader = Reader::new(json.as_bytes()).unwrap();
    let value = reader
        .value()
        .and_then(|value| reader.end().map(|()| value));
    let mut reader = Reader::new(json.as_bytes()).unwrap();
    let deserialized = Value::deserialize(&mut reader);
    let deserialized = deserialized.and_then(|value| reader.end().map(|()| value));
    assert_eq!(value, deserialized, "{json}");
    value
}

#[test]
fn it_reads_what_serde_json_reads() {
    let long = format!("\"{}\\n{}\"", "x".repeat(17), "\u{e9}".repeat(9));
    for json in [
        r#"{}"#,
        r#" { "a" : [ 1 , -2, 0, -0, 1.0, 1e3, -1.5E-3 ] , "b":{"c":null,"d":true,"e":false} } "#,
        "[[],{},\"\",\"\\\"\\\\\",\"\\u00e9\\ud83d\\ude00\",\"\u{2028}<\"]",
        "[9223372036854775807,18446744073709551615,18446744073709551616,-9223372036854775808]",
        "[100000000000000000,999999999999999999,1000000000000000000,0.1]",
        &long,
        "null",
        "1",
    ] {
        assert_eq!(
            read(json),
            Ok(serde_json::from_str(json).unwrap()),
            "{json}"
        );
    }
}

#[test]
fn it_refuses_what_serde_json_refuses() {
    for json in REFUSED {
        assert!(serde_json::from_str::<Value>(json).is_err(), "{json}");
        assert_eq!(read(json), Err(Fault), "{json}");
    }
    assert!(Reader::new(b"\"\xff\"").is_none());
}

#[test]
fn a_value_has_no_field_twice() {
    for json in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"\u0061":1}}]"#] {
        let mut reader = Reader::new(json.as_bytes()).unwrap();
        assert_eq!(reader.value(), Err(Fault), "{json}");
    }
}

#[test]
fn depth_is_that_of_serde_json() {
    let lists = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for (depth, is_read) in [(127, true), (128, false)] {
        assert_eq!(read(&lists(depth)).is_ok(), is_read);
        assert_eq!(
            serde_json::from_str::<Value>(&lists(depth)).is_ok(),
            is_read
        );
    }
    let wide = format!("[{}[]]", "[[]],".repeat(200));
    assert!(read(&wide).is_ok(), "depth is not a sum");
    let deep = lists(1000);
    assert!(Reader::of_own(deep.as_bytes()).unwrap().value().is_ok());
}

#[test]
fn every_end_of_a_plain_text_is_found() {
    for length in 0..20 {
        for end in ["\"", "\\n\"", "\u{e9}\"", "\n"] {
            let json = format!("\"{}{end}", "\u{7f}".repeat(length));
            let want = serde_json::from_str::<Value>(&json).map_err(|_| Fault);
            assert_eq!(read(&json), want, "{json:?}");
        }
    }
}

#[test]
fn the_text_of_an_object_ends_with_it() {
    let json = r#"[{"f:a\"{":{},"k:{\"b\":1}":{"f:\\":{}}} ,"#;
    let object = json.trim_matches(['[', ' ', ',']);
    let read = |json: &'static str, length| {
        let mut reader = Reader::of_own(json.as_bytes()).unwrap();
        reader.enter().unwrap();
        let text = reader.object_text(length)?;
        Ok((text, reader.peek()))
    };
    for length in [None, Some(object.len())] {
        assert_eq!(read(json, length), Ok((object, Some(b','))));
    }
    assert_eq!(read(json, Some(json.len())), Err(Fault));
    for cut in ["[{", "[{\"a", "[{\"a\\", "[}", "[{\"}"] {
        assert_eq!(read(cut, None), Err(Fault), "{cut}");
    }
}

#[test]
fn what_is_ignored_is_passed_over() {
    for json in [
        r#"{"a":["]}",{"\\":[]}]}"#,
        "[]",
        r#""\"""#,
        "-1.5",
        "null",
        "true",
    ] {
        let text = format!("[{json} , 1]");
        let mut reader = Reader::new(text.as_bytes()).unwrap();
        reader.enter().unwrap();
        IgnoredAny::deserialize(&mut reader).unwrap();
        assert_eq!(reader.at, json.len() + 1);
    }
}

/// Decodes an object with this text as an unknown field.
fn decodes_with_unknown(json: &str) -> bool {
    let gvk = GroupVersionKind {
        group: String::new(),
        version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
    };
    let text = format!(r#"{{"kind":"ConfigMap","foo":{json},"data":{{"a":"b"}}}}"#);
    let schema = schema::builtin(&gvk).unwrap();
    let decoded = decode_json(schema, text.as_bytes(), FieldValidation::Ignore);
    decoded.is_ok_and(|decoded| decoded.value["data"]["a"] == "b")
}

#[test]
fn what_is_ignored_is_json() {
    let malformed = [
        "{a b c}",
        "[}",
        r#"{"x":"\q"}"#,
        "[1,,2]",
        "{\"x\":[01]}",
        "[\"\n\"]",
    ];
    for json in REFUSED.into_iter().chain(malformed) {
        let mut reader = Reader::new(json.as_bytes()).unwrap();
        let skipped = reader.skip().and_then(|()| reader.end());
        assert_eq!(skipped, Err(Fault), "{json}");
        // Ignored numbers and strings need not fit into a value.
        let is_json = serde_json::from_str::<IgnoredAny>(json).is_ok();
        assert_eq!(decodes_with_unknown(json), is_json, "{json}");
        assert!(
            !is_json || matches!(json, "1e400" | "\"\\ud800\""),
            "{json}"
        );
    }
    assert!(decodes_with_unknown(r#"{"x":["\n",{"y":-1.5}]}"#));
}

#[test]
fn what_is_ignored_nests_as_deeply_as_the_rest() {
    // The object itself is a level.
    for (depth, is_read) in [(9_999, true), (10_000, false)] {
        let lists = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let objects = format!("{}1{}", "{\"x\":".repeat(depth), "}".repeat(depth));
        for json in [lists, objects] {
            assert_eq!(with_room(|| decodes_with_unknown(&json)), is_read);
            let text = format!("[{json}]");
            let mut reader = with_room(|| Reader::new(text.as_bytes()).unwrap());
            assert_eq!(with_room(|| reader.skip()).is_ok(), is_read);
        }
    }
    let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
    assert_eq!(Reader::new(deep.as_bytes()).unwrap().skip(), Err(Fault));
}

#[test]
fn the_first_byte_that_ends_a_plain_text_is_found() {
    // Neighbours of what is looked for, and characters with bytes that differ in the highest bit only.
    let fills = [
        "x", " ", "!", "#", "[", "]", "\u{7f}", "\u{e0}", "\u{a2}", "\u{700}", "\u{71c}",
    ];
    let ends = ["\"", "\\", "\n", "\0", "\u{1f}"];
    let check = |text: &str| {
        let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..b' ');
        let bytes = text.as_bytes();
        for at in 0..=bytes.len() {
            let found = bytes[at..].iter().position(is_special);
            let want = found.map_or(bytes.len(), |found| at + found);
            assert_eq!(plain_until(bytes, at), want, "{text:?} from {at}");
        }
    };
    for fill in fills {
        for offset in 0..9 {
            let before = fill.repeat(offset);
            check(&before);
            for end in ends {
                for after in fills.iter().chain(&ends) {
                    check(&format!("{before}{end}{after}{}", fill.repeat(8)));
                }
            }
        }
    }
}
