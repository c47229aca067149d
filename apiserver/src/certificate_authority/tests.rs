use rcgen::{CertificateParams, DnType, KeyPair, SanType};

use super::*;
use crate::x509::{Authorities, Certificate, Usage};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A request of `user`, of all `groups` but one being beyond what rcgen can say.
fn request(user: &str, group: &str, names: Vec<SanType>) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::OrganizationName, group);
    params.distinguished_name.push(DnType::CommonName, user);
    params.subject_alt_names = names;
    let key = KeyPair::generate().unwrap();
    params.serialize_request(&key).unwrap().pem().unwrap()
}

fn usages(usages: &[&str]) -> Vec<String> {
    usages.iter().map(|usage| (*usage).to_owned()).collect()
}

#[test]
fn requests_are_read() {
    let names = vec![
        SanType::DnsName("a.example".try_into().unwrap()),
        SanType::IpAddress("10.0.0.1".parse().unwrap()),
        SanType::Rfc822Name("a@b.example".try_into().unwrap()),
        SanType::URI("spiffe://a".try_into().unwrap()),
    ];
    let pem = request("system:node:a", "system:nodes", names);
    let expected = RequestedCertificate {
        common_name: "system:node:a".to_owned(),
        organizations: usages(&["system:nodes"]),
        dns_names: usages(&["a.example"]),
        email_addresses: usages(&["a@b.example"]),
        ip_addresses: 1,
        uris: usages(&["spiffe://a"]),
    };
    assert_eq!(read_request(pem.as_bytes()), Ok(expected));
    let refused = "PEM block type must be CERTIFICATE REQUEST";
    assert_eq!(read_request(b"nonsense").unwrap_err(), refused);
}

#[test]
fn a_signed_certificate_is_good_for_its_time_and_use() {
    let started = at(1_767_225_600);
    let authority = CertificateAuthority::from_seed(Seed::fixed(), started);
    let again = CertificateAuthority::from_seed(Seed::fixed(), started);
    assert_eq!(
        authority.pem(),
        again.pem(),
        "the same seed, the same bytes"
    );
    let names = vec![SanType::DnsName("a.example".try_into().unwrap())];
    let pem = request("jane", "dev", names);
    let usages = usages(&["client auth", "digital signature"]);
    let sign = |duration| {
        let order = CertificateOrder {
            request: pem.as_bytes(),
            usages: &usages,
            duration,
        };
        authority.issue(order, started, &[7]).unwrap()
    };
    let hour = SignedDuration::from_hours(1);
    assert_eq!(sign(hour), sign(hour), "the same order, the same bytes");
    let ends = |duration| {
        expiry(sign(duration).as_bytes())
            .unwrap()
            .duration_since(started)
    };
    assert_eq!(ends(hour), hour);
    let year = SignedDuration::from_hours(365 * 24);
    assert_eq!(ends(year), year - BACKDATE);
    assert_eq!(ends(LIFETIME * 2), LIFETIME, "none outlives its authority");

    let der = CertificateDer::from_pem_slice(sign(hour).as_bytes()).unwrap();
    let certificate = Certificate::read(&der).unwrap();
    assert_eq!(certificate.subject().common_name, "jane");
    assert_eq!(certificate.subject().organizations, ["dev"]);
    assert_eq!(certificate.check_host("a.example"), Ok(()));
    let authorities = Authorities::read(authority.pem().as_bytes()).unwrap();
    let verify = |usage, now| authorities.verify(&certificate, &[], usage, now);
    assert!(verify(Usage::Client, started).is_ok());
    assert!(verify(Usage::Client, later(started, hour * 2)).is_err());
    assert!(verify(Usage::Server, started).is_err());
}
