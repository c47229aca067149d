//! Connections to the services behind APIServices, one for each request.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::{BoxFuture, Fuse};
use futures::{FutureExt, Stream};
use http::header::{
    CONNECTION, HOST, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, Request, Response};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::rustls::pki_types::ServerName;

use crate::api_services::Backend;
use crate::auth::User;
use crate::cluster::Cluster;
use crate::webhook::{connector_of, dial, handshake_error};

/// An open connection.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: Fuse<BoxFuture<'static, ()>>,
    host: String,
}

/// The reason why a service was not reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unreached {
    /// The APIService cannot be used, whatever the service does.
    Config(String),
    /// The connection failed, in the words of Go's client.
    Failed(String),
}

impl Connection {
    /// Connects to a backend at `address`.
    ///
    /// Cancel safety: dropping the call closes the connection.
    pub(crate) async fn open(
        cluster: &Cluster,
        backend: &Backend,
        address: SocketAddr,
    ) -> Result<Self, Unreached> {
        let authorities = cluster.services.authorities_of(backend.ca_bundle.clone());
        let bundle = (!backend.is_insecure).then_some(&*authorities);
        let identity = cluster.api_services.identity.as_deref();
        let connector = connector_of(bundle, identity).map_err(Unreached::Config)?;
        let name = ServerName::try_from(backend.host());
        let name = name.map_err(|error| Unreached::Config(error.to_string()))?;
        let stream = dial(address).await.map_err(Unreached::Failed)?;
        let secured = connector.connect(name, stream).await;
        let secured = secured.map_err(|error| Unreached::Failed(handshake_error(&error)))?;
        Self::over(secured, address.to_string(), std::future::ready(()).boxed()).await
    }

    /// Speaks HTTP/1.1 over an open stream to `host`. `serving` is polled until it is ready, for a program that runs in
    /// this process.
    pub(crate) async fn over<S>(
        stream: S,
        host: String,
        serving: BoxFuture<'static, ()>,
    ) -> Result<Self, Unreached>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let opened = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = opened.map_err(|_| Unreached::Failed("EOF".to_owned()))?;
        // The end of a connection is seen at the end of its answer.
        let driver = futures::future::join(connection, serving);
        Ok(Self {
            sender,
            driver: driver.map(drop).boxed().fuse(),
            host,
        })
    }

    /// Sends a request, and reads the head of the answer.
    ///
    /// Cancel safety: dropping the call closes the connection.
    ///
    /// # Errors
    /// The failure in the words of Go's client.
    pub(crate) async fn send(
        mut self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Streamed>, String> {
        let host = HeaderValue::from_str(&self.host);
        let host = host.expect("an address is a header");
        request.headers_mut().insert(HOST, host);
        let exchange = self.sender.send_request(request);
        tokio::pin!(exchange);
        let response = tokio::select! {
            biased;
            response = &mut exchange => response,
            () = &mut self.driver => exchange.await,
        };
        let response = response.map_err(|_| "EOF".to_owned())?;
        let driver = self.driver;
        Ok(response.map(|body| Streamed { body, driver }))
    }
}

/// The body of an answer, which moves its connection on.
pub(crate) struct Streamed {
    body: Incoming,
    driver: Fuse<BoxFuture<'static, ()>>,
}

impl Stream for Streamed {
    type Item = Result<Bytes, Broken>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let own = &mut *self;
        let _ = own.driver.poll_unpin(cx);
        loop {
            let frame = match Pin::new(&mut own.body).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Some(Err(Broken))),
                Poll::Ready(Some(Ok(frame))) => frame,
            };
            // Trailers are of no use to clients of the API.
            if let Ok(data) = frame.into_data() {
                return Poll::Ready(Some(Ok(data)));
            }
        }
    }
}

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// The headers that are about one connection.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    PROXY_CONNECTION,
    KEEP_ALIVE,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Removes the headers whose names begin so.
pub(crate) fn remove_prefixed(headers: &mut HeaderMap, prefix: &str) {
    let found = headers
        .keys()
        .filter(|name| name.as_str().starts_with(prefix));
    let found: Vec<HeaderName> = found.cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

/// Removes the headers that are about one connection, and those that `Connection` names.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named = headers.get_all(CONNECTION).iter();
    let named = named
        .filter_map(|own| own.to_str().ok())
        .flat_map(|own| own.split(','));
    let named = named.filter_map(|name| HeaderName::try_from(name.trim()).ok());
    let named: Vec<HeaderName> = named.collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// The connection broke in the middle of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// The characters that are escaped in the name of a header: all that a token of HTTP may not have, and `%`.
const KEY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'^')
    .remove(b'`')
    .remove(b'|');

/// Names the user on whose behalf a request is sent, in the headers of a front proxy.
pub(crate) fn name_user(user: &User, headers: &mut HeaderMap) {
    let mut add = |name: HeaderName, text: &str| {
        if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
            headers.append(name, value);
        }
    };
    add(HeaderName::from_static("x-remote-user"), &user.name);
    if !user.uid.is_empty() {
        add(HeaderName::from_static("x-remote-uid"), &user.uid);
    }
    for group in &user.groups {
        add(HeaderName::from_static("x-remote-group"), group);
    }
    for (key, values) in &user.extra {
        let key = format!("x-remote-extra-{}", utf8_percent_encode(key, KEY));
        let Ok(name) = HeaderName::from_bytes(key.to_lowercase().as_bytes()) else {
            continue;
        };
        for text in values {
            add(name.clone(), text);
        }
    }
}
