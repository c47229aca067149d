//! Errors of the YAML parser, for people.

/// Returns the message of the parser with its excerpt of the text, and says everything once: the excerpt repeats the
/// message and has no name for the file.
pub(super) fn in_words(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let head = text.lines().next().unwrap_or_default();
    let message = head.split_once(": ").map_or(head, |(_, message)| message);
    let lines = text
        .lines()
        .filter(|line| !line.starts_with(" --> <input>"))
        .map(|line| match line.strip_suffix(message) {
            Some(excerpt) if excerpt.trim_end().ends_with('^') => excerpt.trim_end(),
            _ => line,
        });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::Value;

    use super::*;

    #[test]
    fn an_error_says_its_message_once() {
        let error = serde_saphyr::from_str::<Value>("a: 1\nb: [1\nc: 2\n").unwrap_err();
        let text = in_words(&error);
        let (place, message) = text.lines().next().unwrap().split_once(": ").unwrap();
        assert!(place.starts_with("line 3 column "), "{text}");
        assert_eq!(text.matches(message).count(), 1, "{text}");
        assert!(!text.contains("<input>"), "{text}");
        assert!(
            text.lines().any(|line| line.trim_end().ends_with('^')),
            "{text}"
        );
    }
}
