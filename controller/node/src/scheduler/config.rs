//! The configuration of the simulated scheduler: a `KubeSchedulerConfiguration`, as kube-scheduler
//! reads it with `--config`.
//!
//! Source: `pkg/scheduler/apis/config`, and `pkg/scheduler/profile`.

mod arguments;
mod decode;
mod plugins;
#[cfg(test)]
mod tests;
mod types;

use kubeproof_machinery::json::{Value, json};
use kubeproof_machinery::status::{FieldErrors, FieldPath, aggregate};

use crate::fit::{Arguments, Plugin, Point, Profile};
use decode::{API_VERSION, Configuration, ProfileSpec};
use plugins::{MULTI_POINT, expand, field_of};

/// The version that upstream names where it refuses plugins.
const VERSION: &str = "v1";
/// Plugins of earlier versions.
const REMOVED: &[&str] = &[
    "AzureDiskLimits",
    "CinderLimits",
    "EBSLimits",
    "GCEPDLimits",
];

/// The profiles of the simulated scheduler. By default there is one, `default-scheduler`, with the
/// plugins of a kube-scheduler that has no configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerConfig {
    source: String,
    profiles: Vec<Profile>,
    warnings: Vec<String>,
}

/// The reason why kube-scheduler refuses a configuration, in its words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadSchedulerConfig(String);

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self {
            source: String::new(),
            profiles: vec![Profile::default()],
            warnings: Vec::new(),
        }
    }
}

impl SchedulerConfig {
    /// Reads a `KubeSchedulerConfiguration` of `kubescheduler.config.k8s.io/v1`, in YAML or JSON.
    ///
    /// # Errors
    ///
    /// [`BadSchedulerConfig`] for what kube-scheduler refuses: unknown fields, wrong types, profiles
    /// of one name or without a name, unknown plugins, invalid arguments.
    pub fn parse(text: &str) -> Result<Self, BadSchedulerConfig> {
        let mut configuration = decode::read(text).map_err(BadSchedulerConfig)?;
        if configuration.profiles.is_empty() {
            configuration.profiles.push(ProfileSpec::default());
        }
        if let [only] = configuration.profiles.as_mut_slice() {
            let name = &mut only.scheduler_name;
            name.get_or_insert_with(|| super::SCHEDULER_NAME.to_owned());
        }
        if let Some(faults) = faults(&configuration) {
            return Err(BadSchedulerConfig(faults));
        }
        let percentage = configuration.percentage_of_nodes_to_score;
        let profiles = configuration.profiles.iter();
        let profiles = profiles.map(|spec| profile(spec, percentage));
        let profiles: Result<Vec<Profile>, String> = profiles.collect();
        Ok(Self {
            source: text.to_owned(),
            profiles: profiles.map_err(BadSchedulerConfig)?,
            warnings: without_effect(&configuration),
        })
    }

    /// Returns the text that the configuration was read from; empty for the default.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the names of the profiles, which pods name as their `schedulerName`.
    pub fn profile_names(&self) -> impl Iterator<Item = &str> {
        self.profiles.iter().map(|profile| &*profile.name)
    }

    /// Returns a sentence about each part of the configuration that has no effect here, although it
    /// would change what a kube-scheduler does.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub(super) fn into_profiles(self) -> Vec<Profile> {
        self.profiles
    }
}

/// Returns the faults of the configuration (`ValidateKubeSchedulerConfiguration`).
fn faults(configuration: &Configuration) -> Option<String> {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new;
    let parallelism = configuration.parallelism.unwrap_or(16);
    if parallelism <= 0 {
        let detail = "should be an integer value greater than zero";
        errors.invalid(&path("parallelism"), &json!(parallelism), detail);
    }
    let names = |profile: &ProfileSpec| profile.scheduler_name.clone().unwrap_or_default();
    for (index, profile) in configuration.profiles.iter().enumerate() {
        let path = path("profiles").index(index);
        validate_profile(profile, &path, &mut errors);
        let mut before = configuration.profiles[..index].iter();
        if before.any(|other| names(other) == names(profile)) {
            // Upstream means to name the first of the two, but a path has no JSON.
            errors.duplicate(&path.child("schedulerName"), &json!({}));
        }
    }
    validate_queue_sort(&configuration.profiles, &mut errors);
    validate_percentage(
        configuration.percentage_of_nodes_to_score,
        &path("percentageOfNodesToScore"),
        &mut errors,
    );
    let initial = configuration.pod_initial_backoff_seconds.unwrap_or(1);
    let most = configuration.pod_max_backoff_seconds.unwrap_or(10);
    if initial <= 0 {
        let path = path("podInitialBackoffSeconds");
        errors.invalid(&path, &json!(initial), "must be greater than 0");
    }
    if most < initial {
        let detail = "must be greater than or equal to PodInitialBackoffSeconds";
        errors.invalid(&path("podMaxBackoffSeconds"), &json!(most), detail);
    }
    let causes = errors.causes().iter();
    aggregate(causes.map(|cause| format!("{}: {}", cause.field, cause.message)))
}

fn validate_percentage(percentage: Option<i32>, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(percentage) = percentage.filter(|own| !(0..=100).contains(own)) {
        errors.invalid(path, &json!(percentage), "not in valid range [0-100]");
    }
}

