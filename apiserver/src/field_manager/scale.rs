//! The owners of `spec.replicas`, seen through the scale subresource.

use serde_json::Value;

use super::managers::{Entry, Fields, Managers};
use super::set::FieldSet;

const SCALE_VERSION: &str = "autoscaling/v1";

/// Where both a Scale and the objects that have one keep their replicas.
fn replicas() -> FieldSet {
    FieldSet::of(&[&["spec", "replicas"]])
}

fn owns_replicas(entry: &mut Entry) -> bool {
    let replicas = replicas();
    entry.fields.set().intersection(&replicas) == replicas
}

/// The owners of an object's replicas, as `metadata.managedFields` of its Scale.
///
/// # Errors
/// What is wrong with the entries of the object.
pub(crate) fn to_scale(parent: &Value) -> Result<Option<Value>, String> {
    let mut managers = Managers::decode(parent)?;
    managers.0.retain(|_, entry| owns_replicas(entry));
    for entry in managers.0.values_mut() {
        entry.fields = Fields::Set(replicas());
        SCALE_VERSION.clone_into(&mut entry.api_version);
    }
    Ok(managers.encode())
}

/// The owners of an object's fields after its Scale was written.
///
/// `api_version` is that of the object. A new owner has no time.
///
/// # Errors
/// What is wrong with the entries.
pub(crate) fn to_parent(
    parent: &Value,
    scale: &Value,
    api_version: &str,
) -> Result<Option<Value>, String> {
    let mut managers = Managers::decode(parent)?;
    let mut owners = Managers::decode(scale)?;
    // An updater is known by its version, which is another one over there: even one that kept the
    // replicas gets a second entry for them, as upstream.
    for (id, entry) in &mut managers.0 {
        if owns_replicas(entry) && owners.0.remove(id).is_none() {
            entry.fields.subtract(&replicas());
        }
    }
    managers.drop_empty();
    for (id, mut entry) in owners.0 {
        if owns_replicas(&mut entry) {
            let entry = Entry {
                fields: Fields::Set(replicas()),
                api_version: api_version.to_owned(),
                time: None,
            };
            managers.0.insert(id, entry);
        }
    }
    Ok(managers.encode())
}
