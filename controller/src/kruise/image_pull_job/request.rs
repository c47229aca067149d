//! The request of an image from a node.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::progress::{Wanted, has_secret};
use crate::kruise::api::image_pull_job::{ImagePullJobSpec, NEVER};
use crate::kruise::api::node_image::{
    ImageTagPullPolicy, ImageTagSpec, NodeImageSpec, NodeImageStatus,
};
use crate::kruise::in_place::whole_second;

/// The seconds for which a tag stays, beyond the time of its job.
const TTL_BEYOND: i32 = 300;
/// The time to live of a tag of a job that never ends, in seconds.
const TTL_OF_NEVER: i32 = 24 * 3600;
/// The deadline of the pulls of such a job, in seconds.
const DEADLINE_OF_NEVER: i64 = 1800;
/// The defaults of a pull.
const TIMEOUT: i32 = 600;
const BACKOFF_LIMIT: i32 = 3;

/// The number of nodes that may pull at once.
pub(super) fn parallelism(spec: &ImagePullJobSpec) -> i32 {
    match &spec.parallelism {
        None => 1,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => text.parse().unwrap_or(0),
    }
}

/// Requests the image; returns whether that changes anything. `status` is the node's report.
pub(super) fn ask(
    spec: &mut NodeImageSpec,
    status: &NodeImageStatus,
    wanted: Wanted<'_>,
    owner: &ObjectReference,
    now: Timestamp,
) -> bool {
    let created_at = Some(whole_second(now));
    let image = spec.images.entry(wanted.image.to_owned()).or_default();
    image.sandbox_config.clone_from(&wanted.spec.sandbox_config);
    let secrets = wanted.secrets.iter();
    let lacking: Vec<_> = secrets
        .filter(|secret| !has_secret(&image.pull_secrets, secret))
        .cloned()
        .collect();
    let policy = &wanted.spec.image_pull_policy;
    match image.tags.iter_mut().find(|own| own.tag == wanted.tag) {
        Some(tag) if is_owned(tag, owner) => {
            if lacking.is_empty() {
                return false;
            }
        }
        Some(tag) => {
            // The node pulls again.
            tag.version += 1;
            tag.owner_references.push(owner.clone());
            tag.created_at = created_at;
            tag.image_pull_policy.clone_from(policy);
        }
        None => {
            let reported = status.tag(wanted.image, wanted.tag);
            image.tags.push(ImageTagSpec {
                tag: wanted.tag.to_owned(),
                version: reported.map_or(-1, |one| one.version) + 1,
                pull_policy: Some(pull_policy(wanted.spec)),
                owner_references: vec![owner.clone()],
                created_at,
                image_pull_policy: policy.clone(),
            });
        }
    }
    image.pull_secrets.extend(lacking);
    image.tags.sort_by(|a, b| a.tag.cmp(&b.tag));
    true
}

fn is_owned(tag: &ImageTagSpec, owner: &ObjectReference) -> bool {
    tag.owner_references.iter().any(|own| own.uid == owner.uid)
}

