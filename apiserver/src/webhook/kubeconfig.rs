//! The kubeconfig that says where a webhook of authentication or authorization is, and how the
//! server shows itself there.

use std::fmt;
use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use tokio_rustls::TlsConnector;

use super::tls::{self, Identity};
use crate::json::Value;
use crate::yaml::decode::Yaml;

/// The reason why a kubeconfig cannot be used, in the words of client-go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KubeconfigError(String);

/// The server that a webhook is called at, and the credentials of the calls. Without an authority in the
/// cluster no certificate is trusted: the machine's own authorities are not read.
///
/// ```
/// use kubeproof_apiserver::WebhookKubeconfig;
///
/// let text = "
/// clusters: [{name: authz, cluster: {server: https://authz.example/check, certificate-authority: ca.pem}}]
/// users: [{name: me, user: {token: secret}}]
/// contexts: [{name: webhook, context: {cluster: authz, user: me}}]
/// current-context: webhook
/// ";
/// let missing = |path: &str| Err(std::io::Error::other(format!("open {path}: no such file")));
/// let refused = WebhookKubeconfig::read(text.as_bytes(), missing).unwrap_err();
/// let why = "invalid configuration: unable to read certificate-authority ca.pem for authz due to \
///            open ca.pem: no such file";
/// assert_eq!(refused.to_string(), why);
/// ```
#[derive(Clone)]
pub struct WebhookKubeconfig {
    pub(super) server: String,
    /// The name that the server's certificate must have, if it is not that of the URL.
    pub(super) server_name: Option<String>,
    pub(super) authorization: Option<HeaderValue>,
    /// Absent for a server without TLS.
    pub(super) connector: Option<TlsConnector>,
}

/// The entry `name` of a list of named entries.
fn entry<'v>(config: &'v Value, list: &str, field: &str, name: &str) -> Option<&'v Value> {
    let mut entries = config[list].as_array().into_iter().flatten();
    let found = entries.find(|own| own["name"] == name);
    found.map(|own| &own[field])
}

/// The text of a field; empty where it is absent.
fn text<'v>(entry: &'v Value, field: &str) -> &'v str {
    entry[field].as_str().unwrap_or_default()
}

/// The faults of a configuration.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    /// The bytes of a field that has them itself (`…-data`), or names the file that has them.
    fn bytes(
        &mut self,
        entry: &Value,
        (field, shown): (&str, &str),
        name: &str,
        load: &dyn Fn(&str) -> io::Result<Vec<u8>>,
    ) -> Vec<u8> {
        let data = text(entry, &format!("{field}-data"));
        let path = text(entry, field);
        if !data.is_empty() {
            let data: String = data.split_whitespace().collect();
            return STANDARD.decode(data).unwrap_or_else(|_| {
                self.0.push(format!("illegal base64 data in {field}-data"));
                Vec::new()
            });
        }
        if path.is_empty() {
            return Vec::new();
        }
        load(path).unwrap_or_else(|error| {
            self.0.push(format!(
                "unable to read {shown} {path} for {name} due to {error}"
            ));
            Vec::new()
        })
    }

    fn refuse(self) -> Result<(), KubeconfigError> {
        match self.0.as_slice() {
            [] => Ok(()),
            [one] => Err(KubeconfigError(format!("invalid configuration: {one}"))),
            all => Err(KubeconfigError(format!(
                "invalid configuration: [{}]",
                all.join(", ")
            ))),
        }
    }
}

impl WebhookKubeconfig {
    /// Reads a kubeconfig, of which the current context counts. `load` reads the files that it names;
    /// their paths are relative to the directory of the kubeconfig.
    ///
    /// # Errors
    /// The faults of the configuration, and unreadable keys and certificates.
    pub fn read(
        config: &[u8],
        load: impl Fn(&str) -> io::Result<Vec<u8>>,
    ) -> Result<Self, KubeconfigError> {
        let documents =
            Yaml::documents(&String::from_utf8_lossy(config)).map_err(KubeconfigError)?;
        let config = documents.into_iter().next().unwrap_or_default().0;
        let mut faults = Faults::default();
        let current = text(&config, "current-context");
        if current.is_empty() {
            faults.0.push(
                "no configuration has been provided, try setting KUBERNETES_MASTER environment \
                 variable"
                    .to_owned(),
            );
        }
        let context = entry(&config, "contexts", "context", current);
        let context = context.unwrap_or_else(|| {
            if !current.is_empty() {
                faults.0.push(format!(
                    "context was not found for specified context: {current}"
                ));
            }
            &Value::Null
        });
        let mut find = |list: &str, field: &str| {
            let name = text(context, field);
            let found = entry(&config, list, field, name);
            if found.is_none() && !context.is_null() {
                faults.0.push(match name {
                    "" => format!("{field} was not specified for context {current:?}"),
                    name => format!("{field} {name:?} was not found for context {current:?}"),
                });
            }
            (name, found.unwrap_or(&Value::Null))
        };
        let (user_name, user) = find("users", "user");
        let (cluster_name, cluster) = find("clusters", "cluster");
        let server = text(cluster, "server").to_owned();
        if server.is_empty() && !cluster.is_null() {
            let why = format!("no server found for cluster {cluster_name:?}");
            faults.0.push(why);
        }
        let authority = ("certificate-authority", "certificate-authority");
        let bundle = faults.bytes(cluster, authority, cluster_name, &load);
        let certificate = ("client-certificate", "client-cert");
        let certificate = faults.bytes(user, certificate, user_name, &load);
        let key = faults.bytes(user, ("client-key", "client-key"), user_name, &load);
        if !certificate.is_empty() && key.is_empty() {
            faults.0.push(format!(
                "client-key-data or client-key must be specified for {user_name} to use the \
                 clientCert authentication method."
            ));
        }
        let token = match text(user, "tokenFile") {
            "" => text(user, "token").to_owned(),
            path => {
                let token = load(path).map_err(|error| KubeconfigError(error.to_string()))?;
                String::from_utf8_lossy(&token).trim().to_owned()
            }
        };
        faults.refuse()?;
        let (name, password) = (text(user, "username"), text(user, "password"));
        let authorization = match (token.as_str(), name) {
            ("", "") => None,
            ("", name) => Some(format!(
                "Basic {}",
                STANDARD.encode(format!("{name}:{password}"))
            )),
            (token, _) => Some(format!("Bearer {token}")),
        };
        let authorization = authorization.map(HeaderValue::try_from).transpose();
        let authorization = authorization
            .map_err(|_| KubeconfigError("the token is not a header's value".to_owned()))?;
        let is_insecure = cluster["insecure-skip-tls-verify"] == true;
        let has_tls = is_insecure || !bundle.is_empty() || !certificate.is_empty();
        let server = match (server.contains("://"), has_tls) {
            (true, _) => server,
            (false, true) => format!("https://{server}"),
            (false, false) => format!("http://{server}"),
        };
        let identity =
            Some(Identity { certificate, key }).filter(|own| !own.certificate.is_empty());
        let connector = match server.starts_with("https://") {
            false => None,
            true => {
                let bundle = (!is_insecure).then_some(bundle.as_slice());
                Some(tls::connector_of(bundle, identity.as_ref()).map_err(KubeconfigError)?)
            }
        };
        let server_name = text(cluster, "tls-server-name");
        Ok(Self {
            server,
            server_name: Some(server_name.to_owned()).filter(|name| !name.is_empty()),
            authorization,
            connector,
        })
    }
}

impl fmt::Debug for WebhookKubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("WebhookKubeconfig");
        shown.field("server", &self.server).finish_non_exhaustive()
    }
}
