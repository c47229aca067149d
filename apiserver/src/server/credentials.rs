//! Tokens and certificates that the server signs for controllers in this process.

use std::sync::LazyLock;

use super::ApiServer;
use crate::auth::{ObjectReference, SecretClaims};
use crate::certificate_authority::{self, CertificateAuthority, CertificateOrder};

/// Made when first needed: most servers sign no certificate.
pub(crate) type LazyAuthority =
    LazyLock<CertificateAuthority, Box<dyn FnOnce() -> CertificateAuthority + Send>>;

/// A token of a service account to be signed and kept in a Secret.
#[derive(Clone, Copy, Debug)]
pub struct SecretToken<'a> {
    /// The namespace of account and Secret.
    pub namespace: &'a str,
    /// The account's name.
    pub account: &'a str,
    /// The account's uid.
    pub uid: &'a str,
    /// The name of the Secret.
    pub secret: &'a str,
}

impl ApiServer {
    /// Signs the token of a service account that is kept in a Secret: it is valid for as long as
    /// the Secret has it.
    #[must_use]
    pub fn sign_secret_token(&self, token: SecretToken<'_>) -> String {
        self.core.tokens.issue_for_secret(&SecretClaims {
            namespace: token.namespace.to_owned(),
            account: ObjectReference {
                name: token.account.to_owned(),
                uid: token.uid.to_owned(),
            },
            secret: token.secret.to_owned(),
        })
    }

    /// Signs a certificate with the server's own authority, whose certificates the server takes from
    /// clients wherever it asks them for one.
    ///
    /// # Errors
    /// When the request cannot be read, or the authority is no longer good.
    pub fn sign_certificate(&self, order: CertificateOrder<'_>) -> Result<String, String> {
        let core = &self.core;
        let serial = certificate_authority::serial_of(&core.entropy.uid());
        core.authority.issue(order, core.clock.now(), &serial)
    }

    /// The certificate of the server's own authority, in PEM.
    #[must_use]
    pub fn authority_pem(&self) -> &str {
        self.core.authority.pem()
    }
}
