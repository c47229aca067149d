//! The containers of all nodes: their runs, logs and processes, for the kubelet API.

mod consumer;
mod network;
mod run;
mod stops;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::HTTPGetAction;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Client;
use kubeproof_machinery::json::SmolStr;
use kubeproof_runtime::clock::Now;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::container::{Channel, ExecOptions, Line, Log, Process};
use super::identity;
use super::image::SameImages;
use super::missing_images::MissingImages;
use super::server::Answer;
use super::small_map::{self, SmallMap};

pub(super) use consumer::Loads;
pub use consumer::{Asked, Consumption};
pub use network::{Behind, Network, Site};
pub(super) use run::Run;
use stops::Stops;

/// A handle to the containers of all nodes; clones share one state.
#[derive(Clone)]
pub struct Containers {
    nodes: usize,
    same_images: SameImages,
    missing_images: MissingImages,
    now: Now,
    /// The pods by uid.
    pods: Arc<Mutex<BTreeMap<Arc<str>, Box<Pod>>>>,
    stops: Arc<Stops>,
    /// By which programs of containers read objects, while the nodes run.
    client: Arc<Mutex<Option<Client>>>,
}

/// One run of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunId {
    /// The uid of the run's pod.
    pub uid: String,
    /// The name of the container.
    pub container: String,
    /// The number of restarts before this run.
    pub restarts: i32,
}

/// A container as its runtime reports it.
pub struct Inside {
    /// The run.
    pub run: RunId,
    /// The container ID, as its status reports it.
    pub id: String,
    /// Whether it runs.
    pub is_running: bool,
    /// The time of its start.
    pub began: Timestamp,
    /// The image that the container was started from.
    pub image: String,
    /// The environment variables of its process.
    pub variables: BTreeMap<String, String>,
}

/// The containers of one pod.
#[derive(Default)]
struct Pod {
    place: Place,
    containers: SmallMap<Slot>,
    /// The waiting reasons of containers that could not be created.
    held: SmallMap<&'static str>,
    /// The ports forwarded to programs outside of the simulation.
    forwards: BTreeMap<u16, SocketAddr>,
}

/// The pod and the node that containers belong to.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// The index of the node.
    pub(super) node: usize,
    /// The pod's name.
    pub(super) pod: SmolStr,
    /// The claims of the pod's volumes.
    pub(super) claims: Box<[String]>,
    /// Whether the pod has init containers, for which the others wait.
    pub(super) initializes: bool,
}

/// A running container, whether or not the API server knows of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Running {
    /// The node it runs on.
    pub node: String,
    /// The name of its pod.
    pub pod: String,
    /// The uid of its pod.
    pub uid: String,
    /// The name of the container.
    pub container: String,
    /// The claims whose volumes the container can write to.
    pub claims: Vec<String>,
}

/// A container's current and previous run.
struct Slot {
    restarts: i32,
    run: Arc<Run>,
    previous: Option<Arc<Run>>,
    /// Whether the container has ended and waits for its next run.
    backs_off: bool,
}

/// A reference to the pod of a request.
#[derive(Clone, Copy, Debug)]
pub struct PodReference<'a> {
    /// `metadata.name`
    pub name: &'a str,
    /// `metadata.uid`
    pub uid: &'a str,
    /// `spec.nodeName`
    pub node: &'a str,
}

/// The options of a log request, as in `PodLogOptions`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Whether to stream the log until the container ends.
    pub follow: bool,
    /// Whether to return the previous run's log.
    pub previous: bool,
    /// Whether to prefix each line with its time.
    pub timestamps: bool,
    /// The number of lines to return from the end of the log.
    pub tail_lines: Option<u64>,
    /// The number of bytes after which the log is cut off.
    pub limit_bytes: Option<u64>,
    /// The age in seconds of the oldest line to return.
    pub since_seconds: Option<i64>,
    /// The time of the oldest line to return.
    pub since_time: Option<Timestamp>,
}

/// A client's process in a container.
pub struct Session {
    /// The output of the process.
    pub output: BoxStream<'static, (Channel, Bytes)>,
    /// The input of the process; dropping the sender ends the input. `None` if it reads nothing.
    pub input: Option<mpsc::Sender<Bytes>>,
    /// A future that runs the process: its exit code, or the reason why it could not be started.
    pub ended: BoxFuture<'static, Result<i32, String>>,
}

/// The exit code of processes whose container ends: 128 plus the number of SIGKILL.
const KILLED: i32 = 137;

