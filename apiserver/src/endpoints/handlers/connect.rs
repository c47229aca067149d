//! Admission of connections to pods, services and nodes.

use serde_json::{Map, Value, json};

use super::Request;
use crate::meta::GroupVersionKind;
use crate::request::options::Query;
use crate::status::ApiError;

/// The options that are switches, and those that are texts, in the order of their kinds.
const SWITCHES: [&str; 4] = ["stdin", "stdout", "stderr", "tty"];

/// Calls the admission webhooks for a connection; returns its options as they left them.
///
/// # Errors
/// Options that can't be read, the refusal of a webhook, and a failed call with the policy Fail.
pub(super) async fn admitted(request: &Request<'_>) -> Result<Query, ApiError> {
    let subresource = request.info.subresource.as_deref().unwrap_or_default();
    let kind = GroupVersionKind {
        group: String::new(),
        version: "v1".to_owned(),
        kind: kind(request, subresource).to_owned(),
    };
    let sent = options(request, subresource, &kind)?;
    let mut options = sent.clone();
    let store = request.store(false);
    store.admit_connection(&kind, &mut options).await?;
    match options == sent {
        true => Ok(request.query.clone()),
        false => Ok(Query::of(&options)),
    }
}

/// The kind of the options.
fn kind(request: &Request<'_>, subresource: &str) -> &'static str {
    match (request.resource.gvr().resource.as_str(), subresource) {
        (_, "exec") => "PodExecOptions",
        (_, "attach") => "PodAttachOptions",
        (_, "portforward") => "PodPortForwardOptions",
        ("nodes", _) => "NodeProxyOptions",
        ("services", _) => "ServiceProxyOptions",
        _ => "PodProxyOptions",
    }
}

/// The ports to be forwarded. Mirrors `Convert_Slice_string_To_Slice_int32`.
///
/// # Errors
/// `BadRequest` for a text that is not a port.
pub(super) fn ports(query: &Query) -> Result<Vec<u16>, ApiError> {
    let ports = query.all("ports").flat_map(|ports| ports.split(','));
    let parsed = ports.map(|port| {
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        port.parse().ok().filter(|_| is_number).ok_or_else(|| {
            let why = match is_number {
                true => "value out of range",
                false => "invalid syntax",
            };
            ApiError::BadRequest(format!(
                "cannot convert to []int32: strconv.ParseUint: parsing {port:?}: {why}"
            ))
        })
    });
    parsed.collect()
}

fn options(
    request: &Request<'_>,
    subresource: &str,
    kind: &GroupVersionKind,
) -> Result<Value, ApiError> {
    let query = &request.query;
    let mut options = Map::new();
    let mut set = |field: &str, value: Value| options.insert(field.to_owned(), value);
    set("kind", kind.kind.as_str().into());
    set("apiVersion", kind.api_version().into());
    match subresource {
        "exec" | "attach" => {
            for switch in SWITCHES.into_iter().filter(|switch| query.flag(switch)) {
                set(switch, true.into());
            }
            let container = query.get("container").unwrap_or_default();
            if !container.is_empty() {
                set("container", container.into());
            }
            let command: Vec<&str> = query.all("command").collect();
            if subresource == "exec" && !command.is_empty() {
                set("command", json!(command));
            }
        }
        "portforward" => {
            let ports = ports(query)?;
            if !ports.is_empty() {
                set("ports", json!(ports));
            }
        }
        _ => {
            let path = request.info.rest.join("/");
            if !path.is_empty() {
                set("path", format!("/{path}").into());
            }
        }
    }
    Ok(Value::Object(options))
}
