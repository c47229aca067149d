//! The rules for requests to the signers of Kubernetes.
//!
//! Source: `pkg/apis/certificates/helpers.go`, `pkg/controller/certificates/signer/signer.go`.

use std::collections::BTreeSet;

use super::RequestedCertificate;

/// The signer of certificates by which clients are known to the API server.
pub(super) const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// The signer of certificates by which kubelets are known to the API server.
pub(super) const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The signer of certificates with which kubelets serve.
pub(super) const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
/// The signer that signs everything.
pub(super) const LEGACY_UNKNOWN: &str = "kubernetes.io/legacy-unknown";

const NODES: &str = "system:nodes";
const NODE: &str = "system:node:";

/// Checks a request whose certificate is to have `usages`; `None` for a signer that is not one of
/// Kubernetes'.
///
/// # Errors
/// The violated rule, in upstream's words.
pub(super) fn check(
    signer: &str,
    request: &RequestedCertificate,
    usages: &[String],
) -> Option<Result<(), String>> {
    match signer {
        CLIENT => Some(check_client(usages)),
        KUBELET_CLIENT => Some(check_kubelet_client(request, usages)),
        KUBELET_SERVING => Some(check_kubelet_serving(request, usages)),
        LEGACY_UNKNOWN => Some(Ok(())),
        _ => None,
    }
}

fn check_client(usages: &[String]) -> Result<(), String> {
    for usage in usages {
        let is_allowed = ["digital signature", "key encipherment", "client auth"];
        if !is_allowed.contains(&usage.as_str()) {
            return Err(format!("invalid usage for client certificate: {usage}"));
        }
    }
    match usages.iter().any(|usage| usage == "client auth") {
        true => Ok(()),
        false => Err("missing required usage for client certificate: client auth".to_owned()),
    }
}

/// Checks a request for a kubelet's client certificate.
///
/// # Errors
/// The violated rule, in upstream's words.
pub(super) fn check_kubelet_client(
    request: &RequestedCertificate,
    usages: &[String],
) -> Result<(), String> {
    check_organization(request)?;
    for (is_there, name) in [
        (request.has_dns_names, "DNS"),
        (request.has_email_addresses, "Email"),
        (request.has_ip_addresses, "IP"),
        (request.has_uris, "URI"),
    ] {
        if is_there {
            return Err(format!("{name} subjectAltNames are not allowed"));
        }
    }
    check_name(request)?;
    check_usages(usages, "client auth")
}

fn check_kubelet_serving(request: &RequestedCertificate, usages: &[String]) -> Result<(), String> {
    check_organization(request)?;
    if !request.has_dns_names && !request.has_ip_addresses {
        return Err("DNS or IP subjectAltName is required".to_owned());
    }
    for (is_there, name) in [
        (request.has_email_addresses, "Email"),
        (request.has_uris, "URI"),
    ] {
        if is_there {
            return Err(format!("{name} subjectAltNames are not allowed"));
        }
    }
    check_usages(usages, "server auth")?;
    check_name(request)
}

fn check_organization(request: &RequestedCertificate) -> Result<(), String> {
    match request.organizations.as_slice() {
        [one] if one == NODES => Ok(()),
        _ => Err("subject organization is not system:nodes".to_owned()),
    }
}

fn check_name(request: &RequestedCertificate) -> Result<(), String> {
    match request.common_name.starts_with(NODE) {
        true => Ok(()),
        false => Err("subject common name does not begin with system:node:".to_owned()),
    }
}

/// Keys other than RSA encipher no keys.
fn check_usages(usages: &[String], purpose: &str) -> Result<(), String> {
    let own: BTreeSet<&str> = usages.iter().map(String::as_str).collect();
    let few = BTreeSet::from(["digital signature", purpose]);
    let mut all = few.clone();
    all.insert("key encipherment");
    if own == few || own == all {
        return Ok(());
    }
    let all: Vec<&str> = all.into_iter().collect();
    Err(format!("usages did not match [{}]", all.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usages(usages: &[&str]) -> Vec<String> {
        usages.iter().map(|usage| (*usage).to_owned()).collect()
    }

    fn node() -> RequestedCertificate {
        RequestedCertificate {
            common_name: "system:node:a".to_owned(),
            organizations: usages(&["system:nodes"]),
            ..RequestedCertificate::default()
        }
    }

    #[test]
    fn each_signer_has_its_rules() {
        let named = |change: fn(&mut RequestedCertificate)| {
            let mut node = node();
            change(&mut node);
            node
        };
        let served = || named(|own| own.has_dns_names = true);
        let client = &["digital signature", "client auth"][..];
        let server = &["server auth", "digital signature", "key encipherment"][..];
        for (signer, request, own, expected) in [
            (CLIENT, RequestedCertificate::default(), client, ""),
            (
                CLIENT,
                node(),
                server,
                "invalid usage for client certificate: server auth",
            ),
            (
                CLIENT,
                node(),
                &["digital signature"][..],
                "missing required usage for client certificate: client auth",
            ),
            (KUBELET_CLIENT, node(), client, ""),
            (
                KUBELET_CLIENT,
                served(),
                client,
                "DNS subjectAltNames are not allowed",
            ),
            (
                KUBELET_CLIENT,
                node(),
                server,
                "usages did not match [client auth digital signature key encipherment]",
            ),
            (
                KUBELET_CLIENT,
                named(|own| own.common_name = "a".to_owned()),
                client,
                "subject common name does not begin with system:node:",
            ),
            (
                KUBELET_CLIENT,
                named(|own| own.organizations.push("more".to_owned())),
                client,
                "subject organization is not system:nodes",
            ),
            (KUBELET_SERVING, served(), server, ""),
            (
                KUBELET_SERVING,
                node(),
                server,
                "DNS or IP subjectAltName is required",
            ),
            (
                KUBELET_SERVING,
                named(|own| {
                    own.has_ip_addresses = true;
                    own.has_uris = true;
                }),
                server,
                "URI subjectAltNames are not allowed",
            ),
            (LEGACY_UNKNOWN, RequestedCertificate::default(), server, ""),
        ] {
            let checked = check(signer, &request, &usages(own)).unwrap();
            let refusal = checked.err().unwrap_or_default();
            assert_eq!(refusal, expected, "{signer} {request:?} {own:?}");
        }
        assert_eq!(check("example.com/own", &node(), &[]), None);
    }
}
