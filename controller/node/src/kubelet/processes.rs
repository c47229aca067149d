//! The main processes of containers, whose tasks the kubelet owns.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kubeproof_runtime::clock::Now;
use kubeproof_runtime::pod::{Pod, claims};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::volumes::Volumes;
use super::{Kubelet, Record};
use crate::config_sources::ConfigSources;
use crate::container::{Log, Sender, Sigterm, Stdin, Typing, Volume};
use crate::container_run::Halt;
use crate::container_spec::{self, List, SharedContainer};
use crate::containers::{Loads, Place, Run, RunId};
use crate::environment::{Materials, Missing};
use crate::hold::Cause;
use crate::hook::{self, HookKind};
use crate::image::SameImages;
use crate::lifecycle::Readiness;
use crate::probe::{Outcome, ProbeKind, Prober};
use crate::restart_policy::Exit;
use crate::server::Server;
use crate::small_map::{self, SmallMap};
use crate::{Containers, Pace, identity};

/// An occurrence in a container that the kubelet handles.
pub(super) struct PodLifecycleEvent {
    pub(super) uid: String,
    pub(super) container: String,
    pub(super) restarts: i32,
    pub(super) what: PodLifecycleEventType,
}

/// The kind of an occurrence.
pub(super) enum PodLifecycleEventType {
    /// The main process has ended.
    Exited(Exit),
    /// The runtime has reported that the container runs.
    Noticed,
    /// A probe has an outcome.
    Probed(ProbeKind, Outcome),
    /// A lifecycle hook has ended, with success or not.
    Hooked(HookKind, bool),
    /// Another program has stopped the container, with a grace period if it is not the pod's.
    Stopped(Option<Duration>),
}

/// An occurrence, and the probe that continues after it.
type Finding = (PodLifecycleEvent, Option<Prober>);

/// The processes on the nodes, and the files that outlive a pod.
pub(super) struct Processes {
    tasks: JoinSet<Option<Finding>>,
    containers: Containers,
    /// The indexes of the kubelet's nodes by name.
    nodes: Arc<BTreeMap<String, usize>>,
    pub(super) volumes: Volumes,
    pace: Option<Pace>,
    now: Now,
}

/// The failures among the containers to create.
#[derive(Default)]
pub(super) struct CreateFailures {
    /// The containers that could not be created, with the cause.
    pub(super) failed: BTreeMap<String, Cause>,
    /// The containers that were created but not started, with the runtime's message.
    pub(super) unstarted: BTreeMap<String, Arc<str>>,
}

/// The processes of one pod; dropping it kills them.
#[derive(Default)]
pub(super) struct PodProcesses {
    /// The volumes with the pod's lifetime, by name.
    volumes: SmallMap<Volume>,
    running: SmallMap<Process>,
}

/// The main process of a container; dropping it kills the process and closes the log.
struct Process {
    restarts: i32,
    run: Arc<Run>,
    /// The command of the process, until it is launched.
    command: Option<Box<Command>>,
    /// The tasks of the process, made for the first one.
    tasks: Option<Box<ProcessTasks>>,
}

/// The command of a main process.
struct Command {
    /// The command line; empty if only the image knows it.
    argv: Vec<String>,
    input: Typing,
    /// Whether a program that only the image knows ends at once.
    ends_at_once: bool,
}

/// The tasks of a main process, and what they share. Without a pace, a program that only the image knows has none
/// unless it is probed, hooked or stopped.
#[derive(Default)]
struct ProcessTasks {
    main: Option<AbortHandle>,
    /// The sender of SIGTERM, made when the program is started or signaled.
    sigterm: Option<watch::Sender<Option<Sender>>>,
    /// The task that waits until the start is noticed.
    notice: Option<AbortHandle>,
    hook: Option<AbortHandle>,
    /// The tasks of running probes.
    probes: BTreeMap<ProbeKind, AbortHandle>,
    /// The probes that have reported an outcome and wait to be continued.
    probers: BTreeMap<ProbeKind, Prober>,
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(tasks) = &self.tasks {
            tasks.abort();
        }
        let now = &self.run.container.now;
        self.run.log.close(now());
    }
}

impl ProcessTasks {
    fn abort(&self) {
        let tasks = self.main.iter().chain(&self.hook).chain(&self.notice);
        for task in tasks.chain(self.probes.values()) {
            task.abort();
        }
    }

    fn sigterm(&mut self) -> &watch::Sender<Option<Sender>> {
        self.sigterm.get_or_insert_with(|| watch::Sender::new(None))
    }
}

impl PodProcesses {
    /// Kills all containers.
    pub(super) fn stop(&mut self) {
        self.running.clear();
    }

    /// Kills one container.
    pub(super) fn stop_one(&mut self, container: &str) {
        self.running.remove(container);
    }

