//! The statuses of Gateways and routes as the Gateway API's reference describes them.

use std::sync::Arc;

use jiff::Timestamp;
use kubeproof_runtime::decode::from_value;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::api::RouteKind;
use super::status::{Changed, Identity, World, changed};

const NOW: &str = "2026-01-01T00:00:00Z";

fn object<T: DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(from_value(value).unwrap())
}

fn named(namespace: &str, name: &str, spec: Value) -> Value {
    json!({ "metadata": { "namespace": namespace, "name": name, "generation": 3 }, "spec": spec })
}

/// A class of this controller, and one Gateway of it with these listeners, in the namespace `edge`.
fn world(listeners: Value) -> World {
    asking(listeners, json!([]))
}

fn asking(listeners: Value, addresses: Value) -> World {
    let spec = json!({
        "gatewayClassName": "simulated", "listeners": listeners, "addresses": addresses,
    });
    let class = json!({ "metadata": { "name": "simulated", "generation": 1 },
        "spec": { "controllerName": "example.com/own" } });
    let labels = |team: &str| [("team".to_owned(), team.to_owned())].into();
    World {
        classes: vec![object(class)],
        gateways: vec![object(named("edge", "web", spec))],
        namespaces: [("edge", "net"), ("shop", "shop"), ("cafe", "cafe")]
            .map(|(name, team)| (name.to_owned(), labels(team)))
            .into(),
        services: [("shop".to_owned(), "cart".to_owned())].into(),
        ..World::default()
    }
}

fn computed(world: &World) -> Changed {
    let identity = Identity {
        name: "example.com/own".to_owned(),
        addresses: vec!["192.0.2.1".parse().unwrap()],
    };
    changed(world, &identity, NOW.parse::<Timestamp>().unwrap())
}

/// `Type=Status Reason` of each condition.
fn words(conditions: &Value) -> Vec<String> {
    let conditions = conditions.as_array().unwrap().iter();
    let word = |condition: &Value, field: &str| condition[field].as_str().unwrap().to_owned();
    conditions
        .map(|one| {
            format!(
                "{}={} {}",
                word(one, "type"),
                word(one, "status"),
                word(one, "reason")
            )
        })
        .collect()
}

fn gateway_status(world: &World) -> Value {
    json!(computed(world).gateways[0].1)
}

fn http(name: &str) -> Value {
    json!({ "name": name, "port": 80, "protocol": "HTTP" })
}

#[test]
fn a_valid_gateway_gets_the_address() {
    let status = gateway_status(&world(json!([http("http")])));
    assert_eq!(
        status["addresses"],
        json!([{ "type": "IPAddress", "value": "192.0.2.1" }])
    );
    assert_eq!(
        words(&status["conditions"]),
        ["Accepted=True Accepted", "Programmed=True Programmed"]
    );
    assert_eq!(status["conditions"][0]["observedGeneration"], 3);
    let listener = &status["listeners"][0];
    assert_eq!(
        words(&listener["conditions"]),
        [
            "Accepted=True Accepted",
            "Conflicted=False NoConflicts",
            "ResolvedRefs=True ResolvedRefs",
            "Programmed=True Programmed",
        ]
    );
    assert_eq!(
        listener["supportedKinds"],
        json!(
            ["HTTPRoute", "GRPCRoute"]
                .map(|kind| { json!({ "group": "gateway.networking.k8s.io", "kind": kind }) })
        )
    );
    let class = &computed(&world(json!([http("http")]))).classes[0];
    assert_eq!(
        words(&json!(class.1)["conditions"]),
        ["Accepted=True Accepted"]
    );
}

#[test]
fn objects_of_other_controllers_are_left_alone() {
    let mut other = world(json!([http("http")]));
    let class = json!({ "metadata": { "name": "simulated" },
        "spec": { "controllerName": "example.com/other" } });
    other.classes = vec![object(class)];
    other.routes = vec![route("edge", json!([{ "name": "web" }]), json!({}))];
    let changed = computed(&other);
    assert!(changed.classes.is_empty() && changed.gateways.is_empty() && changed.routes.is_empty());
}

