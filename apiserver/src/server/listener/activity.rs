//! How busy a connection is, and how long it may wait for its peer.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use std::{io, mem};

use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::request_log::Logged;

/// Upstream's `ReadHeaderTimeout`: the time for the head of a request, and for a TLS handshake.
pub(super) const HEAD_TIME_MAX: Duration = Duration::from_secs(32);
/// Upstream's `IdleTimeout`: the time between two requests.
const IDLE_TIME_MAX: Duration = Duration::from_secs(90);
/// Go's `prefaceTimeout`: the time until a client that agreed on HTTP/2 begins with it.
const PREFACE_TIME_MAX: Duration = Duration::from_secs(10);

/// The first bytes of a client with prior knowledge of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How busy a connection is: shared by its task, its requests and the listener.
#[derive(Debug)]
pub(super) struct Activity {
    began: Instant,
    /// Requests and sessions that are being served.
    serving: AtomicUsize,
    /// The end of the last request or session, in milliseconds from the beginning.
    idle_since: AtomicU64,
    /// The arrival of the first bytes of the next head; 0 before that, and until more are waited for.
    head_since: AtomicU64,
    /// Whether bytes of the next head have come.
    has_begun: AtomicBool,
    was_asked: AtomicBool,
    is_http2: AtomicBool,
    has_agreed_on_http2: AtomicBool,
    /// Notified when no request or session is served any more.
    idle: Notify,
}

/// The limit that a connection has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expired {
    /// The rest of a request's head, or the first request.
    Head,
    /// The next request.
    Idle,
}

impl Activity {
    pub(super) fn begin() -> Self {
        Self {
            began: Instant::now(),
            serving: AtomicUsize::new(0),
            idle_since: AtomicU64::new(0),
            head_since: AtomicU64::new(0),
            has_begun: AtomicBool::new(false),
            was_asked: AtomicBool::new(false),
            is_http2: AtomicBool::new(false),
            has_agreed_on_http2: AtomicBool::new(false),
            idle: Notify::new(),
        }
    }

    /// Notes that the TLS handshake is over, after which requests may come.
    pub(super) fn shake_hands(&self, has_agreed_on_http2: bool) {
        self.has_agreed_on_http2
            .store(has_agreed_on_http2, Ordering::Relaxed);
        self.idle_since.store(self.now(), Ordering::Relaxed);
    }

    /// Counts a request or a session until the guard is dropped.
    pub(super) fn serve(self: &Arc<Self>) -> Serving {
        self.serving.fetch_add(1, Ordering::AcqRel);
        self.was_asked.store(true, Ordering::Relaxed);
        self.head_since.store(0, Ordering::Relaxed);
        self.has_begun.store(false, Ordering::Relaxed);
        Serving(Arc::clone(self))
    }

    pub(super) fn is_serving(&self) -> bool {
        self.serving.load(Ordering::Acquire) > 0
    }

    /// Since when the connection has been without a request, in order of time over all connections;
    /// None for a connection that has a request, or whose past differs from `was_asked`.
    pub(super) fn waiting(&self, was_asked: bool) -> Option<Instant> {
        if self.is_serving() || self.was_asked.load(Ordering::Relaxed) != was_asked {
            return None;
        }
        Some(match was_asked {
            true => self.began + Duration::from_millis(self.idle_since.load(Ordering::Relaxed)),
            false => self.began,
        })
    }

    /// Completes when the peer has been waited for too long.
    ///
    /// No timer runs while a request is served. Otherwise one wakes as often as the shortest limit,
    /// so that requests need not set it.
    pub(super) async fn expired(&self) -> Expired {
        loop {
            match self.deadline() {
                None => self.idle.notified().await,
                Some((due, expired)) => {
                    let now = Instant::now();
                    if due <= now {
                        return expired;
                    }
                    tokio::time::sleep_until(due.min(now + HEAD_TIME_MAX)).await;
                }
            }
        }
    }

    fn deadline(&self) -> Option<(Instant, Expired)> {
        let idle_since = self.idle_since.load(Ordering::Acquire);
        if self.is_serving() {
            return None;
        }
        let flag = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let head_since = self.head_since.load(Ordering::Relaxed);
        let (since, limit, expired) = if flag(&self.is_http2) {
            (idle_since, IDLE_TIME_MAX, Expired::Idle)
        } else if flag(&self.has_agreed_on_http2) {
            (idle_since, PREFACE_TIME_MAX, Expired::Head)
        } else if !flag(&self.was_asked) {
            (idle_since, HEAD_TIME_MAX, Expired::Head)
        } else if head_since > 0 {
            (head_since, HEAD_TIME_MAX, Expired::Head)
        } else {
            (idle_since, IDLE_TIME_MAX, Expired::Idle)
        };
        Some((self.began + Duration::from_millis(since) + limit, expired))
    }

