//! The transport of requests to a server: in process, or over the network.

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use kubeproof_apiserver::ApiServer;
use tower::ServiceExt;
use tower::util::BoxCloneService;

use super::error::TransportError;
use super::http1::{AnswerBody, Http1};
use super::tls::Trust;

/// The user agent of all requests. Managed fields show it: the recorded answers have the manager `xchg`.
const AGENT: &str = "xchg/1.0";
/// The name of a server in process; discovery repeats it.
const IN_PROCESS_HOST: &str = "127.0.0.1:6443";
/// The administrator's token in process. Without it, a client without a token is the administrator, and some of the
/// cases show a wrong token.
const IN_PROCESS_TOKEN: &str = "administrator";

/// The credentials of the client, and the trust in a server on the network.
#[derive(Clone, Debug, Default)]
pub struct NetworkOptions {
    /// The bearer token to send.
    pub token: Option<String>,
    /// Which certificates are accepted of an `https` server, which needs it.
    pub trust: Option<Trust>,
}

/// A server to replay cases against, and the client's token.
#[derive(Clone, Debug)]
pub struct Target {
    service: BoxCloneService<Request<Full<Bytes>>, Response<AnswerBody>, TransportError>,
    host: String,
    token: Option<String>,
}

impl Target {
    /// A fresh server in this process, and its administrator.
    ///
    /// The caller sets the clock and the seed in `builder`; the token is set here.
    #[must_use]
    pub fn in_process(builder: kubeproof_apiserver::ApiServerBuilder) -> Self {
        let server: ApiServer = builder.token(Some(IN_PROCESS_TOKEN.to_owned())).build();
        let service = tower::service_fn(move |request: Request<Full<Bytes>>| {
            let server = server.clone();
            async move {
                let is_head = request.method() == Method::HEAD;
                let (head, body) = server.handle(request).await.into_parts();
                // On a connection it is HTTP that leaves the body out.
                let body = if is_head {
                    Empty::new().map_err(|never| match never {}).boxed_unsync()
                } else {
                    body.map_err(TransportError::Dropped).boxed_unsync()
                };
                Ok(Response::from_parts(head, body))
            }
        });
        Self {
            service: BoxCloneService::new(service),
            host: IN_PROCESS_HOST.to_owned(),
            token: Some(IN_PROCESS_TOKEN.to_owned()),
        }
    }

    /// The server at `url`, of which only scheme, host and port count.
    ///
    /// # Errors
    /// [`TransportError::Url`], and [`TransportError::Authority`].
    pub fn network(url: &str, options: NetworkOptions) -> Result<Self, TransportError> {
        let server = Http1::new(url, options.trust.as_ref())?;
        Ok(Self {
            host: server.authority().to_owned(),
            service: BoxCloneService::new(tower::service_fn(move |request| {
                server.clone().send(request)
            })),
            token: options.token,
        })
    }

    /// Sends `call` and returns the answer's head with the body to be read.
    ///
    /// # Errors
    /// [`TransportError`] when no answer comes.
    pub(super) async fn send(&self, call: Call) -> Result<Response<AnswerBody>, TransportError> {
        let mut request = Request::builder()
            .method(call.method.as_str())
            .uri(&call.path)
            .body(Full::from(call.body.unwrap_or_default()))
            .map_err(|_| TransportError::Unsendable(format!("{} {}", call.method, call.path)))?;
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let common = [
            (HOST, Some(self.host.clone())),
            (USER_AGENT, Some(AGENT.to_owned())),
            (AUTHORIZATION, bearer),
        ];
        let common = common
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_string(), value?)));
        for (name, value) in common.chain(call.headers) {
            let unsendable = || TransportError::Unsendable(format!("header {name}: {value}"));
            let header = HeaderName::try_from(&name).map_err(|_| unsendable())?;
            let bytes = latin1(&value).ok_or_else(unsendable)?;
            let bytes = HeaderValue::from_bytes(&bytes).map_err(|_| unsendable())?;
            request.headers_mut().insert(header, bytes);
        }
        self.service.clone().oneshot(request).await
    }
}

/// A request of a case, its variables replaced.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) method: String,
    pub(super) path: String,
    /// A later one replaces an earlier one of the same name, or one that all requests have.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<Bytes>,
}

impl Call {
    /// A call that accepts JSON, or what `accept` says.
    pub(super) fn new(method: &str, path: &str, accept: Option<&str>) -> Self {
        let accept = accept.filter(|accept| !accept.is_empty());
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: vec![(
                ACCEPT.as_str().to_owned(),
                accept.unwrap_or("application/json").to_owned(),
            )],
            body: None,
        }
    }

    pub(super) fn with_body(mut self, content_type: &str, body: impl Into<Bytes>) -> Self {
        self.headers
            .push((CONTENT_TYPE.as_str().to_owned(), content_type.to_owned()));
        self.body = Some(body.into());
        self
    }
}

/// `text` in ISO 8859-1; none if it has other characters.
pub(super) fn latin1(text: &str) -> Option<Vec<u8>> {
    text.chars()
        .map(|character| u8::try_from(character).ok())
        .collect()
}