#[test]
fn a_status_that_is_right_is_not_written_again() {
    let mut twice = world(json!([http("http")]));
    twice.routes = vec![route("edge", json!([{ "name": "web" }]), json!({}))];
    let first = computed(&twice);
    let with = |value: Value, status: Value| {
        let mut value = value;
        value["status"] = status;
        value
    };
    let (gateway, status) = &first.gateways[0];
    twice.gateways = vec![object(with(json!(**gateway), json!(status)))];
    let (class, status) = &first.classes[0];
    twice.classes = vec![object(with(json!(**class), json!(status)))];
    let (kind, route, status) = &first.routes[0];
    twice.routes = vec![(*kind, object(with(json!(**route), json!(status))))];
    let second = computed(&twice);
    assert!(second.classes.is_empty() && second.gateways.is_empty() && second.routes.is_empty());
}

#[test]
fn an_address_of_the_users_is_the_clouds_or_not_usable() {
    let listeners = json!([http("http")]);
    let own = gateway_status(&asking(
        listeners.clone(),
        json!([{ "value": "192.0.2.1" }]),
    ));
    assert_eq!(own["addresses"][0]["value"], "192.0.2.1");
    let other = gateway_status(&asking(
        listeners.clone(),
        json!([{ "value": "198.51.100.9" }]),
    ));
    assert_eq!(
        words(&other["conditions"]),
        [
            "Accepted=True Accepted",
            "Programmed=False AddressNotUsable"
        ]
    );
    assert_eq!(other["addresses"], json!([]));
    let named = json!([{ "type": "Hostname", "value": "web.example" }]);
    assert_eq!(
        words(&gateway_status(&asking(listeners, named))["conditions"]),
        [
            "Accepted=False UnsupportedAddress",
            "Programmed=False Invalid"
        ]
    );
}

#[test]
fn listeners_that_want_the_same_traffic_conflict() {
    let conflict = |other: Value| {
        let status = gateway_status(&world(json!([http("a"), other, http_on("c", 81)])));
        let of = |index: usize| words(&status["listeners"][index]["conditions"]);
        assert_eq!(of(0)[1], of(1)[1], "neither wins");
        assert_eq!(of(2)[1], "Conflicted=False NoConflicts");
        assert_eq!(
            words(&status["conditions"]),
            [
                "Accepted=True ListenersNotValid",
                "Programmed=True Programmed"
            ]
        );
        of(0)
    };
    assert_eq!(
        conflict(http("b")),
        [
            "Accepted=False HostnameConflict",
            "Conflicted=True HostnameConflict",
            "ResolvedRefs=True ResolvedRefs",
            "Programmed=False Invalid",
        ]
    );
    let tls = json!({ "name": "b", "port": 80, "protocol": "HTTPS", "hostname": "b.example" });
    assert_eq!(conflict(tls)[1], "Conflicted=True ProtocolConflict");
    let others_name =
        json!({ "name": "b", "port": 80, "protocol": "HTTP", "hostname": "b.example" });
    let status = gateway_status(&world(json!([http("a"), others_name])));
    assert_eq!(words(&status["conditions"])[0], "Accepted=True Accepted");
}

fn http_on(name: &str, port: i32) -> Value {
    json!({ "name": name, "port": port, "protocol": "HTTP" })
}

#[test]
fn a_listener_names_kinds_and_protocols_that_are_there() {
    let of = |listener: Value| {
        let status = gateway_status(&world(json!([listener])));
        let listener = &status["listeners"][0];
        let kinds = listener["supportedKinds"].as_array().unwrap().len();
        (
            words(&listener["conditions"]),
            kinds,
            words(&status["conditions"]),
        )
    };
    let (conditions, kinds, gateway) = of(json!({ "name": "a", "port": 53, "protocol": "UDP" }));
    assert_eq!(conditions[0], "Accepted=False UnsupportedProtocol");
    assert_eq!(kinds, 0);
    assert_eq!(
        gateway,
        [
            "Accepted=False ListenersNotValid",
            "Programmed=False Invalid"
        ]
    );
    let with_kinds = |kinds: Value| {
        let mut listener = http("a");
        listener["allowedRoutes"] = json!({ "kinds": kinds });
        of(listener)
    };
    let (conditions, kinds, _) = with_kinds(json!([{ "kind": "GRPCRoute" }, { "kind": "Pod" }]));
    assert_eq!(conditions[2], "ResolvedRefs=False InvalidRouteKinds");
    assert_eq!(
        conditions[3], "Programmed=True Programmed",
        "one kind is left"
    );
    assert_eq!(kinds, 1);
    let (conditions, kinds, _) =
        with_kinds(json!([{ "group": "example.com", "kind": "HTTPRoute" }]));
    assert_eq!(conditions[3], "Programmed=False Invalid");
    assert_eq!(kinds, 0);
}

