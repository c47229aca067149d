//! Generated profiles, which both schedulers are configured with.

use serde_json::{Value, json};

use super::draw::Draw;
use super::names::{HOSTNAME, ZONE};

/// How many profiles there are in addition to the default one.
pub(super) const COUNT: usize = 60;
/// The plugins that score.
const SCORES: [&str; 7] = [
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
];
/// The plugins that refuse nodes, and can be left out.
const FILTERS: [&str; 7] = [
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
];
/// The plugins that make their filter fail when their first step is left out.
const NEEDED_FIRST: [&str; 4] = [
    "NodePorts",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
];

/// Returns the name of a profile.
pub(super) fn name(number: usize) -> String {
    format!("profile-{number}")
}

/// Returns the configuration of a scheduler, for the server of a kubeconfig.
pub(super) fn configuration(kubeconfig: Option<&str>) -> Value {
    let mut profiles = vec![json!({ "schedulerName": "default-scheduler" })];
    profiles.extend((0..COUNT).map(profile));
    let mut configuration = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": { "leaderElect": false },
        "profiles": profiles,
    });
    if let Some(path) = kubeconfig {
        configuration["clientConnection"] =
            json!({ "kubeconfig": path, "qps": 1000, "burst": 2000 });
    }
    configuration
}

/// Draws the profile with this number.
fn profile(number: usize) -> Value {
    let draw = Draw::of(u64::try_from(number).unwrap_or_default());
    json!({
        "schedulerName": name(number),
        "plugins": plugins(&draw),
        "pluginConfig": arguments(&draw),
    })
}

fn entry(name: &str) -> Value {
    json!({ "name": name })
}

fn weighed(draw: &Draw, name: &str) -> Value {
    match draw.below(4) {
        0 => entry(name),
        _ => json!({ "name": name, "weight": draw.between(1, 10) }),
    }
}

fn plugins(draw: &Draw) -> Value {
    let some = |names: &[&'static str], percent: usize| -> Vec<&'static str> {
        let chosen = names.iter().filter(|_| draw.chance(percent));
        chosen.copied().collect()
    };
    let mut plugins = json!({});
    match draw.below(4) {
        0 => {
            let enabled = some(&SCORES, 40).into_iter();
            let enabled: Vec<Value> = enabled.map(|name| weighed(draw, name)).collect();
            plugins["score"] = json!({ "disabled": [entry("*")], "enabled": enabled });
        }
        1 => {
            let enabled = some(&SCORES, 30).into_iter();
            let enabled: Vec<Value> = enabled.map(|name| weighed(draw, name)).collect();
            let disabled: Vec<Value> = some(&SCORES, 20).into_iter().map(entry).collect();
            plugins["score"] = json!({ "disabled": disabled, "enabled": enabled });
        }
        _ => {}
    }
    match draw.below(5) {
        0 => {
            let disabled: Vec<Value> = some(&FILTERS, 20).into_iter().map(entry).collect();
            let enabled = weighed(draw, draw.pick(&SCORES));
            let is_kept = !disabled.contains(&entry(enabled["name"].as_str().unwrap_or_default()));
            plugins["multiPoint"] = json!({ "disabled": disabled });
            if is_kept {
                plugins["multiPoint"]["enabled"] = json!([enabled]);
            }
        }
        1 => {
            let disabled: Vec<Value> = some(&FILTERS, 20).into_iter().map(entry).collect();
            plugins["filter"] = json!({ "disabled": disabled });
        }
        2 => {
            let first: Vec<Value> = some(&["InterPodAffinity", "NodePorts", "NodeAffinity"], 60)
                .into_iter()
                .map(entry)
                .collect();
            plugins["filter"] = json!({ "enabled": first });
        }
        _ => {}
    }
    plugins["postFilter"] = match draw.below(8) {
        0 => json!({ "disabled": [entry("*")] }),
        1 => json!({ "disabled": [entry("DefaultPreemption")] }),
        2 => json!({ "disabled": [entry("DynamicResources")] }),
        3 => json!({ "enabled": [entry("DefaultPreemption"), entry("DynamicResources")] }),
        _ => json!({}),
    };
    if draw.chance(5) {
        let disabled = entry(draw.pick(&NEEDED_FIRST));
        plugins["preFilter"] = json!({ "disabled": [disabled] });
    }
    plugins
}

fn arguments(draw: &Draw) -> Value {
    let mut all = Vec::new();
    let mut add = |name: &str, args: Value| all.push(json!({ "name": name, "args": args }));
    if draw.chance(60) {
        add("NodeResourcesFit", fit(draw));
    }
    if draw.chance(25) {
        add("NodeAffinity", json!({ "addedAffinity": affinity(draw) }));
    }
    if draw.chance(50) {
        let args = match draw.chance(25) {
            true => json!({ "defaultingType": "List" }),
            false => json!({ "defaultingType": "List", "defaultConstraints": spread(draw) }),
        };
        add("PodTopologySpread", args);
    }
    if draw.chance(40) {
        let args = json!({
            "hardPodAffinityWeight": draw.between(0, 100),
            "ignorePreferredTermsOfExistingPods": draw.chance(40),
        });
        add("InterPodAffinity", args);
    }
    if draw.chance(40) {
        let resources: Vec<Value> = resources(draw).iter().map(|own| entry(own)).collect();
        let args = json!({ "resources": resources });
        add("NodeResourcesBalancedAllocation", args);
    }
    json!(all)
}

/// Draws resources without repetition.
fn resources(draw: &Draw) -> Vec<&'static str> {
    let all = [
        "cpu",
        "memory",
        "ephemeral-storage",
        "example.com/gpu",
        "hugepages-2Mi",
    ];
    all.into_iter().filter(|_| draw.chance(50)).collect()
}

