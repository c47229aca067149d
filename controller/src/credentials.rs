//! The API server's signers for certificates and tokens, as controllers use them.

use crate::certificates::Authority;
use crate::core::service_account_tokens::SignToken;

/// The keys of the API server, as far as controllers use them. Without them, what needs a signature
/// is left to others.
#[derive(Clone)]
pub struct Credentials {
    /// Signs the tokens of service accounts that are kept in Secrets.
    pub sign_token: SignToken,
    /// Signs certificates.
    pub authority: Authority,
}
