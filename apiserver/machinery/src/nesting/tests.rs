use crate::json::json;

use super::*;

fn lists(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

#[test]
fn depth_is_that_of_values_and_not_of_text() {
    for (json, depth) in [
        ("1", 0),
        ("[]", 1),
        (r#"{"a":[{}]}"#, 3),
        (r#"["[[[[", "\"[[", {"[": 1}]"#, 2),
        (r#"["\\", [[]]]"#, 3),
        ("[[]", 2),
        ("]]][", 1),
    ] {
        assert_eq!(depth_up_to(usize::MAX, json.as_bytes()), depth, "{json}");
    }
    let text = lists(101);
    assert!(nests_deeper_than(100, text.as_bytes()));
    assert!(!nests_deeper_than(101, text.as_bytes()));
    let value = json!({ "a": [{}], "b": crate::meta::fields::at_rest("[[[]]]") });
    assert_eq!(depth_of(&value), 4);
}

#[test]
fn only_documents_that_can_be_read_get_a_deep_stack() {
    assert!(!is_deep_json(lists(100).as_bytes()));
    assert!(is_deep_json(lists(101).as_bytes()));
    assert!(is_deep_json(lists(10_000).as_bytes()));
    assert!(!is_deep_json(lists(10_001).as_bytes()));
}

#[test]
fn what_nests_yaml_is_counted() {
    let blocks = format!("a:\n{}b", "- ".repeat(101));
    let indented: String = (0..101)
        .map(|at| format!("{}a:\n", " ".repeat(at)))
        .collect();
    for deep in [blocks, indented, format!("a: {}", lists(101)), lists(101)] {
        assert!(may_nest_yaml(deep.as_bytes()), "{deep}");
    }
    let manifest = "kind: Pod\nspec:\n  containers:\n  - name: a\n    args: [a, b]\n";
    assert!(!may_nest_yaml(manifest.repeat(20).as_bytes()));
    let json = json!({ "a": vec![json!({}); 200] }).to_string();
    assert!(!may_nest_yaml(json.as_bytes()), "JSON is counted exactly");
}

#[test]
fn documents_are_read_as_deeply_as_the_stack_allows() {
    let read = |depth| from_slice::<Value>(lists(depth).as_bytes()).map(drop);
    assert!(read(127).is_ok());
    assert!(read(128).is_err());
    with_room(|| {
        assert!(read(10_000).is_ok());
        assert_eq!(read(10_001).unwrap_err().to_string(), TOO_DEEP);
    });
    let ignored = from_slice::<serde::de::IgnoredAny>(lists(10_001).as_bytes());
    assert!(ignored.is_err(), "what is passed over counts, too");
}

#[test]
fn a_future_continues_where_there_is_room() {
    let deep = lists(10_000);
    let read = Roomy::new(async {
        assert!(!has_room());
        make_room(is_deep_json(deep.as_bytes())).await;
        let value: Value = from_slice(deep.as_bytes()).unwrap();
        let copy = value.clone();
        assert!(copy == value);
        // Held across a pause, so that giving up drops it.
        std::future::pending::<()>().await;
        drop((value, copy));
    });
    let mut read = Box::pin(read);
    let mut context = Context::from_waker(std::task::Waker::noop());
    assert!(read.as_mut().poll(&mut context).is_pending());
    assert!(read.as_mut().poll(&mut context).is_pending());
    assert!(!has_room());
    drop(read);
}
