//! Clients of a server in this process.

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};
use kube::Client;
use kube::client::Body;
use kubeproof_apiserver::ApiServer;
use tower::{Service as _, service_fn};

/// The header by which requests carry `token`; None when a header cannot.
#[must_use]
pub fn bearer(token: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("Bearer {token}")).ok()
}

/// A client of `server` whose requests carry `bearer`.
#[must_use]
pub fn client(server: &ApiServer, bearer: Option<HeaderValue>) -> Client {
    let Some(bearer) = bearer else {
        return Client::new(server.clone(), "default");
    };
    let server = server.clone();
    let service = service_fn(move |mut request: Request<Body>| {
        request.headers_mut().insert(AUTHORIZATION, bearer.clone());
        server.clone().call(request)
    });
    Client::new(service, "default")
}
