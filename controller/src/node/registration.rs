//! Node objects and the Leases that keep them alive.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::identity;
use super::status::wire_time;
use crate::context::Context;
use crate::mirror;

const LEASE_SECONDS: u32 = 40;
const LEASE_NAMESPACE: &str = "kube-node-lease";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const KUBELET_VERSION: &str = "v1.36.2";

/// Creates the nodes `1..=nodes`, or takes over those that exist; tries until it has.
pub(super) async fn register(ctx: &Context, nodes: usize) {
    for index in 1..=nodes {
        let mut failures = 0;
        while let Err(error) = register_one(ctx, index).await {
            tracing::warn!(node = identity::node_name(index), %error, "node not registered");
            failures += 1;
            tokio::time::sleep(mirror::retry_after(failures)).await;
        }
    }
}

async fn register_one(ctx: &Context, index: usize) -> Result<(), kube::Error> {
    let api: Api<Node> = Api::all(ctx.client.clone());
    let name = identity::node_name(index);
    let wanted = node(index, (ctx.now)());
    let found = match create(&api, &wanted).await {
        Err(error) if mirror::answered(&error, 409) => api.get(&name).await?,
        created => created?,
    };
    // A node that was there before, or a server that keeps status to its own subresource.
    let taints = found.spec.and_then(|spec| spec.taints);
    let conditions = found.status.and_then(|status| status.conditions);
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    if !ready {
        let patch = Patch::Strategic(json!({ "status": wanted["status"] }));
        api.patch_status(&name, &PatchParams::default(), &patch)
            .await?;
    }
    lift_not_ready(&api, &name, taints.unwrap_or_default()).await
}

/// Takes away the taint that a server gives a new node, as the node lifecycle controller does once
/// the node is ready.
async fn lift_not_ready(
    api: &Api<Node>,
    name: &str,
    mut taints: Vec<Taint>,
) -> Result<(), kube::Error> {
    let before = taints.len();
    taints.retain(|taint| taint.key != NOT_READY);
    if taints.len() < before {
        let patch = Patch::Merge(json!({ "spec": { "taints": taints } }));
        api.patch(name, &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

/// Creates from JSON, so that what is sent is exactly what is written here.
async fn create<K>(api: &Api<K>, object: &Value) -> Result<K, kube::Error>
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let parsed: K = serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
    api.create(&PostParams::default(), &parsed).await
}

/// Renews the Lease of every node, for as long as it is polled.
pub(super) async fn renew_leases(ctx: Context, nodes: usize, period: Duration) {
    let api: Api<Lease> = Api::namespaced(ctx.client.clone(), LEASE_NAMESPACE);
    loop {
        for index in 1..=nodes {
            let name = identity::node_name(index);
            match renew(&api, &name, (ctx.now)()).await {
                // Without the namespace nobody asks for heartbeats.
                Err(error) if mirror::answered(&error, 404) => {}
                Err(error) => tracing::warn!(node = name, %error, "lease not renewed"),
                Ok(()) => {}
            }
        }
        tokio::time::sleep(period).await;
    }
}

async fn renew(api: &Api<Lease>, name: &str, now: Timestamp) -> Result<(), kube::Error> {
    let renew_time = now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let patch = Patch::Merge(json!({ "spec": { "renewTime": renew_time } }));
    match api.patch(name, &PatchParams::default(), &patch).await {
        Err(error) if mirror::answered(&error, 404) => {
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

fn conditions(now: Timestamp) -> Value {
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
    use super::*;

    #[test]
    fn a_node_is_a_valid_node_object() {
        let parsed: Node = serde_json::from_value(node(3, Timestamp::UNIX_EPOCH)).unwrap();
        assert_eq!(parsed.metadata.name.as_deref(), Some("node-3"));
        let status = parsed.status.unwrap();
        assert_eq!(status.node_info.unwrap().kubelet_version, "v1.36.2");
        assert_eq!(status.conditions.unwrap().len(), 4);
    }
}
