//! Writes whose answers are read for the version that came of them and for nothing else.
//!
//! An answer is the whole object as it is stored; to decode one costs more than to make it. A
//! controller that waits for its own write on a watch wants the number alone.

use kube::api::{Api, PostParams};
use kube::core::Request;
use kube::{Client, Error, Resource, Result};
use serde::{Deserialize, Serialize};

/// Creates `object`; returns the resourceVersion it was given, 0 if that is not a number.
pub(crate) async fn create<K: Clone + Resource + Serialize>(
    api: &Api<K>,
    object: &K,
) -> Result<u64> {
    let request = Request::new(api.resource_url());
    let request = request.create(&PostParams::default(), body(object)?);
    send(api, request).await
}

/// Replaces the object `name`; returns as [`create`].
pub(crate) async fn replace<K: Clone + Resource + Serialize>(
    api: &Api<K>,
    name: &str,
    object: &K,
) -> Result<u64> {
    let request = Request::new(api.resource_url());
    let request = request.replace(name, &PostParams::default(), body(object)?);
    send(api, request).await
}

/// Replaces the status of the object `name`; returns as [`create`].
pub(crate) async fn replace_status<K: Clone + Resource + Serialize>(
    api: &Api<K>,
    name: &str,
    object: &K,
) -> Result<u64> {
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
) -> Result<u64> {
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
