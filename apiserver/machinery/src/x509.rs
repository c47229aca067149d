//! Certificates as Go's `crypto/x509` judges them, and in its words.
//!
//! Chains are verified by webpki. Three kinds of certificates that Go takes and webpki does not are
//! judged here: one that is itself among the authorities, an authority's instead of an end
//! entity's, and one of version 1, as `openssl x509 -req` makes them without further options.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use der::asn1::ObjectIdentifier;
use der::{Decode, Encode, Tag, Tagged};
use jiff::Timestamp;
use tokio_rustls::rustls::client::verify_server_cert_signed_by_trust_anchor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, TrustAnchor, UnixTime};
use tokio_rustls::rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use tokio_rustls::rustls::{CertificateError, Error, RootCertStore, SignatureScheme};
use x509_cert::TbsCertificate;
use x509_cert::certificate::Version;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    BasicConstraints, ExtendedKeyUsage, KeyUsage, NameConstraints, SubjectAltName,
};
use x509_cert::name::Name;

use crate::clock::rfc3339;
use crate::json::Value;
use crate::status::quoted;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
/// The attribute of a subject that is the uid of a Kubernetes user.
const USER_ID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57683.2");
const ANY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37.0");

const UNKNOWN_AUTHORITY: &str = "certificate signed by unknown authority";
const CANNOT_SIGN: &str =
    "x509: invalid signature: parent certificate cannot sign this kind of certificate";
const WRONG_USAGE: &str = "certificate specifies an incompatible key usage";
/// From this many names on, a refusal counts them.
const SHOWN_NAMES_MAX: usize = 100;

/// The algorithms of signatures and keys.
pub static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(ring::default_provider()));

/// The purpose that a certificate is shown for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// The server of a TLS connection.
    Server,
    /// A client of a TLS connection.
    Client,
}

/// A certificate that has been read.
#[derive(Clone, Debug)]
pub struct Certificate {
    der: CertificateDer<'static>,
    read: x509_cert::Certificate,
}

/// Certificates that others are trusted for.
#[derive(Clone, Debug)]
pub struct Authorities(Vec<Authority>);

/// A trusted certificate, and its webpki trust anchor if it may sign others.
#[derive(Clone, Debug)]
struct Authority {
    certificate: Certificate,
    anchor: Option<TrustAnchor<'static>>,
}

/// The user that the subject of a certificate describes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The last one, as Go takes it.
    pub common_name: String,
    /// Each `O`, a group of the user.
    pub organizations: Vec<String>,
    /// Each `UID`; a certificate with one has exactly one.
    pub uids: Vec<String>,
}

impl Certificate {
    /// # Errors
    /// The bytes are not a certificate.
    pub fn read(der: &CertificateDer<'_>) -> Result<Self, String> {
        let read = x509_cert::Certificate::from_der(der);
        Ok(Self {
            read: read.map_err(|error| format!("malformed certificate: {error}"))?,
            der: der.clone().into_owned(),
        })
    }

    /// Returns the certificate in DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Returns the user that the subject describes.
    pub fn subject(&self) -> Subject {
        let mut subject = Subject::default();
        for attribute in self.tbs().subject().iter() {
            let value = || text(attribute.value.tag(), attribute.value.value());
            match attribute.oid {
                COMMON_NAME => subject.common_name = value(),
                ORGANIZATION => subject.organizations.push(value()),
                USER_ID => subject.uids.push(value()),
                _ => {}
            }
        }
        subject
    }

    /// When the certificate ceases to be valid.
    pub fn expires(&self) -> Timestamp {
        instant(&self.tbs().validity().not_after)
    }

    /// Checks that the certificate is valid at `now`.
    ///
    /// # Errors
    /// Go's text.
    pub fn check_time(&self, now: Timestamp) -> Result<(), String> {
        let validity = self.tbs().validity();
        let (from, until) = (instant(&validity.not_before), instant(&validity.not_after));
        let (side, limit) = match () {
            () if now < from => ("before", from),
            () if now > until => ("after", until),
            () => return Ok(()),
        };
        Err(format!(
            "certificate has expired or is not yet valid: current time {} is {side} {}",
            rfc3339(now),
            rfc3339(limit)
        ))
    }

