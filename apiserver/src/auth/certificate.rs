//! Authentication of a user by a client's certificate.

use sha2::{Digest, Sha256};
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::State;
use super::{CREDENTIAL_ID, User};
use crate::x509::{Authorities, Certificate, Usage};

/// The user in a client's certificate; `None` if its subject has no common name.
///
/// # Errors
/// The reason why the certificate is refused.
pub(super) fn user(
    state: &State,
    authorities: &Authorities,
    chain: &[CertificateDer<'static>],
) -> Result<Option<User>, String> {
    let Some((leaf, intermediates)) = chain.split_first() else {
        return Ok(None);
    };
    let leaf = Certificate::read(leaf)?;
    let now = state.clock.now();
    let left = leaf.expires().duration_since(now);
    state.metrics.access().certificate_shown(left.as_secs());
    authorities.verify(&leaf, intermediates, Usage::Client, now)?;
    let subject = leaf.subject();
    if subject.common_name.is_empty() {
        return Ok(None);
    }
    let uid = match subject.uids.as_slice() {
        [] => String::new(),
        [uid] if uid.is_empty() => return Err("UID cannot be an empty string".to_owned()),
        [uid] => uid.clone(),
        uids => {
            return Err(format!(
                "expected 1 UID, but found multiple: [{}]",
                uids.join(" ")
            ));
        }
    };
    let digest = Sha256::digest(leaf.der());
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let id = (
        CREDENTIAL_ID.to_owned(),
        vec![format!("X509SHA256={digest}")],
    );
    let user = User {
        name: subject.common_name,
        uid,
        groups: subject.organizations,
        extra: [id].into(),
    };
    Ok(Some(user.authenticated()))
}
