//! Certificates for a server that speaks TLS: an authority of its own, made at the start. Clients may
//! also present certificates, of any authority; authentication decides about their users.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime,
};
use tokio_rustls::rustls::server::NoClientAuth;
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName as RustlsName, Error,
    PeerMisbehaved, ServerConfig, SignatureScheme,
};

use super::ApiServer;
use crate::x509::{Authorities, Certificate, PROVIDER};

/// Names under which a cluster's pods and users reach the server.
const DNS_NAMES: [&str; 5] = [
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
];
/// The address of the `kubernetes` service, and those of the machine itself.
const ADDRESSES: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

/// A serving certificate, and the authority that signed it.
#[derive(Clone)]
pub struct Tls {
    /// Takes clients in that show no certificate.
    acceptor: TlsAcceptor,
    certificate: CertificateDer<'static>,
    key: Arc<PrivateKeyDer<'static>>,
    issuer: Arc<Issuer<'static, KeyPair>>,
    authority_pem: String,
}

/// A client's certificate and its key, in PEM.
#[derive(Clone)]
pub struct ClientCertificate {
    /// The certificate.
    pub certificate_pem: String,
    /// The key, in PKCS #8.
    pub key_pem: String,
}

impl Tls {
    /// A new authority, and a certificate for loopback, the names of the `kubernetes` service and
    /// `address`. Keys are drawn from the machine, so that no two servers have the same.
    ///
    /// # Panics
    /// If the machine gives no randomness.
    #[must_use]
    pub fn generate(address: IpAddr) -> Self {
        let names = DNS_NAMES.map(|name| {
            SanType::DnsName(
                name.try_into()
                    .expect("the names are written above in ASCII"),
            )
        });
        let addresses = ADDRESSES.into_iter().chain([address]);
        let addresses = addresses.filter(|address| !address.is_unspecified());
        let names = names.into_iter().chain(addresses.map(SanType::IpAddress));
        Self::named("kube-apiserver", names.collect())
    }

    /// A certificate for a webhook server that is reached as `host`, a name or an address; `None`
    /// when `host` is neither.
    ///
    /// # Panics
    /// If the machine gives no randomness.
    #[must_use]
    pub fn for_host(host: &str) -> Option<Self> {
        let name = match host.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(host.try_into().ok()?),
        };
        Some(Self::named(host, vec![name]))
    }

    fn named(common_name: &str, names: Vec<SanType>) -> Self {
        let key = || KeyPair::generate().expect("the machine gives randomness");
        let authority_key = key();
        let mut authority = params("kubeproof-ca");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let authority_pem = authority
            .self_signed(&authority_key)
            .expect("the parameters are written above")
            .pem();
        let issuer = Issuer::new(authority, authority_key);

        let serving_key = key();
        let mut serving = params(common_name);
        serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        serving.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        serving.subject_alt_names = names;
        let serving = serving
            .signed_by(&serving_key, &issuer)
            .expect("names that are encoded can be signed");

        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(serving_key.serialize_der()));
        let certificate = serving.der().clone();
        Self {
            acceptor: acceptor(&certificate, &key, Arc::new(NoClientAuth)),
            certificate,
            key: Arc::new(key),
            issuer: Arc::new(issuer),
            authority_pem,
        }
    }

    /// Takes connections in, of clients that show no certificate.
    #[must_use]
    pub fn acceptor(&self) -> &TlsAcceptor {
        &self.acceptor
    }

    /// Takes connections of `server` in; clients are asked for a certificate if it knows authorities.
    pub(super) fn acceptor_for(&self, server: &ApiServer) -> TlsAcceptor {
        let core = &server.core;
        let proxies = core.authenticators.proxies.as_ref();
        let authorities = core.client_authorities.as_deref().into_iter();
        let authorities = authorities.chain(proxies.map(|proxies| &proxies.authorities));
        let authorities: Vec<&Authorities> = authorities.collect();
        match authorities.is_empty() {
            true => self.acceptor.clone(),
            false => {
                let clients = Arc::new(AnyClient::new(&authorities));
                acceptor(&self.certificate, &self.key, clients)
            }
        }
    }

    /// Issues a certificate for a client: `user` is its common name, `groups` are its organizations.
    ///
    /// # Panics
    /// If the machine gives no randomness.
    #[must_use]
    pub fn client_certificate(&self, user: &str, groups: &[&str]) -> ClientCertificate {
        let key = KeyPair::generate().expect("the machine gives randomness");
        let mut client = params(user);
        for group in groups {
            let name = &mut client.distinguished_name;
            name.push(DnType::OrganizationName, *group);
        }
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        client.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let certificate = client
            .signed_by(&key, &self.issuer)
            .expect("names that are encoded can be signed");
        ClientCertificate {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        }
    }

    /// The certificate of the authority, for clients to trust.
    #[must_use]
    pub fn authority_pem(&self) -> &str {
        &self.authority_pem
    }
}

fn acceptor(
    certificate: &CertificateDer<'static>,
    key: &PrivateKeyDer<'static>,
    clients: Arc<dyn ClientCertVerifier>,
) -> TlsAcceptor {
    let mut config = ServerConfig::builder_with_provider(Arc::clone(&PROVIDER))
        .with_safe_default_protocol_versions()
        .expect("ring knows the default versions")
        .with_client_cert_verifier(clients)
        .with_single_cert(vec![certificate.clone()], key.clone_key())
        .expect("the key is the certificate's");
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
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

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// The parameters of a certificate, valid at any time that the server's clock simulates.
fn params(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    params.distinguished_name = name;
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(2100, 1, 1);
    params
}
