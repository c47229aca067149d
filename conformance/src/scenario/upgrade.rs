//! The findings of an upgrade test that a scenario allows.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

use super::ObjectPattern;

/// How an upgrade test of the scenario is judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Upgrade")]
pub struct UpgradeJudgment {
    /// Findings that are right.
    pub allows: Vec<AllowedFinding>,
}

/// A finding that is right.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowedFinding {
    /// The kind of the finding.
    pub finding: FindingKind,
    /// The object, `pod/web-0`, or `pod/web-*` for all whose names have this prefix; any object when absent.
    pub object: Option<ObjectPattern>,
    /// The reason why it is right.
    pub because: String,
}

/// A kind of findings of an upgrade test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FindingKind {
    /// A pod was deleted.
    Replaced,
    /// Containers of a pod were restarted, or got another image.
    Restarted,
    /// The program wrote an object though no client had changed anything.
    Written,
    /// A definition or a write of the program was refused.
    Refused,
    /// An object that existed before is not accepted any more, or loses fields.
    NotAccepted,
    /// The writes did not end, or the program wrote an object again and again.
    Looped,
    /// The program still worked at the end of the wait, so there may be more to find.
    NotSettled,
    /// The program ended, or did not start.
    Failed,
}

impl FindingKind {
    /// Returns the name in scenarios.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replaced => "replaced",
            Self::Restarted => "restarted",
            Self::Written => "written",
            Self::Refused => "refused",
            Self::NotAccepted => "notAccepted",
            Self::Looped => "looped",
            Self::NotSettled => "notSettled",
            Self::Failed => "failed",
        }
    }
}

impl AllowedFinding {
    /// Whether the finding of this kind about `object`, which is `pod/web-0`, is allowed.
    #[must_use]
    pub fn fits(&self, kind: FindingKind, object: &str) -> bool {
        let (of, name) = object.split_once('/').unwrap_or((object, ""));
        let is_object = self.object.as_ref().is_none_or(|own| own.fits(of, name));
        self.finding == kind && is_object
    }
}

impl fmt::Display for AllowedFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.finding.as_str())?;
        match &self.object {
            Some(object) => write!(f, " {object}"),
            None => Ok(()),
        }
    }
}
