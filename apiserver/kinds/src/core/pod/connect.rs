//! The options of connections to a pod, as queries state them.
//!
//! Source: `Convert_url_Values_To_v1_PodExecOptions` and similar conversions.

use crate::json::{Map, json};
use crate::request::options::Query;
use crate::status::{ApiError, quoted};

/// The options that are switches, in the order of their kinds.
const SWITCHES: [&str; 4] = ["stdin", "stdout", "stderr", "tty"];

/// Returns the fields of PodExecOptions.
#[expect(
    clippy::unnecessary_wraps,
    reason = "one of the functions of `Connecter::options`"
)]
pub(super) fn exec_options(query: &Query) -> Result<Map, ApiError> {
    let mut options = container_options(query);
    let command: Vec<&str> = query.all("command").collect();
    if !command.is_empty() {
        options.insert("command", json!(command));
    }
    Ok(options)
}

/// Returns the fields of PodAttachOptions.
#[expect(
    clippy::unnecessary_wraps,
    reason = "one of the functions of `Connecter::options`"
)]
pub(super) fn attach_options(query: &Query) -> Result<Map, ApiError> {
    Ok(container_options(query))
}

/// Returns the fields of PodPortForwardOptions.
///
/// # Errors
/// `BadRequest` for a text that is not a port.
pub(super) fn port_forward_options(query: &Query) -> Result<Map, ApiError> {
    let ports = ports(query)?;
    let mut options = Map::new();
    if !ports.is_empty() {
        options.insert("ports", json!(ports));
    }
    Ok(options)
}

fn container_options(query: &Query) -> Map {
    let mut options = Map::new();
    for switch in SWITCHES.into_iter().filter(|switch| query.flag(switch)) {
        options.insert(switch.to_owned(), true.into());
    }
    let container = query.get("container").unwrap_or_default();
    if !container.is_empty() {
        options.insert("container", container.into());
    }
    options
}

/// The ports to be forwarded. Mirrors `Convert_Slice_string_To_Slice_int32`.
///
/// # Errors
/// `BadRequest` for a text that is not a port.
pub fn ports(query: &Query) -> Result<Vec<u16>, ApiError> {
    let ports = query.all("ports").flat_map(|ports| ports.split(','));
    let parsed = ports.map(|port| {
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        port.parse().ok().filter(|_| is_number).ok_or_else(|| {
            let why = match is_number {
                true => "value out of range",
                false => "invalid syntax",
            };
            ApiError::BadRequest(format!(
                "cannot convert to []int32: strconv.ParseUint: parsing {}: {why}",
                quoted(port)
            ))
        })
    });
    parsed.collect()
}
