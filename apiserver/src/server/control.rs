//! What a test can do to the server that no client of a real one could: make it forget past events,
//! and interfere with watches.
//!
//! The same from any language, as a `POST` without a body, answered by a `Status`:
//!
//! ```text
//! /kubeproof/v1/compact             forget past events: older versions are 410 Expired
//! /kubeproof/v1/watches/bookmark    send a bookmark to every watch that allows bookmarks
//! /kubeproof/v1/watches/close       end watches as if their time were up
//! /kubeproof/v1/watches/drop        break the connections of watches off
//! ```
//!
//! `?resource=configmaps` or `?resource=statefulsets.apps` narrows each to one resource. They are
//! allowed to whom `post` on the path is allowed, as any path that names no resource.

use http::Method;
use serde_json::{Value, json};

use super::ApiServer;
use crate::fault::{Effect, Fault};
use crate::meta::GroupResource;
use crate::status::ApiError;
use crate::storage::WatchControl;

const PREFIX: &str = "/kubeproof/v1/";

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Control {
    Compact,
    Watches(WatchControl),
}

impl Control {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "compact" => Self::Compact,
            "watches/bookmark" => Self::Watches(WatchControl::Bookmark),
            "watches/close" => Self::Watches(WatchControl::Close),
            "watches/drop" => Self::Watches(WatchControl::Drop),
            _ => return None,
        })
    }
}

impl ApiServer {
    /// Forgets all past events, as etcd's compaction does: watches, lists and continue tokens from
    /// before now are answered 410 Expired.
    ///
    /// A watch that has already seen everything goes on.
    pub fn compact(&self) {
        self.core.storage.compact(None);
    }

    /// The same for one resource, such as `configmaps` or `statefulsets.apps`.
    pub fn compact_resource(&self, resource: &GroupResource) {
        self.core.storage.compact(Some(resource));
    }

    /// Lets `fault` go wrong from now on.
    ///
    /// A server that cannot be reached breaks off all open watches at once; whom the fault is not
    /// about can watch again.
    pub fn inject(&self, fault: Fault) {
        let is_unreachable = fault.effect == Effect::Unreachable;
        self.core.faults.inject(fault);
        if is_unreachable {
            self.control_watches(WatchControl::Drop, None);
        }
    }

    /// Ends the faults of that name; false when there is none in force.
    pub fn lift(&self, name: &str) -> bool {
        self.core.faults.lift(name)
    }

    /// Every fault ever injected, with how many requests it has met.
    #[must_use]
    pub fn faults_met(&self) -> Vec<(Fault, u32)> {
        self.core.faults.met()
    }

    /// Asks every open watch for `control`, or those of `resource` only.
    ///
    /// A watch acts on it once what it has to deliver is delivered (for [`WatchControl::Drop`] and
    /// [`WatchControl::Close`]: at the next line), which is when its client reads. A dropped watch
    /// of HTTP/1.1 takes its connection along; one of HTTP/2 resets its own stream only.
    pub fn control_watches(&self, control: WatchControl, resource: Option<&GroupResource>) {
        self.core.storage.control_watches(control, resource);
    }
}

/// Answers a request below `/kubeproof/v1/`; `None` for any other path.
pub(super) fn answer(
    server: &ApiServer,
    method: &Method,
    path: &str,
    query: &[(String, String)],
) -> Option<Result<Value, ApiError>> {
    let name = path.strip_prefix(PREFIX)?;
    Some(act(server, method, name, query).map(
        |()| json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" }),
    ))
}

fn act(
    server: &ApiServer,
    method: &Method,
    name: &str,
    query: &[(String, String)],
) -> Result<(), ApiError> {
    let control = Control::parse(name).ok_or(ApiError::NoSuchPath)?;
    if *method != Method::POST {
        return Err(ApiError::MethodNotAllowed);
    }
    let resource = query
        .iter()
        .find(|(key, _)| key == "resource")
        .map(|(_, resource)| parse_resource(server, resource))
        .transpose()?;
    match (control, &resource) {
        (Control::Compact, None) => server.compact(),
        (Control::Compact, Some(resource)) => server.compact_resource(resource),
        (Control::Watches(control), resource) => {
            server.control_watches(control, resource.as_ref());
        }
    }
    Ok(())
}

/// Reads `plural` or `plural.group`.
fn parse_resource(server: &ApiServer, text: &str) -> Result<GroupResource, ApiError> {
    let (resource, group) = text.split_once('.').unwrap_or((text, ""));
    let asked = GroupResource {
        group: group.to_owned(),
        resource: resource.to_owned(),
    };
    let catalog = server.core.definitions.catalog();
    let group = catalog.group(group);
    let mut versions = group.iter().flat_map(|group| &group.versions);
    if versions.any(|version| {
        let mut served = version.resources.iter();
        served.any(|served| served.gvr().resource == resource)
    }) {
        return Ok(asked);
    }
    Err(ApiError::BadRequest(format!(
        "the server serves no resource {text:?}"
    )))
}
