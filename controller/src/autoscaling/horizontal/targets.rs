//! The targets of autoscalers: resources found by kind, and their subresource `scale`.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::api::{Api, DynamicObject, PostParams};
use kube::{Client, ResourceExt};
use kubeproof_runtime::discovery::{APIResource, server_preferred_resources};
use kubeproof_runtime::sync_error::Error;
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters that a segment of a path has only encoded: all but RFC 3986's unreserved ones.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A name as one segment of a path.
pub(super) fn segment(name: &str) -> String {
    utf8_percent_encode(name, RESERVED).to_string()
}

/// The resources that were looked up, by group and kind.
#[derive(Default)]
pub(super) struct Targets {
    known: Mutex<BTreeMap<(String, String), Arc<APIResource>>>,
}

/// The subresource `scale` of a target.
pub(super) struct ScaleApi {
    collection: Api<DynamicObject>,
    /// The name of the target, as a segment of a path.
    name: String,
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
    ) -> Result<Arc<APIResource>, String> {
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
        Ok(ScaleApi {
            collection: resource.api(client, &namespace),
            name: segment(&target.name),
        })
    }
}

impl ScaleApi {
    /// Reads the replicas and the selector of the target.
    ///
    /// # Errors
    /// The errors of the request.
    pub(super) async fn get(&self) -> Result<Scale, Error> {
        Ok(self.collection.get_scale(&self.name).await?)
    }

    /// Sets the replicas of the target.
    ///
    /// # Errors
    /// The errors of the request.
    pub(super) async fn replace(&self, scale: &Scale) -> Result<(), Error> {
        let params = PostParams::default();
        let replaced = self.collection.replace_scale(&self.name, &params, scale);
        replaced.await?;
        Ok(())
    }
}
