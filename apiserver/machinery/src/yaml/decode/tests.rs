use super::{Yaml, is_excessive};

/// The document as JSON, or the message of its fault.
fn read(yaml: &str) -> Result<String, String> {
    Yaml::parse(yaml.as_bytes()).map(|yaml| String::from_utf8(yaml.json.to_vec()).unwrap())
}

#[test]
fn scalars_mean_what_they_mean_in_yaml_1_1() {
    for (scalar, json) in [
        ("yes", "true"),
        ("Off", "false"),
        ("y", "true"),
        ("~", "null"),
        ("", "null"),
        ("NULL", "null"),
        ("0777", "511"),
        ("0o14", "12"),
        ("0x1F", "31"),
        ("-0b11", "-3"),
        ("1_000", "1000"),
        ("08", "8"),
        ("1.0", "1"),
        ("1e3", "1000"),
        (".5", "0.5"),
        ("+1", "1"),
        ("9223372036854775808", "9223372036854775808"),
        ("12345678901234567890123", "1.2345678901234568e+22"),
        ("1:30", "\"1:30\""),
        ("1.2.3", "\"1.2.3\""),
        ("-", "[null]"),
        ("--", "\"--\""),
        ("2001-01-01", "\"2001-01-01\""),
        ("'yes'", "\"yes\""),
        ("!!str 1", "\"1\""),
        ("!!int '3'", "3"),
        ("!!binary aGk=", "\"hi\""),
        ("!foo x", "\"x\""),
    ] {
        assert_eq!(read(scalar), Ok(json.to_owned()), "{scalar}");
    }
}

#[test]
fn maps_have_text_for_keys_and_may_be_merged() {
    for (yaml, json) in [
        (
            "1: a\nyes: b\n1.5: c\n010: d",
            r#"{"1":"a","1.5":"c","8":"d","true":"b"}"#,
        ),
        ("a: &x {b: 1}\nc: *x", r#"{"a":{"b":1},"c":{"b":1}}"#),
        (
            "a: &x {b: 1}\nc: {<<: *x, d: 2}",
            r#"{"a":{"b":1},"c":{"b":1,"d":2}}"#,
        ),
        ("<<: [{a: 1}, {a: 2, b: 2}]", r#"{"a":1,"b":2}"#),
        ("a: 1\n---\nb: [", r#"{"a":1}"#),
        ("", "null"),
        ("# nothing", "null"),
        (
            "a: 1 # x\n# y\nb: # z\n- 1 # one\n# two\n- 2",
            r#"{"a":1,"b":[1,2]}"#,
        ),
        ("%YAML 1.1\n---\na: |\n  x\n  y\n", r#"{"a":"x\ny\n"}"#),
    ] {
        assert_eq!(read(yaml), Ok(json.to_owned()), "{yaml}");
    }
}

#[test]
fn every_duplicate_key_is_found_at_the_line_of_its_value() {
    let yaml = "a: {k: 1, k: 2}\nb:\n  c: 1\nb:\n  c: 2\n  c: 3\n1: x\n1: y\n";
    let duplicates = Yaml::parse(yaml.as_bytes()).unwrap().duplicates;
    let expected = [
        "line 1: key \"k\" already set in map",
        "line 6: key \"c\" already set in map",
        "line 5: key \"b\" already set in map",
        "line 8: key 1 already set in map",
    ];
    assert_eq!(duplicates, expected);
}

#[test]
fn faults_are_worded_as_in_go() {
    for (yaml, message) in [
        ("a: b: c", "mapping values are not allowed in this context"),
        (
            "a: b\n c: d",
            "line 2: mapping values are not allowed in this context",
        ),
        (
            "x:\n  @a",
            "line 2: found character that cannot start any token",
        ),
        (
            "a:\n\t- b",
            "line 2: found character that cannot start any token",
        ),
        ("a: [1\n", "line 1: did not find expected ',' or ']'"),
        ("a: {b: 1", "line 1: did not find expected ',' or '}'"),
        ("a: [", "line 1: did not find expected node content"),
        (
            "a:\n- {b: [1,\n",
            "line 2: did not find expected node content",
        ),
        ("a: 1\nb c\nd: 2\n", "line 3: could not find expected ':'"),
        ("a:\n  - b\n c: d", "line 2: did not find expected key"),
        (
            "x:\n  - b\n  c: d\n",
            "line 2: did not find expected '-' indicator",
        ),
        ("a: 1\nb: 'x\n", "line 3: found unexpected end of stream"),
        ("x: \"\\q\"", "found unknown escape character"),
        ("x:\n  *nope", "unknown anchor 'nope' referenced"),
        (
            "<<: 1",
            "map merge requires map or sequence of maps as the value",
        ),
    ] {
        assert_eq!(read(yaml), Err(format!("yaml: {message}")), "{yaml}");
    }
    assert_eq!(
        read("a: .inf"),
        Err("json: unsupported value: +Inf".to_owned())
    );
}

#[test]
fn a_document_cannot_grow_without_end() {
    let mut yaml = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..10 {
        let below = format!("*a{}", level - 1);
        let items = vec![below; 10].join(", ");
        yaml.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    let aliasing = "yaml: document contains excessive aliasing";
    assert_eq!(read(&yaml), Err(aliasing.to_owned()));
    assert!(read(&"[".repeat(10_000)).is_err());
}

#[test]
fn aliases_stand_for_fewer_of_the_values_the_more_there_are() {
    for (aliased, decoded, is_refused) in [
        (0, 1_000_000_000, false),
        (100, 100, false),
        (1000, 1000, false),
        (1001, 1001, true),
        (395_999, 400_000, false),
        (396_001, 400_000, true),
        (1_198_999, 2_200_000, false),
        (1_199_001, 2_200_000, true),
        (399_999, 4_000_000, false),
        (400_001, 4_000_000, true),
        (1_000_001, 10_000_000, true),
    ] {
        assert_eq!(
            is_excessive(aliased, decoded),
            is_refused,
            "{aliased} of {decoded}"
        );
    }
    let of = |items: usize, aliases: usize| {
        let (items, aliases) = (vec!["x"; items].join(","), vec!["*a"; aliases].join(","));
        read(&format!("a: &a [{items}]\nb: [{aliases}]\n"))
    };
    // Aliases stand for 98 % of the values.
    assert!(of(50, 1000).is_ok());
    assert!(of(1000, 50).is_ok());
    // They stand for 99.8 % of a million.
    assert!(of(1000, 1000).is_err());
    // Without aliases there is no limit.
    assert!(of(1_000_001, 0).is_ok());
}
