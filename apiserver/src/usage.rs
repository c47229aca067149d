//! What simulated containers use of processor and memory, as metrics-server would measure it.
//!
//! A container uses half of its requests, unless its node measures it or an annotation says more: `kubeproof.dev/cpu` or `kubeproof.dev/memory`,
//! on its pod or on a workload that owns the pod. An annotation of a pod holds for its containers together, that of a
//! workload for its ready pods together; [`schedule`] describes the values.
//!
//! As metrics-server does by default, nodes are asked every 15 seconds, and a container appears once it has run for 10.

mod schedule;
mod workload;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::cluster::Cluster;
use crate::json::{Value, json};
use crate::schema::quantity::Quantity;
use crate::storage::StoredObject;
use schedule::{Level, Schedule};
use workload::{Holder, Workloads};

/// The prefix of the annotations.
const PREFIX: &str = "kubeproof.dev/";
/// The value of the annotation for a pod that is not measured.
const UNMEASURED: &str = "none";
/// The time between two samples. Source: metrics-server's `--metric-resolution` in its manifests.
pub(crate) const RESOLUTION: i64 = 15;
/// How long a container has run when it is first measured. Source: metrics-server, `pkg/storage/pod.go`.
const FRESH: SignedDuration = SignedDuration::from_secs(10);
/// The usage of a container without requests: a thousandth of a processor and 1 MiB.
const IDLE: [i64; 2] = [1_000_000, 1 << 20];

/// A resource that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// In billionths of a processor.
    Cpu,
    /// In bytes.
    Memory,
}

impl Resource {
    const ALL: [Self; 2] = [Self::Cpu, Self::Memory];

    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }

    /// The key of the annotation for a pod as a whole.
    fn annotation(self) -> String {
        format!("{PREFIX}{}", self.name())
    }

    /// The power of ten of its unit.
    fn scale(self) -> i32 {
        match self {
            Self::Cpu => -9,
            Self::Memory => 0,
        }
    }

    fn amount(self, quantity: &Quantity) -> i64 {
        let value = quantity.scaled_value(self.scale()).unwrap_or(i128::MAX);
        i64::try_from(value).unwrap_or(i64::MAX)
    }
}

/// Amounts of both resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Billionths of a processor.
    pub(crate) cpu: i64,
    /// Bytes.
    pub(crate) memory: i64,
}

impl Usage {
    fn of_mut(&mut self, resource: Resource) -> &mut i64 {
        match resource {
            Resource::Cpu => &mut self.cpu,
            Resource::Memory => &mut self.memory,
        }
    }

    /// The sum of two.
    pub(crate) fn and(self, more: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_add(more.cpu),
            memory: self.memory.saturating_add(more.memory),
        }
    }

    /// As the metrics API writes it.
    pub(crate) fn to_value(self) -> Value {
        let cpu = Quantity::scaled(self.cpu, Resource::Cpu.scale());
        let memory = Quantity::scaled(self.memory, Resource::Memory.scale()).in_binary_units();
        json!({ "cpu": cpu.to_string(), "memory": memory.to_string() })
    }
}

/// The usage of a pod.
#[derive(Debug)]
pub(crate) struct PodUsage {
    /// The pod.
    pub(crate) pod: Arc<StoredObject>,
    /// The name of its node.
    pub(crate) node: String,
    /// The length of the measurement, in seconds.
    pub(crate) window: i64,
    /// The running containers in the order of the spec.
    pub(crate) containers: Vec<(String, Usage)>,
}

impl PodUsage {
    /// The usage of all containers.
    pub(crate) fn total(&self) -> Usage {
        let containers = self.containers.iter();
        containers.fold(Usage::default(), |total, (_, own)| total.and(*own))
    }
}

/// The measurements of one time.
#[derive(Debug)]
pub(crate) struct Sample {
    /// The time of the measurement.
    pub(crate) time: Timestamp,
    /// The pods by namespace and name.
    pub(crate) pods: Vec<PodUsage>,
    /// Annotations that cannot be read; the pods that they are about are not measured.
    pub(crate) faults: Vec<String>,
}

