//! Bodies: read whole with a limit on the way in, whole or streamed on the way out.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::Stream;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::nesting;
use crate::status::ApiError;

/// Upstream's `MaxRequestBodyBytes`: 3 MiB.
pub(crate) const REQUEST_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Reads a request's body whole.
///
/// # Errors
/// `TooLarge` above 3 MiB, `BadRequest` when the client goes away in the middle, `Timeout` when it
/// takes longer than `timeout`.
pub(crate) async fn read<B>(body: B, timeout: Option<Duration>) -> Result<Bytes, ApiError>
where
    B: Body<Data = Bytes>,
{
    read_within(body, timeout, REQUEST_BYTES_MAX).await
}

/// Reads a body of at most `bytes_max` bytes whole.
///
/// # Errors
/// As [`read`].
pub(crate) async fn read_within<B>(
    body: B,
    timeout: Option<Duration>,
    bytes_max: usize,
) -> Result<Bytes, ApiError>
where
    B: Body<Data = Bytes>,
{
    // Most requests have no body: no timer for them.
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let Some(timeout) = timeout else {
        return read_all(body, bytes_max).await;
    };
    let read = tokio::time::timeout(timeout, read_all(body, bytes_max)).await;
    read.unwrap_or_else(|_| {
        Err(ApiError::Timeout {
            message: "request did not complete within the allotted timeout".to_owned(),
            retry_after_seconds: 0,
            causes: Vec::new(),
        })
    })
}

async fn read_all<B>(body: B, bytes_max: usize) -> Result<Bytes, ApiError>
where
    B: Body<Data = Bytes>,
{
    let mut body = std::pin::pin!(body);
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return Err(ApiError::BadRequest("unexpected EOF".to_owned()));
        };
        if let Some(data) = frame.data_ref() {
            if read.len() + data.len() > bytes_max {
                return Err(ApiError::TooLarge(format!("limit is {bytes_max}")));
            }
            read.extend_from_slice(data);
        }
    }
    Ok(read.freeze())
}

/// The body of a response.
pub struct ResponseBody(Inner);

enum Inner {
    Whole(Option<Bytes>),
    /// Made as they are sent; the number is of the bytes still to come.
    Pieces(Box<dyn Iterator<Item = Bytes> + Send>, u64),
    Stream(Pin<Box<dyn Stream<Item = Result<Bytes, Dropped>> + Send>>),
}

/// The reason why a body ends in the middle: a test has the server drop the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection is dropped")]
pub struct Dropped;

impl ResponseBody {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Inner::Whole(Some(bytes.into())))
    }

    /// A body of `length` bytes that never lies in memory whole. No piece is empty.
    pub(crate) fn pieces(
        pieces: impl Iterator<Item = Bytes> + Send + 'static,
        length: usize,
    ) -> Self {
        Self(Inner::Pieces(Box::new(pieces), length as u64))
    }

    /// The bytes that are not sent yet; `None` for a stream.
    pub(crate) fn bytes(&self) -> Option<&Bytes> {
        match &self.0 {
            Inner::Whole(bytes) => bytes.as_ref(),
            Inner::Pieces(..) | Inner::Stream(_) => None,
        }
    }

    /// Makes a body in pieces whole.
    pub(crate) fn gathered(mut self) -> Self {
        match &mut self.0 {
            Inner::Pieces(pieces, left) => {
                let mut whole = BytesMut::with_capacity(usize::try_from(*left).unwrap_or_default());
                nesting::where_stored(|| pieces.for_each(|piece| whole.extend_from_slice(&piece)));
                Self::whole(whole.freeze())
            }
            Inner::Whole(_) | Inner::Stream(_) => self,
        }
    }

    /// Keeps `guard` until the end of a stream; for any other body the guard is dropped.
    pub(crate) fn holding(mut self, guard: impl Send + 'static) -> Self {
        let Inner::Stream(stream) = &mut self.0 else {
            return self;
        };
        let empty: Pin<Box<dyn Stream<Item = _> + Send>> = Box::pin(futures::stream::empty());
        let mut stream = std::mem::replace(stream, empty);
        let mut guard = Some(guard);
        Self::stream(futures::stream::poll_fn(move |cx| {
            let next = stream.as_mut().poll_next(cx);
            if matches!(next, Poll::Ready(None)) {
                drop(guard.take());
            }
            next
        }))
    }

    /// A body whose connection breaks before its first byte.
    pub(crate) fn dropped() -> Self {
        Self::stream(futures::stream::once(async { Err(Dropped) }))
    }

    pub(crate) fn stream(
        stream: impl Stream<Item = Result<Bytes, Dropped>> + Send + 'static,
    ) -> Self {
        Self(Inner::Stream(Box::pin(stream)))
    }
}

impl std::fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Inner::Whole(bytes) => {
                write!(f, "Whole({} bytes)", bytes.as_ref().map_or(0, Bytes::len))
            }
            Inner::Pieces(_, left) => write!(f, "Pieces({left} bytes)"),
            Inner::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        if !matches!(self.0, Inner::Whole(_)) {
            let made = std::mem::replace(&mut self.0, Inner::Whole(None));
            nesting::where_stored(|| drop(made));
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Dropped;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Dropped>>> {
        match &mut self.0 {
            Inner::Whole(bytes) => {
                let frame = bytes.take().filter(|bytes| !bytes.is_empty());
                Poll::Ready(frame.map(|bytes| Ok(Frame::data(bytes))))
            }
            Inner::Pieces(pieces, left) => {
                Poll::Ready(nesting::where_stored(|| pieces.next()).map(|piece| {
                    *left -= piece.len() as u64;
                    Ok(Frame::data(piece))
                }))
            }
            Inner::Stream(stream) => nesting::where_stored(|| stream.as_mut().poll_next(cx))
                .map(|next| next.map(|bytes| bytes.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Inner::Whole(bytes) if bytes.as_ref().is_none_or(Bytes::is_empty))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Inner::Pieces(_, left) => SizeHint::with_exact(*left),
            Inner::Stream(_) => SizeHint::default(),
        }
    }
}