/// The reason why a kubelet rejects a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No node has this name.
    #[error("no such node")]
    UnknownNode,
    /// The container has no log as requested.
    #[error("{0}")]
    BadRequest(String),
    /// The container is not running.
    #[error("container not found ({0:?})")]
    ContainerNotFound(String),
    /// No container of the pod is running.
    #[error("pod not found ({0:?})")]
    PodNotFound(String),
}

impl std::fmt::Debug for Containers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { nodes, pods, .. } = self;
        let pods = pods.lock().len();
        write!(f, "Containers({pods} pods on {nodes} nodes)")
    }
}

impl Containers {
    /// The containers of `nodes` nodes, none yet.
    pub fn of(
        nodes: usize,
        same_images: SameImages,
        missing_images: MissingImages,
        now: Now,
    ) -> Self {
        Self {
            nodes,
            same_images,
            missing_images,
            now,
            pods: Arc::default(),
            stops: Arc::default(),
            client: Arc::default(),
        }
    }

    pub(super) fn nodes(&self) -> usize {
        self.nodes
    }

    /// Returns the names under which the nodes know one image.
    pub fn same_images(&self) -> &SameImages {
        &self.same_images
    }

    /// Returns the images that no registry has.
    pub fn missing_images(&self) -> &MissingImages {
        &self.missing_images
    }

    /// Returns every running container, ordered by node.
    #[must_use]
    pub fn running(&self) -> Vec<Running> {
        let pods = self.pods.lock();
        let mut running = Vec::new();
        for (uid, pod) in &*pods {
            let Place {
                node,
                pod: name,
                claims,
                ..
            } = &pod.place;
            let alive = pod.containers.iter();
            let alive = alive.filter(|(_, slot)| !slot.run.log.is_closed());
            running.extend(alive.map(|(container, _)| Running {
                node: identity::node_name(*node),
                pod: name.to_string(),
                uid: uid.to_string(),
                container: container.to_string(),
                claims: claims.to_vec(),
            }));
        }
        running.sort();
        running
    }

    /// Returns the latest run of a container of the pod `uid`; `None` before its first run.
    pub fn inside(&self, uid: &str, container: &str) -> Option<Inside> {
        let pods = self.pods.lock();
        let slot = pods.get(uid)?.containers.get(container)?;
        Some(Inside {
            run: RunId {
                uid: uid.to_owned(),
                container: container.to_owned(),
                restarts: slot.restarts,
            },
            id: identity::container_id(uid, container, slot.restarts),
            is_running: !slot.run.log.is_closed(),
            began: slot.run.container.started,
            image: slot.run.spec().image.clone().unwrap_or_default(),
            variables: slot.run.container.environment(),
        })
    }

    /// Makes the kubelet stop this run if it is still the latest. The grace period is `grace`, or
    /// else the pod's. The pod's restart policy decides what follows.
    pub fn stop(&self, run: RunId, grace: Option<Duration>) {
        self.stops.add(run, grace);
    }

    /// Waits until this run has ended.
    pub async fn ended(&self, run: &RunId) {
        let log = {
            let pods = self.pods.lock();
            let containers = pods.get(run.uid.as_str()).map(|pod| &pod.containers);
            let slot = containers.and_then(|containers| containers.get(run.container.as_str()));
            let slot = slot.filter(|slot| slot.restarts == run.restarts);
            slot.map(|slot| Arc::clone(&slot.run.log))
        };
        if let Some(log) = log {
            log.closed().await;
        }
    }

    /// Answers a GET as a running container; `None` if it does not run.
    pub fn get(&self, uid: &str, container: &str, get: &HTTPGetAction) -> Option<Answer> {
        let pods = self.pods.lock();
        let run = &pods.get(uid)?.containers.get(container)?.run;
        let is_running = !run.log.is_closed();
        is_running.then(|| run.server().get(get, &run.container))
    }

    /// Returns whether a running container listens on a port; `None` if it does not run.
    pub fn listens_on(&self, uid: &str, container: &str, port: &IntOrString) -> Option<bool> {
        let pods = self.pods.lock();
        let run = &pods.get(uid)?.containers.get(container)?.run;
        let is_running = !run.log.is_closed();
        is_running.then(|| run.server().listens_on(port))
    }

