use super::*;

fn matches(pattern: &str, value: &str) -> bool {
    let regexp = Regexp::compile(pattern).unwrap_or_else(|fault| panic!("{pattern}: {fault}"));
    regexp.is_match(value)
}

#[test]
fn expressions_mean_what_go_means_by_them() {
    for (pattern, matching, other) in [
        (r"^\d+$", "12", "٣"),
        (r"^[\w.]+$", "a.b", "é"),
        ("^[[a]+$", "[a[", "b"),
        ("^[]a]+$", "]a", "b"),
        ("^[a&&b]+$", "a&b", "c"),
        ("^[[:alpha:]]+$", "ab", "é"),
        ("^[[:^alpha:]]+$", "1é", "a"),
        (r"^\Qa.b\E$", "a.b", "axb"),
        ("b", "abc", "ac"),
        (r"^\pL+$", "aé語", "a1"),
        (r"^\p{Han}+$", "語", "a"),
        (r"^\p{^L}+$", "12", "a"),
        (r"^[\PL]+$", "12", "a"),
        (r"^[a\p{S}]+$", "a+", "b"),
        (r"^[\pL-z]+$", "a-z", "1"),
        (r"^\x{1F600}\x41$", "😀A", "A"),
        (r"^\010\101$", "\u{8}A", "010101"),
        (r"^(?i)k$", "\u{212a}", "j"),
        (r"^(?i:a)b$", "Ab", "AB"),
        ("^(?:(?i)a)b$", "Ab", "AB"),
        (r"(?i)^[^k]$", "a", "K"),
        (r"(?i)^\W$", "é", "ſ"),
        ("^.$", "é", "\n"),
        ("(?s)^.$", "\n", ""),
        ("(?m)^b$", "a\nb", "ab"),
        ("a$", "a", "a\n"),
        (r"\bé", "aé", "é"),
        (r"\Bé", "é", "aé"),
        ("^(?:a|b)c|(d)$", "bc", "d."),
        ("^(ab){2,}?$", "abab", "ab"),
        ("^a{,2}$", "a{,2}", "aa"),
        ("^(?<n>a)(?<n>b)(?)$", "ab", "a"),
        (r"^[^\x{0}-\x{10FFFF}]?$", "", "a"),
        (r"^\x{D800}?$", "", "a"),
        ("^(?:)*$", "", "a"),
        ("^(^|a)*$", "a", "b"),
    ] {
        assert!(matches(pattern, matching), "{pattern} matches {matching:?}");
        assert!(
            !matches(pattern, other),
            "{pattern} does not match {other:?}"
        );
    }
}

#[test]
fn large_and_deep_expressions_are_compiled() {
    let letters = r"^(\pL{1,100}){1,10}$";
    assert!(matches!(Regexp::compile(letters), Ok(Regexp::Compact(_))));
    assert!(matches(letters, &"é".repeat(1000)) && !matches(letters, &"é".repeat(1001)));
    let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(matches(&nested(200), "a"));
    let starred = format!("^{}a{}$", "(".repeat(240), ")*b".repeat(240));
    assert!(matches(&starred, &"b".repeat(3)) && !matches(&starred, "c"));
    let without_captures = format!("{}a{}", "(?:".repeat(20_000), "b)".repeat(20_000));
    assert!(!matches(&without_captures, "ab"));
    let to_the_right = format!("{}a{}", "(?:b".repeat(20_000), ")".repeat(20_000));
    assert_eq!(go_regexp_fault(&to_the_right), None);
}

#[test]
fn parts_that_match_are_found_in_order() {
    let regexp = Regexp::compile("a(?:b|c)").expect("well-formed");
    assert_eq!(regexp.find("ab ac ab", 2), ["ab", "ac"]);
    let lazy = Regexp::compile("(?U)a+").expect("well-formed");
    assert_eq!(lazy.find("aaa", usize::MAX), ["a", "a", "a"]);
}

#[test]
fn faults_are_those_of_go() {
    let deep = format!("{}a{}", "(".repeat(1001), ")".repeat(1001));
    let long = format!(
        "(?:{}){{1000}}{}",
        "a*".repeat(1000),
        "(?:a{1000})".repeat(3000)
    );
    for (text, want) in [
        ("(?<=x)a(", "invalid named capture: `(?<=x)a(`"),
        ("(?<a-b>x)", "invalid named capture: `(?<a-b>`"),
        ("(?P<>x)", "invalid named capture: `(?P<>`"),
        ("(?=x)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?-:a)", "invalid or unsupported Perl syntax: `(?-:`"),
        ("(?i-)", "invalid or unsupported Perl syntax: `(?i-)`"),
        ("(?", "invalid or unsupported Perl syntax: `(?`"),
        ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
        ("(?P=n)", "invalid or unsupported Perl syntax: `(?P`"),
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("b[]", "missing closing ]: `[]`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        (r"[a-\d]", r"invalid escape sequence: `\d`"),
        (r"[\Qa]", r"invalid escape sequence: `\Q`"),
        (
            r"\p{Old_Italic}",
            r"invalid character class range: `\p{Old_Italic}`",
        ),
        (r"\p{Latn}", r"invalid character class range: `\p{Latn}`"),
        (r"\p", r"invalid character class range: `\p`"),
        (r"a\p{L", r"invalid character class range: `\p{L`"),
        (r"\pé", r"invalid character class range: `\pé`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a|*?", "missing argument to repetition operator: `*?`"),
        ("({2})", "missing argument to repetition operator: `{2}`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a*?{2}?", "invalid nested repetition operator: `*?{2}?`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        (r"\y", r"invalid escape sequence: `\y`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        (r"\8", r"invalid escape sequence: `\8`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        (r"\xg", r"invalid escape sequence: `\xg`"),
        (r"\x{}", r"invalid escape sequence: `\x{}`"),
        (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{2,1}?", "invalid repeat count: `{2,1}`"),
        ("(a{100}){100}", "invalid repeat count: `{100}`"),
        ("(?:a{2,}){501}?", "invalid repeat count: `{501}?`"),
        (&deep, &format!("expression nests too deeply: `{deep}`")),
        (&long, &format!("expression too large: `{long}`")),
    ] {
        let want = format!("error parsing regexp: {want}");
        assert_eq!(go_regexp_fault(text), Some(want), "{text}");
    }
    for text in [
        "",
        "^[a-z]+$",
        "a{,2}",
        "a{01}",
        "a{2",
        r"^\d+(\.\d+)?$",
        "a+?",
        "(a{0}){1000}",
    ] {
        assert_eq!(go_regexp_fault(text), None, "{text}");
    }
}
