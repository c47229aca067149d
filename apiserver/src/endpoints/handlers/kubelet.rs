//! Requests that a pod's kubelet answers: the streams of containers, and their logs.

use futures::{FutureExt, StreamExt};
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use hyper::upgrade::OnUpgrade;

use super::remote_command::{Session, Wanted};
use super::{Answer, Request, port_forward};
use crate::auth::{Attributes, authorize, resolved};
use crate::endpoints::body::ResponseBody;
use crate::endpoints::response;
use crate::endpoints::streams::multiplexed;
use crate::endpoints::streams::upgrade::{self, Carrier, Handshake, StatusForm};
use crate::json::Value;
use crate::kubelet::{
    ContainerReference, ContainerStreams, ExecOptions, Kubelet, KubeletError, LogOptions,
    PodReference,
};
use crate::meta::GroupKind;
use crate::registry::core::pod::connect::ports;
use crate::registry::rest::Stream;
use crate::request::Verb;
use crate::request::options::Query;
use crate::schema;
use crate::status::{ApiError, FieldErrors, FieldPath};
use crate::store::Store;

pub(super) const NO_ADDRESS: &str = "no preferred addresses found; known addresses: []";

/// exec, attach and portforward.
pub(super) async fn stream(request: &Request<'_>, stream: Stream, query: &Query) -> Answer {
    check_creation(request).await?;
    let pod = pod(request)?;
    let container = container(request, query, &pod)?;
    let node = match node_of(&pod) {
        "" => {
            return Err(ApiError::BadRequest(format!(
                "pod {} does not have a host assigned",
                request.name()
            )));
        }
        node => node,
    };
    let kubelet = request.state.kubelet.lock().clone();
    let Some(kubelet) = kubelet else {
        return Err(unreachable(request, node));
    };
    check_node(request, node)?;
    upgrade::check(&request.headers)?;
    let streamed = match stream {
        Stream::PortForward => forward_ports(request, query, &pod, &*kubelet),
        Stream::Exec => {
            let command: Vec<String> = query.all("command").map(str::to_owned).collect();
            let container = reference(&pod, &container);
            run_remotely(request, query, command.clone(), |options| {
                kubelet.exec(container, command, options)
            })
        }
        Stream::Attach => {
            let container = reference(&pod, &container);
            run_remotely(request, query, Vec::new(), |options| {
                kubelet.attach(container, options.stdin)
            })
        }
    };
    match streamed {
        Ok(response) => Ok(response),
        Err(Refused::Unreachable) => Err(unreachable(request, node)),
        Err(Refused::ByServer(error)) => Err(error),
        Err(Refused::ByKubelet(code, text)) => Ok(response::text(code, text)),
        Err(Refused::Handshake(refusal)) => Ok(refusal.into_response()),
    }
}

/// The reason why a connection is not upgraded.
enum Refused {
    /// No kubelet answers for the node.
    Unreachable,
    ByServer(ApiError),
    /// With a code and a text.
    ByKubelet(u16, String),
    Handshake(upgrade::Refusal),
}

impl From<KubeletError> for Refused {
    fn from(error: KubeletError) -> Self {
        match error {
            KubeletError::Unreachable => Self::Unreachable,
            KubeletError::BadRequest(text) => Self::ByKubelet(400, text),
            KubeletError::Failed(text) => Self::ByKubelet(500, text),
        }
    }
}

impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Self {
        Self::ByServer(error)
    }
}

impl From<upgrade::Refusal> for Refused {
    fn from(refusal: upgrade::Refusal) -> Self {
        Self::Handshake(refusal)
    }
}

type Upgraded = Result<Response<ResponseBody>, Refused>;

fn handshake(request: &Request<'_>, protocols: upgrade::Protocols) -> Result<Handshake, Refused> {
    let is_post = request.info.verb == Some(Verb::Create);
    Ok(Handshake::read(&request.headers, is_post, protocols)?)
}

/// The connection, which can be upgraded only once, and not over HTTP/2.
fn take_upgrade(request: &Request<'_>) -> Result<OnUpgrade, ApiError> {
    let upgrade = request.upgrade.lock().take();
    upgrade.ok_or_else(|| ApiError::BadRequest(upgrade::UPGRADE_REQUIRED.to_owned()))
}

