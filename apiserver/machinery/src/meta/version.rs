//! Versions of APIs, in the order that discovery prefers.

use std::cmp::Ordering;

/// Compares versions as discovery prefers them: stable before beta before alpha, later before
/// earlier, and other names last, in alphabetical order.
pub fn compare(left: &str, right: &str) -> Ordering {
    match (Stability::parse(left), Stability::parse(right)) {
        (Some(left), Some(right)) => right.cmp(&left),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => left.cmp(right),
    }
}

/// A version such as `v2beta1`: how stable it is (alpha, beta, stable), its major and minor number.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Stability(u8, u64, u64);

impl Stability {
    fn parse(version: &str) -> Option<Self> {
        let rest = version.strip_prefix('v')?;
        let end = rest.find(|letter: char| !letter.is_ascii_digit());
        let (major, rest) = rest.split_at(end.unwrap_or(rest.len()));
        let number = |text: &str| text.parse().ok().filter(|_| !text.starts_with('0'));
        let major = number(major)?;
        Some(match rest {
            "" => Self(2, major, 0),
            _ => match (rest.strip_prefix("alpha"), rest.strip_prefix("beta")) {
                (Some(minor), _) => Self(0, major, number(minor)?),
                (_, Some(minor)) => Self(1, major, number(minor)?),
                (None, None) => return None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_and_late_versions_come_first() {
        let mut versions = [
            "foo10", "v1alpha1", "v11beta2", "foo1", "v1", "v10", "v2", "v3beta1",
        ];
        versions.sort_by(|left, right| compare(left, right));
        assert_eq!(
            versions,
            [
                "v10", "v2", "v1", "v11beta2", "v3beta1", "v1alpha1", "foo1", "foo10"
            ]
        );
    }
}
