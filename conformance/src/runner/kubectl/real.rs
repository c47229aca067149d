//! Commands of the real kubectl.

use super::super::cluster::Cluster;
use crate::runner::step_error::StepError;
use crate::testbed::{Kubectl, QUIET};

/// Runs the command; returns what it printed, without consecutive repetitions of a line.
pub(super) async fn perform(
    cluster: Cluster<'_>,
    kubectl: &Kubectl,
    command: &str,
) -> Result<Vec<String>, StepError> {
    let arguments: Vec<&str> = command.split_whitespace().collect();
    let mut settled = Ok(());
    let goes_on = async {
        settled = cluster.settle(QUIET).await.map(|_| ());
    };
    let text = kubectl.run(&arguments, goes_on).await;
    settled?;
    let text = text.map_err(|error| StepError::Command(error.to_string()))?;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // `rollout status` repeats its line with each write of the object.
    lines.dedup();
    if lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    Ok(lines)
}
