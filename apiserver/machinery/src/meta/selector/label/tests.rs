use crate::json::json;

use super::*;

#[test]
fn what_a_selector_matches_and_what_not() {
    let labels = json!({"a": "b", "n": "5", "e": "", "x.io/k": "v"});
    let cases: &[(&str, bool)] = &[
        ("", true),
        ("a=b", true),
        ("a==b", true),
        ("a = b , n", true),
        ("a=c", false),
        ("a!=b", false),
        ("a!=c", true),
        ("z!=c", true),
        ("z=", false),
        ("e=", true),
        ("a in (b,c)", true),
        ("a in (c)", false),
        ("z in (b)", false),
        ("a notin (b)", false),
        ("z notin (b)", true),
        ("e in ()", true),
        ("a in (,b)", true),
        ("in in (in)", false),
        ("a", true),
        ("z", false),
        ("!z", true),
        ("!a", false),
        ("n>4", true),
        ("n>5", false),
        ("n<6", true),
        ("a>1", false),
        ("z<1", false),
        ("x.io/k=v,!z,a in (b),n notin (1,2)", true),
        ("a=b,a=c", false),
    ];
    for (text, expected) in cases {
        let selector = LabelSelector::parse(text).unwrap();
        assert_eq!(selector.matches(&labels), *expected, "{text}");
    }
    assert!(!LabelSelector::parse("a").unwrap().matches(&Value::Null));
}

#[test]
fn printing_is_canonical() {
    let cases = [
        ("z,a=b", "a=b,z"),
        ("e in (y,x,x)", "e in (x,y)"),
        ("f notin (z)", "f notin (z)"),
        (" ! h , k == v , n > 3 ", "!h,k==v,n>3"),
        ("a in ()", "a in ()"),
        ("a in (x,)", "a in (,x)"),
    ];
    for (text, printed) in cases {
        assert_eq!(LabelSelector::parse(text).unwrap().to_string(), printed);
        assert_eq!(LabelSelector::parse(printed).unwrap().to_string(), printed);
    }
}

#[test]
fn malformed_selectors_are_refused_in_upstreams_words() {
    let operators = "expected: in, notin, =, ==, !=, gt, lt";
    let cases: &[(&str, &str)] = &[
        (
            "a===b",
            "unable to parse requirement: found '=', expected: identifier",
        ),
        ("a=b,", "found '', expected: identifier after ','"),
        (
            ",a",
            "found ',', expected: !, identifier, or 'end of string'",
        ),
        (
            "a b",
            &format!("unable to parse requirement: found 'b', {operators}"),
        ),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        (
            "a in b",
            "unable to parse requirement: found 'b' expected: '('",
        ),
        (
            "a in (b",
            "unable to parse requirement: found '', expected: ',' or ')'",
        ),
        (
            "a in (=)",
            "unable to parse requirement: found '=', expected: ',', ')' or identifier",
        ),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        (
            "!",
            "unable to parse requirement: found '', expected: identifier",
        ),
        (
            "a in",
            "unable to parse requirement: found '' expected: '('",
        ),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' \
             operators, the value must be an integer",
        ),
        (
            "k=-bad-",
            "unable to parse requirement: values[0][k]: Invalid value: \"-bad-\": a valid label \
             must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
             must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  \
             or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
        (
            "/k",
            "unable to parse requirement: <nil>: Invalid value: \"/k\": prefix part must be \
             non-empty",
        ),
    ];
    for (text, message) in cases {
        let found = LabelSelector::parse(text).map_err(|error| error.to_string());
        assert_eq!(found.unwrap_err(), *message, "{text}");
    }
}

#[test]
fn objects_become_the_same_selector() {
    let object = json!({
        "matchLabels": {"b": "1", "a": "2"},
        "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["y", "x"]},
            {"key": "d", "operator": "NotIn", "values": ["z"]},
            {"key": "e", "operator": "Exists"},
            {"key": "f", "operator": "DoesNotExist"},
        ],
    });
    let selector = LabelSelector::from_object(&object).unwrap();
    assert_eq!(
        selector.as_selector_string(),
        "a=2,b=1,c in (x,y),d notin (z),e,!f"
    );
    assert!(selector.matches(&json!({"a": "2", "b": "1", "c": "x", "e": ""})));
    assert!(!selector.matches(&json!({"a": "2", "b": "1", "c": "x"})));
}

#[test]
fn an_absent_selector_object_selects_nothing_an_empty_one_everything() {
    let nothing = LabelSelector::from_object(&Value::Null).unwrap();
    assert!(!nothing.matches(&json!({})) && !nothing.is_everything());
    let everything = LabelSelector::from_object(&json!({})).unwrap();
    assert!(everything.matches(&json!({})) && everything.is_everything());
}

#[test]
fn malformed_selector_objects_are_refused() {
    let odd = json!({"matchExpressions": [{"key": "a", "operator": "Odd"}]});
    assert_eq!(
        LabelSelector::from_object(&odd).unwrap_err().to_string(),
        "\"Odd\" is not a valid label selector operator"
    );
    let empty = json!({"matchExpressions": [{"key": "a", "operator": "In"}]});
    assert_eq!(
        LabelSelector::from_object(&empty).unwrap_err().to_string(),
        "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
    );
}
