//! The class of ingresses that name none.

use super::all_of;
use super::storage::newest_default;
use crate::admission::State;
use crate::json::Value;
use crate::meta::object::{child_mut, name};

const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
const ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Gives a new ingress that names no class the default one: of several the newest.
pub(super) fn default_class(state: &State, ingress: &mut Value) {
    let annotated = !ingress["metadata"]["annotations"][ANNOTATION].is_null();
    if annotated || !ingress["spec"]["ingressClassName"].is_null() {
        return;
    }
    let classes = all_of(state, "networking.k8s.io", "ingressclasses");
    if let Some(class) = newest_default(&classes, &[IS_DEFAULT]) {
        let spec = child_mut(ingress, "spec");
        spec.insert("ingressClassName", name(class).into());
    }
}
