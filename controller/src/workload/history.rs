//! Controller revisions: their data, hash, name and order, which one a set is at, which may go.
//!
//! Bytes, hash and names are those of upstream's controllers, so that a set that changes hands
//! between them and us keeps its revisions and its pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Value, json};

/// The label that holds a revision's hash.
pub(crate) const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// How much of the owner's name a revision's name can hold.
const NAME_PREFIX_MAX: usize = 223;
/// No vowels and no look-alikes, so that a hash is neither a word nor misread.
pub(crate) const SAFE_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The data of a revision that records only the pod template, given as the server returned it.
#[must_use]
pub(crate) fn template_data(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(fields) = template.as_object_mut() {
        fields.insert("$patch".to_owned(), Value::from("replace"));
    }
    let mut data = json!({ "spec": { "template": template } });
    drop_null_creation_timestamp(&mut data);
    data
}

/// Returns the data of a revision as controllers before 1.34 wrote it.
#[must_use]
pub(crate) fn legacy_template_data(template: &Value) -> Value {
    let mut data = template_data(template);
    let fields = data
        .pointer_mut("/spec/template")
        .and_then(Value::as_object_mut);
    if let Some(fields) = fields {
        let meta = fields.entry("metadata").or_insert_with(|| json!({}));
        meta["creationTimestamp"] = Value::Null;
    }
    data
}

/// The pod template that a revision's data holds, without the patch directive.
#[must_use]
pub(crate) fn template_of(revision: &ControllerRevision) -> Option<Value> {
    let mut template = data_of(revision).pointer("/spec/template")?.clone();
    template.as_object_mut()?.remove("$patch");
    Some(template)
}

fn data_of(revision: &ControllerRevision) -> &Value {
    revision.data.as_ref().map_or(&Value::Null, |data| &data.0)
}

/// Writers before 1.34 spelled the absent timestamp out.
fn drop_null_creation_timestamp(data: &mut Value) {
    if let Some(meta) = data
        .pointer_mut("/spec/template/metadata")
        .and_then(Value::as_object_mut)
        && meta.get("creationTimestamp") == Some(&Value::Null)
    {
        meta.remove("creationTimestamp");
    }
}

/// `value` in the bytes of Go's encoder: keys sorted, no spaces, HTML characters escaped.
///
/// The characters that need escaping occur only within strings, so the text can be edited whole.
#[must_use]
pub(crate) fn go_json(value: &Value) -> String {
    let mut out = String::new();
    for character in value.to_string().chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => out.push(character),
        }
    }
    out
}

/// The hash of `data` after `collision_count` name collisions.
#[must_use]
pub(crate) fn hash(data: &Value, collision_count: i32) -> String {
    let input = format!("{}{collision_count}", go_json(data));
    safe_encode(&fnv1(input.as_bytes()).to_string())
}

/// 32-bit FNV-1, which multiplies before it xors.
fn fnv1(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash: u32, byte| {
        hash.wrapping_mul(0x0100_0193) ^ u32::from(*byte)
    })
}

/// `text` in characters that spell no words.
pub(crate) fn safe_encode(text: &str) -> String {
    text.bytes()
        .map(|byte| char::from(SAFE_ALPHABET[usize::from(byte) % SAFE_ALPHABET.len()]))
        .collect()
}

/// The name of `owner`'s revision with `hash`.
#[must_use]
pub(crate) fn revision_name(owner: &str, hash: &str) -> String {
    let prefix: String = owner.chars().take(NAME_PREFIX_MAX).collect();
    format!("{prefix}-{hash}")
}

/// The input of a new revision.
pub(crate) struct Proposal<'a> {
    /// Metadata of the set: its name, namespace and annotations go into the revision.
    pub(crate) owner: &'a ObjectMeta,
    /// The reference to the set.
    pub(crate) owner_ref: OwnerReference,
    /// The pod template's labels.
    pub(crate) template_labels: BTreeMap<String, String>,
    /// Annotations of the revision in addition to the set's; a revision that is used again takes
    /// these anew.
    pub(crate) own_annotations: BTreeMap<String, String>,
    /// The revision's data.
    pub(crate) data: &'a Value,
    /// The revision's number.
    pub(crate) revision: i64,
    /// Name collisions so far.
    pub(crate) collision_count: i32,
}

