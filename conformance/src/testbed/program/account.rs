//! The service account that programs are.

use std::fmt;
use std::str::FromStr;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::PostParams;
use kube::{Api, Client};
use kubeproof_machinery::json::json;
use kubeproof_runtime::decode::from_value;

use crate::testbed::TestbedError;

/// The account of programs that are administrators.
const OWN: &str = "kubeproof-program";
/// The time for which a token is valid, in seconds: longer than any run.
const TOKEN_SECONDS: i64 = 24 * 3600;

/// A service account by namespace and name. Its text is `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl FromStr for AccountName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = text.split_once('/');
        let named = named.filter(|(namespace, name)| {
            !namespace.is_empty() && !name.is_empty() && !name.contains('/')
        });
        let (namespace, name) = named.ok_or("expected NAMESPACE/NAME")?;
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A service account with a token.
pub(super) struct Account {
    pub(super) namespace: String,
    pub(super) token: String,
}

impl Account {
    /// Asks for a token of the account `name`; without a name, of an account in `namespace` that is made for it and may do
    /// everything.
    ///
    /// # Errors
    /// [`TestbedError::Account`] when the account does not exist, or the server refuses a request.
    pub(super) async fn get(
        name: Option<&AccountName>,
        namespace: &str,
        client: &Client,
    ) -> Result<Self, TestbedError> {
        let own = || AccountName {
            namespace: namespace.to_owned(),
            name: OWN.to_owned(),
        };
        let wanted = name.cloned().unwrap_or_else(own);
        let refused = |source| TestbedError::Account {
            account: wanted.to_string(),
            source: Box::new(source),
        };
        if name.is_none() {
            make(&wanted, client).await.map_err(refused)?;
        }
        let token = token(&wanted, client).await.map_err(refused)?;
        Ok(Self {
            namespace: wanted.namespace,
            token,
        })
    }
}

/// Makes the account, and lets it do everything. What exists already stays.
async fn make(account: &AccountName, client: &Client) -> kube::Result<()> {
    let AccountName { namespace, name } = account;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let object = json!({"metadata": {"name": name}});
    let object = from_value(object).map_err(kube::Error::SerdeError)?;
    unless_there(accounts.create(&PostParams::default(), &object).await)?;
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let object = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": name}],
    });
    let object = from_value(object).map_err(kube::Error::SerdeError)?;
    unless_there(bindings.create(&PostParams::default(), &object).await)
}

fn unless_there<T>(created: kube::Result<T>) -> kube::Result<()> {
    match created {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        created => created.map(drop),
    }
}

async fn token(account: &AccountName, client: &Client) -> kube::Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &account.namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let params = PostParams::default();
    let issued = accounts.create_subresource("token", &account.name, &params, &request);
    let issued: TokenRequest = issued.await?;
    let token = issued.status.and_then(|status| status.token);
    Ok(token.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_named_by_namespace_and_name() {
        let read: AccountName = "shop/operator".parse().unwrap();
        assert_eq!((&*read.namespace, &*read.name), ("shop", "operator"));
        assert_eq!(read.to_string(), "shop/operator");
        for wrong in ["operator", "/operator", "shop/", "a/b/c"] {
            assert!(wrong.parse::<AccountName>().is_err(), "{wrong}");
        }
    }
}