/// The time of the last sample before `now`.
fn sampled_at(now: Timestamp) -> Timestamp {
    let second = now.as_second();
    Timestamp::from_second(second - second.rem_euclid(RESOLUTION)).unwrap_or(now)
}

/// Whether what began to run at `started` is in the sample of `time`.
pub(crate) fn is_measured(started: Timestamp, time: Timestamp) -> bool {
    time.duration_since(started) >= FRESH
}

/// Whether a pod or a node has the condition Ready.
pub(crate) fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|own| own["type"] == "Ready" && own["status"] == "True")
}

/// The length of a measurement of what began to run at `started`.
pub(crate) fn window(started: Timestamp, time: Timestamp) -> i64 {
    time.duration_since(started).as_secs().clamp(0, RESOLUTION)
}

/// The node's measurement of a container of a pod, in the sample of a time.
pub(crate) type Measured<'a> = &'a dyn Fn(&Value, &str, Timestamp) -> Option<Usage>;

/// The last sample of the pods of `namespace`, or of all pods.
pub(crate) fn sample(cluster: &Cluster, namespace: Option<&str>, measured: Measured<'_>) -> Sample {
    let time = sampled_at(cluster.clock.now());
    let workloads = Workloads::of(cluster, namespace);
    let mut sample = Sample {
        time,
        pods: Vec::new(),
        faults: Vec::new(),
    };
    for (stored, holders) in workloads.pods() {
        match usage_of(stored, holders, &workloads, time, measured) {
            Ok(Some(usage)) => sample.pods.push(usage),
            Ok(None) => {}
            Err(fault) => sample.faults.push(fault),
        }
    }
    sample
}

/// A pod that runs, and what says how much it uses.
struct Running<'a> {
    stored: &'a StoredObject,
    pod: &'a Value,
    /// The specs of its running containers, each with the time of its start.
    containers: Vec<(&'a Value, Timestamp)>,
    holders: &'a [Holder],
    workloads: &'a Workloads,
    time: Timestamp,
    measured: Measured<'a>,
}

