//! Writes whose answers are read for the version that came of them and for nothing else.
//!
//! An answer is the whole object as it is stored; to decode one costs more than to make it. A
//! controller that waits for its own write on a watch wants the number alone.

use kube::api::{Api, PostParams};
use kube::core::Request;
use kube::{Client, Error, Resource, Result};
use kubeproof_machinery::meta::ResourceVersion;
use serde::{Deserialize, Serialize};

/// Creates `object`; returns the resourceVersion it was given, zero if that is not a number.
pub async fn create<K: Clone + Resource + Serialize>(
    api: &Api<K>,
    object: &K,
) -> Result<ResourceVersion> {
    let request = Request::new(api.resource_url());
    let request = request.create(&PostParams::default(), body(object)?);
    send(api, request).await
}

/// Replaces the object `name`; returns as [`create`].
pub async fn replace<K: Clone + Resource + Serialize>(
    api: &Api<K>,
    name: &str,
    object: &K,
) -> Result<ResourceVersion> {
    let request = Request::new(api.resource_url());
    let request = request.replace(name, &PostParams::default(), body(object)?);
    send(api, request).await
}

/// Replaces the status of the object `name`; returns as [`create`].
pub async fn replace_status<K: Clone + Resource + Serialize>(
    api: &Api<K>,
    name: &str,
    object: &K,
) -> Result<ResourceVersion> {
    let (request, params) = (Request::new(api.resource_url()), PostParams::default());
    let request = request.replace_subresource("status", name, &params, body(object)?);
    send(api, request).await
}

fn body(object: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(object).map_err(Error::SerdeError)
}

async fn send<K: Clone>(
    api: &Api<K>,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<ResourceVersion> {
    let request = request.map_err(Error::BuildRequest)?;
    let client = Client::from(api.clone());
    let answer: Answer = client.request(request).await?;
    let version = answer.metadata.resource_version;
    Ok(version.parse().unwrap_or_default())
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;

    /// Config maps of a server that answers every write with its own method, path and version.
    fn config_maps(version: Value) -> Api<ConfigMap> {
        let service = service_fn(move |request: Request<Body>| {
            let asked = format!("{} {}", request.method(), request.uri().path());
            let code = match asked.as_str() {
                "POST /api/v1/namespaces/n/configmaps" => 201,
                "PUT /api/v1/namespaces/n/configmaps/a"
                | "PUT /api/v1/namespaces/n/configmaps/a/status" => 200,
                _ => 404,
            };
            let metadata = json!({ "name": "a", "resourceVersion": version });
            let answer = json!({ "metadata": metadata, "data": { "k": "v" }, "message": asked });
            let answer = Body::from(answer.to_string().into_bytes());
            let response = Response::builder().status(code).body(answer).unwrap();
            async move { Ok::<_, Infallible>(response) }
        });
        Api::namespaced(Client::new(service, "n"), "n")
    }

    #[tokio::test]
    async fn each_write_is_answered_with_the_version_it_came_to() {
        let (api, map) = (config_maps(json!("7")), ConfigMap::default());
        let rv = ResourceVersion::new(7);
        assert_eq!(create(&api, &map).await.unwrap(), rv);
        assert_eq!(replace(&api, "a", &map).await.unwrap(), rv);
        assert_eq!(replace_status(&api, "a", &map).await.unwrap(), rv);
        assert!(replace(&api, "b", &map).await.is_err());
        let odd = config_maps(json!("x"));
        assert_eq!(create(&odd, &map).await.unwrap(), ResourceVersion::ZERO);
    }
}
