//! The configuration of admission plugins, as `--admission-control-config-file` has it.
//!
//! Source: apiserver `pkg/admission/config.go`, and the `config.go` of each plugin.

use std::collections::{BTreeMap, BTreeSet};

use super::enabled::AdmissionPlugins;
use super::optional::event_rate_limit::{Limit, LimitType};
use super::pod_security::PodSecurityConfiguration;
use crate::json::Value;
use crate::metrics::admission::Plugin;
use crate::status::{FieldErrors, FieldPath};
use crate::yaml::decode::Yaml;

const GROUP: &str = "apiserver.config.k8s.io";

/// The reason why a configuration of admission plugins cannot be used, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AdmissionConfigurationError(String);

/// The configuration of admission plugins.
#[derive(Clone, Debug, Default)]
pub struct AdmissionConfiguration {
    pub(crate) pod_security: PodSecurityConfiguration,
    /// The selectors of PodNodeSelector by namespace, and the one of the cluster.
    pub(crate) node_selectors: BTreeMap<String, String>,
    /// The tolerations that PodTolerationRestriction adds.
    pub(crate) default_tolerations: Vec<Value>,
    /// The tolerations that PodTolerationRestriction allows. An empty list allows all.
    pub(crate) allowed_tolerations: Vec<Value>,
    /// The limits of EventRateLimit.
    pub(crate) event_limits: Vec<Limit>,
    without_effect: BTreeSet<String>,
}

impl AdmissionConfiguration {
    /// Reads the text of a configuration file for the plugins that are on. `file` returns the text
    /// of a file that the configuration names by its path.
    ///
    /// # Errors
    /// The first fault, in upstream's words where they do not name types of Go.
    pub fn read(
        text: &str,
        plugins: AdmissionPlugins,
        file: impl Fn(&str) -> Result<String, String>,
    ) -> Result<Self, AdmissionConfigurationError> {
        let mut own = Self::default();
        for (name, configuration) in sections(text, plugins, file)? {
            let Some(plugin) = Plugin::named(&name).filter(|plugin| plugins.has(*plugin)) else {
                continue;
            };
            let read = own.configure(plugin, &configuration);
            read.map_err(|why| {
                let why = match plugin {
                    Plugin::PodSecurity => {
                        format!("failed to initialize admission plugin {name:?}: {why}")
                    }
                    _ => format!("couldn't init admission plugin {name:?}: {why}"),
                };
                AdmissionConfigurationError(why)
            })?;
        }
        Ok(own)
    }

    /// The plugins whose configuration has no effect on this server.
    pub fn without_effect(&self) -> impl Iterator<Item = &str> {
        self.without_effect.iter().map(String::as_str)
    }

    fn configure(&mut self, plugin: Plugin, configuration: &Value) -> Result<(), String> {
        match plugin {
            Plugin::PodSecurity => {
                kind_of(
                    configuration,
                    "PodSecurityConfiguration",
                    "pod-security.admission.config.k8s.io",
                    &["v1", "v1beta1", "v1alpha1"],
                )?;
                self.pod_security = PodSecurityConfiguration::read(configuration)?;
            }
            Plugin::PodNodeSelector => {
                let selectors = configuration["podNodeSelectorPluginConfig"].as_object();
                let selectors = selectors.into_iter().flatten();
                self.node_selectors = selectors
                    .map(|(namespace, own)| (namespace.to_string(), text(own).to_owned()))
                    .collect();
            }
            Plugin::PodTolerationRestriction => {
                let group = "podtolerationrestriction.admission.k8s.io";
                kind_of(configuration, "Configuration", group, &["v1alpha1"])?;
                self.default_tolerations = list(&configuration["default"]).to_vec();
                self.allowed_tolerations = list(&configuration["whitelist"]).to_vec();
            }
            Plugin::EventRateLimit => {
                let group = "eventratelimit.admission.k8s.io";
                kind_of(configuration, "Configuration", group, &["v1alpha1"])?;
                self.event_limits = limits(configuration)?;
            }
            other => {
                self.without_effect.insert(other.as_str().to_owned());
            }
        }
        Ok(())
    }
}

