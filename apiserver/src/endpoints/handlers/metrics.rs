//! GET of the metrics APIs, whose objects are made from what nodes would measure and from values that were put.

mod resource;
mod values;

use super::{Answer, Request};
use crate::registry::rest::ReadRest;

/// Answers a request for metrics.
pub(super) fn answer(request: &Request<'_>, rest: ReadRest) -> Answer {
    match rest {
        ReadRest::NodeMetrics => resource::nodes(request),
        ReadRest::PodMetrics => resource::pods(request),
        ReadRest::CustomMetrics => values::custom(request),
        ReadRest::ExternalMetrics => values::external(request),
        ReadRest::Store => unreachable!("stored objects are read by the store's verbs"),
    }
}
