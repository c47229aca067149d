//! Controls for tests beyond the Kubernetes API: compact past events, interfere with watches,
//! inject faults, set the clock.
//!
//! The controls over HTTP, for tests in any language; the answer is a `Status`:
//!
//! ```text
//! GET    /kubeproof/v1                     this list
//! GET    /kubeproof/v1/snapshot            everything stored, as `ApiServerBuilder::holding` takes it
//! POST   /kubeproof/v1/import              take in the objects in the body, all or none
//! POST   /kubeproof/v1/compact             forget past events: older versions are 410 Expired
//! POST   /kubeproof/v1/watches/bookmark    send a bookmark to every watch that allows bookmarks
//! POST   /kubeproof/v1/watches/close       end watches as if their time were up
//! POST   /kubeproof/v1/watches/drop        break the connections of watches off
//! POST   /kubeproof/v1/watches/expire      end watches with 410 Expired
//! POST   /kubeproof/v1/restart             what clients see of a restart
//! POST   /kubeproof/v1/clock?jump=10m      set the clock forward, or back by a negative time
//! POST   /kubeproof/v1/clock?advance=10h   let virtual time pass, and wait for all that happens in it
//! POST   /kubeproof/v1/faults              inject the fault in the body, as JSON
//! GET    /kubeproof/v1/faults              the faults injected, with how many requests each has met
//! DELETE /kubeproof/v1/faults/NAME         lift the faults of that name
//! POST   /kubeproof/v1/metrics             put the metric value in the body, as JSON, or take it away
//! GET    /kubeproof/v1/metrics             the values that were put
//! ```
//!
//! `?resource=configmaps` or `?resource=statefulsets.apps` narrows `compact` and `watches/…` to one resource.
//! `?replace=true` lets `import` replace objects of the same name, `?fieldValidation=Strict` refuse unknown fields.
//! A client needs the permission for the verb on the path, as for any path that names no resource.

mod clock;
mod metrics;

use http::Method;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

use super::ApiServer;
use crate::endpoints::body::REQUEST_BYTES_MAX;
use crate::fault::{Effect, Fault, Hit, Point, Takes};
use crate::json::{Value, json};
use crate::meta::GroupResource;
use crate::metric_values::MetricValue;
use crate::request::options::pairs;
use crate::status::{ApiError, Status};
use crate::storage::WatchControl;

const ROOT: &str = "/kubeproof/v1";

/// The limit of the objects of an import, which are many: 512 MiB.
const IMPORT_BYTES_MAX: usize = 512 * 1024 * 1024;

/// The endpoints as `GET /kubeproof/v1` lists them: path below it, methods, parameters, what it does.
const ENDPOINTS: [(&str, &[&str], &[&str], &str); 12] = [
    (
        "/snapshot",
        &["GET"],
        &[],
        "Everything stored, a JSON object a line, for `kubeproof serve --from-log`.",
    ),
    (
        "/import",
        &["POST"],
        &["replace", "fieldValidation"],
        "Take in the objects in the body, a List in JSON: all or none, and as they were if they have uids and versions.",
    ),
    (
        "/compact",
        &["POST"],
        &["resource"],
        "Forget past events: older versions are 410 Expired.",
    ),
    (
        "/watches/bookmark",
        &["POST"],
        &["resource"],
        "Send a bookmark to every watch that allows bookmarks.",
    ),
    (
        "/watches/close",
        &["POST"],
        &["resource"],
        "End watches as if their time were up.",
    ),
    (
        "/watches/drop",
        &["POST"],
        &["resource"],
        "Break the connections of watches.",
    ),
    (
        "/watches/expire",
        &["POST"],
        &["resource"],
        "End watches with 410 Expired, so that clients list again.",
    ),
    (
        "/restart",
        &["POST"],
        &[],
        "What clients see of a restart: watches break, past events are forgotten.",
    ),
    (
        "/clock",
        &["POST"],
        &["jump", "advance"],
        "Set the clock forward by a duration such as 10m, or back by a negative one; or let virtual time pass.",
    ),
    (
        "/faults",
        &["GET", "POST"],
        &[],
        "List the faults injected, with how many requests each has met; inject the fault in the body.",
    ),
    (
        "/faults/NAME",
        &["DELETE"],
        &[],
        "Lift the faults of that name.",
    ),
    (
        "/metrics",
        &["GET", "POST"],
        &[],
        "List the values of custom and external metrics; put the one in the body, or take it away if it has no value.",
    ),
];

/// A control request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Control<'a> {
    List,
    Compact,
    Watches(WatchControl),
    Restart,
    Clock,
    Faults,
    Fault(&'a str),
    Metrics,
}

impl<'a> Control<'a> {
    fn parse(name: &'a str) -> Option<Self> {
        Some(match name {
            "" => Self::List,
            "compact" => Self::Compact,
            "watches/bookmark" => Self::Watches(WatchControl::Bookmark),
            "watches/close" => Self::Watches(WatchControl::Close),
            "watches/drop" => Self::Watches(WatchControl::Drop),
            "watches/expire" => Self::Watches(WatchControl::Expire),
            "restart" => Self::Restart,
            "clock" => Self::Clock,
            "faults" => Self::Faults,
            "metrics" => Self::Metrics,
            _ => Self::Fault(name.strip_prefix("faults/")?),
        })
    }