    /// Checks that the certificate is one for `host`, a name or an address.
    ///
    /// # Errors
    /// Go's text, with the names that it is for.
    pub fn check_host(&self, host: &str) -> Result<(), String> {
        let names = self.extension::<SubjectAltName>();
        let has_names = names.is_some();
        let names = names.map(|names| names.0).unwrap_or_default();
        let matches = |name: &str| is_name_of(name, host);
        if let Ok(wanted) = host.parse::<IpAddr>() {
            let addresses: Vec<IpAddr> = names.iter().filter_map(address).collect();
            return match addresses.as_slice() {
                all if all.contains(&wanted) => Ok(()),
                [] => Err(format!(
                    "cannot validate certificate for {host} because it doesn't contain any IP SANs"
                )),
                all if all.len() >= SHOWN_NAMES_MAX => Err(format!(
                    "certificate is valid for {} IP SANs, but none matched {host}",
                    all.len()
                )),
                all => {
                    let all: Vec<String> = all.iter().map(IpAddr::to_string).collect();
                    Err(format!(
                        "certificate is valid for {}, not {host}",
                        all.join(", ")
                    ))
                }
            };
        }
        let names: Vec<&str> = names
            .iter()
            .filter_map(|name| match name {
                GeneralName::DnsName(name) => Some(name.as_str()),
                _ => None,
            })
            .collect();
        match names.as_slice() {
            all if all.iter().any(|name| matches(name)) => Ok(()),
            _ if !has_names && matches(&self.subject().common_name) => {
                Err("certificate relies on legacy Common Name field, use SANs instead".to_owned())
            }
            [] => Err(format!(
                "certificate is not valid for any names, but wanted to match {host}"
            )),
            all if all.len() >= SHOWN_NAMES_MAX => Err(format!(
                "certificate is valid for {} names, but none matched {host}",
                all.len()
            )),
            all => Err(format!(
                "certificate is valid for {}, not {host}",
                all.join(", ")
            )),
        }
    }

    /// Whether the certificate may be used so; without a statement any use is fine.
    fn permits(&self, usage: Usage) -> bool {
        const SERVER: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
        const CLIENT: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");
        let wanted = match usage {
            Usage::Server => SERVER,
            Usage::Client => CLIENT,
        };
        let stated = self.extension::<ExtendedKeyUsage>();
        stated.is_none_or(|stated| {
            stated
                .0
                .iter()
                .any(|own| *own == wanted || *own == ANY_USAGE)
        })
    }

    /// Whether the certificate is one that may sign others.
    fn is_authority(&self) -> bool {
        let is_authority = match self.extension::<BasicConstraints>() {
            Some(constraints) => constraints.ca,
            None => self.tbs().version() != Version::V3,
        };
        let signs = self.extension::<KeyUsage>();
        is_authority && signs.is_none_or(|usage| usage.key_cert_sign())
    }

    /// How Go's errors call the certificate.
    fn name(&self) -> String {
        let subject = self.subject();
        let mut names = subject.organizations.into_iter();
        match subject.common_name.is_empty() {
            false => subject.common_name,
            true => names.next().unwrap_or_else(|| "serial".to_owned()),
        }
    }

