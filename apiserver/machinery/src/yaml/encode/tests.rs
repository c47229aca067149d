use crate::json::json;

use super::*;

#[test]
fn blocks_are_laid_out_as_go_lays_them_out() {
    let value = json!({
        "kind": "List",
        "items": [
            {"b": [1, [2, [], {}], {"x": null}], "a": {"f:k": {}, ".": {}}},
            [["deep"], "flat"],
        ],
        "empty": {"list": [], "map": {}},
        "yes": true,
    });
    let want = "\
empty:
  list: []
  map: {}
items:
- a:
    .: {}
    f:k: {}
  b:
  - 1
  - - 2
    - []
    - {}
  - x: null
- - - deep
  - flat
kind: List
\"yes\": true
";
    assert_eq!(to_string(&value), want);
}

#[test]
fn texts_are_quoted_where_they_would_be_read_as_something_else() {
    let cases = [
        ("plain text", "plain text"),
        ("a/b:c@d", "a/b:c@d"),
        ("k:{\"name\":\"c\"}", "k:{\"name\":\"c\"}"),
        ("a, b [c]", "a, b [c]"),
        ("", "\"\""),
        ("true", "\"true\""),
        ("off", "\"off\""),
        ("null", "\"null\""),
        ("~", "\"~\""),
        ("<<", "\"<<\""),
        ("12", "\"12\""),
        ("0x1f", "\"0x1f\""),
        ("1e3", "\"1e3\""),
        ("10:30", "\"10:30\""),
        ("100m", "100m"),
        ("1.2.3", "1.2.3"),
        ("2026-01-01", "\"2026-01-01\""),
        ("2026-01-01T00:00:00Z", "\"2026-01-01T00:00:00Z\""),
        ("2026-13-01", "2026-13-01"),
        ("a: b", "'a: b'"),
        ("a:", "'a:'"),
        ("a #b", "'a #b'"),
        ("a#b", "a#b"),
        ("*", "'*'"),
        ("it's", "it's"),
        ("'it'", "'''it'''"),
        ("\"q\"", "'\"q\"'"),
        ("- a", "'- a'"),
        ("-a", "-a"),
        ("---", "'---'"),
        (" a", "' a'"),
        ("a\tb", "\"a\\tb\""),
        ("\u{e4}\u{2028}", "\"\u{e4}\\L\""),
        ("\u{1f600}", "\"\\U0001F600\""),
        ("a\r", "\"a\\r\""),
    ];
    for (text, want) in cases {
        assert_eq!(
            to_string(&json!({"k": text})),
            format!("k: {want}\n"),
            "{text:?}"
        );
    }
}

#[test]
fn lines_are_written_line_by_line() {
    let cases = [
        ("a\nb\n", "k: |\n  a\n  b\nz: 1\n"),
        ("a\n\nb", "k: |-\n  a\n\n  b\nz: 1\n"),
        ("a\n\n", "k: |+\n  a\n\nz: 1\n"),
        (" a\nb", "k: |2-\n   a\n  b\nz: 1\n"),
        ("a \nb", "k: \"a \\nb\"\nz: 1\n"),
        ("a\nb ", "k: \"a\\nb \"\nz: 1\n"),
        ("\n", "k: |2+\n\nz: 1\n"),
    ];
    for (text, want) in cases {
        assert_eq!(to_string(&json!({"k": text, "z": 1})), want, "{text:?}");
    }
}

#[test]
fn long_texts_are_folded_at_a_space_behind_the_80th_column() {
    let message = "only the following media types are accepted: application/json;stream=watch, \
                   application/vnd.kubernetes.protobuf;stream=watch";
    let want = "message: 'only the following media types are accepted: application/json;stream=watch,\n  \
                application/vnd.kubernetes.protobuf;stream=watch'\n";
    assert_eq!(to_string(&json!({"message": message})), want);
    let words = ["word"; 40].join(" ");
    let folded = to_string(&json!({"a": [words]}));
    let lines: Vec<&str> = folded.lines().collect();
    assert_eq!(lines.len(), 4, "{folded}");
    assert!(lines[1].starts_with("- word") && lines[1].len() > 80);
    assert!(lines[2].starts_with("  word"));
    let spaced = format!("{}  b \u{7}", "a".repeat(90));
    let quoted = to_string(&json!({"k": spaced}));
    assert_eq!(quoted, format!("k: \"{}\n  \\ b \\a\"\n", "a".repeat(90)));
}

#[test]
fn keys_are_ordered_naturally_and_long_ones_set_apart() {
    let keys = ["a10", "a2", "B", "f:b", ".", "a-b", "ab", "a1b", "a01"];
    let object: Map = keys
        .map(|key| (key.to_owned(), 1.into()))
        .into_iter()
        .collect();
    let text = to_string(&Value::Object(object));
    let ordered: Vec<&str> = text
        .lines()
        .map(|line| line.trim_end_matches(": 1"))
        .collect();
    assert_eq!(
        ordered,
        [".", "B", "a-b", "a1b", "a01", "a2", "a10", "ab", "f:b"]
    );
    let long = "k".repeat(129);
    assert_eq!(
        to_string(&json!({ long.as_str(): {"a": 1, "b": 2} })),
        format!("? {long}\n: a: 1\n  b: 2\n")
    );
}

#[test]
fn numbers_are_the_shortest_that_read_back() {
    let cases = [
        (json!(1.5), "1.5"),
        (json!(-3), "-3"),
        (json!(1e21), "1e+21"),
        (json!(0.00001), "1e-05"),
        (json!(u64::MAX), "18446744073709551615"),
    ];
    for (value, want) in cases {
        assert_eq!(to_string(&value), format!("{want}\n"));
    }
}
