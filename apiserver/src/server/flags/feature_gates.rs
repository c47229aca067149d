//! The feature gates of v1.36, and the flag that sets them.
//!
//! Source: component-base `featuregate/feature_gate.go`, `compatibility/registry.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// A gate a line: its name, its stage, `on` or `off`, `locked` if it cannot be set, and the gates
/// that it needs.
const DATA: &str = include_str!("feature_gates.txt");

/// The component of gates that name none.
const KUBE: &str = "kube";

/// The gate that lets StatefulSets keep their `maxUnavailable`.
const MAX_UNAVAILABLE: &str = "MaxUnavailableStatefulSet";

static GATES: LazyLock<BTreeMap<&'static str, Gate>> = LazyLock::new(|| {
    let lines = DATA.lines().filter(|line| !line.starts_with('#'));
    lines.map(Gate::read).collect()
});

/// The maturity of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Alpha,
    Beta,
    Ga,
    Deprecated,
}

#[derive(Debug)]
struct Gate {
    stage: Stage,
    default: bool,
    is_locked: bool,
    /// The gates that have to be on if this one is.
    needs: Vec<&'static str>,
}

impl Gate {
    fn read(line: &'static str) -> (&'static str, Self) {
        let mut words = line.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let name = word();
        let stage = match word() {
            "alpha" => Stage::Alpha,
            "beta" => Stage::Beta,
            "ga" => Stage::Ga,
            "deprecated" => Stage::Deprecated,
            other => unreachable!("{name} has the stage {other}"),
        };
        let default = word() == "on";
        let rest: Vec<&str> = words.collect();
        let needs = rest.iter().skip_while(|word| **word != "needs").nth(1);
        let gate = Self {
            stage,
            default,
            is_locked: rest.first() == Some(&"locked"),
            needs: needs.map_or_else(Vec::new, |needs| needs.split(',').collect()),
        };
        (name, gate)
    }
}

/// The reason why feature gates cannot be set, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FeatureGateError(String);

/// The settings of feature gates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// The gates that were set, by themselves or by `AllAlpha` and `AllBeta`.
    set: BTreeMap<&'static str, bool>,
    warnings: Vec<String>,
}

impl FeatureGates {
    /// Reads the values of `--feature-gates`, each `name=value,…`; a later setting of a gate counts.
    ///
    /// # Errors
    /// The faults, in upstream's words.
    pub fn read<'v>(values: impl IntoIterator<Item = &'v str>) -> Result<Self, FeatureGateError> {
        let fault = |why: String| FeatureGateError(why);
        let mut asked: BTreeMap<String, bool> = BTreeMap::new();
        let mut components = BTreeSet::new();
        let pairs = values.into_iter().flat_map(|value| value.split(','));
        for pair in pairs.filter(|pair| !pair.is_empty()) {
            let (component, pair) = pair.split_once(':').unwrap_or(("", pair));
            let component = component.trim();
            if !matches!(component, "" | KUBE) {
                return Err(fault(format!("component not registered: {component}")));
            }
            components.insert(component);
            let (name, value) = match pair.split_once('=') {
                Some((name, value)) => (name.trim(), value.trim()),
                None => return Err(fault(format!("missing bool value for {}", pair.trim()))),
            };
            let value = parse_bool(value).ok_or_else(|| {
                fault(format!(
                    "invalid value of {name}={value}, err: strconv.ParseBool: parsing {value:?}: \
                     invalid syntax"
                ))
            })?;
            asked.insert(name.to_owned(), value);
        }
        if components.len() > 1 {
            let why = "set kube feature gates with default empty prefix or kube: prefix \
                       consistently, do not mix use";
            return Err(fault(why.to_owned()));
        }
        Self::of(&asked).map_err(|faults| match faults.as_slice() {
            [own] => fault(own.clone()),
            faults => fault(format!("[{}]", faults.join(", "))),
        })
    }

    fn of(asked: &BTreeMap<String, bool>) -> Result<Self, Vec<String>> {
        let mut own = Self::default();
        let mut faults = Vec::new();
        for (name, stage) in [("AllAlpha", Stage::Alpha), ("AllBeta", Stage::Beta)] {
            if let Some(value) = asked.get(name) {
                let gates = GATES.iter().filter(|(_, gate)| gate.stage == stage);
                own.set.extend(gates.map(|(name, _)| (*name, *value)));
            }
        }
        for (name, value) in asked {
            if matches!(name.as_str(), "AllAlpha" | "AllBeta") {
                continue;
            }
            let Some((name, gate)) = GATES.get_key_value(name.as_str()) else {
                faults.push(format!("unrecognized feature gate: {name}"));
                return Err(faults);
            };
            if gate.is_locked && gate.default != *value {
                faults.push(format!(
                    "cannot set feature gate {name} to {value}, feature is locked to {}",
                    gate.default
                ));
                continue;
            }
            own.set.insert(name, *value);
            let stage = match gate.stage {
                Stage::Deprecated => "deprecated",
                Stage::Ga => "GA",
                Stage::Alpha | Stage::Beta => continue,
            };
            own.warnings.push(format!(
                "Warning: setting {stage} feature gate. It will be removed in a future release. \
                 featureGate={name:?} value={value}"
            ));
        }
        if faults.is_empty() {
            faults = own.unmet();
        }
        match faults.is_empty() {
            true => Ok(own),
            false => Err(faults),
        }
    }

    /// The faults of gates that are on and need others that are off.
    fn unmet(&self) -> Vec<String> {
        let on = GATES.iter().filter(|(name, _)| self.is_on(name));
        let unmet = on.filter_map(|(name, gate)| {
            let needs = gate.needs.iter().copied();
            let off: Vec<&str> = needs.filter(|own| !self.is_on(own)).collect();
            (!off.is_empty()).then(|| {
                let off = off.join(" ");
                format!("{name} is enabled, but depends on features that are disabled: [{off}]")
            })
        });
        unmet.collect()
    }

    /// Whether a gate is on; false for unknown gates.
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        let set = self.set.get(name).copied();
        set.unwrap_or_else(|| GATES.get(name).is_some_and(|gate| gate.default))
    }

    /// Upstream's log lines about gates that will be removed.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The gates that differ from their defaults and that this server does not follow.
    pub fn without_effect(&self) -> impl Iterator<Item = &'static str> {
        let differing = self.set.iter().filter(|(name, value)| {
            let gate = GATES.get(*name);
            **name != MAX_UNAVAILABLE && gate.is_some_and(|gate| gate.default != **value)
        });
        differing.map(|(name, _)| *name)
    }

    /// Whether StatefulSets keep their `maxUnavailable`.
    pub(crate) fn max_unavailable_stateful_set(&self) -> bool {
        self.is_on(MAX_UNAVAILABLE)
    }

    /// The names of all gates, in order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        GATES.keys().copied()
    }
}

