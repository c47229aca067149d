//! Acceptance of a definition's names in its group, and the condition Established.

use std::collections::BTreeSet;

use crate::clock::rfc3339;
use crate::json::{Map, Value};
use crate::meta::object::child_mut;
use crate::registry::apiextensions::custom_resource_definition::conditions::{self, Condition};
use crate::storage::StoredObject;
use crate::store::{Store, Subresource, at_once};
use crate::x509;

/// Accepts the names of a definition unless another one in its group has them.
pub(super) fn sync(store: &Store<'_>, definition: &StoredObject) {
    let value = &*definition.fields(&["spec.group", "spec.names", "status"]);
    if value["spec"]["names"] == value["status"]["acceptedNames"] {
        return;
    }
    let (names, accepted) = accept(store, value);
    let held = conditions::find(value, "NamesAccepted");
    let is_known = held.is_some_and(|held| {
        held["status"] == accepted.status()
            && held["reason"] == accepted.reason
            && held["message"] == *accepted.message
    });
    if is_known && value["status"]["acceptedNames"] == Value::Object(names.clone()) {
        return;
    }
    let now = rfc3339(store.state.clock.now());
    write_status(store, definition, |next| {
        child_mut(next, "status").insert("acceptedNames", names.clone().into());
        let names_accepted = Condition {
            condition_type: "NamesAccepted",
            status: accepted.status(),
            reason: accepted.reason,
            message: &accepted.message,
        };
        conditions::set(next, names_accepted, &now);
        if conditions::is_true(next, "Established") {
            return;
        }
        let (reason, message) = if accepted.status() == "True" {
            ("Installing", "the initial names have been accepted")
        } else if conditions::find(next, "Established").is_some() {
            return;
        } else {
            ("NotAccepted", "not all names are accepted")
        };
        let installing = Condition {
            condition_type: "Established",
            status: "False",
            reason,
            message,
        };
        conditions::set(next, installing, &now);
    });
}

/// Establishes a definition whose names are accepted.
pub(super) fn establish(store: &Store<'_>, definition: &StoredObject) {
    let Some(definition) = store.table().get(&definition.key) else {
        return;
    };
    let value = &*definition.fields(&["spec.conversion", "status"]);
    if !conditions::is_true(value, "NamesAccepted") || conditions::is_true(value, "Established") {
        return;
    }
    let client = &value["spec"]["conversion"]["webhook"]["clientConfig"];
    let established = match x509::check_authority(client) {
        Ok(()) => Condition {
            condition_type: "Established",
            status: "True",
            reason: "InitialNamesAccepted",
            message: "the initial names have been accepted",
        },
        Err(_) => Condition {
            condition_type: "Established",
            status: "False",
            reason: "InvalidCABundle",
            message: "The conversion webhook CABundle is invalid",
        },
    };
    let now = rfc3339(store.state.clock.now());
    write_status(store, &definition, |next| {
        conditions::set(next, established, &now);
    });
}

/// Writes the status of a definition; a definition that another writer has changed or deleted
/// meanwhile is left to the next pass.
pub(super) fn write_status(
    store: &Store<'_>,
    definition: &StoredObject,
    change: impl Fn(&mut Value),
) {
    let name = definition.key.as_str();
    let written = store.update(None, name, Subresource::Status, |current| {
        let mut next = current.clone();
        change(&mut next);
        Ok(next)
    });
    let written = at_once(written);
    if let Err(error) = written {
        tracing::debug!(definition = %definition.key, %error, "status not written");
    }
}

/// Whether the names of a definition are its own.
struct Accepted {
    reason: &'static str,
    message: String,
}

impl Accepted {
    fn status(&self) -> &'static str {
        if self.reason == "NoConflicts" {
            "True"
        } else {
            "False"
        }
    }
}

/// The names that the definition has from now on, and whether they are all it asks for.
fn accept(store: &Store<'_>, definition: &Value) -> (Map, Accepted) {
    let group = definition["spec"]["group"].as_str();
    let taken = Taken::in_group(store, group.unwrap_or_default());
    let wanted = &definition["spec"]["names"];
    let held = &definition["status"]["acceptedNames"];
    let mut names = held.as_object().cloned().unwrap_or_default();
    let mut accepted = Accepted {
        reason: "NoConflicts",
        message: "no conflicts found".to_owned(),
    };
    let mut refuse = |reason, message| {
        accepted = Accepted { reason, message };
    };
    let text = |names: &Value, field: &str| names[field].as_str().unwrap_or_default().to_owned();
    for (field, reason, used) in [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
        ("shortNames", "ShortNamesConflict", &taken.resources),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ] {
        if field == "shortNames" {
            match taken.short_names(&wanted[field], &held[field]) {
                Ok(()) => copy(&mut names, wanted, field),
                Err(message) => refuse(reason, message),
            }
            continue;
        }
        let name = text(wanted, field);
        if name != text(held, field) && used.contains(&name) {
            refuse(reason, format!("{name:?} is already in use"));
        } else {
            copy(&mut names, wanted, field);
        }
    }
    copy(&mut names, wanted, "categories");
    (names, accepted)
}

fn copy(names: &mut Map, wanted: &Value, field: &str) {
    match wanted.get(field) {
        Some(value) => names.insert(field.to_owned(), value.clone()),
        None => names.remove(field),
    };
}

/// The names that the definitions of a group have.
struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Taken {
    fn in_group(store: &Store<'_>, group: &str) -> Self {
        let mut taken = Self {
            resources: BTreeSet::new(),
            kinds: BTreeSet::new(),
        };
        for definition in super::all(store) {
            if super::group_of(definition.key.as_str()) != group {
                continue;
            }
            let definition = definition.fields(&["status.acceptedNames"]);
            let names = &definition["status"]["acceptedNames"];
            let text = |field: &str| names[field].as_str().unwrap_or_default().to_owned();
            taken.resources.extend([text("plural"), text("singular")]);
            taken.resources.extend(texts(&names["shortNames"]));
            taken.kinds.extend([text("kind"), text("listKind")]);
        }
        taken
    }

    fn short_names(&self, wanted: &Value, held: &Value) -> Result<(), String> {
        let own: BTreeSet<String> = texts(held).collect();
        let mut faults: Vec<String> = texts(wanted)
            .filter(|name| !own.contains(name) && self.resources.contains(name))
            .map(|name| format!("{name:?} is already in use"))
            .collect();
        match faults.len() {
            0 => Ok(()),
            1 => Err(faults.remove(0)),
            _ => Err(format!("[{}]", faults.join(", "))),
        }
    }
}

fn texts(list: &Value) -> impl Iterator<Item = String> {
    let texts = list.as_array().into_iter().flatten();
    texts.filter_map(Value::as_str).map(str::to_owned)
}
