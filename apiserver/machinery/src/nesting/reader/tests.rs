use serde::Deserialize;
use serde_json::Value;

use super::*;

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
    for json in [
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
    ] {
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
        serde::de::IgnoredAny::deserialize(&mut reader).unwrap();
        assert_eq!(reader.at, json.len() + 1);
    }
}
