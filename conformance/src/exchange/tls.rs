//! Trust in the certificate of a server on the network.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    self, CryptoProvider, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use super::error::TransportError;

/// Which certificates of a server are accepted.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Those signed by the authorities in a PEM file.
    Authority(PathBuf),
    /// All certificates: any server is trusted, and gets the token.
    Anybody,
}

/// A connector that accepts what `trust` says.
///
/// # Errors
/// [`TransportError::Authority`] for a file without certificates.
pub fn connector(trust: &Trust) -> Result<TlsConnector, TransportError> {
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("ring knows the default versions");
    let config = match trust {
        Trust::Authority(path) => config.with_root_certificates(roots(path)?),
        Trust::Anybody => config
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptsAnybody(provider))),
    };
    Ok(TlsConnector::from(Arc::new(config.with_no_client_auth())))
}

fn roots(path: &Path) -> Result<RootCertStore, TransportError> {
    let refuse = |why: String| TransportError::Authority {
        path: path.to_owned(),
        why,
    };
    let mut roots = RootCertStore::empty();
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|why| refuse(why.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|why| refuse(why.to_string()))?;
        roots
            .add(certificate)
            .map_err(|why| refuse(why.to_string()))?;
    }
    if roots.is_empty() {
        return Err(refuse("there is no certificate in it".to_owned()));
    }
    Ok(roots)
}

/// Checks that the server has the key of its certificate, and nothing about the certificate.
#[derive(Debug)]
struct AcceptsAnybody(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptsAnybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
