//! Text in JSON as Go's encoder writes it.

use std::borrow::Cow;

use super::Value;

/// Whether a byte is, or begins, a character that Go escapes in addition to those that JSON
/// requires: `<`, `>`, `&` and the line separators of Unicode.
pub(crate) const fn may_need_escape(byte: u8) -> bool {
    matches!(byte, b'<' | b'>' | b'&' | 0xe2)
}

/// Escapes JSON, or a part of a string in JSON, as Go's encoder does.
pub fn html_escape(json: &str) -> Cow<'_, str> {
    // Without an early end in each chunk, many bytes are compared at a time.
    let may_need = |chunk: &[u8]| {
        let bytes = chunk.iter().copied();
        bytes.fold(false, |found, byte| found | may_need_escape(byte))
    };
    if !json.as_bytes().chunks(256).any(may_need) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for letter in json.chars() {
        match letter {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            _ => escaped.push(letter),
        }
    }
    Cow::Owned(escaped)
}

/// A text as a JSON string of Go's encoder.
pub fn encoded_string(text: &str) -> String {
    html_escape(&Value::from(text).to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_html_or_end_a_line_is_escaped() {
        let escapes = r#"{"\u003ck\u003e":"\u0026\u2028\u2029"}"#;
        assert_eq!(html_escape("{\"<k>\":\"&\u{2028}\u{2029}\"}"), escapes);
        assert_eq!(html_escape(escapes), escapes);
        assert!(matches!(html_escape("é\u{7f}"), Cow::Borrowed(_)));
        assert_eq!(html_escape("\u{20ac}"), "\u{20ac}");
        assert_eq!(encoded_string("<\u{1}\""), r#""\u003c\u0001\"""#);
    }
}
