//! Objects of another cluster, stored as they were there: from a dump, or from what a server has exported.

use std::sync::Arc;

use serde_json::Value;

use super::load::{LoadError, USER_AGENT, in_words};
use super::{ApiServer, Manifest};
use crate::field_manager::Writer;
use crate::meta::{GroupVersion, ResourceVersion};
use crate::registry::catalog::ResourceInfo;
use crate::schema::{self, FieldValidation};
use crate::status::ApiError;
use crate::store::Store;

/// What of the live objects is not stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unstored {
    /// The objects whose kind nothing serves, as `KIND.VERSION.GROUP NAME`.
    pub objects: Vec<String>,
    /// The fields that their kind does not have, such as those of a newer cluster, as `KIND.VERSION.GROUP NAME: unknown
    /// field "spec.foo"`.
    pub fields: Vec<String>,
}

impl Manifest {
    /// Whether the object was read from a cluster: it has a uid and a `resourceVersion`, which none has before it is created.
    #[must_use]
    pub fn is_live(&self) -> bool {
        let metadata = &self.object["metadata"];
        let is_set = |field: &str| {
            metadata[field]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        };
        is_set("uid") && is_set("resourceVersion")
    }
}

impl ApiServer {
    /// Stores live objects as they were in their cluster: with uids, owner references, times, managed fields and status, and
    /// with their resource versions, or in the order of these where they are past. An object of the same name is
    /// replaced. Nothing is defaulted, admitted or validated. Definitions are served first.
    ///
    /// Returns what was left out.
    ///
    /// # Errors
    /// [`LoadError`] for the first object that cannot be decoded or converted.
    pub async fn load_live(&self, manifests: Vec<Manifest>) -> Result<Unstored, LoadError> {
        let mut manifests = manifests;
        manifests.sort_by_cached_key(|manifest| rv_of(&manifest.object));
        let is_definition = |manifest: &&Manifest| {
            let object = &manifest.object;
            let group = object["apiVersion"].as_str().unwrap_or_default();
            object["kind"] == "CustomResourceDefinition"
                && group.starts_with("apiextensions.k8s.io/")
        };
        // Their versions follow below, when everything is stored in order.
        for definition in manifests.iter().filter(is_definition) {
            self.load_one(definition, None).await?;
        }
        let mut unstored = Unstored::default();
        for manifest in &manifests {
            let (object, rv) = (in_words(&manifest.object), rv_of(&manifest.object));
            match self.load_one(manifest, rv).await {
                Err(error) if error.is_unknown_kind() => unstored.objects.push(object),
                warnings => {
                    let warnings = warnings?.into_iter();
                    let fields = warnings.map(|warning| format!("{object}: {warning}"));
                    unstored.fields.extend(fields);
                }
            }
        }
        // A server of the same seed has drawn the uids of its own objects.
        let rv = self.core.storage.resource_version();
        self.core.entropy.set_apart(rv.get());
        Ok(unstored)
    }

    /// Stores a live object; returns warnings of fields that are dropped.
    async fn load_one(
        &self,
        manifest: &Manifest,
        rv: Option<ResourceVersion>,
    ) -> Result<Vec<String>, LoadError> {
        let file = manifest.file.as_deref();
        let object = &manifest.object;
        let Some(resource) = self.resource_of(object) else {
            let object = in_words(object);
            return Err(LoadError::UnknownKind { object }.of(file));
        };
        let refused = |error: &ApiError| {
            let refused = LoadError::Refused {
                object: in_words(object),
                code: error.code(),
                message: error.to_string(),
            };
            refused.of(file)
        };
        let (object, warnings) = canonical(object, &resource).map_err(|error| refused(&error))?;
        let restored = self.restore_object(&resource, object, rv).await;
        restored.map_err(|error| refused(&error))?;
        Ok(warnings)
    }

    /// Stores an object with its metadata and status, past admission and validation.
    ///
    /// # Errors
    /// The object cannot be converted to the version in which its kind is stored.
    pub(super) async fn restore_object(
        &self,
        resource: &ResourceInfo,
        object: Value,
        rv: Option<ResourceVersion>,
    ) -> Result<(), ApiError> {
        let user_agent: Arc<str> = USER_AGENT.into();
        let writer = Writer {
            field_manager: USER_AGENT,
            user_agent: USER_AGENT,
            subresource: "",
        };
        let store = Store::of_server(&self.core, resource, &user_agent, writer);
        store.restore(object, rv).await
    }

    /// The resource that an object is of.
    pub(super) fn resource_of(&self, object: &Value) -> Option<Arc<ResourceInfo>> {
        let kind = object["kind"].as_str()?;
        let group_version = GroupVersion::parse(object["apiVersion"].as_str()?)?;
        let (group, version) = (&group_version.group, &group_version.version);
        let catalog = self.core.definitions.catalog();
        let mut resources = catalog.version(group, version)?.resources.iter();
        resources
            .find(|resource| resource.gvk().kind == kind)
            .cloned()
    }
}

/// The version of a live object, if it is one of these servers.
fn rv_of(object: &Value) -> Option<ResourceVersion> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

/// The object with its fields in the order in which a server sends them, and warnings of fields that its kind does not have.
fn canonical(object: &Value, resource: &ResourceInfo) -> Result<(Value, Vec<String>), ApiError> {
    match schema::builtin(resource.gvk()) {
        None => Ok((object.clone(), Vec::new())),
        Some(schema) => {
            let json = object.to_string();
            let decoded = schema::decode_json(schema, json.as_bytes(), FieldValidation::Warn);
            let decoded = decoded.map_err(|error| ApiError::BadRequest(error.to_string()))?;
            Ok((decoded.value, decoded.warnings))
        }
    }
}
