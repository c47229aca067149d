//! How far a job is.

use jiff::Timestamp;
use kubeproof_runtime::clock::go_seconds;

use crate::kruise::api::image_pull_job::{ImagePullJobSpec, ImagePullJobStatus, NEVER};
use crate::kruise::api::node_image::{NodeImageSpec, NodeImageStatus, ReferenceObject};
use crate::kruise::in_place::whole_second;

/// The images of a node: wanted and reported.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) spec: NodeImageSpec,
    pub(super) status: NodeImageStatus,
}

/// The request of a job to each node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// The job.
    pub(super) uid: &'a str,
    pub(super) spec: &'a ImagePullJobSpec,
    /// The image's name and tag.
    pub(super) image: &'a str,
    pub(super) tag: &'a str,
    /// Secrets for the registry, as the nodes know them.
    pub(super) secrets: &'a [ReferenceObject],
}

/// How far a job is.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) status: ImagePullJobStatus,
    /// The nodes that have to be asked, by name.
    pub(super) not_asked: Vec<String>,
}

#[derive(Default)]
struct Counted {
    not_asked: Vec<String>,
    pulling: Vec<String>,
    succeeded: Vec<String>,
    failed: Vec<String>,
}

/// Whether `secrets` has `wanted`, in whatever mode.
pub(super) fn has_secret(secrets: &[ReferenceObject], wanted: &ReferenceObject) -> bool {
    let is_it =
        |one: &ReferenceObject| one.namespace == wanted.namespace && one.name == wanted.name;
    secrets.iter().any(is_it)
}

/// Counts the nodes; `known` is the status that the job has.
pub(super) fn progress(
    wanted: Wanted<'_>,
    known: &ImagePullJobStatus,
    nodes: &[Node],
    now: Timestamp,
) -> Progress {
    let start = known.start_time.unwrap_or(whole_second(now));
    let mut counted = Counted::default();
    for node in nodes {
        counted.add(wanted, node);
    }
    counted.not_asked.sort();
    let mut status = ImagePullJobStatus {
        start_time: Some(start),
        desired: number(nodes.len()),
        ..ImagePullJobStatus::default()
    };
    let policy = &wanted.spec.completion_policy;
    let ends = policy.type_ != NEVER;
    let are_over = nodes.len() == counted.succeeded.len() + counted.failed.len();
    let deadline = policy.active_deadline_seconds.filter(|_| ends && !are_over);
    status.succeeded = number(counted.succeeded.len());
    if deadline.is_some_and(|seconds| go_seconds(seconds) <= now.duration_since(start)) {
        let given_up = [counted.failed, counted.pulling, counted.not_asked].concat();
        status.completion_time = Some(whole_second(now));
        status.failed = number(given_up.len());
        status.failed_nodes = given_up;
        "job exceeds activeDeadlineSeconds".clone_into(&mut status.message);
        return Progress {
            status,
            not_asked: Vec::new(),
        };
    }
    counted.failed.sort();
    status.active = number(counted.pulling.len());
    status.failed = number(counted.failed.len());
    status.failed_nodes = counted.failed;
    if ends && are_over {
        status.completion_time = Some(whole_second(now));
    }
    status.message = message(&status);
    Progress {
        status,
        not_asked: counted.not_asked,
    }
}

impl Counted {
    /// A node that lacks a secret is to be asked, whatever it does meanwhile.
    fn add(&mut self, wanted: Wanted<'_>, node: &Node) {
        let image = node.spec.images.get(wanted.image);
        let has = image.map_or(&[][..], |image| &image.pull_secrets);
        let lacks = image.is_some() && !wanted.secrets.iter().all(|one| has_secret(has, one));
        let mut tags = image.into_iter().flat_map(|image| &image.tags);
        let is_own = |uid: &Option<String>| uid.as_deref() == Some(wanted.uid);
        let asked = tags
            .find(|tag| tag.tag == wanted.tag)
            .filter(|tag| tag.owner_references.iter().any(|own| is_own(&own.uid)));
        if lacks || asked.is_none() {
            self.not_asked.push(node.name.clone());
        }
        let Some(asked) = asked else {
            return;
        };
        let tag_status = node.status.tag(wanted.image, wanted.tag);
        let reported = tag_status.filter(|one| one.version == asked.version);
        let list = match reported.map(|one| one.phase.as_str()) {
            Some("Succeeded") => &mut self.succeeded,
            Some("Failed") => &mut self.failed,
            _ => &mut self.pulling,
        };
        list.push(node.name.clone());
    }
}

