//! The proxies to nodes, pods and services. Requests reach the programs of simulated pods; every other address refuses.
//!
//! Source: `pkg/registry/core/pod/strategy.go` (`ResourceLocation`), `pkg/registry/core/service/storage/storage.go`,
//! `staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go`.

use std::net::IpAddr;

use futures::StreamExt;
use http::header::{AUTHORIZATION, CONTENT_LENGTH};
use http::{Method, Response};
use http_body_util::Full;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::kubelet::NO_ADDRESS;
use super::{Answer, Request};
use crate::aggregator::{Connection, Unreached, remove_hop_by_hop, remove_prefixed};
use crate::endpoints::body::{Dropped, ResponseBody};
use crate::json::Value;
use crate::kubelet::PodReference;
use crate::meta::GroupVersionResource;
use crate::meta::object::meta;
use crate::registry::rest::ProxyTarget;
use crate::request::Verb;
use crate::status::{ApiError, quoted};
use crate::storage::ObjectKey;

/// The label by which a slice names the service whose endpoints it has.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The characters that are escaped in a part of a path or of a query.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

pub(super) async fn proxy(request: &Request<'_>, to: ProxyTarget) -> Answer {
    let kind = to.as_str();
    let target = Target::parse(request.name()).ok_or_else(|| {
        ApiError::BadRequest(format!("invalid {kind} request {}", quoted(request.name())))
    })?;
    let object = request.store(false).get(request.namespace(), target.name)?;
    let object = object.value();
    let destination = match to {
        ProxyTarget::Node => return Err(ApiError::Unknown(NO_ADDRESS.to_owned())),
        ProxyTarget::Pod => of_pod(&object, &target)?,
        ProxyTarget::Service => of_service(request, &object, &target)?,
    };
    match reach(request, &target, &destination).await {
        Ok(response) => Ok(response),
        Err(why) => Err(ApiError::ServiceUnavailable(format!(
            "error trying to reach service: {why}"
        ))),
    }
}

/// `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`.
struct Target<'a> {
    scheme: &'a str,
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
        (known && !name.is_empty()).then_some(Self { scheme, name, port })
    }
}

/// The program that a request goes to.
struct Destination {
    /// The address and the port.
    host: String,
    /// The pod with the address; `None` if it is not known.
    pod: Option<Value>,
}

fn of_pod(pod: &Value, target: &Target<'_>) -> Result<Destination, ApiError> {
    let address = pod["status"]["podIP"].as_str().unwrap_or_default();
    let allowed = address.parse().is_ok_and(|ip: IpAddr| {
        let link_local = matches!(ip, IpAddr::V4(ip) if ip.is_link_local());
        !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || link_local)
    });
    if !allowed {
        return Err(ApiError::BadRequest("address not allowed".to_owned()));
    }
    let containers = pod["spec"]["containers"].as_array();
    let mut containers = containers.into_iter().flatten();
    let named = containers.find_map(|own| own["ports"][0]["containerPort"].as_i64());
    let port = match target.port {
        "" => named.unwrap_or(80).to_string(),
        port => port.to_owned(),
    };
    Ok(Destination {
        host: format!("{address}:{port}"),
        pod: Some(pod.clone()),
    })
}

