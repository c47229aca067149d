//! ServiceAccounts.

pub mod token_request;

use crate::json::{Value, json};
use crate::rest::SubresourceRest;
use crate::{Context, MetadataCheck, Strategy};

const MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";

/// The strategy of ServiceAccounts.
#[derive(Debug)]
pub struct ServiceAccount;

impl Strategy for ServiceAccount {
    fn return_deleted_object(&self) -> bool {
        true
    }

    fn metadata_checks(&self) -> &'static [MetadataCheck] {
        &[MetadataCheck::ObjectMetaUpdate, MetadataCheck::ObjectMeta]
    }

    fn subresource_rest(&self, name: &str) -> Option<SubresourceRest> {
        (name == "token").then_some(SubresourceRest::Token)
    }

    fn has_table(&self, subresource: &str) -> bool {
        subresource != "token"
    }

    fn prepare_for_create(&self, account: &mut Value, _context: Context<'_>) {
        keep_names(account);
    }

    fn prepare_for_update(&self, new: &mut Value, _old: &Value, _context: Context<'_>) {
        keep_names(new);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let annotated = |account: &Value| !account["metadata"]["annotations"][MOUNTABLE].is_null();
        if !annotated(new) || old.is_some_and(annotated) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        )]
    }
}

/// A secret of an account is known by its name alone.
fn keep_names(account: &mut Value) {
    let secrets = account.get_mut("secrets").and_then(Value::as_array_mut);
    for secret in secrets.into_iter().flatten() {
        *secret = match secret["name"].as_str() {
            Some(name) => json!({ "name": name }),
            None => json!({}),
        };
    }
}
