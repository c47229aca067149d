//! Objects that a testbed is given, at its start and later.

use jiff::Timestamp;
use kubeproof_apiserver::{ApiServer, FieldValidation, LoadError, Manifest, Manifests};
use kubeproof_machinery::json::Value;

use super::{Testbed, TestbedError};
use crate::api::Api;
use crate::user_agent;

impl Testbed {
    /// Applies the objects of a YAML text, in order, as `kubectl apply --server-side
    /// --force-conflicts` does, with the field manager `test`. Unknown and duplicate fields are refused
    /// unless [`field_validation`](super::TestbedBuilder::field_validation) says otherwise.
    ///
    /// # Errors
    /// [`TestbedError`] for a text that is not YAML or holds no object, and as the server answers.
    pub async fn apply(&self, yaml: &str) -> Result<(), TestbedError> {
        self.apply_manifests(Manifests::new().yaml(yaml)?).await
    }

    /// Applies manifests as [`Testbed::apply`] does, such as those of a file.
    ///
    /// # Errors
    /// [`TestbedError`] if the manifests hold no object, and the errors of the server.
    pub async fn apply_manifests(&self, manifests: Manifests) -> Result<(), TestbedError> {
        let field_validation = self.cluster().options.field_validation;
        let api = self.api.clone().signed(user_agent::TEST);
        let api = api.with_field_validation(field_validation);
        let mut is_empty = true;
        for manifest in manifests {
            is_empty = false;
            apply(&api, &manifest, field_validation).await?;
        }
        match is_empty {
            true => Err(TestbedError::NothingToApply),
            false => Ok(()),
        }
    }
}

impl Testbed {
    /// Stores live objects as they were in their cluster. The clock is set to the last time that they tell.
    ///
    /// # Errors
    /// [`TestbedError::Load`] for the first that cannot be stored.
    pub(crate) async fn restore(&self, objects: Vec<Value>) -> Result<(), TestbedError> {
        let server = &self.cluster().server;
        let last = objects.iter().filter_map(last_time).max();
        let ahead = last.map(|last| last.duration_since(self.now()));
        if let Some(ahead) = ahead.filter(|ahead| ahead.is_positive()) {
            server.jump(ahead);
        }
        let manifests = objects.into_iter().map(Manifest::from).collect();
        let unstored = server.load_live(manifests).await?;
        warn(unstored.fields);
        match unstored.objects.into_iter().next() {
            Some(object) => Err(LoadError::UnknownKind { object }.into()),
            None => Ok(()),
        }
    }
}

/// The last time in an object at which something has happened.
fn last_time(value: &Value) -> Option<Timestamp> {
    match value {
        Value::Object(fields) => {
            let times = fields.iter().filter_map(|(name, value)| {
                let is_past = name != "deletionTimestamp";
                let is_time = ["Time", "Timestamp", "time"]
                    .iter()
                    .any(|end| name.ends_with(end));
                match value.as_str() {
                    Some(text) if is_time && is_past => text.parse().ok(),
                    Some(_) => None,
                    None => last_time(value),
                }
            });
            times.max()
        }
        Value::Array(items) => items.iter().filter_map(last_time).max(),
        _ => None,
    }
}

/// Creates the objects that a testbed begins with.
///
/// # Errors
/// [`TestbedError::Load`] for the first that cannot be created.
pub(super) async fn load(
    server: &ApiServer,
    manifests: Manifests,
    field_validation: FieldValidation,
) -> Result<(), TestbedError> {
    let mut loader = server.loader().field_validation(field_validation);
    for manifest in manifests {
        loader.create(manifest).await?;
    }
    warn(loader.finish().await?);
    Ok(())
}

/// Applies one object with the field manager of tests.
///
/// # Errors
/// [`TestbedError::Apply`]
pub(super) async fn apply(
    api: &Api,
    manifest: &Manifest,
    field_validation: FieldValidation,
) -> Result<(), TestbedError> {
    let object = &manifest.object;
    let text = |pointer| object.pointer(pointer).and_then(|value| value.as_str());
    let [api_version, kind, name] = ["/apiVersion", "/kind", "/metadata/name"].map(text);
    let file = manifest.file.as_deref();
    let place = file.map_or_else(String::new, |file| format!("{}: ", file.display()));
    let words = format!(
        "{} {} {}",
        api_version.unwrap_or_default(),
        kind.unwrap_or_default(),
        name.unwrap_or("without a name"),
    );
    let duplicates = manifest.duplicates.join(", ");
    if field_validation == FieldValidation::Strict && !duplicates.is_empty() {
        return Err(TestbedError::DuplicateFields {
            object: format!("{place}{words}"),
            duplicates,
        });
    }
    let applied = api.server_side_apply(object, user_agent::TEST).await;
    applied.map_err(|source| TestbedError::Apply {
        object: format!("{place}{words}"),
        source: Box::new(source),
    })?;
    let warnings = api.take_warnings().into_iter();
    warn(warnings.map(|warning| format!("{place}{words}: {warning}")));
    if field_validation == FieldValidation::Warn {
        let duplicates = manifest.duplicates.iter();
        warn(duplicates.map(|one| format!("{place}{words}: {one}")));
    }
    Ok(())
}

/// Prints warnings to standard error, as kubectl does.
fn warn(warnings: impl IntoIterator<Item = String>) {
    for warning in warnings {
        eprintln!("Warning: {warning}");
    }
}
