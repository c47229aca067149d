//! PEM and DER as far as requests and certificates need them, with the errors of Go's packages.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio_rustls::rustls::crypto::ring;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BITS: u8 = 0x03;
const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const TRUNCATED: &str = "asn1: syntax error: data truncated";

/// A block of PEM.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block<'t> {
    pub(super) kind: &'t str,
    pub(super) has_headers: bool,
    pub(super) bytes: Vec<u8>,
}

/// Returns the first PEM block of a text and the text after it.
pub(super) fn block(mut text: &str) -> Option<(Block<'_>, &str)> {
    const BEGIN: &str = "-----BEGIN ";
    loop {
        let at = text
            .match_indices(BEGIN)
            .map(|(at, _)| at)
            .find(|at| *at == 0 || text.as_bytes()[at - 1] == b'\n')?;
        text = &text[at + BEGIN.len()..];
        if let Some(found) = block_from(text) {
            return Some(found);
        }
    }
}

fn block_from(text: &str) -> Option<(Block<'_>, &str)> {
    let (kind, body) = text.split_once('\n')?;
    let kind = kind.trim_end().strip_suffix("-----")?;
    let end = format!("-----END {kind}-----");
    let (body, rest) = body.split_once(&end)?;
    let is_header = |line: &&str| line.contains(':');
    let has_headers = body.lines().take_while(is_header).count() > 0;
    let lines = body.lines().skip_while(is_header);
    let encoded: String = lines.flat_map(str::split_whitespace).collect();
    let bytes = STANDARD.decode(encoded).ok()?;
    let block = Block {
        kind,
        has_headers,
        bytes,
    };
    Some((block, rest))
}

/// An element: its tag, its contents, and all its bytes with the header.
#[derive(Clone, Copy)]
struct Element<'d> {
    tag: u8,
    header: usize,
    held: &'d [u8],
    whole: &'d [u8],
}

/// Returns the first DER element and the bytes after it.
fn element(der: &[u8]) -> Result<(Element<'_>, &[u8]), String> {
    let [tag, short, ..] = *der else {
        return Err("asn1: syntax error: sequence truncated".to_owned());
    };
    let truncated = || TRUNCATED.to_owned();
    let (header, length) = match short {
        0..=0x7f => (2, usize::from(short)),
        long => {
            let count = usize::from(long & 0x7f);
            let bytes = der.get(2..2 + count).ok_or_else(truncated)?;
            let length = bytes.iter().try_fold(0_usize, |sum, byte| {
                sum.checked_mul(256)?.checked_add(usize::from(*byte))
            });
            (2 + count, length.ok_or_else(truncated)?)
        }
    };
    let end = header.checked_add(length).filter(|end| *end <= der.len());
    let end = end.ok_or_else(truncated)?;
    let (whole, rest) = der.split_at(end);
    let held = &whole[header..];
    Ok((
        Element {
            tag,
            header,
            held,
            whole,
        },
        rest,
    ))
}

/// Returns the next element, which must have this tag, and the bytes after it; `wanted` is Go's
/// name of the field.
fn expect<'d>(der: &'d [u8], tag: u8, wanted: &str) -> Result<(Element<'d>, &'d [u8]), String> {
    let (own, rest) = element(der)?;
    if own.tag == tag {
        return Ok((own, rest));
    }
    let (class, number, compound) = (own.tag >> 6, own.tag & 0x1f, own.tag & 0x20 != 0);
    Err(format!(
        "asn1: structure error: tags don't match ({} vs {{class:{class} tag:{number} length:{} \
         isCompound:{compound}}}) {{optional:false explicit:false application:false private:false \
         defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false}} {wanted} \
         @{}",
        tag & 0x1f,
        own.held.len(),
        own.header
    ))
}

