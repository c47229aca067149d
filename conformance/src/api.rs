//! The API as a scenario's steps use it: any resource, by any of its names, as plain JSON.

mod apply;
mod discovery;

use std::fmt;
use std::sync::Arc;

use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT, WARNING};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::core::Status;
use kubeproof_apiserver::{FieldValidation, warning_text};
use kubeproof_machinery::json::Value;
use parking_lot::{Mutex, RwLock};

use crate::causes::write_with_causes;
use crate::user_agent;

/// Asks for a table, or the object where the server has none.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// A request that got no object. As [`fmt::Debug`] it is the message with its causes.
#[derive(thiserror::Error)]
pub enum ApiError {
    /// The server refused it.
    #[error("{} {}: {}", .0.code, .0.reason, .0.message)]
    Refused(Box<Status>),
    /// Discovery knows no such resource.
    #[error("the server has no resource {0:?}; is its definition among the manifests?")]
    UnknownResource(String),
    /// An object cannot be addressed.
    #[error("{0} not set")]
    Unset(&'static str),
    /// There was no usable answer.
    #[error("no answer: {0}")]
    Transport(#[source] kube::Error),
}

impl fmt::Debug for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with_causes(self, f)
    }
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            other => Self::Transport(other),
        }
    }
}

impl ApiError {
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused(status) if status.code == 404)
    }
}

/// One resource of the server.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    group_version: String,
    plural: String,
    kind: String,
    names: Vec<String>,
    pub(crate) namespaced: bool,
}

/// Speaks to one API server, in one namespace. Unknown and duplicate fields are refused.
#[derive(Clone)]
pub struct Api {
    client: kube::Client,
    namespace: String,
    user_agent: &'static str,
    field_validation: FieldValidation,
    /// Grows with the definitions that steps create.
    resources: Arc<RwLock<Vec<Arc<Resource>>>>,
    /// The warnings that the server has returned under [`FieldValidation::Warn`].
    warnings: Arc<Mutex<Vec<String>>>,
}

impl Api {
    /// Learns from aggregated discovery, which servers have since 1.30, what `client`'s server serves.
    ///
    /// # Errors
    /// [`ApiError`] when discovery fails.
    pub async fn discover(client: kube::Client) -> Result<Self, ApiError> {
        let resources = discovery::resources(&client).await?;
        Ok(Self {
            namespace: client.default_namespace().to_owned(),
            client,
            user_agent: user_agent::SCENARIO,
            field_validation: FieldValidation::Strict,
            resources: Arc::new(RwLock::new(resources)),
            warnings: Arc::default(),
        })
    }

    /// Sets the user agent of requests.
    #[must_use]
    pub(crate) fn signed(self, user_agent: &'static str) -> Self {
        Self { user_agent, ..self }
    }

    /// Chooses the treatment of unknown and duplicate fields.
    #[must_use]
    pub(crate) fn with_field_validation(self, field_validation: FieldValidation) -> Self {
        Self {
            field_validation,
            ..self
        }
    }

