use kubeproof_machinery::json::{Value, json};
use kubeproof_runtime::decode::from_value;

use super::*;

/// Compiles `ATTRIBUTE=VALUE`, about text attributes of the driver.
fn compile(expression: &str) -> Result<DeviceSelector, String> {
    let (name, value) = expression.split_once('=').ok_or("no operator")?;
    let (name, value) = (name.to_owned(), value.to_owned());
    Ok(Arc::new(move |_, device| {
        let own = device["attributes"][&name]["string"].as_str();
        own.map(|own| own == value)
            .ok_or_else(|| format!("no such key: {name}"))
    }))
}

fn fill<K: kube::Resource + serde::de::DeserializeOwned>(store: &mut Store<K>, objects: &[Value]) {
    store.apply(Event::Init);
    for object in objects {
        let object = from_value(object).unwrap();
        store.apply(Event::InitApply(Arc::new(object)));
    }
    store.apply(Event::InitDone);
}

/// The objects of a cluster with the class `gpu`, for all devices.
fn cluster(claims: &[Value], slices: &[Value]) -> Devices {
    let mut devices = Devices::new(compile);
    fill(&mut devices.claims, claims);
    fill(&mut devices.slices, slices);
    let class = json!({"metadata": {"name": "gpu"}, "spec": {}});
    fill(&mut devices.classes, &[class]);
    devices
}

fn claim(name: &str, devices: &Value) -> Value {
    json!({"metadata": {"namespace": "default", "name": name, "uid": name},
        "spec": {"devices": devices}})
}

/// A slice of the only pool of `node-1`.
fn slice(devices: &Value) -> Value {
    slice_of("node-1", json!({"nodeName": "node-1"}), devices)
}

fn slice_of(name: &str, mut more: Value, devices: &Value) -> Value {
    let pool = json!({"name": name, "generation": 1, "resourceSliceCount": 1});
    more["pool"] = pool;
    more["driver"] = json!("d");
    more["devices"] = devices.clone();
    json!({"metadata": {"name": name}, "spec": more})
}

fn request(name: &str, mut more: Value) -> Value {
    more["deviceClassName"] = json!("gpu");
    if more["allocationMode"].is_null() {
        more["allocationMode"] = json!("ExactCount");
        let count = more["count"].as_i64().unwrap_or(1);
        more["count"] = json!(count);
    }
    json!({"name": name, "exactly": more})
}

fn selecting(expression: &str) -> Value {
    json!({"selectors": [{"cel": {"expression": expression}}]})
}

/// Returns the devices that a pod with these claims gets on `node-1`, as `REQUEST:DEVICE`, or why it gets none.
fn allocate(devices: &Devices, claims: &[&str]) -> Result<Vec<String>, String> {
    let node = json!({"metadata": {"name": "node-1"}});
    allocate_on(devices, claims, &node)
}

fn allocate_on(devices: &Devices, claims: &[&str], node: &Value) -> Result<Vec<String>, String> {
    let claims = claims
        .iter()
        .map(|name| json!({"name": name, "resourceClaimName": name}));
    let pod = json!({"metadata": {"namespace": "default", "name": "p", "uid": "p"},
        "spec": {"containers": [], "resourceClaims": claims.collect::<Vec<_>>()}});
    let pod: Pod = from_value(pod).unwrap();
    let node: Node = from_value(node).unwrap();
    let mut state = PodClaims::of(&pod, Some(devices));
    state.find()?;
    if let Some(misfit) = state.misfit(&node) {
        return Err(match misfit.into_error() {
            Ok(reasons) => reasons.join(", "),
            Err(error) => error,
        });
    }
    let reservations = state.reservations(&node);
    let allocations = reservations.into_iter().filter_map(|own| own.allocation);
    let results = allocations.flat_map(|own| own.devices.unwrap().results.unwrap());
    Ok(results
        .map(|own| format!("{}:{}", own.request, own.device))
        .collect())
}

fn gpus(numa: &[&str]) -> Value {
    let devices = numa.iter().enumerate().map(|(index, numa)| {
        json!({"name": format!("gpu-{index}"), "attributes": {"numa": {"string": numa}}})
    });
    devices.collect()
}

#[test]
fn a_device_is_given_back_when_a_later_request_needs_it() {
    let requests = [
        request("any", json!({})),
        request("one", selecting("numa=a")),
    ];
    let claims = [claim("c", &json!({"requests": requests}))];
    let devices = cluster(&claims, &[slice(&gpus(&["a", "b"]))]);
    let found = allocate(&devices, &["c"]).unwrap();
    assert_eq!(found, ["any:gpu-1", "one:gpu-0"]);
}

