//! The TLS side of a call: trusted authorities, and the errors of certificates.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, SignatureScheme,
};

use crate::x509::{Authorities, Certificate, PROVIDER, Usage};

/// A connector that trusts only the authorities of `bundle`.
///
/// # Errors
/// When the bundle has no certificate that can be read.
pub(super) fn connector(bundle: &[u8]) -> Result<TlsConnector, String> {
    connector_of(Some(bundle), None)
}

/// The certificate chain and the key, in PEM, by which calls show themselves.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// A connector that trusts only the authorities of `bundle`, or any server without a bundle.
///
/// # Errors
/// When the bundle has no certificate that can be read, or the key is not the certificate's.
pub(crate) fn connector_of(
    bundle: Option<&[u8]>,
    identity: Option<&Identity>,
) -> Result<TlsConnector, String> {
    let verifier = Verifier(bundle.map(Authorities::read).transpose()?);
    let config = ClientConfig::builder_with_provider(Arc::clone(&PROVIDER))
        .with_safe_default_protocol_versions()
        .expect("the provider has ciphers for every version")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some(identity) => {
            let missing = |what: &str| format!("tls: failed to find any PEM data in {what} input");
            let chain = CertificateDer::pem_slice_iter(&identity.certificate);
            let chain: Vec<_> = chain.flatten().collect();
            if chain.is_empty() {
                return Err(missing("certificate"));
            }
            let key = PrivateKeyDer::from_pem_slice(&identity.key);
            let key = key.map_err(|_| missing("key"))?;
            let certified = config.with_client_auth_cert(chain, key);
            certified.map_err(|error| format!("tls: {error}"))?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Judges the certificates of webhooks as Go's client does; without authorities every certificate
/// is good.
#[derive(Debug)]
struct Verifier(Option<Authorities>);

/// Go's text for why a certificate is refused.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

impl Verifier {
    fn check(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), String> {
        let Some(authorities) = &self.0 else {
            return Ok(());
        };
        let seconds = now.as_secs().try_into().unwrap_or(i64::MAX);
        let now = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
        let leaf = Certificate::read(leaf)?;
        // Go checks the time before the name, and both before the chain.
        leaf.check_time(now)?;
        leaf.check_host(&name.to_str())?;
        authorities.verify(&leaf, intermediates, Usage::Server, now)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.check(leaf, intermediates, name, now) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(why) => {
                let why = OtherError(Arc::new(Refused(why)));
                Err(Error::InvalidCertificate(CertificateError::Other(why)))
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &PROVIDER.signature_verification_algorithms;
        verify_tls12_signature(message, leaf, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &PROVIDER.signature_verification_algorithms;
        verify_tls13_signature(message, leaf, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &PROVIDER.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

/// A failed handshake in the words of Go's client.
pub(crate) fn handshake_error(error: &std::io::Error) -> String {
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
    match error {
        Error::InvalidCertificate(why) => {
            format!("tls: failed to verify certificate: x509: {}", Shown(why))
        }
        Error::InvalidMessage(_) => "http: server gave HTTP response to HTTPS client".to_owned(),
        Error::AlertReceived(alert) => format!("remote error: tls: {alert:?}"),
        _ => error.to_string(),
    }
}

struct Shown<'e>(&'e CertificateError);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let CertificateError::Other(OtherError(why)) = self.0
            && let Some(refused) = why.downcast_ref::<Refused>()
        {
            return write!(f, "{refused}");
        }
        write!(f, "{}", self.0)
    }
}
