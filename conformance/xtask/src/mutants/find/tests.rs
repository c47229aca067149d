use super::*;
use crate::mutants::mutant::mutate;

/// The changes of a source, each with its function.
fn changes(source: &str) -> Vec<String> {
    let found = find("a.rs", source).unwrap();
    let named = found.iter();
    named
        .map(|mutant| format!("{} in {}", mutant.change, mutant.function))
        .collect()
}

/// A source with all its mutants, which is Rust.
fn mutated(source: &str) -> String {
    let found = find("a.rs", source).unwrap();
    let numbered: Vec<(u32, &Mutant)> = (1..).zip(&found).collect();
    let mutated = mutate(source, &numbered, "is", "");
    if let Err(error) = syn::parse_file(&mutated.text) {
        panic!("{error}:\n{}", mutated.text);
    }
    for place in &mutated.places {
        let added = place.added.clone().map(|range| &mutated.text[range]);
        let number = place.number.to_string();
        assert!(added[0].contains(&number), "{number}: {added:?}");
    }
    mutated.text
}

#[test]
fn operators_are_replaced_and_negations_deleted() {
    let source = "fn f(a: i32, b: i32) -> Never { g(a < b + 1 || !h(a)) }";
    assert_eq!(
        changes(source),
        [
            "return `Default::default()` in f",
            "replace || with && in f",
            "replace < with == in f",
            "replace < with > in f",
            "replace < with <= in f",
            "replace + with - in f",
            "replace + with * in f",
            "delete ! in f",
        ]
    );
    assert_eq!(
        mutated("fn f(a: T) -> ! { g(a == 1) }"),
        "fn f(a: T) -> ! { g((if is(1) { (a) != (1) } else { a == 1 })) }"
    );
}

#[test]
fn functions_return_simple_values_of_their_type() {
    let of = |of: &str| {
        let source = format!("fn f() -> {of} {{ g() }}");
        mutated(&source);
        let all = changes(&source);
        let values = all.iter().filter_map(|change| {
            let change = change.strip_prefix("return `")?;
            Some(change.strip_suffix("` in f")?.to_owned())
        });
        values.collect::<Vec<_>>()
    };
    assert_eq!(of("bool"), ["true", "false"]);
    assert_eq!(of("Option<u32>"), ["None", "Some(0)", "Some(1)"]);
    assert_eq!(of("Result<(), Error>"), ["Ok(())"]);
    assert_eq!(of("Vec<Pod>"), ["vec![]", "vec![Default::default()]"]);
    assert_eq!(of("&'a str"), ["\"\"", "\"xyzzy\""]);
    assert_eq!(of("impl Iterator<Item = u32>"), [""; 0]);
    // A constant function cannot ask, and a test is not changed.
    assert_eq!(changes("const fn f() -> bool { a == b }"), [""; 0]);
    assert_eq!(
        changes("#[cfg(test)] mod tests { fn f() -> bool { g() } }"),
        [""; 0]
    );
    assert_eq!(changes("fn f() -> bool { false }"), ["return `true` in f"]);
}

