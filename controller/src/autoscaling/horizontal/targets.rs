//! The targets of autoscalers: resources found by kind, and their subresource `scale`.

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{Client, ResourceExt};
use kubeproof_runtime::discovery::{APIResource, server_preferred_resources};
use kubeproof_runtime::sync_error::Error;
use parking_lot::Mutex;

/// The resources that were looked up, by group and kind.
#[derive(Default)]
pub(super) struct Targets {
    known: Mutex<BTreeMap<(String, String), APIResource>>,
}

/// The subresource `scale` of a target.
pub(super) struct ScaleApi {
    path: String,
}

impl Targets {
    /// The resource of a kind, in the preferred version of its group.
    ///
    /// # Errors
    /// client-go's words for a kind that the server does not have.
    pub(super) async fn mapping(
        &self,
        client: &Client,
        group: &str,
        kind: &str,
    ) -> Result<APIResource, String> {
        let key = (group.to_owned(), kind.to_owned());
        if let Some(known) = self.known.lock().get(&key) {
            return Ok(known.clone());
        }
        let discovered = server_preferred_resources(client).await;
        let discovered = discovered.map_err(|error| Error::from(error).to_string())?;
        let mut resources = discovered.resources.into_iter();
        let found = resources
            .find(|resource| resource.is(group, kind))
            .ok_or_else(|| format!("no matches for kind {kind:?} in group {group:?}"))?;
        self.known.lock().insert(key, found.clone());
        Ok(found)
    }

    /// Forgets what was looked up. Upstream: the mapper is reset every 30 seconds.
    pub(super) fn forget(&self) {
        self.known.lock().clear();
    }

    /// The subresource `scale` of an autoscaler's target.
    ///
    /// # Errors
    /// The kind of the target is unknown, or its version is malformed.
    pub(super) async fn scale_of(
        &self,
        client: &Client,
        hpa: &HorizontalPodAutoscaler,
    ) -> Result<ScaleApi, String> {
        let target = &hpa.spec.scale_target_ref;
        let api_version = target.api_version.as_deref().unwrap_or_default();
        if api_version.matches('/').count() > 1 {
            return Err(format!("unexpected GroupVersion string: {api_version}"));
        }
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let resource = self.mapping(client, group, &target.kind).await?;
        let namespace = hpa.namespace().unwrap_or_default();
        let collection = resource.api(client, &namespace);
        Ok(ScaleApi {
            path: format!("{}/{}/scale", collection.resource_url(), target.name),
        })
    }
}

impl ScaleApi {
    /// Reads the replicas and the selector of the target.
    ///
    /// # Errors
    /// The errors of the request.
    pub(super) async fn get(&self, client: &Client) -> Result<Scale, Error> {
        let request = http::Request::get(&self.path).body(Vec::new());
        Ok(client.request(built(request)?).await?)
    }

    /// Sets the replicas of the target.
    ///
    /// # Errors
    /// The errors of the request.
    pub(super) async fn replace(&self, client: &Client, scale: &Scale) -> Result<(), Error> {
        let body = serde_json::to_vec(scale).map_err(kube::Error::SerdeError)?;
        let request = http::Request::put(&self.path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body);
        let _: Scale = client.request(built(request)?).await?;
        Ok(())
    }
}

fn built(
    request: Result<http::Request<Vec<u8>>, http::Error>,
) -> Result<http::Request<Vec<u8>>, Error> {
    request.map_err(|error| Error::Api(kube::Error::HttpError(error)))
}
