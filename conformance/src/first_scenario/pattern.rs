//! Texts that match a pattern.

use regex_syntax::hir::{Class, Hir, HirKind};

/// The number of texts that are made.
const TEXTS: usize = 3;
/// More repetitions than this are not tried.
const REPETITIONS_MAX: u32 = 64;

/// Returns some texts that match `pattern`, with as few repetitions as there may be or some more; none for a pattern that is
/// not understood.
pub(super) fn matching(pattern: &str) -> Vec<String> {
    // In ASCII, of which the tables of Unicode are no part.
    let mut parser = regex_syntax::ParserBuilder::new();
    let Ok(hir) = parser.unicode(false).utf8(false).build().parse(pattern) else {
        return Vec::new();
    };
    let mut texts = Vec::new();
    for variant in 0..TEXTS {
        let mut text = String::new();
        if write(&hir, variant, &mut text) && !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

/// Appends a text that matches; returns false if no text does.
fn write(hir: &Hir, variant: usize, text: &mut String) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => true,
        HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
            Ok(literal) => {
                text.push_str(literal);
                true
            }
            Err(_) => false,
        },
        HirKind::Class(class) => match letter(class, variant) {
            Some(letter) => {
                text.push(letter);
                true
            }
            None => false,
        },
        HirKind::Repetition(repetition) => {
            let more = u32::try_from(variant).unwrap_or(0);
            let wanted = repetition.min.saturating_add(more).max(1);
            let times = wanted
                .min(repetition.max.unwrap_or(u32::MAX))
                .min(REPETITIONS_MAX);
            times >= repetition.min && (0..times).all(|_| write(&repetition.sub, variant, text))
        }
        HirKind::Capture(capture) => write(&capture.sub, variant, text),
        HirKind::Concat(parts) => parts.iter().all(|part| write(part, variant, text)),
        HirKind::Alternation(parts) => write(&parts[variant % parts.len()], variant, text),
    }
}

/// Returns a character of the class: an ASCII letter or digit if the class has any.
fn letter(class: &Class, variant: usize) -> Option<char> {
    let ranges: Vec<(char, char)> = match class {
        Class::Unicode(class) => class
            .ranges()
            .iter()
            .map(|range| (range.start(), range.end()))
            .collect(),
        Class::Bytes(class) => {
            let ranges = class.ranges().iter();
            ranges
                .map(|range| (char::from(range.start()), char::from(range.end())))
                .collect()
        }
    };
    let has = |letter: &char| {
        ranges
            .iter()
            .any(|(start, end)| (start..=end).contains(&letter))
    };
    let preferred = ('a'..='z').chain('1'..='9').chain('A'..='Z').chain(['0']);
    let preferred: Vec<char> = preferred.filter(has).collect();
    match preferred.is_empty() {
        true => ranges.first().map(|(start, _)| *start),
        false => Some(preferred[variant % preferred.len()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_match_their_pattern() {
        for pattern in [
            r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
            r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE])?$",
            r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$",
            r"^https?://.+$",
            r"^v\d+$",
            r"^.{3,5}$",
        ] {
            let regex = regex::Regex::new(pattern).unwrap();
            let texts = matching(pattern);
            assert!(texts.len() > 1, "{pattern}: {texts:?}");
            assert!(
                texts.iter().all(|text| regex.is_match(text)),
                "{pattern}: {texts:?}"
            );
        }
        assert_eq!(matching("^only$"), ["only"]);
        assert_eq!(matching("("), [""; 0]);
    }
}
