//! The server on a socket: HTTP/1.1 and HTTP/2, plain or over TLS.

mod activity;
mod answer_body;
mod connection;
mod descriptors;
mod plaintext;
mod protocol;
mod request_log;

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use self::activity::Activity;
use self::answer_body::AnswerBody;
use self::descriptors::Failure;
use self::request_log::Logged;
pub use self::request_log::REQUEST_LOG;
use super::ApiServer;
use crate::auth::Peer;

/// The delay of the listener after a failed `accept`, doubled with each failure in a row, as in
/// Go's `net/http`.
const RETRY_FIRST: Duration = Duration::from_millis(5);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// When descriptors run short, one in this number of the connections without a request is closed.
const EVICTED_PART: usize = 16;

/// Serves `server` on `listener` until `shutdown` completes; then stops accepting, ends the open
/// connections with their watches, and joins them.
///
/// A client that goes away, stops reading or writing, or does not speak HTTP, costs only its own
/// connection. When descriptors run short, connections without a request are closed; connections
/// that never had a request are closed first.
///
/// # Errors
/// The error of a listener that does not listen; errors of connections are not reported.
pub async fn serve(
    server: ApiServer,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    accept(server, listener, None, shutdown).await
}

/// Serves `server` as [`serve`] does, over TLS if there is an acceptor.
pub(super) async fn accept(
    server: ApiServer,
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let checking = server.clone();
    let failed = Arc::clone(&server.core.metrics);
    let acceptor = acceptor.map(|acceptor| Handshake {
        acceptor,
        failed: Arc::new(move || failed.tls_handshake_failed()),
    });
    let answer: Answer = Arc::new(move |request, peer| {
        let (server, peer) = (server.clone(), Arc::clone(peer));
        Box::pin(async move {
            let logged = Logged::begin(&request);
            let mut response = match protocol::refuse(&request) {
                Some(refused) => refused,
                None => server.handle_from(Some(&peer), request).await,
            };
            if let Some(mut logged) = logged {
                logged.answer(response.status().as_u16());
                response.extensions_mut().insert(Arc::new(logged));
            }
            response.map(AnswerBody::Own)
        })
    });
    let serving = serve_connections(listener, acceptor, shutdown, answer);
    tokio::select! {
        biased;
        served = serving => served,
        never = checking.keep_api_services().boxed() => match never {},
    }
}

/// Serves the answers of any HTTP service, over TLS if there is an acceptor, under the rules of
/// [`serve`] for its connections.
///
/// # Errors
/// The error of a listener that does not listen; errors of connections are not reported.
pub async fn serve_requests<A, F, B>(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    shutdown: impl Future<Output = ()>,
    answer: A,
) -> io::Result<()>
where
    A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let acceptor = acceptor.map(|acceptor| Handshake {
        acceptor,
        failed: Arc::new(|| ()),
    });
    serve_connections(listener, acceptor, shutdown, answer_with(answer)).await
}

/// A service of HTTP. Its types are erased, so that connections are compiled once, in this crate.
type Answer = Arc<
    dyn Fn(Request<Incoming>, &Arc<Peer>) -> BoxFuture<'static, Response<AnswerBody>> + Send + Sync,
>;

/// Erases the types of a service.
fn answer_with<A, F, B>(answer: A) -> Answer
where
    A: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    Arc::new(move |request, _peer| {
        let answered = answer(request);
        let erased = |body: B| AnswerBody::Other(body.map_err(Into::into).boxed_unsync());
        answered.map(move |response| response.map(erased)).boxed()
    })
}

/// The TLS handshake of connections.
#[derive(Clone)]
struct Handshake {
    acceptor: TlsAcceptor,
    /// Called when one fails.
    failed: Arc<dyn Fn() + Send + Sync>,
}

async fn serve_connections(
    listener: TcpListener,
    acceptor: Option<Handshake>,
    shutdown: impl Future<Output = ()>,
    answer: Answer,
) -> io::Result<()> {
    accept_each(listener, shutdown, |stream, activity| {
        begin(stream, acceptor.clone(), activity, Arc::clone(&answer))
    })
    .await
}

/// The task of a connection.
fn begin(
    stream: TcpStream,
    handshake: Option<Handshake>,
    activity: Arc<Activity>,
    answer: Answer,
) -> BoxFuture<'static, ()> {
    connection::run(stream, handshake, activity, answer).boxed()
}