    /// Notes that bytes came which may begin the head of a request of HTTP/1.1.
    fn receive(&self) {
        if !self.is_http2.load(Ordering::Relaxed) && !self.is_serving() {
            self.has_begun.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that no more bytes are there. The time is read only now, as most heads come whole.
    fn wait(&self) {
        let has_begun = self.has_begun.load(Ordering::Relaxed);
        if has_begun && self.head_since.load(Ordering::Relaxed) == 0 {
            self.head_since.store(self.now().max(1), Ordering::Relaxed);
        }
    }

    /// Milliseconds from the beginning.
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// A request or a session that is being served.
#[derive(Debug)]
pub(super) struct Serving(Arc<Activity>);

impl Drop for Serving {
    fn drop(&mut self) {
        let activity = &self.0;
        // Before the count: a reader that finds nothing served then reads when that began.
        activity.idle_since.store(activity.now(), Ordering::Release);
        if activity.serving.fetch_sub(1, Ordering::AcqRel) == 1 {
            activity.idle.notify_one();
        }
    }
}

/// A body whose request counts as served until it has been sent; then the request is logged.
pub(super) struct Counted<B> {
    pub(super) body: B,
    pub(super) _serving: Serving,
    pub(super) _logged: Option<Arc<Logged>>,
}

impl<B: Body + Unpin> Body for Counted<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that reports the bytes read from it to an [`Activity`].
#[derive(Debug)]
pub(super) struct Observed<S> {
    stream: S,
    activity: Arc<Activity>,
    /// The rest of HTTP/2's preface; empty once it has come or bytes differ from it.
    preface: &'static [u8],
}

impl<S> Observed<S> {
    pub(super) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self {
            stream,
            activity,
            preface: PREFACE,
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if !self.preface.is_empty() {
            let preface = mem::take(&mut self.preface);
            let length = preface.len().min(bytes.len());
            if preface[..length] == bytes[..length] {
                self.preface = &preface[length..];
                if self.preface.is_empty() {
                    self.activity.is_http2.store(true, Ordering::Relaxed);
                    return;
                }
            }
        }
        self.activity.receive();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Observed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            self.receive(&buffer.filled()[before..]);
        } else {
            self.activity.wait();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Observed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A connection, and the client's end of it.
    struct Connection {
        activity: Arc<Activity>,
        stream: Observed<tokio::io::DuplexStream>,
        client: tokio::io::DuplexStream,
    }

    impl Connection {
        fn open() -> Self {
            let activity = Arc::new(Activity::begin());
            let (stream, client) = tokio::io::duplex(64);
            let stream = Observed::new(stream, Arc::clone(&activity));
            Self {
                activity,
                stream,
                client,
            }
        }

        /// The server reads what the client has sent, until it would have to wait.
        async fn receive(&mut self, bytes: &[u8]) {
            self.client.write_all(bytes).await.expect("it is open");
            while self.stream.read_u8().now_or_never().is_some() {}
        }

        /// The seconds after which the connection expires, and by which limit.
        async fn expired(&self) -> (u64, Expired) {
            let began = Instant::now();
            let expired = self.activity.expired().await;
            (began.elapsed().as_secs(), expired)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_of_a_head_has_its_time_from_the_first_bytes() {
        let mut connection = Connection::open();
        drop(connection.activity.serve());
        tokio::time::advance(Duration::from_secs(20)).await;
        connection.receive(b"GET /").await;
        tokio::time::advance(Duration::from_secs(2)).await;
        connection.receive(b"api HTTP").await;
        assert_eq!(connection.expired().await, (30, Expired::Head));
    }

    #[tokio::test(start_paused = true)]
    async fn a_served_head_leaves_no_time_behind() {
        let mut connection = Connection::open();
        connection.client.write_all(b"GET").await.expect("open");
        for _ in 0..3 {
            connection.stream.read_u8().await.expect("it was written");
        }
        // The answer is ready before the server reads on.
        drop(connection.activity.serve());
        connection.receive(b"").await;
        assert_eq!(connection.expired().await, (90, Expired::Idle));
        let serving = connection.activity.serve();
        connection.receive(b"GET").await;
        drop(serving);
        connection.receive(b"").await;
        assert_eq!(connection.expired().await, (90, Expired::Idle));
    }
}