    /// Go's text for a signature that is not one of this certificate's key.
    fn verification_failure(&self) -> &'static str {
        const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
        const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
        match self.tbs().subject_public_key_info().algorithm.oid {
            RSA => "crypto/rsa: verification error",
            ED25519 => "x509: Ed25519 verification failure",
            _ => "x509: ECDSA verification failure",
        }
    }

    fn is_signed_by(&self, authority: &Self) -> bool {
        let message = self.tbs().to_der();
        let algorithm = self.read.signature_algorithm().to_der();
        let (Ok(message), Ok(algorithm)) = (message, algorithm) else {
            return false;
        };
        let signature = self.read.signature().raw_bytes();
        let algorithms = PROVIDER.signature_verification_algorithms.all.iter();
        algorithms
            // The name of an algorithm is kept without the tag and length of its sequence.
            .filter(|own| algorithm.ends_with(own.signature_alg_id().as_ref()))
            .any(|own| authority.has_signed(*own, &message, signature))
    }

    /// Whether the key has signed `message` in the course of a handshake.
    pub fn has_signed_handshake(
        &self,
        scheme: SignatureScheme,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let known = PROVIDER.signature_verification_algorithms.mapping.iter();
        known
            .filter(|(own, _)| *own == scheme)
            .flat_map(|(_, algorithms)| *algorithms)
            .any(|algorithm| self.has_signed(*algorithm, message, signature))
    }

    fn has_signed(
        &self,
        algorithm: &dyn tokio_rustls::rustls::pki_types::SignatureVerificationAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let key = self.tbs().subject_public_key_info();
        let id = key.algorithm.to_der().unwrap_or_default();
        let bits = key.subject_public_key.raw_bytes();
        id.ends_with(algorithm.public_key_alg_id().as_ref())
            && algorithm.verify_signature(bits, message, signature).is_ok()
    }

    fn tbs(&self) -> &TbsCertificate {
        self.read.tbs_certificate()
    }

    /// Returns an extension; `None` if it is absent or cannot be read.
    fn extension<'c, T>(&'c self) -> Option<T>
    where
        T: Decode<'c> + der::oid::AssociatedOid,
    {
        let found = self.tbs().get_extension::<T>().ok().flatten();
        found.map(|(_, extension)| extension)
    }

    fn issuer(&self) -> &Name {
        self.tbs().issuer()
    }
}

impl Authorities {
    /// Reads the certificates of a PEM text, as far as they can be read.
    ///
    /// # Errors
    /// The text is not empty and has no readable certificate.
    pub fn read(bundle: &[u8]) -> Result<Self, String> {
        let found: Vec<_> = CertificateDer::pem_slice_iter(bundle).collect();
        let is_pem = !found.is_empty();
        let certificates = found.into_iter().flatten();
        let certificates = certificates.filter_map(|der| Certificate::read(&der).ok());
        let authorities: Vec<Authority> = certificates.map(Authority::of).collect();
        if authorities.is_empty() && !bundle.is_empty() {
            let why = match is_pem {
                true => "failed to parse certificate",
                false => "unable to parse bytes as PEM block",
            };
            return Err(format!("unable to load root certificates: {why}"));
        }
        Ok(Self(authorities))
    }

    /// These and `others`.
    pub fn and(&self, others: Self) -> Self {
        Self(self.0.iter().cloned().chain(others.0).collect())
    }

    /// The names of the authorities, for clients to choose a certificate by.
    pub fn subjects(&self) -> Vec<Vec<u8>> {
        let subjects = self.0.iter().map(|own| own.certificate.tbs().subject());
        subjects.filter_map(|name| name.to_der().ok()).collect()
    }