#[test]
fn a_certificate_is_a_secret_that_may_be_used() {
    let of = |reference: Value, grants: Vec<Value>| {
        let listener = json!({ "name": "a", "port": 443, "protocol": "HTTPS",
            "tls": { "certificateRefs": [reference] } });
        let mut world = world(json!([listener]));
        for (namespace, name, data) in [
            (
                "edge",
                "own",
                json!({ "tls.crt": "Yw==", "tls.key": "aw==" }),
            ),
            ("edge", "half", json!({ "tls.crt": "Yw==" })),
            (
                "shop",
                "theirs",
                json!({ "tls.crt": "Yw==", "tls.key": "aw==" }),
            ),
        ] {
            let secret =
                json!({ "metadata": { "namespace": namespace, "name": name }, "data": data });
            world
                .secrets
                .insert((namespace.to_owned(), name.to_owned()), object(secret));
        }
        world.grants = grants.into_iter().map(object).collect();
        let status = gateway_status(&world);
        words(&status["listeners"][0]["conditions"])[2].clone()
    };
    let theirs = || json!({ "name": "theirs", "namespace": "shop" });
    let grant = |from: &str, to: Value| {
        let from =
            json!({ "group": "gateway.networking.k8s.io", "kind": from, "namespace": "edge" });
        named("shop", "to-edge", json!({ "from": [from], "to": [to] }))
    };
    let secrets = || json!({ "group": "", "kind": "Secret" });
    let invalid = "ResolvedRefs=False InvalidCertificateRef";
    let forbidden = "ResolvedRefs=False RefNotPermitted";
    let resolved = "ResolvedRefs=True ResolvedRefs";
    assert_eq!(of(json!({ "name": "own" }), vec![]), resolved);
    assert_eq!(of(json!({ "name": "half" }), vec![]), invalid);
    assert_eq!(of(json!({ "name": "gone" }), vec![]), invalid);
    assert_eq!(
        of(json!({ "name": "own", "kind": "ConfigMap" }), vec![]),
        invalid
    );
    assert_eq!(of(theirs(), vec![]), forbidden);
    assert_eq!(of(theirs(), vec![grant("Gateway", secrets())]), resolved);
    assert_eq!(of(theirs(), vec![grant("HTTPRoute", secrets())]), forbidden);
    let only = json!({ "group": "", "kind": "Secret", "name": "another" });
    assert_eq!(of(theirs(), vec![grant("Gateway", only)]), forbidden);
}

fn route(namespace: &str, parents: Value, more: Value) -> (RouteKind, Arc<super::Route>) {
    let mut spec = more;
    spec["parentRefs"] = parents;
    (RouteKind::Http, object(named(namespace, "cart", spec)))
}

/// The conditions of the route `cart`, and the numbers of routes of the listeners.
fn attached(listeners: Value, route: (RouteKind, Arc<super::Route>)) -> (Vec<String>, Vec<i64>) {
    let mut world = world(listeners);
    world.routes = vec![route];
    let changed = computed(&world);
    let (_, _, status) = &changed.routes[0];
    let status = json!(status);
    assert_eq!(status["parents"][0]["controllerName"], "example.com/own");
    let gateway = json!(changed.gateways[0].1);
    let listeners = gateway["listeners"].as_array().unwrap().iter();
    let counts = listeners.map(|listener| listener["attachedRoutes"].as_i64().unwrap());
    (words(&status["parents"][0]["conditions"]), counts.collect())
}

