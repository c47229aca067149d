//! The status of a pod as controllers hold it.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::shared::Shared;
use crate::compact::fit;

/// The state of a pod, which shares with other pods in memory what is often the same.
///
/// With k8s-openapi's types, a running pod of one container has five conditions of 160 bytes and a container's status of 752. But
/// conditions differ in their times alone, which are whole seconds. Only serde_json can decode a status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase", into = "core_v1::PodStatus")]
#[expect(
    missing_docs,
    reason = "they are the fields of k8s-openapi's `PodStatus`"
)]
pub struct PodStatus {
    pub allocated_resources: Option<BTreeMap<String, Quantity>>,
    pub conditions: Option<Vec<Shared<core_v1::PodCondition>>>,
    pub container_statuses: Option<Vec<ContainerStatus>>,
    pub ephemeral_container_statuses: Option<Vec<ContainerStatus>>,
    pub extended_resource_claim_status: Option<Box<core_v1::PodExtendedResourceClaimStatus>>,
    #[serde(rename = "hostIP")]
    pub host_ip: Option<String>,
    #[serde(rename = "hostIPs")]
    pub host_ips: Option<Vec<core_v1::HostIP>>,
    pub init_container_statuses: Option<Vec<ContainerStatus>>,
    pub message: Option<String>,
    pub node_allocatable_resource_claim_statuses:
        Option<Vec<core_v1::NodeAllocatableResourceClaimStatus>>,
    pub nominated_node_name: Option<String>,
    pub observed_generation: Option<i64>,
    pub phase: Option<String>,
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
    #[serde(rename = "podIPs")]
    pub pod_ips: Option<Vec<core_v1::PodIP>>,
    pub qos_class: Option<String>,
    pub reason: Option<String>,
    pub resize: Option<String>,
    pub resource_claim_statuses: Option<Vec<core_v1::PodResourceClaimStatus>>,
    pub resources: Option<Box<core_v1::ResourceRequirements>>,
    pub start_time: Option<Time>,
}

impl PodStatus {
    /// Makes the lists as long as they have to be.
    pub(crate) fn shrink_to_fit(&mut self) {
        fit(&mut self.conditions);
        fit(&mut self.container_statuses);
        fit(&mut self.init_container_statuses);
        fit(&mut self.host_ips);
        fit(&mut self.pod_ips);
    }
}

impl From<PodStatus> for core_v1::PodStatus {
    fn from(status: PodStatus) -> Self {
        let conditions = |own: Vec<Shared<core_v1::PodCondition>>| {
            own.iter().map(|condition| (**condition).clone()).collect()
        };
        let statuses = |own: Vec<ContainerStatus>| own.iter().map(ContainerStatus::whole).collect();
        Self {
            allocated_resources: status.allocated_resources,
            conditions: status.conditions.map(conditions),
            container_statuses: status.container_statuses.map(statuses),
            ephemeral_container_statuses: status.ephemeral_container_statuses.map(statuses),
            extended_resource_claim_status: status.extended_resource_claim_status.map(|own| *own),
            host_ip: status.host_ip,
            host_ips: status.host_ips,
            init_container_statuses: status.init_container_statuses.map(statuses),
            message: status.message,
            node_allocatable_resource_claim_statuses: status
                .node_allocatable_resource_claim_statuses,
            nominated_node_name: status.nominated_node_name,
            observed_generation: status.observed_generation,
            phase: status.phase,
            pod_ip: status.pod_ip,
            pod_ips: status.pod_ips,
            qos_class: status.qos_class,
            reason: status.reason,
            resize: status.resize,
            resource_claim_statuses: status.resource_claim_statuses,
            resources: status.resources.map(|own| *own),
            start_time: status.start_time,
        }
    }
}

