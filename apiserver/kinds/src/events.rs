//! The newer form of events; `core::event` has the rules of both.

use super::ApiGroup;
use super::core::event::Event;

/// The strategies of `events.k8s.io`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "events.k8s.io",
    strategies: &[("events", &Event { strict: true })],
};
