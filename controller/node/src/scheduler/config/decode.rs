//! Reads the document of a configuration as kube-scheduler does: strictly, with the arguments of
//! plugins read by the plugin's name.

use std::collections::BTreeMap;

use kubeproof_machinery::json::Value;
use kubeproof_machinery::yaml::decode::{Yaml, unmarshal_errors};
use serde::Deserialize;

use super::types::{ARGUMENTS, CONFIGURATION, Type};

pub(super) const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
const GROUP: &str = "kubescheduler.config.k8s.io";
const KIND: &str = "KubeSchedulerConfiguration";
/// The registry of types that upstream's errors name.
const SCHEME: &str = "pkg/scheduler/apis/config/scheme/scheme.go:29";

/// A configuration before defaults.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Configuration {
    pub(super) parallelism: Option<i32>,
    pub(super) percentage_of_nodes_to_score: Option<i32>,
    pub(super) pod_initial_backoff_seconds: Option<i64>,
    pub(super) pod_max_backoff_seconds: Option<i64>,
    pub(super) profiles: Vec<ProfileSpec>,
    pub(super) extenders: Vec<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ProfileSpec {
    pub(super) scheduler_name: Option<String>,
    pub(super) percentage_of_nodes_to_score: Option<i32>,
    /// The sets of plugins by extension point, `multiPoint` among them.
    pub(super) plugins: BTreeMap<String, PluginSet>,
    pub(super) plugin_config: Vec<PluginConfig>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(super) struct PluginSet {
    pub(super) enabled: Vec<PluginEntry>,
    pub(super) disabled: Vec<PluginEntry>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(super) struct PluginEntry {
    pub(super) name: String,
    pub(super) weight: i32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PluginConfig {
    pub(super) name: String,
    pub(super) args: Value,
}

/// Reads a YAML document.
///
/// # Errors
///
/// The message of kube-scheduler.
pub(super) fn read(text: &str) -> Result<Configuration, String> {
    let yaml = Yaml::parse(text.as_bytes())?;
    let mut value: Value = serde_json::from_slice(&yaml.json).map_err(|error| error.to_string())?;
    let gvk = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (gvk("apiVersion"), gvk("kind"));
    for (field, found) in [("Kind", kind), ("apiVersion", version)] {
        if found.is_empty() {
            return Err(format!(
                "Object '{field}' is missing in '{}'",
                text.trim_end()
            ));
        }
    }
    if (version, kind) != (API_VERSION, KIND) {
        return Err(unregistered(version, kind));
    }
    if !yaml.duplicates.is_empty() {
        let faults = unmarshal_errors(&yaml.duplicates);
        return Err(format!("strict decoding error: {faults}"));
    }
    let faults = CONFIGURATION.faults(&value);
    if let Some(mismatch) = faults.mismatch {
        return Err(mismatch);
    }
    without_nulls(&mut value);
    let configuration = Configuration::deserialize(value).map_err(|error| error.to_string())?;
    let mut strict = faults.unknown;
    for (index, profile) in configuration.profiles.iter().enumerate() {
        for (number, config) in profile.plugin_config.iter().enumerate() {
            let place = format!("decoding .profiles[{index}].pluginConfig[{number}]");
            match check_arguments(config) {
                Ok(unknown) if unknown.is_empty() => {}
                Ok(unknown) => strict.push(format!(
                    "{place}: strict decoding error: decoding args for plugin {}: strict decoding error: {}",
                    config.name,
                    unknown.join(", ")
                )),
                Err(error) => return Err(format!("{place}: {error}")),
            }
        }
    }
    match strict.is_empty() {
        true => Ok(configuration),
        false => Err(format!("strict decoding error: {}", strict.join(", "))),
    }
}

fn unregistered(version: &str, kind: &str) -> String {
    format!("no kind {kind:?} is registered for version {version:?} in scheme {SCHEME:?}")
}

/// Returns the unknown fields in the arguments of a plugin.
fn check_arguments(config: &PluginConfig) -> Result<Vec<String>, String> {
    let name = &config.name;
    let known = ARGUMENTS.iter().find(|(own, _)| own == name);
    let Some((_, kind)) = known else {
        return Ok(Vec::new());
    };
    let Type::Struct(wanted, _) = kind else {
        unreachable!("arguments are structs");
    };
    let text = |field: &str| config.args.get(field).and_then(Value::as_str);
    let (version, found) = (
        text("apiVersion").unwrap_or(API_VERSION),
        text("kind").unwrap_or(wanted),
    );
    let is_registered = version == API_VERSION
        && ARGUMENTS
            .iter()
            .any(|(own, _)| found.strip_suffix("Args") == Some(own));
    if !is_registered {
        let error = unregistered(version, found);
        return Err(format!("decoding args for plugin {name}: {error}"));
    }
    if found != *wanted {
        return Err(format!(
            "args for plugin {name} were not of type {wanted}.{GROUP}, got {found}.{GROUP}"
        ));
    }
    let faults = kind.faults(&config.args);
    match faults.mismatch {
        Some(error) => Err(format!("decoding args for plugin {name}: {error}")),
        None => Ok(faults.unknown),
    }
}

/// Removes fields without a value, which count as absent.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => {
            items.retain(|item| !item.is_null());
            items.iter_mut().for_each(without_nulls);
        }
        _ => {}
    }
}