impl Proposal<'_> {
    /// The revision as it would be created now.
    #[must_use]
    pub(crate) fn build(&self) -> ControllerRevision {
        let hash = hash(self.data, self.collision_count);
        let mut labels = self.template_labels.clone();
        let name = revision_name(self.owner.name.as_deref().unwrap_or_default(), &hash);
        labels.insert(HASH_LABEL.to_owned(), hash);
        let mut annotations = self.owner.annotations.clone();
        if !self.own_annotations.is_empty() {
            let all = annotations.get_or_insert_default();
            all.extend(self.own_annotations.clone());
        }
        ControllerRevision {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: self.owner.namespace.clone(),
                labels: Some(labels),
                annotations,
                owner_references: Some(vec![self.owner_ref.clone()]),
                ..ObjectMeta::default()
            },
            data: Some(RawExtension(self.data.clone())),
            revision: self.revision,
        }
    }
}

/// Sorts by number, then age, then name.
pub(crate) fn sort(revisions: &mut [Arc<ControllerRevision>]) {
    revisions.sort_by(|a, b| {
        let age = |revision: &Arc<ControllerRevision>| {
            revision
                .metadata
                .creation_timestamp
                .as_ref()
                .map(|time| time.0)
        };
        (a.revision, age(a), &a.metadata.name).cmp(&(b.revision, age(b), &b.metadata.name))
    });
}

/// The number after the newest of sorted `revisions`.
#[must_use]
pub(crate) fn next_number(revisions: &[Arc<ControllerRevision>]) -> i64 {
    revisions.last().map_or(1, |newest| newest.revision + 1)
}

/// How a set gets its update revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The newest revision, at this index, fits.
    Reuse(usize),
    /// An older revision, at this index, fits; it becomes the newest.
    Rollback(usize),
    /// No revision fits.
    Create,
}

/// Chooses among sorted `revisions` the one with `data`.
#[must_use]
pub(crate) fn choose(revisions: &[Arc<ControllerRevision>], data: &Value) -> Choice {
    let Some(newest) = revisions.len().checked_sub(1) else {
        return Choice::Create;
    };
    match revisions
        .iter()
        .rposition(|revision| data_of(revision) == data)
    {
        Some(index) if index == newest => Choice::Reuse(newest),
        Some(index) => Choice::Rollback(index),
        None if means(&revisions[newest], data) => Choice::Reuse(newest),
        None => Choice::Create,
    }
}

/// Whether `revision`, written by another version of the controller, stands for `data`.
fn means(revision: &ControllerRevision, data: &Value) -> bool {
    let mut recorded = data_of(revision).clone();
    drop_null_creation_timestamp(&mut recorded);
    recorded == *data
}

/// Whether two revisions record the same.
#[must_use]
pub(crate) fn is_equal(a: &ControllerRevision, b: &ControllerRevision) -> bool {
    data_of(a) == data_of(b)
}

/// Names of the oldest of sorted `revisions` beyond `limit`, not counting `live` ones.
///
/// A negative limit keeps all.
#[must_use]
pub(crate) fn to_truncate(
    revisions: &[Arc<ControllerRevision>],
    live: &BTreeSet<String>,
    limit: i32,
) -> Vec<String> {
    let names = revisions
        .iter()
        .filter_map(|revision| revision.metadata.name.clone());
    let history: Vec<String> = names.filter(|name| !live.contains(name)).collect();
    let Ok(limit) = usize::try_from(limit) else {
        return Vec::new();
    };
    let excess = history.len().saturating_sub(limit);
    history.into_iter().take(excess).collect()
}

#[cfg(test)]
mod tests;
