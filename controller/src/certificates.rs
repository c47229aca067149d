//! The controllers of certificate signing requests: one approves those of nodes, one signs for the
//! signers of Kubernetes, one deletes old requests.
//!
//! Source: `pkg/controller/certificates` of Kubernetes.

pub mod approver;
pub mod cleaner;
mod requests;
mod rules;
pub mod signer;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition,
};

/// The subject and the names that a request contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedCertificate {
    /// The common name of the subject.
    pub common_name: String,
    /// The organizations of the subject.
    pub organizations: Vec<String>,
    /// Whether there are DNS names among the alternative names.
    pub has_dns_names: bool,
    /// Whether there are mail addresses among the alternative names.
    pub has_email_addresses: bool,
    /// Whether there are IP addresses among the alternative names.
    pub has_ip_addresses: bool,
    /// Whether there are URIs among the alternative names.
    pub has_uris: bool,
}

/// A certificate to be signed.
#[derive(Clone, Copy, Debug)]
pub struct CertificateOrder<'a> {
    /// The request, in PEM.
    pub request: &'a [u8],
    /// The usages of the certificate, spelled as in CertificateSigningRequests.
    pub usages: &'a [String],
    /// The validity of the certificate.
    pub duration: SignedDuration,
}

/// Reads requests and signs certificates.
#[derive(Clone)]
pub struct Authority {
    /// Reads a request in PEM, or says why it cannot be read.
    pub read: fn(&[u8]) -> Result<RequestedCertificate, String>,
    /// Returns when the first certificate of a PEM text is no longer good.
    pub expiry: fn(&[u8]) -> Option<Timestamp>,
    /// Signs a certificate, which it returns in PEM, or says why it cannot.
    pub sign: Sign,
}

/// Signs a certificate.
pub type Sign = Arc<dyn Fn(CertificateOrder<'_>) -> Result<String, String> + Send + Sync>;

const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";

fn conditions(
    request: &CertificateSigningRequest,
) -> impl Iterator<Item = &CertificateSigningRequestCondition> {
    let status = request.status.iter();
    status.flat_map(|status| status.conditions.iter().flatten())
}

fn has_condition(request: &CertificateSigningRequest, type_: &str) -> bool {
    conditions(request).any(|condition| condition.type_ == type_)
}

/// Whether the request is approved and not denied.
fn is_approved(request: &CertificateSigningRequest) -> bool {
    has_condition(request, APPROVED) && !has_condition(request, DENIED)
}

fn certificate(request: &CertificateSigningRequest) -> Option<&[u8]> {
    let status = request.status.as_ref()?;
    let certificate = status.certificate.as_ref()?;
    Some(certificate.0.as_slice()).filter(|certificate| !certificate.is_empty())
}