    fn takes(self, method: &Method) -> bool {
        match self {
            Self::List => *method == Method::GET,
            Self::Faults | Self::Metrics => matches!(*method, Method::GET | Method::POST),
            Self::Fault(_) => *method == Method::DELETE,
            _ => *method == Method::POST,
        }
    }
}

impl ApiServer {
    /// Forgets all past events, as etcd's compaction does: watches, lists and continue tokens from
    /// earlier versions are answered with 410 Expired.
    ///
    /// A watch that has already seen all events goes on.
    pub fn compact(&self) {
        self.core.storage.compact(None);
    }

    /// Forgets the past events of one resource, such as `configmaps` or `statefulsets.apps`.
    pub fn compact_resource(&self, resource: &GroupResource) {
        self.core.storage.compact(Some(resource));
    }

    /// Injects `fault`, which is in force from now on.
    ///
    /// An unreachable server breaks off all open watches at once; clients that the fault is not
    /// about can watch again.
    pub fn inject(&self, fault: Fault) {
        let is_unreachable = fault.effect == Effect::Unreachable;
        self.core.faults.inject(fault);
        if is_unreachable {
            self.control_watches(WatchControl::Drop, None);
        }
    }

    /// Plans `fault`: it meets requests on the way to the server, before the injected faults. A
    /// request that it lets through goes on to the injected faults, which do not count the others.
    /// A planned fault also counts requests that other faults meet, as points do.
    pub fn plan(&self, fault: Fault) {
        self.core.faults.plan(fault);
    }

    /// Lets `takes` decide about each of `plans`, at the request or event that its first fault
    /// would meet, whether the plan is in force from there on. Other plans have no effect. The
    /// faults act as if added by [`Self::plan`]; they affect requests or events, not views.
    pub fn branch(&self, plans: Vec<Vec<Fault>>, takes: Takes) {
        self.core.faults.branch(plans, takes);
    }

    /// Ends the faults called `name`; false when no such fault is in force.
    pub fn lift(&self, name: &str) -> bool {
        self.core.faults.lift(name)
    }

    /// Every fault ever injected, with the number of requests it has met.
    #[must_use]
    pub fn faults_met(&self) -> Vec<(Fault, u32)> {
        self.core.faults.met()
    }

    /// The requests and events that faults have met, in order; the first ten thousand.
    #[must_use]
    pub fn fault_hits(&self) -> Vec<Hit> {
        self.core.faults.hits()
    }

    /// The last time up to which faults withhold events or the present state from clients; `None` if no fault does, or
    /// until it is lifted.
    #[must_use]
    pub fn withheld_until(&self) -> Option<Timestamp> {
        self.core.faults.withheld_until()
    }

    /// Records, from now on, every request and every delivered event as a point that a fault could
    /// affect; forgets the points recorded before.
    pub fn record_points(&self) {
        self.core.faults.record_points();
    }

    /// The points recorded since [`Self::record_points`], in order.
    #[must_use]
    pub fn points(&self) -> Vec<Point> {
        self.core.faults.points()
    }

    /// The number of clients that have died of an [`Effect::Crash`]: their owner is to restart
    /// them. Their requests are never answered.
    #[must_use]
    pub fn crashes(&self) -> watch::Receiver<u64> {
        self.core.faults.crashes()
    }

    /// Imitates a restart of the server: watches break off, and past events are forgotten. Objects
    /// stay.
    pub fn restart(&self) {
        self.core.storage.compact(None);
        self.control_watches(WatchControl::Drop, None);
    }

    /// Sets the clock forward by `time`, or back if that is negative; timers run on as they did.
    pub fn jump(&self, time: SignedDuration) {
        self.core.clock.jump(time);
    }

    /// Applies `control` to every open watch, or only to watches of `resource`.
    ///
    /// A watch reacts after the delivery of its pending events (for all but
    /// [`WatchControl::Bookmark`]: at the next line), which is when its client reads. A dropped watch
    /// over HTTP/1.1 also ends its connection; a dropped watch over HTTP/2 resets only its own
    /// stream.
    pub fn control_watches(&self, control: WatchControl, resource: Option<&GroupResource>) {
        self.core.storage.control_watches(control, resource);
    }
}

/// The limit of a request's body; `None` if the request is not for this module.
pub(super) fn body_bytes_max(path: &str) -> Option<usize> {
    match name(path)? {
        "import" => Some(IMPORT_BYTES_MAX),
        _ => Some(REQUEST_BYTES_MAX),
    }
}

/// Whether a request is for [`ApiServer::state`].
pub(super) fn is_snapshot(path: &str) -> bool {
    name(path) == Some("snapshot")
}

/// Whether a request is for [`ApiServer::import`].
pub(super) fn is_import(path: &str) -> bool {
    name(path) == Some("import")
}

