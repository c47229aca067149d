//! Objects of another cluster, stored as they were there: from a dump, or from what a server has exported.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::load::{LoadError, USER_AGENT, in_words};
use super::{ApiServer, Manifest};
use crate::field_manager::Writer;
use crate::json::Value;
use crate::meta::{GroupVersion, ResourceVersion};
use crate::registry::catalog::ResourceInfo;
use crate::schema::{self, FieldValidation};
use crate::status::ApiError;
use crate::store::{Store, restore_all};

/// What of the live objects is not stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unstored {
    /// The objects whose kind nothing serves, as `KIND.VERSION.GROUP NAME`.
    pub objects: Vec<String>,
    /// The fields that their kind does not have, such as those of a newer cluster, as `KIND.VERSION.GROUP NAME: unknown
    /// field "spec.foo"`.
    pub fields: Vec<String>,
}

/// What has become of live objects.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// The number of objects that were stored.
    pub(super) objects: usize,
    /// The number of those that were there already.
    pub(super) unchanged: usize,
    pub(super) unstored: Unstored,
}

/// The reason why live objects are not stored.
pub(super) enum LiveError {
    /// One of them cannot be stored.
    Load(LoadError),
    /// Other objects have their names: `AlreadyExists` for each.
    Exist(Vec<ApiError>),
}

impl From<LoadError> for LiveError {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

/// A live object that was decoded.
struct Live {
    resource: Arc<ResourceInfo>,
    object: Value,
    rv: Option<ResourceVersion>,
    /// The object as `KIND.VERSION.GROUP NAME`.
    words: String,
    /// The file that it was read from.
    file: Option<Arc<Path>>,
    /// Whether it replaces an object of its name.
    replaces: bool,
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
        let stored = self.store_live(manifests, true).await;
        stored
            .map(|stored| stored.unstored)
            .map_err(|refused| match refused {
                LiveError::Load(error) => error,
                LiveError::Exist(_) => unreachable!("objects of the same name are replaced"),
            })
    }

    /// Stores live objects, all others than definitions at once. Without `replaces`, an object that is there already is left
    /// as it is, and one of its name that is another prevents everything.
    pub(super) async fn store_live(
        &self,
        mut manifests: Vec<Manifest>,
        replaces: bool,
    ) -> Result<Stored, LiveError> {
        manifests.sort_by_cached_key(|manifest| rv_of(&manifest.object));
        let is_definition = |manifest: &&Manifest| {
            let object = &manifest.object;
            let group = object["apiVersion"].as_str().unwrap_or_default();
            object["kind"] == "CustomResourceDefinition"
                && group.starts_with("apiextensions.k8s.io/")
        };
        let mut stored = Stored::default();
        let definitions: Vec<Manifest> = manifests.iter().filter(is_definition).cloned().collect();
        let mut served = BTreeSet::new();
        for mut definition in self.decode(definitions, &mut Unstored::default())? {
            // The version of a definition follows below, when everything is stored in order.
            definition.rv = None;
            definition.replaces = replaces;
            let (words, mut one) = (definition.words.clone(), Stored::default());
            self.store(vec![definition], &mut one).await?;
            if one.objects > 0 {
                served.insert(words);
            }
        }
        let mut all = self.decode(manifests, &mut stored.unstored)?;
        for live in &mut all {
            live.replaces = replaces || served.contains(&live.words);
        }
        self.store(all, &mut stored).await?;
        // A server of the same seed has drawn the uids of its own objects.
        let rv = self.core.storage.resource_version();
        self.core.entropy.set_apart(rv.get());
        Ok(stored)
    }

    /// Decodes live objects; notes what nothing serves, and the fields that are dropped.
    fn decode(
        &self,
        manifests: Vec<Manifest>,
        unstored: &mut Unstored,
    ) -> Result<Vec<Live>, LoadError> {
        let mut decoded = Vec::with_capacity(manifests.len());
        for manifest in manifests {
            let words = in_words(&manifest.object);
            let Some(resource) = self.resource_of(&manifest.object) else {
                unstored.objects.push(words);
                continue;
            };
            let rv = rv_of(&manifest.object);
            let refused =
                |error| LoadError::of_api(words.clone(), manifest.file.as_deref(), &error);
            let (object, warnings) = canonical(&manifest.object, &resource).map_err(refused)?;
            let fields = warnings.into_iter();
            let fields = fields.map(|warning| format!("{words}: {warning}"));
            unstored.fields.extend(fields);
            decoded.push(Live {
                resource,
                object,
                rv,
                words,
                file: manifest.file,
                replaces: false,
            });
        }
        Ok(decoded)
    }

    /// Stores decoded objects at once.
    async fn store(&self, mut objects: Vec<Live>, stored: &mut Stored) -> Result<(), LiveError> {
        let user_agent: Arc<str> = USER_AGENT.into();
        let (mut restoring, mut exist) = (Vec::with_capacity(objects.len()), Vec::new());
        for live in &mut objects {
            let object = std::mem::take(&mut live.object);
            let live: &Live = live;
            let store = self.store_of(&live.resource, &user_agent);
            let refused =
                |error| LoadError::of_api(live.words.clone(), live.file.as_deref(), &error);
            let one = store.restoring(object, live.rv, live.replaces).await;
            let one = one.map_err(refused)?;
            match one.present() {
                Some(present) if !live.replaces => match is_same(&present.value(), one.object()) {
                    true => stored.unchanged += 1,
                    false => exist.push(one.already_exists()),
                },
                _ => restoring.push(one),
            }
        }
        if !exist.is_empty() {
            return Err(LiveError::Exist(exist));
        }
        stored.objects += restoring.len();
        restore_all(restoring).map_err(LiveError::Exist)
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
        let store = self.store_of(resource, &user_agent);
        let one = store.restoring(object, rv, true).await?;
        restore_all(vec![one]).map_err(|mut exist| exist.swap_remove(0))
    }

    fn store_of<'a>(&'a self, resource: &'a ResourceInfo, user_agent: &'a Arc<str>) -> Store<'a> {
        let writer = Writer {
            field_manager: USER_AGENT,
            user_agent: USER_AGENT,
            subresource: "",
        };
        Store::of_server(&self.core, resource, user_agent, writer)
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

/// Whether an object is there already: a server makes objects of its own, whose uids and times are not those of another's.
/// The holders of leases are the programs that run now.
fn is_same(present: &Value, object: &Value) -> bool {
    if object["kind"] == "Lease" || [present, object].into_iter().all(is_servers_own) {
        return true;
    }
    const OWN: [&str; 5] = [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "managedFields",
    ];
    let is_one = present["metadata"]["uid"] == object["metadata"]["uid"];
    let [present, object] = [present, object].map(|object| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|field, _| !OWN.contains(&field.as_str()));
        }
        if !is_one && let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        object
    });
    present == object
}

/// Whether only the components of a control plane have written an object: it is about that cluster, such as its authority.
fn is_servers_own(object: &Value) -> bool {
    const MANAGERS: [&str; 2] = ["kube-apiserver", "root-ca-cert-publisher"];
    let managers = object["metadata"]["managedFields"].as_array();
    managers.is_some_and(|managers| {
        let mut managers = managers.iter();
        managers.len() > 0
            && managers.all(|entry| MANAGERS.iter().any(|known| entry["manager"] == *known))
    })
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
