//! Requests whose work may take long: they run on threads of their own, so that others are
//! served meanwhile, and are answered with 504 when their time is over.
//!
//! Small requests stay on their worker: a hand-over costs more than most of them take. Under
//! simulated time all do, since a thread of its own would make the order of events depend on the
//! machine.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::Response;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::ApiServer;
use super::respond::Incoming;
use crate::cancellation::{Token, WRITE_TIMEOUT_MESSAGE};
use crate::endpoints::body::ResponseBody;
use crate::endpoints::response;
use crate::nesting::{self, Roomy};
use crate::request::{RequestInfo, Verb};
use crate::status::ApiError;
use crate::storage::ObjectKey;

/// Bytes of a body up to which its work is short.
const BODY_BYTES: usize = 16 * 1024;

/// Bytes of a stored object up to which the work of a write to it is short, however small the body.
const STORED_BYTES: usize = 64 * 1024;

/// The number of objects that a list or the deletion of a collection may inspect on a worker.
const OBJECTS: usize = 256;

/// The time that upstream gives a write, whatever its `timeout` says.
const WRITE_TIMEOUT: Duration = Duration::from_secs(34);

/// The least number of requests that may run outside the runtime's workers at once.
const SLOTS_MIN: usize = 8;

/// The number of such requests per processor.
const SLOTS_PER_PROCESSOR: usize = 4;

/// The slots of requests that run outside the runtime's workers.
#[derive(Debug)]
pub(super) struct Offload {
    slots: Arc<Semaphore>,
}

impl Offload {
    pub(super) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let slots = (processors * SLOTS_PER_PROCESSOR).max(SLOTS_MIN);
        Self {
            slots: Arc::new(Semaphore::new(slots)),
        }
    }
}

/// The deadline of a request, and the message of the answer after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) until: Instant,
    message: &'static str,
}

impl Limit {
    /// The limit of a request that began at `started` and has `timeout`; without either, none.
    pub(super) fn of(
        info: &RequestInfo,
        started: Option<Instant>,
        timeout: Option<Duration>,
    ) -> Option<Self> {
        let (started, timeout) = started.zip(timeout)?;
        let reads = matches!(info.verb, Some(Verb::Get | Verb::List | Verb::Watch));
        if !reads && WRITE_TIMEOUT < timeout {
            return Some(Self {
                until: started + WRITE_TIMEOUT,
                message: WRITE_TIMEOUT_MESSAGE,
            });
        }
        Some(Self {
            until: started + timeout,
            message: "request did not complete within the allotted timeout",
        })
    }

    fn error(self) -> ApiError {
        ApiError::Timeout {
            message: self.message.to_owned(),
            retry_after_seconds: 0,
            causes: Vec::new(),
        }
    }
}

impl ApiServer {
    /// Answers a request on a worker or a blocking thread; `limit` is present in real time only.
    pub(super) async fn respond_within(
        &self,
        incoming: Box<Incoming>,
        limit: Option<Limit>,
    ) -> Response<ResponseBody> {
        let Some(limit) = limit else {
            return self.respond(incoming).await;
        };
        let accepted = incoming.accepted;
        let labels = Arc::clone(&incoming.meter.labels);
        let mut answer = pin!(async {
            match Handle::try_current() {
                Ok(runtime) if self.may_take_long(&incoming) => {
                    self.offloaded(incoming, runtime).await
                }
                _ => self.respond(incoming).await,
            }
        });
        // Most answers are ready at once and need no timer.
        if let Poll::Ready(response) = futures::poll!(answer.as_mut()) {
            return response;
        }
        let answered = tokio::time::timeout_at(limit.until, answer).await;
        answered.unwrap_or_else(|_| {
            if limit.message != WRITE_TIMEOUT_MESSAGE {
                self.core.metrics.timed_out(&labels);
            }
            response::error(&limit.error(), accepted)
        })
    }

    /// Runs a request on a thread for blocking work. Dropping the call cancels it.
    async fn offloaded(&self, incoming: Box<Incoming>, runtime: Handle) -> Response<ResponseBody> {
        let server = self.clone();
        let answer = Box::pin(async move { server.respond(incoming).await });
        self.beside_workers(runtime, answer).await
    }

    /// Runs the work for an answer on a thread for blocking work. Dropping the call cancels it.
    pub(super) async fn beside_workers(
        &self,
        runtime: Handle,
        answer: impl Future<Output = Response<ResponseBody>> + Send + 'static,
    ) -> Response<ResponseBody> {
        let slots = Arc::clone(&self.core.offload.slots);
        let slot = slots.acquire_owned().await.expect("it is never closed");
        let token = Token::default();
        let has_room = nesting::has_room();
        let _cancels = token.on_drop();
        let work = runtime.clone().spawn_blocking(move || {
            // The slot is free when the work ends, which may be after the answer.
            let _slot = slot;
            let answer = Roomy::part(answer, has_room);
            token.run(|| runtime.block_on(answer))
        });
        match work.await {
            Ok(response) => response,
            Err(stopped) if stopped.is_panic() => std::panic::resume_unwind(stopped.into_panic()),
            // The runtime shuts down, and with it the connection.
            Err(_) => std::future::pending().await,
        }
    }

    /// Whether a request may keep a worker from others for long.
    fn may_take_long(&self, incoming: &Incoming) -> bool {
        let info = &incoming.info;
        if incoming.body.len() > BODY_BYTES {
            return true;
        }
        let table = || self.core.storage.table(incoming.resource.gvr());
        match (info.verb, &info.name) {
            (Some(Verb::Watch) | None, _) => false,
            (Some(Verb::List | Verb::DeleteCollection), _) => table().len() > OBJECTS,
            // Other writes bring their object along, and reads hardly look at theirs.
            (verb, Some(name)) if verb == Some(Verb::Patch) || info.subresource.is_some() => {
                let namespace = info.namespace.as_deref();
                let namespace = namespace.filter(|_| incoming.resource.namespaced);
                let stored = table().get(&ObjectKey::new(namespace, name));
                stored.is_some_and(|stored| stored.known_bytes() > STORED_BYTES)
            }
            _ => false,
        }
    }
}