/// Measures a pod; `None` as long as one of its running containers has not been measured.
fn usage_of(
    stored: &Arc<StoredObject>,
    holders: &[Holder],
    workloads: &Workloads,
    time: Timestamp,
    measured: Measured<'_>,
) -> Result<Option<PodUsage>, String> {
    let pod = &*stored.value();
    let running = Running {
        stored,
        pod,
        containers: running(pod),
        holders,
        workloads,
        time,
        measured,
    };
    let latest = running.containers.iter().map(|(_, started)| *started).max();
    let Some(latest) =
        latest.filter(|latest| is_measured(*latest, time) && !running.is_unmeasured())
    else {
        return Ok(None);
    };
    let mut usages = vec![Usage::default(); running.containers.len()];
    for resource in Resource::ALL {
        let amounts = running.amounts(resource)?;
        for (usage, amount) in usages.iter_mut().zip(amounts) {
            *usage.of_mut(resource) = amount;
        }
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names = running
        .containers
        .iter()
        .map(|(spec, _)| text(&spec["name"]));
    Ok(Some(PodUsage {
        node: text(&pod["spec"]["nodeName"]),
        window: window(latest, time),
        containers: names.zip(usages).collect(),
        pod: Arc::clone(stored),
    }))
}

impl Running<'_> {
    /// Whether an annotation says that the pod is not measured.
    fn is_unmeasured(&self) -> bool {
        let annotations = &self.pod["metadata"]["annotations"];
        let mut keys = Resource::ALL.into_iter().map(Resource::annotation);
        keys.any(|key| annotations[key] == UNMEASURED)
    }

    /// The usage of a resource by each running container.
    fn amounts(&self, resource: Resource) -> Result<Vec<i64>, String> {
        let key = resource.annotation();
        let shared = self.shared(&key, resource)?;
        let mut known = Vec::new();
        for (container, _) in &self.containers {
            let container = container["name"].as_str().unwrap_or_default();
            known.push(self.own(&format!("{key}.{container}"), resource)?);
        }
        let sharing = known.iter().filter(|level| level.is_none()).count();
        let sharing = i64::try_from(sharing.max(1)).unwrap_or(i64::MAX);
        let containers = self.containers.iter().zip(known);
        let amounts = containers.map(|((container, _), known)| {
            let request = request(container, resource);
            match (known, shared) {
                (Some(level), _) => level.of(request),
                (None, Some((Level::Amount(_), 0))) => 0,
                (None, Some((Level::Amount(amount), pods))) => amount / pods / sharing,
                (None, Some((level, _))) => level.of(request),
                (None, None) => self
                    .measured(container, resource)
                    .or_else(|| request.map(|request| request / 2))
                    .unwrap_or(IDLE[resource as usize]),
            }
        });
        Ok(amounts.collect())
    }

    /// The node's measurement, and the usage of a program that does nothing. No container exceeds its limit of
    /// processor time.
    fn measured(&self, container: &Value, resource: Resource) -> Option<i64> {
        let name = container["name"].as_str().unwrap_or_default();
        let mut usage = (self.measured)(self.pod, name, self.time)?;
        let amount = usage
            .of_mut(resource)
            .saturating_add(IDLE[resource as usize]);
        let limit = amount_of(container, "limits", resource);
        let limit = limit.filter(|_| resource == Resource::Cpu);
        Some(limit.map_or(amount, |limit| amount.min(limit)))
    }

    /// The level that an annotation of the pod itself states.
    fn own(&self, key: &str, resource: Resource) -> Result<Option<Level>, String> {
        let Some(text) = self.pod["metadata"]["annotations"][key].as_str() else {
            return Ok(None);
        };
        let (namespace, name) = self.stored.key.parts();
        let of = format!("pod {}/{name}", namespace.unwrap_or_default());
        let since = workload::created(self.pod);
        self.level(key, text, (since, &of), resource).map(Some)
    }

    /// The level for the pod as a whole, and how many pods share it.
    fn shared(&self, key: &str, resource: Resource) -> Result<Option<(Level, i64)>, String> {
        if let Some(level) = self.own(key, resource)? {
            return Ok(Some((level, 1)));
        }
        let mut holders = self.holders.iter().rev();
        let Some((holder, text)) = holders.find_map(|own| Some((own, own.annotation(key)?))) else {
            return Ok(None);
        };
        let level = self.level(key, text, (holder.created, &holder.name), resource)?;
        // Load goes to ready pods.
        let pods = match is_ready(self.pod) {
            true => self.workloads.ready(holder),
            false => 0,
        };
        Ok(Some((level, pods)))
    }

    fn level(
        &self,
        key: &str,
        text: &str,
        (since, of): (Timestamp, &str),
        resource: Resource,
    ) -> Result<Level, String> {
        let schedule = Schedule::parse(text, resource)
            .map_err(|fault| format!("{of}: annotation {key}: {fault}"))?;
        Ok(schedule.at(self.time.duration_since(since)))
    }
}

fn request(container: &Value, resource: Resource) -> Option<i64> {
    amount_of(container, "requests", resource)
}

fn amount_of(container: &Value, kind: &str, resource: Resource) -> Option<i64> {
    let text = container["resources"][kind][resource.name()].as_str()?;
    Some(resource.amount(&Quantity::parse(text).ok()?))
}

/// The specs of a pod's running containers, each with the time of its start.
fn running(pod: &Value) -> Vec<(&Value, Timestamp)> {
    let status = &pod["status"];
    let kinds = [
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
    ];
    let started = |statuses: &str, name: &Value| {
        let mut all = status[statuses].as_array()?.iter();
        let own = all.find(|own| own["name"] == *name)?;
        own["state"]["running"]["startedAt"].as_str()?.parse().ok()
    };
    let specs = kinds.into_iter().flat_map(|(specs, statuses)| {
        let specs = pod["spec"][specs].as_array().into_iter().flatten();
        specs.filter_map(move |spec| Some((spec, started(statuses, &spec["name"])?)))
    });
    specs.collect()
}
