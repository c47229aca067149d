//! Probes the containers that NodePodProbes name, and reports the results.
//!
//! A command runs like one that a user executes in the container: programs that only the image has
//! are not found. HTTP and sockets answer as for a kubelet's probes.
//!
//! Source: openkruise/kruise pkg/daemon/podprobe.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::join;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{HTTPGetAction, ObjectReference, TCPSocketAction};
use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use kubeproof_node::{Answer, Channel, Containers, ExecOptions, PodReference, REFUSED};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::decode::from_value;
use kubeproof_runtime::informer::Informer;
use kubeproof_runtime::recorder::{EventType, Recorder};
use kubeproof_runtime::store::{Change, ObjectKey};
use kubeproof_runtime::sync_error::Error;
use kubeproof_runtime::work_queue::{RetryDelays, WorkQueue};
use kubeproof_runtime::worker::{self, Reconcile};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::task::{AbortHandle, JoinSet};

use crate::kruise::in_place::whole_second;

const NAME: &str = "kruise-daemon-podprobe";
const WORKERS: usize = 1;
const RETRIES: RetryDelays = RetryDelays {
    first: Duration::from_millis(500),
    longest: Duration::from_secs(50),
};
/// The time after which an unchanged result is reported again.
const TELL_AGAIN: SignedDuration = SignedDuration::from_secs(600);
/// The longest message, in characters.
const MESSAGE_CHARS_MAX: usize = 1024;

struct Daemon {
    ctx: Context,
    resource: ApiResource,
    objects: Informer<DynamicObject>,
    probing: Arc<Probing>,
    workers: Mutex<Workers>,
}

/// The tasks that probe.
#[derive(Default)]
struct Workers {
    tasks: JoinSet<()>,
    by_key: BTreeMap<Key, AbortHandle>,
}

/// The state that the tasks share.
struct Probing {
    ctx: Context,
    recorder: Recorder,
    containers: Containers,
    /// NodePodProbes to look at.
    queue: WorkQueue<ObjectKey>,
    probes: Mutex<BTreeMap<Key, Probe>>,
}

/// A probe of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    node: String,
    namespace: String,
    pod: String,
    uid: String,
    container: String,
    name: String,
}

/// A probe, and what it has found.
struct Probe {
    spec: ProbeSpec,
    found: Option<Found>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    state: ProbeState,
    message: String,
    at: Timestamp,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
enum ProbeState {
    Succeeded,
    Failed,
    Unknown,
}

/// The spec of a NodePodProbe.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    pod_probes: Vec<PodProbe>,
}

