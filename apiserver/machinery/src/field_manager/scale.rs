//! The owners of the replicas, seen through the scale subresource.

use super::managers::{Entry, Fields, Managers};
use super::set::FieldSet;
use crate::json::Value;

const SCALE_VERSION: &str = "autoscaling/v1";

/// Where a Scale, and all built-in objects that have one, keep their replicas.
pub const REPLICAS: [&str; 2] = ["spec", "replicas"];

fn owns(entry: &mut Entry, replicas: &FieldSet) -> bool {
    entry.fields.set().intersection(replicas) == *replicas
}

/// The owners of an object's replicas, which are at `path`, as `metadata.managedFields` of its
/// Scale.
///
/// # Errors
/// Describes the first malformed entry of the object.
pub fn to_scale(parent: &Value, path: &[&str]) -> Result<Option<Value>, String> {
    let (own, scale) = (FieldSet::of(&[path]), FieldSet::of(&[&REPLICAS]));
    let mut managers = Managers::decode(parent)?;
    managers.0.retain(|_, entry| owns(entry, &own));
    for entry in managers.0.values_mut() {
        entry.fields = Fields::Set(scale.clone());
        SCALE_VERSION.clone_into(&mut entry.api_version);
    }
    Ok(managers.encode())
}

/// The owners of an object's fields after its Scale was written.
///
/// `api_version` is that of the object, `path` where it has its replicas. A new owner has no time.
///
/// # Errors
/// Describes the first malformed entry of the object or its Scale.
pub fn to_parent(
    parent: &Value,
    scale: &Value,
    api_version: &str,
    path: &[&str],
) -> Result<Option<Value>, String> {
    let (own, replicas) = (FieldSet::of(&[path]), FieldSet::of(&[&REPLICAS]));
    let mut managers = Managers::decode(parent)?;
    let mut owners = Managers::decode(scale)?;
    // An updater is known by its version, which is another one over there: even one that kept the
    // replicas gets a second entry for them, as upstream.
    for (id, entry) in &mut managers.0 {
        if owns(entry, &own) && owners.0.remove(id).is_none() {
            entry.fields.subtract(&own);
        }
    }
    managers.drop_empty();
    for (id, mut entry) in owners.0 {
        if owns(&mut entry, &replicas) {
            let entry = Entry {
                fields: Fields::Set(own.clone()),
                api_version: api_version.to_owned(),
                time: None,
            };
            managers.0.insert(id, entry);
        }
    }
    Ok(managers.encode())
}
