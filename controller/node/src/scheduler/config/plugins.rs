//! Which plugins run at which extension point.
//!
//! Source: `mergePluginSet` of `pkg/scheduler/apis/config/v1/default_plugins.go`, and `NewFramework` of
//! `pkg/scheduler/framework/runtime/framework.go`.

use std::collections::{BTreeMap, BTreeSet};

use super::decode::{PluginEntry, PluginSet};
use crate::fit::{DEFAULT_PLUGINS, Plugin, Point};

/// The extension point that stands for all.
pub(super) const MULTI_POINT: &str = "multiPoint";
/// The name of all plugins of a point.
const ALL: &str = "*";

/// The plugins of a profile by extension point, in order.
pub(super) struct Expanded {
    points: BTreeMap<Point, Vec<Plugin>>,
    /// The plugins that score nodes, with their weights.
    pub(super) score: Vec<(Plugin, i64)>,
    /// Every plugin that is named for any point.
    pub(super) needed: BTreeSet<String>,
}

impl Expanded {
    pub(super) fn at(&self, point: Point) -> Vec<Plugin> {
        self.points.get(&point).cloned().unwrap_or_default()
    }
}

/// Returns the name of the field of an extension point.
pub(super) fn field_of(point: Point) -> String {
    let name = format!("{point:?}");
    let mut letters = name.chars();
    let first = letters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

/// Returns the plugins of every point.
///
/// # Errors
///
/// kube-scheduler's message about the first plugin that cannot be set up.
pub(super) fn expand(
    scheduler: &str,
    sets: &BTreeMap<String, PluginSet>,
) -> Result<Expanded, String> {
    let none = PluginSet::default();
    let of = |point: Point| sets.get(&field_of(point)).unwrap_or(&none);
    let multi_point = merged_with_defaults(sets.get(MULTI_POINT).unwrap_or(&none));
    let mut points = BTreeMap::new();
    for point in Point::ALL {
        points.insert(point, explicit(point, of(point))?);
    }
    for point in Point::ALL {
        let explicit = points.remove(&point).unwrap_or_default();
        let all = with_multi_point(point, explicit, of(point), &multi_point)?;
        points.insert(point, all);
    }
    let sorts = points[&Point::QueueSort].len();
    if sorts != 1 {
        return Err(format!(
            "only one queue sort plugin required for profile with scheduler name {scheduler:?}, but got {sorts}"
        ));
    }
    if points[&Point::Bind].is_empty() {
        return Err(format!(
            "at least one bind plugin is needed for profile with scheduler name {scheduler:?}"
        ));
    }
    if points[&Point::PlacementGenerate].len() > 1 {
        return Err(format!(
            "at most one placement generate plugin is allowed for profile with scheduler name {scheduler:?}"
        ));
    }
    let weights = weights(of(Point::Score), &multi_point)?;
    let score = points[&Point::Score].iter();
    let score = score.map(|plugin| (*plugin, weights.get(plugin).copied().unwrap_or(1)));
    let enabled = sets.values().flat_map(|set| &set.enabled);
    let needed = enabled.chain(&multi_point).map(|own| own.name.clone());
    Ok(Expanded {
        score: score.collect(),
        needed: needed.collect(),
        points,
    })
}

/// Returns the plugins of all points: the default ones in their order, as far as they are not
/// disabled, with new weights if they are named again; then the others.
fn merged_with_defaults(custom: &PluginSet) -> Vec<PluginEntry> {
    let disabled: BTreeSet<&str> = custom.disabled.iter().map(|own| &*own.name).collect();
    let mut replacing = BTreeSet::new();
    let mut enabled = Vec::new();
    let defaults = DEFAULT_PLUGINS.iter().filter(|_| !disabled.contains(ALL));
    for (plugin, weight) in defaults {
        let name = plugin.name();
        if disabled.contains(&*name) {
            continue;
        }
        // Of several entries with one name the last counts.
        match custom.enabled.iter().rposition(|own| own.name == name) {
            Some(index) => {
                replacing.insert(index);
                enabled.push(custom.enabled[index].clone());
            }
            None => enabled.push(PluginEntry {
                name,
                weight: *weight,
            }),
        }
    }
    let others = custom.enabled.iter().enumerate();
    let others = others.filter(|(index, _)| !replacing.contains(index));
    enabled.extend(others.map(|(_, own)| own.clone()));
    enabled
}

/// Returns the plugins that a point names itself.
fn explicit(point: Point, set: &PluginSet) -> Result<Vec<Plugin>, String> {
    let mut plugins = Vec::new();
    for PluginEntry { name, .. } in &set.enabled {
        let plugin = Plugin::named(name)
            .ok_or_else(|| format!("{point:?}Plugin {name:?} does not exist"))?;
        if !plugin.extends(point) {
            return Err(format!(
                "plugin {name:?} does not extend {point:?}Plugin plugin"
            ));
        }
        if plugins.contains(&plugin) {
            return Err(registered_twice(name, point));
        }
        plugins.push(plugin);
    }
    Ok(plugins)
}

fn registered_twice(name: &str, point: Point) -> String {
    format!("plugin {name:?} already registered as \"{point:?}Plugin\"")
}

/// Returns the plugins of a point in their order: those of `multi_point` that the point names
/// again, then the others of `multi_point`, then the rest.
fn with_multi_point(
    point: Point,
    explicit: Vec<Plugin>,
    set: &PluginSet,
    multi_point: &[PluginEntry],
) -> Result<Vec<Plugin>, String> {
    let is_disabled = |name: &str| set.disabled.iter().any(|own| own.name == name);
    if is_disabled(ALL) {
        return Ok(explicit);
    }
    let mut overriding = BTreeSet::new();
    let mut implied = Vec::new();
    for PluginEntry { name, .. } in multi_point {
        let plugin = Plugin::named(name)
            .ok_or_else(|| format!("{point:?}Plugin {name:?} does not exist"))?;
        if !plugin.extends(point) || is_disabled(name) {
            continue;
        }
        if explicit.contains(&plugin) {
            overriding.insert(plugin);
        } else if implied.contains(&plugin) {
            return Err(registered_twice(name, point));
        } else {
            implied.push(plugin);
        }
    }
    let (first, last): (Vec<Plugin>, Vec<Plugin>) = explicit
        .into_iter()
        .partition(|plugin| overriding.contains(plugin));
    Ok([first, implied, last].concat())
}

/// Returns the weights of the plugins that score (`getValidScoreWeights`).
fn weights(
    score: &PluginSet,
    multi_point: &[PluginEntry],
) -> Result<BTreeMap<Plugin, i64>, String> {
    /// The highest score of a plugin, for which the sum has to have room.
    const MAX: i64 = 100;
    let mut weights = BTreeMap::new();
    let mut total: i64 = 0;
    for entry in score.enabled.iter().chain(multi_point) {
        let plugin = Plugin::named(&entry.name).filter(|own| own.extends(Point::Score));
        let Some(plugin) = plugin.filter(|own| !weights.contains_key(own)) else {
            continue;
        };
        let weight = match entry.weight {
            0 => 1,
            weight => i64::from(weight),
        };
        // The arithmetic is Go's, in which a negative weight overflows, too.
        if weight.wrapping_mul(MAX) > i64::MAX.wrapping_sub(total) {
            return Err("score plugins: total score of Score plugins could overflow".to_owned());
        }
        total = total.wrapping_add(weight.wrapping_mul(MAX));
        weights.insert(plugin, weight);
    }
    Ok(weights)
}
