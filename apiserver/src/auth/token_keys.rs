//! The keys by which tokens of service accounts are signed and verified.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use der::asn1::{ObjectIdentifier, UintRef};
use der::{Decode, Encode, Sequence};
use p256::ecdsa::signature::Signer;
use p256::pkcs8::EncodePublicKey;
use sha2::{Digest, Sha256};
use tokio_rustls::rustls::SignatureScheme;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::{PemObject, SectionKind};
use tokio_rustls::rustls::sign::SigningKey;
use x509_cert::spki::{SubjectPublicKeyInfoOwned, SubjectPublicKeyInfoRef};

use crate::clock::Seed;
use crate::json::json;
use crate::x509::PROVIDER;

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");

/// The reason why a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenKeyError {
    /// The text holds no key of this kind, `private` or `public`.
    #[error("data does not contain {}", wanted(.0))]
    Missing(&'static str),
    /// The key is one that tokens cannot be signed with here.
    #[error("unsupported key: RSA of 2048 bits or more, or ECDSA on P-256 or P-384, is needed")]
    Unsupported,
}

/// The keys that a text lacks, in upstream's words.
fn wanted(kind: &str) -> &'static str {
    match kind {
        "private" => "a valid RSA or ECDSA private key",
        _ => "any valid RSA or ECDSA public keys",
    }
}

/// What tokens of service accounts are signed with, and which signatures count.
#[derive(Clone)]
pub struct TokenKeys {
    signer: Arc<TokenSigner>,
    signing: VerifyingKey,
    verifying: Vec<VerifyingKey>,
}

enum TokenSigner {
    /// A key generated here. It signs the same bytes alike (RFC 6979), as a server with a seed must.
    Generated(Box<p256::ecdsa::SigningKey>),
    Given(Arc<dyn SigningKey>),
}

/// A public key with its name.
#[derive(Clone, PartialEq, Eq)]
struct VerifyingKey {
    /// The digest of the key, by which tokens name it.
    id: String,
    algorithm: Algorithm,
    spki: SubjectPublicKeyInfoOwned,
}

/// An algorithm of signatures, by its name in RFC 7518.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Rs256,
    Es256,
    Es384,
}

/// Two numbers: an ECDSA signature, or an RSA public key.
#[derive(Sequence)]
struct Pair<'a> {
    first: UintRef<'a>,
    second: UintRef<'a>,
}

impl TokenKeys {
    /// Reads the private key in the PEM text `signing`, and the public (or private) keys in each of
    /// `verifying`; without any of those the public half of `signing` verifies.
    ///
    /// # Errors
    /// [`TokenKeyError`] if a text has no key, or one that is not supported.
    pub fn read(signing: &[u8], verifying: &[Vec<u8>]) -> Result<Self, TokenKeyError> {
        let signer = private_keys(signing).next();
        let signer = signer.ok_or(TokenKeyError::Missing("private"))??;
        let own = VerifyingKey::of(&*signer)?;
        let verifying = match verifying {
            [] => vec![own.clone()],
            texts => public_keys(texts)?,
        };
        Ok(Self {
            signer: Arc::new(TokenSigner::Given(signer)),
            signing: own,
            verifying,
        })
    }

