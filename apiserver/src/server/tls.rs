//! Certificates for a server that speaks TLS: an authority of its own, made at the start.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

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
    pub(super) acceptor: TlsAcceptor,
    authority_pem: String,
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

    /// The same for a server of webhooks that is reached as `host`, a name or an address; None when
    /// that is neither.
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
        let provider = Arc::new(crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring knows the default versions")
            .with_no_client_auth()
            .with_single_cert(vec![serving.der().clone()], key)
            .expect("the key is the certificate's");
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            authority_pem,
        }
    }

    /// Takes connections in.
    #[must_use]
    pub fn acceptor(&self) -> &TlsAcceptor {
        &self.acceptor
    }

    /// The certificate of the authority, for clients to trust.
    #[must_use]
    pub fn authority_pem(&self) -> &str {
        &self.authority_pem
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// A certificate's parameters, valid whatever time the server's clock simulates.
fn params(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    params.distinguished_name = name;
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(2100, 1, 1);
    params
}
