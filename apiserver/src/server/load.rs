//! Objects that a server holds from the start.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, WARNING};
use http::request::Builder;
use http::{Request, StatusCode};
use http_body_util::Full;

use super::{ApiServer, ApiServerBuilder, Manifest, Manifests};
use crate::endpoints::warnings;
use crate::json::{Value, json};
use crate::schema::FieldValidation;
use crate::status::ApiError;

/// What `managedFields` call who loads.
pub(super) const USER_AGENT: &str = "kubeproof-load";

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// An object that was not created, or a definition whose resource is not served.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No resource has such objects, not even when all definitions have been loaded.
    #[error(
        "cannot create {object}: nothing serves this kind; is its definition among the manifests?"
    )]
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
        /// The reason of the `Status`, such as `Invalid`.
        reason: String,
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
    /// The error of an object that was read from a file.
    #[error("{}: {error}", file.display())]
    InFile {
        /// The file.
        file: PathBuf,
        /// The error.
        error: Box<Self>,
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
            Self::InFile { error, .. } => error.may_pass(),
        }
    }

    /// The refusal of an object that was read from `file`.
    pub(super) fn of_api(object: String, file: Option<&Path>, error: &ApiError) -> Self {
        let refused = Self::Refused {
            object,
            code: error.code(),
            reason: error.reason().to_owned(),
            message: error.to_string(),
        };
        refused.of(file)
    }

    /// The server's message, without the object where that has it.
    pub(super) fn message(self) -> String {
        match self {
            Self::Refused { message, .. } => message,
            Self::InFile { error, .. } => error.message(),
            error @ (Self::UnknownKind { .. } | Self::NotServed { .. }) => error.to_string(),
        }
    }

    /// The code and the reason of a `Status` about it.
    pub(super) fn code_and_reason(&self) -> (u16, &str) {
        match self {
            Self::UnknownKind { .. } => (400, "BadRequest"),
            Self::Refused { code, reason, .. } => (*code, reason),
            Self::NotServed { .. } => (409, "Conflict"),
            Self::InFile { error, .. } => error.code_and_reason(),
        }
    }

    /// The error of an object that was read from `file`.
    pub(super) fn of(self, file: Option<&Path>) -> Self {
        match file {
            Some(file) => Self::InFile {
                file: file.to_owned(),
                error: Box::new(self),
            },
            None => self,
        }
    }
}

/// Creates objects in a server, as its administrator. Unknown and duplicate fields are refused.
#[derive(Debug)]
pub struct Loader<'s> {
    server: &'s ApiServer,
    validation: FieldValidation,
    warnings: Vec<String>,
    /// What waits for a definition or a namespace.
    postponed: Vec<Manifest>,
}

impl ApiServerBuilder {
    /// The server with `manifests` in addition to the objects of a fresh cluster. All their
    /// definitions are served when this returns.
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
        for manifest in manifests {
            loader.create(manifest).await?;
        }
        loader.finish().await.map(|_| ())
    }

    /// For objects that are not to be held in memory together.
    pub fn loader(&self) -> Loader<'_> {
        Loader {
            server: self,
            validation: FieldValidation::Strict,
            warnings: Vec::new(),
            postponed: Vec::new(),
        }
    }
}

impl Loader<'_> {
    /// Chooses the treatment of unknown and duplicate fields. Default: [`FieldValidation::Strict`].
    #[must_use]
    pub fn field_validation(mut self, validation: FieldValidation) -> Self {
        self.validation = validation;
        self
    }

    /// Creates an object, or puts it off when its kind or its namespace may yet come.
    ///
    /// # Errors
    /// [`LoadError`] when the server refuses it.
    pub async fn create(&mut self, manifest: impl Into<Manifest>) -> Result<(), LoadError> {
        let manifest = manifest.into();
        match self.try_create(&manifest).await {
            Err(error) if error.may_pass() => self.postponed.push(manifest),
            created => created?,
        }
        Ok(())
    }

    /// Creates an object as [`Self::create`] does, or replaces one of its name.
    ///
    /// # Errors
    /// [`LoadError`] when the server refuses it.
    pub(super) async fn apply(&mut self, manifest: Manifest) -> Result<(), LoadError> {
        let before = self.server.stored(&manifest.object).await;
        let Some(before) = before else {
            return self.create(manifest).await;
        };
        let mut manifest = manifest;
        let rv = &before["metadata"]["resourceVersion"];
        manifest.object["metadata"]["resourceVersion"] = rv.clone();
        self.try_write(&manifest, true).await
    }

    /// Creates the postponed objects. Returns the server's warnings under
    /// [`FieldValidation::Warn`], each with its object.
    ///
    /// # Errors
    /// [`LoadError`] for the first object that still cannot be created.
    pub async fn finish(mut self) -> Result<Vec<String>, LoadError> {
        loop {
            let postponed = std::mem::take(&mut self.postponed);
            let before = postponed.len();
            for manifest in postponed {
                self.create(manifest).await?;
            }
            if self.postponed.is_empty() {
                return Ok(self.warnings);
            }
            // Another attempt would create no more objects.
            if self.postponed.len() == before {
                let first = self.postponed.swap_remove(0);
                self.try_create(&first).await?;
            }
        }
    }

    async fn try_create(&mut self, manifest: &Manifest) -> Result<(), LoadError> {
        self.try_write(manifest, false).await
    }

    /// Creates an object, or replaces the one of its name.
    async fn try_write(&mut self, manifest: &Manifest, replaces: bool) -> Result<(), LoadError> {
        let file = manifest.file.as_deref();
        let written = self.server.write(manifest, self.validation, replaces).await;
        let warnings = written.map_err(|error| error.of(file))?;
        let object = in_words(&manifest.object);
        let place = file.map_or_else(String::new, |file| format!("{}: ", file.display()));
        let warnings = warnings.into_iter();
        self.warnings
            .extend(warnings.map(|warning| format!("{place}{object}: {warning}")));
        Ok(())
    }
}