/// The bytes of a string of whole bytes.
fn bits(own: Element<'_>) -> Result<&[u8], String> {
    let padded = || "asn1: syntax error: invalid padding bits in BIT STRING".to_owned();
    let (padding, bytes) = own
        .held
        .split_first()
        .ok_or("asn1: syntax error: zero length BIT STRING")?;
    let last = bytes.last().copied().unwrap_or(0);
    let is_valid = *padding < 8
        && (*padding == 0 || !bytes.is_empty())
        && u32::from(last).trailing_zeros() >= u32::from(*padding);
    match is_valid {
        true => Ok(bytes),
        false => Err(padded()),
    }
}

/// Checks that the bytes are a certificate request, signed with the key that it contains.
///
/// # Errors
/// Go's message for the first fault.
pub(super) fn check_request(der: &[u8]) -> Result<(), String> {
    let (request, rest) = expect(der, SEQUENCE, "certificateRequest")?;
    if !rest.is_empty() {
        return Err("asn1: syntax error: trailing data".to_owned());
    }
    let (tbs, rest) = expect(request.held, SEQUENCE, "tbsCertificateRequest")?;
    let (algorithm, rest) = expect(rest, SEQUENCE, "AlgorithmIdentifier")?;
    let (signature, _) = expect(rest, BITS, "BitString")?;
    let signature = bits(signature)?;
    let (_, rest) = expect(tbs.held, INTEGER, "int")?;
    let (_, rest) = expect(rest, SEQUENCE, "RawValue")?;
    let (key, _) = expect(rest, SEQUENCE, "publicKeyInfo")?;
    let (of_key, rest) = expect(key.held, SEQUENCE, "AlgorithmIdentifier")?;
    let (key, _) = expect(rest, BITS, "BitString")?;
    let key = bits(key)?;
    let provider = ring::default_provider();
    let mut known = provider.signature_verification_algorithms.all.iter();
    let of_both = known.find(|own| {
        own.public_key_alg_id().as_ref() == of_key.held
            && own.signature_alg_id().as_ref() == algorithm.held
    });
    // A signature algorithm that the library does not know is accepted.
    let Some(verifier) = of_both else {
        return Ok(());
    };
    let verified = verifier.verify_signature(key, tbs.whole, signature);
    let contains = |id: &[u8]| of_key.held.windows(id.len()).any(|own| own == id);
    verified.map_err(|_| {
        match (contains(ECDSA), contains(ED25519)) {
            (true, _) => "x509: ECDSA verification failure",
            (_, true) => "x509: Ed25519 verification failure",
            _ => "crypto/rsa: verification error",
        }
        .to_owned()
    })
}

/// Checks that the bytes are a sequence of certificates, as far as the outer structure shows.
///
/// # Errors
/// Go's message for the first fault.
pub(super) fn check_certificates(mut der: &[u8]) -> Result<(), String> {
    if der.is_empty() {
        return Err("found CERTIFICATE PEM block containing 0 certificates".to_owned());
    }
    let malformed = |_| "x509: malformed certificate".to_owned();
    while !der.is_empty() {
        let (own, rest) = expect(der, SEQUENCE, "").map_err(malformed)?;
        let outline = expect(own.held, SEQUENCE, "").and_then(|(tbs, rest)| {
            let (_, rest) = expect(rest, SEQUENCE, "")?;
            expect(rest, BITS, "").map(|_| tbs)
        });
        let tbs = outline.map_err(|_| "x509: malformed tbs certificate".to_owned())?;
        check_tbs(tbs.held)?;
        der = rest;
    }
    Ok(())
}

/// Checks the signed part of a certificate: version, serial number, algorithm, issuer, validity,
/// subject, key.
fn check_tbs(mut tbs: &[u8]) -> Result<(), String> {
    const VERSION: u8 = 0xa0;
    if tbs.first() == Some(&VERSION) {
        let malformed = |_| "x509: malformed version".to_owned();
        tbs = element(tbs).map_err(malformed)?.1;
    }
    for (tag, wanted) in [
        (INTEGER, "malformed serial number"),
        (SEQUENCE, "malformed signature algorithm identifier"),
        (SEQUENCE, "malformed issuer"),
        (SEQUENCE, "malformed validity"),
        (SEQUENCE, "malformed issuer"),
        (SEQUENCE, "malformed spki"),
    ] {
        let malformed = |_| format!("x509: {wanted}");
        let (own, rest) = expect(tbs, tag, "").map_err(malformed)?;
        if wanted == "malformed issuer" {
            check_name(own.held)?;
        }
        tbs = rest;
    }
    Ok(())
}

