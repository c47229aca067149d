//! The context that every controller gets.

use kube::Client;
use tower::service_fn;

use crate::clock::Now;

/// The API and the time, as a controller sees them.
#[derive(Clone)]
pub struct Context {
    /// Speaks to the API server.
    pub client: Client,
    /// Reads the time.
    pub now: Now,
}

impl Context {
    /// Returns this context with a client whose requests carry `user_agent`.
    #[must_use]
    pub fn for_component(&self, user_agent: &'static str) -> Self {
        Self {
            client: with_user_agent(&self.client, user_agent),
            now: self.now.clone(),
        }
    }
}

/// A client that sends `user_agent` with each request, so that the server knows the writer.
///
/// Must be called within a tokio runtime, which `kube::Client` asks for.
#[must_use]
pub fn with_user_agent(client: &Client, user_agent: &'static str) -> Client {
    let namespace = client.default_namespace().to_owned();
    let client = client.clone();
    let service = service_fn(move |mut request: http::Request<kube::client::Body>| {
        let client = client.clone();
        request.headers_mut().insert(
            http::header::USER_AGENT,
            http::HeaderValue::from_static(user_agent),
        );
        async move { client.send(request).await }
    });
    Client::new(service, namespace)
}
