//! The checks of the flags that say who may do what. See [`validation`](super::validation).

use std::collections::BTreeSet;

use kubeproof_apiserver::status::quoted;

use super::super::pflag::Parsed;
use super::known::AUTHORIZATION_MODES;

/// Checks OpenID, issuers and keys of tokens, and headers of proxies.
pub(super) fn authentication(parsed: &Parsed) -> Vec<String> {
    let mut faults = Vec::new();
    let oidc = [
        "oidc-issuer-url",
        "oidc-client-id",
        "oidc-ca-file",
        "oidc-username-claim",
        "oidc-username-prefix",
        "oidc-groups-claim",
        "oidc-groups-prefix",
        "oidc-signing-algs",
        "oidc-required-claim",
    ];
    if oidc.iter().any(|name| parsed.is_set(name)) {
        if parsed.text("authentication-config").is_some() {
            faults.push(
                "authentication-config file and oidc-* flags are mutually exclusive".to_owned(),
            );
        } else if oidc[..2].iter().any(|name| parsed.text(name).is_none()) {
            faults.push(
                "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set".to_owned(),
            );
        }
    }
    let issuers = parsed.all("service-account-issuer");
    let mut seen = BTreeSet::new();
    for issuer in &issuers {
        if issuer.is_empty() {
            faults.push("service-account-issuer should not be an empty string".to_owned());
        } else if !seen.insert(issuer) {
            faults.push(format!(
                "service-account-issuer {} is already specified",
                quoted(issuer)
            ));
        }
    }
    if issuers.is_empty() {
        faults.push("service-account-issuer is a required flag".to_owned());
    }
    let keys = parsed.all("service-account-key-file");
    if keys.is_empty() && parsed.text("service-account-signing-endpoint").is_none() {
        faults.push(
            "either `--service-account-key-file` or `--service-account-signing-endpoint` must be set".to_owned(),
        );
    }
    if let Some(uri) = parsed.text("service-account-jwks-uri")
        && !uri.starts_with("https://")
    {
        faults.push(format!(
            "service-account-jwks-uri requires https scheme, parsed as: {uri}"
        ));
    }
    faults.extend(request_headers(parsed));
    faults
}

fn request_headers(parsed: &Parsed) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, headers) in [
        (
            "requestheader-username-headers",
            parsed.all("requestheader-username-headers"),
        ),
        (
            "requestheader-group-headers",
            parsed.all("requestheader-group-headers"),
        ),
        (
            "requestheader-extra-headers-prefix",
            parsed.all("requestheader-extra-headers-prefix"),
        ),
        (
            "requestheader-allowed-names",
            parsed.all("requestheader-allowed-names"),
        ),
        (
            "requestheader-uid-headers",
            parsed.all("requestheader-uid-headers"),
        ),
    ] {
        if headers.iter().any(|header| header.trim().is_empty()) {
            faults.push(format!("empty value in {name:?}"));
        }
    }
    let uids = parsed.all("requestheader-uid-headers");
    if !uids.is_empty()
        && !uids
            .iter()
            .any(|uid| uid.eq_ignore_ascii_case("X-Remote-Uid"))
    {
        faults.push(
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation \
             will not work"
                .to_owned(),
        );
    }
    let files = (
        parsed.text("client-ca-file"),
        parsed.text("requestheader-client-ca-file"),
    );
    if let (Some(clients), Some(proxies)) = files
        && parsed.all("requestheader-allowed-names").is_empty()
        && !certificates(clients).is_disjoint(&certificates(proxies))
    {
        faults.push(
            "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; \
             --requestheader-allowed-names must be specified to ensure regular client certificates cannot set \
             authenticating proxy headers for arbitrary users"
                .to_owned(),
        );
    }
    faults
}

/// Returns the certificates of a file, encoded. A file that cannot be read has none; the server reports it.
fn certificates(file: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let blocks = text.split("-----BEGIN CERTIFICATE-----").skip(1);
    let encoded = blocks.filter_map(|block| block.split("-----END").next());
    encoded
        .map(|text| text.split_whitespace().collect())
        .collect()
}

/// Checks the authorizers and their files.
pub(super) fn authorization(parsed: &Parsed) -> Vec<String> {
    let modes = parsed.all("authorization-mode");
    if parsed.text("authorization-config").is_some() {
        let legacy = [
            "authorization-mode",
            "authorization-webhook-config-file",
            "authorization-webhook-version",
            "authorization-webhook-cache-authorized-ttl",
            "authorization-webhook-cache-unauthorized-ttl",
        ];
        let is_legacy = legacy.iter().any(|name| parsed.is_set(name));
        let words = "--authorization-config can not be specified when --authorization-mode or \
             --authorization-webhook-* flags are defined";
        return is_legacy.then(|| words.to_owned()).into_iter().collect();
    }
    let policy = parsed.text("authorization-policy-file");
    let webhook = parsed.text("authorization-webhook-config-file");
    let mut faults = Vec::new();
    for mode in &modes {
        match mode.as_str() {
            "ABAC" if policy.is_none() => faults
                .push("authorization-mode ABAC's authorization policy file not passed".to_owned()),
            "Webhook" if webhook.is_none() => faults.push(
                "authorization-mode Webhook's authorization config file not passed".to_owned(),
            ),
            known if AUTHORIZATION_MODES.contains(&known) => {}
            unknown => faults.push(format!(
                "authorization-mode {} is not a valid mode",
                quoted(unknown)
            )),
        }
    }
    let has = |mode: &str| modes.iter().any(|one| one == mode);
    if policy.is_some() && !has("ABAC") {
        faults.push("cannot specify --authorization-policy-file without mode ABAC".to_owned());
    }
    if webhook.is_some() && !has("Webhook") {
        faults.push(
            "cannot specify --authorization-webhook-config-file without mode Webhook".to_owned(),
        );
    }
    if modes.iter().collect::<BTreeSet<_>>().len() != modes.len() {
        let modes: Vec<String> = modes.iter().map(|mode| quoted(mode)).collect();
        faults.push(format!(
            "authorization-mode [{}] has mode specified more than once",
            modes.join(" ")
        ));
    }
    faults
}

/// Checks that the server can issue tokens.
pub(super) fn token_request(parsed: &Parsed) -> Option<String> {
    let issuers = parsed.all("service-account-issuer");
    let has_issuer = issuers.first().is_some_and(|issuer| !issuer.is_empty());
    let has_key = parsed.text("service-account-signing-key-file").is_some();
    let has_signer = has_key || parsed.text("service-account-signing-endpoint").is_some();
    let words = match () {
        () if !has_key && !has_issuer && parsed.all("api-audiences").is_empty() => {
            "--service-account-signing-key-file and --service-account-issuer are required flags"
        }
        () if !(has_issuer && has_signer) => {
            "--service-account-signing-key-file, --service-account-issuer, and --api-audiences should be specified \
             together"
        }
        () => return None,
    };
    Some(words.to_owned())
}
