//! A server of hyper and rustls that does nothing but answer: no server can do better in a row than this one does.
//!
//! It reads requests whole and answers with as many bytes as [`Answers`] sets. It runs as a process of its
//! own, as the others do: this program with the argument [`BARE`].

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use kubeproof_apiserver::Tls;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The argument with which this program is the bare server; `--plain` may follow.
pub(crate) const BARE: &str = "--bare-server";

/// The path at which the server's answers are set.
const ANSWERS: &str = "/answers";

/// The answers of the bare server, in bytes and codes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answers {
    /// The code of an answer.
    pub(crate) code: u16,
    /// The length of an answer's body.
    pub(crate) body: usize,
    /// The length of the line that a watch begins with; 0 for none.
    pub(crate) first: usize,
    /// The length of the line that each watch gets upon each write; 0 for none.
    pub(crate) event: usize,
}

impl Answers {
    /// An empty body, and nothing in watches.
    fn nothing() -> Self {
        Self::of(200, 0)
    }

    /// Bodies of this length, and nothing in watches.
    pub(crate) fn of(code: u16, body: usize) -> Self {
        Self {
            code,
            body,
            first: 0,
            event: 0,
        }
    }

    /// The path of the request that sets these answers.
    pub(crate) fn path(self) -> String {
        let Self {
            code,
            body,
            first,
            event,
        } = self;
        format!("{ANSWERS}/{code}/{body}/{first}/{event}")
    }

    fn parse(path: &str) -> Option<Self> {
        let mut numbers = path.strip_prefix(ANSWERS)?.split('/').skip(1);
        let mut number = || numbers.next()?.parse().ok();
        Some(Self {
            code: u16::try_from(number()?).ok()?,
            body: number()?,
            first: number()?,
            event: number()?,
        })
    }
}

/// The answers as bytes.
#[derive(Clone)]
struct Served {
    code: StatusCode,
    body: Bytes,
    first: Bytes,
    event: Bytes,
}

impl From<Answers> for Served {
    fn from(answers: Answers) -> Self {
        // Lines of a watch end with a line break.
        let line = |length: usize| match length.checked_sub(1) {
            Some(text) => [vec![b'x'; text], vec![b'\n']].concat().into(),
            None => Bytes::new(),
        };
        Self {
            code: StatusCode::from_u16(answers.code).expect("another server has answered it"),
            body: vec![b'x'; answers.body].into(),
            first: line(answers.first),
            event: line(answers.event),
        }
    }
}

/// The state of the server.
struct Bare {
    served: Mutex<Served>,
    /// The number of writes that watches report.
    writes: watch::Sender<usize>,
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Serves until the process is ended; prints its URL first, as `kubeproof serve` does.
pub(crate) async fn serve(tls: bool) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    let acceptor = tls.then(|| Tls::generate(address.ip()).acceptor());
    let bare = Arc::new(Bare {
        served: Mutex::new(Answers::nothing().into()),
        writes: watch::Sender::new(0),
    });
    println!("http://{address}");
    loop {
        let (stream, _) = listener.accept().await.expect("it listens");
        stream.set_nodelay(true).expect("a socket has this option");
        let (acceptor, bare) = (acceptor.clone(), Arc::clone(&bare));
        tokio::spawn(async move {
            match acceptor {
                None => connection(stream, bare).await,
                Some(acceptor) => {
                    let stream = acceptor.accept(stream).await;
                    connection(stream.expect("clients speak TLS"), bare).await;
                }
            }
        });
    }
}

async fn connection(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, bare: Arc<Bare>) {
    let service = service_fn(move |request| answer(request, Arc::clone(&bare)));
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // A client that goes away is no failure.
    let _ = served.await;
}

async fn answer(request: Request<Incoming>, bare: Arc<Bare>) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let read = body.collect().await;
    read.expect("clients send their requests whole");
    if let Some(answers) = Answers::parse(head.uri.path()) {
        *bare.served.lock() = answers.into();
        return Ok(Response::new(Full::default().boxed_unsync()));
    }
    let query = head.uri.query().unwrap_or_default();
    if query.contains("watch=1") {
        return Ok(Response::new(lines(bare)));
    }
    let served = bare.served.lock().clone();
    if head.method != Method::GET && !served.event.is_empty() {
        bare.writes.send_modify(|writes| *writes += 1);
    }
    let mut response = Response::new(Full::new(served.body).boxed_unsync());
    *response.status_mut() = served.code;
    Ok(response)
}

/// The lines of a watch: its first, and one for each write from now on.
fn lines(bare: Arc<Bare>) -> Body {
    let first = bare.served.lock().first.clone();
    let first = futures::stream::iter((!first.is_empty()).then_some(first));
    let writes = bare.writes.subscribe();
    let seen = *writes.borrow();
    let later = futures::stream::unfold(
        (bare, writes, seen),
        |(bare, mut writes, seen)| async move {
            while *writes.borrow_and_update() == seen {
                writes.changed().await.ok()?;
            }
            let event = bare.served.lock().event.clone();
            Some((event, (bare, writes, seen + 1)))
        },
    );
    StreamBody::new(first.chain(later).map(|line| Ok(Frame::data(line)))).boxed_unsync()
}