/// A process that `start` starts with the options that the client wants.
fn run_remotely(
    request: &Request<'_>,
    query: &Query,
    command: Vec<String>,
    start: impl FnOnce(ExecOptions) -> Result<ContainerStreams, KubeletError>,
) -> Upgraded {
    let handshake = handshake(request, upgrade::REMOTE_COMMAND)?;
    let terminal = query.flag("tty");
    let wanted = Wanted {
        stdin: query.flag("stdin"),
        stdout: query.flag("stdout"),
        stderr: query.flag("stderr") && !terminal,
        terminal,
    };
    if !(wanted.stdin || wanted.stdout || wanted.stderr) {
        let message = "you must specify at least 1 of stdin, stdout, stderr";
        return Err(ApiError::BadRequest(message.to_owned()).into());
    }
    let options = ExecOptions {
        stdin: wanted.stdin,
        tty: terminal,
    };
    let streams = match start(options) {
        // The server speaks version 5 itself, and has upgraded the connection before it asks.
        Err(KubeletError::Failed(text)) if handshake.protocol.status == StatusForm::V5 => {
            let message = format!("unable to upgrade connection: {text}");
            ContainerStreams {
                output: futures::stream::empty().boxed(),
                input: None,
                ended: std::future::ready(Err(message)).boxed(),
            }
        }
        streams => streams?,
    };
    let upgrade = take_upgrade(request)?;
    let session = Session {
        streams,
        wanted,
        protocol: handshake.protocol,
        command,
    };
    Ok(match handshake.carrier {
        Carrier::Channels => handshake.accept(upgrade, |io| session.over_channels(io)),
        Carrier::Multiplexed | Carrier::Tunnel => handshake.accept(upgrade, |io| {
            let (reader, writer) = multiplexed::plain(io);
            session.over_streams(reader, writer)
        }),
    })
}

/// The connections of a client to ports of a pod.
fn forward_ports(
    request: &Request<'_>,
    query: &Query,
    pod: &Value,
    kubelet: &dyn Kubelet,
) -> Upgraded {
    let headers = &request.headers;
    // Over SPDY each stream says which port it is for.
    let in_channels =
        upgrade::is_websocket(headers) && !upgrade::is_tunnel(headers, upgrade::PORT_FORWARD);
    let ports = match in_channels {
        true => channel_ports(query)?,
        false => Vec::new(),
    };
    let metadata = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    let pod = kubelet.port_forward(PodReference {
        namespace: metadata("namespace"),
        name: metadata("name"),
        uid: metadata("uid"),
        node: node_of(pod),
    })?;
    let handshake = handshake(request, upgrade::PORT_FORWARD)?;
    let upgrade = take_upgrade(request)?;
    let coding = handshake.protocol.coding();
    Ok(match handshake.carrier {
        Carrier::Channels => handshake.accept(upgrade, move |io| {
            port_forward::over_channels(io, coding, pod, ports)
        }),
        Carrier::Multiplexed => handshake.accept(upgrade, |io| {
            let (reader, writer) = multiplexed::plain(io);
            port_forward::over_streams(reader, writer, pod)
        }),
        Carrier::Tunnel => handshake.accept(upgrade, |io| async {
            let (reader, writer) = multiplexed::tunnel(io).await;
            port_forward::over_streams(reader, writer, pod).await;
        }),
    })
}

/// The ports that channels are for. Mirrors `portforward.NewV4Options`.
fn channel_ports(query: &Query) -> Result<Vec<u16>, Refused> {
    let ports = ports(query)?;
    let refusal = match ports.as_slice() {
        [] => "query parameter \"port\" is required",
        ports if ports.contains(&0) => "port \"0\" must be > 0",
        ports if ports.len() > port_forward::CHANNEL_PORTS_MAX => "too many ports",
        _ => return Ok(ports),
    };
    Err(Refused::ByKubelet(400, refusal.to_owned()))
}

/// Checks that the requester may create the connection, which a WebSocket opens by GET.
/// Mirrors the gate `AuthorizePodWebsocketUpgradeCreatePermission`.
async fn check_creation(request: &Request<'_>) -> Result<(), ApiError> {
    if request.info.verb == Some(Verb::Create) {
        return Ok(());
    }
    let attributes = Attributes::of(&request.info).with_verb("create".to_owned());
    let decide = || authorize(request.state, &request.user, &attributes);
    let decision = resolved(request.state, decide).await;
    match decision.is_allowed() {
        true => Ok(()),
        false => Err(ApiError::Forbidden {
            resource: request.resource.gvr().group_resource(),
            name: request.name().to_owned(),
            message: decision.reason().to_owned(),
            causes: Vec::new(),
        }),
    }
}

