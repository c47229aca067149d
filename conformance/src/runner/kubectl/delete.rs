//! `kubectl delete`

use std::time::Duration;

use kubeproof_machinery::json::{Map, json};

use super::super::cluster::Cluster;
use super::{Command, text};
use crate::runner::step_error::StepError;
use crate::scenario::{HumanDuration, Target};

/// The longest that a scenario waits for a deletion.
const TIMEOUT: Duration = Duration::from_secs(3600);
/// The warning of kubectl before a forced deletion.
const WARNING: &str = "Warning: Immediate deletion does not wait for confirmation that the running \
    resource has been terminated. The resource may continue to run on the cluster indefinitely.";

/// Deletes one object, and waits until it is gone unless it is deleted by force.
pub(super) async fn perform(
    cluster: Cluster<'_>,
    command: &Command<'_>,
) -> Result<Vec<String>, StepError> {
    let api = cluster.api();
    let target = command.target(1)?;
    let object = (target.resource.as_str(), target.name.as_str());
    let forced = command.flag("force") == Some("true");
    let mut said = Vec::new();
    let policy = match command.flag("cascade") {
        None | Some("background") => "Background",
        Some("foreground") => "Foreground",
        Some("orphan") => "Orphan",
        Some(flag) => {
            let (policy, name) = match flag {
                "false" => ("Orphan", "orphan"),
                _ => ("Background", "background"),
            };
            said.push(format!(
                "warning: --cascade={flag} is deprecated (boolean value) and can be replaced \
                 with --cascade={name}."
            ));
            policy
        }
    };
    let mut options = Map::new();
    options.insert("apiVersion", json!("v1"));
    options.insert("kind", json!("DeleteOptions"));
    options.insert("propagationPolicy", json!(policy));
    if let Some(seconds) = grace(command, forced) {
        options.insert("gracePeriodSeconds", json!(seconds));
    }
    if forced {
        said.push(WARNING.to_owned());
    }
    let uid = text(&api.get(object, None).await?, "/metadata/uid").to_owned();
    api.delete(object, &options.into()).await?;
    let how = if forced { "force deleted" } else { "deleted" };
    let (kind, name, namespace) = (api.kind(object.0)?, &target.name, api.namespace());
    said.push(format!("{kind} {name:?} {how} from {namespace} namespace"));
    if !forced && command.flag("wait") != Some("false") {
        wait_until_gone(cluster, &target, &uid).await?;
    }
    Ok(said)
}

/// Waits until nothing has the uid under that name.
async fn wait_until_gone(
    cluster: Cluster<'_>,
    target: &Target,
    uid: &str,
) -> Result<(), StepError> {
    let object = (target.resource.as_str(), target.name.as_str());
    let mut written = cluster.subscribe();
    let until = async {
        loop {
            written.borrow_and_update();
            match cluster.api().get(object, None).await {
                Ok(found) if text(&found, "/metadata/uid") == uid => {}
                Err(error) if !error.is_not_found() => return Err(error),
                Ok(_) | Err(_) => return Ok(()),
            }
            if written.changed().await.is_err() {
                return Ok(());
            }
        }
    };
    match tokio::time::timeout(TIMEOUT, until).await {
        Ok(ended) => Ok(ended?),
        Err(_) => Err(StepError::Timeout(HumanDuration(TIMEOUT))),
    }
}

/// The grace period asked for: nothing is removed at once unless by force.
fn grace(command: &Command<'_>, forced: bool) -> Option<i64> {
    let asked = match command.flag("now") {
        Some("true") => Some(1),
        _ => command.number("grace-period"),
    };
    match asked {
        None if forced => Some(0),
        Some(0) if !forced => Some(1),
        asked => asked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_force_removes_at_once() {
        let asked = |text: &str| {
            let command = Command::parse(text);
            grace(&command, command.flag("force") == Some("true"))
        };
        assert_eq!(asked("delete pod/web-0"), None);
        assert_eq!(asked("delete pod/web-0 --now"), Some(1));
        assert_eq!(asked("delete pod/web-0 --grace-period=0"), Some(1));
        assert_eq!(asked("delete pod/web-0 --grace-period=0 --force"), Some(0));
        assert_eq!(asked("delete pod/web-0 --force"), Some(0));
        assert_eq!(asked("delete pod/web-0 --grace-period=7"), Some(7));
    }
}
