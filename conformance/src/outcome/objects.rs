//! The objects of programs at the end of a run, by field.
//!
//! The outcome of a transcript shows workloads and pods. What a program brings about may be of any kind, so all that it has
//! written is compared, and all custom resources. Fields that two runs without faults do not agree on are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use jiff::Timestamp;
use kubeproof_apiserver::{EventType, JournalEntry};
use kubeproof_machinery::json::Value;
use regex::{Captures, Regex};

use super::facts::{Facts, Object, PRESENCE};
use crate::generated::GeneratedNames;
use crate::user_agent::actor;

/// Fields of `metadata` that say nothing about what an object is for.
const METADATA: [&str; 7] = [
    "creationTimestamp",
    "generateName",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
];
/// Fields that follow `metadata.generation`, which counts tries.
const OBSERVED: &str = "observedGeneration";
/// The number of objects of a kind whose names no two runs agree on.
const COUNT: &str = "count";
/// The number of characters of a value that are shown.
const VALUE_SHOWN: usize = 160;
/// Resources whose objects are reports.
const REPORTS: [&str; 3] = [
    "events",
    "events.events.k8s.io",
    "leases.coordination.k8s.io",
];

/// A uid within a text.
static UID: LazyLock<Regex> = LazyLock::new(|| {
    let groups = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
    Regex::new(groups).expect("a regex")
});

/// Names and uids that are others in each run.
#[derive(Default)]
struct Identities {
    generated: GeneratedNames,
    /// The objects of a run by uid, as `configmap/a`.
    uids: BTreeMap<String, String>,
}

impl Identities {
    fn of(journal: &[JournalEntry]) -> Self {
        let uids = journal.iter().filter_map(|entry| {
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let metadata = &entry.object["metadata"];
            let kind = text(&entry.object["kind"])?.to_lowercase();
            let name = text(&metadata["name"])?;
            Some((text(&metadata["uid"])?, format!("{kind}/{name}")))
        });
        Self {
            generated: GeneratedNames::of(journal),
            uids: uids.collect(),
        }
    }

    /// The text with objects instead of their uids, and without generated names.
    fn mask(&self, text: &str) -> String {
        let named = UID.replace_all(text, |found: &Captures<'_>| {
            let uid = &found[0];
            match self.uids.get(uid) {
                Some(object) => format!("<uid of {object}>"),
                None => uid.to_owned(),
            }
        });
        self.generated.mask(&named)
    }
}

/// What runs without faults do not agree on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unstable {
    fields: BTreeSet<(Object, String)>,
    /// Kinds of which objects have other names in each run.
    kinds: BTreeSet<String>,
    /// The names of objects that both runs have; `None` if neither has others.
    stable_names: Option<BTreeSet<String>>,
}

/// The names of all objects of a run.
pub(crate) fn object_names(journal: &[JournalEntry]) -> BTreeSet<String> {
    let names = journal
        .iter()
        .filter_map(|entry| entry.object["metadata"]["name"].as_str());
    names.map(str::to_owned).collect()
}

impl Unstable {
    /// Returns the fields in which two runs without faults differ.
    pub(crate) fn between(one: &Facts, other: &Facts) -> Self {
        let names = one.keys().chain(other.keys());
        let differing =
            names.filter(|object| !(one.contains_key(object) && other.contains_key(object)));
        let kinds: BTreeSet<String> = differing.map(|object| object.kind.clone()).collect();
        let shared = one
            .iter()
            .filter_map(|(object, fields)| Some((object, fields, other.get(object)?)));
        let fields = shared.flat_map(|(object, fields, others)| {
            let names = fields.keys().chain(others.keys());
            let differing = names.filter(move |name| fields.get(*name) != others.get(*name));
            differing.map(|name| (object.clone(), name.clone()))
        });
        Self {
            fields: fields.collect(),
            kinds,
            stable_names: None,
        }
    }

    /// It with the names of objects that are not in both `one` and `other`, the names of two runs without faults.
    pub(crate) fn with_names(self, one: &BTreeSet<String>, other: &BTreeSet<String>) -> Self {
        Self {
            stable_names: (one != other).then(|| one & other),
            ..self
        }
    }

    /// Whether an object of this name exists in the run whose objects have these `names`, and does not exist in other runs.
    /// A generated name may end with a star.
    pub(crate) fn is_own(&self, name: &str, names: &BTreeSet<String>) -> bool {
        let name = name.trim_end_matches('*').trim_end_matches('-');
        let stable = self.stable_names.as_ref();
        stable.is_some_and(|stable| names.contains(name) && !stable.contains(name))
    }

