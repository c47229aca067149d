//! A client of HTTP/1.1 with one connection, that does little more than count.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// Bytes read from a connection at a time.
const READ: usize = 256 * 1024;

/// The address of the server and the credentials that it asks for.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<TlsConnector>,
    pub(crate) token: String,
}

/// A connector that trusts the authority of `pem` and speaks HTTP/1.1.
pub(crate) fn connector(pem: &[u8]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(pem).expect("the kubeconfig holds PEM");
    roots.add(authority).expect("it is a certificate");
    let mut config =
        ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring knows the default versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    TlsConnector::from(Arc::new(config))
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// One connection that is kept open.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    token: String,
    /// The part of the answer that was read and not used yet.
    read: Vec<u8>,
}

/// The framing of the body of an answer.
enum Length {
    Known(usize),
    Chunked,
}

impl Connection {
    pub(crate) async fn open(target: &Target) -> Self {
        let stream = TcpStream::connect(target.address)
            .await
            .expect("it listens");
        stream.set_nodelay(true).expect("a socket has this option");
        let stream: Box<dyn Stream> = match &target.tls {
            None => Box::new(stream),
            Some(connector) => {
                let name = ServerName::from(target.address.ip());
                let stream = connector.connect(name, stream).await;
                Box::new(stream.expect("the authority is trusted"))
            }
        };
        Self {
            stream,
            token: target.token.clone(),
            read: Vec::with_capacity(READ),
        }
    }

    /// Sends a request and reads its answer whole: the code and the body.
    pub(crate) async fn request(
        &mut self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &[u8],
    ) -> (u16, Vec<u8>) {
        self.send(method, path, content_type, body).await;
        let (code, length) = self.head().await;
        let body = match length {
            Length::Known(length) => {
                let mut body = std::mem::replace(&mut self.read, Vec::with_capacity(READ));
                body.reserve(length.saturating_sub(body.len()));
                while body.len() < length {
                    self.fill(&mut body).await;
                }
                assert_eq!(body.len(), length, "one answer to one request");
                body
            }
            Length::Chunked => {
                let mut chunks = Chunks::default();
                let mut body = Vec::new();
                while !chunks.ended {
                    chunks.feed(&self.read, |data| body.extend_from_slice(data));
                    self.read.clear();
                    if !chunks.ended {
                        self.more().await;
                    }
                }
                body
            }
        };
        (code, body)
    }

    async fn send(&mut self, method: &str, path: &str, content_type: &str, body: &[u8]) {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nhost: kubernetes\r\naccept: application/json\r\n\
             user-agent: kube-controller-manager/v1.36.2 (linux/amd64)\r\n\
             authorization: Bearer {}\r\n",
            self.token
        );
        if !content_type.is_empty() {
            let length = body.len();
            request += &format!("content-type: {content_type}\r\ncontent-length: {length}\r\n");
        }
        request += "\r\n";
        let mut request = request.into_bytes();
        request.extend_from_slice(body);
        let sent = self.stream.write_all(&request).await;
        sent.expect("the server reads");
        self.stream.flush().await.expect("the server reads");
    }

    /// Reads the head of an answer; what is read beyond it stays.
    async fn head(&mut self) -> (u16, Length) {
        let end = loop {
            let end = self.read.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = end {
                break end;
            }
            self.more().await;
        };
        let head = std::str::from_utf8(&self.read[..end]).expect("heads are text");
        let code = head[9..12].parse().expect("a code has three digits");
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            let is_length = name.eq_ignore_ascii_case("content-length");
            is_length.then(|| value.parse().expect("a length is a number"))
        });
        self.read.drain(..end + 4);
        (code, length.map_or(Length::Chunked, Length::Known))
    }

    async fn more(&mut self) {
        let mut read = std::mem::take(&mut self.read);
        self.fill(&mut read).await;
        self.read = read;
    }

    async fn fill(&mut self, buffer: &mut Vec<u8>) {
        if buffer.capacity() - buffer.len() < READ / 4 {
            buffer.reserve(READ);
        }
        let count = self.stream.read_buf(buffer).await.expect("it answers");
        assert!(count > 0, "the server has ended the connection");
    }

    /// Opens a watch and answers once the server has.
    pub(crate) async fn watch(mut self, path: &str) -> Watch {
        self.send("GET", path, "", b"").await;
        let (code, _) = self.head().await;
        assert_eq!(code, 200, "a watch is granted");
        Watch {
            connection: self,
            chunks: Chunks::default(),
            bytes: 0,
        }
    }
}

/// An open watch.
pub(crate) struct Watch {
    connection: Connection,
    chunks: Chunks,
    pub(crate) bytes: usize,
}

impl Watch {
    /// Waits for events and counts them; each is a line.
    pub(crate) async fn next(&mut self) -> usize {
        let mut lines = 0;
        while lines == 0 {
            if self.connection.read.is_empty() {
                self.connection.more().await;
            }
            let bytes = &mut self.bytes;
            self.chunks.feed(&self.connection.read, |data| {
                *bytes += data.len();
                lines += data
                    .iter()
                    .map(|byte| usize::from(*byte == b'\n'))
                    .sum::<usize>();
            });
            self.connection.read.clear();
        }
        lines
    }
}

/// The state of reading a body that comes in chunks.
#[derive(Default)]
struct Chunks {
    /// Bytes of the chunk that are still to come.
    left: usize,
    /// The line with the next chunk's length, as far as it has been read.
    line: Vec<u8>,
    ended: bool,
}

impl Chunks {
    fn feed(&mut self, mut bytes: &[u8], mut data: impl FnMut(&[u8])) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let (now, rest) = bytes.split_at(self.left.min(bytes.len()));
                data(now);
                self.left -= now.len();
                bytes = rest;
                continue;
            }
            self.line.push(bytes[0]);
            bytes = &bytes[1..];
            // The line that ends the chunk before is empty.
            if self.line == b"\r\n" {
                self.line.clear();
            }
            if self.line.ends_with(b"\r\n") {
                let digits = std::str::from_utf8(&self.line).expect("lengths are text");
                self.left = usize::from_str_radix(digits.trim(), 16).expect("it is hexadecimal");
                self.ended = self.left == 0;
                self.line.clear();
            }
            if self.ended {
                return;
            }
        }
    }
}
