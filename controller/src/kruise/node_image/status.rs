//! Gives up pulls that their node does not report.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kubeproof_runtime::clock::go_seconds;

use crate::kruise::api::node_image::{
    ImageStatus, ImageTagSpec, ImageTagStatus, NodeImageSpec, NodeImageStatus,
};
use crate::kruise::in_place::whole_second;

/// The time until an unreported pull is given up, and the extra time of a pull after its deadline.
const RESPONSE_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);

/// A pull that was given up.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pull {
    pub(super) name: String,
    pub(super) tag: String,
    pub(super) message: String,
}

/// The new status and the failures to report.
#[derive(Debug)]
pub(super) struct Judged {
    /// The counts are those of the new statuses, if these are new.
    pub(super) status: NodeImageStatus,
    pub(super) failed: Vec<Pull>,
    /// The delays until other checks are due.
    pub(super) waits: Vec<Duration>,
}

/// Gives up pulls whose time is over. If the status changes, statuses of tags that are no longer
/// requested are removed; otherwise that is up to the node.
pub(super) fn judge(spec: &NodeImageSpec, known: &NodeImageStatus, now: Timestamp) -> Judged {
    let mut judged = Judged {
        status: known.clone(),
        failed: Vec::new(),
        waits: Vec::new(),
    };
    for (name, image) in &spec.images {
        for tag in &image.tags {
            match verdict(tag, known.tag(name, &tag.tag), now) {
                Verdict::Fine => {}
                Verdict::Wait(wait) => judged.waits.push(wait),
                Verdict::GivenUp(message) => judged.give_up(name, tag, message, now),
            }
        }
    }
    if judged.status.image_statuses != known.image_statuses {
        judged.count(spec);
    }
    judged
}

enum Verdict {
    Fine,
    Wait(Duration),
    GivenUp(&'static str),
}

fn verdict(tag: &ImageTagSpec, reported: Option<&ImageTagStatus>, now: Timestamp) -> Verdict {
    let Some(created) = tag.created_at else {
        return Verdict::Fine;
    };
    let left = |time: SignedDuration| {
        let left = Duration::try_from(time - now.duration_since(created));
        left.ok().filter(|left| !left.is_zero())
    };
    let Some(reported) = reported.filter(|one| one.version == tag.version) else {
        return match left(RESPONSE_TIMEOUT) {
            Some(left) => Verdict::Wait(left),
            None => Verdict::GivenUp("node has not responded for a long time"),
        };
    };
    let policy = tag.pull_policy.as_ref();
    let deadline = policy.and_then(|policy| policy.active_deadline_seconds);
    match deadline.filter(|_| reported.completion_time.is_none()) {
        None => Verdict::Fine,
        Some(seconds) => match left(go_seconds(seconds) + RESPONSE_TIMEOUT) {
            Some(left) => Verdict::Wait(left),
            None => Verdict::GivenUp("pulling exceeds the activeDeadlineSeconds"),
        },
    }
}

impl Judged {
    fn give_up(&mut self, name: &str, tag: &ImageTagSpec, message: &str, now: Timestamp) {
        let statuses = &mut self.status.image_statuses;
        let tags = &mut statuses.entry(name.to_owned()).or_default().tags;
        let index = tags.iter().position(|own| own.tag == tag.tag);
        let index = index.unwrap_or_else(|| {
            tags.push(ImageTagStatus {
                tag: tag.tag.clone(),
                ..ImageTagStatus::default()
            });
            tags.len() - 1
        });
        let failed = &mut tags[index];
        "Failed".clone_into(&mut failed.phase);
        failed.completion_time = Some(whole_second(now));
        failed.version = tag.version;
        message.clone_into(&mut failed.message);
        tags.sort_by(|a, b| a.tag.cmp(&b.tag));
        self.failed.push(Pull {
            name: name.to_owned(),
            tag: tag.tag.clone(),
            message: message.to_owned(),
        });
    }

    /// Removes statuses of tags that are not requested, and counts the rest.
    fn count(&mut self, spec: &NodeImageSpec) {
        let status = &mut self.status;
        status
            .image_statuses
            .retain(|name, image: &mut ImageStatus| {
                let asked = spec.images.get(name);
                image.tags.retain(|tag_status| {
                    let mut tags = asked.into_iter().flat_map(|image| &image.tags);
                    tags.any(|tag| tag.tag == tag_status.tag)
                });
                !image.tags.is_empty()
            });
        let tag_statuses = || status.image_statuses.values().flat_map(|image| &image.tags);
        let count = |phase: &str| number(tag_statuses().filter(|one| one.phase == phase).count());
        (status.succeeded, status.failed, status.pulling) =
            (count("Succeeded"), count("Failed"), count("Pulling"));
        status.desired = number(spec.images.values().map(|image| image.tags.len()).sum());
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn judged(tag: Value, statuses: Value, minutes: i64) -> Judged {
        let created: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut tag = tag;
        tag["createdAt"] = json!(created);
        let spec = from_value(json!({"images": {"nginx": {"tags": [tag]}}})).unwrap();
        let status = json!({"desired": 1, "imageStatuses": statuses});
        let now = created + SignedDuration::from_mins(minutes);
        judge(&spec, &from_value(status).unwrap(), now)
    }

    #[test]
    fn a_node_that_does_not_answer_has_failed() {
        let tag = json!({"tag": "1", "version": 2});
        let old = json!({"nginx": {"tags": [{"tag": "1", "version": 1, "phase": "Succeeded"}]},
            "other": {"tags": [{"tag": "1", "phase": "Succeeded"}]}});
        for statuses in [json!({}), old] {
            let early = judged(tag.clone(), statuses.clone(), 9);
            assert_eq!(early.waits, [Duration::from_secs(60)]);
            assert!(early.failed.is_empty());
            let late = judged(tag.clone(), statuses, 10);
            let tag_status = late.status.tag("nginx", "1").unwrap();
            assert_eq!(
                (tag_status.phase.as_str(), tag_status.version),
                ("Failed", 2)
            );
            assert_eq!(tag_status.message, "node has not responded for a long time");
            assert!(tag_status.completion_time.is_some());
            assert_eq!((late.status.desired, late.status.failed), (1, 1));
            assert_eq!((late.status.succeeded, late.failed.len()), (0, 1));
            assert!(
                late.status.tag("other", "1").is_none(),
                "nobody asks for it"
            );
        }
    }

    #[test]
    fn a_pull_beyond_its_deadline_has_failed() {
        let tag = json!({"tag": "1", "pullPolicy": {"activeDeadlineSeconds": 120}});
        let pulling = json!({"nginx": {"tags": [{"tag": "1", "phase": "Pulling"}]}});
        let early = judged(tag.clone(), pulling.clone(), 11);
        assert_eq!(
            (early.waits, early.failed),
            (vec![Duration::from_secs(60)], vec![])
        );
        let late = judged(tag.clone(), pulling, 12);
        let tag_status = late.status.tag("nginx", "1").unwrap();
        assert_eq!(
            tag_status.message,
            "pulling exceeds the activeDeadlineSeconds"
        );
        let over = json!({"nginx": {"tags": [{"tag": "1", "phase": "Succeeded", "completionTime": "2026-01-01T00:00:03Z"}]}});
        let fine = judged(tag, over, 60);
        assert!(fine.failed.is_empty() && fine.waits.is_empty());
    }
}
