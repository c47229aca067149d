//! Plans which slices to create, update and delete: one for each address type and set of ports.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kubeproof_runtime::controller_ref::controller_ref;

use super::desired::{Desired, SliceKey, Wanted};
use super::{MANAGED_BY, MANAGER, SERVICE_NAME};

/// Annotations that are not mirrored.
const KEPT_BACK: [&str; 2] = [
    "endpoints.kubernetes.io/last-change-trigger-time",
    "kubectl.kubernetes.io/last-applied-configuration",
];
/// The longest name with room for what the server adds to it.
const PREFIX_MAX: usize = 253;

/// The writes that a sync needs.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) create: Vec<EndpointSlice>,
    pub(super) update: Vec<EndpointSlice>,
    /// By name.
    pub(super) delete: Vec<String>,
}

/// Brings the `existing` slices of `endpoints` to what is `desired`.
pub(super) fn reconcile(
    endpoints: &Endpoints,
    existing: &[Arc<EndpointSlice>],
    desired: Desired,
) -> Plan {
    let (mut create, mut update, mut delete) = (Vec::new(), Vec::new(), Vec::new());
    let mut by_key: BTreeMap<SliceKey, Vec<&Arc<EndpointSlice>>> = BTreeMap::new();
    for slice in existing {
        let ports = slice.ports.as_deref().unwrap_or_default();
        let key = SliceKey::new(&slice.address_type, ports);
        by_key.entry(key).or_default().push(slice);
    }
    for (key, wanted) in desired.slices {
        let slices = by_key.remove(&key).unwrap_or_default();
        let mut slices = slices.into_iter();
        let first = slices.next();
        delete.extend(slices);
        let mut slice = new_slice(endpoints, &key.address_type, &wanted);
        match first {
            Some(first) if is_like(first, &slice, endpoints) => {}
            Some(first) => update.push(named(slice, &first.name_any())),
            None => {
                slice.metadata.generate_name = Some(prefix(&endpoints.name_any()));
                create.push(slice);
            }
        }
    }
    delete.extend(by_key.into_values().flatten());
    // Reuse an obsolete slice for one that is missing.
    create.retain(|slice| {
        let unwanted = delete
            .iter()
            .position(|own| own.address_type == slice.address_type);
        if let Some(index) = unwanted {
            let unwanted = delete.remove(index);
            update.push(named(slice.clone(), &unwanted.name_any()));
        }
        unwanted.is_none()
    });
    if endpoints.metadata.deletion_timestamp.is_some() {
        create.clear();
    }
    Plan {
        create,
        update,
        delete: delete.iter().map(|slice| slice.name_any()).collect(),
    }
}

fn named(mut slice: EndpointSlice, name: &str) -> EndpointSlice {
    slice.metadata.generate_name = None;
    slice.metadata.name = Some(name.to_owned());
    slice
}

fn prefix(name: &str) -> String {
    let prefix = format!("{name}-");
    if prefix.len() > PREFIX_MAX {
        name.to_owned()
    } else {
        prefix
    }
}

/// Whether the slice says what `wanted` would, and belongs to these Endpoints.
fn is_like(slice: &EndpointSlice, wanted: &EndpointSlice, endpoints: &Endpoints) -> bool {
    let (own, other) = (
        slice.endpoints.iter().flatten(),
        wanted.endpoints.iter().flatten(),
    );
    let is_owned = slice
        .owner_references()
        .iter()
        .any(|owner| Some(&owner.uid) == endpoints.metadata.uid.as_ref());
    is_owned
        && slice.labels() == wanted.labels()
        && slice.annotations() == wanted.annotations()
        && own.clone().count() == other.clone().count()
        && own
            .clone()
            .all(|endpoint| other.clone().any(|wanted| wanted == endpoint))
}

