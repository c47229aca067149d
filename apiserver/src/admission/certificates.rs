//! Permissions to approve and sign certificates, and the subjects that cannot be requested.

use super::attributes::Attributes;
use crate::auth::{self, User};
use crate::json::Value;
use crate::metrics::admission::Plugin;
use crate::registry::certificates::certificate_signing_request::request::der_of;
use crate::status::ApiError;

const GROUP: &str = "certificates.k8s.io";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// The organization that no certificate may have. In DER it follows the identifier `ORGANIZATION`.
const MASTERS: &[u8] = b"system:masters";
const ORGANIZATION: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x0a];

/// Checks the permission of the user to create, approve or sign a certificate signing request, and
/// names the plugin that decides; `None` where no plugin looks at the write.
///
/// The refusal is `Forbidden`.
pub(super) fn check(attributes: Attributes<'_>) -> Option<(Plugin, Result<(), ApiError>)> {
    let gvr = attributes.resource.gvr();
    if gvr.group != GROUP || gvr.resource != "certificatesigningrequests" {
        return None;
    }
    let (request, signer) = (attributes.object, &attributes.object["spec"]["signerName"]);
    let signer = signer.as_str().unwrap_or_default();
    let changed = |field: &str| {
        let status = |own: &Value| own["status"][field].clone();
        attributes
            .old
            .is_some_and(|old| status(old) != status(request))
    };
    let (plugin, verb) = match (attributes.subresource, attributes.old) {
        ("", None) => {
            let checked = check_subject(attributes, signer);
            return Some((Plugin::CertificateSubjectRestriction, checked));
        }
        ("approval", _) => (Plugin::CertificateApproval, "approve"),
        ("status", Some(_)) if changed("certificate") || changed("conditions") => {
            (Plugin::CertificateSigning, "sign")
        }
        _ => return None,
    };
    let checked = match attributes.user {
        Some(user) if !may(attributes, user, verb, signer) => Err(attributes.forbidden(format!(
            "user not permitted to {verb} requests with signerName {signer:?}"
        ))),
        _ => Ok(()),
    };
    Some((plugin, checked))
}

/// Signers are named in roles one by one, or all of a domain.
fn may(attributes: Attributes<'_>, user: &User, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    [signer.to_owned(), format!("{domain}/*")]
        .into_iter()
        .any(|name| {
            let permission = auth::Attributes::Resource {
                verb: verb.into(),
                group: GROUP.into(),
                version: auth::ANY_VERSION.into(),
                resource: "signers".into(),
                subresource: "".into(),
                namespace: "".into(),
                name: name.into(),
                selectors: auth::Selectors::default(),
            };
            auth::authorize(attributes.state, user, &permission).is_allowed()
        })
}

fn check_subject(attributes: Attributes<'_>, signer: &str) -> Result<(), ApiError> {
    if signer != CLIENT_SIGNER {
        return Ok(());
    }
    let der = der_of(&attributes.object["spec"]["request"]).unwrap_or_default();
    // The type of an attribute is followed by the tag and length of its value.
    let is_master = der
        .windows(ORGANIZATION.len())
        .enumerate()
        .any(|(at, own)| {
            let value = der.get(at + ORGANIZATION.len() + 2..).unwrap_or_default();
            own == ORGANIZATION && value.starts_with(MASTERS)
        });
    match is_master {
        true => Err(attributes.forbidden(format!(
            "use of {CLIENT_SIGNER} signer with system:masters group is not allowed"
        ))),
        false => Ok(()),
    }
}
