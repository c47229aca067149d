//! At which revision a pod is.

use std::collections::BTreeMap;

use kubeproof_runtime::pod::{self, Pod};

use super::Gates;
use super::lifecycle::{self, State};

/// The label with the hash alone.
const TEMPLATE_HASH_LABEL: &str = "pod-template-hash";

/// Returns the part of a revision's name after the last dash.
#[must_use]
pub(crate) fn short_hash(name: &str) -> &str {
    name.rsplit('-').next().unwrap_or_default()
}

/// Whether the pod is labeled with the revision, by name or by hash.
#[must_use]
pub(crate) fn is_at(pod: &Pod, revision: &str) -> bool {
    let label = pod::revision(pod);
    label == revision || short_hash(label) == short_hash(revision)
}

/// Whether the pod counts as updated to `revision` where pods are counted or put in order: with the
/// gate `PreparingUpdateAsUpdate` those that are prepared for their update do.
#[must_use]
pub(crate) fn counts_as_updated(pod: &Pod, revision: &str, gates: Gates) -> bool {
    let is_prepared =
        gates.preparing_update_as_update && lifecycle::state(pod) == Some(State::PreparingUpdate);
    is_prepared || is_at(pod, revision)
}

/// The labels that put a pod of a CloneSet at `revision`; with the gate `CloneSetShortHash` both are
/// the hash.
#[must_use]
pub(crate) fn labels(revision: &str, gates: Gates) -> BTreeMap<String, String> {
    let hash = short_hash(revision).to_owned();
    let revision = match gates.short_hash {
        true => hash.clone(),
        false => revision.to_owned(),
    };
    BTreeMap::from([
        (pod::REVISION_LABEL.to_owned(), revision),
        (TEMPLATE_HASH_LABEL.to_owned(), hash),
    ])
}
