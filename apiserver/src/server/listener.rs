//! The server on a socket: HTTP/1.1 and HTTP/2, plain or over TLS.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::stall::StallLimit;
use super::{ApiServer, Tls};
use crate::endpoints::websocket::Session;

/// Serves `server` on `listener` until `shutdown` completes; then stops accepting, ends the open
/// connections with their watches, and joins them.
///
/// A client that goes away, stops reading for a minute, or sends what is not HTTP, costs its own
/// connection and nothing else.
///
/// # Errors
/// None of a connection's; those of the listener itself.
pub async fn serve(
    server: ApiServer,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    accept(server, listener, None, shutdown).await
}

/// [`serve`] over TLS: HTTP/2 or HTTP/1.1, as the client's ALPN has it.
///
/// # Errors
/// None of a connection's, failed handshakes included; those of the listener itself.
pub async fn serve_tls(
    server: ApiServer,
    listener: TcpListener,
    tls: Tls,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    accept(server, listener, Some(tls.acceptor), shutdown).await
}

async fn accept(
    server: ApiServer,
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    serve_each(listener, shutdown, |stream| {
        connection(server.clone(), stream, acceptor.clone())
    })
    .await
}

/// Runs a `connection` for each stream that `listener` accepts until `shutdown` completes; then
/// stops accepting, drops the connections that are open, and joins them.
///
/// # Errors
/// Those of the listener.
pub async fn serve_each<C: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
    connection: impl Fn(TcpStream) -> C,
) -> io::Result<()> {
    let mut shutdown = pin!(shutdown);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // Small answers must not wait for the next packet; the socket works without it too.
                    let _ = stream.set_nodelay(true);
                    connections.spawn(connection(stream));
                }
                // The peer gave up between its handshake and our accept.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    // Watches have no end of their own.
    connections.shutdown().await;
    Ok(())
}

async fn connection(server: ApiServer, stream: TcpStream, acceptor: Option<TlsAcceptor>) {
    let stream = StallLimit::new(stream);
    let served = async {
        match acceptor {
            None => exchange(server, stream).await,
            Some(acceptor) => exchange(server, acceptor.accept(stream).await?).await,
        }
    };
    if let Err(error) = served.await {
        tracing::debug!(%error, "connection ended");
    }
}

/// Answers the requests of a connection until it ends, or becomes that of a session.
async fn exchange(
    server: ApiServer,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let session = Arc::new(Mutex::new(None));
    let service = service_fn(|request| {
        let (server, session) = (server.clone(), Arc::clone(&session));
        async move {
            let mut response = server.handle(request).await;
            if let Some(taken) = response.extensions_mut().remove::<Session>() {
                *session.lock() = Some(taken);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    builder
        .serve_connection_with_upgrades(TokioIo::new(stream), service)
        .await?;
    let session = session.lock().take();
    if let Some(session) = session.and_then(|session| session.start()) {
        session.await;
    }
    Ok(())
}