/// A boolean as Go's `strconv.ParseBool` reads it.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(values: &[&str]) -> String {
        let read = FeatureGates::read(values.iter().copied());
        read.unwrap_err().to_string()
    }

    #[test]
    fn the_table_is_of_v1_36_and_consistent() {
        assert!(FeatureGates::default().unmet().is_empty());
        assert!(FeatureGates::default().is_on("WatchList"));
        for (name, gate) in &*GATES {
            assert!(gate.stage != Stage::Alpha || !gate.default, "{name}");
            for needed in &gate.needs {
                assert!(GATES.contains_key(needed), "{name} needs {needed}");
            }
        }
    }

    #[test]
    fn gates_are_set_alone_and_by_stage() {
        let gates = FeatureGates::read(["MaxUnavailableStatefulSet=true,", "kube2=x"]);
        assert!(gates.is_err());
        let gates = FeatureGates::read(["MaxUnavailableStatefulSet=true,WatchList=True"]).unwrap();
        assert!(gates.max_unavailable_stateful_set());
        assert_eq!(gates.without_effect().count(), 0);
        let gates = FeatureGates::read(["kube:AllAlpha=false", "kube:WatchList=f"]).unwrap();
        assert_eq!(gates.without_effect().collect::<Vec<_>>(), ["WatchList"]);
        let gates = FeatureGates::read(["AllBeta=true,WatchList=false"]).unwrap();
        assert!(gates.max_unavailable_stateful_set());
        assert!(!gates.is_on("WatchList"));
    }

    #[test]
    fn faults_are_in_upstreams_words() {
        for (value, expected) in [
            ("A=true", "unrecognized feature gate: A"),
            ("WatchList", "missing bool value for WatchList"),
            (
                "WatchList=y",
                "invalid value of WatchList=y, err: strconv.ParseBool: parsing \"y\": invalid \
                 syntax",
            ),
            (
                "DynamicResourceAllocation=false",
                "cannot set feature gate DynamicResourceAllocation to false, feature is locked to \
                 true",
            ),
            ("other:WatchList=true", "component not registered: other"),
            (
                "kube:WatchList=true,WatchList=true",
                "set kube feature gates with default empty prefix or kube: prefix consistently, do \
                 not mix use",
            ),
            (
                "WorkloadWithJob=true",
                "WorkloadWithJob is enabled, but depends on features that are disabled: \
                 [GenericWorkload]",
            ),
        ] {
            assert_eq!(fault(&[value]), expected);
        }
    }

    #[test]
    fn gates_that_will_go_are_warned_of() {
        let gates = FeatureGates::read(["DynamicResourceAllocation=true"]).unwrap();
        assert_eq!(
            gates.warnings(),
            [
                "Warning: setting GA feature gate. It will be removed in a future release. \
              featureGate=\"DynamicResourceAllocation\" value=true"
            ]
        );
        assert_eq!(gates.without_effect().count(), 0);
    }
}