#[test]
fn claims_of_one_pod_get_different_devices() {
    let requests = json!({"requests": [request("gpu", json!({}))]});
    let claims = ["a", "b", "c"].map(|name| claim(name, &requests));
    let devices = cluster(&claims, &[slice(&gpus(&["a", "b"]))]);
    assert_eq!(
        allocate(&devices, &["a", "b"]).unwrap(),
        ["gpu:gpu-0", "gpu:gpu-1"]
    );
    assert_eq!(
        allocate(&devices, &["a", "b", "c"]).unwrap_err(),
        "cannot allocate all claims"
    );
}

#[test]
fn what_other_claims_have_is_taken_unless_they_share_it() {
    let requests = json!({"requests": [request("gpu", json!({}))]});
    let held = |admin: bool| {
        let mut held = claim("held", &requests);
        held["status"] = json!({"allocation": {"devices": {"results": [{"request": "gpu",
            "driver": "d", "pool": "node-1", "device": "gpu-0", "adminAccess": admin}]}}});
        held
    };
    let slices = [slice(&gpus(&["a"]))];
    let found = |held: Value| allocate(&cluster(&[held, claim("c", &requests)], &slices), &["c"]);
    assert_eq!(
        found(held(false)).unwrap_err(),
        "cannot allocate all claims"
    );
    assert_eq!(found(held(true)).unwrap(), ["gpu:gpu-0"]);
    let admin = json!({"requests": [request("gpu", json!({"adminAccess": true}))]});
    let devices = cluster(&[held(false), claim("c", &admin)], &slices);
    assert_eq!(allocate(&devices, &["c"]).unwrap(), ["gpu:gpu-0"]);
}

#[test]
fn a_constraint_holds_for_the_requests_that_it_names() {
    let two = |constraint: &Value| {
        let requests = [
            request("gpu", json!({"count": 2})),
            request("more", json!({})),
        ];
        let spec = json!({"requests": requests, "constraints": [constraint]});
        let slices = [slice(&gpus(&["a", "b", "b"]))];
        allocate(&cluster(&[claim("c", &spec)], &slices), &["c"])
    };
    let same = json!({"requests": ["gpu"], "matchAttribute": "d/numa"});
    assert_eq!(
        two(&same).unwrap(),
        ["gpu:gpu-1", "gpu:gpu-2", "more:gpu-0"]
    );
    let all = json!({"matchAttribute": "d/numa"});
    assert_eq!(two(&all).unwrap_err(), "cannot allocate all claims");
    let foreign = json!({"matchAttribute": "other/numa"});
    assert_eq!(two(&foreign).unwrap_err(), "cannot allocate all claims");
    let distinct = json!({"requests": ["gpu"], "distinctAttribute": "d/numa"});
    assert_eq!(
        two(&distinct).unwrap(),
        ["gpu:gpu-0", "gpu:gpu-1", "more:gpu-2"]
    );
    let error = two(&json!({})).unwrap_err();
    assert_eq!(
        error,
        "running \"DynamicResources\" filter plugin: claim default/c, constraint #0: empty \
         constraint (unsupported constraint type?)"
    );
}

#[test]
fn an_alternative_is_taken_if_those_before_it_cannot_be() {
    let alternative = |name: &str, count: i64, expression: &str| {
        let mut own = selecting(expression);
        own["name"] = json!(name);
        own["deviceClassName"] = json!("gpu");
        own["allocationMode"] = json!("ExactCount");
        own["count"] = json!(count);
        own
    };
    let spec = |first: i64| {
        let own = [
            alternative("x", first, "numa=a"),
            alternative("y", 1, "numa=b"),
        ];
        json!({"requests": [{"name": "gpu", "firstAvailable": own}]})
    };
    let slices = [slice(&gpus(&["a", "b"]))];
    for (first, wanted) in [(1, "gpu/x:gpu-0"), (2, "gpu/y:gpu-1"), (33, "gpu/y:gpu-1")] {
        let devices = cluster(&[claim("c", &spec(first))], &slices);
        assert_eq!(allocate(&devices, &["c"]).unwrap(), [wanted], "{first}");
    }
    let first = claim("c", &spec(1));
    let first: ResourceClaim = from_value(first).unwrap();
    let rank = |request: &str| {
        let result = json!({"request": request, "driver": "d", "pool": "p", "device": "gpu-0"});
        let allocation = json!({"devices": {"results": [result]}});
        score(&first, &from_value(allocation).unwrap())
    };
    assert_eq!([rank("gpu/x"), rank("gpu/y")], [8, 7]);
}

