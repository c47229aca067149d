//! The usage of an object, by the names in a quota.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::json::Value;
use crate::meta::GroupResource;
use crate::registry::core::pod::resources::amounts::{
    Amounts, amounts, limits_of_pod, requests_of_pod,
};
use crate::schema::quantity::Quantity;

const DEVICE_GROUP: &str = "resource.k8s.io";
/// The annotation that named a claim's storage class before there was a field.
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// What counts by its plain name as well, for it did before there was another.
const PLAIN: [&str; 7] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];

/// What every container has to say once there is a quota of it.
const TO_BE_STATED: [&str; 6] = [
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];

fn count(number: usize) -> Quantity {
    Quantity::from(i64::try_from(number).unwrap_or(i64::MAX))
}

/// The suffix of names that count the devices of a class.
const DEVICES: &str = ".deviceclass.resource.k8s.io/devices";
/// A claim has no more devices than this.
const DEVICES_MAX: i64 = 32;

/// The amounts that an object uses.
pub(crate) fn of(resource: &GroupResource, object: &Value, now: Timestamp) -> Amounts {
    let mut usage = Amounts::new();
    usage.insert(format!("count/{resource}"), count(1));
    let plural = resource.resource.as_str();
    if resource.group == DEVICE_GROUP && plural == "resourceclaims" {
        usage.extend(of_devices(object));
    }
    let is_over = plural == "pods" && has_ended(object, now);
    if !resource.group.is_empty() || is_over {
        return usage;
    }
    if PLAIN.contains(&plural) {
        usage.insert(plural.to_owned(), count(1));
    }
    match plural {
        "pods" => usage.extend(computed(&requests_of_pod(object), &limits_of_pod(object))),
        "services" => usage.extend(of_service(object)),
        "persistentvolumeclaims" => usage.extend(of_claim(object)),
        _ => {}
    }
    usage
}

/// Whether a pod has ended, or should have by now: it counts as an object, and uses nothing else.
fn has_ended(pod: &Value, now: Timestamp) -> bool {
    if matches!(
        pod["status"]["phase"].as_str(),
        Some("Failed" | "Succeeded")
    ) {
        return true;
    }
    let metadata = &pod["metadata"];
    let marked = metadata["deletionTimestamp"].as_str();
    let marked = marked.and_then(|text| text.parse::<Timestamp>().ok());
    let grace = metadata["deletionGracePeriodSeconds"].as_i64();
    let end = marked.zip(grace).map(|(marked, grace)| {
        let end = marked.checked_add(SignedDuration::from_secs(grace));
        end.unwrap_or(Timestamp::MAX)
    });
    end.is_some_and(|end| now > end)
}

/// The devices that a ResourceClaim asks for, by class; the most of alternatives.
fn of_devices(claim: &Value) -> Amounts {
    let requests = claim["spec"]["devices"]["requests"].as_array();
    let mut classes: BTreeMap<String, i64> = BTreeMap::new();
    for request in requests.into_iter().flatten() {
        let exactly = std::slice::from_ref(&request["exactly"]);
        let alternatives = request["firstAvailable"].as_array().map(Vec::as_slice);
        let alternatives = alternatives.filter(|own| !own.is_empty());
        let mut most: BTreeMap<&str, i64> = BTreeMap::new();
        for own in alternatives.unwrap_or(exactly) {
            let Some(class) = own["deviceClassName"].as_str() else {
                continue;
            };
            let devices = match own["allocationMode"].as_str() {
                Some("ExactCount") => own["count"].as_i64().unwrap_or(0),
                Some("All") => DEVICES_MAX,
                _ => 0,
            };
            let known = most.entry(class).or_default();
            *known = devices.max(*known);
        }
        for (class, devices) in most {
            let sum = classes.entry(format!("{class}{DEVICES}")).or_default();
            *sum = sum.saturating_add(devices);
        }
    }
    let classes = classes.into_iter();
    classes
        .map(|(name, devices)| (name, Quantity::from(devices)))
        .collect()
}

/// Requests and limits under the names that quotas have for them.
fn computed(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::new();
    for (name, amount) in requests {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
            || name.starts_with("hugepages-")
        {
            usage.insert(name.clone(), amount.clone());
        }
        usage.insert(format!("requests.{name}"), amount.clone());
    }
    for (name, amount) in limits {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            usage.insert(format!("limits.{name}"), amount.clone());
        }
    }
    usage
}

