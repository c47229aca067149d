//! A line in the log for each request on a socket, as upstream's `httplog` has it.

use http::header::USER_AGENT;
use http::{Request, Uri};
use tokio::time::Instant;

use crate::request::RequestInfo;
use crate::server::header;

/// The target of these lines, which are of the level `INFO`.
pub const REQUEST_LOG: &str = "kubeproof_apiserver::requests";

/// A request that is being answered; logged when it is dropped, after the last byte of a watch too.
#[derive(Debug)]
pub(super) struct Logged {
    began: Instant,
    verb: String,
    uri: Uri,
    user_agent: String,
    code: Option<u16>,
}

impl Logged {
    /// Notes a request if requests are logged.
    pub(super) fn begin<B>(request: &Request<B>) -> Option<Self> {
        if !tracing::enabled!(target: REQUEST_LOG, tracing::Level::INFO) {
            return None;
        }
        let (method, uri) = (request.method(), request.uri());
        let info = RequestInfo::parse(method, uri.path(), uri.query().unwrap_or_default());
        let verb = info.and_then(|info| Some(info.verb?.as_str().to_uppercase()));
        Some(Self {
            began: Instant::now(),
            verb: verb.unwrap_or_else(|| method.to_string()),
            uri: uri.clone(),
            user_agent: header(request.headers(), &USER_AGENT).to_owned(),
            code: None,
        })
    }

    pub(super) fn answer(&mut self, code: u16) {
        self.code = Some(code);
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        let Self {
            verb,
            uri,
            user_agent,
            ..
        } = self;
        let latency = self.began.elapsed();
        let path = uri.path_and_query().map_or("", |path| path.as_str());
        // Without a code the client was gone before the answer.
        let resp = self.code.unwrap_or_default();
        tracing::info!(target: REQUEST_LOG, %verb, uri = path, ?latency, ?user_agent, resp, "HTTP");
    }
}