/// The limits of a pull that the job has others make.
fn pull_policy(spec: &ImagePullJobSpec) -> ImageTagPullPolicy {
    let own = spec.pull_policy.clone().unwrap_or_default();
    let policy = &spec.completion_policy;
    let (ttl, deadline) = match policy.type_ == NEVER {
        true => {
            let timeout = own.timeout_seconds.map_or(0, i64::from);
            (TTL_OF_NEVER, Some(timeout.max(DEADLINE_OF_NEVER)))
        }
        false => {
            let deadline = policy.active_deadline_seconds;
            let of_deadline = deadline.map(|seconds| i32::try_from(seconds).unwrap_or(i32::MAX));
            let timeout = own.timeout_seconds.unwrap_or(TIMEOUT);
            let tries = own.backoff_limit.unwrap_or(BACKOFF_LIMIT);
            let ttl = policy.ttl_seconds_after_finished.or(of_deadline);
            let ttl = ttl.unwrap_or_else(|| timeout.saturating_mul(tries));
            (ttl.saturating_add(TTL_BEYOND), deadline)
        }
    };
    ImageTagPullPolicy {
        timeout_seconds: own.timeout_seconds,
        backoff_limit: own.backoff_limit,
        ttl_seconds_after_finished: Some(ttl),
        active_deadline_seconds: deadline,
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn spec(rest: Value) -> ImagePullJobSpec {
        let mut spec = json!({"image": "nginx:1", "completionPolicy": {"type": "Always"}});
        for (field, value) in rest.as_object().cloned().unwrap_or_default() {
            spec[field] = value;
        }
        from_value(spec).unwrap()
    }

    fn owner(uid: &str) -> ObjectReference {
        ObjectReference {
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        }
    }

    /// The node's spec after the job `uid` has asked it, if that changes anything.
    fn asked(
        images: Value,
        reported: Value,
        job: &ImagePullJobSpec,
        uid: &str,
        secrets: Value,
    ) -> Option<Value> {
        let mut spec = from_value(json!({ "images": images })).unwrap();
        let status = json!({"desired": 1, "imageStatuses": {"nginx": {"tags": reported}}});
        let secrets: Vec<_> = from_value(secrets).unwrap();
        let wanted = Wanted {
            uid,
            spec: job,
            image: "nginx",
            tag: "1",
            secrets: &secrets,
        };
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let status = from_value(status).unwrap();
        let changes = ask(&mut spec, &status, wanted, &owner(uid), now);
        changes.then(|| serde_json::to_value(spec).unwrap()["images"]["nginx"].clone())
    }

    #[test]
    fn a_node_is_asked_once_by_each_job() {
        let job = spec(json!({"imagePullPolicy": "Always"}));
        let first = asked(json!({}), json!([]), &job, "a", json!([])).unwrap();
        let tag = &first["tags"][0];
        assert_eq!(tag["ownerReferences"], json!([{"uid": "a"}]));
        assert_eq!(
            (&tag["version"], &tag["imagePullPolicy"]),
            (&Value::Null, &json!("Always"))
        );
        assert_eq!(tag["pullPolicy"], json!({"ttlSecondsAfterFinished": 2100}));
        let images = json!({ "nginx": first });
        assert_eq!(asked(images.clone(), json!([]), &job, "a", json!([])), None);
        let second = asked(images, json!([]), &job, "b", json!([])).unwrap();
        assert_eq!(second["tags"][0]["version"], 1, "the node pulls anew");
        assert_eq!(
            second["tags"][0]["ownerReferences"],
            json!([{"uid": "a"}, {"uid": "b"}])
        );
        let reported = json!([{"tag": "1", "version": 4, "phase": "Succeeded"}]);
        let again = asked(json!({}), reported, &job, "c", json!([])).unwrap();
        assert_eq!(
            again["tags"][0]["version"], 5,
            "the request that the node has reported is over"
        );
    }

    #[test]
    fn a_secret_that_came_later_is_no_new_request() {
        let job = spec(json!({}));
        let first = asked(json!({}), json!([]), &job, "a", json!([])).unwrap();
        let secret = json!({"namespace": "k", "name": "s", "mode": "batch"});
        let secrets = json!([secret]);
        let second = asked(
            json!({"nginx": first}),
            json!([]),
            &job,
            "a",
            secrets.clone(),
        )
        .unwrap();
        assert_eq!(second["pullSecrets"], secrets);
        assert_eq!(second["tags"][0]["version"], Value::Null);
        assert_eq!(
            asked(json!({"nginx": second}), json!([]), &job, "a", secrets),
            None
        );
    }

    #[test]
    fn limits_of_pulls_follow_from_those_of_the_job() {
        for (rest, ttl, deadline) in [
            (
                json!({"completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 60, "activeDeadlineSeconds": 50}}),
                360,
                Some(50),
            ),
            (
                json!({"completionPolicy": {"type": "Always", "activeDeadlineSeconds": 50}}),
                350,
                Some(50),
            ),
            (
                json!({"pullPolicy": {"timeoutSeconds": 10, "backoffLimit": 2}}),
                320,
                None,
            ),
            (json!({}), 2100, None),
            (
                json!({"completionPolicy": {"type": "Never"}}),
                86_400,
                Some(1800),
            ),
            (
                json!({"completionPolicy": {"type": "Never"}, "pullPolicy": {"timeoutSeconds": 3600}}),
                86_400,
                Some(3600),
            ),
        ] {
            let policy = pull_policy(&spec(rest.clone()));
            assert_eq!(policy.ttl_seconds_after_finished, Some(ttl), "{rest}");
            assert_eq!(policy.active_deadline_seconds, deadline, "{rest}");
        }
        let parallel = |value: Value| parallelism(&spec(json!({ "parallelism": value })));
        assert_eq!(
            [
                parallel(Value::Null),
                parallel(json!(0)),
                parallel(json!("4")),
                parallel(json!("x"))
            ],
            [1, 0, 4, 0]
        );
    }
}
