//! Services and their pods, as both controllers of endpoints see them.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerPort, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use kubeproof_runtime::informer::Informer;
use kubeproof_runtime::pod::{self, Pod};
use kubeproof_runtime::store::{Change, ObjectKey};
use parking_lot::Mutex;

/// The annotation that says when the change happened which endpoints were last written for.
pub(crate) const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The label of endpoints whose service has no address of its own.
pub(crate) const HEADLESS: &str = "service.kubernetes.io/headless";

/// The selector of a service whose endpoints are for a controller to find.
pub(crate) fn selector(service: &Service) -> Option<&BTreeMap<String, String>> {
    let spec = service.spec.as_ref()?;
    let is_external = spec.type_.as_deref() == Some("ExternalName");
    spec.selector.as_ref().filter(|_| !is_external)
}

/// The service has no address of its own.
pub(crate) fn is_headless(service: &Service) -> bool {
    let address = service
        .spec
        .as_ref()
        .and_then(|spec| spec.cluster_ip.as_deref());
    matches!(address, None | Some("" | "None"))
}

fn selects(service: &Service, pod: &Pod) -> bool {
    selector(service).is_some_and(|selector| {
        let labels = pod.labels();
        selector
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
    })
}

/// The pods that the service selects, by name.
pub(crate) fn pods_of(service: &Service, pods: &Informer<Pod>) -> Vec<Arc<Pod>> {
    let mut selected = pods.in_namespace(&service.namespace().unwrap_or_default());
    selected.retain(|pod| selects(service, pod));
    selected
}

/// The services whose endpoints a change of a pod may concern.
pub(crate) fn concerned(change: &Change<Pod>, services: &Informer<Service>) -> Vec<ObjectKey> {
    let (one, other) = match change {
        Change::Added(pod) | Change::Deleted { last: pod, .. } => (pod, pod),
        Change::Updated { old, new } => (old, new),
    };
    let services = services.in_namespace(&one.namespace().unwrap_or_default());
    let concerned = services
        .iter()
        .filter(|service| selects(service, one) || selects(service, other));
    concerned.map(|service| ObjectKey::of(&**service)).collect()
}

/// Whether the pod has an address to be published: it has not finished, and unless terminating
/// ones are asked for it is there to stay.
pub(crate) fn is_published(pod: &Pod, with_terminating: bool) -> bool {
    !pod::is_finished(pod)
        && !addresses(pod).is_empty()
        && (with_terminating || !pod::is_terminating(pod))
}

/// The pod's addresses.
pub(crate) fn addresses(pod: &Pod) -> Vec<&str> {
    let status = pod.status.as_ref();
    let addresses = status.and_then(|status| status.pod_ips.as_ref());
    addresses
        .into_iter()
        .flatten()
        .map(|one| one.ip.as_str())
        .collect()
}

/// The name under which the pod is found below its headless service.
pub(crate) fn hostname(pod: &Pod, service: &Service) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let hostname = spec.hostname.clone().filter(|name| !name.is_empty())?;
    (spec.subdomain == service.metadata.name).then_some(hostname)
}

/// The number of the pod's port that the service's port leads to.
pub(crate) fn target_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    match port.target_port.as_ref() {
        None => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let protocol =
                |protocol: &Option<String>| protocol.clone().unwrap_or_else(|| "TCP".to_owned());
            let is_meant = |own: &&ContainerPort| {
                own.name.as_ref() == Some(name)
                    && protocol(&own.protocol) == protocol(&port.protocol)
            };
            let spec = pod.spec.as_ref()?;
            let sidecars = spec.init_containers.iter().flatten();
            let sidecars = sidecars.filter(|own| own.restart_policy.as_deref() == Some("Always"));
            let containers = spec.containers.iter().chain(sidecars);
            let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
            ports.find(is_meant).map(|own| own.container_port)
        }
    }
}

/// When what happened that endpoints are written for, by service.
#[derive(Debug, Default)]
pub(crate) struct TriggerTimes {
    known: Mutex<BTreeMap<ObjectKey, Known>>,
}

