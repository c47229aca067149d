//! The TLS side of a call: whom to trust, and in which words a certificate is refused.

use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error, RootCertStore, crypto};

/// A connector that trusts the authorities of `bundle` and nobody else.
///
/// # Errors
/// When the bundle has no certificate that can be read.
pub(super) fn connector(bundle: &[u8]) -> Result<TlsConnector, String> {
    let roots = roots(bundle)?;
    let provider = Arc::new(crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has ciphers for every version")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The authorities of `bundle`, as far as they can be read.
///
/// # Errors
/// When there are none although the bundle is not empty.
pub(super) fn roots(bundle: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(bundle).collect();
    let is_pem = !certificates.is_empty();
    roots.add_parsable_certificates(certificates.into_iter().flatten());
    if !roots.is_empty() || bundle.is_empty() {
        return Ok(roots);
    }
    let why = match is_pem {
        true => "failed to parse certificate",
        false => "unable to parse bytes as PEM block",
    };
    Err(format!("unable to load root certificates: {why}"))
}

/// A failed handshake with `host`, as Go's client tells of it.
pub(super) fn handshake_error(error: &std::io::Error, host: &str) -> String {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>());
    let Some(error) = inner else {
        return match error.kind() {
            std::io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
            std::io::ErrorKind::ConnectionReset => "read: connection reset by peer".to_owned(),
            _ => error.to_string(),
        };
    };
    let x509 = |why: String| format!("tls: failed to verify certificate: x509: {why}");
    match error {
        Error::InvalidCertificate(why) => x509(certificate_error(why, host)),
        Error::InvalidMessage(_) => "http: server gave HTTP response to HTTPS client".to_owned(),
        Error::AlertReceived(alert) => format!("remote error: tls: {alert:?}"),
        _ => error.to_string(),
    }
}

fn certificate_error(why: &CertificateError, host: &str) -> String {
    match why {
        CertificateError::NotValidForName => format!("certificate is not valid for {host}"),
        CertificateError::NotValidForNameContext { presented, .. } => {
            let is_address = host.parse::<std::net::IpAddr>().is_ok();
            let kind = if is_address { "IpAddress(" } else { "DnsName(" };
            let names = presented.iter().filter_map(|name| name.strip_prefix(kind));
            let names: Vec<&str> = names.map(unquoted).collect();
            match (names.as_slice(), is_address) {
                ([], true) => format!(
                    "cannot validate certificate for {host} because it doesn't contain any IP SANs"
                ),
                ([], false) => {
                    format!("certificate is not valid for any names, but wanted to match {host}")
                }
                (names, _) => format!("certificate is valid for {}, not {host}", names.join(", ")),
            }
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        _ => "certificate signed by unknown authority".to_owned(),
    }
}

/// A name without what is around it.
fn unquoted(name: &str) -> &str {
    name.trim_end_matches(')').trim_matches('"')
}
