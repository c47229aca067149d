//! Plans which slices to create, update and delete, so that as few as possible change.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kubeproof_runtime::controller_ref::controller_ref;

use super::desired::Group;
use super::{MANAGED_BY, MANAGER, SERVICE_NAME};
use crate::core::services::{self, HEADLESS, TRIGGER_TIME};

/// The most endpoints in one slice.
const ENDPOINTS_MAX: usize = 100;

/// The writes that a sync needs.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) create: Vec<EndpointSlice>,
    pub(super) update: Vec<EndpointSlice>,
    /// By name.
    pub(super) delete: Vec<String>,
}

/// Brings `existing` slices of `service` to what is `desired`, by address type.
pub(super) fn reconcile(
    service: &Service,
    existing: &[Arc<EndpointSlice>],
    desired: BTreeMap<String, Vec<Group>>,
    changed: Option<Timestamp>,
) -> Plan {
    let mut plan = Plan::default();
    for slice in existing {
        if !desired.contains_key(&slice.address_type) {
            plan.delete.push(slice.name_any());
        }
    }
    for (address_type, groups) in desired {
        let of_type = existing
            .iter()
            .filter(|slice| slice.address_type == address_type);
        let of_type: Vec<&Arc<EndpointSlice>> = of_type.collect();
        reconcile_type(service, &address_type, &of_type, groups, &mut plan);
    }
    for slice in plan.create.iter_mut().chain(&mut plan.update) {
        let annotations = slice.metadata.annotations.get_or_insert_default();
        match changed {
            Some(time) => {
                annotations.insert(TRIGGER_TIME.to_owned(), services::in_rfc3339(time));
            }
            None => {
                annotations.remove(TRIGGER_TIME);
            }
        }
        if annotations.is_empty() {
            slice.metadata.annotations = None;
        }
    }
    plan
}

/// Plans for the slices of one address type.
fn reconcile_type(
    service: &Service,
    address_type: &str,
    existing: &[&Arc<EndpointSlice>],
    groups: Vec<Group>,
    plan: &mut Plan,
) {
    let (mut create, mut update, mut delete) = (Vec::new(), Vec::new(), Vec::new());
    let is_of = |slice: &EndpointSlice, group: &Group| {
        slice.ports.as_deref().unwrap_or_default() == group.ports
    };
    for slice in existing {
        if !groups.iter().any(|group| is_of(slice, group)) {
            delete.push(Arc::clone(slice));
        }
    }
    for group in groups {
        let of_group = existing.iter().filter(|slice| is_of(slice, &group));
        let of_group: Vec<&Arc<EndpointSlice>> = of_group.copied().collect();
        let template = new_slice(service, address_type, &group);
        let changes = reconcile_group(&of_group, group.endpoints, &template);
        create.extend(changes.create);
        update.extend(changes.update);
        delete.extend(changes.delete);
    }
    if create.is_empty() && delete.len() == existing.len() {
        // A service has a slice always, if only an empty one.
        let none = Group {
            ports: Vec::new(),
            endpoints: Vec::new(),
        };
        let placeholder = new_slice(service, address_type, &none);
        match delete.as_slice() {
            [one] if is_like(one, &placeholder) => delete.clear(),
            _ => create.push(placeholder),
        }
    }
    // Reuse an obsolete slice for one that is missing.
    while !create.is_empty() && !delete.is_empty() {
        let (wanted, unwanted) = (create.remove(0), delete.remove(0));
        update.push(EndpointSlice {
            metadata: ObjectMeta {
                labels: wanted.metadata.labels,
                ..unwanted.metadata.clone()
            },
            ..wanted
        });
    }
    plan.create.extend(create);
    plan.update.extend(update);
    plan.delete
        .extend(delete.iter().map(|slice| slice.name_any()));
}

#[derive(Default)]
struct Changes {
    create: Vec<EndpointSlice>,
    update: Vec<EndpointSlice>,
    delete: Vec<Arc<EndpointSlice>>,
}