    /// A text of a run whose objects have these `names`, with stars for those that other runs do not have.
    pub(crate) fn mask(&self, text: &str, names: &BTreeSet<String>) -> String {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.');
        let mut masked = String::new();
        for part in text.split_inclusive(|letter| !is_part(letter)) {
            let word = part.trim_end_matches(|letter| !is_part(letter));
            match self.is_own(word, names) {
                true => masked.push_str(&format!("*{}", &part[word.len()..])),
                false => masked.push_str(part),
            }
        }
        masked
    }

    /// Returns `facts` without what is unstable. Objects of unstable kinds are counted.
    pub(crate) fn without(&self, facts: &Facts) -> Facts {
        let mut stable = Facts::new();
        for (object, fields) in facts {
            let fields = fields
                .iter()
                .filter(|(name, _)| !self.fields.contains(&(object.clone(), (*name).clone())));
            if !self.kinds.contains(&object.kind) {
                let fields = fields.map(|(name, value)| (name.clone(), value.clone()));
                stable.insert(object.clone(), fields.collect());
                continue;
            }
            let counted: &mut BTreeMap<_, _> =
                stable.entry(Object::named(&object.kind, "*")).or_default();
            let count = counted
                .entry(COUNT.to_owned())
                .or_insert_with(|| "0".to_owned());
            *count = (count.parse().unwrap_or(0_usize) + 1).to_string();
        }
        stable
    }
}

/// Returns the fields of the present objects that a program has written, and of all custom resources. `others` are the user
/// agents of this process; objects in `namespace` are named without it.
pub(crate) fn program_objects(
    journal: &[JournalEntry],
    others: &BTreeSet<&str>,
    namespace: &str,
) -> Facts {
    let mut present = BTreeMap::new();
    let (mut written, mut custom) = (BTreeSet::new(), BTreeSet::new());
    for entry in journal {
        let metadata = &entry.object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        let resource = match entry.gvr.group.as_str() {
            "" => entry.gvr.resource.clone(),
            group => format!("{}.{group}", entry.gvr.resource),
        };
        if resource == "customresourcedefinitions.apiextensions.k8s.io" {
            custom.insert(text("name"));
        }
        let key = (resource, text("namespace"), text("name"));
        if !others.contains(actor(&entry.user_agent)) {
            written.insert(key.clone());
        }
        match entry.event {
            EventType::Deleted => present.remove(&key),
            EventType::Added | EventType::Modified => present.insert(key, &entry.object),
        };
    }
    let names = Identities::of(journal);
    let mut facts = Facts::new();
    for (key, object) in &present {
        let (resource, of, name) = key;
        let is_custom = custom.contains(resource);
        if REPORTS.contains(&resource.as_str()) || !(is_custom || written.contains(key)) {
            continue;
        }
        let name = match of.as_str() {
            "" => name.clone(),
            own if own == namespace => name.clone(),
            of => format!("{of}/{name}"),
        };
        let kind = object["kind"].as_str().unwrap_or(resource).to_lowercase();
        let mut fields = BTreeMap::from([(PRESENCE.to_owned(), "there".to_owned())]);
        for (name, value) in object.as_object().into_iter().flatten() {
            match name.as_str() {
                "apiVersion" | "kind" => {}
                "metadata" => metadata_fields(value, &names, &mut fields),
                // Others write the status of a built-in kind.
                "status" if !is_custom => {}
                _ => flatten(name, value, &names, &mut fields),
            }
        }
        facts.insert(Object::named(&kind, &names.mask(&name)), fields);
    }
    facts
}

fn metadata_fields(metadata: &Value, names: &Identities, fields: &mut BTreeMap<String, String>) {
    for (name, value) in metadata.as_object().into_iter().flatten() {
        match name.as_str() {
            name if METADATA.contains(&name) => {}
            "uid" | "deletionGracePeriodSeconds" => {}
            name => flatten(&format!("metadata.{name}"), value, names, fields),
        }
    }
}

/// Adds the leaves of `value`, each by its path.
fn flatten(path: &str, value: &Value, names: &Identities, fields: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(object) if !object.is_empty() => {
            for (name, value) in object.iter().filter(|(name, _)| *name != OBSERVED) {
                flatten(
                    &format!("{path}.{}", names.mask(name)),
                    value,
                    names,
                    fields,
                );
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                let key = ["name", "type", "key"]
                    .iter()
                    .find_map(|key| item[key].as_str());
                let key = key.map_or_else(|| index.to_string(), str::to_owned);
                flatten(
                    &format!("{path}[{}]", names.mask(&key)),
                    item,
                    names,
                    fields,
                );
            }
        }
        value => {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), stable_text);
            fields.insert(path.to_owned(), names.mask(&text));
        }
    }
}

