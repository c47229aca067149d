//! The policy in the labels of a namespace.

use std::fmt;

use super::checks;
use crate::json::Value;
use crate::status::{FieldErrors, FieldPath};

/// The newest version that has checks of its own.
const NEWEST: u32 = 35;

/// The faults of other levels and versions.
pub(super) const LEVELS: &str = "must be one of privileged, baseline, restricted";
pub(super) const VERSIONS: &str = "must be \"latest\" or \"v1.x\"";

/// A level of the Pod Security Standards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    #[default]
    Privileged,
    Baseline,
    Restricted,
}

/// A level as of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standard {
    pub(super) level: Level,
    /// The minor version; `None` is the latest.
    pub(super) minor: Option<u32>,
}

/// The standards of a namespace: for refusals, audit annotations and warnings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(super) enforce: Standard,
    pub(super) audit: Standard,
    pub(super) warn: Standard,
}

/// The breaches of a standard by a pod; never empty.
#[derive(Debug)]
pub(super) struct Violations(Vec<checks::Violation>);

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.minor {
            None => write!(f, "{level}:latest"),
            Some(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

impl Standard {
    /// The breaches of this standard by a pod; `None` where the pod complies.
    pub(super) fn violations(&self, metadata: &Value, spec: &Value) -> Option<Violations> {
        if self.level == Level::Privileged {
            return None;
        }
        let minor = self.minor.unwrap_or(NEWEST).min(NEWEST);
        let restricted = self.level == Level::Restricted;
        let found = checks::run(metadata, spec, minor, restricted);
        (!found.is_empty()).then_some(Violations(found))
    }
}

impl Violations {
    pub(super) fn reasons(&self) -> String {
        let reasons: Vec<&str> = self.0.iter().map(|own| own.reason.as_str()).collect();
        reasons.join(", ")
    }

    pub(super) fn details(&self) -> String {
        let details = self.0.iter().map(|own| match own.detail.as_str() {
            "" => own.reason.clone(),
            detail => format!("{} ({detail})", own.reason),
        });
        details.collect::<Vec<_>>().join(", ")
    }
}

impl Policy {
    /// The policy of labels, and which of them can't be read. Those count as the strictest.
    pub(super) fn of(labels: &Value, defaults: &Self) -> (Self, FieldErrors) {
        let mut errors = FieldErrors::new();
        let Self {
            mut enforce,
            mut audit,
            mut warn,
        } = defaults.clone();
        let mut has = [false; 3];
        let standards = [&mut enforce, &mut audit, &mut warn];
        for (index, (standard, mode)) in standards
            .into_iter()
            .zip(["enforce", "audit", "warn"])
            .enumerate()
        {
            let label = format!("pod-security.kubernetes.io/{mode}");
            if let Some(text) = labels[&label].as_str() {
                let level = level(text);
                has[index] = level.is_some() || mode != "enforce";
                if level.is_none() {
                    let path = FieldPath::new("metadata.labels").key(&label);
                    errors.invalid(&path, &text.into(), LEVELS);
                }
                // What only informs fails open.
                standard.level = level.unwrap_or(match mode {
                    "enforce" => Level::Restricted,
                    _ => Level::Privileged,
                });
            }
            let label = format!("{label}-version");
            if let Some(text) = labels[&label].as_str() {
                let minor = minor(text);
                if minor.is_none() {
                    let path = FieldPath::new("metadata.labels").key(&label);
                    errors.invalid(&path, &text.into(), VERSIONS);
                }
                standard.minor = minor.flatten();
            }
        }
        let [has_enforce, _, has_warn] = has;
        if !has_warn && has_enforce && enforce.level > warn.level {
            warn.level = enforce.level;
            if labels["pod-security.kubernetes.io/warn-version"].is_null() {
                warn.minor = enforce.minor;
            }
        }
        let policy = Self {
            enforce,
            audit,
            warn,
        };
        (policy, errors)
    }

    /// Whether all three standards are privileged: no refusal, no audit annotation, no warning.
    pub(super) fn is_privileged(&self) -> bool {
        [&self.enforce, &self.audit, &self.warn]
            .into_iter()
            .all(|own| own.level == Level::Privileged)
    }
}

pub(super) fn level(text: &str) -> Option<Level> {
    match text {
        "privileged" => Some(Level::Privileged),
        "baseline" => Some(Level::Baseline),
        "restricted" => Some(Level::Restricted),
        _ => None,
    }
}

/// A minor version, or the latest; `None` for any other text.
pub(super) fn minor(text: &str) -> Option<Option<u32>> {
    if text == "latest" {
        return Some(None);
    }
    let digits = text.strip_prefix("v1.")?;
    let is_plain = digits == "0" || !digits.starts_with('0');
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_plain && all_digits)
        .then(|| digits.parse().ok())?
        .map(Some)
}
