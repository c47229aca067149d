//! The handshakes by which a connection becomes one of streams.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{
    CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::channels::Coding;
use super::{Io, Session};
use crate::endpoints::body::ResponseBody;
use crate::endpoints::response;
use crate::status::ApiError;

pub(crate) const UPGRADE_REQUIRED: &str = "Upgrade request required";

/// The protocol that is upgraded to when streams are not those of a WebSocket.
const SPDY: &str = "SPDY/3.1";
/// The prefix of the streams' protocol where SPDY goes through a WebSocket.
const TUNNEL_PREFIX: &str = "SPDY/3.1+";
const TUNNEL_SUFFIX: &str = ".k8s.io";

const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const ACCEPTED_PROTOCOLS: HeaderName =
    HeaderName::from_static("x-accepted-stream-protocol-versions");

/// The form in which the end of a process is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusForm {
    /// What went wrong, as text.
    Text,
    /// A `Status`, in the kubelet's words.
    V4,
    /// A `Status`, in the API server's words.
    V5,
}

/// A protocol of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Protocol {
    /// The name of the protocol; empty when a client asks for none.
    pub(crate) name: &'static str,
    base64: bool,
    pub(crate) status: StatusForm,
}

impl Protocol {
    const fn new(name: &'static str, base64: bool, status: StatusForm) -> Self {
        Self {
            name,
            base64,
            status,
        }
    }

    /// The coding of messages on its channels.
    pub(crate) fn coding(&self) -> Coding {
        Coding {
            base64: self.base64,
            closes: self.status == StatusForm::V5,
        }
    }
}

/// The protocols that serve something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocols {
    /// Over a WebSocket. The fifth version is the API server's own and precedes the kubelet's.
    channels: &'static [Protocol],
    /// Over SPDY.
    streams: &'static [Protocol],
    /// SPDY may go through a WebSocket.
    tunnels: bool,
}

/// The protocols of `exec` and `attach`.
pub(crate) const REMOTE_COMMAND: Protocols = Protocols {
    channels: &[
        Protocol::new("v5.channel.k8s.io", false, StatusForm::V5),
        Protocol::new("v4.channel.k8s.io", false, StatusForm::V4),
        Protocol::new("v4.base64.channel.k8s.io", true, StatusForm::V4),
        Protocol::new("channel.k8s.io", false, StatusForm::Text),
        Protocol::new("base64.channel.k8s.io", true, StatusForm::Text),
        Protocol::new("", false, StatusForm::Text),
    ],
    streams: &[
        Protocol::new("v4.channel.k8s.io", false, StatusForm::V4),
        Protocol::new("v3.channel.k8s.io", false, StatusForm::Text),
        Protocol::new("v2.channel.k8s.io", false, StatusForm::Text),
        Protocol::new("channel.k8s.io", false, StatusForm::Text),
    ],
    tunnels: false,
};

/// The protocols of `portforward`.
pub(crate) const PORT_FORWARD: Protocols = Protocols {
    channels: &[
        Protocol::new("v4.channel.k8s.io", false, StatusForm::Text),
        Protocol::new("v4.base64.channel.k8s.io", true, StatusForm::Text),
        Protocol::new("", false, StatusForm::Text),
    ],
    streams: &[Protocol::new("portforward.k8s.io", false, StatusForm::Text)],
    tunnels: true,
};

#[cfg(test)]
impl Protocols {
    /// The protocol of this name over SPDY.
    pub(crate) fn stream(&self, name: &str) -> Option<Protocol> {
        self.streams.iter().copied().find(|own| own.name == name)
    }
}

/// What carries the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// Channels of a WebSocket.
    Channels,
    /// SPDY.
    Multiplexed,
    /// SPDY in a WebSocket.
    Tunnel,
}

/// The client's half of a handshake that is going to succeed.
#[derive(Debug)]
pub(crate) struct Handshake {
    pub(crate) carrier: Carrier,
    pub(crate) protocol: Protocol,
    /// The key of a WebSocket.
    key: String,
}

/// The refusal of a handshake, in the words of the kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    code: u16,
    text: String,
    headers: Vec<(HeaderName, &'static str)>,
}

