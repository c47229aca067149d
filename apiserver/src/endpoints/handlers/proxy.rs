//! The proxies to nodes, pods and services: no program listens on simulated addresses, so every
//! answer is a refusal.

use std::net::IpAddr;

use serde_json::Value;

use super::kubelet::NO_ADDRESS;
use super::{Answer, Request};
use crate::meta::GroupVersionResource;
use crate::meta::object::meta;
use crate::registry::rest::ProxyTarget;
use crate::status::ApiError;

/// The label by which a slice names the service whose endpoints it has.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

pub(super) fn proxy(request: &Request<'_>, to: ProxyTarget) -> Answer {
    let kind = to.as_str();
    let target = Target::parse(request.name()).ok_or_else(|| {
        ApiError::BadRequest(format!("invalid {kind} request {:?}", request.name()))
    })?;
    let object = request.store(false).get(request.namespace(), target.name)?;
    Err(match to {
        ProxyTarget::Node => ApiError::Unknown(NO_ADDRESS.to_owned()),
        ProxyTarget::Pod => pod(&object.value(), &target),
        ProxyTarget::Service => service(request, &object.value(), &target),
    })
}

/// `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`.
struct Target<'a> {
    name: &'a str,
    port: &'a str,
}

impl<'a> Target<'a> {
    fn parse(id: &'a str) -> Option<Self> {
        let parts: Vec<&str> = id.split(':').collect();
        let (scheme, name, port) = match parts.as_slice() {
            [name] => ("", *name, ""),
            [name, port] => ("", *name, *port),
            [scheme, name, port] => (*scheme, *name, *port),
            _ => return None,
        };
        let known = matches!(scheme, "" | "http" | "https");
        (known && !name.is_empty()).then_some(Self { name, port })
    }
}

fn pod(pod: &Value, target: &Target<'_>) -> ApiError {
    let address = pod["status"]["podIP"].as_str().unwrap_or_default();
    let allowed = address.parse().is_ok_and(|ip: IpAddr| {
        let link_local = matches!(ip, IpAddr::V4(ip) if ip.is_link_local());
        !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || link_local)
    });
    if !allowed {
        return ApiError::BadRequest("address not allowed".to_owned());
    }
    let named = &pod["spec"]["containers"][0]["ports"][0]["containerPort"];
    let port = match target.port {
        "" => named.as_i64().unwrap_or(80).to_string(),
        port => port.to_owned(),
    };
    ApiError::ServiceUnavailable(format!(
        "error trying to reach service: dial tcp {address}:{port}: connect: no route to host"
    ))
}

fn service(request: &Request<'_>, service: &Value, target: &Target<'_>) -> ApiError {
    let name = target.name;
    let ports = || service["spec"]["ports"].as_array().into_iter().flatten();
    let asked = match target.port.parse::<i64>() {
        Ok(number) => {
            let found = ports().find(|port| port["port"].as_i64() == Some(number));
            if found.is_none() {
                return ApiError::ServiceUnavailable(format!(
                    "no service port {number} found for service {name:?}"
                ));
            }
            found
        }
        // Without a port, the only one is meant.
        Err(_) if target.port.is_empty() => ports().next(),
        Err(_) => ports().find(|port| port["name"] == target.port),
    };
    let port_name = asked.map_or("", |port| port["name"].as_str().unwrap_or_default());
    let slices = request.state.storage.table(&GroupVersionResource {
        group: "discovery.k8s.io".to_owned(),
        version: "v1".to_owned(),
        resource: "endpointslices".to_owned(),
    });
    let snapshot = slices.snapshot();
    let address = snapshot
        .range(Some(meta(service, "namespace")), None)
        .map(|slice| slice.value())
        .filter(|slice| slice["metadata"]["labels"][SERVICE_NAME] == name)
        .find_map(|slice| {
            let address = slice["endpoints"][0]["addresses"][0].as_str()?;
            let mut ports = slice["ports"].as_array()?.iter();
            let port = ports.find(|port| port["name"].as_str().unwrap_or_default() == port_name)?;
            Some(format!("{address}:{}", port["port"].as_i64()?))
        });
    ApiError::ServiceUnavailable(match address {
        None => format!("no endpoints available for service {name:?}"),
        Some(address) => {
            format!("error trying to reach service: dial tcp {address}: connect: no route to host")
        }
    })
}
