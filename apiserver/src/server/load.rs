//! Objects that a server is to hold from the start.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::request::Builder;
use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use super::{ApiServer, ApiServerBuilder, Manifests};
use crate::meta::GroupVersion;

/// What `managedFields` call who loads.
const USER_AGENT: &str = "kubeproof-load";

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// An object that was not created, or a definition whose resource is not served.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No resource has such objects, not even when all definitions have been loaded.
    #[error("cannot create {object}: nothing serves this kind")]
    UnknownKind {
        /// The object as `KIND.VERSION.GROUP NAME`.
        object: String,
    },
    /// The server's answer.
    #[error("cannot create {object}: {message}")]
    Refused {
        /// The object as `KIND.VERSION.GROUP NAME`.
        object: String,
        /// The status code.
        code: u16,
        /// The message of the `Status`.
        message: String,
    },
    /// A definition is stored, but its names are another's.
    #[error("{object} is not served: {message}")]
    NotServed {
        /// The definition as `KIND.VERSION.GROUP NAME`.
        object: String,
        /// What its conditions say.
        message: String,
    },
}

impl LoadError {
    /// Whether it may be different when more has been loaded.
    fn may_pass(&self) -> bool {
        match self {
            Self::UnknownKind { .. } => true,
            // The namespace is not there.
            Self::Refused { code, .. } => *code == StatusCode::NOT_FOUND,
            Self::NotServed { .. } => false,
        }
    }
}

/// Creates objects in a server, as its administrator.
#[derive(Debug)]
pub struct Loader<'s> {
    server: &'s ApiServer,
    /// What waits for a definition or a namespace.
    postponed: Vec<Value>,
}

impl ApiServerBuilder {
    /// The server, holding `manifests` beside what a fresh cluster holds. All their definitions are
    /// served when it is there.
    ///
    /// # Errors
    /// [`LoadError`] for the first object that cannot be created.
    pub async fn build_with(self, manifests: Manifests) -> Result<ApiServer, LoadError> {
        let server = self.build();
        server.load(manifests).await?;
        Ok(server)
    }
}

impl ApiServer {
    /// Creates `manifests`; all their definitions are served when it is done.
    ///
    /// # Errors
    /// [`LoadError`] for the first object that cannot be created.
    pub async fn load(&self, manifests: Manifests) -> Result<(), LoadError> {
        let mut loader = self.loader();
        for object in manifests {
            loader.create(object).await?;
        }
        loader.finish().await
    }

    /// For objects that are not to be held in memory together.
    pub fn loader(&self) -> Loader<'_> {
        Loader {
            server: self,
            postponed: Vec::new(),
        }
    }
}

impl Loader<'_> {
    /// Creates `object`, or puts it off when its kind or its namespace may yet come.
    ///
    /// # Errors
    /// [`LoadError`] when the server refuses it.
    pub async fn create(&mut self, object: Value) -> Result<(), LoadError> {
        match self.server.create(&object).await {
            Err(error) if error.may_pass() => self.postponed.push(object),
            created => created?,
        }
        Ok(())
    }

    /// Creates what was put off.
    ///
    /// # Errors
    /// [`LoadError`] for the first object that still cannot be created.
    pub async fn finish(mut self) -> Result<(), LoadError> {
        loop {
            let postponed = std::mem::take(&mut self.postponed);
            let before = postponed.len();
            for object in postponed {
                self.create(object).await?;
            }
            match self.postponed.first() {
                None => return Ok(()),
                // Nothing more comes of trying again.
                Some(first) if self.postponed.len() == before => {
                    return self.server.create(first).await;
                }
                Some(_) => {}
            }
        }
    }
}

impl ApiServer {
    async fn create(&self, object: &Value) -> Result<(), LoadError> {
        let Some(path) = self.path_of(object) else {
            let object = in_words(object);
            return Err(LoadError::UnknownKind { object });
        };
        let body = Bytes::from(object.to_string());
        let (code, answer) = self.send(Request::post(path), body).await;
        if !(200..300).contains(&code) {
            return Err(LoadError::Refused {
                object: in_words(object),
                code,
                message: answer["message"].as_str().unwrap_or_default().to_owned(),
            });
        }
        match answer["kind"] == "CustomResourceDefinition" {
            true => self.check_served(object).await,
            false => Ok(()),
        }
    }

    /// Sends a request of the administrator.
    async fn send(&self, request: Builder, body: Bytes) -> (u16, Value) {
        let mut request = request
            .header(CONTENT_TYPE, "application/json")
            .header(http::header::USER_AGENT, USER_AGENT);
        if let Some(token) = &self.core.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = match request.body(Full::new(body)) {
            Ok(request) => request,
            Err(error) => return (400, json!({ "message": error.to_string() })),
        };
        let response = self.handle(request).await;
        let code = response.status().as_u16();
        let answer = response.into_body().bytes().cloned().unwrap_or_default();
        (code, serde_json::from_slice(&answer).unwrap_or_default())
    }

    /// The path of the collection that an object belongs in.
    fn path_of(&self, object: &Value) -> Option<String> {
        let api_version = object["apiVersion"].as_str()?;
        let kind = object["kind"].as_str()?;
        let group_version = GroupVersion::parse(api_version)?;
        let (group, version) = (&group_version.group, &group_version.version);
        let catalog = self.core.definitions.catalog();
        let resources = &catalog.version(group, version)?.resources;
        let resource = resources
            .iter()
            .find(|resource| resource.gvk().kind == kind)?;
        let root = match group.as_str() {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        let plural = &resource.gvr().resource;
        if !resource.namespaced {
            return Some(format!("{root}/{plural}"));
        }
        let namespace = object["metadata"]["namespace"].as_str();
        let namespace = namespace.unwrap_or("default");
        Some(format!("{root}/namespaces/{namespace}/{plural}"))
    }

    /// A definition is served by the time its creation is answered, unless its names are taken.
    async fn check_served(&self, definition: &Value) -> Result<(), LoadError> {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
        let versions = spec["versions"].as_array().into_iter().flatten();
        let is_served = |version: &Value| {
            let definitions = &self.core.definitions;
            let served = definitions.resource(&group, &text(&version["name"]), &plural);
            served.is_some()
        };
        if versions
            .filter(|version| version["served"] == true)
            .all(is_served)
        {
            return Ok(());
        }
        let path = format!("{DEFINITIONS}/{plural}.{group}");
        let (_, stored) = self.send(Request::get(path), Bytes::new()).await;
        let conditions = stored["status"]["conditions"].as_array();
        let unmet = conditions
            .into_iter()
            .flatten()
            .filter(|condition| condition["status"] == "False");
        let messages: Vec<String> = unmet.map(|condition| text(&condition["message"])).collect();
        Err(LoadError::NotServed {
            object: in_words(definition),
            message: messages.join(", "),
        })
    }
}

/// An object as `KIND.VERSION.GROUP NAME`.
fn in_words(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&object["apiVersion"]);
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
    let kind = [&text(&object["kind"]), version, group];
    let kind: Vec<&str> = kind.into_iter().filter(|part| !part.is_empty()).collect();
    format!("{} {}", kind.join("."), text(&object["metadata"]["name"]))
}
