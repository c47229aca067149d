use super::*;
use crate::mutants::find::find;
use crate::mutants::mutant::{Mutant, mutate};

const SOURCE: &str =
    "fn f() -> Pod {\n    let x;\n    x = g(a < b);\n    h(x)\n}\nfn i() -> T { j() }\n";

/// The changes that are blamed for an error with these spans, each the part of the mutated text that `at` finds.
fn blamed(spans: &[(&str, bool)]) -> Vec<String> {
    blamed_for(SOURCE, "null", spans)
}

fn blamed_for(source: &str, code: &str, spans: &[(&str, bool)]) -> Vec<String> {
    let found = find("a/b.rs", source).unwrap();
    let numbered: Vec<(u32, &Mutant)> = (1..).zip(&found).collect();
    let mutated = mutate(source, &numbered, "is", "#![allow(warnings)]");
    let spans: Vec<String> = spans
        .iter()
        .map(|(at, is_primary)| {
            let start = mutated.text.find(at).unwrap();
            let end = start + at.len();
            let label = match is_primary {
                true => "null",
                false => r#""value moved here""#,
            };
            format!(
                r#"{{"file_name": "a/b.rs", "byte_start": {start}, "byte_end": {end}, "is_primary": {is_primary},
                    "label": {label}}}"#
            )
        })
        .collect();
    let text = format!(
        r#"{{"level": "error", "message": "m", "code": {code}, "rendered": null, "spans": [{}]}}"#,
        spans.join(",")
    );
    let error: Message = serde_json::from_str(&text).unwrap();
    let sources = BTreeMap::from([("a/b.rs".to_owned(), mutated)]);
    let blamed = blame(&[error], &sources).unwrap();
    let name = |number: u32| found[number as usize - 1].name();
    blamed.into_iter().map(name).collect()
}

#[test]
fn an_error_is_of_the_mutant_whose_text_it_is_in() {
    assert_eq!(
        blamed(&[("Default::default()", true)]),
        ["a/b.rs: return `Default::default()` in f"]
    );
    // A secondary place in a mutant's text says more than the primary one outside of them.
    assert_eq!(
        blamed(&[("fn f() -> Pod", true), ("(a) == (b)", false)]),
        ["a/b.rs: replace < with == in f"]
    );
}

#[test]
fn an_error_elsewhere_is_of_the_smallest_mutant_around() {
    assert_eq!(
        blamed(&[("a < b", true)]),
        ["a/b.rs: replace < with <= in f"]
    );
}

#[test]
fn an_error_outside_of_mutants_is_of_the_function() {
    let all = blamed(&[("h(x)", true)]);
    assert_eq!(all.len(), 5, "{all:?}");
    assert!(all.iter().all(|name| name.ends_with("in f")), "{all:?}");
}

#[test]
fn a_use_after_a_move_is_of_the_return_between() {
    let source = "fn f(a: T) -> ! { if b() { return c(); } if d() { g(a); return h(); } while i(&a) { j(); } k() }";
    let code = r#"{"code": "E0382"}"#;
    assert_eq!(
        blamed_for(source, code, &[("i(&a)", true), ("g(a)", false)]),
        ["a/b.rs: delete `return h();` in f"]
    );
}

#[test]
fn an_error_of_no_mutant_is_reported() {
    let error = r#"{"level": "error", "message": "no such crate", "code": null, "rendered": null, "spans":
        [{"file_name": "c.rs", "byte_start": 0, "byte_end": 1, "is_primary": true}]}"#;
    let error: Message = serde_json::from_str(error).unwrap();
    let error_of_build = blame(&[error], &BTreeMap::new()).unwrap_err();
    assert!(
        error_of_build.to_string().contains("no such crate"),
        "{error_of_build}"
    );
}
