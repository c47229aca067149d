//! The other end of a connection. A request in process has none.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{HOST, HeaderName, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::meta::GroupResource;
use crate::status::ApiError;

/// Names of the server within a cluster, which no other party can register.
const OWN_NAMES: [&str; 4] = [
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// The client at the other end of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peer {
    /// The chain of certificates that the client has shown, its own first.
    certificates: Arc<[CertificateDer<'static>]>,
    /// The address of the client.
    address: Option<IpAddr>,
}

impl Peer {
    /// A client with these certificates, of which it has the key of the first.
    pub(crate) fn new(certificates: Option<&[CertificateDer<'static>]>) -> Self {
        Self {
            certificates: certificates.unwrap_or_default().into(),
            address: None,
        }
    }

    /// The client at an address.
    pub(crate) fn at(self, address: Option<IpAddr>) -> Self {
        Self { address, ..self }
    }

    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.address
    }

    pub(crate) fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }
}

/// Checks that no web page has sent a request without credentials.
///
/// A page of another origin may send some requests to a server on the machine of its reader, and by
/// rebinding its own name to that machine's address any request at all. The name that the request is
/// for betrays the second: it must be an address, `localhost`, one of the cluster's or of `names`. The
/// `Origin` betrays the first: it must be the server itself, or one of this machine.
///
/// # Errors
/// `Forbidden` for another name or origin.
pub(crate) fn check_local(parts: &Parts, names: &[String]) -> Result<(), ApiError> {
    let text = |name: HeaderName| {
        let value = parts.headers.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let host = parts.uri.authority().map(Authority::to_string);
    let host = host.or_else(|| text(HOST)).unwrap_or_default();
    let name = without_port(&host);
    let is_own = name.is_empty()
        || address(name).is_some()
        || is_localhost(name)
        || OWN_NAMES.iter().any(|own| own.eq_ignore_ascii_case(name))
        || names.iter().any(|own| own.eq_ignore_ascii_case(name));
    if !is_own {
        return Err(foreign("host", &host));
    }
    let Some(origin) = text(ORIGIN) else {
        return Ok(());
    };
    let from = origin.split_once("://").map_or("", |(_, from)| from);
    let name = without_port(from);
    let is_near = from.eq_ignore_ascii_case(&host) && !from.is_empty()
        || is_localhost(name)
        || address(name).is_some_and(|address| address.is_loopback());
    match is_near {
        true => Ok(()),
        false => Err(foreign("origin", &origin)),
    }
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        // The colons of an address are within brackets.
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => authority,
    }
}

fn address(name: &str) -> Option<IpAddr> {
    let inner = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    inner.unwrap_or(name).parse().ok()
}

fn is_localhost(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

fn foreign(what: &str, text: &str) -> ApiError {
    ApiError::Forbidden {
        resource: GroupResource {
            group: String::new(),
            resource: String::new(),
        },
        name: String::new(),
        message: format!(
            "a server that asks for no credentials refuses requests of another {what}: {text:?}"
        ),
        causes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_other_names_and_of_other_origins_are_refused() {
        let rows = [
            ("127.0.0.1:6443", "", true),
            ("[::1]:6443", "", true),
            ("192.168.0.7", "", true),
            ("localhost:80", "", true),
            ("a.localhost", "", true),
            ("kubernetes.default.svc", "", true),
            ("Api.Test:6443", "", true),
            ("", "", true),
            ("evil.example", "", false),
            ("evil.example:6443", "", false),
            ("localhost.evil.example", "", false),
            ("127.0.0.1.evil.example", "", false),
            ("127.0.0.1:6443", "http://127.0.0.1:6443", true),
            ("api.test:6443", "https://api.test:6443", true),
            ("127.0.0.1:6443", "http://localhost:3000", true),
            ("127.0.0.1:6443", "http://localhost", true),
            ("127.0.0.1:6443", "http://[::1]:1", true),
            ("127.0.0.1:6443", "https://evil.example", false),
            ("127.0.0.1:6443", "http://6.6.6.6", false),
            ("192.168.0.7:6443", "http://192.168.0.8:6443", false),
            ("127.0.0.1:6443", "null", false),
            ("", "http://", false),
        ];
        for (host, origin, want) in rows {
            let mut request = http::Request::get("/api");
            for (name, value) in [(HOST, host), (ORIGIN, origin)] {
                if !value.is_empty() {
                    request = request.header(name, value);
                }
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            let checked = check_local(&parts, &["api.test".to_owned()]);
            assert_eq!(checked.is_ok(), want, "{host} {origin}");
        }
    }
}
