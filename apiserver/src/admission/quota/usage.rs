//! How much of what an object uses.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::admission::pod_resources::{Amounts, amounts, limits_of_pod, requests_of_pod};
use crate::meta::GroupResource;
use crate::schema::quantity::Quantity;

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

/// The amounts that an object uses.
pub(super) fn of(resource: &GroupResource, object: &Value) -> Amounts {
    let mut usage = Amounts::new();
    usage.insert(format!("count/{resource}"), count(1));
    if !resource.group.is_empty() {
        return usage;
    }
    let plural = resource.resource.as_str();
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
    let requests = amounts(&claim["spec"]["resources"]["requests"]);
    let storage = requests.get("storage");
    let class = claim["spec"]["storageClassName"]
        .as_str()
        .unwrap_or_default();
    let prefix = format!("{class}.storageclass.storage.k8s.io");
    if !class.is_empty() {
        usage.insert(format!("{prefix}/persistentvolumeclaims"), count(1));
    }
    if let Some(storage) = storage {
        usage.insert("requests.storage".to_owned(), storage.clone());
        if !class.is_empty() {
            usage.insert(format!("{prefix}/requests.storage"), storage.clone());
        }
    }
    usage
}

/// Whether objects of a resource use what goes by this name in quotas.
pub(super) fn is_counted(resource: &GroupResource, name: &str) -> bool {
    if name == format!("count/{resource}") {
        return true;
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
