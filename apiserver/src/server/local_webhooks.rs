//! Webhooks that answer in this process.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::{ApiServer, WeakApiServer};
use crate::json::Value;
use crate::webhook::{CallError, LocalServices, ServicePort};

/// A webhook in this process: calls are not encrypted, and take no time.
pub trait Webhook: Debug + Send + Sync {
    /// Answers a document that `server` posts to `path`. Forks share the webhook, so several servers may call it.
    fn answer(&self, server: ApiServer, path: &str, document: Value) -> BoxFuture<'static, Value>;
}

/// The webhooks that answer for services.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalWebhooks {
    webhooks: BTreeMap<ServicePort, Arc<dyn Webhook>>,
}

impl LocalWebhooks {
    pub(super) fn add(&mut self, service: ServicePort, webhook: Arc<dyn Webhook>) {
        self.webhooks.insert(service, webhook);
    }

    /// These webhooks, called by `server`.
    pub(super) fn called_by(&self, server: WeakApiServer) -> Arc<dyn LocalServices> {
        let webhooks = self.webhooks.clone();
        Arc::new(CalledBy { webhooks, server })
    }
}

#[derive(Debug)]
struct CalledBy {
    webhooks: BTreeMap<ServicePort, Arc<dyn Webhook>>,
    server: WeakApiServer,
}

impl LocalServices for CalledBy {
    fn post(
        &self,
        service: &ServicePort,
        path: &str,
        document: &Value,
    ) -> Option<BoxFuture<'static, Result<Value, CallError>>> {
        let webhook = self.webhooks.get(service)?;
        let Some(server) = self.server.upgrade() else {
            let gone = Err(CallError::failed("the server is gone".to_owned()));
            return Some(Box::pin(async { gone }));
        };
        let answer = webhook.answer(server, path, document.clone());
        Some(Box::pin(async { Ok(answer.await) }))
    }
}