fn new_slice(endpoints: &Endpoints, address_type: &str, wanted: &Wanted) -> EndpointSlice {
    let mut labels = endpoints.labels().clone();
    labels.insert(SERVICE_NAME.to_owned(), endpoints.name_any());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    let mut annotations = endpoints.annotations().clone();
    annotations.retain(|name, _| !KEPT_BACK.contains(&name.as_str()));
    EndpointSlice {
        address_type: address_type.to_owned(),
        endpoints: Some(wanted.endpoints.clone()),
        metadata: ObjectMeta {
            namespace: endpoints.namespace(),
            labels: Some(labels),
            annotations: Some(annotations).filter(|own| !own.is_empty()),
            owner_references: Some(vec![controller_ref("v1", "Endpoints", &endpoints.metadata)]),
            ..ObjectMeta::default()
        },
        ports: Some(wanted.ports.clone()),
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_runtime::decode::from_value;
    use serde_json::{Value, json};

    use super::*;

    fn endpoints(metadata: Value, port: i32, ips: &[&str]) -> Endpoints {
        let addresses: Vec<Value> = ips.iter().map(|ip| json!({ "ip": ip })).collect();
        let mut endpoints = json!({
            "metadata": metadata,
            "subsets": [{ "addresses": addresses, "ports": [{ "port": port }] }],
        });
        endpoints["metadata"]["name"] = json!("web");
        from_value(endpoints).unwrap()
    }

    fn planned(endpoints: &Endpoints, existing: &[Arc<EndpointSlice>]) -> Plan {
        reconcile(endpoints, existing, Desired::of(endpoints))
    }

    fn stored(slice: EndpointSlice, name: &str) -> Arc<EndpointSlice> {
        Arc::new(named(slice, name))
    }

    #[test]
    fn a_slice_is_created_kept_updated_recycled_and_deleted() {
        let metadata = json!({
            "uid": "1", "labels": { "app": "web" },
            "annotations": { "a": "b", KEPT_BACK[0]: "then", KEPT_BACK[1]: "{}" },
        });
        let first = endpoints(metadata.clone(), 80, &["10.0.0.1"]);
        let mut plan = planned(&first, &[]);
        assert_eq!(
            (plan.create.len(), plan.update.len(), plan.delete.len()),
            (1, 0, 0)
        );
        let slice = plan.create.remove(0);
        assert_eq!(slice.metadata.generate_name.as_deref(), Some("web-"));
        assert_eq!(json!(slice.annotations()), json!({ "a": "b" }));
        assert_eq!(
            json!(slice.labels()),
            json!({ "app": "web", SERVICE_NAME: "web", MANAGED_BY: MANAGER })
        );
        let slice = stored(slice, "web-1");
        let second = stored((*slice).clone(), "web-2");
        let existing = [Arc::clone(&slice), second];
        let plan = planned(&first, &existing);
        assert_eq!((plan.create.len(), plan.update.len()), (0, 0));
        assert_eq!(plan.delete, ["web-2"], "one is enough");

        let existing = [slice];
        for changed in [
            endpoints(metadata.clone(), 80, &["10.0.0.2"]),
            endpoints(json!({ "uid": "1" }), 80, &["10.0.0.1"]),
            endpoints(
                json!({ "uid": "2", "labels": { "app": "web" }, "annotations": { "a": "b" } }),
                80,
                &["10.0.0.1"],
            ),
            endpoints(metadata.clone(), 81, &["10.0.0.1"]),
        ] {
            let plan = planned(&changed, &existing);
            assert_eq!(
                (plan.create.len(), plan.delete.len()),
                (0, 0),
                "{changed:?}"
            );
            assert_eq!(plan.update[0].name_any(), "web-1", "{changed:?}");
        }
        let other_type = endpoints(metadata.clone(), 80, &["fd00::1"]);
        let plan = planned(&other_type, &existing);
        assert_eq!((plan.create.len(), plan.update.len()), (1, 0));
        assert_eq!(plan.delete, ["web-1"]);
        let none = endpoints(metadata, 80, &[]);
        assert_eq!(planned(&none, &existing).delete, ["web-1"]);
    }
}
