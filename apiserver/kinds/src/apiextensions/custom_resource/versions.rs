//! The versions of a custom resource: their schemas, and objects from one into the other.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::conversion::Conversion;
use super::typed;
use crate::cel::Validator;
use crate::json::Value;
use crate::meta::{GroupVersion, ResourceVersion};
use crate::nesting;
use crate::schema::Object;
use crate::schema::structural::Structural;

/// The schemas of all versions of a definition, compiled when they are first needed.
#[derive(Debug)]
pub struct Versions {
    group: String,
    /// Uid and generation of the definition: at the same ones it declares the same.
    declared: (Value, Value),
    /// The version that objects are stored in.
    pub storage: String,
    /// The latest `resourceVersion` assigned before these schemas came into force: later objects
    /// were written with these schemas.
    since: ResourceVersion,
    schemas: BTreeMap<String, VersionSchema>,
    /// The webhook that converts, where the strategy is that.
    pub conversion: Option<Conversion>,
}

/// The schema of a version.
#[derive(Debug)]
pub struct VersionSchema {
    kind: String,
    /// As text, which takes a tenth of the memory: most schemas are never compiled.
    source: Arc<str>,
    structural: OnceLock<Structural>,
    typed: OnceLock<Arc<Object>>,
    rules: OnceLock<Option<Validator>>,
}

impl VersionSchema {
    /// The schema as the definition has it, in JSON.
    pub(crate) fn source(&self) -> &Arc<str> {
        &self.source
    }

    /// The schema, compiled.
    pub fn structural(&self) -> &Structural {
        self.structural.get_or_init(|| {
            let source = nesting::from_slice(self.source.as_bytes());
            Structural::parse(&source.expect("what was written as JSON is JSON"))
        })
    }

    /// Whether a stored object lacks a status that has a default. A write drops the status that
    /// it brings, and reading the object fills the default in.
    fn defaults_status_of(&self, stored: &Value) -> bool {
        stored.get("status").is_none() && self.structural().has_default("status")
    }

    /// The rules of the schema, if it has any.
    pub(crate) fn rules(&self) -> Option<&Validator> {
        let rules = self.rules.get_or_init(|| Validator::new(self.structural()));
        rules.as_ref()
    }

    /// The schema as field management sees it.
    pub(crate) fn typed(&self) -> &Arc<Object> {
        self.typed
            .get_or_init(|| typed::of_kind(&self.kind, self.structural()))
    }
}

impl Versions {
    /// Returns the versions of `definition`, in force for objects stored after `since`. Unchanged
    /// schemas are shared with `held`.
    pub fn new(definition: &Value, held: Option<&Self>, since: ResourceVersion) -> Self {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let versions = || spec["versions"].as_array().into_iter().flatten();
        let metadata = &definition["metadata"];
        let declared = (metadata["uid"].clone(), metadata["generation"].clone());
        let unchanged = held.filter(|held| held.declared == declared);
        let source = |version: &Value| {
            let name = version["name"].as_str().unwrap_or_default();
            let held = unchanged.and_then(|held| held.schemas.get(name));
            held.map_or_else(
                || version["schema"]["openAPIV3Schema"].to_string().into(),
                |held| Arc::clone(&held.source),
            )
        };
        let schema = |version: &Value| VersionSchema {
            kind: text(&spec["names"]["kind"]),
            source: source(version),
            structural: OnceLock::new(),
            typed: OnceLock::new(),
            rules: OnceLock::new(),
        };
        let stored = versions().find(|version| version["storage"] == true);
        Self {
            group: text(&spec["group"]),
            declared,
            storage: stored
                .map(|version| text(&version["name"]))
                .unwrap_or_default(),
            conversion: Conversion::of(spec),
            since,
            schemas: versions()
                .map(|version| (text(&version["name"]), schema(version)))
                .collect(),
        }
    }

    /// Whether the versions equal `other`, apart from the time they came into force.
    pub fn same_as(&self, other: &Self) -> bool {
        let same_conversion = match (&self.conversion, &other.conversion) {
            (None, None) => true,
            (Some(own), Some(other)) => own.same_as(other),
            _ => false,
        };
        same_conversion
            && self.storage == other.storage
            && self.schemas.len() == other.schemas.len()
            && self.schemas.iter().zip(&other.schemas).all(|(own, other)| {
                own.0 == other.0 && own.1.source == other.1.source && own.1.kind == other.1.kind
            })
    }

    /// The schema of `version`, which must be one of them.
    pub fn schema(&self, version: &str) -> &VersionSchema {
        let found = self.schemas.get(version);
        found.expect("a served version is one of the definition's")
    }

    /// A stored object as requests for `version` see it: pruned and defaulted by the schema of the
    /// version that it is stored in, and converted.
    pub fn shown<'a>(&self, version: &str, stored: &'a Value) -> Cow<'a, Value> {
        let rv = stored["metadata"]["resourceVersion"].as_str();
        let rv = rv.and_then(|rv| rv.parse::<ResourceVersion>().ok());
        let from = self.version_of(stored);
        if self.schemas.len() == 1
            && from == version
            && rv.is_some_and(|rv| rv > self.since)
            && !self.schema(version).defaults_status_of(stored)
        {
            return Cow::Borrowed(stored);
        }
        if from != version
            && let Some(conversion) = &self.conversion
            && let Some(converted) = conversion.find(stored, version)
        {
            return Cow::Owned(self.coerced((*converted).clone(), version));
        }
        let mut object = stored.clone();
        if let Some(schema) = self.schemas.get(from) {
            schema.structural().prune(&mut object);
            schema.structural().prune_nulls(&mut object);
            schema.structural().fill_defaults(&mut object);
        }
        if from != version {
            self.convert(&mut object, version);
        }
        Cow::Owned(object)
    }

    /// Returns the stored form of an object of any version.
    pub fn stored(&self, mut object: Value) -> Value {
        if self.version_of(&object) != self.storage {
            self.convert(&mut object, &self.storage);
        }
        object
    }

    /// Prunes and defaults an object that a webhook returned, by the schema of `version`.
    pub fn coerced(&self, mut object: Value, version: &str) -> Value {
        let schema = self.schema(version).structural();
        schema.prune(&mut object);
        schema.prune_nulls(&mut object);
        schema.fill_defaults(&mut object);
        object
    }

    /// Returns the version in the `apiVersion` of `object`, or an empty string for another group.
    pub fn version_of<'v>(&self, object: &'v Value) -> &'v str {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let version = api_version.strip_prefix(self.group.as_str());
        version
            .and_then(|rest| rest.strip_prefix('/'))
            .unwrap_or_default()
    }

    /// Converts by the strategy `None`: versions differ only in the fields that their schemas
    /// prune.
    fn convert(&self, object: &mut Value, version: &str) {
        let to = GroupVersion {
            group: self.group.clone(),
            version: version.to_owned(),
        };
        object["apiVersion"] = to.to_string().into();
        let schema = self.schema(version).structural();
        schema.prune(object);
        schema.prune_nulls(object);
    }
}