    /// Waits for the next run to stop on the nodes that are the caller's. Returns it with its grace period, `None`
    /// for the pod's.
    ///
    /// Cancel safety: the run is taken only by the poll that returns it.
    pub(super) async fn next_stop(
        &self,
        is_own: impl Fn(&str) -> bool,
    ) -> (RunId, Option<Duration>) {
        let is_own = |run: &RunId| {
            let pods = self.pods.lock();
            let pod = pods.get(run.uid.as_str());
            pod.is_none_or(|pod| is_own(&identity::node_name(pod.place.node)))
        };
        self.stops.next(is_own).await
    }

    /// Records the node and the metadata of a pod.
    pub(super) fn place(&self, uid: &Arc<str>, place: Place) {
        let mut pods = self.pods.lock();
        pods.entry(Arc::clone(uid)).or_default().place = place;
    }

    /// Records the start of the `restarts`th run of a container.
    pub(super) fn begin(&self, uid: &Arc<str>, container: &str, restarts: i32, run: Arc<Run>) {
        let mut pods = self.pods.lock();
        let slots = &mut pods.entry(Arc::clone(uid)).or_default().containers;
        let previous = match slots.remove(container) {
            // A run that could not be reported begins again.
            Some(slot) if slot.restarts == restarts => slot.previous,
            slot => slot.map(|slot| slot.run),
        };
        let slot = Slot {
            restarts,
            run,
            previous,
            backs_off: false,
        };
        small_map::insert(slots, container, slot);
    }

    /// Records that a container has ended and waits for its next run.
    pub(super) fn back_off(&self, uid: &str, container: &str) {
        let mut pods = self.pods.lock();
        let slot = pods
            .get_mut(uid)
            .and_then(|pod| pod.containers.get_mut(container));
        if let Some(slot) = slot {
            slot.backs_off = true;
        }
    }

    /// Records the containers that could not be created, with the reasons in their status.
    pub(super) fn hold(&self, uid: &str, held: SmallMap<&'static str>) {
        if let Some(pod) = self.pods.lock().get_mut(uid) {
            pod.held = held;
        }
    }

    /// Sets the ports of a pod that are forwarded to programs outside of the simulation.
    pub(super) fn forward(&self, uid: &str, forwards: BTreeMap<u16, SocketAddr>) {
        if let Some(pod) = self.pods.lock().get_mut(uid) {
            pod.forwards = forwards;
        }
    }

    /// Removes a pod.
    pub(super) fn forget(&self, uid: &str) {
        self.pods.lock().remove(uid);
    }

