//! Settings of who clients are and what they may do: tokens, proxies, authorization.

use std::sync::Arc;
use std::time::Duration;

use super::{ApiServerBuilder, AuthorityError, authorities};
use crate::auth::{
    AuthenticationWebhook, Authorization, Authorizers, Proxies, RequestHeaders, TokenFile,
};
use crate::webhook::{Identity, connector_of};

impl ApiServerBuilder {
    /// Bearer tokens with their users, as of `--token-auth-file`. Default: none.
    pub fn token_file(mut self, tokens: TokenFile) -> Self {
        self.authenticators.token_file = Some(Arc::new(tokens));
        self
    }

    /// Makes bootstrap tokens count, as `--enable-bootstrap-token-auth` does: Secrets in `kube-system` of the type
    /// `bootstrap.kubernetes.io/token`, whose holders are `system:bootstrap:ID`. Default: they do not.
    pub fn bootstrap_tokens(mut self) -> Self {
        self.authenticators.bootstrap_tokens = true;
        self
    }

    /// Lets proxies name the user of a request, as the flags `--requestheader-…` do. A proxy shows a
    /// client certificate of the authorities in `pem`. Default: no proxies.
    ///
    /// # Errors
    /// When the text holds no certificate.
    pub fn request_headers(
        mut self,
        pem: &[u8],
        headers: RequestHeaders,
    ) -> Result<Self, AuthorityError> {
        let authorities = authorities(pem)?;
        self.authenticators.proxies = Some(Arc::new(Proxies {
            headers,
            authorities,
        }));
        Ok(self)
    }

    /// Answers 401 to a client that shows no credentials. Has no effect where such a client is the
    /// administrator. Default: such a client is `system:anonymous`.
    pub fn refuse_anonymous(mut self) -> Self {
        self.authenticators.refuses_anonymous = true;
        self
    }

    /// A webhook that knows the holders of tokens that the server does not know. Default: none.
    pub fn authentication_webhook(mut self, webhook: AuthenticationWebhook) -> Self {
        self.authenticators.webhook = Some(webhook);
        self
    }

    /// The authorization mode. Default: RBAC.
    pub fn authorization(self, mode: Authorization) -> Self {
        self.authorization_modes(vec![mode])
    }

    /// The authorization modes in the order in which they are asked: the first that has an opinion
    /// decides, and without any the request is refused. Members of `system:masters` may always do
    /// everything. Default: RBAC.
    pub fn authorization_modes(mut self, modes: Vec<Authorization>) -> Self {
        self.authorizers = Authorizers::of(modes);
        self
    }

    /// Audiences of the server itself, of which tokens must have one. Default: the issuers of the
    /// tokens of service accounts.
    pub fn api_audiences(mut self, audiences: Vec<String>) -> Self {
        self.token_settings.audiences = Some(audiences);
        self
    }

    /// The URL of the public keys in the issuer's discovery document. Default: `/openid/v1/jwks` of
    /// the server's own URL.
    pub fn service_account_jwks_uri(mut self, uri: &str) -> Self {
        self.token_settings.key_set_uri = Some(uri.to_owned());
        self
    }

    /// The longest lifetime of a requested token of a service account; a request for a longer one
    /// gets this and a warning. Default: no limit.
    pub fn service_account_max_token_expiration(mut self, max: Duration) -> Self {
        let seconds = i64::try_from(max.as_secs()).unwrap_or(i64::MAX);
        self.token_settings.max_seconds = Some(seconds);
        self
    }

    /// Lets a token that a kubelet projects into a pod expire after the hour that the kubelet asks
    /// for. Default: it is valid for a year, with a warning after that hour.
    pub fn without_extended_tokens(mut self) -> Self {
        self.token_settings.extends = false;
        self
    }

    /// The certificate and its key, in PEM, by which the server shows itself to the services of APIServices, as the flags
    /// `--proxy-client-cert-file` and `--proxy-client-key-file` do. Default: none, so such a service takes no user from
    /// the headers of its requests, if it looks at certificates at all.
    ///
    /// # Errors
    /// When there is no certificate, or the key is not the certificate's.
    pub fn proxy_client_certificate(
        mut self,
        certificate: &[u8],
        key: &[u8],
    ) -> Result<Self, AuthorityError> {
        let identity = Identity {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
        };
        connector_of(None, Some(&identity)).map_err(AuthorityError)?;
        self.proxy_client = Some(Arc::new(identity));
        Ok(self)
    }
}
