//! The keys of the API server for controllers: they sign tokens and certificates, and read certificate requests.

use std::sync::Arc;

use kubeproof_apiserver::{ApiServer, SecretToken, certificate_authority};
use kubeproof_controller::certificates::{Authority, RequestedCertificate};
use kubeproof_controller::credentials::Credentials;

/// Returns the keys of `server` for its controllers.
#[must_use]
pub fn of(server: &ApiServer) -> Credentials {
    let (tokens, certificates) = (server.clone(), server.clone());
    Credentials {
        sign_token: Arc::new(move |token| {
            tokens.sign_secret_token(SecretToken {
                namespace: token.namespace,
                account: token.account,
                uid: token.uid,
                secret: token.secret,
            })
        }),
        authority: Authority {
            read,
            expiry: certificate_authority::expiry,
            sign: Arc::new(move |order| {
                certificates.sign_certificate(certificate_authority::CertificateOrder {
                    request: order.request,
                    usages: order.usages,
                    duration: order.duration,
                })
            }),
        },
    }
}

fn read(pem: &[u8]) -> Result<RequestedCertificate, String> {
    let read = certificate_authority::read_request(pem)?;
    Ok(RequestedCertificate {
        common_name: read.common_name,
        organizations: read.organizations,
        has_dns_names: !read.dns_names.is_empty(),
        has_email_addresses: !read.email_addresses.is_empty(),
        has_ip_addresses: read.ip_addresses > 0,
        has_uris: !read.uris.is_empty(),
    })
}
