//! Upgrade tests: a program settles a scenario, another version takes over, and the first comes back.
//!
//! - `definitions`: definitions of custom resources are replaced, and old objects tried on the new ones
//! - `findings`: what a version changed though no client asked for it
//! - `objects`: what a version leaves, as a text

mod definitions;
mod findings;
mod objects;

use std::collections::BTreeSet;

use kubeproof_machinery::json::Value;

use crate::properties::WRITE_LOOPS;
use crate::runner::{self, RunError, RunOptions};
use crate::scenario::{AllowedFinding, FindingKind, Scenario};
use crate::testbed::{QUIET, Testbed, TestbedError};
use crate::user_agent::actor;

pub use findings::Finding;

/// The index of the first version among the programs.
const FROM: usize = 0;
/// The index of the second version among the programs.
const TO: usize = 1;

/// The two versions.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    /// The options, with the two programs, of which the first begins.
    pub options: RunOptions,
    /// The definitions of custom resources of both versions, which are created before anything else; empty if the scenario
    /// has them.
    pub definitions: [Vec<Value>; 2],
    /// Whether the first version does not come back.
    pub one_way: bool,
}

/// One change of the version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// `upgrade` or `back`.
    pub name: &'static str,
    /// The findings, in their order.
    pub findings: Vec<Finding>,
}

/// The findings of a test, judged by its scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The changes of the version, with the findings that the scenario does not allow.
    pub changes: Vec<Change>,
    /// The number of findings that it allows.
    pub allowed: usize,
    /// The allowances of the scenario that no finding needs.
    pub unneeded: Vec<String>,
    /// The last lines that each version has printed.
    pub program_output: String,
    /// The objects that the first version left, and what the second has made of them, in YAML.
    pub objects: [String; 2],
}

impl Report {
    /// Whether nothing was found but what the scenario allows.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        let mut changes = self.changes.iter();
        changes.all(|change| change.findings.is_empty()) && self.unneeded.is_empty()
    }
}

/// Settles `scenario` with the first version, replaces the definitions, settles it with the second version, and back.
///
/// # Errors
/// [`RunError`] when the scenario fails with the first version.
pub fn test(scenario: &Scenario, versions: &Versions) -> Result<Report, RunError> {
    runner::on_testbed(scenario, &versions.options, async |testbed| {
        let [from, to] = &versions.definitions;
        for definition in from {
            let created = testbed.api().create(definition).await;
            created.map_err(TestbedError::Api)?;
        }
        runner::carry_out(testbed, scenario).await?;
        let before = objects::in_words(&testbed.journal());
        let mut changes = vec![change(testbed, "upgrade", (TO, to)).await?];
        let after = objects::in_words(&testbed.journal());
        let has_failed = |change: &Change| {
            let mut findings = change.findings.iter();
            findings.any(|finding| finding.kind == FindingKind::Failed)
        };
        if !versions.one_way && !has_failed(&changes[0]) {
            changes.push(change(testbed, "back", (FROM, from)).await?);
        }
        let allows = scenario.upgrade.as_ref();
        let allows = allows.map_or(&[][..], |upgrade| &upgrade.allows);
        let mut report = judged(changes, allows);
        report.program_output = testbed.program_output();
        report.objects = [before, after];
        Ok(report)
    })
}

/// Lets the program with this index take over, with its definitions.
async fn change(
    testbed: &Testbed,
    name: &'static str,
    (program, definitions): (usize, &[Value]),
) -> Result<Change, RunError> {
    let journal = testbed.journal();
    let (before, refusals) = (journal.len(), testbed.program_refusals().len());
    let given_rv = testbed.resource_version();
    testbed.stop_programs().await;
    let mut findings = definitions::replace(testbed, definitions).await?;
    let started = testbed.start_program(program).await;
    let settled = match started {
        Ok(()) => {
            findings.extend(definitions::try_objects(testbed, &journal, definitions).await);
            testbed.settle(QUIET).await.map(drop)
        }
        Err(error) => Err(error),
    };
    let journal = testbed.journal();
    let exchanges = testbed.exchanges();
    let others: BTreeSet<&str> = exchanges.iter().map(|own| actor(&own.user_agent)).collect();
    findings.extend(findings::of(&journal, before, &others));
    findings.extend(findings::of_refusals(
        &testbed.program_refusals()[refusals..],
    ));
    for violation in testbed.violations_since(given_rv) {
        if violation.rv > given_rv && violation.property == WRITE_LOOPS {
            findings.push(Finding::about(FindingKind::Looped, "", violation.what));
        }
    }
    match settled {
        Ok(()) if testbed.programs_still_work() => {
            let words = "the program still worked when it had written nothing for 30s";
            findings.push(Finding::about(
                FindingKind::NotSettled,
                "",
                words.to_owned(),
            ));
        }
        Ok(()) => {}
        Err(TestbedError::NotSettled(error)) => {
            findings.push(Finding::about(FindingKind::Looped, "", error.to_string()));
        }
        Err(error @ TestbedError::Unsettled { .. }) => {
            findings.push(Finding::about(
                FindingKind::NotSettled,
                "",
                error.to_string(),
            ));
        }
        Err(TestbedError::Ended(how)) => {
            findings.push(Finding::about(FindingKind::Failed, "", how));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Change { name, findings })
}

/// Sorts the findings by what the scenario allows.
fn judged(changes: Vec<Change>, allows: &[AllowedFinding]) -> Report {
    let (mut needed, mut allowed) = (BTreeSet::new(), 0);
    let changes = changes.into_iter().map(|mut change| {
        change.findings.retain(|finding| {
            let fitting = allows
                .iter()
                .position(|one| one.fits(finding.kind, &finding.object));
            allowed += usize::from(fitting.is_some());
            needed.extend(fitting);
            fitting.is_none()
        });
        change
    });
    let changes = changes.collect();
    let unneeded = allows.iter().enumerate();
    let unneeded = unneeded.filter(|(index, _)| !needed.contains(index));
    Report {
        changes,
        allowed,
        unneeded: unneeded.map(|(_, one)| one.to_string()).collect(),
        program_output: String::new(),
        objects: Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_allows_findings_and_what_it_does_not_need_is_named() {
        let allows = "
        - {finding: replaced, object: pod/web-*, because: the image is newer}
        - {finding: refused, because: never}
        ";
        let allows: Vec<AllowedFinding> = serde_saphyr::from_str(allows).unwrap();
        let finding = |kind, object: &str| Finding::about(kind, object, String::new());
        let change = Change {
            name: "upgrade",
            findings: vec![
                finding(FindingKind::Replaced, "pod/web-0"),
                finding(FindingKind::Replaced, "pod/db-0"),
                finding(FindingKind::Written, "pod/web-0"),
            ],
        };
        let report = judged(vec![change], &allows);
        assert_eq!(
            (report.allowed, report.unneeded),
            (1, vec!["refused".to_owned()])
        );
        let left = report.changes[0].findings.iter();
        let left: Vec<&str> = left.map(|finding| &*finding.object).collect();
        assert_eq!(left, ["pod/db-0", "pod/web-0"]);
    }
}