    /// Makes a private ECDSA key of the machine's randomness, in PEM, for [`Self::read`].
    ///
    /// # Panics
    /// If the machine gives no randomness.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn generate_pem() -> String {
        let key = rcgen::KeyPair::generate().expect("the machine gives randomness");
        key.serialize_pem()
    }

    /// Makes an ECDSA key from `seed`.
    pub(crate) fn from_seed(seed: Seed) -> Self {
        let key = (0..).find_map(|attempt| {
            // All but a negligible part of the numbers of 256 bits are keys.
            p256::ecdsa::SigningKey::from_slice(&seed.key(attempt)).ok()
        });
        let key = key.expect("a number below the curve's order is drawn sooner or later");
        let spki = key.verifying_key().to_public_key_der();
        let spki = spki.expect("a key has a DER form");
        let own = VerifyingKey::read(spki.as_bytes()).expect("P-256 is supported");
        Self {
            signer: Arc::new(TokenSigner::Generated(Box::new(key))),
            verifying: vec![own.clone()],
            signing: own,
        }
    }

    /// The header of tokens that are signed here.
    pub(super) fn header(&self) -> String {
        let (algorithm, id) = (self.signing.algorithm.as_str(), &self.signing.id);
        format!("{{\"alg\":\"{algorithm}\",\"kid\":\"{id}\"}}")
    }

    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        let algorithm = self.signing.algorithm;
        match &*self.signer {
            TokenSigner::Generated(key) => {
                let signature: p256::ecdsa::Signature = key.sign(message);
                signature.to_bytes().to_vec()
            }
            TokenSigner::Given(key) => {
                let signer = key.choose_scheme(&[algorithm.scheme()]);
                let signer = signer.expect("the algorithm is that of the key");
                let signature = signer.sign(message).expect("the machine gives randomness");
                match algorithm.coordinate() {
                    None => signature,
                    Some(size) => fixed(&signature, size),
                }
            }
        }
    }

    /// Whether a key is named `id`; the empty name stands for all keys.
    pub(super) fn has(&self, id: &str) -> bool {
        self.named(id).next().is_some()
    }

    /// Whether `signature` was made of `message` by a key named `id` (or by any, if that is empty).
    pub(super) fn verify(
        &self,
        id: &str,
        algorithm: &str,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        self.named(id)
            .filter(|key| key.algorithm.as_str() == algorithm)
            .any(|key| key.verify(message, signature))
    }

    fn named<'k>(&'k self, id: &'k str) -> impl Iterator<Item = &'k VerifyingKey> {
        let keys = self.verifying.iter();
        keys.filter(move |key| id.is_empty() || key.id == id)
    }

    /// The public keys as a JSON Web Key Set, in the order of upstream's fields.
    pub(super) fn key_set(&self) -> String {
        let keys: Vec<String> = self.verifying.iter().map(VerifyingKey::to_jwk).collect();
        format!("{{\"keys\":[{}]}}", keys.join(","))
    }

    /// The algorithms of the public keys.
    pub(super) fn algorithms(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self
            .verifying
            .iter()
            .map(|key| key.algorithm.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKeys").finish_non_exhaustive()
    }
}

impl VerifyingKey {
    fn of(key: &dyn SigningKey) -> Result<Self, TokenKeyError> {
        let spki = key.public_key().ok_or(TokenKeyError::Unsupported)?;
        Self::read(&spki)
    }

    /// Reads a `SubjectPublicKeyInfo`.
    fn read(der: &[u8]) -> Result<Self, TokenKeyError> {
        let unsupported = |_| TokenKeyError::Unsupported;
        let spki = SubjectPublicKeyInfoRef::from_der(der).map_err(unsupported)?;
        let curve = || spki.algorithm.parameters_oid();
        let algorithm = match spki.algorithm.oid {
            RSA => Algorithm::Rs256,
            EC if curve() == Ok(P256) => Algorithm::Es256,
            EC if curve() == Ok(P384) => Algorithm::Es384,
            _ => return Err(TokenKeyError::Unsupported),
        };
        Ok(Self {
            id: URL_SAFE_NO_PAD.encode(Sha256::digest(der)),
            algorithm,
            spki: SubjectPublicKeyInfoOwned::from_der(der).map_err(unsupported)?,
        })
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let signature = match self.algorithm.coordinate() {
            None => Some(signature.to_vec()),
            Some(size) => (signature.len() == 2 * size)
                .then(|| to_der(&signature[..size], &signature[size..]))
                .flatten(),
        };
        let scheme = self.algorithm.scheme();
        let known = PROVIDER.signature_verification_algorithms.mapping.iter();
        let verifiers = known
            .filter(|(own, _)| *own == scheme)
            .flat_map(|(_, verifiers)| *verifiers);
        let key = self.spki.subject_public_key.raw_bytes();
        let id = self.spki.algorithm.to_der().unwrap_or_default();
        signature.is_some_and(|signature| {
            // The name of an algorithm is kept without the tag and length of its sequence.
            verifiers
                .filter(|verifier| id.ends_with(verifier.public_key_alg_id().as_ref()))
                .any(|verifier| verifier.verify_signature(key, message, &signature).is_ok())
        })
    }