/// A text without what differs in every run.
fn stable_text(text: &str) -> String {
    let is_uid = text.len() == 36
        && text.char_indices().all(|(index, letter)| match index {
            8 | 13 | 18 | 23 => letter == '-',
            _ => letter.is_ascii_hexdigit(),
        });
    match () {
        () if is_uid => "a uid".to_owned(),
        () if text.parse::<Timestamp>().is_ok() => "a time".to_owned(),
        () => text.to_owned(),
    }
}

/// A line for each field; long values are cut.
pub(crate) fn objects_in_words(facts: &Facts) -> String {
    let lines = facts.iter().flat_map(|(object, fields)| {
        let Object { kind, name, .. } = object;
        fields.iter().map(move |(field, value)| {
            let shown: String = value.chars().take(VALUE_SHOWN).collect();
            let rest = if shown.len() < value.len() { "…" } else { "" };
            format!(
                "{kind}/{name} {field}: {}{rest}\n",
                shown.replace('\n', " ")
            )
        })
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::*;

    fn facts(name: &str, fields: &[(&str, &str)]) -> Facts {
        let fields = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Facts::from([(Object::named("shop", name), fields.collect())])
    }

    #[test]
    fn fields_that_runs_without_faults_do_not_agree_on_are_left_out() {
        let one = facts("a", &[("spec.token", "1"), ("spec.size", "2")]);
        let other = facts("a", &[("spec.token", "3"), ("spec.size", "2")]);
        let unstable = Unstable::between(&one, &other);
        assert_eq!(unstable.without(&one), facts("a", &[("spec.size", "2")]));
        let wrong = facts("a", &[("spec.token", "4"), ("spec.size", "5")]);
        assert_eq!(unstable.without(&wrong), facts("a", &[("spec.size", "5")]));
    }

    #[test]
    fn objects_whose_names_runs_do_not_agree_on_are_counted() {
        let (one, other) = (facts("a-x", &[]), facts("a-y", &[]));
        let unstable = Unstable::between(&one, &other);
        let two: Facts = facts("a-z", &[])
            .into_iter()
            .chain(facts("a-w", &[]))
            .collect();
        assert_eq!(unstable.without(&one), facts("*", &[(COUNT, "1")]));
        assert_eq!(unstable.without(&two), facts("*", &[(COUNT, "2")]));
    }

    #[test]
    fn names_that_other_runs_do_not_have_are_masked_in_texts() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let one: BTreeSet<String> = names(&["a-x", "a-x-1", "b"]);
        let unstable = Unstable::default().with_names(&one, &names(&["a-y", "a-y-1", "b"]));
        let table = "NAME READY\na-x 1/1\nb 1/1\npod/a-x-1 a-x-1-*";
        let masked = "NAME READY\n* 1/1\nb 1/1\npod/* **";
        assert_eq!(unstable.mask(table, &one), masked);
        assert!(unstable.is_own("a-x", &one) && !unstable.is_own("b", &one));
        let stable = Unstable::default().with_names(&one, &one);
        assert_eq!(stable.mask(table, &one), table);
    }

    #[test]
    fn leaves_are_named_by_path_and_what_differs_in_every_run_is_masked() {
        let value = json!({
            "list": [{"name": "web", "port": 80}, "x"],
            "at": "2026-01-01T00:00:00Z",
            "of": "01234567-89ab-cdef-0123-456789abcdef",
            "files": {"shop-01234567-89ab-cdef-0123-456789abcde0.yaml": "x"},
            "observedGeneration": 3,
            "none": {},
        });
        let mut fields = BTreeMap::new();
        let names = Identities {
            uids: BTreeMap::from([(
                "01234567-89ab-cdef-0123-456789abcde0".to_owned(),
                "rule/shop".to_owned(),
            )]),
            ..Identities::default()
        };
        flatten("spec", &value, &names, &mut fields);
        let lines: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(
            lines,
            [
                "spec.at=a time",
                "spec.files.shop-<uid of rule/shop>.yaml=x",
                "spec.list[1]=x",
                "spec.list[web].name=web",
                "spec.list[web].port=80",
                "spec.none={}",
                "spec.of=a uid",
            ]
        );
    }
}
