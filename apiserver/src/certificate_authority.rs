//! The authority that signs certificates for CertificateSigningRequests, and facts of requests and
//! certificates, for the controllers that approve, sign and clean them up.
//!
//! The key of the authority follows from the server's seed, and the same request at the same time
//! gets the same certificate: ECDSA with nonces of RFC 6979.
//!
//! Source: `pkg/controller/certificates/authority` of Kubernetes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use der::asn1::{BitString, GeneralizedTime, ObjectIdentifier, OctetString, UtcTime};
use der::oid::AssociatedOid;
use der::{Decode, Encode, Sequence};
use jiff::{SignedDuration, Timestamp};
use p256::ecdsa::signature::Signer;
use p256::ecdsa::{Signature, SigningKey};
use p256::pkcs8::EncodePublicKey;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, CertificateSigningRequestDer};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages, SubjectAltName,
};
use x509_cert::ext::{Extension, Extensions};
use x509_cert::name::Name;
use x509_cert::request::{CertReq, ExtensionReq};
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use x509_cert::time::{Time, Validity};

use crate::clock::{Seed, later};

/// The name of the authority.
const SUBJECT: &str = "CN=kubernetes";
/// The validity of the authority's own certificate.
const LIFETIME: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// A certificate is valid from this time before its signature: clocks differ.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// A shorter one ends as much later as it was dated back.
const SHORT: SignedDuration = SignedDuration::from_hours(8);
/// The place of the key among those that follow from a seed.
const KEY_PLACE: u64 = 1 << 20;

const PEM_LINE_BYTES: usize = 64;
const ECDSA_WITH_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");

/// The subject and the names that a request asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedCertificate {
    /// The common name of the subject.
    pub common_name: String,
    /// The organizations of the subject.
    pub organizations: Vec<String>,
    /// The DNS names among the alternative names.
    pub dns_names: Vec<String>,
    /// The mail addresses among the alternative names.
    pub email_addresses: Vec<String>,
    /// The number of IP addresses among the alternative names.
    pub ip_addresses: usize,
    /// The URIs among the alternative names.
    pub uris: Vec<String>,
}

/// A certificate to be signed.
#[derive(Clone, Copy, Debug)]
pub struct CertificateOrder<'a> {
    /// The request, in PEM.
    pub request: &'a [u8],
    /// The purposes of the certificate, in the words of CertificateSigningRequests.
    pub usages: &'a [String],
    /// The validity of the certificate.
    pub duration: SignedDuration,
}

/// Reads a request in PEM.
///
/// # Errors
/// When the text is not a certificate request.
pub fn read_request(pem: &[u8]) -> Result<RequestedCertificate, String> {
    let request = parse(pem)?;
    let mut requested = RequestedCertificate::default();
    for attribute in request.info.subject.iter() {
        let value = || String::from_utf8_lossy(attribute.value.value()).into_owned();
        match attribute.oid {
            COMMON_NAME => requested.common_name = value(),
            ORGANIZATION => requested.organizations.push(value()),
            _ => {}
        }
    }
    let names = alternative_names(&request).map(|own| own.extn_value);
    let names = names.and_then(|value| SubjectAltName::from_der(value.as_bytes()).ok());
    for name in names.map(|names| names.0).unwrap_or_default() {
        match name {
            GeneralName::DnsName(name) => requested.dns_names.push(name.as_str().to_owned()),
            GeneralName::Rfc822Name(name) => {
                requested.email_addresses.push(name.as_str().to_owned());
            }
            GeneralName::IpAddress(_) => requested.ip_addresses += 1,
            GeneralName::UniformResourceIdentifier(uri) => {
                requested.uris.push(uri.as_str().to_owned());
            }
            _ => {}
        }
    }
    Ok(requested)
}

/// Returns the end of the validity of the first certificate in a PEM text.
#[must_use]
pub fn expiry(pem: &[u8]) -> Option<Timestamp> {
    let der = CertificateDer::from_pem_slice(pem).ok()?;
    let read = x509_cert::Certificate::from_der(&der).ok()?;
    let end = read.tbs_certificate().validity().not_after;
    let seconds = end.to_unix_duration().as_secs();
    Timestamp::from_second(seconds.try_into().ok()?).ok()
}

fn parse(pem: &[u8]) -> Result<CertReq, String> {
    let der = CertificateSigningRequestDer::from_pem_slice(pem);
    let der = der.map_err(|_| "PEM block type must be CERTIFICATE REQUEST")?;
    CertReq::from_der(&der).map_err(|error| error.to_string())
}

