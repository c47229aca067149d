//! The settings of the server that the flags stand for.

use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use kubeproof_apiserver::{
    AbacPolicy, AdmissionConfiguration, AdmissionPlugins, ApiServer, ApiServerBuilder,
    AuthenticationWebhook, Authorization, AuthorizationWebhook, RequestHeaders, TokenFile,
    TokenKeys, WebhookKubeconfig,
};

use crate::cli::flags::{
    admission_flags, feature_gates, request_timeouts, runtime_config, service_ranges,
};
use crate::cli::out;
use crate::cli::pflag::Parsed;
use crate::cli::serve::authentication::Published;

/// A server as the flags describe it.
///
/// # Errors
/// Names the file or flag that cannot be used.
pub(super) fn builder(parsed: &Parsed) -> anyhow::Result<ApiServerBuilder> {
    let builder = ApiServer::builder().random().ask_for_credentials();
    let builder = authentication(parsed, builder)?;
    let builder = service_accounts(parsed, builder)?;
    let builder = authorization(parsed, builder)?;
    let builder = admission(parsed, builder)?;
    apis(parsed, builder)
}

fn authentication(
    parsed: &Parsed,
    mut builder: ApiServerBuilder,
) -> anyhow::Result<ApiServerBuilder> {
    if let Some(path) = parsed.text("client-ca-file") {
        let used = builder.client_authorities(&read(path)?);
        builder = used.with_context(|| format!("unable to load client CA bundle {path}"))?;
    }
    if let Some(path) = parsed.text("token-auth-file") {
        let tokens = TokenFile::read(path, &read(path)?);
        builder = builder.token_file(tokens.with_context(|| path.to_owned())?);
    }
    if parsed.is_on("enable-bootstrap-token-auth") {
        builder = builder.bootstrap_tokens();
    }
    if let Some(path) = parsed.text("requestheader-client-ca-file") {
        let used = builder.request_headers(&read(path)?, request_headers(parsed));
        builder = used.with_context(|| format!("unable to load request header CA {path}"))?;
    }
    let (certificate, key) = ("proxy-client-cert-file", "proxy-client-key-file");
    if let (Some(path), Some(key)) = (parsed.text(certificate), parsed.text(key)) {
        let used = builder.proxy_client_certificate(&read(path)?, &read(key)?);
        builder =
            used.with_context(|| format!("unable to load proxy client certificate {path}"))?;
    }
    if let Some(path) = parsed.text("authentication-token-webhook-config-file") {
        builder = builder.authentication_webhook(authentication_webhook(path, parsed)?);
    }
    let audiences = parsed.all("api-audiences");
    if !audiences.is_empty() {
        builder = builder.api_audiences(audiences);
    }
    Ok(match permits_anonymous(parsed) {
        true => builder,
        false => builder.refuse_anonymous(),
    })
}

/// The authorization modes in order.
fn authorization_modes(parsed: &Parsed) -> Vec<String> {
    let modes = parsed.all("authorization-mode");
    match modes.is_empty() {
        true => vec!["AlwaysAllow".to_owned()],
        false => modes,
    }
}

/// Whether clients may be anonymous. They may not where everybody may do everything.
fn permits_anonymous(parsed: &Parsed) -> bool {
    let modes = authorization_modes(parsed);
    let allows_all = modes.iter().any(|mode| mode == "AlwaysAllow");
    let is_on = parsed.is_on("anonymous-auth");
    if is_on && allows_all {
        out::note(
            "AnonymousAuth is not allowed with the AlwaysAllow authorizer. Resetting AnonymousAuth to false. \
             You should use a different authorizer",
        );
    }
    is_on && !allows_all
}

fn service_accounts(
    parsed: &Parsed,
    mut builder: ApiServerBuilder,
) -> anyhow::Result<ApiServerBuilder> {
    let files = parsed.all("service-account-key-file");
    let verifying = files.iter().map(read);
    let verifying = verifying.collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(path) = parsed.text("service-account-signing-key-file") {
        let keys = TokenKeys::read(&read(path)?, &verifying);
        let keys = keys.with_context(|| format!("failed to parse {path}"))?;
        builder = builder.service_account_keys(keys);
    }
    let issuers = parsed.all("service-account-issuer");
    if !issuers.is_empty() {
        builder = builder.service_account_issuers(issuers);
    }
    if let Some(uri) = parsed.text("service-account-jwks-uri") {
        builder = builder.service_account_jwks_uri(uri);
    }
    let longest = parsed.duration("service-account-max-token-expiration");
    if !longest.is_zero() {
        builder = builder.service_account_max_token_expiration(longest);
    }
    Ok(
        match parsed.is_on("service-account-extend-token-expiration") {
            true => builder,
            false => builder.without_extended_tokens(),
        },
    )
}

fn authorization(parsed: &Parsed, builder: ApiServerBuilder) -> anyhow::Result<ApiServerBuilder> {
    let modes = authorization_modes(parsed);
    let modes = modes.iter().map(|mode| {
        Ok(match mode.as_str() {
            "AlwaysAllow" => Authorization::AlwaysAllow,
            "AlwaysDeny" => Authorization::AlwaysDeny,
            "ABAC" => {
                let path = required(parsed, "authorization-policy-file")?;
                Authorization::Abac(AbacPolicy::read(path, &read(path)?)?)
            }
            "Node" => Authorization::Node,
            "RBAC" => Authorization::Rbac,
            "Webhook" => Authorization::Webhook(authorization_webhook(parsed)?),
            // The flags were validated.
            unknown => bail!("authorization-mode {unknown:?} is not a valid mode"),
        })
    });
    let modes = modes.collect::<anyhow::Result<Vec<_>>>()?;
    Ok(builder.authorization_modes(modes))
}