/// Plans for slices with the same ports: endpoints stay where they are, new ones fill up slices
/// that change anyway, then the fullest one that has room for all, then new ones.
fn reconcile_group(
    existing: &[&Arc<EndpointSlice>],
    desired: Vec<Endpoint>,
    template: &EndpointSlice,
) -> Changes {
    let mut changes = Changes::default();
    let mut left = desired;
    let mut unchanged: Vec<&Arc<EndpointSlice>> = Vec::new();
    for slice in existing {
        let mut endpoints = Vec::new();
        let mut differs = slice.labels() != template.labels();
        for endpoint in listed(slice) {
            let same = left.iter().position(|wanted| is_same(wanted, endpoint));
            match same.map(|index| left.remove(index)) {
                Some(wanted) => {
                    differs |= wanted != *endpoint;
                    endpoints.push(wanted);
                }
                None => differs = true,
            }
        }
        if endpoints.is_empty() {
            changes.delete.push(Arc::clone(slice));
        } else if differs {
            changes
                .update
                .push(with_endpoints(slice, endpoints, template));
        } else {
            unchanged.push(slice);
        }
    }
    let is_about_to_change = !changes.update.is_empty();
    for slice in &mut changes.update {
        let room = ENDPOINTS_MAX.saturating_sub(listed(slice).len());
        let moved = left.drain(..room.min(left.len()));
        slice.endpoints.get_or_insert_default().extend(moved);
    }
    if is_about_to_change && left.is_empty() {
        return changes;
    }
    while !left.is_empty() {
        let has_room =
            |slice: &&&Arc<EndpointSlice>| listed(slice).len() + left.len() <= ENDPOINTS_MAX;
        let fullest = unchanged
            .iter()
            .filter(has_room)
            .max_by_key(|slice| listed(slice).len());
        if let Some(slice) = fullest {
            let mut endpoints = listed(slice).to_vec();
            endpoints.append(&mut left);
            changes
                .update
                .push(with_endpoints(slice, endpoints, template));
            break;
        }
        let moved = left.drain(..ENDPOINTS_MAX.min(left.len()));
        changes.create.push(EndpointSlice {
            endpoints: Some(moved.collect()),
            ..template.clone()
        });
    }
    changes
}

fn listed(slice: &EndpointSlice) -> &[Endpoint] {
    slice.endpoints.as_deref().unwrap_or_default()
}

/// Whether both endpoints are one pod at one address.
fn is_same(one: &Endpoint, other: &Endpoint) -> bool {
    let uid = |endpoint: &Endpoint| {
        let target = endpoint.target_ref.as_ref();
        target.and_then(|target| target.uid.clone())
    };
    one.addresses == other.addresses && uid(one) == uid(other)
}

fn with_endpoints(
    slice: &EndpointSlice,
    endpoints: Vec<Endpoint>,
    template: &EndpointSlice,
) -> EndpointSlice {
    let mut changed = slice.clone();
    changed.endpoints = Some(endpoints);
    changed.metadata.labels = template.metadata.labels.clone();
    changed
}

/// Whether the slice says what `wanted` would.
fn is_like(slice: &EndpointSlice, wanted: &EndpointSlice) -> bool {
    listed(slice) == listed(wanted)
        && slice.ports.as_deref().unwrap_or_default() == wanted.ports.as_deref().unwrap_or_default()
        && slice.labels() == wanted.labels()
}

