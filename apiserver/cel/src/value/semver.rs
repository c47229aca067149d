//! Semantic versions.

use std::{cmp::Ordering, fmt};

/// A version by the rules of semver 2.0.
#[derive(Clone, Debug)]
pub struct Semver {
    /// Major, minor and patch.
    pub numbers: [u64; 3],
    pre_release: Vec<String>,
    build: String,
}

impl Semver {
    /// Reads a version; errors read as those of the library that upstream uses.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts.as_slice() else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let major = number(major, "major")?;
        let minor = number(minor, "minor")?;
        let (rest, build) = rest
            .split_once('+')
            .map_or((*rest, None), |(r, b)| (r, Some(b)));
        let (patch, pre) = rest
            .split_once('-')
            .map_or((rest, None), |(r, p)| (r, Some(p)));
        let patch = number(patch, "patch")?;
        let mut pre_release = Vec::new();
        for part in pre.into_iter().flat_map(|pre| pre.split('.')) {
            pre_release.push(pre_release_part(part)?);
        }
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_identifier(part) {
                return Err(format!(
                    "Invalid character(s) found in build meta data {part:?}"
                ));
            }
        }
        Ok(Self {
            numbers: [major, minor, patch],
            pre_release,
            build: build.unwrap_or_default().to_owned(),
        })
    }

    /// Reads a version leniently: a leading `v`, missing parts and leading zeros are normalized.
    pub(crate) fn parse_tolerant(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text
            .splitn(3, '.')
            .map(|part| {
                let trimmed = part.trim_start_matches('0');
                if part.len() > 1 && !trimmed.starts_with(|c: char| c.is_ascii_digit()) {
                    format!("0{trimmed}")
                } else if part.len() > 1 {
                    trimmed.to_owned()
                } else {
                    part.to_owned()
                }
            })
            .collect();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".to_owned());
        }
        parts.resize(3, "0".to_owned());
        Self::parse(&parts.join("."))
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let numeric = |text: &str| text.parse::<u64>().ok();
        let by_part = |a: &String, b: &String| match (numeric(a), numeric(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => a.cmp(b),
        };
        self.numbers.cmp(&other.numbers).then_with(|| {
            match (self.pre_release.is_empty(), other.pre_release.is_empty()) {
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                _ => {
                    let pairs = self.pre_release.iter().zip(&other.pre_release);
                    pairs
                        .map(|(a, b)| by_part(a, b))
                        .find(|order| order.is_ne())
                        .unwrap_or_else(|| self.pre_release.len().cmp(&other.pre_release.len()))
                }
            }
        })
    }
}

fn number(text: &str, what: &str) -> Result<u64, String> {
    let title = format!("{}{}", what[..1].to_ascii_uppercase(), &what[1..]);
    if !text.bytes().all(|byte| byte.is_ascii_digit()) || text.is_empty() {
        return Err(format!(
            "Invalid character(s) found in {what} number {text:?}"
        ));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!(
            "{title} number must not contain leading zeroes {text:?}"
        ));
    }
    text.parse()
        .map_err(|_| format!("strconv.ParseUint: parsing {text:?}: value out of range"))
}

fn pre_release_part(part: &str) -> Result<String, String> {
    if part.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    let numeric = part.bytes().all(|byte| byte.is_ascii_digit());
    if numeric && part.len() > 1 && part.starts_with('0') {
        return Err(format!(
            "Numeric PreRelease version must not contain leading zeroes {part:?}"
        ));
    }
    if !is_identifier(part) {
        return Err(format!("Invalid character(s) found in prerelease {part:?}"));
    }
    Ok(part.to_owned())
}

fn is_identifier(part: &str) -> bool {
    part.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        if !self.pre_release.is_empty() {
            write!(f, "-{}", self.pre_release.join("."))?;
        }
        if !self.build.is_empty() {
            write!(f, "+{}", self.build)?;
        }
        Ok(())
    }
}