    /// Sends SIGTERM to a container's main process. Returns whether the process exists.
    pub(super) fn signal(&mut self, container: &str, is_foreign: bool) -> bool {
        let Some(process) = self.running.get_mut(container) else {
            return false;
        };
        process
            .ensure_tasks()
            .sigterm()
            .send_replace(Some(match is_foreign {
                true => Sender::Other,
                false => Sender::Kubelet,
            }));
        true
    }

    /// Stops the probes of a container.
    pub(super) fn stop_probes(&mut self, container: &str) {
        if let Some(tasks) = self.tasks(container) {
            tasks.probers.clear();
            for (_, probe) in std::mem::take(&mut tasks.probes) {
                probe.abort();
            }
        }
    }

    pub(super) fn stop_probe(&mut self, container: &str, kind: ProbeKind) {
        if let Some(tasks) = self.tasks(container) {
            tasks.probes.remove(&kind);
            tasks.probers.remove(&kind);
        }
    }

    fn tasks(&mut self, container: &str) -> Option<&mut ProcessTasks> {
        self.running.get_mut(container)?.tasks.as_deref_mut()
    }

    /// Stores a probe until it is continued.
    pub(super) fn keep(&mut self, lifecycle_event: &PodLifecycleEvent, prober: Option<Prober>) {
        let process = self.running.get_mut(lifecycle_event.container.as_str());
        let process = process.filter(|own| own.restarts == lifecycle_event.restarts);
        if let (Some(process), Some(prober)) = (process, prober) {
            process.ensure_tasks().probers.insert(prober.kind, prober);
        }
    }
}

impl Processes {
    pub(super) fn new(
        containers: Containers,
        nodes: Arc<BTreeMap<String, usize>>,
        volumes: Volumes,
        (pace, now): (Option<Pace>, Now),
    ) -> Self {
        Self {
            tasks: JoinSet::new(),
            containers,
            nodes,
            volumes,
            pace,
            now,
        }
    }

    pub(super) fn same_images(&self) -> &SameImages {
        self.containers.same_images()
    }

    /// Sets the ports of a pod that are forwarded to programs outside of the simulation.
    pub(super) fn forward(&self, uid: &str, forwards: BTreeMap<u16, SocketAddr>) {
        self.containers.forward(uid, forwards);
    }

    pub(super) fn forget_pod(&mut self, uid: &str) {
        self.containers.forget(uid);
    }

    /// Waits for the next occurrence.
    ///
    /// Cancel safety: the occurrence is taken only by the poll that returns it.
    pub(super) async fn next(&mut self) -> Finding {
        let (containers, nodes) = (self.containers.clone(), Arc::clone(&self.nodes));
        let is_own = |node: &str| nodes.contains_key(node);
        tokio::select! {
            biased;
            finding = self.next_of_tasks() => finding,
            (run, grace) = containers.next_stop(is_own) => (stopped(run, grace), None),
        }
    }

    async fn next_of_tasks(&mut self) -> Finding {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(Some(finding))) => return finding,
                // The image decides what runs, or the kubelet has killed the process.
                Some(Ok(None)) => {}
                Some(Err(error)) if error.is_panic() => {
                    std::panic::resume_unwind(error.into_panic())
                }
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Updates the logs: a waiting container has that of its previous run, one that could not be
    /// created has none.
    pub(super) fn take_note(&self, uid: &str, readiness: &Readiness) {
        let held = readiness.containers().filter_map(|(name, own)| {
            let waiting = own.held.as_ref()?;
            Some((name.into(), waiting.reason))
        });
        self.containers.hold(uid, held.collect());
        for (name, own) in readiness.containers() {
            if matches!(own.halt, Some(Halt::BackOff(_))) {
                self.containers.back_off(uid, name);
            }
        }
    }

    /// Starts the processes of prepared containers.
    pub(super) fn launch(&mut self, uid: &str, pod: &mut PodProcesses) {
        let mut new = Vec::new();
        for (name, process) in &mut pod.running {
            let Some(command) = process.command.take() else {
                continue;
            };
            new.push((name.clone(), Arc::clone(&process.run)));
            if command.argv.is_empty() && !command.ends_at_once && self.pace.is_none() {
                continue;
            }
            let occurs = lifecycle_event(uid, name, process.restarts);
            let ends = process.end(*command, self.pace);
            process.ensure_tasks().main = Some(self.tasks.spawn(async move {
                let exit = ends.await?;
                Some((occurs(PodLifecycleEventType::Exited(exit)), None))
            }));
        }
        for (name, run) in new {
            match HookKind::PostStart.handler(&run.spec()) {
                Some(_) => self.hook(uid, &name, HookKind::PostStart, pod),
                None => self.begun(uid, &name, pod),
            }
        }
    }

