//! Cancellation of a request whose client has been answered, or has gone, before its work is done.
//!
//! The work of a large request runs on a thread of its own (`server/offload`). Nothing can stop a
//! thread from outside, so long loops ask [`is_requested`] from time to time and end early. Their
//! outcome is never seen, and never stored: every commit asks as well.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::status::ApiError;

thread_local! {
    /// The token of the request that this thread works for.
    static CURRENT: RefCell<Option<Token>> = const { RefCell::new(None) };
}

/// The state of one request, shared by its thread and the task that awaits it.
#[derive(Clone, Debug, Default)]
pub struct Token(Arc<AtomicBool>);

impl Token {
    /// Requests cancellation when the guard is dropped.
    pub fn on_drop(&self) -> Guard {
        Guard(self.clone())
    }

    /// Runs `work` on this thread under the token.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> T {
        let _reset = Reset;
        CURRENT.set(Some(self));
        work()
    }
}

/// Requests the cancellation of a [`Token`] when dropped. It has no effect once the work is done.
#[derive(Debug)]
pub struct Guard(Token);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Release);
    }
}

/// Takes the token from the thread, also when the work panics: threads are used again.
struct Reset;

impl Drop for Reset {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

/// Runs work that must not be canceled halfway, such as the consequences of a write.
pub fn shielded<T>(work: impl FnOnce() -> T) -> T {
    let token = CURRENT.take();
    let done = work();
    CURRENT.set(token);
    done
}

/// Whether the work of this thread should end; never on threads without a token.
pub fn is_requested() -> bool {
    CURRENT.with_borrow(|token| {
        let token = token.as_ref();
        token.is_some_and(|token| token.0.load(Ordering::Acquire))
    })
}

/// The answer of upstream when the time of a write is over.
pub const WRITE_TIMEOUT_MESSAGE: &str =
    "request did not complete within requested timeout - context deadline exceeded";

/// Ends the work of this thread if it should end.
///
/// # Errors
/// `Timeout`, which no client sees.
pub fn check() -> Result<(), ApiError> {
    match is_requested() {
        false => Ok(()),
        true => Err(timeout()),
    }
}

/// The error of a write that takes too long.
pub fn timeout() -> ApiError {
    ApiError::Timeout {
        message: WRITE_TIMEOUT_MESSAGE.to_owned(),
        retry_after_seconds: 0,
        causes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_learns_of_a_dropped_guard() {
        let token = Token::default();
        let guard = token.on_drop();
        assert!(!is_requested());
        token.clone().run(|| assert!(!is_requested()));
        drop(guard);
        assert!(!is_requested(), "another thread's work goes on");
        token.run(|| {
            assert!(is_requested());
            shielded(|| assert!(!is_requested()));
            assert!(is_requested());
        });
        assert!(!is_requested(), "the thread is free for other work");
    }
}
