//! Connections to webhooks, one for each call.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::{CallError, Failed, WebhookClient, WebhookConfig, WebhookKubeconfig, service, tls};
use crate::json::Value;
use crate::x509::ca_bundle;

/// The user agent of calls to webhooks of admission.
const ADMISSION_AGENT: &str = "kube-apiserver-admission";
/// The user agent of calls to webhooks of authentication and authorization.
const SERVER_AGENT: &str = "kube-apiserver";

/// The number of bytes that an error shows of an unsuccessful answer.
const SHOWN_BYTES_MAX: usize = 2048;

/// The number of bytes that are read of any answer.
const ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// The size that an answer may have in addition, in sizes of the posted document: conversions
/// answer with all the objects they were sent.
const ANSWER_FACTOR: usize = 4;

/// The destination of a call.
pub(super) struct Target {
    /// `host:port` for the `Host` header and for errors; the port is left out where the URL has none.
    authority: String,
    /// The name that the certificate must have.
    host: String,
    path: String,
    /// The whole URL as errors show it.
    url: String,
    /// Absent for a server without TLS.
    connector: Option<TlsConnector>,
    /// The credentials of the call.
    authorization: Option<HeaderValue>,
    agent: &'static str,
    /// The address to connect to, or the reason why it is unknown.
    dial: Result<Dial, String>,
}

enum Dial {
    Address(SocketAddr),
    Name(Arc<str>),
}

impl Target {
    pub(super) fn of(
        client: &WebhookClient<'_>,
        config: &WebhookConfig<'_>,
    ) -> Result<Self, CallError> {
        let WebhookConfig {
            client_config,
            timeout,
        } = *config;
        let authorities = client.services.authorities_of(ca_bundle(client_config));
        let connector = tls::connector(&authorities).map_err(CallError::Config)?;
        let connector = Some(connector);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if client_config["service"].is_object() {
            let reference = &client_config["service"];
            let (namespace, name) = (text(&reference["namespace"]), text(&reference["name"]));
            let port = reference["port"]
                .as_u64()
                .and_then(|port| port.try_into().ok());
            let port: u16 = port.unwrap_or(443);
            let host = format!("{name}.{namespace}.svc");
            let authority = format!("{host}:{port}");
            let path = text(&reference["path"]);
            let seconds = timeout.as_secs();
            let path = format!("{}?timeout={seconds}s", cleaned(&path));
            let dial = service::resolve(client, &namespace, &name, port).map(Dial::Address);
            return Ok(Self {
                url: format!("https://{authority}{path}"),
                authority,
                host,
                path,
                connector,
                authorization: None,
                agent: ADMISSION_AGENT,
                dial,
            });
        }
        Self::at(&text(&client_config["url"]), connector, timeout).map_err(CallError::Config)
    }

    /// The server of a kubeconfig.
    ///
    /// # Errors
    /// When its URL cannot be parsed.
    pub(super) fn of_kubeconfig(
        config: &WebhookKubeconfig,
        timeout: Duration,
    ) -> Result<Self, String> {
        let mut target = Self::at(&config.server, config.connector.clone(), timeout)?;
        if let Some(name) = &config.server_name {
            target.host.clone_from(name);
        }
        Ok(Self {
            authorization: config.authorization.clone(),
            agent: SERVER_AGENT,
            ..target
        })
    }

    fn at(
        stated: &str,
        connector: Option<TlsConnector>,
        timeout: Duration,
    ) -> Result<Self, String> {
        let uri: Uri = stated
            .parse()
            .map_err(|error| format!("Unparsable URL: {error}"))?;
        let host = uri.host().unwrap_or_default();
        let host = host.trim_matches(['[', ']']).to_owned();
        let authority = uri
            .authority()
            .map_or_else(String::new, ToString::to_string);
        let seconds = timeout.as_secs();
        let path = format!("{}?timeout={seconds}s", cleaned(uri.path()));
        let (scheme, port) = match &connector {
            Some(_) => ("https", 443),
            None => ("http", 80),
        };
        let port = uri.port_u16().unwrap_or(port);
        let dial = match host.parse() {
            Ok(ip) => Dial::Address(SocketAddr::new(ip, port)),
            Err(_) => Dial::Name(format!("{host}:{port}").into()),
        };
        Ok(Self {
            url: format!("{scheme}://{authority}{path}"),
            authority,
            host,
            path,
            connector,
            authorization: None,
            agent: ADMISSION_AGENT,
            dial: Ok(dial),
        })
    }

    /// A failure of the call as Go's client words it.
    pub(super) fn refused(&self, why: &str) -> String {
        format!("Post {:?}: {why}", self.url)
    }

