//! Objects that a running server takes in, all of them or none.

use super::live::{LiveError, Unstored};
use super::{ApiServer, LoadError, Manifest, Manifests};
use crate::json::{Value, json};
use crate::schema::FieldValidation;
use crate::status::{ApiError, Status};

/// How objects are imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// Whether objects of the same name are replaced. Without it they are conflicts.
    pub replaces: bool,
    /// The treatment of unknown fields of objects that are created. Those of live objects are dropped with a warning.
    pub field_validation: FieldValidation,
}

/// What has become of imported objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The number of objects that were stored.
    pub stored: usize,
    /// The number of live objects that were there already.
    pub unchanged: usize,
    /// What of the live objects is not stored.
    pub unstored: Unstored,
    /// Warnings about objects that were created, each with its object.
    pub warnings: Vec<String>,
}

/// The reason why nothing is imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// Other objects have the names of some of them: `deployments.apps "web" already exists` for each.
    #[error("{}", .0.join(", "))]
    Exist(Vec<String>),
    /// An object is refused.
    #[error("{message}")]
    Refused {
        /// The code of the refusal.
        code: u16,
        /// The reason of the refusal, such as `Invalid`.
        reason: String,
        /// The object, and the server's message about it.
        message: String,
    },
}

impl From<LoadError> for ImportError {
    fn from(error: LoadError) -> Self {
        let (code, reason) = error.code_and_reason();
        Self::Refused {
            code,
            reason: reason.to_owned(),
            message: error.to_string(),
        }
    }
}

impl ImportError {
    /// The answer to a request for it.
    fn into_api_error(self) -> ApiError {
        let status = match self {
            Self::Exist(messages) => {
                let message = match messages.as_slice() {
                    [one] => one.clone(),
                    several => format!("{} objects already exist", several.len()),
                };
                let causes = messages.iter();
                let causes = causes.map(|own| json!({"reason": "AlreadyExists", "message": own}));
                let causes: Vec<Value> = causes.collect();
                Status::failure(409, "AlreadyExists", message)
                    .with_details(json!({ "causes": causes }))
            }
            Self::Refused {
                code,
                reason,
                message,
            } => Status::failure(code.into(), &reason, message),
        };
        ApiError::Denied(Box::new(status))
    }
}

impl ApiServer {
    /// Takes objects in, all of them or none: live ones as they were in their cluster, as [`Self::load_live`] does, and at
    /// once; others are created, or updated if they exist and may be replaced.
    ///
    /// A fork of the server takes them in first, so webhooks are asked twice. What other clients write between the two may
    /// still refuse a part.
    ///
    /// # Errors
    /// [`ImportError`] with all conflicts, or with the first object that is refused.
    pub async fn import(
        &self,
        manifests: Vec<Manifest>,
        options: ImportOptions,
    ) -> Result<Imported, ImportError> {
        self.fork().take_in(manifests.clone(), options).await?;
        self.take_in(manifests, options).await
    }

    async fn take_in(
        &self,
        manifests: Vec<Manifest>,
        options: ImportOptions,
    ) -> Result<Imported, ImportError> {
        let (live, new): (Vec<_>, Vec<_>) = manifests.into_iter().partition(Manifest::is_live);
        let mut exist = Vec::new();
        let mut imported = Imported {
            stored: new.len(),
            ..Imported::default()
        };
        let mut loader = self.loader().field_validation(options.field_validation);
        for manifest in new {
            let created = match options.replaces {
                true => loader.apply(manifest).await,
                false => loader.create(manifest).await,
            };
            match created {
                Err(error) if error.code_and_reason().1 == "AlreadyExists" => {
                    exist.push(error.message());
                }
                created => created?,
            }
        }
        match self.store_live(live, options.replaces).await {
            Ok(stored) => {
                imported.stored += stored.objects;
                imported.unchanged = stored.unchanged;
                imported.unstored = stored.unstored;
            }
            Err(LiveError::Load(error)) => return Err(error.into()),
            Err(LiveError::Exist(errors)) => {
                exist.extend(errors.iter().map(ToString::to_string));
            }
        }
        if !exist.is_empty() {
            return Err(ImportError::Exist(exist));
        }
        imported.warnings = loader.finish().await?;
        Ok(imported)
    }

    /// Answers a request that has the objects as JSON in its body: an object, or a List.
    pub(super) async fn answer_import(
        &self,
        query: &[(String, String)],
        body: &[u8],
    ) -> Result<Value, ApiError> {
        let options = options(query)?;
        let unread = |error: &dyn ToString| {
            ApiError::BadRequest(format!("the objects cannot be read: {}", error.to_string()))
        };
        let object: Value = serde_json::from_slice(body).map_err(|error| unread(&error))?;
        let manifests = Manifests::new().object(&object);
        let manifests = manifests.map_err(|error| unread(&error))?;
        let imported = self.import(manifests.into_iter().collect(), options).await;
        let imported = imported.map_err(ImportError::into_api_error)?;
        let mut warnings = imported.unstored.fields;
        warnings.extend(imported.warnings);
        Ok(json!({
            "kind": "ImportResult",
            "apiVersion": "kubeproof.dev/v1",
            "stored": imported.stored,
            "unchanged": imported.unchanged,
            "leftOut": imported.unstored.objects,
            "warnings": warnings,
        }))
    }
}

/// Reads `?replace=true&fieldValidation=Strict`.
fn options(query: &[(String, String)]) -> Result<ImportOptions, ApiError> {
    let value = |wanted: &str| {
        let mut found = query.iter().filter(|(key, _)| key == wanted);
        found.next().map(|(_, value)| value.as_str())
    };
    let replaces = match value("replace") {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            let message = format!("replace: {other:?} is neither true nor false");
            return Err(ApiError::BadRequest(message));
        }
    };
    let all = [
        FieldValidation::Ignore,
        FieldValidation::Strict,
        FieldValidation::Warn,
    ];
    let field_validation = match value("fieldValidation") {
        None => FieldValidation::Warn,
        Some(asked) => {
            let found = all.into_iter().find(|one| one.as_str() == asked);
            found.ok_or_else(|| {
                let supported = all.map(|one| format!("{:?}", one.as_str())).join(", ");
                ApiError::BadRequest(format!(
                    "fieldValidation: Unsupported value: {asked:?}: supported values: {supported}"
                ))
            })?
        }
    };
    Ok(ImportOptions {
        replaces,
        field_validation,
    })
}
