//! What storage classes decide for claims.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{all_of, forbidden};
use crate::admission::State;
use crate::json::Value;
use crate::meta::object::{child_mut, meta, name};
use crate::schema::quantity::Quantity;
use crate::status::ApiError;

const GROUP: &str = "storage.k8s.io";
const CLASSES: &str = "storageclasses";
const IS_DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// Gives a new claim that names no class the default one: of several the newest.
pub(super) fn default_class(state: &State, claim: &mut Value) {
    let annotation = "volume.beta.kubernetes.io/storage-class";
    let annotated = !claim["metadata"]["annotations"][annotation].is_null();
    if annotated || !claim["spec"]["storageClassName"].is_null() {
        return;
    }
    let classes = all_of(state, GROUP, CLASSES);
    if let Some(class) = newest_default(&classes, &IS_DEFAULT) {
        let spec = child_mut(claim, "spec");
        spec.insert("storageClassName", name(class).into());
    }
}

/// Of the classes that an annotation says are the default, the newest.
pub(super) fn newest_default<'c>(
    classes: &'c [Arc<Value>],
    is_default: &[&str],
) -> Option<&'c Value> {
    let annotated = |class: &&Arc<Value>| {
        let annotations = &class["metadata"]["annotations"];
        is_default.iter().any(|own| annotations[*own] == "true")
    };
    let newest = classes.iter().filter(annotated).max_by(|one, other| {
        let created = |class: &Value| meta(class, "creationTimestamp").to_owned();
        let newer = created(one).cmp(&created(other));
        newer.then_with(|| name(other).cmp(name(one)))
    });
    newest.map(|class| &**class)
}

/// A bound claim grows only if its class lets volumes grow.
///
/// # Errors
/// `Forbidden` otherwise.
pub(super) fn admit_growth(state: &State, new: &Value, old: &Value) -> Result<(), ApiError> {
    let request = |claim: &Value| {
        let own = claim["spec"]["resources"]["requests"]["storage"].as_str();
        own.and_then(|own| Quantity::parse(own).ok())
    };
    let (Some(now), Some(before)) = (request(new), request(old)) else {
        return Ok(());
    };
    let bound = old["status"]["phase"] == "Bound";
    if !bound || now.compare(&before) != Ordering::Greater {
        return Ok(());
    }
    let class = old["spec"]["storageClassName"].as_str().unwrap_or_default();
    let grows = |own: &Value| name(own) == class && own["allowVolumeExpansion"] == true;
    let classes = all_of(state, GROUP, CLASSES);
    if classes.iter().any(|own| grows(own)) {
        return Ok(());
    }
    let message = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
    let claims = "persistentvolumeclaims";
    Err(forbidden("", claims, name(new), message.to_owned()))
}
