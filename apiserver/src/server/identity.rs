//! The user of a request, after authentication and impersonation.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use jiff::Timestamp;

use super::ApiServer;
use crate::audit::Record;
use crate::auth::{self, Attributes, Peer, User};
use crate::clock::nanos_between;
use crate::metrics::access::Authenticated;
use crate::request::RequestInfo;
use crate::status::ApiError;

impl ApiServer {
    /// Authenticates the user of a request that arrived from `peer` at `received`, and returns the
    /// time after it.
    pub(super) async fn authenticated(
        &self,
        parts: &Parts,
        peer: Option<&Peer>,
        received: Timestamp,
    ) -> Result<(Arc<User>, Timestamp), ApiError> {
        let access = self.core.metrics.access();
        let user = auth::authenticate(&self.core, parts, peer).await;
        let outcome = match &user {
            Ok(_) => Authenticated::Success,
            Err(_) if parts.headers.contains_key(AUTHORIZATION) => Authenticated::Error,
            Err(_) => Authenticated::Failure,
        };
        let now = self.core.clock.now();
        access.authenticated(outcome, nanos_between(received, now));
        let user = user?;
        access.knows(&user.name);
        Ok((user, now))
    }

    /// The headers of an authenticated request, without those that identify its sender.
    pub(super) fn without_credentials(&self, mut headers: HeaderMap) -> HeaderMap {
        headers.remove(AUTHORIZATION);
        auth::clear_proxy_headers(&mut headers, self.core.authenticators.proxies.as_deref());
        headers
    }

    /// The user that `user` acts as, the attributes to authorize, and the time after any impersonation.
    pub(super) async fn identify<'a>(
        &self,
        (user, authenticated): (Arc<User>, Timestamp),
        parts: &'a Parts,
        info: Option<&'a RequestInfo>,
        record: Option<&Record>,
    ) -> Result<(Arc<User>, Attributes<'a>, Timestamp), ApiError> {
        let attributes = info.map_or_else(
            || Attributes::Path {
                verb: parts.method.as_str().to_lowercase().into(),
                path: parts.uri.path().into(),
            },
            Attributes::of,
        );
        let impersonated = auth::impersonate(&self.core, user, &parts.headers, &attributes);
        let (user, mode) = impersonated.await?;
        if let (Some(mode), Some(record)) = (mode, record) {
            let constraint = mode.is_constrained().then(|| mode.verb());
            record.impersonate(user.to_audited(), constraint.unwrap_or_default());
        }
        let now = match mode {
            Some(_) => self.core.clock.now(),
            None => authenticated,
        };
        Ok((user, attributes, now))
    }
}
