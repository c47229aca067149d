//! KWOK's `Stage` objects: parsing and matching.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kubeproof_machinery::json::Value;
use serde::Deserialize;

use super::query::Query;
use super::template::Template;

/// A stage in the lifecycle of objects of one kind: KWOK's `Stage` (`kwok.x-k8s.io/v1alpha1`).
///
/// Supported are `resourceRef`, `selector` (labels, annotations, and expressions whose keys are
/// paths, pipes and `select(…)` of jq), `weight`, `delay` with its jitter, and of `next` the
/// `statusTemplate`, `patches` other than JSON patches, `finalizers`, `event` and `delete`.
#[derive(Clone, Debug)]
pub struct Stage {
    pub(super) name: String,
    pub(super) group: String,
    pub(super) kind: String,
    selector: Selector,
    expressions: Vec<(Query, Operator, Vec<String>)>,
    weight: Amount,
    delay: Amount,
    jitter: Option<Amount>,
    pub(super) next: Next,
}

/// The changes that a stage makes to an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Next {
    pub(super) patches: Vec<PatchTemplate>,
    pub(super) finalizers: Finalizers,
    pub(super) event: Option<EventTemplate>,
    pub(super) delete: bool,
}

/// A patch with a template.
#[derive(Clone, Debug)]
pub(super) struct PatchTemplate {
    /// The subresource to patch; `None` for the object itself.
    pub(super) subresource: Option<String>,
    /// The field that the template's result is placed under.
    pub(super) root: Option<String>,
    pub(super) template: Template,
}

