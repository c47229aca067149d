//! The addresses of services that webhooks name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::{CallError, LocalServices, WebhookClient};
use crate::json::Value;
use crate::meta::GroupResource;
use crate::status::ApiError;
use crate::storage::ObjectKey;

/// The label by which a slice names the service whose endpoints it has.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// A service by namespace, name and port.
pub(crate) type ServicePort = (String, String, u16);

/// Services that the server was given: their addresses, or their handlers in this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Services {
    addresses: BTreeMap<ServicePort, SocketAddr>,
    /// The authorities, in PEM, for webhooks whose configuration names none; empty without such authorities.
    authorities: Arc<[u8]>,
    local: Option<Arc<dyn LocalServices>>,
}

impl Services {
    pub(crate) fn add(&mut self, namespace: &str, name: &str, port: u16, address: SocketAddr) {
        let service = (namespace.to_owned(), name.to_owned(), port);
        self.addresses.insert(service, address);
    }

    pub(crate) fn trust(&mut self, authorities: &[u8]) {
        self.authorities = authorities.into();
    }

    /// The authorities, in PEM, that have to have signed the certificate of a webhook with this `caBundle`.
    pub(crate) fn authorities_of(&self, ca_bundle: Vec<u8>) -> Cow<'_, [u8]> {
        match ca_bundle.is_empty() {
            true => Cow::Borrowed(&self.authorities),
            false => Cow::Owned(ca_bundle),
        }
    }

    /// These services, with those in this process.
    pub(crate) fn with_local(self, local: Arc<dyn LocalServices>) -> Self {
        Self {
            local: Some(local),
            ..self
        }
    }

    /// The address that the server was given for a port of a service.
    pub(crate) fn get(&self, namespace: &str, name: &str, port: u16) -> Option<SocketAddr> {
        let service = (namespace.to_owned(), name.to_owned(), port);
        self.addresses.get(&service).copied()
    }

    /// Posts a document to the service of a `WebhookClientConfig`; None for one that is not in this process.
    pub(super) fn post_locally(
        &self,
        config: &Value,
        document: &Value,
    ) -> Option<BoxFuture<'static, Result<Value, CallError>>> {
        let service = config.get("service")?;
        let text = |field: &str| service[field].as_str().unwrap_or_default().to_owned();
        let port = service["port"]
            .as_u64()
            .and_then(|port| port.try_into().ok());
        let key = (text("namespace"), text("name"), port.unwrap_or(443));
        self.local.as_ref()?.post(&key, &text("path"), document)
    }
}

/// The address for a port of a service: the address that the server was given, else the first ready
/// endpoint.
///
/// # Errors
/// Upstream's text for a missing service, port or endpoint.
pub(crate) fn resolve(
    client: &WebhookClient<'_>,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<SocketAddr, String> {
    if let Some(address) = client.services.get(namespace, name, port) {
        return Ok(address);
    }
    let service = client
        .storage
        .table_of("", "services")
        .get(&ObjectKey::new(Some(namespace), name));
    let service = service.ok_or_else(|| {
        let resource = GroupResource {
            group: String::new(),
            resource: "service".to_owned(),
        };
        let name = name.to_owned();
        ApiError::NotFound { resource, name }.to_string()
    })?;
    let service = service.value();
    let ports = service["spec"]["ports"].as_array();
    let mut ports = ports.into_iter().flatten();
    let wanted = ports.find(|own| own["port"].as_u64() == Some(port.into()));
    let wanted = wanted
        .ok_or_else(|| format!("no service port {port} found for service {name:?}"))?
        .get("name");
    let slices = client
        .storage
        .table_of("discovery.k8s.io", "endpointslices")
        .snapshot();
    let mut addresses = slices
        .range(Some(namespace), None)
        .map(|slice| slice.value())
        .filter(|slice| slice["metadata"]["labels"][SERVICE_NAME] == name)
        .filter_map(|slice| ready(&slice, wanted));
    addresses
        .next()
        .ok_or_else(|| format!("no endpoints available for service {name:?}"))
}

/// The first ready address of a slice, with the port of this name.
fn ready(slice: &Value, port: Option<&Value>) -> Option<SocketAddr> {
    let items = |field: &str| slice[field].as_array().into_iter().flatten();
    let text = |name: Option<&Value>| name.and_then(Value::as_str).unwrap_or_default().to_owned();
    let port = items("ports").find(|own| text(own.get("name")) == text(port))?;
    let port = u16::try_from(port["port"].as_u64()?).ok()?;
    let mut ready = items("endpoints").filter(|own| own["conditions"]["ready"] != false);
    let address = ready.find_map(|own| own["addresses"][0].as_str()?.parse().ok())?;
    Some(SocketAddr::new(address, port))
}
