//! `Warning` headers, as RFC 7234 words them.

use std::collections::BTreeSet;

use http::HeaderValue;

/// Letters that all warnings of an answer may have; beyond it each is cut.
const LETTERS_MAX: usize = 4096;

/// Letters that a cut warning keeps.
const LETTERS_KEPT: usize = 256;

/// The headers for `warnings`: each text once, those with control characters not at all.
pub(crate) fn headers(warnings: &[String]) -> Vec<HeaderValue> {
    let mut seen = BTreeSet::new();
    let texts: Vec<&str> = warnings
        .iter()
        .map(String::as_str)
        .filter(|text| !text.is_empty() && !text.contains(char::is_control))
        .filter(|text| seen.insert(*text))
        .collect();
    let letters: usize = texts.iter().map(|text| text.chars().count()).sum();
    if letters <= LETTERS_MAX {
        return texts.into_iter().filter_map(header).collect();
    }
    let mut written = 0;
    let mut headers = Vec::new();
    for text in texts {
        if written >= LETTERS_MAX {
            break;
        }
        let kept: String = text.chars().take(LETTERS_KEPT).collect();
        written += kept.chars().count();
        headers.extend(header(&kept));
    }
    headers
}

fn header(text: &str) -> Option<HeaderValue> {
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()).ok()
}

/// The text of a `Warning` header, `299 - "text"`. `None` for a header of another form.
#[must_use]
pub fn text(header: &HeaderValue) -> Option<String> {
    let header = std::str::from_utf8(header.as_bytes()).ok()?;
    let (_, quoted) = header.split_once('"')?;
    let mut letters = quoted.strip_suffix('"')?.chars();
    let mut text = String::new();
    while let Some(letter) = letters.next() {
        text.push(match letter {
            '\\' => letters.next()?,
            letter => letter,
        });
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(warnings: &[&str]) -> Vec<String> {
        let warnings: Vec<String> = warnings.iter().map(|text| (*text).to_owned()).collect();
        let headers = headers(&warnings);
        let text = |header: &HeaderValue| String::from_utf8(header.as_bytes().to_vec()).unwrap();
        headers.iter().map(text).collect()
    }

    #[test]
    fn a_warning_is_quoted_and_said_once() {
        let found = texts(&["a \"b\" \\", "é", "a \"b\" \\", "", "line\nbreak"]);
        assert_eq!(found, [r#"299 - "a \"b\" \\""#, "299 - \"é\""]);
        let read = headers(&["a \"b\" \\".to_owned()]);
        assert_eq!(super::text(&read[0]).unwrap(), "a \"b\" \\");
    }

    #[test]
    fn many_letters_of_warnings_are_cut() {
        let long: Vec<String> = (10..40)
            .map(|index| format!("{index}{}", "x".repeat(298)))
            .collect();
        let long: Vec<&str> = long.iter().map(String::as_str).collect();
        assert_eq!(texts(&long[..13]).len(), 13);
        let cut = texts(&long);
        assert_eq!(cut.len(), 16);
        assert!(
            cut.iter()
                .all(|text| text.len() == 256 + "299 - \"\"".len())
        );
    }
}
