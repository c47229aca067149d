//! Names that do not exist: errors that say which ones do.

/// The similarity, of 1, from which a name is suggested for another.
const ALIKE: f32 = 0.6;
/// The maximum number of names that an error lists.
const LISTED_MAX: usize = 40;

/// Returns the message `there is no KIND "WORD"; did you mean …? there are: …`.
pub(super) fn unknown<'a>(
    kind: &str,
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> String {
    let mut known: Vec<&str> = known.into_iter().collect();
    known.dedup();
    let meant = closest(word, &known, 1);
    let meant = meant.first().map(|one| format!("did you mean {one:?}? "));
    let meant = meant.unwrap_or_default();
    let more = match known.len().saturating_sub(LISTED_MAX) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    known.truncate(LISTED_MAX);
    match known.as_slice() {
        [] => format!("there is no {kind} {word:?}, nor any other"),
        known => format!(
            "there is no {kind} {word:?}; {meant}there are: {}{more}",
            known.join(", ")
        ),
    }
}

/// The names most like `word`, at most `max`, best first.
pub(super) fn closest<'a>(word: &str, known: &[&'a str], max: usize) -> Vec<&'a str> {
    similar::get_close_matches(word, known, max, ALIKE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_reported_with_the_one_that_was_meant_and_all_others() {
        let message = unknown("fruit", "aple", ["apple", "pear"]);
        assert_eq!(
            message,
            "there is no fruit \"aple\"; did you mean \"apple\"? there are: apple, pear"
        );
        assert_eq!(
            unknown("fruit", "stone", ["apple", "pear"]),
            "there is no fruit \"stone\"; there are: apple, pear"
        );
        assert_eq!(
            unknown("fruit", "a", []),
            "there is no fruit \"a\", nor any other"
        );
        let many: Vec<String> = (0..50).map(|number| format!("n{number}")).collect();
        let message = unknown("number", "x", many.iter().map(String::as_str));
        assert!(message.ends_with("n39, and 10 more"), "{message}");
    }
}
