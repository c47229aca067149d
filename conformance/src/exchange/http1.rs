//! Requests over the network: HTTP/1.1, a connection for each, so that a watch holds up nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::transport::{AnswerBody, TransportError};

/// A server's address.
#[derive(Clone, Debug)]
pub(super) struct Http1 {
    authority: Arc<str>,
}

impl Http1 {
    /// Reads scheme, host and port of `url`.
    pub(super) fn new(url: &str) -> Result<Self, TransportError> {
        let refuse = |why: &str| TransportError::Url {
            url: url.to_owned(),
            why: why.to_owned(),
        };
        let uri: Uri = url.parse().map_err(|_| refuse("this is no URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(refuse("TLS is not supported in this version")),
            _ => return Err(refuse("this is no http:// URL")),
        }
        let host = uri.host().ok_or_else(|| refuse("it names no host"))?;
        let port = uri.port_u16().unwrap_or(80);
        Ok(Self {
            authority: format!("{host}:{port}").into(),
        })
    }

    /// Host and port.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// Sends `request` on a connection of its own, which lasts as long as the answer's body.
    pub(super) async fn send(
        self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<AnswerBody>, TransportError> {
        let connect = |source| TransportError::Connect {
            address: self.authority.to_string(),
            source,
        };
        let stream = TcpStream::connect(&*self.authority)
            .await
            .map_err(connect)?;
        // Small requests must not wait for the next packet; the socket works without it too.
        let _ = stream.set_nodelay(true);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(TransportError::Http)?;
        let mut driver = JoinSet::new();
        // What ends it badly is told by the answer or its body too.
        driver.spawn(async move { drop(connection.await) });
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(TransportError::Http)?;
        Ok(answer.map(|incoming| {
            Connected {
                incoming,
                _driver: driver,
            }
            .boxed_unsync()
        }))
    }
}

/// A body with the task that moves its connection; dropping it ends both.
struct Connected {
    incoming: Incoming,
    _driver: JoinSet<()>,
}

impl Body for Connected {
    type Data = Bytes;
    type Error = TransportError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TransportError>>> {
        Pin::new(&mut self.incoming)
            .poll_frame(cx)
            .map_err(TransportError::Http)
    }
}
