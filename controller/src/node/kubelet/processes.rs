//! The main processes of containers: the kubelet owns their tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use tokio::task::{AbortHandle, JoinSet};

use super::{Kubelet, Record, claim_names};
use crate::clock::Now;
use crate::mirror::{self, ObjectKey};
use crate::node::container::{Log, Volume};
use crate::node::containers::{Place, Run};
use crate::node::environment::{Materials, Missing, Prepared};
use crate::node::instance::{Exit, Halt};
use crate::node::lifecycle::Readiness;
use crate::node::probe::Prober;
use crate::node::sources::Sources;
use crate::node::{Containers, identity};

/// Something about a container that the kubelet waits for.
pub(super) struct Occurrence {
    pub(super) uid: String,
    pub(super) container: String,
    pub(super) restarts: i32,
    pub(super) what: Happening,
}

/// What has happened to it.
pub(super) enum Happening {
    /// Its main process has ended.
    Exited(Exit),
    /// Its readiness probe says something new.
    Probed(bool),
}

/// What the nodes run, and what outlives a pod of it.
pub(super) struct Processes {
    tasks: JoinSet<Option<Occurrence>>,
    containers: Containers,
    /// What is on persistent volumes, by uid of their claim.
    claims: BTreeMap<String, Volume>,
    now: Now,
}

/// The containers of one pod; dropping it ends them.
#[derive(Default)]
pub(super) struct PodProcesses {
    /// Volumes that live as long as the pod, by name.
    volumes: BTreeMap<String, Volume>,
    running: BTreeMap<String, Process>,
}

/// The main process of a container; dropping it ends it, and the log.
struct Process {
    restarts: i32,
    run: Run,
    /// What is still to be started.
    argv: Vec<String>,
    task: Option<AbortHandle>,
    prober: Option<Prober>,
    probe: Option<AbortHandle>,
    launched: bool,
    now: Now,
}

impl Drop for Process {
    fn drop(&mut self) {
        for task in self.task.iter().chain(&self.probe) {
            task.abort();
        }
        self.run.log.close((self.now)());
    }
}

impl PodProcesses {
    /// Ends all containers.
    pub(super) fn stop(&mut self) {
        self.running.clear();
    }
}

impl Processes {
    pub(super) fn new(containers: Containers, now: Now) -> Self {
        Self {
            tasks: JoinSet::new(),
            containers,
            claims: BTreeMap::new(),
            now,
        }
    }

    pub(super) fn forget_claim(&mut self, uid: &str) {
        self.claims.remove(uid);
    }

    pub(super) fn forget_pod(&mut self, uid: &str) {
        self.containers.forget(uid);
    }

    /// What happens next.
    ///
    /// Cancel safety: it is taken only by the poll that returns it.
    pub(super) async fn next(&mut self) -> Occurrence {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(Some(occurrence))) => return occurrence,
                // The image decides what runs, or the kubelet has ended it.
                Some(Ok(None)) => {}
                Some(Err(error)) if error.is_panic() => {
                    std::panic::resume_unwind(error.into_panic())
                }
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// The logs of containers that wait are those of runs before.
    pub(super) fn take_note(&self, uid: &str, readiness: &Readiness) {
        for (name, halt) in &readiness.halted {
            if matches!(halt, Halt::BackOff(_)) {
                self.containers.back_off(uid, name);
            }
        }
    }

    /// Starts what has been prepared.
    pub(super) fn launch(&mut self, uid: &str, pod: &mut PodProcesses) {
        for (name, process) in &mut pod.running {
            if std::mem::replace(&mut process.launched, true) {
                continue;
            }
            if let Some(prober) = process.prober.clone() {
                let (uid, container, restarts) = (uid.to_owned(), name.clone(), process.restarts);
                let task = async move {
                    let ready = prober.change(None).await;
                    Some(Occurrence {
                        uid,
                        container,
                        restarts,
                        what: Happening::Probed(ready),
                    })
                };
                process.probe = Some(self.tasks.spawn(task));
            }
            if process.argv.is_empty() {
                continue;
            }
            let argv = std::mem::take(&mut process.argv);
            let Run { container, log } = process.run.clone();
            let now = self.now.clone();
            let (uid, container_name, restarts) = (uid.to_owned(), name.clone(), process.restarts);
            let task = async move {
                let code = container.run(argv, &log).await?;
                Some(Occurrence {
                    uid,
                    container: container_name,
                    restarts,
                    what: Happening::Exited(Exit { code, at: now() }),
                })
            };
            process.task = Some(self.tasks.spawn(task));
        }
    }

