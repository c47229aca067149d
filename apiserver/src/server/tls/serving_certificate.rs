//! The certificate that the server shows, and the certificates that its clients may show.
//!
//! A client may show a certificate of any authority; authentication decides about its user.

use std::fmt;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::server::NoClientAuth;
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{
    ALL_VERSIONS, CertificateError, DigitallySignedStruct, DistinguishedName as RustlsName, Error,
    PeerMisbehaved, ServerConfig, SignatureScheme, SupportedProtocolVersion, version,
};

use crate::server::ApiServer;
use crate::x509::{Authorities, Certificate, PROVIDER};

static ONLY_TLS13: [&SupportedProtocolVersion; 1] = [&version::TLS13];

/// The reason why a serving certificate cannot be used, in the words of Go's `crypto/tls`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tls: {0}")]
pub struct ServingCertificateError(String);

/// A certificate that the server shows to its clients, with its key.
#[derive(Clone)]
pub struct ServingCertificate {
    /// The certificate, and those of the authorities between it and a root.
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
    versions: &'static [&'static SupportedProtocolVersion],
}

impl ServingCertificate {
    /// Reads a certificate, perhaps with its intermediate authorities, and the private key: RSA or ECDSA, in
    /// PKCS #8, PKCS #1 or SEC 1. Both are in PEM.
    ///
    /// # Errors
    /// When a text lacks its object, the object cannot be read, or the key is another certificate's.
    pub fn read(chain: &[u8], key: &[u8]) -> Result<Self, ServingCertificateError> {
        let refused = |why: &str| ServingCertificateError(why.to_owned());
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain =
            chain.ok_or_else(|| refused("failed to find any PEM data in certificate input"))?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| refused("failed to find any PEM data in key input"))?;
        let read = Self {
            chain,
            key: Arc::new(key),
            versions: ALL_VERSIONS,
        };
        match read.accepting(&[]) {
            Ok(_) => Ok(read),
            Err(Error::InconsistentKeys(_)) => {
                Err(refused("private key does not match public key"))
            }
            Err(Error::General(_)) => Err(refused("failed to parse private key")),
            Err(error) => Err(refused(&error.to_string())),
        }
    }

    /// Refuses clients that cannot speak TLS 1.3. Default: TLS 1.2 is enough.
    #[must_use]
    pub fn only_tls13(self) -> Self {
        Self {
            versions: &ONLY_TLS13,
            ..self
        }
    }

    /// Takes connections in, of clients that show no certificate.
    ///
    /// # Panics
    /// Never: the certificate was checked when it was read.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        let accepts = self.accepting(&[]);
        accepts.expect("the certificate was checked when it was read")
    }

    /// Takes connections of `server` in; clients are asked for a certificate if it knows authorities.
    pub(super) fn acceptor_for(&self, server: &ApiServer) -> TlsAcceptor {
        let core = &server.core;
        let proxies = core.authenticators.proxies.as_ref();
        let authorities = core.client_authorities.as_deref().into_iter();
        let authorities = authorities.chain(proxies.map(|proxies| &proxies.authorities));
        let authorities: Vec<&Authorities> = authorities.collect();
        let accepts = self.accepting(&authorities);
        accepts.expect("the certificate was checked when it was read")
    }

    /// The chain with the key that signs handshakes.
    fn certified_key(&self) -> Result<CertifiedKey, Error> {
        let key = PROVIDER
            .key_provider
            .load_private_key(self.key.clone_key())?;
        let certified = CertifiedKey::new(self.chain.clone(), key);
        match certified.keys_match() {
            // rustls does not read certificates of version 1, which openssl makes without extensions.
            Err(Error::InvalidCertificate(_)) if Certificate::read(&self.chain[0]).is_ok() => {}
            checked => checked?,
        }
        Ok(certified)
    }

    fn accepting(&self, authorities: &[&Authorities]) -> Result<TlsAcceptor, Error> {
        let clients: Arc<dyn ClientCertVerifier> = match authorities {
            [] => Arc::new(NoClientAuth),
            authorities => Arc::new(AnyClient::new(authorities)),
        };
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&PROVIDER))
            .with_protocol_versions(self.versions)?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(self.certified_key()?)));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

impl fmt::Debug for ServingCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ServingCertificate");
        let versions: Vec<_> = self.versions.iter().map(|own| own.version).collect();
        shown.field("versions", &versions).finish_non_exhaustive()
    }
}

/// Accepts clients without a certificate, and any client that has the key of its certificate.
#[derive(Debug)]
struct AnyClient {
    /// The authorities' names, by which clients choose one of their certificates.
    hints: Vec<RustlsName>,
}

impl AnyClient {
    fn new(authorities: &[&Authorities]) -> Self {
        let names = authorities.iter().flat_map(|own| own.subjects());
        Self {
            hints: names.map(RustlsName::from).collect(),
        }
    }
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[RustlsName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_handshake(message, leaf, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // TLS 1.3 has done away with the padding of PKCS #1.
        match signed.scheme {
            SignatureScheme::RSA_PKCS1_SHA256
            | SignatureScheme::RSA_PKCS1_SHA384
            | SignatureScheme::RSA_PKCS1_SHA512 => {
                Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into())
            }
            _ => verify_handshake(message, leaf, signed),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &PROVIDER.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

/// Checks that a client has the key of its certificate, which may be of version 1.
fn verify_handshake(
    message: &[u8],
    leaf: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let leaf = Certificate::read(leaf).map_err(|_| CertificateError::BadEncoding)?;
    match leaf.has_signed_handshake(signed.scheme, message, signed.signature()) {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(CertificateError::BadSignature.into()),
    }
}