#[test]
fn a_route_attaches_to_the_listeners_that_allow_it() {
    let from = |from: Value| {
        let mut listener = http("a");
        listener["allowedRoutes"] = json!({ "namespaces": from });
        json!([listener, http_on("b", 81)])
    };
    let parent = || json!([{ "name": "web", "namespace": "edge" }]);
    let shop = json!({ "matchLabels": { "team": "shop" } });
    let selected = json!({ "from": "Selector", "selector": shop });
    let refused = "Accepted=False NotAllowedByListeners";
    for (namespaces, of_route, expected, counts) in [
        (json!({}), "shop", refused, [0, 0]),
        (json!({}), "edge", "Accepted=True Accepted", [1, 1]),
        (
            json!({ "from": "All" }),
            "shop",
            "Accepted=True Accepted",
            [1, 0],
        ),
        (
            json!({ "from": "None" }),
            "edge",
            "Accepted=True Accepted",
            [0, 1],
        ),
        (selected.clone(), "shop", "Accepted=True Accepted", [1, 0]),
        (selected, "cafe", refused, [0, 0]),
    ] {
        let (conditions, attached) = attached(
            from(namespaces.clone()),
            route(of_route, parent(), json!({})),
        );
        assert_eq!(conditions[0], expected, "{namespaces} {of_route}");
        assert_eq!(attached, counts, "{namespaces} {of_route}");
    }
}

#[test]
fn a_route_chooses_listeners_by_name_port_and_hostname() {
    let named = json!({ "name": "b", "port": 81, "protocol": "HTTP", "hostname": "*.example" });
    let listeners = || json!([http("a"), named.clone()]);
    let of =
        |parent: Value, more: Value| attached(listeners(), route("edge", json!([parent]), more));
    let (conditions, counts) = of(json!({ "name": "web", "sectionName": "b" }), json!({}));
    assert_eq!(
        (conditions[0].as_str(), counts),
        ("Accepted=True Accepted", vec![0, 1])
    );
    let (_, counts) = of(json!({ "name": "web", "port": 80 }), json!({}));
    assert_eq!(counts, [1, 0]);
    let (conditions, _) = of(json!({ "name": "web", "sectionName": "c" }), json!({}));
    assert_eq!(conditions[0], "Accepted=False NoMatchingParent");
    let hosts = |host: &str| json!({ "hostnames": [host] });
    let (_, counts) = of(json!({ "name": "web" }), hosts("shop.example"));
    assert_eq!(counts, [1, 1]);
    let (_, counts) = of(json!({ "name": "web" }), hosts("shop.test"));
    assert_eq!(counts, [1, 0]);
    let (conditions, _) = of(
        json!({ "name": "web", "sectionName": "b" }),
        hosts("shop.test"),
    );
    assert_eq!(conditions[0], "Accepted=False NoMatchingListenerHostname");
}

#[test]
fn a_route_says_which_backend_is_not_there() {
    let all = json!([{ "name": "a", "port": 80, "protocol": "HTTP",
        "allowedRoutes": { "namespaces": { "from": "All" } } }]);
    let of = |namespace: &str, backend: Value| {
        let parent = json!([{ "name": "web", "namespace": "edge" }]);
        let rules = json!({ "rules": [{ "backendRefs": [backend] }] });
        attached(all.clone(), route(namespace, parent, rules)).0[1].clone()
    };
    assert_eq!(
        of("shop", json!({ "name": "cart" })),
        "ResolvedRefs=True ResolvedRefs"
    );
    assert_eq!(
        of("shop", json!({ "name": "gone" })),
        "ResolvedRefs=False BackendNotFound"
    );
    assert_eq!(
        of("shop", json!({ "name": "cart", "kind": "Pod" })),
        "ResolvedRefs=False InvalidKind"
    );
    assert_eq!(
        of("cafe", json!({ "name": "cart", "namespace": "shop" })),
        "ResolvedRefs=False RefNotPermitted"
    );
}

#[test]
fn other_controllers_parents_of_a_route_stay() {
    let mut world = world(json!([http("a")]));
    let parent = |name: &str, controller: &str| json!({ "parentRef": { "name": name }, "controllerName": controller, "conditions": [] });
    let mut with_status = named("edge", "cart", json!({ "parentRefs": [{ "name": "web" }] }));
    with_status["status"] = json!({ "parents": [
        parent("gone", "example.com/own"), parent("other", "example.com/other"),
    ] });
    world.routes = vec![(RouteKind::Grpc, object(with_status))];
    let changed = computed(&world);
    let status = json!(changed.routes[0].2);
    let parents = status["parents"].as_array().unwrap().iter();
    let names: Vec<&Value> = parents.map(|parent| &parent["parentRef"]["name"]).collect();
    assert_eq!(names, ["other", "web"]);
}
