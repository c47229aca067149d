//! The identities that the server knows: credentials of clients, keys of tokens, randomness.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use kubeproof_apiserver::{ApiServerBuilder, Authorization, ClientCertificate, Tls, TokenKeys};

use crate::cli::values;

/// The administrator, as the holder of the token is called too.
const ADMIN: &str = "kubernetes-admin";
const ADMIN_GROUP: &str = "system:masters";

#[derive(Args)]
pub(super) struct IdentityArgs {
    /// The bearer token of the administrator. Without it anyone may do anything. kubectl, Helm and other programs
    /// with client-go send a token over TLS only, so they need --tls, too.
    #[arg(long)]
    pub(super) token: Option<String>,
    /// Allow every request, or only what roles grant. The holder of the token (without --token, every client without
    /// credentials) is a cluster administrator either way.
    #[arg(long, value_name = "AlwaysAllow|RBAC", default_value = "RBAC", value_parser = authorization)]
    authorization: Authorization,
    /// Authenticate clients by certificates of the authorities in this file, and of the server's own:
    /// the common name is the user, organizations are groups. Clients without credentials are then
    /// anonymous.
    #[arg(long, value_name = "FILE", requires = "tls")]
    client_ca_file: Option<PathBuf>,
    /// Authenticate the holders of bootstrap tokens, Secrets in kube-system of the type bootstrap.kubernetes.io/token,
    /// as system:bootstrap:ID.
    #[arg(long)]
    enable_bootstrap_token_auth: bool,
    /// Sign tokens of service accounts with the private RSA or ECDSA key in this file
    /// [default: an ECDSA key made at the start].
    #[arg(long, value_name = "FILE")]
    service_account_signing_key_file: Option<PathBuf>,
    /// Verify tokens of service accounts with the public or private keys in this file. May be repeated
    /// [default: the signing key].
    #[arg(
        long,
        value_name = "FILE",
        requires = "service_account_signing_key_file"
    )]
    service_account_key_file: Vec<PathBuf>,
    /// Issue tokens of service accounts in this name. May be repeated: tokens of further issuers are
    /// accepted [default: https://kubernetes.default.svc].
    #[arg(long, value_name = "URL")]
    service_account_issuer: Vec<String>,
    /// Draw uids, names and keys from this seed, so that they are the same in every run. Tokens can then
    /// be predicted [default: the machine's randomness].
    #[arg(long, value_name = "NUMBER", value_parser = values::number::<u64>, allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Listen beyond this machine without asking for credentials: every client that reaches the port is a cluster
    /// administrator.
    #[arg(long)]
    allow_everybody: bool,
    /// Without credentials, also answer requests for this host name. Requests for unknown names are
    /// refused, as a web page may have made them. May be repeated.
    #[arg(long, value_name = "NAME")]
    own_host: Vec<String>,
}

fn authorization(mode: &str) -> Result<Authorization, String> {
    match mode.to_ascii_lowercase().as_str() {
        "alwaysallow" => Ok(Authorization::AlwaysAllow),
        "rbac" => Ok(Authorization::Rbac),
        _ => Err("expected AlwaysAllow or RBAC".to_owned()),
    }
}

impl IdentityArgs {
    /// Whether clients without credentials are not the administrator.
    pub(super) fn asks(&self) -> bool {
        self.token.is_some() || self.client_ca_file.is_some()
    }

    /// Refuses to listen on `address` if that lets strangers be administrators.
    pub(super) fn check_listen(&self, address: SocketAddr) -> anyhow::Result<()> {
        let is_open = !self.asks() || matches!(self.authorization, Authorization::AlwaysAllow);
        anyhow::ensure!(
            address.ip().is_loopback() || !is_open || self.allow_everybody,
            "everybody who reaches {address} would be a cluster administrator; give --token, \
             or --allow-everybody if that is meant"
        );
        Ok(())
    }

    /// Whether the keys of tokens are given.
    pub(super) fn has_keys(&self) -> bool {
        self.service_account_signing_key_file.is_some()
    }

    /// Returns the authorities of client certificates in addition to the server's own, in PEM.
    pub(super) fn other_client_authorities(&self) -> anyhow::Result<Option<String>> {
        let path = self.client_ca_file.as_deref();
        let pem = path.map(read).transpose()?;
        pem.map(String::from_utf8)
            .transpose()
            .context("PEM is text")
    }

    /// Configures the identities that the server knows.
    pub(super) fn apply(
        &self,
        builder: ApiServerBuilder,
        tls: Option<&Tls>,
    ) -> anyhow::Result<ApiServerBuilder> {
        let mut builder = builder
            .token(self.token.clone())
            .authorization(self.authorization.clone())
            .own_hosts(self.own_host.clone());
        if self.enable_bootstrap_token_auth {
            builder = builder.bootstrap_tokens();
        }
        if self.client_ca_file.is_some() {
            builder = builder.ask_for_credentials();
        }
        builder = match self.seed {
            Some(seed) => builder.seed(seed),
            None => builder.random(),
        };
        if let Some(tls) = tls {
            let mut authorities = tls.authority_pem().as_bytes().to_vec();
            if let Some(path) = &self.client_ca_file {
                let given = read(path)?;
                // The server's own authority always exists, so that a file without a certificate would go unnoticed.
                let checked = builder.clone().client_authorities(&given);
                drop(checked.with_context(|| format!("cannot use {}", path.display()))?);
                authorities.push(b'\n');
                authorities.extend(given);
            }
            builder = builder.client_authorities(&authorities)?;
        }
        if let Some(path) = &self.service_account_signing_key_file {
            let signing = read(path)?;
            let others = self.service_account_key_file.iter().map(|path| read(path));
            let others = others.collect::<anyhow::Result<Vec<_>>>()?;
            let keys = TokenKeys::read(&signing, &others);
            let keys = keys.with_context(|| format!("cannot use {}", path.display()))?;
            builder = builder.service_account_keys(keys);
        }
        if !self.service_account_issuer.is_empty() {
            builder = builder.service_account_issuers(self.service_account_issuer.clone());
        }
        Ok(builder)
    }
}

/// A certificate for the administrator.
pub(super) fn admin_certificate(tls: &Tls) -> ClientCertificate {
    tls.client_certificate(ADMIN, &[ADMIN_GROUP])
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