    /// Goes on with a probe that has said whether its container is ready.
    pub(super) fn probe_on(&mut self, said: &Occurrence, ready: bool, pod: &mut PodProcesses) {
        let Some(process) = pod.running.get_mut(&said.container) else {
            return;
        };
        let Some(prober) = process.prober.clone() else {
            return;
        };
        let (uid, container, restarts) = (said.uid.clone(), said.container.clone(), said.restarts);
        let task = async move {
            let ready = prober.change(Some(ready)).await;
            Some(Occurrence {
                uid,
                container,
                restarts,
                what: Happening::Probed(ready),
            })
        };
        process.probe = Some(self.tasks.spawn(task));
    }
}

impl Kubelet {
    /// Makes the containers `names`, each for the run of its number.
    pub(super) async fn prepare(
        &mut self,
        pod: &Arc<Pod>,
        record: &mut Record,
        names: &BTreeMap<String, i32>,
    ) -> Result<Result<(), Missing>, kube::Error> {
        let Some(spec) = pod.spec.as_ref() else {
            return Ok(Ok(()));
        };
        let sources = Sources::read(&self.ctx.client, &record.key.namespace, spec).await?;
        let host_ip = identity::host_ip(record.node);
        let now = Arc::clone(&self.ctx.now);
        let mut materials = Materials {
            pod,
            sources: &sources,
            volumes: &BTreeMap::new(),
            host_ip: &host_ip,
            pod_ip: &record.pod_ip,
            now: &now,
        };
        let mut volumes = std::mem::take(&mut record.processes.volumes);
        if let Err(missing) = self.mount(&materials, &record.key.namespace, &mut volumes) {
            return Ok(Err(missing));
        }
        record.processes.volumes = volumes.clone();
        materials.volumes = &volumes;
        let mut prepared = Vec::new();
        for container in &spec.containers {
            if let Some(restarts) = names.get(&container.name) {
                match materials.prepare(container) {
                    Ok(made) => prepared.push((container, *restarts, made)),
                    Err(missing) => return Ok(Err(missing)),
                }
            }
        }
        let place = Place {
            node: identity::node_name(record.node),
            pod: record.key.name.clone(),
            claims: claim_names(spec).map(str::to_owned).collect(),
        };
        self.processes.containers.place(&record.uid, place);
        for (spec, restarts, Prepared { container, argv }) in prepared {
            let name = spec.name.clone();
            let prober = Prober::readiness(spec, &container);
            let run = Run {
                container,
                log: Arc::new(Log::default()),
            };
            let containers = &self.processes.containers;
            containers.begin(&record.uid, &name, restarts, run.clone());
            let process = Process {
                restarts,
                run,
                argv,
                task: None,
                prober,
                probe: None,
                launched: false,
                now: Arc::clone(&now),
            };
            record.processes.running.insert(name, process);
        }
        Ok(Ok(()))
    }

    /// Adds the volumes of a pod that are missing in `volumes`.
    fn mount(
        &mut self,
        materials: &Materials<'_>,
        namespace: &str,
        volumes: &mut BTreeMap<String, Volume>,
    ) -> Result<(), Missing> {
        let spec = materials.pod.spec.as_ref();
        for volume in spec
            .and_then(|spec| spec.volumes.as_ref())
            .into_iter()
            .flatten()
        {
            if volumes.contains_key(&volume.name) {
                continue;
            }
            let claim = volume.persistent_volume_claim.as_ref().and_then(|source| {
                self.claims.get(&ObjectKey {
                    namespace: namespace.to_owned(),
                    name: source.claim_name.clone(),
                })
            });
            let made = match claim {
                Some(claim) => {
                    let kept = self.processes.claims.entry(mirror::uid(&**claim));
                    kept.or_default().clone()
                }
                None => materials.projected(volume)?,
            };
            volumes.insert(volume.name.clone(), made);
        }
        Ok(())
    }
}