/// The log of a container, which is empty until a node has the pod.
pub(super) fn log(request: &Request<'_>) -> Answer {
    let options = log_options(request)?;
    let pod = pod(request)?;
    let container = container(request, &request.query, &pod)?;
    let node = match node_of(&pod) {
        "" => return Ok(response::empty(204)),
        node => node,
    };
    let kubelet = request.state.kubelet.lock().clone();
    let log = match &kubelet {
        Some(kubelet) => kubelet.logs(reference(&pod, &container), options),
        None => Err(KubeletError::Unreachable),
    };
    let log = log.map_err(|error| match error {
        KubeletError::Unreachable => unreachable(request, node),
        KubeletError::BadRequest(text) => ApiError::BadRequest(text),
        KubeletError::Failed(text) => ApiError::Internal(text),
    })?;
    let mut response = Response::new(ResponseBody::stream(log.map(Ok)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

fn reference<'a>(pod: &'a Value, container: &'a str) -> ContainerReference<'a> {
    let metadata = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    ContainerReference {
        pod: metadata("name"),
        uid: metadata("uid"),
        node: node_of(pod),
        container,
    }
}

fn log_options(request: &Request<'_>) -> Result<LogOptions, ApiError> {
    let query = &request.query;
    let since_time = query.get("sinceTime").filter(|text| !text.is_empty());
    let since_time = since_time.map(|text| schema::instant(text).map_err(ApiError::BadRequest));
    let since_time = since_time.transpose()?;
    check_log_options(request)?;
    let unsigned = |field: &str| -> Result<Option<u64>, ApiError> {
        let value = query.integer(field)?;
        Ok(value.and_then(|value| u64::try_from(value).ok()))
    };
    Ok(LogOptions {
        follow: query.flag("follow"),
        previous: query.flag("previous"),
        timestamps: query.flag("timestamps"),
        tail_lines: unsigned("tailLines")?,
        limit_bytes: unsigned("limitBytes")?,
        since_seconds: query.integer("sinceSeconds")?,
        since_time,
    })
}

/// The requested part of a log.
fn check_log_options(request: &Request<'_>) -> Result<(), ApiError> {
    let mut errors = FieldErrors::new();
    let mut at_least = |field: &str, least: i64, detail: &str| -> Result<(), ApiError> {
        let value = request.query.integer(field)?;
        if let Some(value) = value.filter(|value| *value < least) {
            errors.invalid(&FieldPath::new(field), &value.into(), detail);
        }
        Ok(())
    };
    at_least("tailLines", 0, "must be greater than or equal to 0")?;
    at_least("limitBytes", 1, "must be greater than 0")?;
    if request.query.get("sinceTime").is_none() {
        at_least("sinceSeconds", 1, "must be greater than 0")?;
    } else if request.query.integer("sinceSeconds")?.is_some() {
        let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        // A path of one empty name is written as the index of an element.
        errors.forbidden(&FieldPath::new("[]"), detail);
    }
    // Streams cannot be selected while PodLogsQuerySplitStreams is off.
    if request.query.get("stream").is_some() {
        errors.forbidden(&FieldPath::new("stream"), "may not be specified");
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::Invalid {
        kind: GroupKind {
            group: String::new(),
            kind: "PodLogOptions".to_owned(),
        },
        name: request.name().to_owned(),
        errors,
    })
}

fn pod(request: &Request<'_>) -> Result<Value, ApiError> {
    let pod = request
        .store(false)
        .get(request.namespace(), request.name())?;
    Ok((*pod.value()).clone())
}

fn node_of(pod: &Value) -> &str {
    pod["spec"]["nodeName"].as_str().unwrap_or_default()
}

/// The requested container, which must be one of the pod's; a pod's only container needs no name.
fn container(request: &Request<'_>, query: &Query, pod: &Value) -> Result<String, ApiError> {
    if request.info.subresource.as_deref() == Some("portforward") {
        return Ok(String::new());
    }
    let names = |list: &str| -> Vec<&str> {
        let containers = pod["spec"][list].as_array();
        let containers = containers.into_iter().flatten();
        containers.filter_map(|own| own["name"].as_str()).collect()
    };
    let (containers, init) = (names("containers"), names("initContainers"));
    let wanted = query.get("container").unwrap_or_default();
    let pod = request.name();
    if wanted.is_empty() {
        if let [lone] = containers.as_slice() {
            return Ok((*lone).to_owned());
        }
        let all = [init, containers, names("ephemeralContainers")].concat();
        return Err(ApiError::BadRequest(format!(
            "a container name must be specified for pod {pod}, choose one of: [{}]",
            all.join(" ")
        )));
    }
    let known = [containers, init, names("ephemeralContainers")].concat();
    if known.contains(&wanted) {
        return Ok(wanted.to_owned());
    }
    Err(ApiError::BadRequest(format!(
        "container {wanted} is not valid for pod {pod}"
    )))
}

/// The error for a `node` whose kubelet cannot be reached.
fn unreachable(request: &Request<'_>, node: &str) -> ApiError {
    match check_node(request, node) {
        Err(error) => error,
        Ok(()) => ApiError::Unknown(NO_ADDRESS.to_owned()),
    }
}

/// Checks that there is an object for `node`.
///
/// # Errors
/// `NotFound`, which names the resource of the request, as upstream's store takes it from there.
fn check_node(request: &Request<'_>, node: &str) -> Result<(), ApiError> {
    let nodes = request
        .state
        .catalog
        .resource("", "v1", "nodes")
        .expect("nodes are built in");
    let store = Store {
        resource: nodes,
        strategy: nodes.strategy(),
        ..request.store(false)
    };
    match store.get(None, node) {
        Err(ApiError::NotFound { name, .. }) => Err(ApiError::NotFound {
            resource: request.resource.gvr().group_resource(),
            name,
        }),
        Err(error) => Err(error),
        Ok(_) => Ok(()),
    }
}