    /// Schedules the notice that a container runs, its hook included; then it is probed.
    pub(super) fn begun(&mut self, uid: &str, name: &str, pod: &mut PodProcesses) {
        let Some(pace) = self.pace else {
            return self.probe(uid, name, pod);
        };
        let Some(process) = pod.running.get_mut(name) else {
            return;
        };
        let wait = pace.until_relist((self.now)());
        let occurs = lifecycle_event(uid, name, process.restarts);
        process.ensure_tasks().notice = Some(self.tasks.spawn(async move {
            tokio::time::sleep(wait).await;
            Some((occurs(PodLifecycleEventType::Noticed), None))
        }));
    }

    /// Runs a lifecycle hook of a container.
    pub(super) fn hook(&mut self, uid: &str, name: &str, kind: HookKind, pod: &mut PodProcesses) {
        let Some(process) = pod.running.get_mut(name) else {
            return;
        };
        let run = Arc::clone(&process.run);
        let Some(handler) = kind.handler(&run.spec()) else {
            return;
        };
        let occurs = lifecycle_event(uid, name, process.restarts);
        process.ensure_tasks().hook = Some(self.tasks.spawn(async move {
            let succeeded = hook::run(handler, run).await;
            Some((occurs(PodLifecycleEventType::Hooked(kind, succeeded)), None))
        }));
    }

    /// Starts the probes of a container: the startup probe, and the others once that has succeeded.
    pub(super) fn probe(&mut self, uid: &str, name: &str, pod: &mut PodProcesses) {
        let Some(process) = pod.running.get_mut(name) else {
            return;
        };
        let run = &process.run;
        let tasks = process.tasks.as_ref();
        let has_started = tasks.is_some_and(|own| own.probes.contains_key(&ProbeKind::Startup));
        let startup = Prober::new(ProbeKind::Startup, run);
        let new = match startup.filter(|_| !has_started) {
            Some(startup) => vec![startup],
            None => [ProbeKind::Liveness, ProbeKind::Readiness]
                .into_iter()
                .filter_map(|kind| Prober::new(kind, run))
                .collect(),
        };
        for prober in new {
            process.ensure_tasks().probers.insert(prober.kind, prober);
        }
        let Some(tasks) = &process.tasks else {
            return;
        };
        for kind in tasks.probers.keys().copied().collect::<Vec<_>>() {
            self.probe_on(uid, name, kind, pod);
        }
    }

    /// Continues a probe after an outcome.
    pub(super) fn probe_on(
        &mut self,
        uid: &str,
        name: &str,
        kind: ProbeKind,
        pod: &mut PodProcesses,
    ) {
        let Some(process) = pod.running.get_mut(name) else {
            return;
        };
        let Some(tasks) = process.tasks.as_deref_mut() else {
            return;
        };
        let Some(mut prober) = tasks.probers.remove(&kind) else {
            return;
        };
        let occurs = lifecycle_event(uid, name, process.restarts);
        let task = self.tasks.spawn(async move {
            let outcome = prober.next().await;
            Some((
                occurs(PodLifecycleEventType::Probed(kind, outcome)),
                Some(prober),
            ))
        });
        tasks.probes.insert(kind, task);
    }
}

impl Process {
    fn ensure_tasks(&mut self) -> &mut ProcessTasks {
        self.tasks.get_or_insert_default()
    }

    /// Runs `command` and returns its exit once the kubelet learns of it. Returns `None` if there is
    /// none: a program that only the image knows runs until it is killed.
    fn end(
        &mut self,
        command: Command,
        pace: Option<Pace>,
    ) -> impl Future<Output = Option<Exit>> + Send + use<> {
        let run = Arc::clone(&self.run);
        let sigterm = self.ensure_tasks().sigterm().subscribe();
        async move {
            let Command {
                argv,
                input,
                ends_at_once,
            } = command;
            let (container, log) = (&run.container, &run.log);
            let now = &container.now;
            let code = match container.run(argv, input, log, sigterm.clone()).await {
                Some(code) => code,
                None if ends_at_once => 0,
                // A program that only the image knows handles SIGTERM.
                None => {
                    heed(sigterm.clone(), pace?).await?;
                    log.close(now());
                    0
                }
            };
            let at = now();
            let killed = *sigterm.borrow() == Some(Sender::Kubelet);
            if let Some(pace) = pace.filter(|_| !killed) {
                tokio::time::sleep(pace.until_relist(at)).await;
            }
            Some(Exit { code, at, killed })
        }
    }
}

/// Waits for SIGTERM, and then for the time that a program takes to exit.
async fn heed(mut sigterm: Sigterm, pace: Pace) -> Option<()> {
    sigterm.wait_for(Option::is_some).await.ok()?;
    tokio::time::sleep(pace.exit).await;
    Some(())
}