/// A slice of the group, without endpoints.
fn new_slice(service: &Service, address_type: &str, group: &Group) -> EndpointSlice {
    let mut labels = service.labels().clone();
    labels.remove(HEADLESS);
    if services::is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    let name = service.name_any();
    labels.insert(SERVICE_NAME.to_owned(), name.clone());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    EndpointSlice {
        address_type: address_type.to_owned(),
        endpoints: Some(Vec::new()),
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: service.namespace(),
            labels: Some(labels),
            owner_references: Some(vec![controller_ref("v1", "Service", &service.metadata)]),
            ..ObjectMeta::default()
        },
        ports: Some(group.ports.clone()),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::discovery::v1::EndpointPort;
    use kubeproof_runtime::decode::from_value;
    use serde_json::json;

    use super::*;

    fn service() -> Service {
        let service = json!({"metadata": {"name": "web", "namespace": "ns", "uid": "s",
            "labels": {"app": "web"}}, "spec": {"clusterIP": "10.0.0.9"}});
        from_value(service).unwrap()
    }

    fn endpoints(range: std::ops::Range<usize>) -> Vec<Endpoint> {
        let endpoint = |index: usize| {
            let endpoint = json!({"addresses": [format!("10.1.0.{index}")],
                "targetRef": {"uid": format!("u{index}")}});
            from_value(endpoint).unwrap()
        };
        range.map(endpoint).collect()
    }

    fn groups(port: i32, range: std::ops::Range<usize>) -> BTreeMap<String, Vec<Group>> {
        let port = EndpointPort {
            port: Some(port),
            ..EndpointPort::default()
        };
        let group = Group {
            ports: vec![port],
            endpoints: endpoints(range),
        };
        let groups = Some(group).filter(|group| !group.endpoints.is_empty());
        BTreeMap::from([("IPv4".to_owned(), groups.into_iter().collect())])
    }

    /// Carries a plan out as a server would.
    fn carried_out(existing: &[Arc<EndpointSlice>], plan: Plan) -> Vec<Arc<EndpointSlice>> {
        let mut slices: Vec<EndpointSlice> = existing.iter().map(|one| (**one).clone()).collect();
        slices.retain(|slice| !plan.delete.contains(&slice.name_any()));
        for update in plan.update {
            slices.retain(|slice| slice.name_any() != update.name_any());
            slices.push(update);
        }
        for mut slice in plan.create {
            slice.metadata.name = Some(format!("web-{}", slices.len()));
            slices.push(slice);
        }
        slices.sort_by_key(ResourceExt::name_any);
        slices.into_iter().map(Arc::new).collect()
    }

    fn sizes(slices: &[Arc<EndpointSlice>]) -> Vec<usize> {
        slices.iter().map(|slice| listed(slice).len()).collect()
    }

    fn next(
        existing: &[Arc<EndpointSlice>],
        desired: BTreeMap<String, Vec<Group>>,
    ) -> Vec<Arc<EndpointSlice>> {
        carried_out(existing, reconcile(&service(), existing, desired, None))
    }

    #[test]
    fn a_slice_holds_a_hundred_endpoints() {
        let slices = next(&[], groups(80, 0..250));
        assert_eq!(sizes(&slices), [100, 100, 50]);
        let same = reconcile(&service(), &slices, groups(80, 0..250), None);
        assert_eq!(same, Plan::default(), "nothing to do");
        let more = reconcile(&service(), &slices, groups(80, 0..260), None);
        assert_eq!((more.create.len(), more.update.len()), (0, 1));
        assert_eq!(sizes(&carried_out(&slices, more)), [100, 100, 60]);
        // The slice that loses one is filled up with the new one.
        let moved = reconcile(&service(), &slices, groups(80, 1..251), None);
        assert_eq!((moved.create.len(), moved.update.len()), (0, 1));
    }

    #[test]
    fn a_service_without_endpoints_has_an_empty_slice() {
        let slices = next(&[], groups(80, 0..0));
        assert_eq!(sizes(&slices), [0]);
        let same = reconcile(&service(), &slices, groups(80, 0..0), None);
        assert_eq!(same, Plan::default());
        let filled = reconcile(&service(), &slices, groups(80, 0..2), None);
        assert_eq!(
            (
                filled.create.len(),
                filled.update.len(),
                filled.delete.len()
            ),
            (0, 1, 0)
        );
        let slices = carried_out(&slices, filled);
        assert_eq!(sizes(&slices), [2]);
        let emptied = next(&slices, groups(80, 0..0));
        assert_eq!(sizes(&emptied), [0]);
        assert_eq!(emptied[0].name_any(), slices[0].name_any());
    }

    #[test]
    fn labels_follow_the_service_and_ports_make_another_slice() {
        let slices = next(&[], groups(80, 0..2));
        let labels: Vec<String> = slices[0]
            .labels()
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        assert_eq!(
            labels,
            [
                "app=web",
                "endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io",
                "kubernetes.io/service-name=web"
            ]
        );
        let other = reconcile(&service(), &slices, groups(81, 0..2), None);
        assert_eq!(other.update.len(), 1);
        assert_eq!(other.update[0].ports.as_ref().unwrap()[0].port, Some(81));
        let mut labelled = service();
        labelled.metadata.labels = None;
        let relabelled = reconcile(&labelled, &slices, groups(80, 0..2), None);
        assert_eq!(relabelled.update.len(), 1);
    }
}
