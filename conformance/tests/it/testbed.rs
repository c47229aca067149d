//! Controllers under test in a testbed: one that works, and variants of it with planted bugs that exploration finds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::admissionregistration::v1::{TypeChecking, ValidatingAdmissionPolicy};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use kubeproof::explore::{self, Kind, Options, Report};
use kubeproof::testbed::{Testbed, TestbedBuilder};
use kubeproof_apiserver::Manifests;
use kubeproof_apiserver::meta::ResourceVersion;
use parking_lot::Mutex;
use serde_json::json;

use crate::support::SITES;

const AGENT: &str = "copier";
const FINALIZER: &str = "example.com/copies";

/// Keeps a copy of every ConfigMap labelled `copy: "yes"` in another one, `NAME-copy`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    /// It notes that the copy is made before it makes it, and believes the note.
    NotesFirst,
    /// It creates the copy and keeps failing when the copy exists already.
    CreatesOnly,
    /// It deletes a copy as a leftover when its cache lacks the original.
    SweepsByCache,
    /// It removes its finalizer first and the copy afterwards.
    ReleasesFirst,
    /// It forgets a copy that it could not make.
    GivesUp,
    /// It learns that an original is gone from its deletion only.
    TrustsEvents,
    /// It has the server name its copies, and makes another one when it hears nothing of the first.
    GeneratesNames,
    /// It takes a conflict as a sign that another client has done the work.
    SwallowsConflicts,
    /// It removes those copies that it remembers to have made.
    RemembersCopies,
    /// It stops for good after the second failure.
    StopsAtTwo,
}

struct Copier {
    api: Api<ConfigMap>,
    bug: Bug,
    /// Forgotten in a crash: the copies it has made, and how often it has failed.
    made: Mutex<BTreeSet<String>>,
    failures: AtomicU32,
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Failure(#[from] kube::Error);

impl Copier {
    fn new(api: Api<ConfigMap>, bug: Bug) -> Self {
        Self {
            api,
            bug,
            made: Mutex::default(),
            failures: AtomicU32::new(0),
        }
    }

    async fn copy(&self, original: &ConfigMap) -> Result<(), kube::Error> {
        let name = format!("{}-copy", original.name_any());
        let is_noted = original.annotations().contains_key("copied");
        match self.bug {
            Bug::GeneratesNames | Bug::RemembersCopies if is_noted => return Ok(()),
            Bug::GeneratesNames => return self.copy_somehow_named(original).await,
            _ => {}
        }
        if self.bug == Bug::NotesFirst {
            if is_noted {
                return Ok(());
            }
            self.note(original).await?;
        }
        let copy = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"copied": "true"}},
            "data": original.data,
        });
        match self.bug {
            Bug::CreatesOnly | Bug::GivesUp => {
                let copy: ConfigMap = serde_json::from_value(copy).unwrap();
                if !is_noted {
                    let made = self.api.create(&PostParams::default(), &copy).await;
                    if self.bug == Bug::CreatesOnly {
                        made?;
                    }
                    self.note(original).await?;
                }
            }
            _ => {
                let params = PatchParams::apply(AGENT).force();
                self.api.patch(&name, &params, &Patch::Apply(copy)).await?;
                if self.bug == Bug::RemembersCopies {
                    self.made.lock().insert(original.name_any());
                    self.note(original).await?;
                }
            }
        }
        Ok(())
    }

    async fn copy_somehow_named(&self, original: &ConfigMap) -> Result<(), kube::Error> {
        let mut copy = ConfigMap {
            data: original.data.clone(),
            ..ConfigMap::default()
        };
        copy.metadata.generate_name = Some("copy-".to_owned());
        copy.metadata.labels = Some([("of".to_owned(), original.name_any())].into());
        if self
            .api
            .create(&PostParams::default(), &copy)
            .await
            .is_err()
        {
            self.api.create(&PostParams::default(), &copy).await?;
        }
        self.note(original).await
    }

    async fn remove_copies_of(&self, name: &str) -> Result<(), kube::Error> {
        let of = kube::api::ListParams::default().labels(&format!("of={name}"));
        self.api
            .delete_collection(&DeleteParams::default(), &of)
            .await
            .map(|_| ())
    }

    /// Removes the finalizer by an update of what its cache holds.
    async fn release_once(&self, original: &ConfigMap) -> Result<(), kube::Error> {
        let mut released = original.clone();
        released.metadata.finalizers = None;
        let (name, params) = (original.name_any(), PostParams::default());
        match self.api.replace(&name, &params, &released).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            other => other.map(|_| ()),
        }
    }

    async fn note(&self, original: &ConfigMap) -> Result<(), kube::Error> {
        let note = json!({"metadata": {"annotations": {"copied": "true"}}});
        let (name, params) = (original.name_any(), PatchParams::default());
        self.api.patch(&name, &params, &Patch::Merge(note)).await?;
        Ok(())
    }

    async fn remove_copy(&self, name: &str) -> Result<(), kube::Error> {
        match self.bug {
            Bug::GeneratesNames => return self.remove_copies_of(name).await,
            Bug::RemembersCopies if !self.made.lock().contains(name) => return Ok(()),
            _ => {}
        }
        let (name, params) = (format!("{name}-copy"), DeleteParams::default());
        match self.api.delete(&name, &params).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => other.map(|_| ()),
        }
    }

    async fn release(&self, original: &ConfigMap) -> Result<(), kube::Error> {
        let released = json!({"metadata": {"finalizers": null}});
        let (name, params) = (original.name_any(), PatchParams::default());
        self.api
            .patch(&name, &params, &Patch::Merge(released))
            .await?;
        Ok(())
    }
}

