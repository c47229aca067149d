//! Requests to services that say whether they answer, and what they serve.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, Request};
use http_body_util::Full;

use super::availability::Judgement;
use super::backend::{Connection, Unreached, name_user};
use super::discovery::{current, of_resources};
use crate::api_services::{Backend, Discovered};
use crate::auth::User;
use crate::cluster::Cluster;
use crate::json::{Value, json};
use crate::meta::GroupVersion;
use crate::registry::unstructured::{items, text};

/// The time that a request may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Go's words for a request that takes longer.
const TIMED_OUT: &str =
    "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";

/// The number of bytes that are read of an answer.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Asks for the aggregated form of discovery.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// The user on whose behalf services are asked.
static AGGREGATOR: LazyLock<User> = LazyLock::new(|| User {
    name: "system:kube-aggregator".to_owned(),
    groups: vec!["system:masters".to_owned()],
    ..User::default()
});

/// The result of a check of a service.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The judgement of the APIService; `None` if it cannot be used whatever the service does, which upstream only logs.
    pub(crate) judgement: Option<Judgement>,
    /// The documents of the group version; `None` if the service did not send them.
    pub(crate) said: Option<Discovered>,
}

impl Checked {
    /// Whether the service has answered all that it was asked.
    pub(crate) fn is_good(&self) -> bool {
        self.said.is_some()
    }
}

/// An answer read whole.
struct Whole {
    code: u16,
    headers: HeaderMap,
    body: Bytes,
}

/// Asks the service of an APIService at `address` for its discovery documents.
///
/// Cancel safety: dropping the call closes its connection.
pub(crate) async fn check(cluster: &Cluster, backend: &Backend, address: SocketAddr) -> Checked {
    let path = backend.path();
    let asked = within(
        cluster,
        get(cluster, backend, address, &path, "application/json"),
    )
    .await;
    let url = format!("https://{address}{path}");
    let why = match asked {
        Ok(whole) if (200..300).contains(&whole.code) => {
            return Checked {
                judgement: Some(Judgement::passed()),
                said: said(cluster, backend, address, &whole.body).await,
            };
        }
        Ok(whole) => format!("bad status from {url}: {}", whole.code),
        Err(Unreached::Failed(why)) => format!("Get {url:?}: {why}"),
        Err(Unreached::Config(why)) => {
            tracing::warn!(name = backend.name(), %why, "API service not checked");
            return Checked {
                judgement: None,
                said: None,
            };
        }
    };
    let why = format!("failing or missing response from {url}: {why}");
    Checked {
        judgement: Some(Judgement::failed(why)),
        said: None,
    }
}

async fn said(
    cluster: &Cluster,
    backend: &Backend,
    address: SocketAddr,
    resources: &[u8],
) -> Option<Discovered> {
    let document = document(cluster, backend, address, resources).await?;
    let asked = get(cluster, backend, address, "/openapi/v3", "application/json");
    let index = within(cluster, asked).await.ok();
    let index = index.and_then(|whole| serde_json::from_slice::<Value>(&whole.body).ok());
    let key = backend.path().split_off(1);
    let path = index.map(|index| text(&index["paths"][key]["serverRelativeURL"]).to_owned());
    Some(Discovered {
        document,
        openapi: path.filter(|path| path.starts_with("/openapi/v3/")),
    })
}

/// The discovery document of a version: from the aggregated form, or else from its list of resources.
async fn document(
    cluster: &Cluster,
    backend: &Backend,
    address: SocketAddr,
    resources: &[u8],
) -> Option<Value> {
    let version = &backend.group_version;
    let asked = get(cluster, backend, address, "/apis", AGGREGATED);
    let whole = within(cluster, asked).await.ok()?;
    let content_type = whole.headers.get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let is_aggregated = content_type.is_some_and(|own| own.contains("as=APIGroupDiscoveryList"));
    let read = |body: &[u8]| serde_json::from_slice::<Value>(body).ok();
    match whole.code {
        503 => None,
        200 if is_aggregated => Some(found(&read(&whole.body)?, version)),
        _ => {
            let list = read(resources)?;
            let found = of_resources(&list["resources"])?;
            Some(current(version, &found))
        }
    }
}

/// The document of a version among all of a service; one without resources if it is not there.
fn found(list: &Value, version: &GroupVersion) -> Value {
    let mut groups = items(&list["items"]);
    let group = groups.find(|own| own["metadata"]["name"] == version.group.as_str());
    let versions = group
        .map(|own| &own["versions"])
        .into_iter()
        .flat_map(items);
    let mut versions = versions.filter(|own| text(&own["version"]) == version.version);
    match versions.next() {
        Some(own) => current(version, &own["resources"]),
        None => current(version, &json!([])),
    }
}

/// Awaits an answer for the time that a request may take.
async fn within(
    cluster: &Cluster,
    answer: impl Future<Output = Result<Whole, Unreached>>,
) -> Result<Whole, Unreached> {
    let answer = cluster.clock.on_the_wire(TIMEOUT, answer).await;
    answer.unwrap_or_else(|| Err(Unreached::Failed(TIMED_OUT.to_owned())))
}

async fn get(
    cluster: &Cluster,
    backend: &Backend,
    address: SocketAddr,
    path: &str,
    accept: &'static str,
) -> Result<Whole, Unreached> {
    let connection = Connection::open(cluster, backend, address).await?;
    let request = Request::get(path)
        .header(ACCEPT, accept)
        .header(USER_AGENT, "Go-http-client/1.1")
        .body(Full::default());
    let mut request = request.map_err(|error| Unreached::Config(error.to_string()))?;
    name_user(&AGGREGATOR, request.headers_mut());
    let response = connection.send(request).await.map_err(Unreached::Failed)?;
    let (head, mut stream) = response.into_parts();
    let mut body = Vec::new();
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|_| Unreached::Failed("unexpected EOF".to_owned()))?;
        if body.len() + piece.len() > ANSWER_BYTES_MAX {
            let why = format!("response body is larger than {ANSWER_BYTES_MAX} bytes");
            return Err(Unreached::Failed(why));
        }
        body.extend_from_slice(&piece);
    }
    Ok(Whole {
        code: head.status.as_u16(),
        headers: head.headers,
        body: body.into(),
    })
}