/// The first ready endpoint of a service at a port; upstream takes any.
fn of_service(
    request: &Request<'_>,
    service: &Value,
    target: &Target<'_>,
) -> Result<Destination, ApiError> {
    let name = target.name;
    let ports = || service["spec"]["ports"].as_array().into_iter().flatten();
    let asked = match target.port.parse::<i64>() {
        Ok(number) => {
            let found = ports().find(|port| port["port"].as_i64() == Some(number));
            if found.is_none() {
                return Err(ApiError::ServiceUnavailable(format!(
                    "no service port {number} found for service {name:?}"
                )));
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
    let slices: Vec<_> = snapshot
        .range(Some(meta(service, "namespace")), None)
        .map(|slice| slice.value())
        .filter(|slice| slice["metadata"]["labels"][SERVICE_NAME] == name)
        .collect();
    if slices.is_empty() {
        // No controller has looked at the service yet. The missing object has the resource of the request.
        return Err(ApiError::NotFound {
            resource: request.resource.gvr().group_resource(),
            name: name.to_owned(),
        });
    }
    let found = slices.iter().find_map(|slice| {
        let mut endpoints = slice["endpoints"].as_array()?.iter();
        let endpoint = endpoints.find(|own| own["conditions"]["ready"] != false)?;
        let address = endpoint["addresses"][0].as_str()?;
        let mut ports = slice["ports"].as_array()?.iter();
        let port = ports.find(|port| port["name"].as_str().unwrap_or_default() == port_name)?;
        let host = format!("{address}:{}", port["port"].as_i64()?);
        Some((host, endpoint["targetRef"].clone()))
    });
    let (host, target) = found.ok_or_else(|| {
        ApiError::ServiceUnavailable(format!("no endpoints available for service {name:?}"))
    })?;
    let pods = request.state.storage.table(&GroupVersionResource {
        group: String::new(),
        version: "v1".to_owned(),
        resource: "pods".to_owned(),
    });
    let pod = target["name"].as_str().filter(|_| target["kind"] == "Pod");
    let namespace = Some(meta(service, "namespace"));
    let pod = pod.and_then(|pod| pods.get(&ObjectKey::new(namespace, pod)));
    Ok(Destination {
        host,
        pod: pod.map(|pod| (*pod.value()).clone()),
    })
}

/// Sends the request to a port of a pod, and returns its answer.
///
/// Cancel safety: dropping the call closes the connection, whose program may have seen the request.
///
/// # Errors
/// The failure in the words of Go's client.
async fn reach(
    request: &Request<'_>,
    target: &Target<'_>,
    destination: &Destination,
) -> Result<Response<ResponseBody>, String> {
    let Destination { host, pod } = destination;
    let refused = |why: &str| format!("dial tcp {host}: connect: {why}");
    let unreachable = || refused("no route to host");
    let pod = pod.as_ref().ok_or_else(unreachable)?;
    let kubelet = request.state.kubelet.lock().clone();
    let kubelet = kubelet.ok_or_else(unreachable)?;
    let pod = PodReference {
        namespace: meta(pod, "namespace"),
        name: meta(pod, "name"),
        uid: meta(pod, "uid"),
        node: pod["spec"]["nodeName"].as_str().unwrap_or_default(),
    };
    let ports = kubelet.port_forward(pod).map_err(|_| unreachable())?;
    let port = host.rsplit(':').next().and_then(|port| port.parse().ok());
    let connected = match port {
        Some(port) => (ports.connect)(port).await.ok(),
        None => None,
    };
    let connected = connected.ok_or_else(|| refused("connection refused"))?;
    if target.scheme == "https" {
        return Err("http: server gave HTTP response to HTTPS client".to_owned());
    }
    let stream = tokio::io::join(connected.reader, connected.writer);
    let failed = |error| match error {
        Unreached::Config(why) | Unreached::Failed(why) => why,
    };
    let connection = Connection::over(stream, host.clone(), connected.serving).await;
    let answered = connection.map_err(failed)?.send(passed_on(request)).await?;
    let (mut head, body) = answered.into_parts();
    remove_hop_by_hop(&mut head.headers);
    // Whether a page of another origin may read an answer is for this server to say.
    remove_prefixed(&mut head.headers, "access-control-");
    head.extensions = http::Extensions::new();
    head.version = http::Version::HTTP_11;
    let body = body.map(|piece| piece.map_err(|_| Dropped));
    Ok(Response::from_parts(head, ResponseBody::stream(body)))
}

/// The request that a program gets.
fn passed_on(request: &Request<'_>) -> http::Request<Full<bytes::Bytes>> {
    let escape = |text: &str| utf8_percent_encode(text, ESCAPED).to_string();
    let path = request.info.rest.iter().map(|part| escape(part));
    let mut uri = format!("/{}", path.collect::<Vec<_>>().join("/"));
    let query = request.query.pairs();
    let query = query.map(|(name, value)| format!("{}={}", escape(name), escape(value)));
    let query = query.collect::<Vec<_>>().join("&");
    if !query.is_empty() {
        uri = format!("{uri}?{query}");
    }
    let mut passed = http::Request::new(Full::new(request.body.clone()));
    *passed.method_mut() = match request.info.verb {
        Some(Verb::Create) => Method::POST,
        Some(Verb::Update) => Method::PUT,
        Some(Verb::Patch) => Method::PATCH,
        Some(Verb::Delete) => Method::DELETE,
        _ => Method::GET,
    };
    *passed.uri_mut() = uri.parse().expect("it is escaped");
    let mut headers = request.headers.clone();
    remove_hop_by_hop(&mut headers);
    remove_prefixed(&mut headers, "impersonate-");
    headers.remove(AUTHORIZATION);
    headers.remove(CONTENT_LENGTH);
    *passed.headers_mut() = headers;
    passed
}