async fn reconcile(original: Arc<ConfigMap>, copier: Arc<Copier>) -> Result<Action, Failure> {
    if copier.bug == Bug::StopsAtTwo && copier.failures.load(Ordering::Relaxed) >= 2 {
        return Ok(Action::await_change());
    }
    let is_leaving = original.meta().deletion_timestamp.is_some()
        && original.finalizers().iter().any(|own| own == FINALIZER);
    if is_leaving && copier.bug == Bug::ReleasesFirst {
        copier.release(&original).await?;
        copier.remove_copy(&original.name_any()).await?;
        return Ok(Action::await_change());
    }
    if is_leaving && copier.bug == Bug::SwallowsConflicts {
        copier.remove_copy(&original.name_any()).await?;
        copier.release_once(&original).await?;
        return Ok(Action::await_change());
    }
    let api = copier.api.clone();
    let work = Arc::clone(&copier);
    let done = finalizer(&api, FINALIZER, original, |event| async move {
        match event {
            finalizer::Event::Apply(original) => work.copy(&original).await?,
            finalizer::Event::Cleanup(original) => work.remove_copy(&original.name_any()).await?,
        }
        Ok::<_, kube::Error>(Action::await_change())
    });
    match done.await {
        Ok(action) => Ok(action),
        Err(finalizer::Error::ApplyFailed(error) | finalizer::Error::CleanupFailed(error)) => {
            copier.failures.fetch_add(1, Ordering::Relaxed);
            Err(Failure(error))
        }
        // The object was gone or changed meanwhile: its next event says more.
        Err(_) => Ok(Action::requeue(Duration::from_secs(1))),
    }
}

/// Runs the copier until its task is dropped.
async fn run(client: Client, bug: Bug) {
    let api = Api::<ConfigMap>::default_namespaced(client);
    match bug {
        Bug::SweepsByCache => return sweep(api).await,
        Bug::TrustsEvents => return follow(api).await,
        _ => {}
    }
    let labelled = watcher::Config::default().labels("copy=yes");
    let copier = Arc::new(Copier::new(api.clone(), bug));
    Controller::new(api, labelled)
        .run(
            reconcile,
            |_, _: &Failure, _| Action::requeue(Duration::from_secs(1)),
            copier,
        )
        .for_each(|_| async {})
        .await;
}