/// The configurations in the file, by plugin.
fn sections(
    text_of_file: &str,
    plugins: AdmissionPlugins,
    file: impl Fn(&str) -> Result<String, String>,
) -> Result<Vec<(String, Value)>, AdmissionConfigurationError> {
    let fault =
        |why: String| AdmissionConfigurationError(format!("failed to read plugin config: {why}"));
    let whole = parse(text_of_file).map_err(fault)?;
    if let Err(why) = kind_of(&whole, "AdmissionConfiguration", GROUP, &["v1", "v1alpha1"]) {
        // A file may be the configuration of one plugin, as it was before there were several.
        let plugin = ["imagePolicy", "podNodeSelectorPluginConfig"]
            .into_iter()
            .zip([Plugin::ImagePolicyWebhook, Plugin::PodNodeSelector]);
        let named = |(key, _): &(&str, Plugin)| !whole[*key].is_null();
        return match plugin.clone().any(|own| named(&own)) {
            false => Err(fault(why)),
            true => Ok(plugin
                .filter(|(_, plugin)| plugins.has(*plugin))
                .map(|(_, plugin)| (plugin.as_str().to_owned(), whole.clone()))
                .collect()),
        };
    }
    let mut sections = Vec::new();
    for plugin in list(&whole["plugins"]) {
        let (name, path) = (text(&plugin["name"]), text(&plugin["path"]));
        let is_first = !sections.iter().any(|(other, _)| other == name);
        let configuration = match &plugin["configuration"] {
            Value::Null if path.is_empty() => continue,
            Value::Null => {
                let text = file(path).map_err(AdmissionConfigurationError)?;
                parse(&text).map_err(AdmissionConfigurationError)?
            }
            configuration => configuration.clone(),
        };
        if is_first {
            sections.push((name.to_owned(), configuration));
        }
    }
    Ok(sections)
}

fn parse(text: &str) -> Result<Value, String> {
    let documents = Yaml::documents(text)?;
    let first = documents.into_iter().next();
    Ok(first.map(|(value, _)| value).unwrap_or_default())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Checks the kind and version of a configuration.
fn kind_of(object: &Value, kind: &str, group: &str, versions: &[&str]) -> Result<(), String> {
    let (own, api_version) = (text(&object["kind"]), text(&object["apiVersion"]));
    let shown = serde_json::to_string(object).unwrap_or_default();
    if own.is_empty() {
        return Err(format!("Object 'Kind' is missing in '{shown}'"));
    }
    if api_version.is_empty() {
        return Err(format!("Object 'apiVersion' is missing in '{shown}'"));
    }
    let mut names = versions.iter().map(|version| format!("{group}/{version}"));
    match own == kind && names.any(|name| name == api_version) {
        true => Ok(()),
        false => Err(format!(
            "no kind {own:?} is registered for version {api_version:?}"
        )),
    }
}

/// The limits of EventRateLimit.
fn limits(configuration: &Value) -> Result<Vec<Limit>, String> {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("limits");
    let stated = list(&configuration["limits"]);
    if stated.is_empty() {
        return Err("limits: Invalid value: []: must not be empty".to_owned());
    }
    let mut limits = Vec::new();
    for (index, limit) in stated.iter().enumerate() {
        let path = path.index(index);
        let mut types = LimitType::ALL.into_iter();
        let limit_type = types.find(|own| limit["type"] == own.as_str());
        if limit_type.is_none() {
            let names = LimitType::ALL.map(LimitType::as_str);
            errors.not_supported(&path.child("type"), &limit["type"], &names);
        }
        let mut positive = |field: &str| {
            let own = limit[field]
                .as_u64()
                .and_then(|own| u32::try_from(own).ok());
            let own = own.filter(|own| *own > 0);
            if own.is_none() {
                let value = limit[field].as_i64().unwrap_or(0).into();
                errors.invalid(&path.child(field), &value, "must be positive");
            }
            own.unwrap_or_default()
        };
        let (burst, qps) = (positive("burst"), positive("qps"));
        let size = limit["cacheSize"].as_i64().unwrap_or(0);
        if size < 0 && limit_type != Some(LimitType::Server) {
            let detail = "must not be negative";
            errors.invalid(&path.child("cacheSize"), &size.into(), detail);
        }
        limits.extend(limit_type.map(|limit_type| Limit {
            limit_type,
            qps,
            burst,
            cache_size: usize::try_from(size).unwrap_or(0),
        }));
    }
    match errors.is_empty() {
        true => Ok(limits),
        false => Err(errors.to_string()),
    }
}
