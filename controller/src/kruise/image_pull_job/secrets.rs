//! Copies of secrets for the daemons of the nodes, which see those of one namespace only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use kubeproof_runtime::named_expectations::Expected;
use kubeproof_runtime::store::ObjectKey;
use kubeproof_runtime::sync_error::Error;

use super::{Controller, DAEMON_NAMESPACE, Job};
use crate::kruise::api::node_image::ReferenceObject;

/// The annotation with the secret that a copy is of.
const SOURCE: &str = "imagepulljobs.kruise.io/source-key";
/// The label with its uid, by which those before 1.9 find the copy. Upstream's newest sets it no more.
const SOURCE_UID: &str = "imagepulljobs.kruise.io/source-uid";
/// The annotation with the jobs that need a copy.
const REFERENCES: &str = "imagepulljobs.kruise.io/references";
/// The annotation with the copy's mode, which is that of the references to it.
const MODE: &str = "imagepulljobs.kruise.io/mode";
const BATCH: &str = "batch";
/// How much of a secret's uid the name of its copy has.
const SUFFIX: usize = 6;

/// The jobs that need the copy.
pub(super) fn jobs(copy: &Secret) -> BTreeSet<ObjectKey> {
    let text = copy.annotations().get(REFERENCES).cloned();
    let text = text.unwrap_or_default();
    let keys = text.split(',').filter_map(|key| {
        let (namespace, name) = key.split_once('/')?;
        Some(ObjectKey {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    });
    keys.collect()
}

fn references(jobs: &BTreeSet<ObjectKey>) -> String {
    let keys = jobs.iter().map(text);
    keys.collect::<Vec<_>>().join(",")
}

fn text(key: &ObjectKey) -> String {
    format!("{}/{}", key.namespace, key.name)
}

/// The copies that a job needs, by the name of their source, and those that it needs no longer.
struct Classified {
    needed: BTreeMap<String, Option<Arc<Secret>>>,
    released: Vec<Arc<Secret>>,
}

/// Sorts out what `copies` are to the job; they come by name.
fn classify(job: &Job, copies: Vec<Arc<Secret>>) -> Classified {
    let key = job.key();
    let wanted = job.spec.pull_secrets.iter().filter(|_| !job.is_over());
    let mut needed: BTreeMap<String, Option<Arc<Secret>>> =
        wanted.map(|name| (name.clone(), None)).collect();
    let mut released = Vec::new();
    for copy in copies {
        if copy.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let is_used = jobs(&copy).contains(&key);
        let source = copy.annotations().get(SOURCE).cloned().unwrap_or_default();
        let source = source.split_once('/');
        let own = source.filter(|(namespace, _)| *namespace == job.namespace());
        match own.and_then(|(_, name)| needed.get_mut(name)) {
            // Prefer the copy that is used already, else the first.
            Some(found) if found.is_none() || is_used => *found = Some(copy),
            Some(_) => {}
            None if is_used => released.push(copy),
            None => {}
        }
    }
    Classified { needed, released }
}

/// A copy of `source` that the job needs.
fn copy_of(source: &Secret, job: &ObjectKey) -> Secret {
    let uid = source.uid().unwrap_or_default();
    let suffix: String = uid
        .chars()
        .filter(char::is_ascii_hexdigit)
        .take(SUFFIX)
        .collect();
    let mut annotations = source.annotations().clone();
    let origin = ObjectKey::of(source);
    annotations.insert(REFERENCES.to_owned(), text(job));
    annotations.insert(SOURCE.to_owned(), text(&origin));
    annotations.insert(MODE.to_owned(), BATCH.to_owned());
    let mut labels = source.labels().clone();
    labels.insert(SOURCE_UID.to_owned(), uid);
    Secret {
        metadata: ObjectMeta {
            namespace: Some(DAEMON_NAMESPACE.to_owned()),
            name: Some(format!("{}-{suffix}", source.name_any())),
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        ..source.clone()
    }
}

fn reference(copy: &Secret) -> ReferenceObject {
    ReferenceObject {
        namespace: DAEMON_NAMESPACE.to_owned(),
        name: copy.name_any(),
        mode: copy.annotations().get(MODE).cloned().unwrap_or_default(),
    }
}

impl Controller {
    /// Updates the copies that the job needs, and releases the others; returns references to the
    /// needed copies.
    pub(super) async fn sync_secrets(&self, job: &Job) -> Result<Vec<ReferenceObject>, Error> {
        if job.spec.pull_secrets.is_empty() && !job.is_over() {
            return Ok(Vec::new());
        }
        if job.namespace() == DAEMON_NAMESPACE {
            let names = job.spec.pull_secrets.iter();
            let references = names.map(|name| ReferenceObject {
                namespace: DAEMON_NAMESPACE.to_owned(),
                name: name.clone(),
                mode: String::new(),
            });
            return Ok(references.collect());
        }
        self.check_namespace().await?;
        let copies = self.secrets.in_namespace(DAEMON_NAMESPACE);
        let Classified { needed, released } = classify(job, copies);
        for copy in released {
            self.release(job, &copy).await?;
        }
        let mut references = Vec::new();
        for (name, copy) in needed {
            // Without a source there is nothing to copy.
            if let Some(source) = self.secrets.get(job.namespace(), &name) {
                references.push(self.claim(job, &source, copy).await?);
            }
        }
        Ok(references)
    }

    async fn check_namespace(&self) -> Result<(), Error> {
        let api: Api<Namespace> = Api::all(self.ctx.client.clone());
        let namespace = api.get(DAEMON_NAMESPACE).await?;
        match namespace.metadata.deletion_timestamp {
            None => Ok(()),
            Some(_) => Err(Error::Refused(format!(
                "namespace({DAEMON_NAMESPACE}) is being deleted"
            ))),
        }
    }

    fn copies(&self) -> Api<Secret> {
        Api::namespaced(self.ctx.client.clone(), DAEMON_NAMESPACE)
    }

    async fn release(&self, job: &Job, copy: &Secret) -> Result<(), Error> {
        let mut left = jobs(copy);
        left.remove(&job.key());
        let name = copy.name_any();
        let outcome = if left.is_empty() {
            let deleted = self.copies().delete(&name, &DeleteParams::default()).await;
            deleted.map(drop)
        } else {
            let mut copy = copy.clone();
            let annotations = copy.annotations_mut();
            annotations.insert(REFERENCES.to_owned(), references(&left));
            let params = PostParams::default();
            self.copies().replace(&name, &params, &copy).await.map(drop)
        };
        match outcome.map_err(Error::from) {
            Err(error) if error.is_not_found() => Ok(()),
            outcome => outcome,
        }
    }

    async fn claim(
        &self,
        job: &Job,
        source: &Secret,
        copy: Option<Arc<Secret>>,
    ) -> Result<ReferenceObject, Error> {
        let (key, params) = (job.key(), PostParams::default());
        let Some(copy) = copy else {
            let copy = copy_of(source, &key);
            let name = copy.name_any();
            self.expectations.expect(&key, Expected::Creation, &name);
            if let Err(error) = self.copies().create(&params, &copy).await {
                self.expectations.observe(&key, Expected::Creation, &name);
                return Err(error.into());
            }
            return Ok(reference(&copy));
        };
        let mut using = jobs(&copy);
        using.insert(key);
        let mut changed = Secret::clone(&copy);
        changed.data.clone_from(&source.data);
        let annotations = changed.annotations_mut();
        annotations.insert(REFERENCES.to_owned(), references(&using));
        if changed != *copy {
            let name = copy.name_any();
            self.copies().replace(&name, &params, &changed).await?;
        }
        Ok(reference(&copy))
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;
    use crate::kruise::api::image_pull_job::ImagePullJobStatus;

    fn job(secrets: Value, completed: bool) -> Job {
        let object = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob",
            "metadata": {"name": "j", "namespace": "ns"}});
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let spec = json!({"image": "nginx", "completionPolicy": {}, "pullSecrets": secrets});
        Job {
            object: from_value(object).unwrap(),
            spec: from_value(spec).unwrap(),
            status: ImagePullJobStatus {
                completion_time: completed.then_some(now),
                ..ImagePullJobStatus::default()
            },
        }
    }

    fn copy(name: &str, source: &str, jobs: &str) -> Arc<Secret> {
        let annotations = json!({(SOURCE): source, (REFERENCES): jobs});
        let secret = json!({"metadata": {"name": name, "annotations": annotations}});
        Arc::new(from_value(secret).unwrap())
    }

    /// The copy of each secret that the job needs, and the copies that it releases.
    fn classified(job: &Job, copies: &[Arc<Secret>]) -> (Vec<(String, String)>, Vec<String>) {
        let Classified { needed, released } = classify(job, copies.to_vec());
        let name = |copy: &Arc<Secret>| copy.name_any();
        let needed = needed.iter().map(|(source, copy)| {
            let copy = copy.as_ref().map_or_else(String::new, name);
            (source.clone(), copy)
        });
        (needed.collect(), released.iter().map(name).collect())
    }

    #[test]
    fn copies_are_shared_and_let_go() {
        let copies = [
            copy("a-1", "ns/a", "ns/other"),
            copy("a-2", "ns/a", "ns/j,ns/other"),
            copy("b-1", "other/b", ""),
            copy("old", "ns/c", "ns/j"),
            copy("plain", "", ""),
        ];
        let pair = |source: &str, copy: &str| (source.to_owned(), copy.to_owned());
        let running = classified(&job(json!(["a", "b"]), false), &copies);
        assert_eq!(running.0, [pair("a", "a-2"), pair("b", "")]);
        assert_eq!(running.1, ["old"]);
        let over = classified(&job(json!(["a", "b"]), true), &copies);
        assert_eq!(over, (vec![], vec!["a-2".to_owned(), "old".to_owned()]));
    }

    #[test]
    fn a_copy_names_its_source_and_its_job() {
        let source = json!({"metadata": {"name": "s", "namespace": "ns", "uid": "0a1b2c3d-4e",
            "labels": {"l": "1"}, "resourceVersion": "7"}, "type": "Opaque", "data": {"k": "dg=="}});
        let source: Secret = from_value(source).unwrap();
        let copy = copy_of(&source, &job(json!([]), false).key());
        assert_eq!(
            (copy.name_any().as_str(), copy.resource_version()),
            ("s-0a1b2c", None)
        );
        assert_eq!((&copy.data, &copy.type_), (&source.data, &source.type_));
        assert_eq!(copy.labels()["l"], "1");
        assert_eq!(copy.annotations()[SOURCE], "ns/s");
        let jobs: Vec<String> = jobs(&copy).iter().map(text).collect();
        assert_eq!(jobs, ["ns/j"]);
        assert_eq!(reference(&copy).mode, "batch");
    }
}