/// A name is a row of sets of attributes.
fn check_name(mut name: &[u8]) -> Result<(), String> {
    const SET: u8 = 0x31;
    while !name.is_empty() {
        let invalid = |_| "x509: invalid RDNSequence".to_owned();
        name = expect(name, SET, "").map_err(invalid)?.1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request of an elliptic key, with the common name `e`.
    const REQUEST: &str = "-----BEGIN CERTIFICATE REQUEST-----\n\
        MIHHMG4CAQAwDDEKMAgGA1UEAwwBZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IA\n\
        BAZPuJa4wOAHj5sTv9U6v8G7710ablRPRhzmIwt7zssh2Vm9PWLAlsINdIO8Ilyc\n\
        i8GmhtxEYs4wZJ4a5Goiss+gADAKBggqhkjOPQQDAgNJADBGAiEAx8ixGnALy3h2\n\
        /5Zmzs8Xi4xRrgNGNzlfHO7feWMuS4gCIQCSdTJ0kYcUDLw+cRshfF2eO0usPbcX\n\
        Jtu8N2JUyw96ag==\n\
        -----END CERTIFICATE REQUEST-----\n";

    #[test]
    fn a_request_is_signed_by_its_own_key() {
        let (own, rest) = block(REQUEST).unwrap();
        assert_eq!((own.kind, rest.trim()), ("CERTIFICATE REQUEST", ""));
        assert_eq!(check_request(&own.bytes), Ok(()));
        let changed = |at: usize| {
            let mut bytes = own.bytes.clone();
            bytes[at] ^= 1;
            check_request(&bytes).unwrap_err()
        };
        let last = own.bytes.len() - 1;
        assert_eq!(changed(last), "x509: ECDSA verification failure");
        assert!(
            changed(0).starts_with(
                "asn1: structure error: tags don't match (16 vs {class:0 tag:17 length:"
            )
        );
        let cut = check_request(&own.bytes[..last]);
        assert_eq!(cut.unwrap_err(), TRUNCATED);
        let longer = [own.bytes.as_slice(), &[0]].concat();
        let trailing = "asn1: syntax error: trailing data";
        assert_eq!(check_request(&longer).unwrap_err(), trailing);
        let empty = "asn1: syntax error: sequence truncated";
        assert_eq!(check_request(&[]).unwrap_err(), empty);
        assert_eq!(check_request(&[0x30, 0]).unwrap_err(), empty);
    }

    #[test]
    fn blocks_begin_lines_and_may_have_headers() {
        let text =
            "x -----BEGIN A-----\nno\n-----BEGIN B-----\nC: d\n\nAQI=\n-----END B-----\nrest";
        let (own, rest) = block(text).unwrap();
        assert_eq!((own.kind, own.has_headers), ("B", true));
        assert_eq!((own.bytes, rest), (vec![1, 2], "\nrest"));
        assert_eq!(block("-----BEGIN A-----\n!\n-----END A-----\n"), None);
    }

    #[test]
    fn certificates_have_an_outline() {
        let none = "found CERTIFICATE PEM block containing 0 certificates";
        assert_eq!(check_certificates(&[]).unwrap_err(), none);
        let malformed = "x509: malformed certificate";
        assert_eq!(check_certificates(&[0]).unwrap_err(), malformed);
        let malformed_tbs = "x509: malformed tbs certificate";
        assert_eq!(check_certificates(&[0x30, 0]).unwrap_err(), malformed_tbs);
    }
}