/// The extension with the alternative names that a request asks for.
fn alternative_names(request: &CertReq) -> Option<Extension> {
    let attributes = request.info.attributes.iter();
    let mut asked = attributes.filter(|own| own.oid == ExtensionReq::OID);
    let extensions: Extensions = asked.next()?.values.get(0)?.decode_as().ok()?;
    let mut extensions = extensions.into_iter();
    extensions.find(|own| own.extn_id == SubjectAltName::OID)
}

/// A certificate before it is signed.
#[derive(Sequence)]
struct Unsigned {
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    version: u8,
    serial: SerialNumber,
    algorithm: AlgorithmIdentifierOwned,
    issuer: Name,
    validity: Validity,
    subject: Name,
    key: SubjectPublicKeyInfoOwned,
    #[asn1(context_specific = "3", tag_mode = "EXPLICIT")]
    extensions: Extensions,
}

#[derive(Sequence)]
struct Signed {
    certificate: Unsigned,
    algorithm: AlgorithmIdentifierOwned,
    signature: BitString,
}

/// An authority with a key that follows from a seed.
pub(crate) struct CertificateAuthority {
    key: SigningKey,
    until: Timestamp,
    pem: String,
}

impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateAuthority")
            .finish_non_exhaustive()
    }
}

impl CertificateAuthority {
    /// Makes the authority of a server that has `started`.
    pub(crate) fn from_seed(seed: Seed, started: Timestamp) -> Self {
        // All but a negligible part of the numbers of 256 bits are keys.
        let key = (KEY_PLACE..).find_map(|place| SigningKey::from_slice(&seed.key(place)).ok());
        let key = key.expect("a number below the curve's order is drawn sooner or later");
        let mut authority = Self {
            key,
            until: later(started, LIFETIME),
            pem: String::new(),
        };
        authority.pem = authority
            .self_signed(started)
            .expect("what is written here can be encoded");
        authority
    }

    /// The authority's own certificate.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    fn self_signed(&self, started: Timestamp) -> der::Result<String> {
        let key = self.key.verifying_key().to_public_key_der();
        let key = key.map_err(|_| der::ErrorKind::Failed)?;
        let mut usage = KeyUsage(KeyUsages::DigitalSignature.into());
        usage.0 |= KeyUsages::KeyEncipherment;
        usage.0 |= KeyUsages::KeyCertSign;
        let constraints = BasicConstraints {
            ca: true,
            path_len_constraint: None,
        };
        let extensions = vec![
            extension(KeyUsage::OID, true, &usage)?,
            extension(BasicConstraints::OID, true, &constraints)?,
        ];
        self.sign(Unsigned {
            version: 2,
            serial: SerialNumber::new(&[1])?,
            algorithm: algorithm(),
            issuer: Name::from_str(SUBJECT)?,
            validity: Validity::new(time(started)?, time(self.until)?),
            subject: Name::from_str(SUBJECT)?,
            key: SubjectPublicKeyInfoOwned::from_der(key.as_bytes())?,
            extensions,
        })
    }

    /// Signs the ordered certificate at the time `now` under the number `serial`.
    pub(crate) fn issue(
        &self,
        order: CertificateOrder<'_>,
        now: Timestamp,
        serial: &[u8],
    ) -> Result<String, String> {
        let (from, limit) = (later(now, -BACKDATE), self.until);
        if now >= limit {
            return Err(format!(
                "refusing to sign a certificate that expired in the past: NotAfter={limit}"
            ));
        }
        let end = match order.duration < SHORT {
            true => later(now, order.duration),
            false => later(now, order.duration - BACKDATE),
        };
        let request = parse(order.request)?;
        let message = |error: der::Error| error.to_string();
        let extensions = extensions(&request, order.usages).map_err(message)?;
        let unsigned = || -> der::Result<Unsigned> {
            Ok(Unsigned {
                version: 2,
                serial: SerialNumber::new(serial)?,
                algorithm: algorithm(),
                issuer: Name::from_str(SUBJECT)?,
                validity: Validity::new(time(from)?, time(end.min(limit))?),
                subject: request.info.subject.clone(),
                key: request.info.public_key.clone(),
                extensions,
            })
        };
        unsigned()
            .and_then(|unsigned| self.sign(unsigned))
            .map_err(message)
    }

    fn sign(&self, certificate: Unsigned) -> der::Result<String> {
        let signature: Signature = self.key.sign(&certificate.to_der()?);
        let signed = Signed {
            certificate,
            algorithm: algorithm(),
            signature: BitString::from_bytes(signature.to_der().as_bytes())?,
        };
        let der = signed.to_der()?;
        Ok(in_pem(&der))
    }
}

