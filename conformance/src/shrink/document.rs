//! A scenario as a document of which parts can be dropped.

use kubeproof_machinery::json::{Value, json};

use super::entry;
use crate::explore::Plan;
use crate::scenario::{ScenarioFile, Step, Verb};

/// Fields that a reproducer keeps, in their order; `given`, `steps` and the faults follow.
const KEPT: [&str; 2] = ["title", "seed"];
/// Fields that a reproducer keeps after the steps.
const KEPT_LAST: [&str; 3] = ["properties", "violates", "differs"];

/// A list of a document.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// The steps.
    Steps,
    /// The steps of the given state.
    GivenSteps,
    /// The objects of the given state.
    GivenObjects,
}

/// A scenario that names no other file.
#[derive(Clone, Debug)]
pub struct Document {
    name: String,
    value: Value,
}

impl Document {
    /// The lists from which parts are dropped, in their order.
    pub(super) const PARTS: [Part; 3] = [Part::Steps, Part::GivenSteps, Part::GivenObjects];

    /// The scenario of `file`, with the objects of other files in it.
    #[must_use]
    pub fn of(file: &ScenarioFile) -> Self {
        let mut value: Value = serde_saphyr::from_str(&file.text).unwrap_or_default();
        let given = &file.scenario.given;
        if !given.objects.is_empty() {
            let objects = given.objects.iter().flat_map(|manifest| &manifest.objects);
            value["given"]["objects"] = objects.cloned().collect();
        }
        inline(&mut value["steps"], &file.scenario.steps);
        if !given.steps.is_empty() {
            inline(&mut value["given"]["steps"], &given.steps);
        }
        Self {
            name: file.name.clone(),
            value,
        }
    }

    /// Reads it as a scenario.
    ///
    /// # Errors
    /// When a part is missing that the rest needs.
    pub(super) fn parse(&self) -> Result<ScenarioFile, String> {
        let text = self.value.to_string();
        let no_files = |file: &str| Err(format!("{file} is not in the document"));
        ScenarioFile::parse(self.name.clone(), text, no_files)
    }

    fn list(&self, part: Part) -> Option<&Vec<Value>> {
        let list = match part {
            Part::Steps => &self.value["steps"],
            Part::GivenSteps => &self.value["given"]["steps"],
            Part::GivenObjects => &self.value["given"]["objects"],
        };
        list.as_array()
    }

    /// The length of a list.
    pub(super) fn length(&self, part: Part) -> usize {
        self.list(part).map_or(0, Vec::len)
    }

    /// The numbers of steps and of given objects.
    pub(super) fn counts(&self) -> [usize; 2] {
        let steps = self.length(Part::Steps) + self.length(Part::GivenSteps);
        [steps, self.length(Part::GivenObjects)]
    }

    /// Returns the document without an item of a list.
    pub(super) fn without(&self, part: Part, index: usize) -> Self {
        let mut smaller = self.clone();
        let list = match part {
            Part::Steps => &mut smaller.value["steps"],
            Part::GivenSteps => &mut smaller.value["given"]["steps"],
            Part::GivenObjects => &mut smaller.value["given"]["objects"],
        };
        if let Some(list) = list.as_array_mut() {
            list.remove(index);
        }
        smaller
    }

    /// Returns the document with one node, if it has more.
    pub(super) fn with_fewer_nodes(&self) -> Option<Self> {
        let nodes = self.value["given"]["nodes"].as_u64();
        let has_one = nodes.is_some_and(|nodes| nodes < 2);
        let mut smaller = self.clone();
        smaller.value["given"]["nodes"] = 1.into();
        (!has_one).then_some(smaller)
    }

    /// The YAML of the reproducer of a divergence that was found in the scenario `name`.
    pub(super) fn text(&self, name: &str, plan: &Plan, schedule_seed: u64) -> String {
        let mut text = String::new();
        let mut add = |key: &str, value: &Value| {
            if !value.is_null() {
                text.push_str(&entry(key, value));
            }
        };
        for key in KEPT {
            add(key, &self.value[key]);
        }
        add(
            "source",
            &json!(format!("shrunk from {name} by `kubeproof explore`")),
        );
        let mut given = self.value["given"].clone();
        if let Some(given) = given.as_object_mut() {
            given.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
        }
        add("given", &given);
        add("steps", &self.value["steps"]);
        for key in KEPT_LAST {
            add(key, &self.value[key]);
        }
        add("faults", &plan.to_string().into());
        if schedule_seed > 0 {
            add("order", &schedule_seed.into());
        }
        text
    }
}

/// Puts the objects of other files into the steps. A step with several objects becomes several steps.
fn inline(list: &mut Value, steps: &[Step]) {
    let Some(items) = list.as_array() else {
        return;
    };
    let mut inlined = Vec::new();
    for (item, step) in items.iter().zip(steps) {
        let (verb, manifest) = match &step.verb {
            Verb::Apply(manifest) => ("apply", manifest),
            Verb::Create(manifest) => ("create", manifest),
            _ => {
                inlined.push(item.clone());
                continue;
            }
        };
        let last = manifest.objects.len().saturating_sub(1);
        for (index, object) in manifest.objects.iter().enumerate() {
            let mut item = item.clone();
            item[verb] = object.clone();
            if index < last {
                item["settle"] = false.into();
            }
            inlined.push(item);
        }
    }
    *list = inlined.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
";

    fn document() -> Document {
        let text = "
title: t
source: s
shows: [{text: x, marks: [y]}]
given: {objects: [maps.yaml]}
steps:
- create: {file: maps.yaml, merge: {data: {k: v}}}
- delete: {target: configmap/a}
";
        let read = |_: &str| Ok(MAPS.to_owned());
        Document::of(&ScenarioFile::parse("x/y".to_owned(), text.to_owned(), read).unwrap())
    }

    #[test]
    fn files_are_put_into_the_document_and_parts_are_dropped() {
        let document = document();
        assert_eq!(document.counts(), [3, 2]);
        assert_eq!(document.parse().unwrap().scenario.steps.len(), 3);
        let smaller = document.without(Part::Steps, 1);
        let smaller = smaller.without(Part::GivenObjects, 0);
        assert_eq!(smaller.counts(), [2, 1]);
        let plan: Plan = "refuse create configmaps a from c".parse().unwrap();
        assert_eq!(
            smaller.text("x/y", &plan, 2),
            "title: t
source: shrunk from x/y by `kubeproof explore`
given:
  objects:
  - apiVersion: v1
    kind: ConfigMap
    metadata:
      name: b
steps:
- create:
    apiVersion: v1
    data:
      k: v
    kind: ConfigMap
    metadata:
      name: a
  settle: false
- delete:
    target: configmap/a
faults: refuse create configmaps a from c
order: 2
"
        );
    }

    #[test]
    fn a_document_has_at_least_one_node() {
        let one = document().with_fewer_nodes().unwrap();
        assert_eq!(one.value["given"]["nodes"], 1);
        assert!(one.with_fewer_nodes().is_none());
    }
}
