//! What expressions of admission may ask about permissions.

use std::sync::Arc;

use super::request::Admission;
use crate::auth::{self, ANY_VERSION, Attributes, Authorizers, Selectors, User};
use crate::cel::{self, Authorizer, Check};
use crate::metrics::Metrics;
use crate::storage::Storage;

/// Answers for the user of a request.
#[derive(Debug)]
struct UserAuthorizer {
    authorizers: Authorizers,
    storage: Arc<Storage>,
    user: User,
    metrics: Arc<Metrics>,
}

impl Authorizer for UserAuthorizer {
    fn decide(&self, check: &Check) -> cel::Decision {
        let account = check.service_account.as_ref();
        let account = account.map(|(namespace, name)| auth::service_account_user(namespace, name));
        let user = account.as_ref().unwrap_or(&self.user);
        let verb = (&check.verb).into();
        let attributes = match check.path.as_str() {
            "" => Attributes::Resource {
                verb,
                group: (&check.group).into(),
                version: ANY_VERSION.into(),
                resource: (&check.resource).into(),
                subresource: (&check.subresource).into(),
                namespace: (&check.namespace).into(),
                name: (&check.name).into(),
                selectors: Selectors {
                    field: (&check.field_selector).into(),
                    label: (&check.label_selector).into(),
                },
            },
            path => Attributes::Path {
                verb,
                path: path.into(),
            },
        };
        let (storage, access) = (&self.storage, self.metrics.access());
        let asked = (user, &attributes);
        let decision = self.authorizers.decide(storage, access, asked);
        cel::Decision {
            allowed: decision.is_allowed(),
            reason: decision.reason().to_owned(),
            error: decision.error().unwrap_or_default().to_owned(),
        }
    }
}

impl Admission<'_> {
    /// The authorizer for expressions about permissions: it checks the user of the request.
    pub(super) fn authorizer(&self) -> Arc<dyn Authorizer> {
        Arc::new(UserAuthorizer {
            authorizers: self.state.authorizers.clone(),
            storage: Arc::clone(&self.state.storage),
            user: self.request_attributes.user.clone(),
            metrics: Arc::clone(&self.state.metrics),
        })
    }

    /// The attributes of the request that need a permission, without the verb.
    pub(super) fn check(&self) -> Check {
        let gvr = self.resource.gvr();
        Check {
            group: gvr.group.clone(),
            resource: gvr.resource.clone(),
            subresource: self.request_attributes.subresource.to_owned(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            ..Check::default()
        }
    }
}