fn of_service(service: &Value) -> Amounts {
    let spec = &service["spec"];
    let ports = spec["ports"].as_array().into_iter().flatten();
    let (nodes, balancers) = match spec["type"].as_str() {
        Some("NodePort") => (ports.count(), 0),
        Some("LoadBalancer") => {
            let allocates = spec["allocateLoadBalancerNodePorts"] != false;
            let is_open = |port: &&Value| {
                allocates || port["nodePort"].as_i64().is_some_and(|number| number != 0)
            };
            (ports.filter(is_open).count(), 1)
        }
        _ => (0, 0),
    };
    Amounts::from([
        ("services.nodeports".to_owned(), count(nodes)),
        ("services.loadbalancers".to_owned(), count(balancers)),
    ])
}

fn of_claim(claim: &Value) -> Amounts {
    let mut usage = Amounts::new();
    let class = claim["metadata"]["annotations"][OLD_CLASS].as_str();
    let class = class.or_else(|| claim["spec"]["storageClassName"].as_str());
    let class = class.unwrap_or_default();
    let prefix = format!("{class}.storageclass.storage.k8s.io");
    if !class.is_empty() {
        usage.insert(format!("{prefix}/persistentvolumeclaims"), count(1));
    }
    if let Some(storage) = storage_of(claim) {
        usage.insert("requests.storage".to_string(), storage.clone());
        if !class.is_empty() {
            usage.insert(format!("{prefix}/requests.storage"), storage);
        }
    }
    usage
}

/// The storage that a claim asks for, or the more that it was given.
fn storage_of(claim: &Value) -> Option<Quantity> {
    let requests = amounts(&claim["spec"]["resources"]["requests"]);
    let asked = requests.get("storage")?;
    let allocated = amounts(&claim["status"]["allocatedResources"]);
    let allocated = allocated.get("storage");
    let allocated = allocated.filter(|given| given.compare(asked) == Ordering::Greater);
    Some(allocated.unwrap_or(asked).clone())
}

/// Whether objects of a resource use the quantity called `name` in quotas.
pub(crate) fn is_counted(resource: &GroupResource, name: &str) -> bool {
    if name == format!("count/{resource}") {
        return true;
    }
    if resource.group == DEVICE_GROUP && resource.resource == "resourceclaims" {
        return name.ends_with(DEVICES);
    }
    if !resource.group.is_empty() {
        return false;
    }
    let plural = resource.resource.as_str();
    match plural {
        _ if name == plural => PLAIN.contains(&plural),
        "pods" => {
            TO_BE_STATED.contains(&name)
                || name == "ephemeral-storage"
                || name.starts_with("hugepages-")
                || name == "limits.ephemeral-storage"
                || (name.starts_with("requests.") && name != "requests.storage")
        }
        "services" => matches!(name, "services.nodeports" | "services.loadbalancers"),
        "persistentvolumeclaims" => {
            name == "requests.storage" || name.contains(".storageclass.storage.k8s.io/")
        }
        _ => false,
    }
}

/// What containers of a pod do not say although they must.
pub(super) fn unstated(
    resource: &GroupResource,
    counted: &[&String],
    object: &Value,
) -> Option<String> {
    let is_pod = resource.group.is_empty() && resource.resource == "pods";
    let is_whole = object["spec"]["resources"].is_object();
    if !is_pod || is_whole {
        return None;
    }
    let asked = counted.iter().map(|name| name.as_str());
    let asked: Vec<&str> = asked.filter(|name| TO_BE_STATED.contains(name)).collect();
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for list in ["containers", "initContainers"] {
        for container in object["spec"][list].as_array().into_iter().flatten() {
            let resources = &container["resources"];
            let requests = amounts(&resources["requests"]);
            let stated = computed(&requests, &amounts(&resources["limits"]));
            let name = container["name"].as_str().unwrap_or_default();
            for own in asked.iter().filter(|own| !stated.contains_key(**own)) {
                missing.entry(own).or_default().insert(name);
            }
        }
    }
    let shown: Vec<String> = missing
        .into_iter()
        .map(|(own, names)| {
            let names: Vec<&str> = names.into_iter().collect();
            format!("{own} for: {}", names.join(","))
        })
        .collect();
    (!shown.is_empty()).then(|| format!("must specify {}", shown.join("; ")))
}