/// Copies once, noting so, and removes copies whose originals a list out of the server's cache lacks.
async fn sweep(api: Api<ConfigMap>) {
    let copier = Copier::new(api.clone(), Bug::CreatesOnly);
    // In pages there is no list of whatever version the server has at hand.
    let cached = watcher::Config {
        page_size: None,
        ..watcher::Config::default().labels("copy=yes").any_semantic()
    };
    let mut originals = BTreeSet::new();
    let mut events = watcher(api.clone(), cached).boxed();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::InitDone) => {
                let Ok(copies) = api
                    .list(&kube::api::ListParams::default().labels("copied=true"))
                    .await
                else {
                    continue;
                };
                for copy in copies {
                    let name = copy.name_any();
                    let original = name.trim_end_matches("-copy").to_owned();
                    if !originals.contains(&original) {
                        let _ = copier.remove_copy(&original).await;
                    }
                }
            }
            Ok(watcher::Event::InitApply(original) | watcher::Event::Apply(original)) => {
                originals.insert(original.name_any());
                // The note is read live, so that no copy is made twice.
                if let Ok(original) = api.get(&original.name_any()).await {
                    let _ = copier.copy(&original).await;
                }
            }
            Ok(watcher::Event::Delete(original)) => {
                originals.remove(&original.name_any());
                let _ = copier.remove_copy(&original.name_any()).await;
            }
            Ok(watcher::Event::Init) | Err(_) => {}
        }
    }
}

/// Copies upon each event, and removes a copy upon the event that its original is deleted.
async fn follow(api: Api<ConfigMap>) {
    let copier = Copier::new(api.clone(), Bug::None);
    let labelled = watcher::Config::default().labels("copy=yes");
    let mut events = watcher(api, labelled).boxed();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::InitApply(original) | watcher::Event::Apply(original)) => {
                while copier.copy(&original).await.is_err() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            Ok(watcher::Event::Delete(original)) => {
                while copier.remove_copy(&original.name_any()).await.is_err() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            _ => {}
        }
    }
}

fn bed(bug: Bug) -> TestbedBuilder {
    Testbed::builder().controller(AGENT, move |client| run(client, bug))
}

