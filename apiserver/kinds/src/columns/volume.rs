//! Cells that volumes, claims and classes share.

use super::Printable;
use crate::json::{Value, json};

const CLASS_ANNOTATION: &str = "/metadata/annotations/volume.beta.kubernetes.io~1storage-class";

/// The text of a field that may be absent; an empty field is shown as empty.
pub(crate) fn scalar_or_unset(view: Printable<'_>, pointer: &str) -> Value {
    json!(view.scalar(pointer).unwrap_or_else(|| "<unset>".to_owned()))
}

/// Returns `Terminating` for a deleted object, else `status.phase`.
pub fn phase(view: Printable<'_>) -> &str {
    if view.is_terminating() {
        "Terminating"
    } else {
        view.str("/status/phase")
    }
}

/// The annotation that came before the field still wins over it, even an empty one.
pub fn class(view: Printable<'_>) -> &str {
    match view.get(CLASS_ANNOTATION) {
        Some(_) => view.str(CLASS_ANNOTATION),
        None => view.str("/spec/storageClassName"),
    }
}

pub(crate) fn access_modes(view: Printable<'_>, pointer: &str) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let modes = view.strs(pointer);
    let has = SHORT.into_iter().filter(|(mode, _)| modes.contains(mode));
    has.map(|(_, short)| short).collect::<Vec<_>>().join(",")
}

/// The name of a class, and whether one of `annotations` makes it the default.
pub(crate) fn named_default(view: Printable<'_>, annotations: &[&str]) -> Value {
    let name = view.str("/metadata/name");
    let is_default = annotations.iter().any(|path| view.str(path) == "true");
    json!(format!(
        "{name}{}",
        if is_default { " (default)" } else { "" }
    ))
}
