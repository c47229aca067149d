//! One connection: its handshake, its requests, and the session that may follow them.

use std::convert::Infallible;
use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::activity::{Activity, Counted, Expired, HEAD_TIME_MAX, Observed};
use super::plaintext;
use super::request_log::Logged;
use super::{Answer, Handshake};
use crate::auth::Peer;
use crate::endpoints::streams::Session;
use crate::server::stall::StallLimit;

/// Upstream's `MaxHeaderBytes` of 1 MiB, with what Go reads beyond it before it refuses a head.
pub(super) const HEAD_BYTES_MAX: usize = (1 << 20) + 4096;
/// Upstream's limit over HTTP/2: 1 MiB, with what Go adds for the overhead of ten fields.
const HEADER_LIST_BYTES_MAX: u32 = (1 << 20) + 320;
/// The maximum number of headers over HTTP/1.1: each takes some bytes of every request.
const HEADERS_MAX: usize = 256;

/// The time for an idle client to notice the end of the connection: Go's `goAwayTimeout`.
const FAREWELL_TIME_MAX: Duration = Duration::from_secs(1);

/// Serves a connection until it ends, in whatever way.
pub(super) async fn run(
    stream: TcpStream,
    handshake: Option<Handshake>,
    activity: Arc<Activity>,
    answer: Answer,
) {
    let address = stream.peer_addr().ok();
    let address = address.map(|own| own.ip().to_canonical());
    let served = async {
        let Some(Handshake { acceptor, failed }) = handshake else {
            let stream = StallLimit::new(stream);
            return exchange(stream, Peer::new(None).at(address), &activity, answer).await;
        };
        let shaken = timeout(HEAD_TIME_MAX, async {
            let Some(stream) = plaintext::refuse(stream, || failed()).await? else {
                return Ok(None);
            };
            acceptor.accept(StallLimit::new(stream)).await.map(Some)
        });
        let shaken = shaken.await;
        if !matches!(shaken, Ok(Ok(_))) {
            failed();
        }
        let Some(stream) = shaken?? else {
            return Ok(());
        };
        let session = stream.get_ref().1;
        activity.shake_hands(session.alpn_protocol() == Some(b"h2"));
        let peer = Peer::new(session.peer_certificates()).at(address);
        exchange(stream, peer, &activity, answer).await
    };
    if let Err(error) = served.await {
        tracing::debug!(%error, "connection ended");
    }
}

/// Answers the requests of a connection until it ends, or becomes that of a session.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    activity: &Arc<Activity>,
    answer: Answer,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let session = Arc::new(Mutex::new(None));
    let peer = Arc::new(peer);
    let service = service_fn(|request: Request<Incoming>| {
        let (serving, session) = (activity.serve(), Arc::clone(&session));
        let answered = answer(request, &peer);
        async move {
            let mut response = answered.await;
            let extensions = response.extensions_mut();
            if let Some(taken) = extensions.remove::<Session>() {
                *session.lock() = Some(taken);
            }
            let logged = extensions.remove::<Arc<Logged>>();
            Ok::<_, Infallible>(response.map(|body| Counted {
                body,
                _serving: serving,
                _logged: logged,
            }))
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().max_headers(HEADERS_MAX);
    builder.http1().max_buf_size(HEAD_BYTES_MAX);
    builder.http2().max_header_list_size(HEADER_LIST_BYTES_MAX);
    let stream = TokioIo::new(Observed::new(stream, Arc::clone(activity)));
    let mut connection = pin!(builder.serve_connection_with_upgrades(stream, service));
    let expired = tokio::select! {
        biased;
        served = connection.as_mut() => {
            served?;
            None
        }
        expired = activity.expired() => Some(expired),
    };
    match expired {
        None => {}
        Some(Expired::Head) => return Ok(()),
        Some(Expired::Idle) => {
            connection.as_mut().graceful_shutdown();
            // Requests that have come meanwhile are answered.
            while timeout(FAREWELL_TIME_MAX, connection.as_mut())
                .await
                .is_err()
                && activity.is_serving()
            {}
            return Ok(());
        }
    }
    let session = session.lock().take();
    if let Some(session) = session.and_then(|session| session.start()) {
        let _serving = activity.serve();
        session.await;
    }
    Ok(())
}