impl From<core_v1::PodStatus> for PodStatus {
    fn from(status: core_v1::PodStatus) -> Self {
        let statuses = |all: Vec<core_v1::ContainerStatus>| {
            all.into_iter().map(ContainerStatus::from).collect()
        };
        Self {
            allocated_resources: status.allocated_resources,
            conditions: status
                .conditions
                .map(|all| all.into_iter().map(Shared::from).collect()),
            container_statuses: status.container_statuses.map(statuses),
            ephemeral_container_statuses: status.ephemeral_container_statuses.map(statuses),
            extended_resource_claim_status: status.extended_resource_claim_status.map(Box::new),
            host_ip: status.host_ip,
            host_ips: status.host_ips,
            init_container_statuses: status.init_container_statuses.map(statuses),
            message: status.message,
            node_allocatable_resource_claim_statuses: status
                .node_allocatable_resource_claim_statuses,
            nominated_node_name: status.nominated_node_name,
            observed_generation: status.observed_generation,
            phase: status.phase,
            pod_ip: status.pod_ip,
            pod_ips: status.pod_ips,
            qos_class: status.qos_class,
            reason: status.reason,
            resize: status.resize,
            resource_claim_statuses: status.resource_claim_statuses,
            resources: status.resources.map(Box::new),
            start_time: status.start_time,
        }
    }
}

/// The status of a container. It shares with others in memory all but the container's ID.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerStatus {
    /// The ID of the container, such as `containerd://0123`.
    pub container_id: Option<String>,
    /// The status without the ID.
    rest: Shared<core_v1::ContainerStatus>,
}

impl ContainerStatus {
    /// The status of the container whose text is this.
    fn of(text: &str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Written<'a> {
            #[serde(borrow, rename = "containerID")]
            container_id: Option<&'a RawValue>,
        }
        let id = serde_json::from_str::<Written<'_>>(text)?.container_id;
        let Some(id) = id.map(RawValue::get) else {
            let rest = Shared::of(text, |text| serde_json::from_str(text))?;
            return Ok(Self {
                container_id: None,
                rest,
            });
        };
        let start = id.as_ptr() as usize - text.as_ptr() as usize;
        let rest = [&text[..start], "null", &text[start + id.len()..]].concat();
        Ok(Self {
            container_id: serde_json::from_str(id)?,
            rest: Shared::of(&rest, |rest| serde_json::from_str(rest))?,
        })
    }

    /// The status as one of k8s-openapi.
    fn whole(&self) -> core_v1::ContainerStatus {
        core_v1::ContainerStatus {
            container_id: self.container_id.clone(),
            ..(*self.rest).clone()
        }
    }
}

impl From<core_v1::ContainerStatus> for ContainerStatus {
    fn from(mut status: core_v1::ContainerStatus) -> Self {
        Self {
            container_id: status.container_id.take(),
            rest: status.into(),
        }
    }
}

impl Deref for ContainerStatus {
    type Target = core_v1::ContainerStatus;

    fn deref(&self) -> &core_v1::ContainerStatus {
        &self.rest
    }
}

impl DerefMut for ContainerStatus {
    fn deref_mut(&mut self) -> &mut core_v1::ContainerStatus {
        &mut self.rest
    }
}

impl<'de> Deserialize<'de> for ContainerStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Self::of(text.get()).map_err(D::Error::custom)
    }
}

