//! Certificates of webhooks, judged as Go judges them.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, SanType, date_time_ymd,
};

use super::{ApiServer, allow, create, for_configmaps, validating};
use crate::support::webhook_server::WebhookServer;

/// A certificate of `localhost`'s address, for servers.
fn params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params
}

fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(DnType::CommonName, "authority");
    params
}

/// The message of what becomes of a creation when a webhook has the certificate of `leaf`; its
/// configuration has that certificate as the authority, or one that has signed it.
async fn outcome(leaf: CertificateParams, issuer: Option<CertificateParams>) -> String {
    let key = KeyPair::generate().unwrap();
    let (certificate, authority) = match issuer {
        None => {
            let certificate = leaf.self_signed(&key).unwrap();
            let pem = certificate.pem();
            (certificate, pem)
        }
        Some(issuer) => {
            let issuer =
                CertifiedIssuer::self_signed(issuer, KeyPair::generate().unwrap()).unwrap();
            (leaf.signed_by(&key, &issuer).unwrap(), issuer.pem())
        }
    };
    let hook = WebhookServer::start_certified(certificate, &key, authority, allow).await;
    let server = ApiServer::builder().build();
    validating(&server, for_configmaps("v.example.com", hook.by_url("/x"))).await;
    let answer = create(&server, "a").await;
    assert_eq!(hook.seen().len(), usize::from(answer.code == 201));
    let x509 = "tls: failed to verify certificate: x509: ";
    match answer.message().split_once(x509) {
        Some((_, why)) => why.to_owned(),
        None => format!("{} {}", answer.code, answer.message()),
    }
}

#[tokio::test]
async fn a_certificate_in_the_bundle_is_taken_whether_or_not_it_is_an_authority_s() {
    for is_ca in [
        IsCa::NoCa,
        IsCa::ExplicitNoCa,
        IsCa::Ca(BasicConstraints::Unconstrained),
    ] {
        let mut own = params();
        own.is_ca = is_ca;
        assert_eq!(outcome(own.clone(), None).await, "201 ", "{is_ca:?}");
        // One without a stated usage is for any.
        own.extended_key_usages.clear();
        assert_eq!(outcome(own.clone(), None).await, "201 ", "{is_ca:?}");
        assert_eq!(outcome(own, Some(authority())).await, "201 ", "{is_ca:?}");
    }
}

#[tokio::test]
async fn name_time_and_usage_count_for_a_certificate_in_the_bundle_too() {
    for issuer in [None, Some(authority())] {
        for is_ca in [IsCa::NoCa, IsCa::Ca(BasicConstraints::Unconstrained)] {
            let mut params = params();
            params.is_ca = is_ca;
            let mut other = params.clone();
            other.subject_alt_names = vec![SanType::DnsName("example.com".try_into().unwrap())];
            assert_eq!(
                outcome(other, issuer.clone()).await,
                "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"
            );
            let mut client = params.clone();
            client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            assert_eq!(
                outcome(client, issuer.clone()).await,
                "certificate specifies an incompatible key usage"
            );
            let mut old = params.clone();
            old.not_after = date_time_ymd(2020, 1, 1);
            let refused = outcome(old, issuer.clone()).await;
            let expired = "certificate has expired or is not yet valid: current time ";
            assert!(refused.starts_with(expired), "{refused}");
            assert!(
                refused.ends_with(" is after 2020-01-01T00:00:00Z"),
                "{refused}"
            );
            let mut young = params;
            young.not_before = date_time_ymd(3000, 1, 1);
            let refused = outcome(young, issuer.clone()).await;
            assert!(
                refused.ends_with(" is before 3000-01-01T00:00:00Z"),
                "{refused}"
            );
        }
    }
}

#[tokio::test]
async fn only_an_authority_vouches_for_others() {
    let mut no_authority = authority();
    no_authority.is_ca = IsCa::ExplicitNoCa;
    for is_ca in [IsCa::NoCa, IsCa::Ca(BasicConstraints::Unconstrained)] {
        let mut leaf = params();
        leaf.is_ca = is_ca;
        let refused = outcome(leaf.clone(), Some(no_authority.clone())).await;
        assert_eq!(
            refused,
            "certificate signed by unknown authority (possibly because of \"x509: invalid signature: \
             parent certificate cannot sign this kind of certificate\" while trying to verify \
             candidate authority certificate \"authority\")"
        );
        // An authority counts in its time only.
        let mut old = authority();
        old.not_after = date_time_ymd(2020, 1, 1);
        let refused = outcome(leaf, Some(old)).await;
        let start = "certificate signed by unknown authority (possibly because of \"x509: certificate has \
                     expired or is not yet valid: current time ";
        assert!(refused.starts_with(start), "{refused}");
    }
}