    /// Takes the server's warnings since the last call.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock())
    }

    /// Switches to another namespace.
    #[must_use]
    pub(crate) fn within(self, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..self
        }
    }

    /// The namespace of namespaced objects that name none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Creates `object`.
    ///
    /// # Errors
    /// [`ApiError`] as the server answers.
    pub async fn create(&self, object: &Value) -> Result<Value, ApiError> {
        let resource = self.resource_of(object)?;
        let path = self.path(&resource, object["metadata"]["namespace"].as_str(), "");
        let path = self.strictly(path);
        let created = self
            .send("POST", &path, Some(object), "application/json")
            .await?;
        self.learn(&resource, &created);
        Ok(created)
    }

    /// Creates `object`, or merges it into the one that exists.
    ///
    /// # Errors
    /// [`ApiError`] as the server answers.
    pub async fn apply(&self, object: &Value) -> Result<Value, ApiError> {
        let resource = self.resource_of(object)?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let path = self.path(&resource, object["metadata"]["namespace"].as_str(), name);
        match self.send("GET", &path, None, "").await {
            Ok(_) => {
                let merge = "application/merge-patch+json";
                let path = self.strictly(path);
                self.send("PATCH", &path, Some(object), merge).await
            }
            Err(error) if error.is_not_found() => self.create(object).await,
            Err(error) => Err(error),
        }
    }

    /// Reads the object `name` of `resource`, which may be any name of it, or a subresource.
    ///
    /// # Errors
    /// [`ApiError`] as the server answers.
    pub async fn get(
        &self,
        (resource, name): (&str, &str),
        subresource: Option<&str>,
    ) -> Result<Value, ApiError> {
        let path = self.path_below(resource, name, subresource)?;
        self.send("GET", &path, None, "").await
    }

    /// Replaces the object.
    ///
    /// # Errors
    /// [`ApiError`] as the server answers.
    pub async fn update(
        &self,
        (resource, name): (&str, &str),
        subresource: Option<&str>,
        object: &Value,
    ) -> Result<Value, ApiError> {
        let path = self.strictly(self.path_below(resource, name, subresource)?);
        self.send("PUT", &path, Some(object), "application/json")
            .await
    }

    /// Patches the object; `content_type` says how `patch` is read.
    ///
    /// # Errors
    /// [`ApiError`] as the server answers.
    pub async fn patch(
        &self,
        (resource, name): (&str, &str),
        subresource: Option<&str>,
        content_type: &str,
        patch: &Value,
    ) -> Result<Value, ApiError> {
        let path = self.strictly(self.path_below(resource, name, subresource)?);
        self.send("PATCH", &path, Some(patch), content_type).await
    }

    /// Sets the number of replicas as `kubectl scale` does: by a merge patch of the subresource `scale`. Unknown fields are not
    /// an issue there, so the request does not say what becomes of them.
    ///
    /// # Errors
    /// [`ApiError`] as the server answers: 404 if objects of the kind cannot be scaled.
    pub(crate) async fn scale(
        &self,
        (resource, name): (&str, &str),
        replicas: i64,
    ) -> Result<Value, ApiError> {
        let path = self.path_below(resource, name, Some("scale"))?;
        let patch = kubeproof_machinery::json::json!({"spec": {"replicas": replicas}});
        let merge = "application/merge-patch+json";
        self.send("PATCH", &path, Some(&patch), merge).await
    }

    /// Deletes the object with `options`.
    ///
    /// # Errors
    /// [`ApiError`] as the server answers.
    pub async fn delete(
        &self,
        (resource, name): (&str, &str),
        options: &Value,
    ) -> Result<Value, ApiError> {
        let path = self.path(&self.resource(resource)?, None, name);
        self.send("DELETE", &path, Some(options), "application/json")
            .await
    }

    /// Deletes the objects of `resource` in the namespace that have the labels.
    ///
    /// # Errors
    /// [`ApiError`] as the server answers.
    pub async fn delete_collection(
        &self,
        resource: &str,
        label_selector: Option<&str>,
    ) -> Result<Value, ApiError> {
        let mut path = self.path(&self.resource(resource)?, None, "");
        path.push_str(&query(label_selector));
        self.send("DELETE", &path, None, "").await
    }

    /// The server's table of the objects of `resource` in the namespace that have the labels.
    ///
    /// # Errors
    /// [`ApiError`] as the server answers.
    pub async fn table(
        &self,
        resource: &str,
        label_selector: Option<&str>,
    ) -> Result<Value, ApiError> {
        let path = self.path(&self.resource(resource)?, None, "");
        self.table_at(path + &query(label_selector)).await
    }

    /// Returns the table of a resource in all namespaces, as [`table`](Self::table) does for one.
    ///
    /// # Errors
    /// [`ApiError`] as the server answers.
    pub async fn table_of_all(
        &self,
        resource: &str,
        label_selector: Option<&str>,
    ) -> Result<Value, ApiError> {
        let resource = self.resource(resource)?;
        let (root, plural) = (root(&resource.group_version), &resource.plural);
        self.table_at(format!("{root}/{plural}{}", query(label_selector)))
            .await
    }

    /// The objects of `resource` in all namespaces.
    ///
    /// # Errors
    /// [`ApiError`] as the server answers.
    pub(crate) async fn list_of_all(&self, resource: &str) -> Result<Value, ApiError> {
        let resource = self.resource(resource)?;
        let (root, plural) = (root(&resource.group_version), &resource.plural);
        self.send("GET", &format!("{root}/{plural}"), None, "")
            .await
    }

    /// The objects of `resource` in the namespace.
    ///
    /// # Errors
    /// [`ApiError`] as the server answers.
    pub(crate) async fn list(&self, resource: &str) -> Result<Value, ApiError> {
        let path = self.path(&self.resource(resource)?, None, "");
        self.send("GET", &path, None, "").await
    }

    /// A resource as kubectl calls its kind: `pod`, `statefulset.apps`.
    ///
    /// # Errors
    /// [`ApiError::UnknownResource`]
    pub(crate) fn kind(&self, resource: &str) -> Result<String, ApiError> {
        let resource = self.resource(resource)?;
        let kind = resource.kind.to_lowercase();
        Ok(match resource.group_version.split_once('/') {
            Some((group, _)) => format!("{kind}.{group}"),
            None => kind,
        })
    }

    /// Evicts a pod, as its disruption budgets allow.
    ///
    /// # Errors
    /// [`ApiError`] as the server answers.
    pub(crate) async fn evict(&self, namespace: &str, name: &str) -> Result<(), ApiError> {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
        let body = kubeproof_machinery::json::json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "namespace": namespace, "name": name },
        });
        self.send("POST", &path, Some(&body), "application/json")
            .await?;
        Ok(())
    }

    async fn table_at(&self, path: String) -> Result<Value, ApiError> {
        let mut request = self.request("GET", &path, None, "");
        let table = http::HeaderValue::from_static(TABLE);
        request.headers_mut().insert(ACCEPT, table);
        self.answer(request).await?.0
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        content_type: &str,
    ) -> Result<Value, ApiError> {
        let request = self.request(method, path, body, content_type);
        let (answer, warnings) = self.answer(request).await?;
        if self.field_validation == FieldValidation::Warn {
            self.warnings.lock().extend(warnings);
        }
        answer
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        content_type: &str,
    ) -> http::Request<Body> {
        let mut request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(USER_AGENT, self.user_agent)
            .header(ACCEPT, "application/json");
        let mut bytes = Vec::new();
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, content_type);
            bytes = body.to_string().into_bytes();
        }
        let request = request.body(bytes.into());
        request.expect("a path of the server is a URI")
    }

    /// Returns the server's answer and its warnings.
    ///
    /// # Errors
    /// [`ApiError::Transport`]
    async fn answer(
        &self,
        request: http::Request<Body>,
    ) -> Result<(Result<Value, ApiError>, Vec<String>), ApiError> {
        let response = self.client.send(request).await?;
        let code = response.status();
        let warnings = response.headers().get_all(WARNING).iter();
        let warnings = warnings.filter_map(warning_text).collect();
        let body = response.into_body().collect().await?.to_bytes();
        let answer = if code.is_success() {
            let read = serde_json::from_slice(&body).map_err(kube::Error::SerdeError);
            read.map_err(ApiError::from)
        } else {
            let text = String::from_utf8_lossy(&body);
            let failure = || Status::failure(&text, "Unknown").with_code(code.as_u16());
            let status = serde_json::from_slice(&body).unwrap_or_else(|_| failure());
            Err(ApiError::Refused(Box::new(status)))
        };
        Ok((answer, warnings))
    }

    /// The path of a write under the field validation chosen.
    fn strictly(&self, path: String) -> String {
        format!("{path}?fieldValidation={}", self.field_validation.as_str())
    }

    /// Adds the kinds of a written definition to the known resources.
    fn learn(&self, resource: &Resource, written: &Value) {
        if resource.plural == "customresourcedefinitions" {
            let mut resources = self.resources.write();
            for defined in defined(written) {
                let is_same = |known: &Arc<Resource>| {
                    known.group_version == defined.group_version && known.kind == defined.kind
                };
                resources.retain(|known| !is_same(known));
                resources.push(defined);
            }
        }
    }

    fn resource_of(&self, object: &Value) -> Result<Arc<Resource>, ApiError> {
        let (api_version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
        let resources = self.resources.read();
        resources
            .iter()
            .find(|known| {
                Some(known.group_version.as_str()) == api_version
                    && Some(known.kind.as_str()) == kind
            })
            .cloned()
            .ok_or_else(|| match (api_version, kind) {
                (Some(api_version), Some(kind)) => {
                    ApiError::UnknownResource(format!("{api_version} {kind}"))
                }
                (None, _) => ApiError::Unset("apiVersion"),
                (_, None) => ApiError::Unset("kind"),
            })
    }

    /// Whether the server has the resource `plural` of this version of a group.
    pub(crate) fn serves(&self, group: &str, version: &str, plural: &str) -> bool {
        let wanted = match group {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        let resources = self.resources.read();
        let mut resources = resources.iter();
        resources.any(|known| known.group_version == wanted && known.plural == plural)
    }

    pub(crate) fn resource(&self, name: &str) -> Result<Arc<Resource>, ApiError> {
        let wanted = name.to_lowercase();
        let resources = self.resources.read();
        resources
            .iter()
            .find(|known| known.names.contains(&wanted))
            .cloned()
            .ok_or_else(|| ApiError::UnknownResource(name.to_owned()))
    }

    fn path_below(
        &self,
        resource: &str,
        name: &str,
        subresource: Option<&str>,
    ) -> Result<String, ApiError> {
        let mut path = self.path(&self.resource(resource)?, None, name);
        if let Some(subresource) = subresource {
            path.push('/');
            path.push_str(subresource);
        }
        Ok(path)
    }

    fn path(&self, resource: &Arc<Resource>, namespace: Option<&str>, name: &str) -> String {
        let mut path = root(&resource.group_version);
        if resource.namespaced {
            path.push_str("/namespaces/");
            path.push_str(namespace.unwrap_or(&self.namespace));
        }
        path.push('/');
        path.push_str(&resource.plural);
        if !name.is_empty() {
            path.push('/');
            path.push_str(name);
        }
        path
    }
}

fn root(group_version: &str) -> String {
    let prefix = if group_version.contains('/') {
        "/apis"
    } else {
        "/api"
    };
    format!("{prefix}/{group_version}")
}

/// Labels as scenarios write them need but one character encoded.
fn query(label_selector: Option<&str>) -> String {
    label_selector.map_or_else(String::new, |labels| {
        format!("?labelSelector={}", labels.replace('=', "%3D"))
    })
}

fn string(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// The resources that a CustomResourceDefinition defines, one a version.
fn defined(definition: &Value) -> Vec<Arc<Resource>> {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let group = string(&spec["group"]).unwrap_or_default();
    let short_names = names["shortNames"].as_array().into_iter().flatten();
    let short_names: Vec<String> = short_names.filter_map(string).collect();
    let versions = spec["versions"].as_array().into_iter().flatten();
    let defined = versions.filter_map(|version| {
        Some(Arc::new(Resource::new(
            format!("{group}/{}", version["name"].as_str()?),
            string(&names["plural"])?,
            string(&names["kind"])?,
            string(&names["singular"])
                .into_iter()
                .chain(short_names.clone()),
            spec["scope"] == "Namespaced",
        )))
    });
    defined.collect()
}

impl Resource {
    /// `others` are the names of the resource that do not follow from its plural and kind.
    fn new(
        group_version: String,
        plural: String,
        kind: String,
        others: impl IntoIterator<Item = String>,
        namespaced: bool,
    ) -> Self {
        let mut names = vec![plural.clone(), kind.to_lowercase()];
        if let Some((group, version)) = group_version.split_once('/') {
            names.push(format!("{plural}.{group}"));
            names.push(format!("{plural}.{version}.{group}"));
        }
        names.extend(others);
        Self {
            group_version,
            plural,
            kind,
            names,
            namespaced,
        }
    }
}