/// A number from an expression, with a default if the expression yields none.
#[derive(Clone, Debug)]
struct Amount {
    from: Option<Query>,
    value: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// An error for an object that is not a valid or supported stage.
#[derive(Debug, thiserror::Error)]
#[error("stage {name:?}: {message}")]
pub struct BadStage {
    name: String,
    message: String,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    resource_ref: ResourceRef,
    selector: Option<Selector>,
    #[serde(default)]
    weight: i64,
    weight_from: Option<From>,
    delay: Option<Delay>,
    next: NextSpec,
}

#[derive(Deserialize)]
struct ResourceRef {
    #[serde(rename = "apiGroup", default)]
    api_group: String,
    kind: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Selector {
    match_labels: BTreeMap<String, String>,
    match_annotations: BTreeMap<String, String>,
    match_expressions: Vec<Requirement>,
}

#[derive(Clone, Debug, Deserialize)]
struct Requirement {
    key: String,
    operator: Operator,
    #[serde(default)]
    values: Vec<String>,
}

#[derive(Deserialize)]
struct From {
    #[serde(rename = "expressionFrom")]
    expression_from: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delay {
    duration_milliseconds: Option<i64>,
    duration_from: Option<From>,
    jitter_duration_milliseconds: Option<i64>,
    jitter_duration_from: Option<From>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NextSpec {
    status_template: Option<String>,
    #[serde(default)]
    patches: Vec<PatchSpec>,
    #[serde(default)]
    finalizers: Finalizers,
    event: Option<EventTemplate>,
    #[serde(default)]
    delete: bool,
}

#[derive(Deserialize)]
struct PatchSpec {
    subresource: Option<String>,
    root: Option<String>,
    template: String,
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// The changes of an object's finalizers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Finalizers {
    add: Vec<Finalizer>,
    remove: Vec<Finalizer>,
    empty: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Finalizer {
    value: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct EventTemplate {
    #[serde(rename = "type")]
    pub(super) event_type: String,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Stage {
    /// Parses a `Stage` object.
    ///
    /// # Errors
    /// [`BadStage`] for a part that is not supported.
    pub fn parse(object: &Value) -> Result<Self, BadStage> {
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        let bad = |message: String| BadStage {
            name: name.unwrap_or_default().to_owned(),
            message,
        };
        let kind = (object["apiVersion"].as_str(), object["kind"].as_str());
        if kind != (Some("kwok.x-k8s.io/v1alpha1"), Some("Stage")) {
            return Err(bad("not a Stage of kwok.x-k8s.io/v1alpha1".to_owned()));
        }
        let read = Object::deserialize(object).map_err(|error| bad(error.to_string()))?;
        Self::read(read).map_err(bad)
    }

    fn read(Object { metadata, spec }: Object) -> Result<Self, String> {
        let Some(selector) = spec.selector else {
            return Err("it selects nothing".to_owned());
        };
        let expressions = selector.match_expressions.iter().map(|own| {
            let query = Query::parse(&own.key).map_err(|error| error.to_string())?;
            Ok((query, own.operator, own.values.clone()))
        });
        let expressions: Result<Vec<_>, String> = expressions.collect();
        let group = spec.resource_ref.api_group;
        // KWOK names the core group by its version, `v1`.
        let group = match group.split_once('/') {
            Some((group, _)) => group.to_owned(),
            None if group == "v1" => String::new(),
            None => group,
        };
        let mut patches = Vec::new();
        if let Some(text) = &spec.next.status_template {
            patches.push(PatchTemplate {
                subresource: Some("status".to_owned()),
                root: Some("status".to_owned()),
                template: Template::parse(text)?,
            });
        }
        for patch in spec.next.patches {
            if !matches!(patch.kind.as_deref(), None | Some("merge" | "strategic")) {
                return Err("its patches are of a type that is not understood".to_owned());
            }
            patches.push(PatchTemplate {
                template: Template::parse(&patch.template)?,
                subresource: patch.subresource.filter(|name| !name.is_empty()),
                root: patch.root.filter(|name| !name.is_empty()),
            });
        }
        let delay = spec.delay.unwrap_or(Delay {
            duration_milliseconds: None,
            duration_from: None,
            jitter_duration_milliseconds: None,
            jitter_duration_from: None,
        });
        let jitter = Amount::read(
            delay.jitter_duration_milliseconds,
            delay.jitter_duration_from,
        )?;
        Ok(Self {
            name: metadata.name,
            group,
            kind: spec.resource_ref.kind,
            expressions: expressions?,
            selector,
            weight: Amount::read(Some(spec.weight), spec.weight_from)?,
            delay: Amount::read(delay.duration_milliseconds, delay.duration_from)?,
            jitter: Some(jitter).filter(|jitter| jitter.from.is_some() || jitter.value.is_some()),
            next: Next {
                patches,
                finalizers: spec.next.finalizers,
                event: spec.next.event,
                delete: spec.next.delete,
            },
        })
    }

    /// Returns whether the stage applies to this kind.
    pub(super) fn is_of(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }

    /// Returns whether `object`, of the stage's kind, matches the selector.
    pub(super) fn matches(&self, object: &Value) -> bool {
        let has = |field: &str, wanted: &BTreeMap<String, String>| {
            let mut wanted = wanted.iter();
            wanted.all(|(key, value)| object["metadata"][field][key] == **value)
        };
        has("labels", &self.selector.match_labels)
            && has("annotations", &self.selector.match_annotations)
            && self.expressions.iter().all(|(query, operator, values)| {
                let found = query.values(object);
                let listed = || {
                    let mut found = found.iter();
                    found.any(|value| values.contains(&text(value)))
                };
                match operator {
                    Operator::In => listed(),
                    Operator::NotIn => !listed(),
                    Operator::Exists => !found.is_empty(),
                    Operator::DoesNotExist => found.is_empty(),
                }
            })
    }

    pub(super) fn weight(&self, object: &Value) -> i64 {
        self.weight.get(object, number).unwrap_or(0)
    }

    /// Returns how long an object stays in the stage; `draw` picks a number of milliseconds
    /// below the difference of jitter and delay.
    pub(super) fn delay(
        &self,
        object: &Value,
        now: Timestamp,
        draw: impl FnOnce(u64) -> u64,
    ) -> Duration {
        let read = |value: &Value| milliseconds(value, now);
        let least = self.delay.get(object, read).unwrap_or(0);
        let jitter = self
            .jitter
            .as_ref()
            .and_then(|jitter| jitter.get(object, read));
        let length = match jitter {
            None => least,
            Some(most) if most <= least => most,
            Some(most) => {
                let drawn = draw(u64::try_from(most - least).unwrap_or(1));
                least + i64::try_from(drawn).unwrap_or(0)
            }
        };
        Duration::from_millis(u64::try_from(length).unwrap_or(0))
    }
}

impl Amount {
    fn read(value: Option<i64>, from: Option<From>) -> Result<Self, String> {
        let from = from.map(|from| Query::parse(&from.expression_from));
        let from = from.transpose().map_err(|error| error.to_string())?;
        Ok(Self { from, value })
    }

    fn get(&self, object: &Value, read: impl Fn(&Value) -> Option<i64>) -> Option<i64> {
        let query = self.from.as_ref();
        let found = query.and_then(|query| query.values(object).first().copied());
        found.and_then(read).or(self.value)
    }
}

impl Finalizers {
    /// Returns the new finalizers of an object with the finalizers `known`; `None` if they do not
    /// change.
    pub(super) fn change(&self, known: &[String]) -> Option<Vec<String>> {
        let mut changed = known.to_vec();
        if self.empty {
            changed.clear();
        }
        changed.retain(|one| !self.remove.iter().any(|own| own.value == *one));
        for Finalizer { value } in &self.add {
            if !changed.contains(value) {
                changed.push(value.clone());
            }
        }
        (changed != known).then_some(changed)
    }
}

/// Returns a value as text for comparisons.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => other.to_string(),
    }
}

fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

/// Parses a point in time, or a duration in Go's format, as milliseconds from now.
fn milliseconds(value: &Value, now: Timestamp) -> Option<i64> {
    let text = value.as_str()?;
    if let Ok(time) = text.parse::<Timestamp>() {
        let left = time.as_millisecond().saturating_sub(now.as_millisecond());
        return Some(left.max(0));
    }
    go_duration(text)
}

fn go_duration(text: &str) -> Option<i64> {
    let mut rest = text;
    let mut total = 0.0_f64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, unit) = rest.split_at(end);
        let number: f64 = number.parse().ok()?;
        let units = [("ms", 1.0), ("s", 1e3), ("m", 6e4), ("h", 3.6e6)];
        let (name, factor) = units.into_iter().find(|(name, _)| unit.starts_with(name))?;
        total += number * factor;
        rest = &unit[name.len()..];
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "delays are far from the limits of 64 bits, and a cast saturates"
    )]
    (!text.is_empty()).then_some(total as i64)
}
