//! Requests over the network: HTTP/1.1, a connection for each, so that a watch holds up nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body::{Body, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::error::TransportError;
use super::tls::{self, Trust};

/// The body of an answer, which may be a stream without end.
pub(super) type AnswerBody = UnsyncBoxBody<Bytes, TransportError>;

/// The authority of a server's URL, and its TLS settings.
#[derive(Clone)]
pub(super) struct Http1 {
    authority: Arc<str>,
    /// For a server that speaks TLS.
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Http1 {
    /// Reads scheme, host and port of `url`.
    pub(super) fn new(url: &str, trust: Option<&Trust>) -> Result<Self, TransportError> {
        let refuse = |why: &str| TransportError::Url {
            url: url.to_owned(),
            why: why.to_owned(),
        };
        let uri: Uri = url.parse().map_err(|_| refuse("this is not a URL"))?;
        let host = uri.host().ok_or_else(|| refuse("it names no host"))?;
        let (port, tls) = match uri.scheme_str() {
            Some("http") => (80, None),
            Some("https") => {
                let trust = trust.ok_or_else(|| {
                    refuse("nothing says which certificates of the server to accept")
                })?;
                let name = host
                    .trim_start_matches('[')
                    .trim_end_matches(']')
                    .to_owned();
                let name = ServerName::try_from(name).map_err(|_| refuse("it names no host"))?;
                (443, Some((tls::connector(trust)?, name)))
            }
            _ => return Err(refuse("it begins with neither http:// nor https://")),
        };
        let port = uri.port_u16().unwrap_or(port);
        Ok(Self {
            authority: format!("{host}:{port}").into(),
            tls,
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
        match self.tls {
            None => exchange(stream, request).await,
            Some((connector, name)) => {
                let stream = connector.connect(name, stream).await.map_err(connect)?;
                exchange(stream, request).await
            }
        }
    }
}

async fn exchange<S>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<Response<AnswerBody>, TransportError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(TransportError::Http)?;
    let mut driver = JoinSet::new();
    // An error that ends the connection also shows in the answer or its body.
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

#[cfg(test)]
mod tests {
    use kubeproof_apiserver::ApiServer;
    use tokio::net::TcpListener;
    use tokio::sync::oneshot;

    use super::super::transport::{Call, NetworkOptions, Target};

    #[tokio::test]
    async fn an_endless_answer_is_read_while_others_are_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let server = ApiServer::builder().build();
        let serving = tokio::spawn(kubeproof_apiserver::serve(server, listener, async {
            drop(stopped.await);
        }));
        let target = Target::network(&url, NetworkOptions::default()).unwrap();
        let path = "/api/v1/namespaces/default/configmaps";
        let watch = Call::new("GET", &format!("{path}?watch=1"), None);
        let mut watch = target.send(watch).await.unwrap().into_body();
        let create = Call::new("POST", path, None)
            .with_body("application/json", r#"{"metadata": {"name": "a"}}"#);
        assert_eq!(target.send(create).await.unwrap().status(), 201);
        let event = super::BodyExt::frame(&mut watch).await.unwrap().unwrap();
        let event = event.into_data().unwrap();
        assert!(event.starts_with(br#"{"type":"ADDED""#), "{event:?}");
        drop(watch);
        stop.send(()).unwrap();
        serving.await.unwrap().unwrap();
    }

    #[test]
    fn urls_that_cannot_be_used_are_refused() {
        for url in [
            "example.com",
            "ftp://example.com",
            "http://",
            "https://example.com",
        ] {
            assert!(
                Target::network(url, NetworkOptions::default()).is_err(),
                "{url}"
            );
        }
    }
}
