//! Duplicate owner references: they are dropped, and the client is warned.

use std::collections::BTreeSet;

use super::Request;
use crate::json::Value;
use crate::meta::order::Ordered;
use crate::request::Verb;

/// Drops owner references that repeat an earlier one. Upstream looks at those of a patch late,
/// and says so.
pub(super) fn dedup(request: &Request<'_>, object: &mut Value) {
    let references = object.pointer_mut("/metadata/ownerReferences");
    let Some(all) = references.and_then(Value::as_array_mut) else {
        return;
    };
    let mut seen = BTreeSet::new();
    let is_first: Vec<bool> = all.iter().map(|own| seen.insert(Ordered(own))).collect();
    let mut repeated: Vec<String> = Vec::new();
    let mut is_first = is_first.into_iter();
    all.retain(|reference| {
        let is_kept = is_first.next().unwrap_or(true);
        if !is_kept {
            repeated.push(reference["uid"].as_str().unwrap_or_default().to_owned());
        }
        is_kept
    });
    if !repeated.is_empty() {
        let when = match request.info.verb {
            Some(Verb::Patch) => " after mutating admission happens",
            _ => "",
        };
        request.warn(format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            repeated.join(", ")
        ));
    }
}
