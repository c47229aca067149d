//! CertificateSigningRequests.

pub mod certificate_signing_request;

use super::ApiGroup;

/// The strategies of `certificates.k8s.io`.
pub(super) const GROUP: ApiGroup = ApiGroup {
    name: "certificates.k8s.io",
    strategies: &[(
        "certificatesigningrequests",
        &certificate_signing_request::CertificateSigningRequest { approval: false },
    )],
};