/// Runs a `connection` for each stream that `listener` accepts until `shutdown` completes; then
/// stops accepting, drops the connections that are open, and joins them.
async fn accept_each(
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
    connection: impl Fn(TcpStream, Arc<Activity>) -> BoxFuture<'static, ()>,
) -> io::Result<()> {
    let mut shutdown = pin!(shutdown);
    let mut connections = Connections::default();
    let mut delay = Duration::ZERO;
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = connections.ended() => {
                delay = Duration::ZERO;
                continue;
            }
            accepted = accept_after(&listener, delay) => accepted,
        };
        let has_room = match accepted {
            Ok(stream) => {
                let has_room = !descriptors::are_short(&stream) || connections.evict().await;
                let activity = Arc::new(Activity::begin());
                connections.add(connection(stream, Arc::clone(&activity)), activity);
                has_room
            }
            Err(error) => match descriptors::failure(&error) {
                Failure::Listener => return Err(error),
                Failure::Peer => true,
                Failure::Shortage => {
                    let has_room = connections.evict().await;
                    if !has_room {
                        tracing::warn!(%error, "accept failed, retrying");
                    }
                    has_room
                }
            },
        };
        delay = match has_room {
            true => Duration::ZERO,
            false => (delay * 2).clamp(RETRY_FIRST, RETRY_MAX),
        };
    }
    drop(listener);
    // Watches have no end of their own.
    connections.tasks.shutdown().await;
    Ok(())
}

async fn accept_after(listener: &TcpListener, delay: Duration) -> io::Result<TcpStream> {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    let (stream, _) = listener.accept().await?;
    descriptors::set_options(&stream);
    Ok(stream)
}

/// The open connections of a listener, in the order in which they were accepted.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    /// Ended ones included, until they outnumber the others.
    known: Vec<(AbortHandle, Arc<Activity>)>,
}

impl Connections {
    fn add(&mut self, task: impl Future<Output = ()> + Send + 'static, activity: Arc<Activity>) {
        if self.known.len() > 2 * self.tasks.len() {
            self.known.retain(|(task, _)| !task.is_finished());
        }
        self.known.push((self.tasks.spawn(task), activity));
    }

    /// Completes when a connection has ended; never without connections.
    async fn ended(&mut self) {
        match self.tasks.join_next().await {
            Some(_) => {}
            None => std::future::pending().await,
        }
    }

    /// Closes the connections that have waited longest for a request, those that never had one
    /// before those that had. Returns whether there were any.
    async fn evict(&mut self) -> bool {
        self.known.retain(|(task, _)| !task.is_finished());
        let waiting = |was_asked: bool| {
            let known = self.known.iter();
            let mut waiting: Vec<_> = known
                .filter_map(|(task, activity)| Some((activity.waiting(was_asked)?, task)))
                .collect();
            // Stable: of equal times, the connection accepted first goes first.
            waiting.sort_by_key(|(since, _)| *since);
            waiting
        };
        let mut chosen = waiting(false);
        if chosen.is_empty() {
            chosen = waiting(true);
        }
        chosen.truncate(chosen.len().div_ceil(EVICTED_PART));
        for (_, task) in &chosen {
            task.abort();
        }
        // A descriptor is free when its task has been dropped.
        let (is_any, left) = (!chosen.is_empty(), self.tasks.len() - chosen.len());
        while self.tasks.len() > left && self.tasks.join_next().await.is_some() {}
        is_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections that serve a request, wait for the next one, or have never had one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Kind {
        Serving,
        Idle,
        Fresh,
    }

    #[tokio::test]
    async fn connections_without_a_request_make_room_and_others_never() {
        let mut connections = Connections::default();
        let mut kinds = Vec::new();
        let mut requests = Vec::new();
        for _ in 0..20 {
            for kind in [Kind::Idle, Kind::Serving, Kind::Fresh] {
                let activity = Arc::new(Activity::begin());
                if kind != Kind::Fresh {
                    let request = activity.serve();
                    requests.extend((kind == Kind::Serving).then_some(request));
                }
                connections.add(std::future::pending(), activity);
                kinds.push((
                    kind,
                    connections.known.last().expect("it was added").0.clone(),
                ));
            }
        }
        let open = |of: Kind| {
            let open = kinds
                .iter()
                .filter(|(kind, task)| *kind == of && !task.is_finished());
            open.count()
        };
        assert!(connections.evict().await);
        assert_eq!((open(Kind::Fresh), open(Kind::Idle)), (18, 20));
        let fresh = kinds.iter().filter(|(kind, _)| *kind == Kind::Fresh);
        assert!(fresh.take(2).all(|(_, task)| task.is_finished()));
        while open(Kind::Fresh) > 0 {
            assert!(connections.evict().await);
        }
        assert_eq!(open(Kind::Idle), 20);
        while open(Kind::Idle) > 0 {
            assert!(connections.evict().await);
        }
        assert!(!connections.evict().await);
        assert_eq!((open(Kind::Serving), connections.tasks.len()), (20, 20));
        drop(requests);
        assert!(connections.evict().await);
    }
}