    /// Posts a document and collects the answer.
    ///
    /// # Errors
    /// The failure in the words of upstream's client.
    pub(super) async fn post(&self, body: Bytes) -> Result<Bytes, Failed> {
        let refused = |why: String| self.refused(&why);
        let stream = self.connect().await.map_err(refused)?;
        let Some(connector) = &self.connector else {
            return self.exchange(stream, body).await;
        };
        let name = ServerName::try_from(self.host.clone());
        let name = name.map_err(|error| self.refused(&error.to_string()))?;
        let secured = connector.connect(name, stream).await;
        let secured = secured.map_err(|error| self.refused(&tls::handshake_error(&error)))?;
        self.exchange(secured, body).await
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        body: Bytes,
    ) -> Result<Bytes, Failed> {
        let limit = ANSWER_BYTES.saturating_add(body.len().saturating_mul(ANSWER_FACTOR));
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.refused(&error.to_string()))?;
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&self.path)
            .header(HOST, &self.authority)
            .header(USER_AGENT, self.agent)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, */*");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request
            .body(Full::new(body))
            .map_err(|error| self.refused(&error.to_string()))?;
        let exchange = async {
            let response = sender.send_request(request).await;
            let (parts, body) = response.map_err(|_| self.refused("EOF"))?.into_parts();
            let body = Limited::new(body, limit).collect().await;
            let body = body.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    return self.refused(&format!("response body is larger than {limit} bytes"));
                }
                let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
                let why = match source.map(io::Error::kind) {
                    Some(ErrorKind::InvalidInput) => "invalid byte in chunk length",
                    _ => "unexpected EOF",
                };
                format!("unexpected error when reading response body. Please retry. Original error: {why}")
            });
            let body = body?.to_bytes();
            match parts.status.as_u16() {
                code @ 200..=206 if body.is_empty() => {
                    let media = parts.headers.get(CONTENT_TYPE);
                    let media = media
                        .and_then(|media| media.to_str().ok())
                        .unwrap_or_default();
                    let why = format!(
                        "0-length response with status code: {code} and content type: {media}"
                    );
                    Err(why.into())
                }
                200..=206 => Ok(body),
                code => Err(Failed {
                    why: status_error(code, &parts.headers, &body),
                    code,
                }),
            }
        };
        // The connection makes progress only while it is polled, and ends with the call.
        tokio::pin!(exchange, connection);
        tokio::select! {
            biased;
            answer = &mut exchange => answer,
            _ = &mut connection => exchange.await,
        }
    }

    async fn connect(&self) -> Result<TcpStream, String> {
        match self.dial.as_ref().map_err(Clone::clone)? {
            Dial::Address(address) => dial(*address).await,
            Dial::Name(name) => TcpStream::connect(&**name).await.map_err(|error| {
                let why = connect_error(&error);
                match why {
                    Some(why) => format!("dial tcp {name}: {why}"),
                    None => format!("dial tcp: lookup {}: no such host", self.host),
                }
            }),
        }
    }
}

/// Connects to an address.
///
/// # Errors
/// The failure in the words of Go's client.
pub(crate) async fn dial(address: SocketAddr) -> Result<TcpStream, String> {
    TcpStream::connect(address).await.map_err(|error| {
        let why = connect_error(&error).map_or_else(|| format!("connect: {error}"), str::to_owned);
        format!("dial tcp {address}: {why}")
    })
}

/// The text of Go's client for an error of `connect`; `None` for errors that it shows as the system does.
fn connect_error(error: &io::Error) -> Option<&'static str> {
    Some(match error.kind() {
        ErrorKind::ConnectionRefused => "connect: connection refused",
        ErrorKind::HostUnreachable => "connect: no route to host",
        ErrorKind::NetworkUnreachable => "connect: network is unreachable",
        ErrorKind::TimedOut => "connect: connection timed out",
        ErrorKind::ConnectionReset => "connect: connection reset by peer",
        _ => return None,
    })
}

/// The shortest path that means the same, as upstream's client asks for it.
fn cleaned(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// The error of upstream's client for an unsuccessful answer.
fn status_error(code: u16, headers: &http::HeaderMap, body: &[u8]) -> String {
    if let Some(message) = status_message(body) {
        return message;
    }
    let content_type = headers.get(CONTENT_TYPE).and_then(|own| own.to_str().ok());
    let is_text = content_type.is_none_or(|own| own.is_empty() || own.starts_with("text/"));
    let shown = &body[..body.len().min(SHOWN_BYTES_MAX)];
    let shown = String::from_utf8_lossy(shown);
    let said = if is_text { shown.trim() } else { "unknown" };
    let message = match code {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        403 | 406 | 415 if !matches!(said, "" | "unknown") => return said.to_owned(),
        406 | 415 => {
            "the server was unable to respond with a content type that the client supports"
        }
        500.. => {
            return format!(
                "an error on the server ({said:?}) has prevented the request from succeeding"
            );
        }
        _ => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    message.to_owned()
}

/// Returns the message of a body that is a failed `Status`.
fn status_message(body: &[u8]) -> Option<String> {
    let status: Value = serde_json::from_slice(body).ok()?;
    let is_failure =
        status["kind"] == "Status" && status["apiVersion"] == "v1" && status["status"] != "Success";
    is_failure.then(|| status["message"].as_str().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::cleaned;

    #[test]
    fn a_path_is_asked_for_in_its_shortest_form() {
        for (path, expected) in [
            ("", "/"),
            ("/", "/"),
            ("/a/", "/a"),
            ("//a//./b", "/a/b"),
            ("/a/../b", "/b"),
        ] {
            assert_eq!(cleaned(path), expected);
        }
    }
}
