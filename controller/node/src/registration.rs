//! The Node objects of simulated nodes and their Leases.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::{Api, Client, Resource};
use kubeproof_machinery::json::{Value, json};
use kubeproof_runtime::context::Context;
use kubeproof_runtime::decode_cache::Decoded;
use kubeproof_runtime::retry::retry_after;
use kubeproof_runtime::sync_error::answered;
use kubeproof_runtime::taints::NOT_READY;
use serde::de::DeserializeOwned;

use super::faults::{Faults, Link};
use super::status::wire_time;
use super::{NodeConfig, identity};

const LEASE_SECONDS: u32 = 40;
/// The interval at which a kubelet reports an unchanged status (`nodeStatusReportFrequency`),
/// without the jitter that upstream adds after a change.
const STATUS_REPORT_INTERVAL: SignedDuration = SignedDuration::from_mins(5);
const LEASE_NAMESPACE: &str = "kube-node-lease";
pub(super) const KUBELET_VERSION: &str = "v1.36.2";

/// Creates the nodes `1..=nodes`, or adopts existing ones; retries until it succeeds.
pub(super) async fn register(ctx: &Context, nodes: usize, config: &NodeConfig) {
    for index in 1..=nodes {
        let mut failures = 0;
        while let Err(error) = register_one(ctx, index, config).await {
            tracing::warn!(node = identity::node_name(index), %error, "node not registered");
            failures += 1;
            tokio::time::sleep(retry_after(failures)).await;
        }
    }
}

async fn register_one(ctx: &Context, index: usize, config: &NodeConfig) -> Result<(), kube::Error> {
    // Responses share their objects with the coming watch events.
    let api: Api<Decoded<Node>> = Api::all(ctx.client.clone());
    let name = identity::node_name(index);
    let wanted = node(index, (ctx.now)());
    let found = match create(&api, &wanted).await {
        Err(error) if answered(&error, 409) => api.get(&name).await?,
        created => created?,
    };
    // The node existed before, or the server has ignored the status on create.
    let found = found.0;
    let taints = found.spec.as_ref().and_then(|spec| spec.taints.clone());
    let status = found.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    if !ready {
        let patch = Patch::Strategic(json!({ "status": wanted["status"] }));
        api.patch_status(&name, &PatchParams::default(), &patch)
            .await?;
    }
    if config.has_lifecycle_controller {
        return Ok(());
    }
    admit_pods(&api, &name, taints.unwrap_or_default()).await
}