    fn to_jwk(&self) -> String {
        let (id, algorithm) = (json!(self.id), self.algorithm.as_str());
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let key = self.spki.subject_public_key.raw_bytes();
        let Some(size) = self.algorithm.coordinate() else {
            let (n, e) = match Pair::from_der(key) {
                Ok(Pair { first, second }) => (encode(first.as_bytes()), encode(second.as_bytes())),
                Err(_) => Default::default(),
            };
            return format!(
                "{{\"use\":\"sig\",\"kty\":\"RSA\",\"kid\":{id},\"alg\":\"{algorithm}\",\"n\":\"{n}\",\"e\":\"{e}\"}}"
            );
        };
        // The uncompressed form: a byte of its own, then both coordinates.
        let (x, y) = key
            .get(1..)
            .unwrap_or_default()
            .split_at_checked(size)
            .unwrap_or_default();
        let (x, y) = (encode(x), encode(y));
        let curve = format!("P-{}", size * 8);
        format!(
            "{{\"use\":\"sig\",\"kty\":\"EC\",\"kid\":{id},\"crv\":\"{curve}\",\"alg\":\"{algorithm}\",\"x\":\"{x}\",\"y\":\"{y}\"}}"
        )
    }
}

impl Algorithm {
    fn as_str(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
        }
    }

    fn scheme(self) -> SignatureScheme {
        match self {
            Self::Rs256 => SignatureScheme::RSA_PKCS1_SHA256,
            Self::Es256 => SignatureScheme::ECDSA_NISTP256_SHA256,
            Self::Es384 => SignatureScheme::ECDSA_NISTP384_SHA384,
        }
    }

    /// The bytes of each half of an ECDSA signature, which JOSE writes without DER.
    fn coordinate(self) -> Option<usize> {
        match self {
            Self::Rs256 => None,
            Self::Es256 => Some(32),
            Self::Es384 => Some(48),
        }
    }
}

/// The private keys in a PEM text.
fn private_keys(text: &[u8]) -> impl Iterator<Item = Result<Arc<dyn SigningKey>, TokenKeyError>> {
    let sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(text).flatten();
    sections.filter_map(|(kind, der)| {
        let key = match kind {
            SectionKind::PrivateKey => PrivateKeyDer::Pkcs8(der.into()),
            SectionKind::RsaPrivateKey => PrivateKeyDer::Pkcs1(der.into()),
            SectionKind::EcPrivateKey => PrivateKeyDer::Sec1(der.into()),
            _ => return None,
        };
        let key = ring::sign::any_supported_type(&key);
        Some(key.map_err(|_| TokenKeyError::Unsupported))
    })
}

/// The public keys in PEM texts, those of private keys and of certificates among them.
fn public_keys(texts: &[Vec<u8>]) -> Result<Vec<VerifyingKey>, TokenKeyError> {
    let mut keys: Vec<VerifyingKey> = Vec::new();
    for text in texts {
        let mut found: Vec<VerifyingKey> = Vec::new();
        for private in private_keys(text) {
            found.push(VerifyingKey::of(&*private?)?);
        }
        for (kind, der) in <(SectionKind, Vec<u8>)>::pem_slice_iter(text).flatten() {
            match kind {
                SectionKind::PublicKey => found.push(VerifyingKey::read(&der)?),
                SectionKind::Certificate => {
                    let certificate = x509_cert::Certificate::from_der(&der);
                    let certificate = certificate.map_err(|_| TokenKeyError::Unsupported)?;
                    let spki = certificate.tbs_certificate().subject_public_key_info();
                    let spki = spki.to_der().map_err(|_| TokenKeyError::Unsupported)?;
                    found.push(VerifyingKey::read(&spki)?);
                }
                _ => {}
            }
        }
        if found.is_empty() {
            return Err(TokenKeyError::Missing("public"));
        }
        found.retain(|key| !keys.contains(key));
        keys.append(&mut found);
    }
    Ok(keys)
}

/// An ECDSA signature as JOSE writes it, from its DER form.
fn fixed(der: &[u8], size: usize) -> Vec<u8> {
    let Pair { first, second } = Pair::from_der(der).expect("ring writes DER");
    [first, second]
        .iter()
        .flat_map(|number| {
            let bytes = number.as_bytes();
            let mut padded = vec![0; size.saturating_sub(bytes.len())];
            padded.extend(bytes);
            padded
        })
        .collect()
}

/// The DER form of an ECDSA signature.
fn to_der(first: &[u8], second: &[u8]) -> Option<Vec<u8>> {
    let (first, second) = (UintRef::new(first).ok()?, UintRef::new(second).ok()?);
    Pair { first, second }.to_der().ok()
}
