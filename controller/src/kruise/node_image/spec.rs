//! Removes requests from a NodeImage's spec that are no longer needed.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kubeproof_runtime::clock::go_seconds;

use super::is_job;
use crate::kruise::api::node_image::{ImageTagSpec, NodeImageSpec, NodeImageStatus};

/// The mode of secrets that go with the image.
pub(super) const BATCH: &str = "batch";

/// The job of a name, if it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Job {
    Gone,
    /// A job of this uid exists.
    Is(String),
}

/// A spec without the tags that are no longer requested.
#[derive(Debug)]
pub(super) struct Tidied {
    pub(super) spec: NodeImageSpec,
    /// The delays until other changes are due.
    pub(super) waits: Vec<Duration>,
}

/// Removes tags that no job requests any more, and tags whose time to live is over; `job` looks up
/// jobs by namespace and name, `missing` lists secrets that are gone.
pub(super) fn tidy(
    spec: &NodeImageSpec,
    status: &NodeImageStatus,
    job: impl Fn(&str, &str) -> Job,
    missing: &[(String, String)],
    now: Timestamp,
) -> Tidied {
    let mut waits = Vec::new();
    let mut left = NodeImageSpec::default();
    for (name, image) in &spec.images {
        let mut image = image.clone();
        image.tags.retain_mut(|tag| {
            if tag.created_at.is_none() || !keep_owners(tag, &job) {
                return false;
            }
            match time_left(tag, status, name, now) {
                Some(Duration::ZERO) => false,
                wait => {
                    waits.extend(wait);
                    true
                }
            }
        });
        image.pull_secrets.retain(|secret| {
            let is_missing = |(namespace, name): &(String, String)| {
                *namespace == secret.namespace && *name == secret.name
            };
            secret.mode == BATCH || !missing.iter().any(is_missing)
        });
        if !image.tags.is_empty() {
            image.tags.sort_by(|a, b| a.tag.cmp(&b.tag));
            left.images.insert(name.clone(), image);
        }
    }
    Tidied { spec: left, waits }
}

/// Drops the jobs that are gone from a tag's owners; says whether the tag stays, which it does if it
/// never had any.
fn keep_owners(tag: &mut ImageTagSpec, job: &impl Fn(&str, &str) -> Job) -> bool {
    let before = tag.owner_references.len();
    tag.owner_references.retain(|owner| {
        let uid = owner.uid.clone().unwrap_or_default();
        !is_job(owner)
            || job(
                &text(owner, |it| &it.namespace),
                &text(owner, |it| &it.name),
            ) == Job::Is(uid)
    });
    before == 0 || !tag.owner_references.is_empty()
}

fn text(
    reference: &ObjectReference,
    field: impl Fn(&ObjectReference) -> &Option<String>,
) -> String {
    field(reference).clone().unwrap_or_default()
}

/// For how long a tag stays that has been pulled; None when that is not said, or not yet.
fn time_left(
    tag: &ImageTagSpec,
    status: &NodeImageStatus,
    image: &str,
    now: Timestamp,
) -> Option<Duration> {
    let ttl = tag.pull_policy.as_ref()?.ttl_seconds_after_finished?;
    let pull = status.tag(image, &tag.tag)?;
    let completed = pull
        .completion_time
        .filter(|_| pull.version == tag.version)?;
    let left = go_seconds(ttl.into()) - now.duration_since(completed);
    Some(Duration::try_from(left).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-01-01T01:00:00Z";

    fn tidied(
        images: Value,
        statuses: Value,
        missing: &[(String, String)],
    ) -> (Value, Vec<Duration>) {
        let spec = from_value(json!({ "images": images })).unwrap();
        let status = from_value(json!({"desired": 0, "imageStatuses": statuses}));
        let job = |namespace: &str, name: &str| match (namespace, name) {
            ("ns", "here") => Job::Is("u1".to_owned()),
            _ => Job::Gone,
        };
        let tidied = tidy(&spec, &status.unwrap(), job, missing, NOW.parse().unwrap());
        let spec = serde_json::to_value(tidied.spec).unwrap();
        (spec["images"].clone(), tidied.waits)
    }

    fn owner(name: &str, uid: &str) -> Value {
        json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob", "namespace": "ns", "name": name, "uid": uid})
    }

    #[test]
    fn a_tag_stays_for_as_long_as_somebody_asks_for_it() {
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "x"});
        for (owners, left) in [
            (json!([]), Some(json!(null))),
            (
                json!([owner("here", "u1")]),
                Some(json!([owner("here", "u1")])),
            ),
            (json!([owner("here", "old")]), None),
            (json!([owner("gone", "u2")]), None),
            (json!([owner("gone", "u2"), other]), Some(json!([other]))),
        ] {
            let tag = json!({"tag": "1", "createdAt": NOW, "ownerReferences": owners});
            let (images, _) = tidied(json!({"nginx": {"tags": [tag]}}), json!({}), &[]);
            let stays = images["nginx"]["tags"].get(0);
            assert_eq!(
                stays.map(|tag| tag["ownerReferences"].clone()),
                left,
                "{owners}"
            );
        }
        let (images, _) = tidied(json!({"nginx": {"tags": [{"tag": "1"}]}}), json!({}), &[]);
        assert_eq!(images, Value::Null, "nobody has admitted it");
    }

    #[test]
    fn a_tag_goes_when_it_has_been_there_for_its_time() {
        let wait = |seconds| vec![Duration::from_secs(seconds)];
        for (ttl, completed, version, stays, waits) in [
            (
                json!(600),
                json!("2026-01-01T00:55:00Z"),
                3,
                true,
                wait(300),
            ),
            (json!(300), json!("2026-01-01T00:55:00Z"), 3, false, vec![]),
            (json!(300), json!("2026-01-01T00:55:00Z"), 2, true, vec![]),
            (json!(300), Value::Null, 3, true, vec![]),
            (Value::Null, json!("2026-01-01T00:55:00Z"), 3, true, vec![]),
        ] {
            let tag = json!({"tag": "1", "version": 3, "createdAt": NOW, "pullPolicy": {"ttlSecondsAfterFinished": ttl}});
            let tag_status = json!({"tag": "1", "version": version, "phase": "Succeeded", "completionTime": completed});
            let statuses = json!({"nginx": {"tags": [tag_status]}});
            let (images, waiting) = tidied(json!({"nginx": {"tags": [tag]}}), statuses, &[]);
            assert_eq!(
                images["nginx"].is_object(),
                stays,
                "{ttl} {completed} {version}"
            );
            assert_eq!(waiting, waits, "{ttl} {completed} {version}");
        }
    }

    #[test]
    fn secrets_that_are_gone_are_not_named_any_more() {
        let tags = json!([{"tag": "b", "createdAt": NOW}, {"tag": "a", "createdAt": NOW}]);
        let secrets = json!([{"namespace": "k", "name": "gone"}, {"namespace": "k", "name": "here"},
            {"namespace": "k", "name": "gone", "mode": "batch"}]);
        let missing = [("k".to_owned(), "gone".to_owned())];
        let images = json!({"nginx": {"tags": tags, "pullSecrets": secrets}});
        let (images, _) = tidied(images, json!({}), &missing);
        let left = json!([{"namespace": "k", "name": "here"}, {"namespace": "k", "name": "gone", "mode": "batch"}]);
        assert_eq!(images["nginx"]["pullSecrets"], left);
        assert_eq!(images["nginx"]["tags"][0]["tag"], "a", "tags are in order");
    }
}