impl Refusal {
    fn new(code: u16, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
            headers: Vec::new(),
        }
    }

    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        let mut response = response::text(self.code, self.text);
        for (name, value) in self.headers {
            let value = HeaderValue::from_static(value);
            response.headers_mut().append(name, value);
        }
        response
    }
}

/// Checks that the client asks for another protocol at all.
///
/// # Errors
/// `BadRequest` if it does not.
pub(crate) fn check(headers: &HeaderMap) -> Result<(), ApiError> {
    let mut connection = headers.get_all(CONNECTION).into_iter();
    let asks = connection.any(|value| {
        let value = value.to_str().unwrap_or_default();
        value.to_ascii_lowercase().contains("upgrade")
    });
    match asks {
        true => Ok(()),
        false => Err(ApiError::BadRequest(UPGRADE_REQUIRED.to_owned())),
    }
}

/// Whether the other protocol is that of WebSockets.
pub(crate) fn is_websocket(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(UPGRADE);
    upgrade.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Whether SPDY is to go through a WebSocket.
pub(crate) fn is_tunnel(headers: &HeaderMap, protocols: Protocols) -> bool {
    protocols.tunnels && is_websocket(headers) && tunneled(headers).next().is_some()
}

impl Handshake {
    /// Reads the headers of a request for an upgrade, by GET unless `is_post`.
    ///
    /// # Errors
    /// A refusal if it can't be for any of `protocols`.
    pub(crate) fn read(
        headers: &HeaderMap,
        is_post: bool,
        protocols: Protocols,
    ) -> Result<Self, Refusal> {
        let offered = protocols.streams;
        if !is_websocket(headers) {
            let protocol = stream_protocol(headers, offered)?;
            let upgrade = headers.get(UPGRADE);
            let upgrade = upgrade.and_then(|value| value.to_str().ok());
            let is_spdy = upgrade.is_some_and(|value| value.eq_ignore_ascii_case(SPDY));
            if !is_spdy {
                let text = "unable to upgrade: missing upgrade headers in request\n";
                return Err(Refusal::new(400, text));
            }
            return Ok(Self {
                carrier: Carrier::Multiplexed,
                protocol,
                key: String::new(),
            });
        }
        if is_tunnel(headers, protocols) {
            let asked: Vec<&str> = tunneled(headers).collect();
            let protocol = negotiate(&asked, offered)?;
            return Ok(Self {
                carrier: Carrier::Tunnel,
                protocol,
                key: websocket_key(headers, is_post)?,
            });
        }
        let key = websocket_key(headers, is_post)?;
        let mut asked: Vec<&str> = tokens(headers, &SEC_WEBSOCKET_PROTOCOL).collect();
        if asked.is_empty() {
            asked.push("");
        }
        let named = |name: &&str| protocols.channels.iter().find(|own| own.name == *name);
        // The API server prefers its own version, wherever the client lists it.
        let own = asked.iter().filter_map(named);
        let own = own
            .clone()
            .find(|own| own.status == StatusForm::V5)
            .or(own.clone().next());
        let Some(protocol) = own else {
            return Err(Refusal::new(403, ""));
        };
        Ok(Self {
            carrier: Carrier::Channels,
            protocol: *protocol,
            key,
        })
    }

    /// The answer that upgrades the connection, which is then that of `session`.
    pub(crate) fn accept<F>(
        &self,
        upgrade: OnUpgrade,
        session: impl FnOnce(Io) -> F + Send + 'static,
    ) -> Response<ResponseBody>
    where
        F: Future<Output = ()> + Send,
    {
        let mut response = Response::new(ResponseBody::whole(Bytes::new()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        let name = self.protocol.name;
        if self.carrier == Carrier::Multiplexed {
            headers.insert(UPGRADE, HeaderValue::from_static(SPDY));
            headers.insert(STREAM_PROTOCOL, HeaderValue::from_static(name));
        } else {
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
            let accept = derive_accept_key(self.key.as_bytes());
            let accept = HeaderValue::from_str(&accept).expect("base64 is a header");
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
            let name = match self.carrier {
                Carrier::Tunnel => format!("{TUNNEL_PREFIX}{name}"),
                Carrier::Channels | Carrier::Multiplexed => name.to_owned(),
            };
            if !name.is_empty() {
                let name = HeaderValue::from_str(&name).expect("a protocol is a header");
                headers.insert(SEC_WEBSOCKET_PROTOCOL, name);
            }
        }
        let session = Session::new(async move {
            if let Ok(upgraded) = upgrade.await {
                session(TokioIo::new(upgraded)).await;
            }
        });
        response.extensions_mut().insert(session);
        response
    }
}

/// The key of a WebSocket's handshake, which is checked as Go's `websocket` checks it.
fn websocket_key(headers: &HeaderMap, is_post: bool) -> Result<String, Refusal> {
    if is_post {
        return Err(Refusal::new(405, "bad method"));
    }
    let key = headers.get(SEC_WEBSOCKET_KEY);
    let key = key.and_then(|key| key.to_str().ok()).unwrap_or_default();
    let is_key = STANDARD.decode(key).is_ok_and(|nonce| nonce.len() == 16);
    if !is_key {
        return Err(Refusal::new(400, "mismatch challenge/response"));
    }
    let version = headers.get(SEC_WEBSOCKET_VERSION);
    if version.is_none_or(|version| version.as_bytes() != b"13") {
        return Err(Refusal {
            headers: vec![(SEC_WEBSOCKET_VERSION, "13")],
            ..Refusal::new(400, "missing or bad WebSocket Version")
        });
    }
    Ok(key.to_owned())
}

/// The protocols of streams that a client asks for through a WebSocket.
fn tunneled(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    tokens(headers, &SEC_WEBSOCKET_PROTOCOL).filter_map(|name| {
        let name = name.strip_prefix(TUNNEL_PREFIX)?;
        name.ends_with(TUNNEL_SUFFIX).then_some(name)
    })
}

/// The protocol of streams over SPDY. Mirrors `httpstream.Handshake`.
fn stream_protocol(headers: &HeaderMap, offered: &'static [Protocol]) -> Result<Protocol, Refusal> {
    if !headers.contains_key(&STREAM_PROTOCOL) {
        let count = headers.keys_len();
        let text = format!(
            "unable to upgrade: header X-Stream-Protocol-Version does not exist in request with {count} headers\n"
        );
        return Err(Refusal::new(400, text));
    }
    let asked: Vec<&str> = tokens(headers, &STREAM_PROTOCOL).collect();
    if asked.is_empty() {
        let lines = headers.get_all(&STREAM_PROTOCOL).into_iter();
        let lines: Vec<&str> = lines.filter_map(|line| line.to_str().ok()).collect();
        let text = format!(
            "unable to upgrade: header X-Stream-Protocol-Version contains [{}], but no valid protocols\n",
            lines.join(" ")
        );
        return Err(Refusal::new(400, text));
    }
    negotiate(&asked, offered)
}

/// The first requested protocol that is offered.
fn negotiate(asked: &[&str], offered: &'static [Protocol]) -> Result<Protocol, Refusal> {
    let named = |name: &&str| offered.iter().find(|own| own.name == *name);
    if let Some(protocol) = asked.iter().find_map(named) {
        return Ok(*protocol);
    }
    let names: Vec<&'static str> = offered.iter().map(|own| own.name).collect();
    let text = format!(
        "unable to upgrade: unable to negotiate protocol: client supports [{}], server accepts [{}]\n",
        asked.join(" "),
        names.join(" ")
    );
    Err(Refusal {
        headers: names
            .into_iter()
            .map(|name| (ACCEPTED_PROTOCOLS, name))
            .collect(),
        ..Refusal::new(403, text)
    })
}

/// The tokens of a header that lists them between commas.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).into_iter();
    lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(',').map(str::trim))
        .filter(|token| !token.is_empty())
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

    fn websocket(protocols: &'static str) -> HeaderMap {
        headers(&[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-version", "13"),
            ("sec-websocket-protocol", protocols),
        ])
    }

    /// What carries the streams, and their protocol.
    fn chosen(headers: &HeaderMap, protocols: Protocols) -> (Carrier, &'static str) {
        let handshake = Handshake::read(headers, false, protocols).unwrap();
        (handshake.carrier, handshake.protocol.name)
    }

    #[test]
    fn the_first_protocol_that_is_served_is_chosen_and_the_servers_own_before() {
        for (asked, name) in [
            ("v5.channel.k8s.io", "v5.channel.k8s.io"),
            ("v4.channel.k8s.io, v5.channel.k8s.io", "v5.channel.k8s.io"),
            (
                "v1,v4.base64.channel.k8s.io,v4.channel.k8s.io",
                "v4.base64.channel.k8s.io",
            ),
            ("", ""),
        ] {
            let found = chosen(&websocket(asked), REMOTE_COMMAND);
            assert_eq!(found, (Carrier::Channels, name), "{asked}");
        }
        for (asked, carrier, name) in [
            (
                "v5.channel.k8s.io, v4.channel.k8s.io",
                Carrier::Channels,
                "v4.channel.k8s.io",
            ),
            (
                "SPDY/3.1+portforward.k8s.io",
                Carrier::Tunnel,
                "portforward.k8s.io",
            ),
            ("", Carrier::Channels, ""),
        ] {
            assert_eq!(
                chosen(&websocket(asked), PORT_FORWARD),
                (carrier, name),
                "{asked}"
            );
        }
        let spdy = headers(&[
            ("connection", "Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "v5.channel.k8s.io"),
            (
                "x-stream-protocol-version",
                "v4.channel.k8s.io, v3.channel.k8s.io",
            ),
        ]);
        let mut spdy_twice = HeaderMap::new();
        for (name, value) in &spdy {
            spdy_twice.append(name, value.clone());
        }
        let found = chosen(&spdy_twice, REMOTE_COMMAND);
        assert_eq!(found, (Carrier::Multiplexed, "v4.channel.k8s.io"));
    }

    #[test]
    fn other_handshakes_are_refused_in_upstreams_words() {
        let without = |name: &str| {
            let mut headers = websocket("v4.channel.k8s.io");
            headers.remove(name);
            headers
        };
        let spdy = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
        let other = [
            ("connection", "Upgrade"),
            ("upgrade", "h2c"),
            ("x-stream-protocol-version", "portforward.k8s.io"),
        ];
        let foreign = [spdy[0], spdy[1], ("x-stream-protocol-version", "a, b")];
        let none = [spdy[0], spdy[1], ("x-stream-protocol-version", ",")];
        for (headers, code, text) in [
            (websocket("v1"), 403, ""),
            (
                without("sec-websocket-key"),
                400,
                "mismatch challenge/response",
            ),
            (
                without("sec-websocket-version"),
                400,
                "missing or bad WebSocket Version",
            ),
            (
                websocket("SPDY/3.1+a.k8s.io"),
                403,
                "unable to upgrade: unable to negotiate protocol: client supports [a.k8s.io], \
                 server accepts [portforward.k8s.io]\n",
            ),
            (
                headers(&spdy),
                400,
                "unable to upgrade: header X-Stream-Protocol-Version does not exist in request with 2 headers\n",
            ),
            (
                headers(&none),
                400,
                "unable to upgrade: header X-Stream-Protocol-Version contains [,], but no valid protocols\n",
            ),
            (
                headers(&foreign),
                403,
                "unable to upgrade: unable to negotiate protocol: client supports [a b], \
                 server accepts [portforward.k8s.io]\n",
            ),
            (
                headers(&other),
                400,
                "unable to upgrade: missing upgrade headers in request\n",
            ),
        ] {
            let refusal = Handshake::read(&headers, false, PORT_FORWARD).unwrap_err();
            assert_eq!((refusal.code, refusal.text.as_str()), (code, text));
        }
        let posted = Handshake::read(&websocket("v4.channel.k8s.io"), true, REMOTE_COMMAND);
        assert_eq!(posted.unwrap_err(), Refusal::new(405, "bad method"));
        let required = ApiError::BadRequest(UPGRADE_REQUIRED.to_owned());
        assert_eq!(check(&HeaderMap::new()), Err(required));
        assert_eq!(check(&websocket("")), Ok(()));
    }
}