impl ApiServer {
    /// The object of the same name that is stored.
    async fn stored(&self, object: &Value) -> Option<Value> {
        let path = self.path_of(object)?;
        let name = object["metadata"]["name"].as_str()?;
        let request = Request::get(format!("{path}/{name}"));
        let (code, _, stored) = self.send(request, Bytes::new()).await;
        (code == 200).then_some(stored)
    }

    /// Creates an object, or replaces the one of its name; returns the warnings of the answer.
    async fn write(
        &self,
        manifest: &Manifest,
        validation: FieldValidation,
        replaces: bool,
    ) -> Result<Vec<String>, LoadError> {
        let Manifest {
            object, duplicates, ..
        } = manifest;
        let Some(path) = self.path_of(object) else {
            let object = in_words(object);
            return Err(LoadError::UnknownKind { object });
        };
        if validation == FieldValidation::Strict && !duplicates.is_empty() {
            return Err(LoadError::Refused {
                object: in_words(object),
                code: StatusCode::BAD_REQUEST.as_u16(),
                reason: "BadRequest".to_owned(),
                message: format!("strict decoding error: {}", duplicates.join(", ")),
            });
        }
        let body = Bytes::from(object.to_string());
        let query = format!("fieldValidation={}", validation.as_str());
        let request = match (replaces, object["metadata"]["name"].as_str()) {
            (true, Some(name)) => Request::put(format!("{path}/{name}?{query}")),
            _ => Request::post(format!("{path}?{query}")),
        };
        let (code, mut warnings, answer) = self.send(request, body).await;
        if !(200..300).contains(&code) {
            return Err(LoadError::Refused {
                object: in_words(object),
                code,
                reason: answer["reason"].as_str().unwrap_or_default().to_owned(),
                message: answer["message"].as_str().unwrap_or_default().to_owned(),
            });
        }
        if answer["kind"] == "CustomResourceDefinition" {
            self.check_served(object).await?;
        }
        if validation != FieldValidation::Warn {
            return Ok(Vec::new());
        }
        warnings.extend(duplicates.iter().cloned());
        Ok(warnings)
    }

    /// Sends a request of the administrator; returns code, warnings and answer.
    async fn send(&self, request: Builder, body: Bytes) -> (u16, Vec<String>, Value) {
        let mut request = request
            .header(CONTENT_TYPE, "application/json")
            .header(http::header::USER_AGENT, USER_AGENT);
        if let Some(token) = &self.core.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = match request.body(Full::new(body)) {
            Ok(request) => request,
            Err(error) => return (400, Vec::new(), json!({ "message": error.to_string() })),
        };
        let response = self.handle(request).await;
        let code = response.status().as_u16();
        let warnings = response.headers().get_all(WARNING).iter();
        let warnings = warnings.filter_map(warnings::text).collect();
        let answer = response.into_body().bytes().cloned().unwrap_or_default();
        (
            code,
            warnings,
            serde_json::from_slice(&answer).unwrap_or_default(),
        )
    }

    /// The path of the collection that an object belongs in.
    fn path_of(&self, object: &Value) -> Option<String> {
        let resource = self.resource_of(object)?;
        let root = resource.gvk().group_version();
        let (group, version) = (&root.group, &root.version);
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
        let (_, _, stored) = self.send(Request::get(path), Bytes::new()).await;
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
pub(super) fn in_words(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&object["apiVersion"]);
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
    let kind = [&text(&object["kind"]), version, group];
    let kind: Vec<&str> = kind.into_iter().filter(|part| !part.is_empty()).collect();
    format!("{} {}", kind.join("."), text(&object["metadata"]["name"]))
}