#[derive(Debug, Default)]
struct Known {
    service: Option<Timestamp>,
    pods: BTreeMap<String, Timestamp>,
}

impl TriggerTimes {
    /// The earliest change of the service or its pods that was not taken into account before.
    pub(crate) fn next(&self, service: &Service, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        let mut all = self.known.lock();
        let known = all.entry(ObjectKey::of(service)).or_default();
        let mut earliest: Option<Timestamp> = None;
        let mut note = |time: Timestamp| {
            earliest = Some(earliest.map_or(time, |earliest| earliest.min(time)));
        };
        let mut times = BTreeMap::new();
        for pod in pods {
            let name = pod.name_any();
            let Some(time) = ready_changed(pod) else {
                continue;
            };
            if known.pods.get(&name).is_none_or(|before| time > *before) {
                note(time);
            }
            times.insert(name, time);
        }
        let created = service.creation_timestamp().map(|time| time.0);
        if created > known.service
            && let Some(created) = created
        {
            note(created);
        }
        *known = Known {
            service: created,
            pods: times,
        };
        earliest
    }

    /// The service is gone.
    pub(crate) fn forget(&self, service: &ObjectKey) {
        self.known.lock().remove(service);
    }
}

fn ready_changed(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}

/// A time as annotations of endpoints have it.
pub(crate) fn in_rfc3339(time: Timestamp) -> String {
    time.to_string()
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, ready_since: &str) -> Arc<Pod> {
        let pod = json!({
            "metadata": {"name": name, "namespace": "ns"},
            "spec": {"hostname": name, "subdomain": "web", "containers": [{"name": "main",
                "ports": [{"name": "http", "containerPort": 8080},
                    {"name": "http", "containerPort": 8081, "protocol": "UDP"}]}]},
            "status": {"conditions": [{"type": "Ready", "status": "True",
                "lastTransitionTime": ready_since}]},
        });
        Arc::new(from_value(pod).unwrap())
    }

    fn service(spec: Value) -> Service {
        let service = json!({"metadata": {"name": "web", "namespace": "ns",
            "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec});
        from_value(service).unwrap()
    }

    #[test]
    fn named_ports_are_looked_up_by_name_and_protocol() {
        let port = |target: Value, protocol: &str| -> Option<i32> {
            let port = json!({"port": 80, "targetPort": target, "protocol": protocol});
            target_port(
                &pod("a", "2026-01-01T00:00:00Z"),
                &from_value(port).unwrap(),
            )
        };
        assert_eq!(port(json!("http"), "TCP"), Some(8080));
        assert_eq!(port(json!("http"), "UDP"), Some(8081));
        assert_eq!(port(json!("other"), "TCP"), None);
        assert_eq!(port(json!(9090), "TCP"), Some(9090));
    }

    #[test]
    fn endpoints_are_dated_by_the_first_change_that_is_new() {
        let times = TriggerTimes::default();
        let web = service(json!({}));
        let at = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        let pods = [
            pod("a", "2026-01-01T00:00:05Z"),
            pod("b", "2026-01-01T00:00:07Z"),
        ];
        assert_eq!(times.next(&web, &pods), at("2026-01-01T00:00:00Z"));
        assert_eq!(times.next(&web, &pods), None);
        let pods = [
            pod("a", "2026-01-01T00:00:09Z"),
            pod("c", "2026-01-01T00:00:08Z"),
        ];
        assert_eq!(times.next(&web, &pods), at("2026-01-01T00:00:08Z"));
    }

    #[test]
    fn pods_have_names_below_their_own_service_only() {
        let one = pod("a", "2026-01-01T00:00:05Z");
        let mut other = service(json!({}));
        assert_eq!(hostname(&one, &other), Some("a".to_owned()));
        other.metadata.name = Some("other".to_owned());
        assert_eq!(hostname(&one, &other), None);
    }
}
