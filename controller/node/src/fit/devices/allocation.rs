//! The result of an allocation, as a claim's status has it.
//!
//! Source: `Allocate` and `createNodeSelector` of `structured/internal/incubating/allocator_incubating.go`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::api::resource::v1::{
    AllocationResult, DeviceAllocationConfiguration, DeviceAllocationResult,
    DeviceRequestAllocationResult, OpaqueDeviceConfiguration, ResourceClaim,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

use super::super::name;
use super::request;
use super::search::{Found, RequestData, Search};
use crate::identity;

/// Returns the allocation of the claim with this index, on the node of the search.
///
/// # Errors
/// Upstream's text if the node selectors of the devices cannot be joined.
pub(super) fn of_claim(
    search: &Search<'_>,
    (index, claim): (usize, &ResourceClaim),
    node: &Node,
) -> Result<AllocationResult, String> {
    let found = &search.found[index];
    let results = found.iter().enumerate();
    let results = results.map(|(number, found)| result(claim, number, found));
    let mut config = Vec::new();
    add_class_config(search, (index, claim), &mut config);
    add_claim_config(search, (index, claim), &mut config);
    let selector = node_selector(found, node);
    let selector = selector
        .map_err(|why| format!("create NodeSelector for claim {}: {why}", claim.name_any()))?;
    Ok(AllocationResult {
        allocation_timestamp: None,
        devices: Some(DeviceAllocationResult {
            results: Some(results.collect()),
            config: Some(config).filter(|config| !config.is_empty()),
        }),
        node_selector: selector,
    })
}

fn result(
    claim: &ResourceClaim,
    number: usize,
    found: &Found<'_>,
) -> DeviceRequestAllocationResult {
    let id = found.candidate.id;
    let share_id = found.consumed.as_ref().map(|_| {
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        identity::share_id(uid, &id.to_string(), number)
    });
    let consumed = found.consumed.iter().flatten();
    let consumed: BTreeMap<String, Quantity> = consumed
        .map(|(name, amount)| ((*name).to_owned(), Quantity(amount.to_string())))
        .collect();
    DeviceRequestAllocationResult {
        request: found.request.full_name().into_owned(),
        driver: id.driver.to_owned(),
        pool: id.pool.to_owned(),
        device: id.device.to_owned(),
        admin_access: found.request.has_admin_access().then_some(true),
        tolerations: found.request.tolerations().cloned(),
        share_id,
        consumed_capacity: Some(consumed).filter(|consumed| !consumed.is_empty()),
        ..DeviceRequestAllocationResult::default()
    }
}

/// Returns what was read of the chosen alternative of a request.
fn chosen<'s, 'a>(
    search: &'s Search<'a>,
    claim: usize,
    request: usize,
) -> Option<&'s RequestData<'a>> {
    let alternative = search.alternatives.get(&(claim, request));
    let key = (claim, request, alternative.copied().unwrap_or(0));
    search.requests.get(&key)
}

fn configuration(
    source: &str,
    requests: Option<Vec<String>>,
    opaque: Option<&OpaqueDeviceConfiguration>,
) -> DeviceAllocationConfiguration {
    DeviceAllocationConfiguration {
        source: source.to_owned(),
        requests,
        opaque: opaque.cloned(),
    }
}

/// Adds the configuration of each class once, for all requests of the class.
fn add_class_config(
    search: &Search<'_>,
    (index, claim): (usize, &ResourceClaim),
    config: &mut Vec<DeviceAllocationConfiguration>,
) {
    let mut by_class: BTreeMap<String, std::ops::Range<usize>> = BTreeMap::new();
    for number in 0..request::of_claim(claim).len() {
        let Some(data) = chosen(search, index, number) else {
            continue;
        };
        let request = data.request.full_name().into_owned();
        if let Some(range) = by_class.get(&data.class.name_any()) {
            for own in &mut config[range.clone()] {
                own.requests.get_or_insert_default().push(request.clone());
            }
            continue;
        }
        let start = config.len();
        let of_class = data.class.spec.config.iter().flatten();
        config.extend(of_class.map(|own| {
            let requests = Some(vec![request.clone()]);
            configuration("FromClass", requests, own.opaque.as_ref())
        }));
        by_class.insert(data.class.name_any(), start..config.len());
    }
}

/// Adds the configuration of the claim that concerns its requests or the chosen alternatives.
fn add_claim_config(
    search: &Search<'_>,
    (index, claim): (usize, &ResourceClaim),
    config: &mut Vec<DeviceAllocationConfiguration>,
) {
    let devices = claim.spec.devices.iter();
    for own in devices.flat_map(|devices| devices.config.iter().flatten()) {
        let requests = own.requests.as_deref().unwrap_or_default();
        let copy = || configuration("FromClaim", own.requests.clone(), own.opaque.as_ref());
        if requests.is_empty() {
            config.push(copy());
            continue;
        }
        for (number, request) in request::of_claim(claim).iter().enumerate() {
            let data = chosen(search, index, number);
            let full_name = data.map(|data| data.request.full_name());
            let concerns = |name: &str| requests.iter().any(|own| own == name);
            if concerns(&request.name) || full_name.is_some_and(|name| concerns(&name)) {
                config.push(copy());
            }
        }
    }
}

/// Returns the nodes where the devices can be used; None for all.
fn node_selector(found: &[Found<'_>], node: &Node) -> Result<Option<NodeSelector>, String> {
    let mut joined = NodeSelectorTerm::default();
    for candidate in found.iter().map(|found| &found.candidate) {
        let (slice, device) = (&candidate.slice.spec, candidate.device);
        let (node_name, selector) = match slice.per_device_node_selection {
            Some(true) => (&device.node_name, &device.node_selector),
            _ => (&slice.node_name, &slice.node_selector),
        };
        if node_name.is_some() || device.binds_to_node == Some(true) {
            let field = NodeSelectorRequirement {
                key: "metadata.name".to_owned(),
                operator: "In".to_owned(),
                values: Some(vec![name(node).to_owned()]),
            };
            return Ok(Some(NodeSelector {
                node_selector_terms: vec![NodeSelectorTerm {
                    match_fields: Some(vec![field]),
                    ..NodeSelectorTerm::default()
                }],
            }));
        }
        match selector
            .as_ref()
            .map(|own| own.node_selector_terms.as_slice())
        {
            None | Some([]) => {}
            Some([term]) => {
                join(&mut joined.match_fields, term.match_fields.as_deref());
                let expressions = term.match_expressions.as_deref();
                join(&mut joined.match_expressions, expressions);
            }
            Some(terms) => {
                let count = terms.len();
                return Err(format!(
                    "unsupported ResourceSlice.NodeSelector with {count} terms"
                ));
            }
        }
    }
    let is_empty = joined.match_fields.is_none() && joined.match_expressions.is_none();
    Ok((!is_empty).then(|| NodeSelector {
        node_selector_terms: vec![joined],
    }))
}

/// Adds the requirements that are not there yet.
fn join(to: &mut Option<Vec<NodeSelectorRequirement>>, from: Option<&[NodeSelectorRequirement]>) {
    let values = |own: &NodeSelectorRequirement| -> BTreeSet<String> {
        own.values.iter().flatten().cloned().collect()
    };
    for own in from.unwrap_or_default() {
        let known = to.get_or_insert_default();
        let is_same = |other: &NodeSelectorRequirement| {
            other.key == own.key && other.operator == own.operator && values(other) == values(own)
        };
        if !known.iter().any(is_same) {
            known.push(own.clone());
        }
    }
}
