//! Endpoints, slices, ingresses and the kinds of `networking.k8s.io`.

use serde_json::{Value, json};

use super::service::load_balancer;
use super::view::{View, first_three, or_none, or_unset};

pub(super) fn endpoints(view: View<'_>) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in view.items("/subsets") {
        let ips: Vec<&str> = subset
            .items("/addresses")
            .map(|address| address.str("/ip"))
            .collect();
        if subset.len("/ports") == 0 {
            all.extend(ips.iter().map(|ip| (*ip).to_owned()));
        }
        for port in subset.items("/ports") {
            all.extend(ips.iter().map(|ip| host_port(ip, port.int("/port"))));
        }
    }
    let text = if view.len("/subsets") == 0 {
        "<none>".to_owned()
    } else {
        first_three(&all)
    };
    vec![view.name(), json!(text), view.age()]
}

pub(super) fn endpoint_slice(view: View<'_>) -> Vec<Value> {
    let port = |port: View<'_>| {
        port.scalar("/port")
            .unwrap_or_else(|| match port.get("/name") {
                Some(_) => port.str("/name").to_owned(),
                None => "*".to_owned(),
            })
    };
    let ports: Vec<String> = view.items("/ports").map(port).collect();
    let addresses: Vec<String> = view
        .items("/endpoints")
        .flat_map(|endpoint| endpoint.strs("/addresses"))
        .map(str::to_owned)
        .collect();
    vec![
        view.name(),
        json!(view.str("/addressType")),
        json!(or_unset(first_three(&ports))),
        json!(or_unset(first_three(&addresses))),
        view.age(),
    ]
}

pub(super) fn ingress(view: View<'_>) -> Vec<Value> {
    const CLASS_ANNOTATION: &str = "/metadata/annotations/kubernetes.io~1ingress.class";
    let class = view.str_or(
        "/spec/ingressClassName",
        view.str_or(CLASS_ANNOTATION, "<none>"),
    );
    let hosts: Vec<String> = view
        .items("/spec/rules")
        .map(|rule| rule.str("/host").to_owned())
        .filter(|host| !host.is_empty())
        .collect();
    let hosts = if hosts.is_empty() {
        "*".to_owned()
    } else {
        first_three(&hosts)
    };
    vec![
        view.name(),
        json!(class),
        json!(hosts),
        json!(load_balancer(view)),
        json!(if view.len("/spec/tls") > 0 {
            "80, 443"
        } else {
            "80"
        }),
        view.age(),
    ]
}

pub(super) fn ingress_class(view: View<'_>) -> Vec<Value> {
    let parameter = |field: &str| view.str(&format!("/spec/parameters/{field}"));
    let parameters = match (parameter("apiGroup"), parameter("kind"), parameter("name")) {
        (_, "", "") => "<none>".to_owned(),
        ("", kind, name) => format!("{kind}/{name}"),
        (group, kind, name) => format!("{kind}.{group}/{name}"),
    };
    vec![
        view.name(),
        json!(view.str("/spec/controller")),
        json!(parameters),
        view.age(),
    ]
}

pub(super) fn ip_address(view: View<'_>) -> Vec<Value> {
    let parent = |field: &str| view.str(&format!("/spec/parentRef/{field}"));
    let resource = match parent("group") {
        "" => parent("resource").to_owned(),
        group => format!("{}.{group}", parent("resource")),
    };
    let parts = [resource.as_str(), parent("namespace"), parent("name")];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    vec![view.name(), json!(parts.join("/"))]
}

pub(super) fn network_policy(view: View<'_>) -> Vec<Value> {
    vec![
        view.name(),
        json!(or_none(view.selector("/spec/podSelector"))),
        view.age(),
    ]
}

pub(super) fn service_cidr(view: View<'_>) -> Vec<Value> {
    vec![
        view.name(),
        json!(view.strs("/spec/cidrs").join(",")),
        view.age(),
    ]
}

fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') {
        format!("[{ip}]:{port}")
    } else {
        format!("{ip}:{port}")
    }
}
