//! Images that no registry has.

use std::sync::Arc;

use serde::Deserialize;

/// Patterns of references to images that no registry has; `*` stands for any text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct MissingImages(Arc<[String]>);

/// An error for text that is not a pattern of references to images.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("image pattern {0:?}: expected a reference to an image, in which * stands for any text")]
pub struct BadImagePattern(String);

impl MissingImages {
    /// Treats images as missing whose references match one of the patterns: as a container has the reference, or with
    /// its registry, repository and tag (`docker.io/library/web:latest`).
    ///
    /// # Errors
    /// [`BadImagePattern`] for the first pattern that no reference can match.
    pub fn try_new(patterns: Vec<String>) -> Result<Self, BadImagePattern> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-/:@*".contains(c);
        match patterns
            .iter()
            .find(|pattern| pattern.is_empty() || !pattern.chars().all(fits))
        {
            Some(bad) => Err(BadImagePattern(bad.clone())),
            None => Ok(Self(patterns.into())),
        }
    }

    /// Returns the patterns.
    #[must_use]
    pub fn patterns(&self) -> &[String] {
        &self.0
    }

    /// Returns whether one of the `references` to one image matches.
    pub(super) fn has(&self, references: [&str; 2]) -> bool {
        let mut patterns = self.0.iter();
        patterns.any(|pattern| {
            references
                .iter()
                .any(|reference| is_match(pattern, reference))
        })
    }
}

impl TryFrom<Vec<String>> for MissingImages {
    type Error = BadImagePattern;

    fn try_from(patterns: Vec<String>) -> Result<Self, BadImagePattern> {
        Self::try_new(patterns)
    }
}

fn is_match(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(start) else {
        return false;
    };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return text.ends_with(part);
        }
        let Some(at) = text.find(part) else {
            return false;
        };
        text = &text[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, reference, expected) in [
            ("web:404", "web:404", true),
            ("web:404", "web:4041", false),
            ("*:404", "docker.io/library/web:404", true),
            ("web:*", "web:404", true),
            ("web:*", "my/web:404", false),
            ("*/web:*4", "a.io/b/web:404", true),
            ("*/web:*5", "a.io/b/web:404", false),
            ("a*a", "a", false),
            ("a**b*", "ab", true),
            ("*", "anything", true),
        ] {
            let missing = MissingImages::try_new(vec![pattern.to_owned()]).unwrap();
            assert_eq!(
                missing.has([reference, ""]),
                expected,
                "{pattern} {reference}"
            );
            assert_eq!(missing.has(["x", reference]), expected || pattern == "*");
        }
    }

    #[test]
    fn a_pattern_that_nothing_matches_is_refused() {
        for pattern in ["", "web 404", "web:[0-9]"] {
            let wrong = MissingImages::try_new(vec!["a".to_owned(), pattern.to_owned()]);
            assert_eq!(wrong, Err(BadImagePattern(pattern.to_owned())));
        }
    }
}
