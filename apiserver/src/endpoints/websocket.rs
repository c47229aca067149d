//! The streams of a container over a WebSocket: `v4.channel.k8s.io` and `v5.channel.k8s.io`.
//!
//! Each message is a byte that says which stream it is of, and a part of that.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::stream::{FusedStream, SplitSink};
use futures::{FutureExt, SinkExt, StreamExt};
use http::header::{
    CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, UPGRADE,
};
use http::{HeaderMap, Response, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::body::ResponseBody;
use crate::kubelet::{ContainerStreams, OutputStream};
use crate::status::ApiError;

pub(crate) const UPGRADE_REQUIRED: &str = "Upgrade request required";

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
/// Of version 5: its one byte of content names a stream that the client has no more of.
const CLOSE: u8 = 255;

/// The version of the protocol on the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V4,
    V5,
}

impl Version {
    const ALL: [Self; 2] = [Self::V5, Self::V4];

    fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "v4.channel.k8s.io",
            Self::V5 => "v5.channel.k8s.io",
        }
    }
}

/// Which streams the client wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    /// It has one stream for both.
    pub(crate) terminal: bool,
}

/// The client's half of a handshake.
#[derive(Debug)]
pub(crate) struct Handshake {
    key: String,
    version: Version,
}

/// What takes over a connection, once it has been upgraded.
#[derive(Clone)]
pub(crate) struct Session(Arc<Mutex<Option<BoxFuture<'static, ()>>>>);

impl Session {
    /// What is to be run on the connection; once.
    pub(crate) fn start(&self) -> Option<BoxFuture<'static, ()>> {
        self.0.lock().take()
    }
}

impl Handshake {
    /// Reads the headers of a request for an upgrade.
    ///
    /// # Errors
    /// `BadRequest` if it is none, or not for a protocol that is served.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Self, ApiError> {
        let has = |header: HeaderName, token: &str| {
            let mut tokens = tokens(headers, &header);
            tokens.any(|own| own.eq_ignore_ascii_case(token))
        };
        if !has(CONNECTION, "upgrade") || !has(UPGRADE, "websocket") {
            return Err(ApiError::BadRequest(UPGRADE_REQUIRED.to_owned()));
        }
        let key = headers.get(SEC_WEBSOCKET_KEY);
        let key = key.and_then(|key| key.to_str().ok()).unwrap_or_default();
        if STANDARD.decode(key).is_ok_and(|nonce| nonce.len() == 16) {
            let version = tokens(headers, &SEC_WEBSOCKET_PROTOCOL)
                .find_map(|name| Version::ALL.into_iter().find(|own| own.as_str() == name))
                .ok_or_else(|| {
                    let asked: Vec<&str> = tokens(headers, &SEC_WEBSOCKET_PROTOCOL).collect();
                    ApiError::BadRequest(format!(
                        "unable to upgrade: requested protocols {asked:?} are not supported"
                    ))
                })?;
            let key = key.to_owned();
            return Ok(Self { key, version });
        }
        Err(ApiError::BadRequest(
            "mismatch challenge/response".to_owned(),
        ))
    }

    /// The streams that tell of a kubelet's failure: the server speaks version 5 itself, and has
    /// upgraded the connection before it asks. Version 4 is the kubelet's own, which refuses.
    pub(crate) fn failed(&self, text: &str) -> Option<ContainerStreams> {
        let message = format!("unable to upgrade connection: {text}");
        (self.version == Version::V5).then(|| ContainerStreams {
            output: futures::stream::empty().boxed(),
            input: None,
            ended: std::future::ready(Err(message)).boxed(),
        })
    }

    /// The answer that upgrades the connection, which is then `streams`' own.
    pub(crate) fn accept(
        &self,
        upgrade: OnUpgrade,
        streams: ContainerStreams,
        wanted: Wanted,
        command: Vec<String>,
    ) -> Response<ResponseBody> {
        let mut response = Response::new(ResponseBody::whole(Bytes::new()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let accept = derive_accept_key(self.key.as_bytes());
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(
            SEC_WEBSOCKET_ACCEPT,
            HeaderValue::from_str(&accept).expect("base64 is a header"),
        );
        headers.insert(
            SEC_WEBSOCKET_PROTOCOL,
            HeaderValue::from_static(self.version.as_str()),
        );
        let version = self.version;
        let session = async move {
            if let Ok(upgraded) = upgrade.await {
                serve(upgraded, streams, wanted, version, &command).await;
            }
        };
        let session = Session(Arc::new(Mutex::new(Some(session.boxed()))));
        response.extensions_mut().insert(session);
        response
    }
}

/// The tokens of a header that lists them between commas.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).into_iter();
    lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(',').map(str::trim))
}

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Passes messages on until the process has ended, or the client is gone.
async fn serve(
    upgraded: Upgraded,
    streams: ContainerStreams,
    wanted: Wanted,
    version: Version,
    command: &[String],
) {
    let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None);
    let (mut writer, mut reader) = socket.await.split();
    let ContainerStreams {
        output,
        mut input,
        ended,
    } = streams;
    let mut output = output.fuse();
    let mut ended = ended.fuse();
    // An empty message tells the client that the streams are open.
    let first = if wanted.stdout { STDOUT } else { STDERR };
    let mut sent = send(&mut writer, first, b"").await;
    let mut end = None;
    // What the process has no room for yet.
    let mut pending = None;
    while sent.is_ok() && (end.is_none() || !output.is_terminated()) {
        tokio::select! {
            biased;
            written = output.next(), if !output.is_terminated() => {
                let (channel, takes) = match &written {
                    Some((OutputStream::Stdout, _)) => (STDOUT, wanted.stdout),
                    Some(_) if wanted.terminal => (STDOUT, wanted.stdout),
                    _ => (STDERR, wanted.stderr),
                };
                if let Some((_, bytes)) = written.filter(|_| takes) {
                    sent = send(&mut writer, channel, &bytes).await;
                }
            }
            result = &mut ended, if end.is_none() => end = Some(result),
            taken = pass(&input, &mut pending), if pending.is_some() => {
                if !taken {
                    input = None;
                }
            }
            message = reader.next(), if pending.is_none() => {
                let bytes = match message {
                    Some(Ok(Message::Binary(bytes))) => bytes,
                    Some(Ok(Message::Text(text))) => text.into(),
                    // Pings are answered with the next message.
                    Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                };
                // Terminals have no size here.
                match &*bytes {
                    [STDIN, ..] if input.is_some() => pending = Some(bytes.slice(1..)),
                    [CLOSE, STDIN] => input = None,
                    _ => {}
                }
            }
        }
    }
    if let Some(end) = end.filter(|_| sent.is_ok()) {
        let status = status(&end, version, command).to_string();
        // Who is gone does not ask how it ended.
        if send(&mut writer, ERROR, status.as_bytes()).await.is_ok() {
            let normal = CloseFrame {
                code: CloseCode::Normal,
                reason: "".into(),
            };
            let _ = writer.send(Message::Close(Some(normal))).await;
            let _ = writer.close().await;
        }
    }
}