#[test]
fn a_claim_has_a_limited_number_of_devices() {
    let spec = json!({"requests": [request("gpu", json!({"count": 33}))]});
    let devices = cluster(&[claim("c", &spec)], &[]);
    assert_eq!(
        allocate(&devices, &["c"]).unwrap_err(),
        "running \"DynamicResources\" filter plugin: claim default/c: number of requested devices \
         33 exceeds the claim limit of 32"
    );
}

#[test]
fn a_request_for_all_takes_all_or_none() {
    let all = |mut more: Value| {
        more["allocationMode"] = json!("All");
        let spec = json!({"requests": [request("gpu", more)]});
        let slices = [slice(&gpus(&["a", "b", "b"]))];
        allocate(&cluster(&[claim("c", &spec)], &slices), &["c"])
    };
    assert_eq!(
        all(json!({})).unwrap(),
        ["gpu:gpu-0", "gpu:gpu-1", "gpu:gpu-2"]
    );
    assert_eq!(
        all(selecting("numa=b")).unwrap(),
        ["gpu:gpu-1", "gpu:gpu-2"]
    );
    assert_eq!(
        all(selecting("numa=c")).unwrap_err(),
        "cannot allocate all claims"
    );
}

#[test]
fn selectors_that_fail_are_errors() {
    for (expression, why) in [
        ("numa", "CEL compile error: no operator"),
        ("model=x", "CEL runtime error: no such key: model"),
    ] {
        let spec = json!({"requests": [request("gpu", selecting(expression))]});
        let devices = cluster(&[claim("c", &spec)], &[slice(&gpus(&["a"]))]);
        assert_eq!(
            allocate(&devices, &["c"]).unwrap_err(),
            format!(
                "running \"DynamicResources\" filter plugin: claim default/c: selector #0: {why}"
            )
        );
    }
}

#[test]
fn pools_are_used_as_their_newest_complete_generation() {
    let spec = json!({"requests": [request("gpu", json!({}))]});
    let found = |slices: &[Value]| allocate(&cluster(&[claim("c", &spec)], slices), &["c"]);
    let named = |name: &str, generation: i64, count: i64, devices: &Value| {
        let mut own = slice(devices);
        own["metadata"]["name"] = json!(name);
        own["spec"]["pool"]["generation"] = json!(generation);
        own["spec"]["pool"]["resourceSliceCount"] = json!(count);
        own
    };
    let (old, new) = (json!([{"name": "old"}]), json!([{"name": "new"}]));
    let none = Err("cannot allocate all claims".to_owned());
    let slices = [named("a", 1, 1, &old), named("b", 2, 1, &new)];
    assert_eq!(found(&slices).unwrap(), ["gpu:new"]);
    let slices = [named("a", 1, 1, &old), named("b", 2, 2, &new)];
    assert_eq!(found(&slices), none);
    // The newer generation is for another node: the older one is obsolete all the same.
    let mut elsewhere = named("b", 2, 1, &new);
    elsewhere["spec"]["nodeName"] = json!("node-2");
    assert_eq!(found(&[named("a", 1, 2, &old), elsewhere]), none);
    let twice = [named("a", 1, 2, &old), named("b", 1, 2, &old)];
    let invalid = "invalid resource pools were encountered";
    assert_eq!(found(&twice).unwrap_err(), invalid);
}

#[test]
fn nodes_reach_the_devices_that_select_them() {
    let spec = json!({"requests": [request("gpu", json!({}))]});
    let selector = |value: &str| {
        json!({"nodeSelectorTerms": [{"matchExpressions":
            [{"key": "zone", "operator": "In", "values": [value]}]}]})
    };
    let reaches = |more: Value, device: Value| {
        let mut own = json!({"name": "gpu-0"});
        let fields = device.as_object().unwrap().clone();
        own.as_object_mut().unwrap().extend(fields);
        let slices = [slice_of("s", more, &json!([own]))];
        let devices = cluster(&[claim("c", &spec)], &slices);
        let node = json!({"metadata": {"name": "node-1", "labels": {"zone": "a"}}});
        allocate_on(&devices, &["c"], &node).is_ok()
    };
    let per_device = json!({"perDeviceNodeSelection": true});
    for (more, device, wanted) in [
        (json!({"nodeName": "node-1"}), json!({}), true),
        (json!({"nodeName": "node-2"}), json!({}), false),
        (json!({"allNodes": true}), json!({}), true),
        (json!({"nodeSelector": selector("a")}), json!({}), true),
        (json!({"nodeSelector": selector("b")}), json!({}), false),
        (per_device.clone(), json!({"nodeName": "node-1"}), true),
        (per_device.clone(), json!({"nodeName": "node-2"}), false),
        (per_device.clone(), json!({"allNodes": true}), true),
        (
            per_device.clone(),
            json!({"nodeSelector": selector("b")}),
            false,
        ),
        (json!({}), json!({}), false),
    ] {
        assert_eq!(
            reaches(more.clone(), device.clone()),
            wanted,
            "{more} {device}"
        );
    }
}

