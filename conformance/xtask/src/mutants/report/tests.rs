use super::*;
use crate::mutants::find::find;

const FILE: &str = "controller/src/apps/statefulset/set.rs";

/// A report about four mutants of a function: deleted statements that are noticed, survive with and without being
/// reached, and are not run.
fn reported(reasons: &str) -> (String, Vec<String>) {
    let mutants = find(FILE, "fn f() -> ! { a(); b(); c(); d(); g() }").unwrap();
    assert_eq!(mutants.len(), 4);
    let survived = |scenarios| Outcome::Survived {
        passed: std::collections::BTreeSet::new(),
        scenarios,
        reaching: 2 * scenarios,
    };
    let noticed = Outcome::Noticed {
        scenario: "s".to_owned(),
    };
    let outcomes = [Some(&noticed), Some(&survived(3)), Some(&survived(0)), None]
        .map(Option::<&Outcome>::cloned);
    let outcomes: Vec<_> = mutants
        .iter()
        .zip(&outcomes)
        .map(|(mutant, outcome)| (mutant, outcome.as_ref()))
        .collect();
    report(&outcomes, &basic_toml::from_str(reasons).unwrap())
}

#[test]
fn the_report_counts_and_lists_survivors() {
    let (text, outdated) = reported("");
    assert!(outdated.is_empty());
    let row = "| StatefulSet | 4 | 0 | 1 | 1 | 0 | 2 | 1 | 1 | 0 | 33.3 % | 33.3 % | 33.3 % |\n";
    assert!(text.contains(row), "{text}");
    assert!(text.contains("3 of 4 mutants that compile were run."));
    assert!(text.contains("Survivors with a reason\n\n0 mutants"));
    assert!(text.contains(&format!(
        "- `{FILE}`, `f`\n  - `delete b();`\n  - `delete c();`\n"
    )));
}

#[test]
fn a_reason_is_for_survivors_only() {
    let reason = |name: &str| {
        format!(
            "[[reasons]]\nmutants = [\"{FILE}: delete `{name}();` in f\"]\nbecause = \"It is so.\"\n"
        )
    };
    let (text, outdated) = reported(&reason("b"));
    assert!(outdated.is_empty(), "{outdated:?}");
    let row = "| 2 | 1 | 1 | 1 | 33.3 % | 50.0 % | 33.3 % |\n";
    assert!(text.contains(row), "{text}");
    assert!(text.contains("with a reason\n\n1 mutants.\n\nIt is so.\n\n- `controller"));
    // It may survive yet.
    assert!(reported(&reason("d")).1.is_empty());
    // It is noticed, or does not exist.
    assert_eq!(reported(&reason("a")).1.len(), 1);
    assert_eq!(reported(&reason("e")).1.len(), 1);
}

#[test]
fn a_star_stands_for_any_text() {
    assert!(matches("a*b", "axxb"));
    assert!(matches(
        "a.rs: replace += with *= in f",
        "a.rs: replace += with *= in f"
    ));
    assert!(!matches("a*b", "axxbc"));
    assert!(!matches("a", "ab"));
    assert!(matches("a*c*", "abcd"));
}

#[test]
fn the_reasons_are_for_mutants_that_there_are() {
    let root = crate::root();
    let mutants = crate::mutants::find_all(&root).unwrap();
    let names: Vec<String> = mutants.iter().map(Mutant::name).collect();
    let reasons = Reasons::read(&root).unwrap().reasons;
    assert!(!reasons.is_empty());
    let patterns = reasons.iter().flat_map(|reason| &reason.mutants);
    let is_gone = |pattern: &&String| !names.iter().any(|name| matches(pattern, name));
    let gone: Vec<&String> = patterns.filter(is_gone).collect();
    assert!(gone.is_empty(), "mend {REASONS}: no mutant is {gone:#?}");
}
