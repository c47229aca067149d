//! The resources that a server serves, from its aggregated discovery.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::core::Status;
use kube::core::discovery::v2::{APIGroupDiscoveryList, APIResourceDiscovery, APIVersionDiscovery};
use parking_lot::Mutex;

use super::{ApiError, Resource};

/// Servers since 1.30 have it.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The last aggregated discovery of this process, by path, as bytes and parsed. Servers of one version usually answer
/// with equal bytes, so that many small clusters need not parse it each time.
static READ: Mutex<BTreeMap<&'static str, (Bytes, Groups)>> = Mutex::new(BTreeMap::new());

/// The resources of each group's preferred version, and those of all its others.
#[derive(Clone, Default)]
struct Groups {
    preferred: Vec<Arc<Resource>>,
    others: Vec<Arc<Resource>>,
}

/// The resources that `client`'s server serves. Those of preferred versions come first: a resource's
/// names are those of the first that has them.
///
/// # Errors
/// [`ApiError`] when the server does not answer with aggregated discovery.
pub(super) async fn resources(client: &kube::Client) -> Result<Vec<Arc<Resource>>, ApiError> {
    let core = groups(client, "/api").await?;
    let named = groups(client, "/apis").await?;
    let parts = [core.preferred, named.preferred, core.others, named.others];
    Ok(parts.concat())
}

async fn groups(client: &kube::Client, path: &'static str) -> Result<Groups, ApiError> {
    let request = Request::get(path)
        .header(USER_AGENT, crate::user_agent::SCENARIO)
        .header(ACCEPT, AGGREGATED);
    let request = request.body(Body::empty()).expect("the path is a URI");
    let response = client.send(request).await?;
    let status = response.status();
    let content_type = response.headers().get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let is_aggregated = content_type.is_some_and(|text| text.contains("as=APIGroupDiscoveryList"));
    let body = response.into_body().collect().await?.to_bytes();
    if !status.is_success() {
        let why = String::from_utf8_lossy(&body);
        let refused = Status::failure(&why, "Failed to discover").with_code(status.as_u16());
        let refused = serde_json::from_slice(&body).unwrap_or(refused);
        return Err(ApiError::Refused(Box::new(refused)));
    }
    if !is_aggregated {
        let why = "the server has no aggregated discovery";
        let refused = Status::failure(why, "NotAcceptable").with_code(406);
        return Err(ApiError::Refused(Box::new(refused)));
    }
    let read = READ.lock().get(path).cloned();
    if let Some((_, groups)) = read.filter(|(known, _)| *known == body) {
        return Ok(groups);
    }
    let groups = Groups::read(&body).map_err(kube::Error::SerdeError)?;
    READ.lock().insert(path, (body, groups.clone()));
    Ok(groups)
}

impl Groups {
    fn read(body: &[u8]) -> Result<Self, serde_json::Error> {
        let list: APIGroupDiscoveryList = serde_json::from_slice(body)?;
        let mut groups = Self::default();
        for group in list.items {
            let name = group.metadata.and_then(|metadata| metadata.name);
            let name = name.unwrap_or_default();
            let mut versions = group.versions.into_iter().map(|of| version(&name, of));
            let preferred = versions.next().into_iter().flatten();
            groups.preferred.extend(preferred);
            groups.others.extend(versions.flatten());
        }
        Ok(groups)
    }
}

fn version(group: &str, discovered: APIVersionDiscovery) -> Vec<Arc<Resource>> {
    let version = discovered.version.unwrap_or_default();
    let group_version = match group {
        "" => version,
        group => format!("{group}/{version}"),
    };
    let resources = discovered.resources.into_iter();
    let resources = resources.filter_map(|found| resource(&group_version, found));
    resources.collect()
}

fn resource(group_version: &str, discovered: APIResourceDiscovery) -> Option<Arc<Resource>> {
    let singular = discovered.singular_resource.filter(|name| !name.is_empty());
    Some(Arc::new(Resource::new(
        group_version.to_owned(),
        discovered.resource?,
        discovered.response_kind?.kind?,
        singular.into_iter().chain(discovered.short_names),
        discovered.scope.as_deref() == Some("Namespaced"),
    )))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Response;
    use kube::Client;
    use kubeproof_machinery::json::{Value, json};
    use tower::service_fn;

    use super::*;

    async fn discover(
        code: u16,
        content_type: &'static str,
        document: Value,
    ) -> Result<Groups, ApiError> {
        let service = service_fn(move |_: Request<Body>| {
            let response = Response::builder().status(code);
            let response = response.header(CONTENT_TYPE, content_type);
            let response = response.body(Body::from(document.to_string().into_bytes()));
            async move { Ok::<_, Infallible>(response.unwrap()) }
        });
        groups(&Client::new(service, "default"), "/apis").await
    }

    #[tokio::test]
    async fn preferred_versions_come_first_and_resources_are_found_by_all_their_names() {
        let version = |version: &str| {
            json!({ "version": version, "resources": [{
                "resource": "widgets", "responseKind": { "kind": "Widget" }, "scope": "Namespaced",
                "singularResource": "widget", "shortNames": ["wd"], "verbs": ["get"],
            }] })
        };
        let group = json!({
            "metadata": { "name": "example.com" },
            "versions": [version("v1"), version("v1beta1")],
        });
        let groups = discover(200, AGGREGATED, json!({ "items": [group] }))
            .await
            .unwrap();
        let [first] = groups.preferred.as_slice() else {
            panic!("{:?}", groups.preferred);
        };
        assert_eq!(first.group_version, "example.com/v1");
        assert_eq!(groups.others[0].group_version, "example.com/v1beta1");
        assert!(first.namespaced);
        let names = [
            "widgets",
            "widget",
            "widgets.example.com",
            "widgets.v1.example.com",
            "wd",
        ];
        for name in names {
            assert!(first.names.iter().any(|own| own == name), "{name}");
        }
    }

    #[tokio::test]
    async fn a_server_without_aggregated_discovery_is_an_error() {
        let older = discover(200, "application/json", json!({ "kind": "APIGroupList" })).await;
        let error = older.map(drop).unwrap_err().to_string();
        assert!(error.contains("no aggregated discovery"), "{error}");
        let forbidden =
            json!({ "kind": "Status", "code": 403, "reason": "Forbidden", "message": "no" });
        let refused = discover(403, "application/json", forbidden).await;
        assert_eq!(
            refused.map(drop).unwrap_err().to_string(),
            "403 Forbidden: no"
        );
    }
}
