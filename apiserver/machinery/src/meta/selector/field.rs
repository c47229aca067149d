//! Field selectors: a conjunction of comparisons of an object's fields.

use std::borrow::Cow;
use std::fmt;

use super::SelectorError;

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// The field's label, such as `metadata.name`.
    pub field: String,
    /// The value compared with.
    pub value: String,
    /// Whether the term requires a different value.
    pub negated: bool,
}

/// A condition on the fields of an object. Printing gives the canonical query form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

impl FieldSelector {
    /// Selects every object.
    #[must_use]
    pub fn everything() -> Self {
        Self::default()
    }

    /// Parses `a=b,c!=d,e==f`; in values `\`, `,` and `=` are escaped by a backslash.
    ///
    /// # Errors
    /// `BadRequest`, in upstream's words.
    pub fn parse(selector: &str) -> Result<Self, SelectorError> {
        let mut parts = split_terms(selector);
        // Upstream works on the sorted terms, which shows in the fault reported first.
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let (field, negated, value) = split_term(part).ok_or_else(|| {
                SelectorError(format!(
                    "invalid selector: '{selector}'; can't understand '{part}'"
                ))
            })?;
            // A term without field and value selects everything.
            let value = unescape(value)?;
            if !field.is_empty() || !value.is_empty() {
                terms.push(FieldTerm {
                    field: field.to_owned(),
                    value,
                    negated,
                });
            }
        }
        Ok(Self { terms })
    }

    /// Whether every object is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// The comparisons, in the order in which upstream converts their fields.
    #[must_use]
    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// The fields used, each as often as it is used; the caller refuses unknown fields.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().map(|term| term.field.as_str())
    }

    /// The value that the selector requires of `field`, if any.
    #[must_use]
    pub fn requires_exact_match(&self, field: &str) -> Option<&str> {
        let mut terms = self.terms.iter();
        terms
            .find(|term| term.field == field && !term.negated)
            .map(|term| term.value.as_str())
    }

    /// Whether an object is selected whose fields `value` reads; an absent field is empty.
    pub fn matches<'a>(&self, value: impl Fn(&str) -> Cow<'a, str>) -> bool {
        self.terms.iter().all(|term| {
            let equal = value(&term.field) == term.value;
            equal != term.negated
        })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let operator = if term.negated { "!=" } else { "=" };
            write!(f, "{comma}{}{operator}{}", term.field, escape(&term.value))?;
        }
        Ok(())
    }
}

fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Splits at commas that no backslash precedes.
fn split_terms(selector: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (index, c) in selector.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&selector[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&selector[start..]);
    terms
}

/// Field, whether negated, raw value; split at the first operator.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    term.char_indices().find_map(|(index, _)| {
        let (field, rest) = term.split_at(index);
        let operators = [("!=", true), ("==", false), ("=", false)];
        operators.into_iter().find_map(|(operator, negated)| {
            rest.strip_prefix(operator)
                .map(|value| (field, negated, value))
        })
    })
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let invalid = |what: String| SelectorError(format!("invalid field selector: {what}"));
    let mut text = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => text.push(c),
                Some(c) => return Err(invalid(format!("invalid escape sequence: \\{c}"))),
                None => return Err(invalid("invalid escape sequence: \\".to_owned())),
            },
            // Upstream prints the number of the character.
            ',' | '=' => {
                let number = u32::from(c);
                return Err(invalid(format!("unescaped character in value: {number}")));
            }
            _ => text.push(c),
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_selector_matches_and_what_not() {
        let value = |field: &str| -> Cow<'_, str> {
            match field {
                "metadata.name" => "a".into(),
                "odd" => "x=y,\\z".into(),
                _ => "".into(),
            }
        };
        let cases: &[(&str, bool)] = &[
            ("", true),
            (",,", true),
            ("metadata.name=a", true),
            ("metadata.name==a", true),
            ("metadata.name=b", false),
            ("metadata.name!=a", false),
            ("metadata.name!=b", true),
            ("metadata.name=a,metadata.name=b", false),
            ("absent=", true),
            ("absent!=", false),
            (r"odd=x\=y\,\\z", true),
            (r"odd=x\=y", false),
        ];
        for (text, expected) in cases {
            let selector = FieldSelector::parse(text).unwrap();
            assert_eq!(selector.matches(value), *expected, "{text}");
        }
    }

    #[test]
    fn malformed_selectors_are_refused_in_upstreams_words() {
        let cases = [
            (
                "metadata.name",
                "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
            ),
            (
                "b=1,metadata.name in (a)",
                "invalid selector: 'b=1,metadata.name in (a)'; can't understand 'metadata.name in (a)'",
            ),
            (
                r"metadata.name=a\x",
                r"invalid field selector: invalid escape sequence: \x",
            ),
            (
                "a=b\\",
                "invalid field selector: invalid escape sequence: \\",
            ),
            (
                "a=b=c",
                "invalid field selector: unescaped character in value: 61",
            ),
        ];
        for (text, message) in cases {
            let error = FieldSelector::parse(text).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn fields_are_listed_and_exact_values_found() {
        let selector = FieldSelector::parse("c!=d,a==b,=x").unwrap();
        assert_eq!(selector.fields().collect::<Vec<_>>(), ["", "a", "c"]);
        assert_eq!(selector.requires_exact_match("a"), Some("b"));
        assert_eq!(selector.requires_exact_match("c"), None);
        assert_eq!(selector.to_string(), "=x,a=b,c!=d");
        let odd = FieldSelector::parse(r"a=\,\=\\").unwrap();
        assert_eq!(FieldSelector::parse(&odd.to_string()).unwrap(), odd);
    }
}