fn authorization_webhook(parsed: &Parsed) -> anyhow::Result<AuthorizationWebhook> {
    let config = kubeconfig(required(parsed, "authorization-webhook-config-file")?)?;
    let version = required(parsed, "authorization-webhook-version")?;
    let authorized = parsed.duration("authorization-webhook-cache-authorized-ttl");
    let unauthorized = parsed.duration("authorization-webhook-cache-unauthorized-ttl");
    let webhook = AuthorizationWebhook::new(config, version)?;
    Ok(webhook.cache_ttls(authorized, unauthorized))
}

fn authentication_webhook(path: &str, parsed: &Parsed) -> anyhow::Result<AuthenticationWebhook> {
    let version = required(parsed, "authentication-token-webhook-version")?;
    let ttl = parsed.duration("authentication-token-webhook-cache-ttl");
    Ok(AuthenticationWebhook::new(kubeconfig(path)?, version)?.cache_ttl(ttl))
}

fn admission(parsed: &Parsed, mut builder: ApiServerBuilder) -> anyhow::Result<ApiServerBuilder> {
    let plugins = AdmissionPlugins::from_flags(&admission_flags(parsed));
    let plugins = plugins.map_err(|faults| anyhow!(faults.join(", ")))?;
    let mut idle: Vec<String> = plugins.without_effect().map(str::to_owned).collect();
    if let Some(path) = parsed.text("admission-control-config-file") {
        let text = |path: &Path| std::fs::read_to_string(path).map_err(|error| error.to_string());
        let dir = Path::new(path).parent().unwrap_or(Path::new(""));
        let configuration = text(Path::new(path)).map_err(anyhow::Error::msg)?;
        let load = |named: &str| text(&dir.join(named));
        let configuration = AdmissionConfiguration::read(&configuration, plugins, load)?;
        idle.extend(configuration.without_effect().map(str::to_owned));
        builder = builder.admission_configuration(configuration);
    }
    idle.dedup();
    if !idle.is_empty() {
        out::note(&format!(
            "admission plugins without effect: {}",
            idle.join(", ")
        ));
    }
    Ok(builder.admission_plugins(plugins))
}

fn apis(parsed: &Parsed, builder: ApiServerBuilder) -> anyhow::Result<ApiServerBuilder> {
    let gates = feature_gates(parsed)?;
    for warning in gates.warnings() {
        out::note(warning);
    }
    let config = runtime_config(parsed).map_err(|faults| anyhow!(faults.join(", ")))?;
    let idle: Vec<&str> = gates.without_effect().collect();
    if !idle.is_empty() {
        out::note(&format!(
            "feature gates without effect: {}",
            idle.join(", ")
        ));
    }
    let missing = config.without_effect();
    // A suite that asks for all APIs gets those that there are.
    let asks_by_name = parsed
        .map("runtime-config")
        .keys()
        .any(|key| !key.starts_with("api/"));
    if asks_by_name && !missing.is_empty() {
        out::note(&format!("APIs that are not served: {}", missing.join(", ")));
    }
    let (ranges, has_second) = service_ranges(parsed);
    if has_second {
        out::note(
            "the second range of --service-cluster-ip-range has no effect: services have one address",
        );
    }
    let builder = builder.service_ranges(ranges);
    let builder = builder.feature_gates(&gates).runtime_config(config);
    Ok(builder.request_timeouts(request_timeouts(parsed)))
}

/// Reads the kubeconfig of a webhook, and the files that it names.
fn kubeconfig(path: &str) -> anyhow::Result<WebhookKubeconfig> {
    let dir = Path::new(path).parent().unwrap_or(Path::new(""));
    let load = |named: &str| std::fs::read(dir.join(named));
    WebhookKubeconfig::read(&read(path)?, load).with_context(|| path.to_owned())
}

fn required<'p>(parsed: &'p Parsed, flag: &str) -> anyhow::Result<&'p str> {
    let value = parsed.text(flag);
    value.with_context(|| format!("--{flag} is required"))
}

/// The headers by which proxies name users.
fn request_headers(parsed: &Parsed) -> RequestHeaders {
    RequestHeaders {
        allowed_names: parsed.all("requestheader-allowed-names"),
        username_headers: parsed.all("requestheader-username-headers"),
        uid_headers: parsed.all("requestheader-uid-headers"),
        group_headers: parsed.all("requestheader-group-headers"),
        extra_header_prefixes: parsed.all("requestheader-extra-headers-prefix"),
    }
}

/// What components with endpoints of their own look up; `None` if the server knows no authorities.
pub(super) fn published(parsed: &Parsed) -> anyhow::Result<Option<Published>> {
    let text = |flag: &str| -> anyhow::Result<Option<String>> {
        let bytes = parsed.text(flag).map(read).transpose()?;
        bytes
            .map(String::from_utf8)
            .transpose()
            .context("PEM is text")
    };
    let (client_ca, proxy_ca) = (
        text("client-ca-file")?,
        text("requestheader-client-ca-file")?,
    );
    if client_ca.is_none() && proxy_ca.is_none() {
        return Ok(None);
    }
    Ok(Some(Published {
        client_ca,
        proxies: proxy_ca.map(|ca| (ca, request_headers(parsed))),
    }))
}

fn read(path: impl AsRef<Path>) -> anyhow::Result<Vec<u8>> {
    let path = path.as_ref();
    std::fs::read(path).with_context(|| format!("open {}", path.display()))
}