fn message(status: &ImagePullJobStatus) -> String {
    if status.completion_time.is_some() {
        return "job has completed".to_owned();
    }
    if status.desired == 0 {
        return "job is running, no progress".to_owned();
    }
    let over = f64::from(status.succeeded + status.failed);
    let percent = 100.0 * over / f64::from(status.desired);
    format!("job is running, progress {percent:.1}%")
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    const START: &str = "2026-01-01T00:00:00Z";

    /// A node with a request of version 2 and the status `reported` of its tag.
    fn node(name: &str, owner: &str, reported: Value) -> Node {
        let tag = json!({"tag": "1", "version": 2, "ownerReferences": [{"uid": owner}]});
        let spec = json!({"images": {"nginx": {"tags": [tag], "pullSecrets": [{"namespace": "k", "name": "s", "mode": "batch"}]}}});
        let status = json!({"desired": 1, "imageStatuses": {"nginx": {"tags": [reported]}}});
        Node {
            name: name.to_owned(),
            spec: from_value(spec).unwrap(),
            status: from_value(status).unwrap(),
        }
    }

    fn tag_status(version: i64, phase: &str) -> Value {
        json!({"tag": "1", "version": version, "phase": phase})
    }

    fn seen(policy: Value, nodes: &[Node], secret: &str, seconds: i64) -> Progress {
        let spec = json!({"image": "nginx:1", "completionPolicy": policy});
        let spec = from_value(spec).unwrap();
        let start: Timestamp = START.parse().unwrap();
        let known = ImagePullJobStatus {
            start_time: Some(start),
            ..ImagePullJobStatus::default()
        };
        let secret = ReferenceObject {
            namespace: "k".to_owned(),
            name: secret.to_owned(),
            mode: String::new(),
        };
        let wanted = Wanted {
            uid: "job",
            spec: &spec,
            image: "nginx",
            tag: "1",
            secrets: &[secret],
        };
        progress(
            wanted,
            &known,
            nodes,
            start + SignedDuration::from_secs(seconds),
        )
    }

    fn counts(status: &ImagePullJobStatus) -> [i32; 4] {
        [
            status.desired,
            status.active,
            status.succeeded,
            status.failed,
        ]
    }

    #[test]
    fn nodes_are_counted_by_their_status_for_this_request() {
        let nodes = [
            Node {
                name: "e".to_owned(),
                ..Node::default()
            },
            node("a", "job", tag_status(2, "Succeeded")),
            node("b", "job", tag_status(2, "Failed")),
            node("c", "job", tag_status(2, "Pulling")),
            node("d", "job", tag_status(1, "Succeeded")),
            node("f", "another", tag_status(2, "Succeeded")),
        ];
        let progress = seen(json!({"type": "Always"}), &nodes, "s", 5);
        assert_eq!(counts(&progress.status), [6, 2, 1, 1]);
        assert_eq!(progress.not_asked, ["e", "f"]);
        assert_eq!(progress.status.failed_nodes, ["b"]);
        assert_eq!(progress.status.message, "job is running, progress 33.3%");
        assert_eq!(progress.status.completion_time, None);
        let none = seen(json!({"type": "Never"}), &[], "s", 5).status;
        assert_eq!(none.message, "job is running, no progress");
    }

    #[test]
    fn a_node_without_a_secret_is_asked_again() {
        let nodes = [node("a", "job", tag_status(2, "Succeeded"))];
        let progress = seen(json!({"type": "Never"}), &nodes, "other", 5);
        assert_eq!(progress.not_asked, ["a"]);
        assert_eq!(counts(&progress.status), [1, 0, 1, 0]);
    }

    #[test]
    fn a_job_is_over_when_all_nodes_are_unless_it_never_is() {
        let nodes = [
            node("a", "job", tag_status(2, "Succeeded")),
            node("b", "job", tag_status(2, "Failed")),
        ];
        let over = seen(
            json!({"type": "Always", "activeDeadlineSeconds": 5}),
            &nodes,
            "s",
            9,
        );
        assert_eq!(over.status.message, "job has completed");
        assert_eq!(
            over.status.completion_time.unwrap().to_string(),
            "2026-01-01T00:00:09Z"
        );
        let never = seen(json!({"type": "Never"}), &nodes, "s", 9);
        assert_eq!(never.status.message, "job is running, progress 100.0%");
        assert_eq!(never.status.completion_time, None);
        let nothing = seen(json!({"type": "Always"}), &[], "s", 9);
        assert!(
            nothing.status.completion_time.is_some(),
            "there is nothing to do"
        );
    }

    #[test]
    fn a_job_is_given_up_at_its_deadline() {
        let nodes = [
            Node {
                name: "d".to_owned(),
                ..Node::default()
            },
            node("c", "job", tag_status(2, "Pulling")),
            node("b", "job", tag_status(2, "Failed")),
            node("a", "job", tag_status(2, "Succeeded")),
        ];
        let policy = json!({"type": "Always", "activeDeadlineSeconds": 10});
        let early = seen(policy.clone(), &nodes, "s", 9);
        assert_eq!(early.status.completion_time, None);
        let late = seen(policy, &nodes, "s", 10);
        assert_eq!(late.status.message, "job exceeds activeDeadlineSeconds");
        assert_eq!(counts(&late.status), [4, 0, 1, 3]);
        assert_eq!(late.status.failed_nodes, ["b", "c", "d"]);
        assert!(late.not_asked.is_empty(), "nobody is asked any more");
    }
}