    /// Returns the log of a container; with `follow` the stream goes on until the container ends.
    ///
    /// # Errors
    /// [`Refusal::UnknownNode`]; [`Refusal::BadRequest`] for a container, or a previous run, that
    /// has not been started.
    pub fn logs(
        &self,
        pod: PodReference<'_>,
        container: &str,
        options: LogOptions,
    ) -> Result<BoxStream<'static, Bytes>, Refusal> {
        let log = self.log(pod, container, options.previous)?;
        let ago = options.since_seconds.map(SignedDuration::from_secs);
        let since = match ago {
            Some(ago) => Some((self.now)().checked_sub(ago).unwrap_or(Timestamp::MIN)),
            None => options.since_time,
        };
        let tail = options.tail_lines.map(|lines| {
            let lines = usize::try_from(lines).unwrap_or(usize::MAX);
            log.end().saturating_sub(lines)
        });
        let reader = Reader {
            index: tail.unwrap_or(0),
            left: options.limit_bytes,
            since,
            log,
            options,
        };
        let lines = futures::stream::unfold(reader, |mut reader| async {
            let line = reader.next().await?;
            Some((line, reader))
        });
        Ok(lines.boxed())
    }

    /// Starts a process in a container; dropping the session kills it.
    ///
    /// # Errors
    /// [`Refusal::UnknownNode`]; [`Refusal::ContainerNotFound`] unless the container is running.
    pub fn exec(
        &self,
        pod: PodReference<'_>,
        container: &str,
        command: Vec<String>,
        options: ExecOptions,
    ) -> Result<Session, Refusal> {
        let run = self.running_one(pod, container)?;
        let program = command.first().cloned().unwrap_or_default();
        let (Process { output, input }, process) = run.container.process(command, options);
        let ended = async move {
            tokio::select! {
                biased;
                code = process => code.ok_or_else(|| not_executable(&program)),
                () = run.log.closed() => Ok(KILLED),
            }
        };
        let output = futures::stream::unfold(output, |output| async {
            let written = output.read().await?;
            Some((written, output))
        });
        Ok(Session {
            output: output.boxed(),
            input,
            ended: ended.boxed(),
        })
    }

    /// Attaches to a container: streams its output from now until it ends. With `stdin` the client
    /// writes its input, if that is open.
    ///
    /// # Errors
    /// [`Refusal::UnknownNode`]; [`Refusal::ContainerNotFound`] unless the container is running.
    pub fn attach(
        &self,
        pod: PodReference<'_>,
        container: &str,
        stdin: bool,
    ) -> Result<Session, Refusal> {
        let run = self.running_one(pod, container)?;
        let output = futures::stream::unfold(run.log.listen(), |pipe| async move {
            let written = pipe.read().await?;
            Some((written, pipe))
        });
        let input = run.stdin.as_ref().filter(|_| stdin);
        let input = input.and_then(|input| input.attach());
        Ok(Session {
            output: output.boxed(),
            input,
            ended: async move {
                run.log.closed().await;
                Ok(0)
            }
            .boxed(),
        })
    }

    /// Returns whether a node has this name.
    pub fn knows(&self, node: &str) -> bool {
        (1..=self.nodes).any(|index| identity::node_name(index) == node)
    }

    fn running_one(&self, pod: PodReference<'_>, container: &str) -> Result<Arc<Run>, Refusal> {
        if !self.knows(pod.node) {
            return Err(Refusal::UnknownNode);
        }
        let pods = self.pods.lock();
        pods.get(pod.uid)
            .and_then(|pod| pod.containers.get(container))
            .map(|slot| Arc::clone(&slot.run))
            .filter(|run| !run.log.is_closed())
            .ok_or_else(|| Refusal::ContainerNotFound(container.to_owned()))
    }

    fn log(
        &self,
        pod: PodReference<'_>,
        container: &str,
        previous: bool,
    ) -> Result<Arc<Log>, Refusal> {
        if !self.knows(pod.node) {
            return Err(Refusal::UnknownNode);
        }
        let pods = self.pods.lock();
        let slot = pods
            .get(pod.uid)
            .and_then(|pod| pod.containers.get(container));
        let run = match slot {
            // The run that has ended is in `lastState` already.
            Some(slot) if previous && slot.backs_off => Some(&slot.run),
            Some(slot) if previous => slot.previous.as_ref(),
            None if previous => None,
            Some(slot) => Some(&slot.run),
            None => {
                let own = pods.get(pod.uid);
                let held = own.and_then(|own| own.held.get(container).copied());
                let waits = match held {
                    Some("ErrImagePull") => "image can't be pulled",
                    Some("ImagePullBackOff") => "trying and failing to pull image",
                    Some(reason) => reason,
                    None if own.is_some_and(|own| own.place.initializes) => "PodInitializing",
                    None => "ContainerCreating",
                };
                return Err(Refusal::BadRequest(format!(
                    "container {container:?} in pod {:?} is waiting to start: {waits}",
                    pod.name
                )));
            }
        };
        run.map(|run| Arc::clone(&run.log)).ok_or_else(|| {
            Refusal::BadRequest(format!(
                "previous terminated container {container:?} in pod {:?} not found",
                pod.name
            ))
        })
    }
}

/// Returns a container runtime's message for a program that does not exist.
fn not_executable(program: &str) -> String {
    format!(
        "error executing command in container: failed to exec in container: failed to start exec: \
         OCI runtime exec failed: exec failed: unable to start container process: \
         exec: {program:?}: executable file not found in $PATH"
    )
}

struct Reader {
    log: Arc<Log>,
    index: usize,
    left: Option<u64>,
    since: Option<Timestamp>,
    options: LogOptions,
}

impl Reader {
    async fn next(&mut self) -> Option<Bytes> {
        if self.left == Some(0) {
            return None;
        }
        loop {
            let Line { time, bytes, .. } = match self.options.follow {
                true => self.log.line(&mut self.index).await?,
                false => self.log.written(&mut self.index)?,
            };
            if self.since.is_some_and(|since| time < since) {
                continue;
            }
            let mut line = match self.options.timestamps {
                true => stamped(time, &bytes),
                false => bytes,
            };
            if let Some(left) = &mut self.left {
                line.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= line.len() as u64;
            }
            return Some(line);
        }
    }
}

/// Returns a line prefixed with its time in RFC 3339, with nine fractional digits.
fn stamped(time: Timestamp, line: &[u8]) -> Bytes {
    let time = time.strftime("%Y-%m-%dT%H:%M:%S.%9fZ ").to_string();
    let mut stamped = BytesMut::from(time.as_bytes());
    stamped.extend_from_slice(line);
    stamped.freeze()
}

#[cfg(test)]
mod tests;