const ORIGINALS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: a, labels: {copy: \"yes\"}}
data: {colour: red}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b, labels: {copy: \"yes\"}}
data: {colour: blue}
";

/// Makes two originals and deletes one of them.
fn explore(bug: Bug, kinds: &[Kind], pairs_max: usize) -> Report {
    let options = Options {
        kinds: kinds.iter().copied().collect(),
        pairs_max,
        ..Options::default()
    };
    let script = async |testbed: &Testbed| {
        testbed.apply(ORIGINALS).await?;
        testbed.settle(Duration::from_secs(60)).await?;
        let api = Api::<ConfigMap>::default_namespaced(testbed.client());
        api.delete("b", &DeleteParams::default()).await?;
        testbed.settle(Duration::from_secs(60)).await?;
        Ok(())
    };
    let bed = bed(bug).shows(["configmaps"]);
    explore::testbed(&bed, &options, script).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_controller_of_ones_own_in_five_lines() {
    let testbed = bed(Bug::None).start().await.unwrap();
    testbed.apply(ORIGINALS).await.unwrap();
    testbed.settle(Duration::from_secs(60)).await.unwrap();
    let timeline = testbed.timeline();
    assert!(
        timeline.contains("copier                      configmap a-copy created"),
        "{timeline}"
    );
    testbed.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_timeline_begins_with_what_was_given() {
    let given = "
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: shop}
";
    let testbed = Testbed::builder()
        .nodes(2)
        .controllers(["garbage-collector", "namespace"])
        .namespace("shop")
        .default_storage_class()
        .manifests(Manifests::new().yaml(given).unwrap())
        .start()
        .await
        .unwrap();
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}";
    testbed.apply(map).await.unwrap();
    insta::assert_snapshot!(testbed.timeline(), @r"
    # given: 2 nodes; controllers: garbage-collector, namespace; namespace: shop; a default storage class with its provisioner; namespace shop
    #        configmap a
      +0s      test                        configmap b created
    ");
    let all = testbed.timeline_since(ResourceVersion::ZERO);
    assert!(all.contains("configmap a created"), "{all}");
    testbed.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_in_a_timeline_by_its_conditions() {
    let testbed = Testbed::builder().start().await.unwrap();
    testbed.apply(SITES).await.unwrap();
    insta::assert_snapshot!(testbed.timeline(), @r"
    # given: no nodes; no controllers
      +0s      test                        customresourcedefinition sites.example.com created
      +0s      -                           customresourcedefinition sites.example.com NamesAccepted True (NoConflicts), Established False (Installing)
      +0s      -                           customresourcedefinition sites.example.com Established True (InitialNamesAccepted)
      +0s      -                           apiservice v1.example.com created
    ");
    testbed.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_outcome_has_each_table_once() {
    let objects = "
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: example.com/v1
kind: Site
metadata: {name: shop}
";
    let testbed = Testbed::builder()
        .manifests(Manifests::new().yaml(SITES).unwrap())
        .shows(["rs", "sites", "replicasets"])
        .start()
        .await
        .unwrap();
    testbed.apply(objects).await.unwrap();
    insta::assert_snapshot!(testbed.outcome().await.unwrap(), @r"

      NAME   DESIRED   CURRENT   READY
      web    0         0         0

      NAME
      shop
    ");
    testbed.shutdown().await;
}

#[test]
fn a_controller_with_finalizers_that_works_comes_through_everything() {
    let report = explore(Bug::None, &[], 0);
    assert!(report.runs > 50, "{report}");
    assert!(report.diverged.is_empty(), "{report}");
}

/// Explores a planted bug; the plans that find it, and what they come to.
fn found(bug: Bug) -> Vec<String> {
    let report = explore(bug, &[], 0);
    let plans = report.diverged.iter().map(|(plan, _)| plan.to_string());
    plans.collect()
}

#[test]
fn a_note_before_the_deed_is_found_by_a_crash() {
    let plans = found(Bug::NotesFirst);
    let crash = "crash-after patch configmaps default/a #2 from copier";
    assert!(plans.iter().any(|plan| plan == crash), "{plans:#?}");
}

#[test]
fn a_create_that_is_not_repeatable_is_found_by_a_lost_answer() {
    let plans = found(Bug::CreatesOnly);
    let lost = "lose-answer create configmaps default/a-copy from copier";
    assert!(plans.iter().any(|plan| plan == lost), "{plans:#?}");
}

#[test]
fn a_leftover_by_a_stale_cache_is_found_by_travel_in_time() {
    let plans = found(Bug::SweepsByCache);
    assert!(
        plans.iter().any(|plan| plan.starts_with("stale-restart")),
        "{plans:#?}"
    );
}

#[test]
fn a_finalizer_removed_too_early_is_found_by_a_crash() {
    let plans = found(Bug::ReleasesFirst);
    let crash = "crash-after patch configmaps default/b #2 from copier";
    assert!(plans.iter().any(|plan| plan == crash), "{plans:#?}");
}

#[test]
fn a_failure_that_is_forgotten_is_found_by_a_refusal() {
    let plans = found(Bug::GivesUp);
    let refused = "refuse create configmaps default/a-copy from copier";
    assert!(plans.iter().any(|plan| plan == refused), "{plans:#?}");
}

#[test]
fn a_deletion_that_must_be_seen_is_found_by_a_missed_event() {
    let plans = found(Bug::TrustsEvents);
    assert!(
        plans.iter().any(|plan| plan.starts_with("expire DELETED")),
        "{plans:#?}"
    );
}

#[test]
fn a_copy_that_the_server_names_is_made_twice_when_its_answer_is_lost() {
    let plans = found(Bug::GeneratesNames);
    let lost = "lose-answer create configmaps default/ from copier";
    assert!(plans.iter().any(|plan| plan == lost), "{plans:#?}");
}

#[test]
fn a_conflict_that_is_swallowed_is_found_by_a_conflict() {
    let plans = found(Bug::SwallowsConflicts);
    let conflict = "conflict update configmaps default/b from copier";
    assert!(plans.iter().any(|plan| plan == conflict), "{plans:#?}");
}

#[test]
fn what_is_only_remembered_is_found_by_a_crash() {
    let plans = found(Bug::RemembersCopies);
    let crash = "crash-after patch configmaps default/b #2 from copier";
    assert!(plans.iter().any(|plan| plan == crash), "{plans:#?}");
}

#[test]
fn what_bears_one_failure_and_not_two_is_found_by_a_pair() {
    let kinds = [Kind::Refuse];
    let one = explore(Bug::StopsAtTwo, &kinds, 0);
    assert!(one.diverged.is_empty(), "{one}");
    let two = explore(Bug::StopsAtTwo, &kinds, usize::MAX);
    let faults = two.diverged.iter().map(|(plan, _)| plan.faults().len());
    assert!(
        faults.len() > 0 && faults.clone().all(|count| count == 2),
        "{two}"
    );
}

#[tokio::test(start_paused = true)]
async fn expressions_of_policies_are_checked_against_the_types_of_objects() {
    let policies = r#"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: fits}
spec:
  matchConstraints: MATCHED
  validations: [{expression: "object.spec.replicas > 1"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: confused}
spec:
  matchConstraints: MATCHED
  paramKind: {apiVersion: v1, kind: ConfigMap}
  variables: [{name: wanted, expression: object.spec.replicas}]
  validations:
  - {expression: "variables.wanted > '1'"}
  - {expression: "params.data.x == 'a'", messageExpression: "'got ' + object.spec.strategy"}
"#;
    let matched = r#"{resourceRules: [
      {operations: ["*"], apiGroups: [apps], apiVersions: [v1], resources: [deployments]},
      {operations: ["*"], apiGroups: [example.com], apiVersions: [v1], resources: [sites]}]}"#;
    let policies = format!("{SITES}{}", policies.replace("MATCHED", matched));
    let builder = Testbed::builder().controllers(["validatingadmissionpolicy-status"]);
    let testbed = builder.start().await.unwrap();
    testbed.apply(&policies).await.unwrap();
    testbed.settle(Duration::from_secs(60)).await.unwrap();
    let api: Api<ValidatingAdmissionPolicy> = Api::all(testbed.client().clone());
    let status = api.get("fits").await.unwrap().status.unwrap();
    assert_eq!(status.observed_generation, Some(1));
    assert_eq!(status.type_checking, Some(TypeChecking::default()));
    let status = api.get("confused").await.unwrap().status.unwrap();
    let warnings = status.type_checking.unwrap().expression_warnings.unwrap();
    let overload = "found no matching overload for";
    let warning = format!(
        "apps/v1, Kind=Deployment: ERROR: <input>:1:18: {overload} '_>_' applied to '(int, string)'
 | variables.wanted > '1'
 | .................^

example.com/v1, Kind=Site: ERROR: <input>:1:18: {overload} '_>_' applied to '(int, string)'
 | variables.wanted > '1'
 | .................^
"
    );
    assert_eq!(warnings[0].field_ref, "spec.validations[0].expression");
    assert_eq!(warnings[0].warning, warning);
    assert_eq!(
        warnings[1].field_ref,
        "spec.validations[1].messageExpression"
    );
    let wanted = "'_+_' applied to '(string, Deployment0.spec.strategy)'";
    assert!(
        warnings[1].warning.contains(wanted),
        "{}",
        warnings[1].warning
    );
    assert!(warnings[1].warning.contains("undefined field 'strategy'"));
    assert_eq!(warnings.len(), 2);
}