/// Whether a request is for [`ApiServer::advance`].
pub(super) fn is_advance(path: &str, query: &str) -> bool {
    name(path) == Some("clock") && pairs(query).any(|(key, _)| key == "advance")
}

/// What follows `/kubeproof/v1/`; empty for the list of all.
fn name(path: &str) -> Option<&str> {
    let rest = path.strip_prefix(ROOT)?;
    match rest {
        "" => Some(rest),
        rest => rest.strip_prefix('/'),
    }
}

/// Answers a request below `/kubeproof/v1/`; `None` for any other path.
pub(super) fn answer(
    server: &ApiServer,
    method: &Method,
    path: &str,
    query: &[(String, String)],
    body: &[u8],
) -> Option<Result<Value, ApiError>> {
    Some(act(server, method, name(path)?, query, body))
}

fn act(
    server: &ApiServer,
    method: &Method,
    name: &str,
    query: &[(String, String)],
    body: &[u8],
) -> Result<Value, ApiError> {
    let control = Control::parse(name).ok_or(ApiError::NoSuchPath)?;
    if !control.takes(method) {
        return Err(ApiError::MethodNotAllowed);
    }
    let option = |wanted: &str| {
        let found = query.iter().find(|(key, _)| key == wanted);
        found.map(|(_, value)| value.as_str())
    };
    let resource = option("resource").map(|resource| parse_resource(server, resource));
    let resource = resource.transpose()?;
    match (control, &resource) {
        (Control::List, _) => return Ok(list()),
        (Control::Compact, None) => server.compact(),
        (Control::Compact, Some(resource)) => server.compact_resource(resource),
        (Control::Watches(control), resource) => {
            server.control_watches(control, resource.as_ref());
        }
        (Control::Restart, _) => server.restart(),
        (Control::Clock, _) => server.jump(clock::jump(option("jump"))?),
        (Control::Faults, _) if *method == Method::GET => return Ok(faults_met(server)),
        (Control::Faults, _) => {
            let fault: Fault = serde_json::from_slice(body).map_err(|error| {
                ApiError::BadRequest(format!("the fault cannot be read: {error}"))
            })?;
            let checked = server.check_fault(&fault);
            checked.map_err(|error| ApiError::BadRequest(error.to_string()))?;
            server.inject(fault);
        }
        (Control::Metrics, _) if *method == Method::GET => return Ok(metric_values(server)),
        (Control::Metrics, _) => {
            let value: MetricValue = serde_json::from_slice(body).map_err(|error| {
                ApiError::BadRequest(format!("the metric value cannot be read: {error}"))
            })?;
            let put = server.put_metric(&value);
            put.map_err(|error| ApiError::BadRequest(error.to_string()))?;
        }
        (Control::Fault(name), _) => {
            if !server.lift(name) {
                return Err(ApiError::BadRequest(format!(
                    "no active fault is named {name:?}"
                )));
            }
        }
    }
    Ok(Status::success().to_value())
}

fn list() -> Value {
    let items = ENDPOINTS.map(|(path, methods, parameters, description)| {
        json!({
            "path": format!("{ROOT}{path}"),
            "methods": methods,
            "parameters": parameters,
            "description": description,
        })
    });
    json!({ "kind": "EndpointList", "apiVersion": "kubeproof.dev/v1", "items": items })
}

fn faults_met(server: &ApiServer) -> Value {
    let met = server.faults_met();
    let items = met
        .iter()
        .map(|(fault, met)| json!({ "name": fault.name, "met": met }));
    json!({ "kind": "FaultList", "apiVersion": "kubeproof.dev/v1", "items": items.collect::<Vec<_>>() })
}

fn metric_values(server: &ApiServer) -> Value {
    let items = server.metric_values();
    json!({ "kind": "MetricValueList", "apiVersion": "kubeproof.dev/v1", "items": items })
}

/// Reads `plural` or `plural.group`.
fn parse_resource(server: &ApiServer, text: &str) -> Result<GroupResource, ApiError> {
    let (resource, group) = text.split_once('.').unwrap_or((text, ""));
    let asked = GroupResource {
        group: group.to_owned(),
        resource: resource.to_owned(),
    };
    match server.resource_names().contains(text) {
        true => Ok(asked),
        false => Err(ApiError::BadRequest(server.no_resource(text).to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_is_listed_with_the_methods_that_it_takes() {
        let all = [Method::GET, Method::POST, Method::PUT, Method::DELETE];
        for (path, methods, ..) in ENDPOINTS {
            let listed: Vec<&Method> = all
                .iter()
                .filter(|method| methods.contains(&method.as_str()))
                .collect();
            let full = format!("{ROOT}{path}");
            let taken: Vec<&Method> = match (is_snapshot(&full), is_import(&full)) {
                (true, _) => vec![&Method::GET],
                (_, true) => vec![&Method::POST],
                (false, false) => {
                    let control = Control::parse(&path[1..]).expect("it is there");
                    all.iter().filter(|method| control.takes(method)).collect()
                }
            };
            assert_eq!(listed, taken, "{path}");
        }
    }
}
