//! `kubectl rollout` of StatefulSets

use std::time::Duration;

use kubeproof_machinery::json::{Value, json};

use super::super::cluster::Cluster;
use super::{Command, describe, full_name, text};
use crate::api::{Api, ApiError};
use crate::runner::step_error::StepError;
use crate::scenario::{HumanDuration, Target};

/// The longest that a scenario waits for a rollout.
const TIMEOUT: Duration = Duration::from_secs(3600);
const STRATEGIC_MERGE: &str = "application/strategic-merge-patch+json";
const CHANGE_CAUSE: &str = "/metadata/annotations/kubernetes.io~1change-cause";

/// Returns the message of `rollout status` about a set, and whether the rollout is done.
fn describe(set: &Value) -> Result<(String, bool), String> {
    let (version, kind) = (text(set, "/apiVersion"), text(set, "/kind"));
    let group = version.split_once('/').map_or("", |(group, _)| group);
    if group != "apps" {
        // kubectl decodes the kinds that it is built with.
        return Err(format!(
            "error: no kind \"{kind}\" is registered for version \"{version}\" in scheme \
             \"pkg/scheme/scheme.go:28\""
        ));
    }
    let (spec, status) = (&set["spec"], &set["status"]);
    let strategy = &spec["updateStrategy"];
    if strategy["type"] != "RollingUpdate" {
        let message = "error: rollout status is only available for RollingUpdate strategy type";
        return Err(message.to_owned());
    }
    let count = |value: &Value| value.as_i64().unwrap_or_default();
    let observed = count(&status["observedGeneration"]);
    let (replicas, ready) = (count(&spec["replicas"]), count(&status["readyReplicas"]));
    let updated = count(&status["updatedReplicas"]);
    if observed == 0 || count(&set["metadata"]["generation"]) > observed {
        let words = "Waiting for statefulset spec update to be observed...";
        return Ok((words.to_owned(), false));
    }
    if ready < replicas {
        let missing = replicas - ready;
        let words = format!("Waiting for {missing} pods to be ready...");
        return Ok((words, false));
    }
    let rolling = &strategy["rollingUpdate"];
    if !rolling.is_null() {
        let wanted = replicas - count(&rolling["partition"]);
        if !rolling["partition"].is_null() && updated < wanted {
            let words = format!(
                "Waiting for partitioned roll out to finish: {updated} out of {wanted} new pods \
                 have been updated..."
            );
            return Ok((words, false));
        }
        let words =
            format!("partitioned roll out complete: {updated} new pods have been updated...");
        return Ok((words, true));
    }
    if status["updateRevision"] != status["currentRevision"] {
        let revision = text(status, "/updateRevision");
        let words = format!(
            "waiting for statefulset rolling update to complete {updated} pods at revision \
             {revision}..."
        );
        return Ok((words, false));
    }
    let (current, revision) = (
        count(&status["currentReplicas"]),
        text(status, "/currentRevision"),
    );
    let words =
        format!("statefulset rolling update complete {current} pods at revision {revision}...");
    Ok((words, true))
}

/// Returns the lines of progress until the rollout is complete, without consecutive repetitions.
pub(super) async fn status(
    cluster: Cluster<'_>,
    target: &Target,
) -> Result<Vec<String>, StepError> {
    let mut said: Vec<String> = Vec::new();
    let mut written = cluster.subscribe();
    let until = async {
        loop {
            written.borrow_and_update();
            let object = (target.resource.as_str(), target.name.as_str());
            let set = cluster.api().get(object, None).await?;
            match describe(&set) {
                Err(refusal) => {
                    said.push(refusal);
                    return Ok(());
                }
                Ok((words, is_last)) => {
                    if said.last() != Some(&words) {
                        said.push(words);
                    }
                    if is_last {
                        return Ok(());
                    }
                }
            }
            if written.changed().await.is_err() {
                return Ok(());
            }
        }
    };
    let ended: Result<Result<(), ApiError>, _> = tokio::time::timeout(TIMEOUT, until).await;
    match ended {
        Ok(ended) => ended?,
        Err(_) => return Err(StepError::Timeout(HumanDuration(TIMEOUT))),
    }
    Ok(said)
}

/// The revisions of a set, the oldest first.
async fn revisions(api: &Api, target: &Target) -> Result<Vec<Value>, ApiError> {
    let object = (target.resource.as_str(), target.name.as_str());
    let set = api.get(object, None).await?;
    let all = api.list("controllerrevisions").await?;
    let mut owned: Vec<Value> = all["items"].as_array().cloned().unwrap_or_default();
    owned.retain(|revision| {
        let owners = revision["metadata"]["ownerReferences"].as_array();
        let mut owners = owners.into_iter().flatten();
        owners.any(|owner| owner["uid"] == set["metadata"]["uid"])
    });
    owned.sort_by_key(|revision| revision["revision"].as_i64());
    Ok(owned)
}

