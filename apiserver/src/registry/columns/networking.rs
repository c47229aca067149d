//! Endpoints, slices, ingresses and the kinds of `networking.k8s.io`.

use serde_json::{Value, json};

use super::service::load_balancer;
use super::view::{View, first_three, or_none, or_unset};

const DEFAULT_CLASS_ANNOTATION: &str =
    "/metadata/annotations/ingressclass.kubernetes.io~1is-default-class";

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
    vec![
        view.name(),
        json!(
            view.scalar("/spec/ingressClassName")
                .unwrap_or_else(|| "<none>".to_owned())
        ),
        json!(hosts(view)),
        json!(load_balancer(view)),
        json!(if view.len("/spec/tls") > 0 {
            "80, 443"
        } else {
            "80"
        }),
        view.age(),
    ]
}

/// The first three hosts, and how many rules there are beyond three, with a host or without.
fn hosts(view: View<'_>) -> String {
    const SHOWN: usize = 3;
    let mut hosts: Vec<&str> = Vec::new();
    let mut is_cut = false;
    for rule in view.items("/spec/rules") {
        is_cut |= hosts.len() == SHOWN;
        let host = rule.str("/host");
        if !is_cut && !host.is_empty() {
            hosts.push(host);
        }
    }
    match hosts.join(",") {
        shown if shown.is_empty() => "*".to_owned(),
        shown if is_cut => format!("{shown} + {} more...", view.len("/spec/rules") - SHOWN),
        shown => shown,
    }
}

pub(super) fn ingress_class(view: View<'_>) -> Vec<Value> {
    let of = |parameters: View<'_>| {
        let group = parameters.scalar("/apiGroup");
        let group = group.map_or_else(String::new, |group| format!(".{group}"));
        format!(
            "{}{group}/{}",
            parameters.str("/kind"),
            parameters.str("/name")
        )
    };
    let parameters = view.at("/spec/parameters");
    let parameters = parameters.map_or_else(|| "<none>".to_owned(), of);
    let is_default = view.str(DEFAULT_CLASS_ANNOTATION) == "true";
    let mark = if is_default { " (default)" } else { "" };
    vec![
        json!(format!("{}{mark}", view.str("/metadata/name"))),
        json!(view.str("/spec/controller")),
        json!(parameters),
        view.age(),
    ]
}

/// A cell more than there are columns: upstream's age, which has no column, and which kubectl drops.
pub(super) fn ip_address(view: View<'_>) -> Vec<Value> {
    let of = |parent: View<'_>| {
        let resource = match parent.str("/group") {
            "" => parent.str("/resource").to_owned(),
            group => format!("{}.{group}", parent.str("/resource")),
        };
        let namespace = match parent.str("/namespace") {
            "" => String::new(),
            namespace => format!("/{namespace}"),
        };
        format!(
            "{}{namespace}/{}",
            resource.to_lowercase(),
            parent.str("/name")
        )
    };
    let parent = view.at("/spec/parentRef");
    let parent = parent.map_or_else(|| "<none>".to_owned(), of);
    vec![view.name(), json!(parent), view.age()]
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
