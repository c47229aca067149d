//! Values of flags whose usual errors do not say what is expected.

use std::num::{IntErrorKind, NonZeroUsize, ParseIntError};
use std::str::FromStr;

use jiff::Timestamp;
use kubeproof_node::MissingImages;

/// Reads a whole number that is not negative.
///
/// # Errors
/// Says what is expected.
pub(super) fn number<N: FromStr<Err = ParseIntError>>(text: &str) -> Result<N, String> {
    text.parse().map_err(|error| wanted(&error, 0))
}

/// Reads a number of things of which there is at least one.
///
/// # Errors
/// Says what is expected.
pub(super) fn count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|error| wanted(&error, 1))
}

fn wanted(error: &ParseIntError, least: u8) -> String {
    match error.kind() {
        IntErrorKind::PosOverflow => "the number is too large".to_owned(),
        _ => format!("expected a whole number, {least} or more"),
    }
}

/// Reads a time.
///
/// # Errors
/// Says what is expected.
pub(super) fn time(text: &str) -> Result<Timestamp, String> {
    let time = text.parse();
    time.map_err(|_| "expected a time, such as 2026-05-06T07:08:09Z".to_owned())
}

/// Reads a pattern of images that no registry has.
///
/// # Errors
/// Says what is expected.
pub(super) fn image_pattern(text: &str) -> Result<String, String> {
    let pattern = text.to_owned();
    let read = MissingImages::try_new(vec![pattern.clone()]);
    read.map(|_| pattern).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_or_their_errors_say_what_is_expected() {
        assert_eq!(number::<u64>("0"), Ok(0));
        assert_eq!(count("2").map(NonZeroUsize::get), Ok(2));
        assert!(time("2026-05-06T07:08:09Z").is_ok());
        assert_eq!(image_pattern("web:*").as_deref(), Ok("web:*"));
        for (error, wanted) in [
            (number::<usize>("-1").unwrap_err(), "0 or more"),
            (number::<u64>("x").unwrap_err(), "0 or more"),
            (count("0").unwrap_err(), "1 or more"),
            (time("5").unwrap_err(), "such as 2026-05-06T07:08:09Z"),
            (
                image_pattern("a b").unwrap_err(),
                "a reference to an image, in which * stands for any text",
            ),
        ] {
            assert!(error.ends_with(wanted), "{error}");
        }
    }
}
