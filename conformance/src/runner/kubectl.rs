//! The effects and output of kubectl, for the commands with which people manage workloads: simulated, or of the real
//! program.

mod delete;
mod describe;
mod real;
mod rollout;

use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kubeproof_machinery::json::{Value, json};

use super::cluster::Cluster;
use super::step_error::StepError;
use crate::api::{Api, ApiError};
use crate::generated::GeneratedNames;
use crate::scenario::Target;
use crate::table;

/// One command, taken apart.
struct Command<'a> {
    words: Vec<&'a str>,
    flags: Vec<(&'a str, &'a str)>,
}

impl<'a> Command<'a> {
    /// `--flag=value` and `--flag` are flags, everything else is a word.
    fn parse(text: &'a str) -> Self {
        let (flags, words): (Vec<&str>, Vec<&str>) = text
            .split_whitespace()
            .partition(|part| part.starts_with("--"));
        let flags = flags.into_iter().map(|flag| {
            let flag = flag.trim_start_matches("--");
            flag.split_once('=').unwrap_or((flag, "true"))
        });
        Self {
            words,
            flags: flags.collect(),
        }
    }

    fn flag(&self, name: &str) -> Option<&'a str> {
        let mut flags = self.flags.iter();
        flags
            .find(|(known, _)| *known == name)
            .map(|(_, value)| *value)
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.flag(name)?.parse().ok()
    }

    /// The object named by the word at `index`, as `kind/name`.
    fn target(&self, index: usize) -> Result<Target, StepError> {
        let word = self.words.get(index).copied().unwrap_or_default();
        Target::try_from(word.to_owned()).map_err(StepError::Command)
    }
}

/// Carries out the command; returns what kubectl prints, errors included.
pub(super) async fn perform(cluster: Cluster<'_>, command: &str) -> Result<Vec<String>, StepError> {
    if let Cluster::Testbed(testbed) = cluster
        && let Some(kubectl) = testbed.kubectl()
    {
        return real::perform(cluster, kubectl, command).await;
    }
    let command = Command::parse(command);
    let api = cluster.api();
    match command.words.as_slice() {
        ["get", resources] => get(cluster, resources).await,
        ["logs", pod] => logs(cluster, pod, None).await,
        ["logs", pod, container] => logs(cluster, pod, Some(container)).await,
        ["describe", ..] => describe::perform(cluster, &command).await,
        ["scale", ..] => scale(api, &command).await,
        ["delete", ..] => delete::perform(cluster, &command).await,
        ["rollout", "status", ..] => rollout::status(cluster, &command.target(2)?).await,
        ["rollout", "history", ..] => rollout::history(api, &command).await,
        ["rollout", "undo", ..] => rollout::undo(api, &command).await,
        ["rollout", "restart", ..] => rollout::restart(cluster, &command.target(2)?).await,
        words => Err(StepError::Command(format!(
            "kubectl {} is not known here",
            words.join(" ")
        ))),
    }
}

/// `statefulset.apps/web`, as kubectl calls an object.
fn full_name(api: &Api, target: &Target) -> Result<String, ApiError> {
    Ok(format!("{}/{}", api.kind(&target.resource)?, target.name))
}

async fn get(cluster: Cluster<'_>, resources: &str) -> Result<Vec<String>, StepError> {
    let api = cluster.api();
    let names = GeneratedNames::of(&cluster.journal());
    let mut lines = Vec::new();
    let is_mixed = resources.contains(',');
    for resource in resources.split(',') {
        let mut table = api.table(resource, None).await?;
        names.mask_table(&mut table);
        if is_mixed {
            prefix_names(&mut table, &api.kind(resource)?);
        }
        let rows = table::render(&table, false);
        if !rows.is_empty() && !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(rows);
    }
    if lines.is_empty() {
        let namespace = api.namespace();
        lines.push(format!("No resources found in {namespace} namespace."));
    }
    Ok(lines)
}

async fn logs(
    cluster: Cluster<'_>,
    pod: &str,
    container: Option<&str>,
) -> Result<Vec<String>, StepError> {
    let pods: kube::Api<Pod> = kube::Api::namespaced(cluster.client(), cluster.api().namespace());
    let params = LogParams {
        container: container.map(str::to_owned),
        ..LogParams::default()
    };
    let text = pods.logs(pod, &params).await.map_err(ApiError::from)?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Names of several kinds say which one they are of.
fn prefix_names(table: &mut Value, kind: &str) {
    for row in table["rows"].as_array_mut().into_iter().flatten() {
        if let Some(name) = row["cells"][0].as_str() {
            row["cells"][0] = json!(format!("{kind}/{name}"));
        }
    }
}

async fn scale(api: &Api, command: &Command<'_>) -> Result<Vec<String>, StepError> {
    let target = command.target(1)?;
    let wanted = command.number("replicas").unwrap_or_default();
    let object = (target.resource.as_str(), target.name.as_str());
    if let Some(expected) = command.number("current-replicas") {
        let scale = api.get(object, Some("scale")).await?;
        let present = scale["spec"]["replicas"].as_i64().unwrap_or_default();
        if present != expected {
            let said = format!("error: Expected replicas to be {expected}, was {present}");
            return Ok(vec![said]);
        }
    }
    api.scale(object, wanted).await?;
    Ok(vec![format!("{} scaled", full_name(api, &target)?)])
}

/// The text at a JSON pointer, empty when the field is missing.
fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_told_apart_from_words_wherever_they_stand() {
        let command = Command::parse("delete --now pod/web-0 --grace-period=5");
        assert_eq!(command.words, ["delete", "pod/web-0"]);
        assert_eq!(command.flag("now"), Some("true"));
        assert_eq!(command.number("grace-period"), Some(5));
        assert_eq!(command.target(1).unwrap().name, "web-0");
        assert!(command.target(2).is_err());
    }
}