impl Serialize for ContainerStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.whole().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::decode::{from_value, to_value};

    /// The status of a container that runs since this minute, and ran before.
    fn container(id: &str, minute: u32) -> Value {
        let terminated = json!({ "exitCode": 1, "containerID": "containerd://before" });
        json!({
            "containerID": id,
            "image": "nginx",
            "imageID": "nginx@sha256:1",
            "lastState": { "terminated": terminated },
            "name": "c",
            "ready": true,
            "restartCount": 1,
            "state": { "running": { "startedAt": format!("2026-01-01T00:{minute:02}:00Z") } },
        })
    }

    fn read(container: &Value) -> ContainerStatus {
        from_value(container).unwrap()
    }

    #[test]
    fn statuses_that_differ_in_the_id_of_the_container_are_one() {
        let written = [
            ("containerd://1", 1),
            ("containerd://2", 1),
            ("containerd://1", 2),
        ];
        let written = written.map(|(id, minute)| container(id, minute));
        let [one, other, later] = written.each_ref().map(read);
        assert!(one.rest.is_shared_with(&other.rest));
        assert!(!one.rest.is_shared_with(&later.rest));
        assert_ne!(one, other);
        assert_eq!(other.container_id.as_deref(), Some("containerd://2"));
        let before = one
            .last_state
            .as_ref()
            .and_then(|state| state.terminated.as_ref());
        let before = before.and_then(|state| state.container_id.as_deref());
        assert_eq!(before, Some("containerd://before"));
        assert_eq!(
            [one, other, later].map(|own| to_value(&own).unwrap()),
            written
        );
    }

    #[test]
    fn a_status_without_an_id_has_none() {
        for id in [None, Some(Value::Null)] {
            let mut written = container("", 3);
            written.as_object_mut().unwrap().remove("containerID");
            let want = to_value(&read(&written)).unwrap();
            if let Some(id) = id {
                written["containerID"] = id;
            }
            let status = read(&written);
            assert_eq!(status.container_id, None);
            assert_eq!(to_value(&status).unwrap(), want);
        }
        let refused = from_value::<ContainerStatus>(json!({ "containerID": 7 })).unwrap_err();
        let want = "invalid type: integer `7`, expected a string";
        assert_eq!(refused.to_string(), want);
    }

    #[test]
    fn a_changed_status_is_one_of_its_own() {
        let written = container("containerd://3", 4);
        let kept = read(&written);
        let mut changed = kept.clone();
        changed.ready = false;
        changed.container_id = Some("containerd://4".to_owned());
        let mut want = written.clone();
        (want["ready"], want["containerID"]) = (json!(false), json!("containerd://4"));
        assert_eq!(to_value(&changed).unwrap(), want);
        assert_eq!(to_value(&kept).unwrap(), written);
        let theirs: core_v1::ContainerStatus = from_value(&want).unwrap();
        assert_eq!(ContainerStatus::from(theirs), changed);
    }

    #[test]
    fn a_status_is_written_as_that_of_k8s_openapi() {
        let quantity = json!({ "cpu": "1" });
        let everything = json!({
            "allocatedResources": quantity,
            "conditions": [{ "type": "Ready", "status": "True", "reason": "written" }],
            "containerStatuses": [container("containerd://5", 5)],
            "ephemeralContainerStatuses": [container("containerd://6", 6)],
            "extendedResourceClaimStatus": { "requestMappings": [], "resourceClaimName": "a" },
            "hostIP": "172.18.0.2",
            "hostIPs": [{ "ip": "172.18.0.2" }],
            "initContainerStatuses": [container("containerd://7", 7)],
            "message": "a",
            "nodeAllocatableResourceClaimStatuses": [{ "resourceClaimName": "a" }],
            "nominatedNodeName": "a",
            "observedGeneration": 3,
            "phase": "Running",
            "podIP": "10.244.1.2",
            "podIPs": [{ "ip": "10.244.1.2" }],
            "qosClass": "Burstable",
            "reason": "a",
            "resize": "Proposed",
            "resourceClaimStatuses": [{ "name": "a" }],
            "resources": { "requests": quantity },
            "startTime": "2026-01-01T00:00:00Z",
        });
        for status in [
            everything,
            json!({}),
            json!({ "conditions": null, "phase": null }),
        ] {
            let theirs: core_v1::PodStatus = from_value(&status).unwrap();
            let ours: PodStatus = from_value(&status).unwrap();
            let texts = (serde_json::to_string(&ours), serde_json::to_string(&theirs));
            assert_eq!(texts.0.unwrap(), texts.1.unwrap());
            assert_eq!(PodStatus::from(theirs), ours);
        }
    }

    #[test]
    fn a_status_takes_little() {
        assert!(size_of::<PodStatus>() <= 488);
        assert!(size_of::<ContainerStatus>() <= 32);
    }
}
