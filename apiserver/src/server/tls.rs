//! Certificates for a server that speaks TLS: an authority of its own, made at the start.

mod serving_certificate;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub use self::serving_certificate::{ServingCertificate, ServingCertificateError};
use super::{ApiServer, listener};
use crate::registry::core::service::ServiceRanges;

/// Names under which a cluster's pods and users reach the server.
const DNS_NAMES: [&str; 5] = [
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
];
/// The addresses of the machine itself.
const LOOPBACK: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

/// A serving certificate, and the authority that signed it.
#[derive(Clone)]
pub struct Tls {
    serving: ServingCertificate,
    /// The serving certificate and its key, in PEM.
    pem: (String, String),
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

/// [`serve`](super::serve) over TLS: HTTP/2 or HTTP/1.1, as the client's ALPN has it.
///
/// # Errors
/// None of a connection's, failed handshakes included; those of a listener that does not listen.
pub async fn serve_tls(
    server: ApiServer,
    listener: TcpListener,
    certificate: impl Into<ServingCertificate>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let acceptor = certificate.into().acceptor_for(&server);
    listener::accept(server, listener, Some(acceptor), shutdown).await
}

impl Tls {
    /// A new authority, and a certificate for loopback, the names of the `kubernetes` service and
    /// `address`. Keys are drawn from the machine, so that no two servers have the same.
    ///
    /// # Panics
    /// If the machine gives no randomness.
    #[must_use]
    pub fn generate(address: IpAddr) -> Self {
        Self::generate_for(address, &ServiceRanges::DEFAULT)
    }

    /// Like [`Tls::generate`], with the address of the `kubernetes` service in `ranges`.
    ///
    /// # Panics
    /// If the machine gives no randomness.
    #[must_use]
    pub fn generate_for(address: IpAddr, ranges: &ServiceRanges) -> Self {
        let names = DNS_NAMES.map(|name| {
            SanType::DnsName(
                name.try_into()
                    .expect("the names are written above in ASCII"),
            )
        });
        let addresses = LOOPBACK.into_iter().chain([ranges.kubernetes(), address]);
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
        Some(Self::named(host, vec![san(host)?]))
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

        let pem = signed(common_name, names, &issuer);
        let serving = ServingCertificate::read(pem.0.as_bytes(), pem.1.as_bytes());
        Self {
            serving: serving.expect("the certificate is the key's"),
            pem,
            issuer: Arc::new(issuer),
            authority_pem,
        }
    }

    /// Takes connections in, of clients that show no certificate.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        self.serving.acceptor()
    }

    /// The certificate that the server shows.
    #[must_use]
    pub fn serving_certificate(&self) -> &ServingCertificate {
        &self.serving
    }

    /// The serving certificate and its private key (PKCS #8), in PEM.
    #[must_use]
    pub fn serving_pem(&self) -> (&str, &str) {
        (&self.pem.0, &self.pem.1)
    }

    /// Issues a certificate for another server, which clients reach as any of `hosts`; returns it and its private key
    /// (PKCS #8), in PEM. `None` without a host, and when a host is neither a name nor an address.
    ///
    /// # Panics
    /// If the machine gives no randomness.
    #[must_use]
    pub fn server_certificate(&self, hosts: &[String]) -> Option<(String, String)> {
        let names = hosts.iter().map(|host| san(host));
        let names = names.collect::<Option<Vec<_>>>()?;
        Some(signed(hosts.first()?, names, &self.issuer))
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

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}

impl From<Tls> for ServingCertificate {
    fn from(tls: Tls) -> Self {
        tls.serving
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// A host as certificates name it; `None` when it is neither a name nor an address.
fn san(host: &str) -> Option<SanType> {
    Some(match host.parse() {
        Ok(address) => SanType::IpAddress(address),
        Err(_) => SanType::DnsName(host.try_into().ok()?),
    })
}

/// A new certificate of a server with its private key, in PEM.
fn signed(
    common_name: &str,
    names: Vec<SanType>,
    issuer: &Issuer<'static, KeyPair>,
) -> (String, String) {
    let key = KeyPair::generate().expect("the machine gives randomness");
    let mut serving = params(common_name);
    serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    serving.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    serving.subject_alt_names = names;
    let serving = serving
        .signed_by(&key, issuer)
        .expect("names that are encoded can be signed");
    (serving.pem(), key.serialize_pem())
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