#[derive(Deserialize)]
struct PodProbe {
    name: String,
    namespace: String,
    uid: String,
    #[serde(default)]
    probes: Vec<ContainerProbe>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerProbe {
    name: String,
    container_name: String,
    probe: ProbeSpec,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct ProbeSpec {
    #[serde(flatten)]
    handler: Handler,
    #[serde(default)]
    initial_delay_seconds: i64,
    #[serde(default)]
    period_seconds: i64,
    #[serde(default)]
    timeout_seconds: i64,
    #[serde(default)]
    success_threshold: i64,
    #[serde(default)]
    failure_threshold: i64,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct Handler {
    exec: Option<Exec>,
    http_get: Option<HTTPGetAction>,
    tcp_socket: Option<TCPSocketAction>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
struct Exec {
    #[serde(default)]
    command: Vec<String>,
}

/// The status of a NodePodProbe.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pod_probe_statuses: Vec<PodStatus>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodStatus {
    namespace: String,
    name: String,
    uid: String,
    #[serde(default)]
    probe_states: Vec<ContainerProbeState>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct ContainerProbeState {
    name: String,
    state: ProbeState,
    #[serde(default)]
    last_probe_time: Option<Timestamp>,
    #[serde(default)]
    last_transition_time: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    message: String,
}

/// Probes on all nodes until the future is dropped.
pub(super) async fn run(ctx: Context, containers: Containers, resource: ApiResource) {
    let daemon = Daemon {
        objects: Informer::new(),
        probing: Arc::new(Probing {
            recorder: Recorder::new(ctx.clone(), NAME),
            queue: WorkQueue::retrying(RETRIES),
            probes: Mutex::default(),
            containers,
            ctx: ctx.clone(),
        }),
        workers: Mutex::default(),
        resource,
        ctx,
    };
    let api = Api::all_with(daemon.ctx.client.clone(), &daemon.resource);
    let config = watcher::Config::default();
    let watch = daemon
        .objects
        .run(api, config, |change| daemon.changed(change));
    join(watch, worker::run(&daemon, &daemon.probing.queue, WORKERS)).await;
}

impl Daemon {
    fn changed(&self, change: &Change<DynamicObject>) {
        let new = match change {
            Change::Added(new) => new,
            Change::Updated { old, new } if old.data["spec"] != new.data["spec"] => new,
            Change::Updated { .. } => return,
            Change::Deleted { last: gone, .. } => {
                return self.follow(&gone.name_any(), &Spec::default());
            }
        };
        let is_own = self.probing.containers.knows(&new.name_any());
        if is_own && new.metadata.deletion_timestamp.is_none() {
            self.probing.queue.add(ObjectKey::of(&**new));
        }
    }

    /// Begins and ends tasks, so that there is one for each probe of `node`.
    fn follow(&self, node: &str, spec: &Spec) {
        let mut workers = self.workers.lock();
        let mut asked = BTreeMap::new();
        for pod in &spec.pod_probes {
            for probe in &pod.probes {
                let key = Key {
                    node: node.to_owned(),
                    namespace: pod.namespace.clone(),
                    pod: pod.name.clone(),
                    uid: pod.uid.clone(),
                    container: probe.container_name.clone(),
                    name: probe.name.clone(),
                };
                asked.insert(key, probe.probe.clone());
            }
        }
        workers.by_key.retain(|key, task| {
            let goes_on = key.node != node || asked.contains_key(key);
            if !goes_on {
                task.abort();
                self.probing.probes.lock().remove(key);
            }
            goes_on
        });
        for (key, spec) in asked {
            let is_new = self.probing.ask(&key, spec);
            if is_new {
                let probing = Arc::clone(&self.probing);
                let task = workers.tasks.spawn(probing.probe_on(key.clone()));
                workers.by_key.insert(key, task);
            }
        }
        // Finished tasks, aborted ones among them, are dropped.
        while workers.tasks.try_join_next().is_some() {}
    }
}

impl Reconcile for Daemon {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Option<Duration>, Error> {
        let Some(object) = self.objects.get(&key.namespace, &key.name) else {
            return Ok(None);
        };
        let malformed = |source| Error::Malformed {
            what: format!("NodePodProbe {}", key.name),
            source,
        };
        let spec: Option<Spec> = from_value(&object.data["spec"]).map_err(malformed)?;
        let spec = spec.unwrap_or_default();
        self.follow(&key.name, &spec);
        let known: Option<_> = from_value(&object.data["status"]).map_err(malformed)?;
        let now = whole_second((self.ctx.now)());
        let status = self
            .probing
            .status(&key.name, known.unwrap_or_default(), now);
        let status = serde_json::to_value(&status).map_err(malformed)?;
        let is_empty = status.as_object().is_some_and(serde_json::Map::is_empty);
        if status == object.data["status"] || is_empty && object.data["status"].is_null() {
            return Ok(None);
        }
        let mut written = (*object).clone();
        written.data["status"] = status;
        let api: Api<DynamicObject> = Api::all_with(self.ctx.client.clone(), &self.resource);
        let params = PostParams::default();
        api.replace_status(&key.name, &params, &written).await?;
        Ok(None)
    }
}

impl Probing {
    /// Sets the spec of a probe; returns whether the probe is new.
    fn ask(&self, key: &Key, spec: ProbeSpec) -> bool {
        let mut probes = self.probes.lock();
        let Some(known) = probes.get_mut(key) else {
            let found = None;
            probes.insert(key.clone(), Probe { spec, found });
            return true;
        };
        let is_other = known.spec.handler != spec.handler;
        known.spec = spec;
        if let Some(found) = known.found.as_mut().filter(|_| is_other) {
            found.state = ProbeState::Unknown;
            found.message.clear();
        }
        false
    }

    /// Probes until the task is aborted.
    async fn probe_on(self: Arc<Self>, key: Key) {
        let mut streak = Streak::default();
        while let Some(spec) = self.spec(&key) {
            self.probe(&key, &spec, &mut streak).await;
            let period = u64::try_from(spec.period_seconds).unwrap_or(0);
            tokio::time::sleep(Duration::from_secs(period.max(1))).await;
        }
    }

    fn spec(&self, key: &Key) -> Option<ProbeSpec> {
        self.probes.lock().get(key).map(|probe| probe.spec.clone())
    }

    async fn probe(&self, key: &Key, spec: &ProbeSpec, streak: &mut Streak) {
        let Some(inside) = self.containers.inside(&key.uid, &key.container) else {
            return;
        };
        if streak.container != inside.id {
            streak.container = inside.id;
            self.found(key, ProbeState::Unknown, String::new()).await;
        }
        if !inside.is_running {
            let message = format!("Container({}) is Non-running", key.container);
            self.found(key, ProbeState::Failed, message).await;
            return;
        }
        let running = (self.ctx.now)().duration_since(inside.began).as_secs();
        if running < spec.initial_delay_seconds.max(1) {
            return;
        }
        let Some((has_succeeded, message)) = self.look(key, spec).await else {
            return;
        };
        let state = match has_succeeded {
            true => ProbeState::Succeeded,
            false => ProbeState::Failed,
        };
        let threshold = match has_succeeded {
            true => spec.success_threshold,
            false => spec.failure_threshold,
        };
        if streak.count(state) >= threshold.max(1) {
            let message = message.chars().take(MESSAGE_CHARS_MAX).collect();
            self.found(key, state, message).await;
        }
    }

    /// Looks once: whether all is well, and what was said; None when nothing could be found out.
    async fn look(&self, key: &Key, spec: &ProbeSpec) -> Option<(bool, String)> {
        let handler = &spec.handler;
        if let Some(exec) = &handler.exec {
            let timeout = u64::try_from(spec.timeout_seconds).unwrap_or(0).max(1);
            let run = self.run(key, exec.command.clone());
            let ended = tokio::time::timeout(Duration::from_secs(timeout), run);
            return ended.await.ok()?;
        }
        if let Some(get) = &handler.http_get {
            let answer = self.containers.get(&key.uid, &key.container, get)?;
            return Some(match answer {
                Answer::Status(..400) => (true, String::new()),
                Answer::Status(code) => {
                    (false, format!("HTTP probe failed with statuscode: {code}"))
                }
                Answer::Refused => (false, REFUSED.to_owned()),
            });
        }
        let port = &handler.tcp_socket.as_ref()?.port;
        let listens = self.containers.listens_on(&key.uid, &key.container, port)?;
        Some(match listens {
            true => (true, String::new()),
            false => (false, REFUSED.to_owned()),
        })
    }

    /// Runs a command; what it says is on one of its two outputs, by how it ends.
    async fn run(&self, key: &Key, command: Vec<String>) -> Option<(bool, String)> {
        let pod = PodReference {
            name: &key.pod,
            uid: &key.uid,
            node: &key.node,
        };
        let session = self
            .containers
            .exec(pod, &key.container, command, ExecOptions::default());
        let mut session = session.ok()?;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let read = async {
            while let Some((channel, bytes)) = session.output.next().await {
                match channel {
                    Channel::Stdout => stdout.extend_from_slice(&bytes),
                    Channel::Stderr => stderr.extend_from_slice(&bytes),
                }
            }
        };
        let ((), ended) = join(read, session.ended).await;
        let has_succeeded = ended.ok()? == 0;
        let said = if has_succeeded { stdout } else { stderr };
        Some((has_succeeded, String::from_utf8_lossy(&said).into_owned()))
    }

    /// Records a result, and reports it if it is new.
    async fn found(&self, key: &Key, state: ProbeState, message: String) {
        let at = whole_second((self.ctx.now)());
        {
            let mut probes = self.probes.lock();
            let Some(probe) = probes.get_mut(key) else {
                return;
            };
            let is_known = probe.found.as_ref().is_some_and(|found| {
                let age = at.duration_since(found.at);
                found.state == state && found.message == message && age < TELL_AGAIN
            });
            if is_known {
                return;
            }
            let message = message.clone();
            probe.found = Some(Found { state, message, at });
        }
        self.queue.add(ObjectKey {
            namespace: String::new(),
            name: key.node.clone(),
        });
        let pod = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(key.namespace.clone()),
            name: Some(key.pod.clone()),
            uid: Some(key.uid.clone()),
            ..ObjectReference::default()
        };
        let reason = match state {
            ProbeState::Succeeded => "KruiseProbeSucceeded",
            ProbeState::Failed | ProbeState::Unknown => "KruiseProbeFailed",
        };
        let recorder = self.recorder.at(key.node.clone());
        recorder
            .publish(&pod, EventType::Normal, reason, &message)
            .await;
    }

    /// Returns the status of the probes of `node`; results that `known` lacks are appended.
    fn status(&self, node: &str, known: Status, now: Timestamp) -> Status {
        let probes = self.probes.lock();
        let own = probes.iter().filter(|(key, _)| key.node == node);
        let own: Vec<(&Key, &Probe)> = own.collect();
        let mut status = known;
        for pod in &mut status.pod_probe_statuses {
            let is_asked = |reported: &ContainerProbeState| {
                let mut own = own.iter();
                own.any(|(key, _)| key.uid == pod.uid && key.name == reported.name)
            };
            pod.probe_states.retain(is_asked);
        }
        status
            .pod_probe_statuses
            .retain(|pod| !pod.probe_states.is_empty());
        for (key, probe) in own {
            let Some(found) = &probe.found else {
                continue;
            };
            let pods = &mut status.pod_probe_statuses;
            let index = pods.iter().position(|pod| pod.uid == key.uid);
            let index = index.unwrap_or_else(|| {
                pods.push(PodStatus {
                    namespace: key.namespace.clone(),
                    name: key.pod.clone(),
                    uid: key.uid.clone(),
                    probe_states: Vec::new(),
                });
                pods.len() - 1
            });
            let states = &mut pods[index].probe_states;
            let known = states.iter_mut().find(|state| state.name == key.name);
            let since = known.as_ref().filter(|known| known.state == found.state);
            let reported = ContainerProbeState {
                name: key.name.clone(),
                state: found.state,
                last_probe_time: Some(found.at),
                last_transition_time: since
                    .and_then(|known| known.last_transition_time)
                    .or(Some(now)),
                message: found.message.clone(),
            };
            match known {
                Some(known) => *known = reported,
                None => states.push(reported),
            }
        }
        status
    }
}

/// Equal outcomes in a row, of one run of a container or of several.
#[derive(Default)]
struct Streak {
    container: String,
    last: Option<ProbeState>,
    length: i64,
}

impl Streak {
    /// Counts an outcome; how many of its kind there are now in a row.
    fn count(&mut self, state: ProbeState) -> i64 {
        if self.last.replace(state) != Some(state) {
            self.length = 0;
        }
        self.length += 1;
        self.length
    }
}