/// Returns the occurrence for a run that another program stops.
fn stopped(run: RunId, grace: Option<Duration>) -> PodLifecycleEvent {
    PodLifecycleEvent {
        uid: run.uid,
        container: run.container,
        restarts: run.restarts,
        what: PodLifecycleEventType::Stopped(grace),
    }
}

/// Returns a constructor of occurrences of one run of a container.
fn lifecycle_event(
    uid: &str,
    container: &str,
    restarts: i32,
) -> impl FnOnce(PodLifecycleEventType) -> PodLifecycleEvent + Send + use<> {
    let (uid, container) = (uid.to_owned(), container.to_owned());
    move |what| PodLifecycleEvent {
        uid,
        container,
        restarts,
        what,
    }
}

impl Kubelet {
    /// Creates the containers `names`, each for the run of its number. Returns those that could not
    /// be created or started, with the cause. A volume that can't be mounted is an error of the
    /// whole pod.
    pub(super) async fn prepare(
        &mut self,
        pod: &Arc<Pod>,
        record: &mut Record,
        names: &BTreeMap<String, i32>,
    ) -> Result<Result<CreateFailures, Missing>, kube::Error> {
        let Some(pod_spec) = pod.spec.as_ref() else {
            return Ok(Ok(CreateFailures::default()));
        };
        let sources =
            ConfigSources::read(&self.ctx.client, &record.key.namespace, pod_spec).await?;
        let host_ip = identity::host_ip(record.node);
        let now = Arc::clone(&self.ctx.now);
        let mut materials = Materials {
            pod,
            sources: &sources,
            volumes: &SmallMap::new(),
            host_ip: &host_ip,
            pod_ip: &record.pod_ip,
            now: &now,
        };
        let mut volumes = std::mem::take(&mut record.processes.volumes);
        let place = (record.node, record.key.namespace.as_str());
        if let Err(missing) = self.mount(&materials, place, &mut volumes) {
            return Ok(Err(missing));
        }
        if let Err(missing) = self.prepare_devices(pod, record).await? {
            return Ok(Err(missing));
        }
        record.processes.volumes = volumes.clone();
        materials.volumes = &volumes;
        let (mut prepared, mut result) = (Vec::new(), CreateFailures::default());
        for (index, (list, container)) in container_spec::containers(pod_spec).enumerate() {
            let Some(restarts) = names.get(&container.name) else {
                continue;
            };
            let made = match Cause::of_image(&container, self.processes.containers.missing_images())
            {
                Some(cause) => Err(cause),
                None => materials.prepare(&container).map_err(Cause::Config),
            };
            match made {
                Ok(made) => {
                    // A program of an init container that only the image knows ends at once.
                    let is_sidecar = container.restart_policy.as_deref() == Some("Always");
                    let ends_at_once = list == List::Init && !is_sidecar;
                    prepared.push((index, container, *restarts, made, ends_at_once));
                }
                Err(cause) => {
                    // The previous run has been stopped for the new one.
                    record.processes.stop_one(&container.name);
                    result.failed.insert(container.name.clone(), cause);
                }
            }
        }
        let place = Place {
            node: record.node,
            pod: record.key.name.as_str().into(),
            claims: claims(pod).map(|claim| claim.name.into_owned()).collect(),
            initializes: pod_spec.init_containers.iter().flatten().next().is_some(),
        };
        self.processes.containers.place(&record.uid, place);
        let forwards = self.forwards(pod, &record.key);
        self.processes.forward(&record.uid, forwards);
        for (index, spec, restarts, made, ends_at_once) in prepared {
            let name = spec.name.as_str();
            let (stdin, input) = Stdin::of(&spec);
            let ports = Server::of(&spec).ports(&spec, &made.argv);
            let run = Arc::new(Run {
                container: made.container,
                shared: SharedContainer::of(pod_spec, index),
                log: Arc::new(Log::default()),
                ports: ports.into(),
                loads: Loads::default(),
                stdin,
            });
            let containers = &self.processes.containers;
            containers.begin(&record.uid, name, restarts, Arc::clone(&run));
            if let Some(message) = made.start_error {
                run.log.close(now());
                record.processes.stop_one(name);
                result.unstarted.insert(name.to_owned(), message.into());
                continue;
            }
            let command = Command {
                argv: made.argv,
                input,
                ends_at_once,
            };
            let process = Process {
                restarts,
                run,
                command: Some(Box::new(command)),
                tasks: None,
            };
            small_map::insert(&mut record.processes.running, name, process);
        }
        Ok(Ok(result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_tasks_is_small() {
        let size = size_of::<Process>();
        assert!(size <= 32, "{size}");
    }
}