fn validate_profile(profile: &ProfileSpec, path: &FieldPath, errors: &mut FieldErrors) {
    if profile
        .scheduler_name
        .as_deref()
        .unwrap_or_default()
        .is_empty()
    {
        errors.required(&path.child("schedulerName"), "");
    }
    let percentage = path.child("percentageOfNodesToScore");
    validate_percentage(profile.percentage_of_nodes_to_score, &percentage, errors);
    let removed = |name: &str| {
        let detail = format!(
            "was invalid in version {VERSION:?} (KubeSchedulerConfiguration is version {API_VERSION:?})"
        );
        REMOVED.contains(&name).then_some(detail)
    };
    for point in Point::ALL {
        let field = field_of(point);
        let enabled = profile.plugins.get(&field).map(|set| &set.enabled);
        for (index, plugin) in enabled.into_iter().flatten().enumerate() {
            if let Some(detail) = removed(&plugin.name) {
                let path = path
                    .child("plugins")
                    .child(&field)
                    .child("enabled")
                    .index(index);
                errors.invalid(&path, &json!(plugin.name), &detail);
            }
        }
    }
    for (index, config) in profile.plugin_config.iter().enumerate() {
        let path = path.child("pluginConfig").index(index);
        let mut before = profile.plugin_config[..index].iter();
        if before.any(|other| other.name == config.name) {
            errors.duplicate(&path, &json!(config.name));
        }
        match removed(&config.name) {
            Some(detail) => errors.invalid(&path, &json!(config.name), &detail),
            None => {
                let path = path.child("args");
                errors.extend(arguments::validate(&config.name, &config.args, &path));
            }
        }
    }
}

/// All profiles share one queue, so they have to sort it in the same way.
fn validate_queue_sort(profiles: &[ProfileSpec], errors: &mut FieldErrors) {
    let field = field_of(Point::QueueSort);
    let of = |profile: &ProfileSpec| profile.plugins.get(&field).cloned().unwrap_or_default();
    let first = profiles.first().map(&of).unwrap_or_default();
    let path = FieldPath::new("profiles");
    if first.enabled.len() > 1 {
        let detail = "only one queue sort plugin can be enabled";
        let path = path.index(0).child("plugins.queueSort.Enabled");
        errors.invalid(&path, &json!(first.enabled.len()), detail);
    }
    for (index, profile) in profiles.iter().enumerate().skip(1) {
        let own = of(profile);
        if own != first {
            let list = |entries: &[decode::PluginEntry]| match entries {
                [] => Value::Null,
                entries => entries
                    .iter()
                    .map(|entry| json!({ "Name": entry.name, "Weight": entry.weight }))
                    .collect(),
            };
            let shown = json!({ "Enabled": list(&own.enabled), "Disabled": list(&own.disabled) });
            let path = path.index(index).child("plugins.queueSort");
            errors.invalid(&path, &shown, "must be the same for all profiles");
        }
    }
}

/// Sets up a profile.
///
/// # Errors
///
/// kube-scheduler's message if a plugin cannot be set up.
fn profile(spec: &ProfileSpec, percentage: Option<i32>) -> Result<Profile, String> {
    let name = spec.scheduler_name.clone().unwrap_or_default();
    let failed = |error: String| {
        format!("initializing profiles: creating profile for scheduler name {name}: {error}")
    };
    let expanded = expand(&name, &spec.plugins);
    let mut given = Arguments::default();
    for config in &spec.plugin_config {
        let is_fit = config.name == Plugin::NodeResourcesFit.name();
        let faults = match is_fit {
            true => arguments::validate_fit(&config.args),
            false => FieldErrors::new(),
        };
        // Upstream looks at the arguments of plugins that run, before it asks where they run.
        if !faults.is_empty()
            && expanded
                .as_ref()
                .is_ok_and(|own| own.needed.contains(&config.name))
        {
            let plugin = &config.name;
            return Err(failed(format!("initializing plugin {plugin:?}: {faults}")));
        }
        arguments::apply(&config.name, &config.args, &mut given);
    }
    let expanded = expanded.map_err(failed)?;
    let percentage = spec.percentage_of_nodes_to_score.or(percentage);
    Ok(Profile {
        pre_filter: expanded.at(Point::PreFilter),
        filter: expanded.at(Point::Filter),
        post_filter: expanded.at(Point::PostFilter),
        score: expanded.score,
        percentage_of_nodes_to_score: percentage.and_then(|own| own.try_into().ok()).unwrap_or(0),
        arguments: given,
        name,
    })
}

/// Returns the parts that have no effect, in sentences.
fn without_effect(configuration: &Configuration) -> Vec<String> {
    let mut parts = Vec::new();
    if !configuration.extenders.is_empty() {
        parts.push("extenders".to_owned());
    }
    for (index, profile) in configuration.profiles.iter().enumerate() {
        for (field, set) in &profile.plugins {
            let mut points = Point::ALL.into_iter().filter(|own| own.has_effect());
            let is_empty = set.enabled.is_empty() && set.disabled.is_empty();
            if field != MULTI_POINT && !is_empty && points.all(|own| field_of(own) != *field) {
                parts.push(format!("profiles[{index}].plugins.{field}"));
            }
        }
        for (number, config) in profile.plugin_config.iter().enumerate() {
            if !arguments::have_effect(&config.name) {
                let name = &config.name;
                parts.push(format!("profiles[{index}].pluginConfig[{number}] ({name})"));
            }
        }
    }
    let sentences = parts.into_iter();
    sentences
        .map(|part| format!("without effect in the scheduler's configuration: {part}"))
        .collect()
}