/// Lists the revisions, or refuses one that is not there.
pub(super) async fn history(api: &Api, command: &Command<'_>) -> Result<Vec<String>, StepError> {
    let target = command.target(2)?;
    let revisions = revisions(api, &target).await?;
    if let Some(wanted) = command.number("revision") {
        let found = revisions.iter().find(|one| one["revision"] == wanted);
        let Some(found) = found else {
            let said = "error: unable to find the specified revision";
            return Ok(vec![said.to_owned()]);
        };
        let head = format!("{} with revision #{wanted}", full_name(api, &target)?);
        let template = describe::pod_template(&found["data"]["spec"]["template"]);
        return Ok([vec![head], template].concat());
    }
    let row = |revision: &str, cause: &str| format!("{revision:<10}{cause}");
    let mut said = vec![full_name(api, &target)?, row("REVISION", "CHANGE-CAUSE")];
    said.extend(revisions.iter().map(|revision| {
        let cause = match text(revision, CHANGE_CAUSE) {
            "" => "<none>",
            cause => cause,
        };
        row(&revision["revision"].to_string(), cause)
    }));
    Ok(said)
}

/// Goes back to a revision, the last but one unless the command names another.
pub(super) async fn undo(api: &Api, command: &Command<'_>) -> Result<Vec<String>, StepError> {
    let target = command.target(2)?;
    let revisions = revisions(api, &target).await?;
    let wanted = command.number("to-revision").unwrap_or_default();
    let found = if wanted != 0 {
        revisions.iter().find(|one| one["revision"] == wanted)
    } else if revisions.len() > 1 {
        revisions.get(revisions.len() - 2)
    } else {
        return Ok(vec!["error: no last revision to roll back to".to_owned()]);
    };
    let Some(found) = found else {
        let said = format!("error: unable to find specified revision {wanted} in history");
        return Ok(vec![said]);
    };
    let object = (target.resource.as_str(), target.name.as_str());
    api.patch(object, None, STRATEGIC_MERGE, &found["data"])
        .await?;
    Ok(vec![format!("{} rolled back", full_name(api, &target)?)])
}

/// Annotates the template with the time, so that every pod is replaced.
pub(super) async fn restart(
    cluster: Cluster<'_>,
    target: &Target,
) -> Result<Vec<String>, StepError> {
    let api = cluster.api();
    let now = cluster.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let annotations = json!({ "kubectl.kubernetes.io/restartedAt": now });
    let patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
    let object = (target.resource.as_str(), target.name.as_str());
    api.patch(object, None, STRATEGIC_MERGE, &patch).await?;
    Ok(vec![format!("{} restarted", full_name(api, target)?)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(replicas: i64, ready: i64, updated: i64, rolling: Value) -> (String, bool) {
        describe(&json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"generation": 2},
            "spec": {"replicas": replicas,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}},
            "status": {"observedGeneration": 2, "readyReplicas": ready,
                "updatedReplicas": updated, "currentReplicas": 1,
                "currentRevision": "web-a", "updateRevision": "web-b"},
        }))
        .unwrap()
    }

    #[test]
    fn a_rollout_is_described_as_kubectl_does() {
        let partition = |partition: i64| json!({ "partition": partition });
        let line = |(words, is_last): (String, bool)| format!("{is_last} {words}");
        assert_eq!(
            line(said(3, 1, 0, partition(0))),
            "false Waiting for 2 pods to be ready..."
        );
        assert_eq!(
            line(said(3, 3, 1, partition(1))),
            "false Waiting for partitioned roll out to finish: 1 out of 2 new pods have been \
             updated..."
        );
        assert_eq!(
            line(said(3, 3, 2, partition(1))),
            "true partitioned roll out complete: 2 new pods have been updated..."
        );
        assert_eq!(
            line(said(3, 3, 2, Value::Null)),
            "false waiting for statefulset rolling update to complete 2 pods at revision web-b..."
        );
        let mut on_delete = json!({"spec": {"updateStrategy": {"type": "OnDelete"}}});
        on_delete["apiVersion"] = "apps/v1".into();
        let refused = "error: rollout status is only available for RollingUpdate strategy type";
        assert_eq!(describe(&on_delete).unwrap_err(), refused);
        let foreign = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet"});
        let refused = "error: no kind \"CloneSet\" is registered for version \"apps.kruise.io/v1beta1\" in scheme \
                       \"pkg/scheme/scheme.go:28\"";
        assert_eq!(describe(&foreign).unwrap_err(), refused);
    }
}