    /// Checks that `leaf` is valid at `now`, may be used so, and is one of the authorities' own or
    /// issued by them, through `intermediates` if need be.
    ///
    /// # Errors
    /// Go's text.
    pub fn verify(
        &self,
        leaf: &Certificate,
        intermediates: &[CertificateDer<'_>],
        usage: Usage,
        now: Timestamp,
    ) -> Result<(), String> {
        leaf.check_time(now)?;
        if self.0.iter().any(|own| own.certificate.der == leaf.der) {
            return match leaf.permits(usage) {
                true => Ok(()),
                false => Err(WRONG_USAGE.to_owned()),
            };
        }
        match self.verify_chain(leaf, intermediates, usage, now) {
            Ok(()) => Ok(()),
            Err(Error::InvalidCertificate(
                CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
            )) => Err(WRONG_USAGE.to_owned()),
            Err(_) => self.verify_issued(leaf, usage, now),
        }
    }

    fn verify_chain(
        &self,
        leaf: &Certificate,
        intermediates: &[CertificateDer<'_>],
        usage: Usage,
        now: Timestamp,
    ) -> Result<(), Error> {
        // webpki asks an anchor for nothing but its key.
        let valid = self
            .0
            .iter()
            .filter(|own| own.certificate.check_time(now).is_ok());
        let roots = RootCertStore {
            roots: valid.filter_map(|own| own.anchor.clone()).collect(),
        };
        if roots.is_empty() {
            return Err(Error::InvalidCertificate(CertificateError::UnknownIssuer));
        }
        let seconds = now.as_second().try_into().unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        match usage {
            Usage::Server => verify_server_cert_signed_by_trust_anchor(
                &ParsedCertificate::try_from(&leaf.der)?,
                &roots,
                intermediates,
                now,
                PROVIDER.signature_verification_algorithms.all,
            ),
            Usage::Client => {
                let (roots, provider) = (Arc::new(roots), Arc::clone(&PROVIDER));
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = verifier
                    .build()
                    .expect("there are roots, and no revocations");
                let verified = verifier.verify_client_cert(&leaf.der, intermediates, now);
                verified.map(drop)
            }
        }
    }

    /// Checks that an authority has issued `leaf` itself, whatever `leaf` says that it is.
    fn verify_issued(
        &self,
        leaf: &Certificate,
        usage: Usage,
        now: Timestamp,
    ) -> Result<(), String> {
        let certificates = self.0.iter().map(|own| &own.certificate);
        let candidates = certificates.filter(|own| own.tbs().subject() == leaf.issuer());
        let mut hint = None;
        for candidate in candidates {
            let fault = match () {
                () if !candidate.is_authority() => Some(CANNOT_SIGN.to_owned()),
                () if !leaf.is_signed_by(candidate) => {
                    Some(candidate.verification_failure().to_owned())
                }
                () => candidate
                    .check_time(now)
                    .err()
                    .map(|why| format!("x509: {why}")),
            };
            match fault {
                Some(fault) => {
                    hint.get_or_insert((fault, candidate.name()));
                }
                // Only webpki checks name constraints.
                None if candidate.extension::<NameConstraints>().is_some() => {}
                None if !(candidate.permits(usage) && leaf.permits(usage)) => {
                    return Err(WRONG_USAGE.to_owned());
                }
                None => return Ok(()),
            }
        }
        Err(match hint {
            None => UNKNOWN_AUTHORITY.to_owned(),
            Some((fault, name)) => format!(
                "{UNKNOWN_AUTHORITY} (possibly because of {} while trying to verify candidate \
                 authority certificate {})",
                quoted(&fault),
                quoted(&name)
            ),
        })
    }
}

impl Authority {
    fn of(certificate: Certificate) -> Self {
        let mut roots = RootCertStore::empty();
        let added = roots.add(certificate.der.clone());
        let is_anchor = added.is_ok() && certificate.is_authority();
        Self {
            anchor: roots.roots.pop().filter(|_| is_anchor),
            certificate,
        }
    }
}

/// A certificate's time.
fn instant(time: &x509_cert::time::Time) -> Timestamp {
    let seconds = time.to_unix_duration().as_secs();
    Timestamp::from_second(seconds.try_into().unwrap_or(i64::MAX)).unwrap_or(Timestamp::MAX)
}

/// Whether a name in a certificate, which may begin with `*.`, matches `host`.
fn is_name_of(name: &str, host: &str) -> bool {
    let (name, host) = (name.to_lowercase(), host.to_lowercase());
    let host = host.strip_suffix('.').unwrap_or(&host);
    if name.is_empty() || host.is_empty() {
        return false;
    }
    match name.strip_prefix("*.") {
        Some(rest) => host.split_once('.').is_some_and(|(_, own)| own == rest),
        None => name == host,
    }
}

fn address(name: &GeneralName) -> Option<IpAddr> {
    let GeneralName::IpAddress(bytes) = name else {
        return None;
    };
    let bytes = bytes.as_bytes();
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or(<[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// The text of an attribute of a name.
fn text(tag: Tag, bytes: &[u8]) -> String {
    match tag {
        Tag::TeletexString => bytes.iter().copied().map(char::from).collect(),
        Tag::BmpString => {
            let units = bytes
                .chunks_exact(2)
                .map(|unit| u16::from_be_bytes([unit[0], unit[1]]));
            let letters = char::decode_utf16(units);
            letters
                .map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER))
                .collect()
        }
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Whether the authority that a `WebhookClientConfig` names can be read.
///
/// # Errors
/// Upstream's text for why it can't.
pub fn check_authority(config: &Value) -> Result<(), String> {
    Authorities::read(&ca_bundle(config)).map(drop)
}

/// The certificates of a `WebhookClientConfig`'s authority, in PEM.
pub fn ca_bundle(config: &Value) -> Vec<u8> {
    let bundle = config["caBundle"].as_str().unwrap_or_default();
    STANDARD.decode(bundle).unwrap_or_default()
}
