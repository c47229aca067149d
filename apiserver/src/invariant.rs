//! Invariants: CEL expressions that must hold in a cluster at every revision, written like the
//! validations of a ValidatingAdmissionPolicy.
//!
//! | variable | value |
//! | --- | --- |
//! | `objects` | the objects at this revision, a list a kind: `objects.Pod`, by namespace and name |
//! | `previous` | the same at the revision before |
//! | `object`, `oldObject` | the written object, after and before the write; `object` is null for a deletion, `oldObject` for a creation |
//! | `event` | `type` (`ADDED`, `MODIFIED`, `DELETED`), `resource` (`statefulsets.apps`), `userAgent`, `resourceVersion` (an int), `time` |
//! | `variables` | the invariant's own |
//!
//! Kinds of the same name in several groups are in one list; their objects say their `apiVersion`.

mod cluster;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::admission::policy::{Compiled, Validation, compile_variables, message};
use crate::cel::{Outcome, Scope};
use crate::json::{self, Value};
use crate::registry::admissionregistration::admission_policy::{
    validate_validation, validate_variables,
};
use crate::registry::catalog::Catalog;
use crate::status::{FieldErrors, FieldPath};
use crate::storage::JournalEntry;
use cluster::ClusterState;

/// A declaration of an invariant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Declaration {
    /// The name that reports of violations state.
    pub name: String,
    /// Values by name, for the expressions: `variables.ready`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<Variable>,
    /// True where the invariant holds.
    pub expression: String,
    /// The message of a violation; `failed expression: …` when empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// A CEL expression for the message, preferred over `message` if its value is a text of one
    /// line.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message_expression: String,
}

impl Declaration {
    /// An invariant called `name` that holds where the CEL expression `expression` is true.
    #[must_use]
    pub fn new(name: impl Into<String>, expression: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            expression: expression.into(),
            ..Self::default()
        }
    }
}

/// A value that expressions use by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Variable {
    /// A CEL identifier.
    pub name: String,
    /// The CEL expression of the value.
    pub expression: String,
}

/// Invariants whose expressions are ready to be evaluated.
#[derive(Default)]
pub struct Invariants {
    kinds: BTreeSet<String>,
    all: Vec<Invariant>,
}

struct Invariant {
    name: String,
    variables: Vec<(String, Compiled)>,
    validation: Validation,
}

/// Evaluates the invariants of a cluster, one write after the other.
pub struct Observer<'i> {
    invariants: &'i Invariants,
    state: ClusterState,
    /// The last reported messages of the violated invariants, by index.
    broken: BTreeMap<usize, String>,
}

/// A violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken<'i> {
    /// The name of the invariant.
    pub name: &'i str,
    /// The message of the invariant, or its evaluation error.
    pub message: String,
}

impl Invariants {
    /// Reads `declarations`, which may be about objects of every built-in kind, and of those of
    /// `custom_kinds`.
    ///
    /// # Errors
    /// The faults of the declarations, below `path`, in the words that refuse a policy.
    pub fn compile<'k>(
        declarations: &[Declaration],
        custom_kinds: impl IntoIterator<Item = &'k str>,
        path: &FieldPath,
    ) -> Result<Self, FieldErrors> {
        if declarations.is_empty() {
            return Ok(Self::default());
        }
        let builtin = Catalog::builtin().resources();
        let builtin = builtin.map(|resource| resource.gvk().kind.as_str());
        let kinds = builtin.chain(custom_kinds).map(str::to_owned);
        let kinds: BTreeSet<String> = kinds.collect();
        let of_cluster = Scope::of_cluster(kinds.iter().map(String::as_str));
        let of_cluster = of_cluster.with_variables();
        let (mut errors, mut all) = (FieldErrors::new(), Vec::new());
        let mut names = BTreeSet::new();
        for (index, declaration) in declarations.iter().enumerate() {
            let path = path.index(index);
            let name = declaration.name.trim();
            if name.is_empty() {
                errors.required(&path.child("name"), "name is not specified");
            } else if !names.insert(name) {
                errors.duplicate(&path.child("name"), &name.into());
            }
            let text = json::to_value(declaration).expect("texts have a form in JSON");
            let mut scope = of_cluster.clone();
            validate_variables(&text, &mut scope, &path, &mut errors);
            validate_validation(&text, &scope, &path, &mut errors);
            all.push(Invariant::compile(name, &text, of_cluster.clone()));
        }
        match errors.is_empty() {
            true => Ok(Self { kinds, all }),
            false => Err(errors),
        }
    }

    /// Whether there are no invariants.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Begins to observe a cluster that holds nothing yet.
    #[must_use]
    pub fn observe(&self) -> Observer<'_> {
        Observer {
            invariants: self,
            state: ClusterState::of_kinds(self.kinds.iter().map(String::as_str)),
            broken: BTreeMap::new(),
        }
    }
}

impl fmt::Debug for Invariants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.all.iter().map(|one| &one.name);
        f.debug_list().entries(names).finish()
    }
}

impl Invariant {
    fn compile(name: &str, declaration: &Value, mut scope: Scope) -> Self {
        Self {
            name: name.to_owned(),
            variables: compile_variables(declaration, &mut scope),
            validation: Validation::compile(declaration, &scope),
        }
    }
}

impl<'i> Observer<'i> {
    /// Moves on by one write without evaluating any invariant.
    pub fn pass(&mut self, entry: &JournalEntry) {
        if !self.invariants.is_empty() {
            self.state.take(entry);
        }
    }

    /// Moves on by one write; returns the invariants that it violates, unless they were violated
    /// before with the same message.
    pub fn judge(&mut self, entry: &JournalEntry) -> Vec<Broken<'i>> {
        self.pass(entry);
        let mut found = Vec::new();
        for (index, invariant) in self.invariants.all.iter().enumerate() {
            let Some(message) = invariant.fault(&self.state, entry) else {
                self.broken.remove(&index);
                continue;
            };
            if self.broken.insert(index, message.clone()).as_ref() != Some(&message) {
                let name = &invariant.name;
                found.push(Broken { name, message });
            }
        }
        found
    }
}

impl Invariant {
    /// The reason why the invariant does not hold after `entry`; `None` if it holds.
    fn fault(&self, state: &ClusterState, entry: &JournalEntry) -> Option<String> {
        let mut activation = state.behind(entry);
        for (name, compiled) in &self.variables {
            let compiled = compiled.as_ref().map_err(String::as_str);
            activation.add_variable(name, compiled);
        }
        let expression = self.validation.expression.as_ref();
        let outcome = expression.map_err(Clone::clone);
        match outcome.and_then(|expression| activation.evaluate(expression)) {
            Ok(Outcome::Bool(true)) => None,
            Ok(_) => Some(message(&mut activation, &self.validation)),
            Err(why) => Some(why),
        }
    }
}

#[cfg(test)]
mod tests;