async fn send(
    writer: &mut SplitSink<Socket, Message>,
    channel: u8,
    bytes: &[u8],
) -> Result<(), Error> {
    let mut message = BytesMut::with_capacity(bytes.len() + 1);
    message.put_u8(channel);
    message.put_slice(bytes);
    writer.send(Message::Binary(message.freeze())).await
}

/// Gives what is pending to the process; false if it reads no more.
///
/// Cancel safety: what is pending is taken only once there is room for it.
async fn pass(input: &Option<Sender<Bytes>>, pending: &mut Option<Bytes>) -> bool {
    let room = match input {
        Some(input) => input.reserve().await.ok(),
        None => None,
    };
    let bytes = pending.take();
    match (room, bytes) {
        (Some(room), Some(bytes)) => {
            room.send(bytes);
            true
        }
        _ => false,
    }
}

/// How the process ended, as the error stream tells it.
fn status(end: &Result<i32, String>, version: Version, command: &[String]) -> Value {
    match end {
        Ok(0) => json!({ "metadata": {}, "status": "Success" }),
        Ok(code) => {
            // The server speaks version 5 itself and has the code alone; the kubelet says more.
            let why = match version {
                Version::V4 => format!(
                    "error executing command [{}], exit code {code}",
                    command.join(" ")
                ),
                Version::V5 => format!("command terminated with exit code {code}"),
            };
            json!({
                "metadata": {},
                "status": "Failure",
                "message": format!("command terminated with non-zero exit code: {why}"),
                "reason": "NonZeroExitCode",
                "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
            })
        }
        Err(why) => ApiError::Internal(why.clone()).to_status(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(rows: &[(&'static str, &'static str)]) -> HeaderMap {
        let rows = rows.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        rows.collect()
    }

    #[test]
    fn a_handshake_takes_the_first_protocol_that_is_served() {
        let asked = |protocols| {
            headers(&[
                ("connection", "keep-alive, Upgrade"),
                ("upgrade", "websocket"),
                ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
                ("sec-websocket-protocol", protocols),
            ])
        };
        for (protocols, version) in [
            ("v5.channel.k8s.io", Version::V5),
            ("v4.channel.k8s.io, v5.channel.k8s.io", Version::V4),
            ("v1, v5.channel.k8s.io", Version::V5),
        ] {
            let handshake = Handshake::read(&asked(protocols)).unwrap();
            assert_eq!(handshake.version, version, "{protocols}");
        }
        assert!(Handshake::read(&asked("v1")).is_err());
        let spdy = headers(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")]);
        let refused = Handshake::read(&spdy).unwrap_err();
        assert_eq!(refused, ApiError::BadRequest(UPGRADE_REQUIRED.to_owned()));
    }

    #[test]
    fn the_end_of_a_process_is_a_status() {
        let command = ["sh".to_owned(), "x".to_owned()];
        let success = status(&Ok(0), Version::V5, &command);
        assert_eq!(success, json!({"metadata": {}, "status": "Success"}));
        let v4 = status(&Ok(3), Version::V4, &command);
        assert_eq!(
            v4["message"],
            "command terminated with non-zero exit code: \
             error executing command [sh x], exit code 3"
        );
        assert_eq!(v4["details"]["causes"][0]["message"], "3");
        let lost = status(&Err("why".to_owned()), Version::V5, &command);
        assert_eq!(lost["reason"], "InternalError");
    }
}