fn in_pem(der: &[u8]) -> String {
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    let text = STANDARD.encode(der);
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(PEM_LINE_BYTES.min(rest.len()));
        pem.push_str(line);
        pem.push('\n');
        rest = more;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

fn algorithm() -> AlgorithmIdentifierOwned {
    AlgorithmIdentifierOwned {
        oid: ECDSA_WITH_SHA256,
        parameters: None,
    }
}

fn time(time: Timestamp) -> der::Result<Time> {
    let since = Duration::from_secs(time.as_second().try_into().unwrap_or(0));
    match UtcTime::from_unix_duration(since) {
        Ok(time) => Ok(Time::UtcTime(time)),
        // UTCTime ends with the year 2049.
        Err(_) => GeneralizedTime::from_unix_duration(since).map(Time::GeneralTime),
    }
}

fn extension(id: ObjectIdentifier, critical: bool, value: &impl Encode) -> der::Result<Extension> {
    Ok(Extension {
        extn_id: id,
        critical,
        extn_value: OctetString::new(value.to_der()?)?,
    })
}

/// The extensions of a certificate in the order in which Go writes them.
fn extensions(request: &CertReq, usages: &[String]) -> der::Result<Extensions> {
    let mut extensions = Extensions::new();
    let mut plain = usages.iter().filter_map(|usage| key_usage(usage));
    if let Some(first) = plain.next() {
        let mut usage = KeyUsage(first.into());
        plain.for_each(|own| usage.0 |= own);
        extensions.push(extension(KeyUsage::OID, true, &usage)?);
    }
    let mut extended: Vec<ObjectIdentifier> = Vec::new();
    for id in usages.iter().filter_map(|usage| extended_key_usage(usage)) {
        if !extended.contains(&id) {
            extended.push(id);
        }
    }
    if !extended.is_empty() {
        let usage = ExtendedKeyUsage(extended);
        extensions.push(extension(ExtendedKeyUsage::OID, false, &usage)?);
    }
    let constraints = BasicConstraints {
        ca: false,
        path_len_constraint: None,
    };
    extensions.push(extension(BasicConstraints::OID, true, &constraints)?);
    if let Some(names) = alternative_names(request) {
        extensions.push(Extension {
            critical: request.info.subject.is_empty(),
            ..names
        });
    }
    Ok(extensions)
}

fn key_usage(usage: &str) -> Option<KeyUsages> {
    Some(match usage {
        "signing" | "digital signature" => KeyUsages::DigitalSignature,
        "content commitment" => KeyUsages::NonRepudiation,
        "key encipherment" => KeyUsages::KeyEncipherment,
        "key agreement" => KeyUsages::KeyAgreement,
        "data encipherment" => KeyUsages::DataEncipherment,
        "cert sign" => KeyUsages::KeyCertSign,
        "crl sign" => KeyUsages::CRLSign,
        "encipher only" => KeyUsages::EncipherOnly,
        "decipher only" => KeyUsages::DecipherOnly,
        _ => return None,
    })
}

fn extended_key_usage(usage: &str) -> Option<ObjectIdentifier> {
    let id = match usage {
        "any" => "2.5.29.37.0",
        "server auth" => "1.3.6.1.5.5.7.3.1",
        "client auth" => "1.3.6.1.5.5.7.3.2",
        "code signing" => "1.3.6.1.5.5.7.3.3",
        "email protection" | "s/mime" => "1.3.6.1.5.5.7.3.4",
        "ipsec end system" => "1.3.6.1.5.5.7.3.5",
        "ipsec tunnel" => "1.3.6.1.5.5.7.3.6",
        "ipsec user" => "1.3.6.1.5.5.7.3.7",
        "timestamping" => "1.3.6.1.5.5.7.3.8",
        "ocsp signing" => "1.3.6.1.5.5.7.3.9",
        "microsoft sgc" => "1.3.6.1.4.1.311.10.3.3",
        "netscape sgc" => "2.16.840.1.113730.4.1",
        _ => return None,
    };
    Some(ObjectIdentifier::new_unwrap(id))
}

/// A serial number out of a uid: positive, and of the same length for all.
pub(crate) fn serial_of(uid: &str) -> Vec<u8> {
    let digits = uid.chars().filter_map(|digit| digit.to_digit(16));
    let digits: Vec<u32> = digits.collect();
    let pairs = digits.chunks_exact(2).map(|pair| pair[0] * 16 + pair[1]);
    let mut bytes: Vec<u8> = pairs.filter_map(|byte| u8::try_from(byte).ok()).collect();
    if let Some(first) = bytes.first_mut() {
        *first = *first & 0x7f | 0x40;
    }
    bytes
}

#[cfg(test)]
mod tests;
