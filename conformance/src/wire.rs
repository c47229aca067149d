//! The connection between the clients of this process and its server: requests are noted, and concurrent ones may
//! pass in another order.
//!
//! On a real network it is open which of two requests arrives first, whether an answer or the event of its write
//! arrives first, and which watch is served first. In one process the order of tasks decides all of this. A seed
//! makes it differ: requests, answers and pieces of watches each wait for a drawn number of turns of the runtime,
//! which takes no virtual time. The pieces of one watch stay in their order.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use jiff::Timestamp;
use kube::client::Body;
use kubeproof_apiserver::ApiServer;
use kubeproof_apiserver::meta::ResourceVersion;
use parking_lot::Mutex;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tower::{Service, ServiceExt};

/// Most waiting requests wait for this many turns at most.
const TURNS: u32 = 8;
/// One in this many waits longer, ...
const LONG_EVERY: u32 = 16;
/// ... so that everything that follows from another request may be over by then.
const TURNS_MAX: u32 = 128;

/// A request that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The version of the last write before it was sent.
    pub after_rv: ResourceVersion,
    /// When it was sent.
    pub time: Timestamp,
    /// The sender's `User-Agent`.
    pub user_agent: String,
    /// The HTTP method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The status code of the answer, if there was one.
    pub code: Option<u16>,
}

/// The requests of all clients, in the order in which they were sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<Exchange>>>);

impl Notes {
    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        self.0.lock().clone()
    }

    fn sent(&self, server: &ApiServer, request: &Request<Body>) -> usize {
        let user_agent = request.headers().get(http::header::USER_AGENT);
        let user_agent = user_agent.and_then(|value| value.to_str().ok());
        let mut exchanges = self.0.lock();
        exchanges.push(Exchange {
            after_rv: server.resource_version(),
            time: server.clock().now(),
            user_agent: user_agent.unwrap_or_default().to_owned(),
            method: request.method().to_string(),
            target: request.uri().to_string(),
            code: None,
        });
        exchanges.len() - 1
    }

    fn answered(&self, place: usize, code: u16) {
        self.0.lock()[place].code = Some(code);
    }
}

/// The waits of requests under way.
#[derive(Clone, Debug)]
pub(crate) struct Interleaving(Arc<Mutex<ChaCha8Rng>>);

impl Interleaving {
    /// `None` for seed 0: nothing waits.
    pub(crate) fn seeded(seed: u64) -> Option<Self> {
        let rng = || ChaCha8Rng::seed_from_u64(seed);
        (seed != 0).then(|| Self(Arc::new(Mutex::new(rng()))))
    }

    fn draw(&self) -> u32 {
        let mut rng = self.0.lock();
        let longest = match rng.next_u32() % LONG_EVERY {
            0 => TURNS_MAX,
            // Half of all do not wait.
            lot if lot % 2 == 0 => return 0,
            _ => TURNS,
        };
        rng.next_u32() % (longest + 1)
    }

    async fn pass(interleaving: Option<&Self>) {
        let Some(interleaving) = interleaving else {
            return;
        };
        for _ in 0..interleaving.draw() {
            tokio::task::yield_now().await;
        }
    }
}

/// Sits between a client and `server`, which `inner` leads to.
#[derive(Clone)]
pub(crate) struct Wire<S> {
    inner: S,
    server: ApiServer,
    notes: Option<Notes>,
    interleaving: Option<Interleaving>,
}

impl<S> Wire<S> {
    pub(crate) fn new(
        inner: S,
        server: &ApiServer,
        notes: Option<Notes>,
        interleaving: Option<Interleaving>,
    ) -> Self {
        Self {
            inner,
            server: server.clone(),
            notes,
            interleaving,
        }
    }
}

impl<S, B> Service<Request<Body>> for Wire<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = Response<WireBody<B>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let wire = self.clone();
        Box::pin(async move {
            Interleaving::pass(wire.interleaving.as_ref()).await;
            let noted = wire
                .notes
                .map(|notes| (notes.sent(&wire.server, &request), notes));
            let answer = wire.inner.oneshot(request).await?;
            if let Some((place, notes)) = noted {
                notes.answered(place, answer.status().as_u16());
            }
            Interleaving::pass(wire.interleaving.as_ref()).await;
            Ok(answer.map(|inner| WireBody {
                inner,
                interleaving: wire.interleaving,
                held: None,
            }))
        })
    }
}

/// A body whose pieces wait for their turn.
pub(crate) struct WireBody<B> {
    inner: B,
    interleaving: Option<Interleaving>,
    /// A piece, and how many turns it still waits for.
    held: Option<(Frame<Bytes>, u32)>,
}

impl<B> http_body::Body for WireBody<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        let (frame, turns) = match this.held.take() {
            Some(held) => held,
            None => match std::task::ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
                Some(Ok(frame)) => (
                    frame,
                    this.interleaving.as_ref().map_or(0, Interleaving::draw),
                ),
                end => return Poll::Ready(end),
            },
        };
        let Some(left) = turns.checked_sub(1) else {
            return Poll::Ready(Some(Ok(frame)));
        };
        this.held = Some((frame, left));
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.held {
            None => self.inner.size_hint(),
            Some(_) => SizeHint::default(),
        }
    }
}
