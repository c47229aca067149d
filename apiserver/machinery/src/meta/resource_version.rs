//! Resource versions: the order of all writes to a storage.

use std::fmt;
use std::num::{IntErrorKind, ParseIntError};
use std::str::FromStr;

use crate::status::quoted;
use serde::{Deserialize, Serialize};

/// A `resourceVersion`: the number of a write to the storage, counted over all resources.
///
/// Clients compare versions for equality alone; the server orders by them. Serialized, it is the number.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash,
)]
#[serde(transparent)]
pub struct ResourceVersion(u64);

impl ResourceVersion {
    /// The version before every write. In a request it stands for any version.
    pub const ZERO: Self = Self(0);
    /// A version that no write reaches.
    pub const MAX: Self = Self(u64::MAX);

    /// The version of the write with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number of the write.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The version this many writes later, at most [`Self::MAX`].
    #[must_use]
    pub fn after(self, writes: u64) -> Self {
        Self(self.0.saturating_add(writes))
    }

    /// The version this many writes before; [`Self::ZERO`] if there were fewer.
    #[must_use]
    pub fn before(self, writes: u64) -> Self {
        Self(self.0.saturating_sub(writes))
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text that is no version. The message is that of Go's `strconv.ParseUint`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strconv.ParseUint: parsing {}: {}", quoted(text), match kind {
    IntErrorKind::PosOverflow => "value out of range",
    _ => "invalid syntax",
})]
pub struct ParseResourceVersionError {
    text: String,
    kind: IntErrorKind,
}

impl FromStr for ResourceVersion {
    type Err = ParseResourceVersionError;

    fn from_str(text: &str) -> Result<Self, ParseResourceVersionError> {
        // Go takes no sign, Rust's parser a plus.
        let number = text.strip_prefix('+').map_or(text, |_| "+").parse();
        number
            .map(Self)
            .map_err(|error: ParseIntError| ParseResourceVersionError {
                text: text.to_owned(),
                kind: *error.kind(),
            })
    }
}

/// The `resourceVersion` of a get, list or watch.
///
/// Source: API concepts, "Resource versions in requests".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedVersion {
    /// Unset: the most recent state.
    MostRecent,
    /// `"0"`: any state, however old.
    Any,
    /// A state that is at least as new as this version, or exactly this one, as the match rule says.
    At(ResourceVersion),
}

impl RequestedVersion {
    /// The least version that satisfies the request, unless the match is exact.
    pub fn not_older_than(self) -> ResourceVersion {
        match self {
            Self::MostRecent | Self::Any => ResourceVersion::ZERO,
            Self::At(rv) => rv,
        }
    }
}

impl FromStr for RequestedVersion {
    type Err = ParseResourceVersionError;

    fn from_str(text: &str) -> Result<Self, ParseResourceVersionError> {
        if text.is_empty() {
            return Ok(Self::MostRecent);
        }
        Ok(match text.parse()? {
            ResourceVersion::ZERO => Self::Any,
            rv => Self::At(rv),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requested_version_is_the_most_recent_any_or_a_number() {
        let parse = |text: &str| text.parse::<RequestedVersion>();
        let rv = ResourceVersion::new(7);
        assert_eq!(parse(""), Ok(RequestedVersion::MostRecent));
        assert_eq!(parse("0"), Ok(RequestedVersion::Any));
        assert_eq!(parse("7"), Ok(RequestedVersion::At(rv)));
        assert_eq!(parse("7").map(RequestedVersion::not_older_than), Ok(rv));
        for (text, why) in [
            ("a", "strconv.ParseUint: parsing \"a\": invalid syntax"),
            ("-1", "strconv.ParseUint: parsing \"-1\": invalid syntax"),
            ("+1", "strconv.ParseUint: parsing \"+1\": invalid syntax"),
            (
                "18446744073709551616",
                "strconv.ParseUint: parsing \"18446744073709551616\": value out of range",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), why);
        }
    }
}
