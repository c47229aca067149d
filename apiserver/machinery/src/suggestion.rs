//! Names that do not exist: errors that say which one was probably meant.

/// The least similarity of two names, from 0 to 1, at which one is suggested for the other.
const ALIKE: f32 = 0.6;

/// `NO "WORD"; did you mean …? there are: …`.
pub fn unknown<'a>(no: &str, word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let meant = similar::get_close_matches(word, &known, 1, ALIKE);
    let meant = meant.first().map(|one| format!("did you mean {one:?}? "));
    let (meant, known) = (meant.unwrap_or_default(), known.join(", "));
    match known.is_empty() {
        true => format!("{no} {word:?}, nor any other"),
        false => format!("{no} {word:?}; {meant}there are: {known}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_reported_with_the_one_that_was_meant_and_all_others() {
        let message = |word| unknown("there is no fruit", word, ["apple", "pear"]);
        let all = "there are: apple, pear";
        assert_eq!(
            message("aple"),
            format!("there is no fruit \"aple\"; did you mean \"apple\"? {all}")
        );
        assert_eq!(
            message("stone"),
            format!("there is no fruit \"stone\"; {all}")
        );
        assert_eq!(unknown("no", "a", []), "no \"a\", nor any other");
    }
}
