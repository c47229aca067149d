//! Panics in handlers: each is noted, logged, and answered like upstream's `WithPanicRecovery`.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use http::request::Parts;
use http::{HeaderValue, Method, Response, Uri};
use parking_lot::Mutex;

use crate::endpoints::body::ResponseBody;
use crate::endpoints::response;

/// The number of panics kept: a client that knows how to cause one must not fill the memory.
const HELD_MAX: usize = 64;

const ANSWER: &str = "This request caused apiserver to panic. Look in the logs for details.\n";

/// The first panics of a server's handlers, as text.
#[derive(Debug, Default)]
pub(super) struct Panics(Mutex<Vec<String>>);

/// The name of a request in the log.
pub(super) struct RequestLine {
    method: Method,
    uri: Uri,
}

impl RequestLine {
    pub(super) fn of(parts: &Parts) -> Self {
        Self {
            method: parts.method.clone(),
            uri: parts.uri.clone(),
        }
    }
}

impl Panics {
    /// The panics so far, in the order in which they happened.
    pub(super) fn list(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    /// The answer of a handler, or 500 and the reason if it panics.
    ///
    /// Unwind safety: no lock of the server is poisoned, and each guards state that is whole between
    /// any two of its writes.
    pub(super) async fn recover(
        &self,
        request: RequestLine,
        audit_id: &HeaderValue,
        answer: impl Future<Output = Response<ResponseBody>>,
    ) -> (Response<ResponseBody>, Option<String>) {
        let panic = match AssertUnwindSafe(answer).catch_unwind().await {
            Ok(response) => return (response, None),
            Err(panic) => panic,
        };
        let (RequestLine { method, uri }, reason) = (request, text(&*panic));
        tracing::error!(%method, %uri, ?audit_id, reason, "apiserver panicked");
        let mut held = self.0.lock();
        if held.len() < HELD_MAX {
            held.push(format!("{method} {uri}: {reason}"));
        }
        (response::text(500, ANSWER), Some(reason.to_owned()))
    }
}

/// The message of a panic.
fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no message")
}