#[test]
fn statements_are_deleted() {
    let source = "
        impl Controller {
            async fn sync(&self) -> Result<(), Error> {
                let mut live = names();
                live.extend(more());
                for one in &live {
                    if one.is_old() {
                        continue;
                    }
                    self.delete(one).await?;
                }
                let _ = self.record();
                let Some(last) = live.pop() else {
                    return Ok(());
                };
                tracing::debug!(\"gone\");
                live = keep(last);
                self.write(live).await
            }
        }";
    assert_eq!(
        changes(source),
        [
            "return `Ok(())` in Controller::sync",
            "delete `live.extend(more());` in Controller::sync",
            "delete `for one in &live { if one.is_old() { continue; } self.delete…` in Controller::sync",
            "delete `if one.is_old() { continue; }` in Controller::sync",
            "delete `continue;` in Controller::sync",
            "delete `self.delete(one).await?;` in Controller::sync",
            "delete `let _ = self.record();` in Controller::sync",
            "delete `live = keep(last);` in Controller::sync",
        ]
    );
    let text = mutated("fn f() { live.extend(more()); stop() }");
    assert_eq!(
        text,
        "fn f() { if is(1) { return (); } if !is(2) { live.extend(more()); } if !is(3) { stop() } }"
    );
}

#[test]
fn the_value_of_a_block_is_no_statement() {
    // What ends a block of another type, and the value of a function.
    let source = "fn f(a: T) -> T { let b = match a { A => { g(); return 1; } B => { h() } }; b }";
    assert_eq!(
        changes(source),
        ["return `Default::default()` in f", "delete `g();` in f"]
    );
    // Both branches are of type `()`, as the function is.
    let source = "fn f() { if a { g() } else { return; } }";
    assert_eq!(
        changes(source),
        [
            "delete `if a { g() } else { return; }` in f",
            "delete `g()` in f",
            "delete `return;` in f",
        ]
    );
}

#[test]
fn arms_are_deleted_before_one_that_takes_everything() {
    let source =
        "fn f() -> ! { match a { A => g(), B if c => h(), C if let D(e) = i() => e, _ => j() } }";
    assert_eq!(
        changes(source),
        [
            "delete arm `A` in f",
            "replace guard `c` with true in f",
            "replace guard `c` with false in f",
            "replace guard `let D(e) = i()` with false in f",
        ]
    );
    assert_eq!(
        mutated(source),
        "fn f() -> ! { match a { A if !is(1) => g(), B if (is(2) || ((!is(3) && (c)))) => h(), \
         C if !is(4) && let D(e) = i() => e, _ => j() } }"
    );
    // Without such an arm the others have to stay.
    assert_eq!(
        changes("fn f() -> ! { match a { A => g(), B => h() } }"),
        [""; 0]
    );
}

#[test]
fn conditions_beside_let_are_deleted() {
    let source = "fn f() { if let A(b) = c && d(b) && !e { g() } }";
    assert_eq!(
        changes(source),
        [
            "delete `if let A(b) = c && d(b) && !e { g() }` in f",
            "delete condition `d(b)` in f",
            "delete ! in f",
            "delete condition `!e` in f",
            "delete `g()` in f",
        ]
    );
    mutated(source);
}

#[test]
fn fields_are_taken_from_the_other_struct() {
    let source =
        "fn f(a: T) -> ! { g(S { a, b: c(), ..base() }, T { d: 1, ..Default::default() }) }";
    assert_eq!(
        mutated(source),
        "fn f(a: T) -> ! { g(S { a: (if is(1) { (base()).a } else { a }), \
         b: (if is(2) { (base()).b } else { c() }), ..base() }, \
         T { d: (if is(3) { Default::default() } else { 1 }), ..Default::default() }) }"
    );
}

#[test]
fn mutants_of_one_name_are_told_apart() {
    let source = "impl A for B { fn f(&self) -> ! { g(a == b, c == d) } }";
    let found = find("a.rs", source).unwrap();
    let names: Vec<String> = found.iter().map(Mutant::name).collect();
    assert_eq!(
        names,
        [
            "a.rs: replace == with != in <impl A for B>::f",
            "a.rs: replace == with != in <impl A for B>::f (2)",
        ]
    );
    // A result is of the function's text alone.
    let moved = find("a.rs", &format!("use x;\n{source}")).unwrap();
    assert_eq!(moved[1].key(), found[1].key());
    assert_eq!(moved[1].line, found[1].line + 1);
    let other = find("a.rs", &source.replace("c", "e")).unwrap();
    assert_ne!(other[0].key(), found[0].key());
}

#[test]
fn every_source_of_the_controllers_is_rust_with_its_mutants() {
    let root = crate::root();
    let mut all = 0;
    for file in crate::mutants::areas::files(&root).unwrap() {
        let source = std::fs::read_to_string(root.join(&file)).unwrap();
        all += find(&file, &source).unwrap().len();
        mutated(&source);
    }
    assert!(all > 1000, "{all}");
}
