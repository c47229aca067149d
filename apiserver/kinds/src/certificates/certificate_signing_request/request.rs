//! Validation of a new CertificateSigningRequest.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::der;
use crate::json::Value;
use crate::meta::validation::{dns1123_label, dns1123_subdomain};
use crate::status::{FieldErrors, FieldPath, quoted};
use crate::unstructured::{is_empty, items, text};

const SECONDS_MIN: i64 = 600;
const DOMAIN_BYTES_MAX: usize = 253;
const SIGNER_BYTES_MAX: usize = 571;
const LEGACY: &str = "kubernetes.io/legacy-unknown";
const NO_REQUEST: &str = "PEM block type must be CERTIFICATE REQUEST";
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// The faults of a new request.
pub(super) fn validate(request: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, path) = (&request["spec"], FieldPath::new("spec"));
    if let Err(why) = der_of(&spec["request"]) {
        errors.invalid(&path.child("request"), &spec["request"], &why);
    }
    let at = path.child("usages");
    if is_empty(&spec["usages"]) {
        errors.required(&at, "");
    }
    for (index, usage) in items(&spec["usages"]).enumerate() {
        if !USAGES.contains(&text(usage)) {
            errors.not_supported(&at.index(index), usage, &USAGES);
        }
    }
    let mut seen = BTreeSet::new();
    for (index, usage) in items(&spec["usages"]).enumerate() {
        if !seen.insert(text(usage)) {
            errors.duplicate(&at.index(index), usage);
        }
    }
    validate_signer(
        text(&spec["signerName"]),
        &path.child("signerName"),
        &mut errors,
    );
    let seconds = &spec["expirationSeconds"];
    if seconds.as_i64().is_some_and(|own| own < SECONDS_MIN) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(&path.child("expirationSeconds"), seconds, detail);
    }
    errors
}

/// The bytes of the request itself.
///
/// # Errors
/// Go's message for text that is not a request in PEM.
pub fn der_of(encoded: &Value) -> Result<Vec<u8>, String> {
    let pem = STANDARD.decode(text(encoded)).unwrap_or_default();
    let pem = String::from_utf8_lossy(&pem);
    match der::block(&pem) {
        Some((block, _)) if block.kind == "CERTIFICATE REQUEST" => {
            der::check_request(&block.bytes)?;
            Ok(block.bytes)
        }
        _ => Err(NO_REQUEST.to_owned()),
    }
}

fn validate_signer(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    if name == LEGACY {
        let detail = "the legacy signerName is not allowed via this API version";
        return errors.invalid(path, &name.into(), detail);
    }
    let segments: Vec<&str> = name.split('/').collect();
    let [domain, signer] = *segments else {
        let detail =
            "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.invalid(path, &name.into(), detail);
    };
    if domain.len() > DOMAIN_BYTES_MAX {
        errors.too_long(path, DOMAIN_BYTES_MAX);
    }
    // A domain, a slash, and the longest names of a namespace and of an object in it.
    if name.len() > SIGNER_BYTES_MAX {
        errors.too_long(path, SIGNER_BYTES_MAX);
    }
    validate_labels(domain, dns1123_label, path, errors);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.invalid(path, &domain.into(), detail);
    }
    validate_labels(signer, dns1123_subdomain, path, errors);
}

/// Faults of the first faulty label between dots. Those of others would hardly differ.
fn validate_labels(
    name: &str,
    faults: fn(&str) -> Vec<String>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let mut faulty = name.split('.').map(|label| (label, faults(label)));
    if let Some((label, faults)) = faulty.find(|(_, faults)| !faults.is_empty()) {
        for fault in faults {
            let detail = format!("validating label {}: {fault}", quoted(label));
            errors.invalid(path, &name.into(), &detail);
        }
    }
}