#[test]
fn counters_count_devices_of_the_pool_on_all_nodes() {
    let part = |name: &str, node: &str| {
        let consumed = json!([{"counterSet": "s", "counters": {"c": {"value": "1"}}}]);
        let mut own = slice(&json!([{"name": name, "consumesCounters": consumed}]));
        own["metadata"]["name"] = json!(name);
        own["spec"]["nodeName"] = json!(node);
        own["spec"]["pool"]["resourceSliceCount"] = json!(3);
        own
    };
    let counters = |value: &str| {
        let mut own = slice(&json!([]));
        own["spec"]["sharedCounters"] = json!([{"name": "s", "counters": {"c": {"value": value}}}]);
        own["spec"]["pool"]["resourceSliceCount"] = json!(3);
        own
    };
    let spec = json!({"requests": [request("gpu", json!({}))]});
    let mut held = claim("held", &spec);
    held["status"] = json!({"allocation": {"devices": {"results": [{"request": "gpu",
        "driver": "d", "pool": "node-1", "device": "there"}]}}});
    let found = |value: &str| {
        let slices = [
            part("here", "node-1"),
            part("there", "node-2"),
            counters(value),
        ];
        let devices = cluster(&[held.clone(), claim("c", &spec)], &slices);
        allocate(&devices, &["c"])
    };
    assert_eq!(found("1").unwrap_err(), "cannot allocate all claims");
    assert_eq!(found("2").unwrap(), ["gpu:here"]);
    let mut unknown = counters("2");
    unknown["spec"]["sharedCounters"][0]["name"] = json!("other");
    let slices = [part("here", "node-1"), part("there", "node-2"), unknown];
    let devices = cluster(&[claim("c", &spec)], &slices);
    let invalid = "invalid resource pools were encountered";
    assert_eq!(allocate(&devices, &["c"]).unwrap_err(), invalid);
}

#[test]
fn devices_that_have_to_be_prepared_first_are_not_given() {
    let spec = json!({"requests": [request("gpu", json!({}))]});
    let waits = json!([{"name": "gpu-0", "bindingConditions": ["x"],
        "bindingFailureConditions": ["y"]}]);
    let devices = cluster(&[claim("c", &spec)], &[slice(&waits)]);
    let none = "cannot allocate all claims";
    assert_eq!(allocate(&devices, &["c"]).unwrap_err(), none);
}

#[test]
fn a_pod_waits_for_claims_that_it_may_use() {
    let spec = json!({"requests": [request("gpu", json!({}))]});
    let mut deleted = claim("deleted", &spec);
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let devices = cluster(&[deleted], &[]);
    for (name, why) in [
        ("deleted", "resourceclaim \"deleted\" is being deleted"),
        ("none", "could not find ResourceClaim \"default/none\""),
    ] {
        assert_eq!(allocate(&devices, &[name]).unwrap_err(), why);
    }
}

#[test]
fn requests_for_very_many_devices_are_refused() {
    let many = |name: &str| request(name, json!({"count": i64::MAX}));
    let requests = [many("a"), many("b"), many("c")];
    let claims = [claim("c", &json!({"requests": requests}))];
    let devices = cluster(&claims, &[slice(&json!([{"name": "gpu-0"}]))]);
    let error = allocate(&devices, &["c"]).unwrap_err();
    assert!(error.contains("exceeds the claim limit of 32"), "{error}");
}

#[test]
fn a_pod_gives_up_each_claim_that_is_reserved_for_it_once() {
    let reserved_for = |name: &str, user: &str| {
        let mut claim = claim(name, &json!({}));
        let user = json!({"resource": "pods", "name": user, "uid": user});
        claim["status"] = json!({"allocation": {}, "reservedFor": [user]});
        claim
    };
    let free = claim("free", &json!({}));
    let claims = [reserved_for("own", "p"), reserved_for("other", "q"), free];
    let devices = cluster(&claims, &[]);
    let used = ["own", "other", "free", "own"].iter().enumerate();
    let used =
        used.map(|(index, name)| json!({"name": index.to_string(), "resourceClaimName": name}));
    let pod = json!({"metadata": {"namespace": "default", "name": "p", "uid": "p"},
        "spec": {"containers": [], "resourceClaims": used.collect::<Vec<_>>()}});
    let pod: Pod = from_value(pod).unwrap();
    let found = devices.reserved_for(&pod);
    let names: Vec<_> = found
        .iter()
        .map(|claim| claim.metadata.name.as_deref())
        .collect();
    assert_eq!(names, [Some("own")]);
}