fn fit(draw: &Draw) -> Value {
    let mut args = json!({});
    if draw.chance(25) {
        args["ignoredResources"] = json!(["example.com/gpu"]);
    }
    if draw.chance(15) {
        args["ignoredResourceGroups"] = json!([draw.pick(&["example.com", "other.org"])]);
    }
    if draw.chance(80) {
        let kinds = [
            "LeastAllocated",
            "MostAllocated",
            "RequestedToCapacityRatio",
        ];
        let kind = draw.pick(&kinds);
        let weights = resources(draw).into_iter();
        let weights: Vec<Value> = weights.map(|name| weighed(draw, name)).collect();
        let mut strategy = json!({ "type": kind, "resources": weights });
        if kind == kinds[2] {
            let first = draw.between(0, 40);
            let second = draw.between(first + 1, 100);
            let point = |at: usize| json!({ "utilization": at, "score": draw.between(0, 10) });
            strategy["requestedToCapacityRatio"] =
                json!({ "shape": [point(first), point(second)] });
        }
        args["scoringStrategy"] = strategy;
    }
    args
}

fn affinity(draw: &Draw) -> Value {
    let rule = || match draw.below(2) {
        0 => json!({ "key": "disk", "operator": "In", "values": [draw.pick(&["ssd", "hdd"])] }),
        _ => json!({ "key": ZONE, "operator": draw.pick(&["Exists", "DoesNotExist"]) }),
    };
    let mut affinity = json!({});
    if draw.chance(60) {
        let terms = json!([{ "matchExpressions": [rule()] }]);
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({ "nodeSelectorTerms": terms });
    }
    if draw.chance(60) {
        let preference = json!({ "matchExpressions": [rule()] });
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] =
            json!([{ "weight": draw.between(1, 100), "preference": preference }]);
    }
    affinity
}

fn spread(draw: &Draw) -> Value {
    let keys = [ZONE, HOSTNAME, "disk"]
        .into_iter()
        .filter(|_| draw.chance(50));
    let constraints: Vec<Value> = keys
        .map(|key| {
            json!({
                "topologyKey": key,
                "maxSkew": draw.between(1, 3),
                "whenUnsatisfiable": draw.pick(&["DoNotSchedule", "ScheduleAnyway", "ScheduleAnyway"]),
            })
        })
        .collect();
    json!(constraints)
}
