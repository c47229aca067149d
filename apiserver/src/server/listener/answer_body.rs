//! The body of any answer on a socket.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;

use crate::endpoints::body::ResponseBody;

/// The error of a body of any type.
type BoxError = Box<dyn Error + Send + Sync>;

/// The body of an answer. That of the API server is not boxed, as it is the most frequent.
pub(super) enum AnswerBody {
    /// An answer of the API server.
    Own(ResponseBody),
    /// An answer of another service.
    Other(UnsyncBoxBody<Bytes, BoxError>),
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            Self::Own(body) => {
                let frame = Pin::new(body).poll_frame(cx);
                frame.map(|frame| frame.map(|frame| frame.map_err(Into::into)))
            }
            Self::Other(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(body) => body.is_end_stream(),
            Self::Other(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(body) => body.size_hint(),
            Self::Other(body) => body.size_hint(),
        }
    }
}