/// Removes the taint of a new node, as the node lifecycle controller does once it is ready.
async fn admit_pods(
    api: &Api<Decoded<Node>>,
    name: &str,
    taints: Vec<Taint>,
) -> Result<(), kube::Error> {
    let (not_ready, rest): (Vec<_>, Vec<_>) =
        taints.into_iter().partition(|taint| taint.key == NOT_READY);
    if not_ready.is_empty() {
        return Ok(());
    }
    let rest = Some(rest).filter(|rest| !rest.is_empty());
    let patch = Patch::Merge(json!({ "spec": { "taints": rest } }));
    api.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Creates an object from JSON, so that the request has exactly these fields.
async fn create<K>(api: &Api<K>, object: &Value) -> Result<K, kube::Error>
where
    K: Clone + DeserializeOwned + Resource<DynamicType = ()>,
{
    let mut object = object.clone();
    object["apiVersion"] = json!(K::api_version(&()));
    object["kind"] = json!(K::kind(&()));
    let body = serde_json::to_vec(&object).map_err(kube::Error::SerdeError)?;
    let request = Request::new(api.resource_url()).create(&PostParams::default(), body);
    let request = request.map_err(kube::Error::BuildRequest)?;
    Client::from(api.clone()).request(request).await
}

/// Renews the Lease of every node that is up, for as long as it is polled. Posts the node's
/// conditions every `STATUS_REPORT_INTERVAL`.
///
/// A node posts its conditions at once after an outage, in which they may have become Unknown.
pub(super) async fn send_heartbeats(ctx: Context, faults: &Faults, period: Duration) {
    let leases: Api<Lease> = Api::namespaced(ctx.client.clone(), LEASE_NAMESPACE);
    let nodes: Api<Node> = Api::all(ctx.client.clone());
    let mut away: BTreeSet<usize> = BTreeSet::new();
    let began = (ctx.now)();
    let mut reported: BTreeMap<usize, Timestamp> = BTreeMap::new();
    loop {
        for (index, link) in faults.all() {
            if link != Link::Up {
                away.insert(index);
                continue;
            }
            let (name, now) = (identity::node_name(index), (ctx.now)());
            let last = *reported.get(&index).unwrap_or(&began);
            if away.contains(&index) || now.duration_since(last) >= STATUS_REPORT_INTERVAL {
                match post_conditions(&nodes, &name, now).await {
                    // A node that a client has deleted is not registered again.
                    Err(error) if !answered(&error, 404) => {
                        tracing::warn!(node = name, %error, "conditions not posted");
                    }
                    _ => {
                        away.remove(&index);
                        reported.insert(index, now);
                    }
                }
            }
            match renew(&leases, &name, now).await {
                // Without the namespace, no controller reads the Leases.
                Err(error) if answered(&error, 404) => {}
                Err(error) => {
                    tracing::warn!(node = name, %error, "lease not renewed");
                    away.insert(index);
                }
                Ok(()) => {}
            }
        }
        tokio::time::sleep(period).await;
    }
}

/// Posts a healthy node's conditions; unchanged ones keep their transition time.
async fn post_conditions(api: &Api<Node>, name: &str, now: Timestamp) -> Result<(), kube::Error> {
    let known = api.get(name).await?.status.unwrap_or_default().conditions;
    let known: Vec<NodeCondition> = known.unwrap_or_default();
    let mut posted = conditions(now);
    for condition in posted.as_array_mut().into_iter().flatten() {
        let same = known.iter().find(|known| {
            condition["type"] == *known.type_ && condition["status"] == *known.status
        });
        if let Some(since) = same.and_then(|known| known.last_transition_time.as_ref()) {
            condition["lastTransitionTime"] = json!(wire_time(since.0));
        }
    }
    let patch = Patch::Strategic(json!({ "status": { "conditions": posted } }));
    api.patch_status(name, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

async fn renew(api: &Api<Lease>, name: &str, now: Timestamp) -> Result<(), kube::Error> {
    let renew_time = now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let patch = Patch::Merge(json!({ "spec": { "renewTime": renew_time } }));
    match api.patch(name, &PatchParams::default(), &patch).await {
        Err(error) if answered(&error, 404) => {
            let lease = json!({
                "metadata": { "namespace": LEASE_NAMESPACE, "name": name },
                "spec": {
                    "holderIdentity": name,
                    "leaseDurationSeconds": LEASE_SECONDS,
                    "renewTime": renew_time,
                },
            });
            create(api, &lease).await.map(|_| ())
        }
        renewed => renewed.map(|_| ()),
    }
}

fn node(index: usize, now: Timestamp) -> Value {
    let name = identity::node_name(index);
    let resources = json!({
        "cpu": "8",
        "memory": "32Gi",
        "ephemeral-storage": "100Gi",
        "pods": "110",
    });
    let machine = format!("{index:032x}");
    json!({
        "metadata": {
            "name": name,
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
            },
        },
        "spec": {
            "podCIDR": identity::pod_cidr(index),
            "podCIDRs": [identity::pod_cidr(index)],
            "providerID": format!("kubeproof://{name}"),
        },
        "status": {
            "addresses": [
                { "type": "InternalIP", "address": identity::host_ip(index) },
                { "type": "Hostname", "address": name },
            ],
            "allocatable": resources,
            "capacity": resources,
            "conditions": conditions(now),
            "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": machine,
                "containerRuntimeVersion": "containerd://2.1.0",
                "kernelVersion": "6.12.0",
                "kubeProxyVersion": "",
                "kubeletVersion": KUBELET_VERSION,
                "machineID": machine,
                "operatingSystem": "linux",
                "osImage": "kubeproof",
                "systemUUID": machine,
            },
        },
    })
}

pub(super) fn conditions(now: Timestamp) -> Value {
    let condition = |type_: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": wire_time(now),
            "lastTransitionTime": wire_time(now),
        })
    };
    json!([
        condition(
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        condition(
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
        ),
        condition(
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
        condition(
            "Ready",
            "True",
            "KubeletReady",
            "kubelet is posting ready status"
        ),
    ])
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;

    use super::*;

    #[test]
    fn a_node_is_a_valid_node_object() {
        let parsed: Node = from_value(node(3, Timestamp::UNIX_EPOCH)).unwrap();
        assert_eq!(parsed.metadata.name.as_deref(), Some("node-3"));
        let status = parsed.status.unwrap();
        assert_eq!(status.node_info.unwrap().kubelet_version, "v1.36.2");
        assert_eq!(status.conditions.unwrap().len(), 4);
    }
}
