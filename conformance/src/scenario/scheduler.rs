//! The configuration of the simulated scheduler in a scenario: inline, or a file.

use kubeproof_machinery::json::Value;
use kubeproof_node::SchedulerConfig;
use schemars::JsonSchema;
use serde::Deserialize;

/// A KubeSchedulerConfiguration of `kubescheduler.config.k8s.io/v1`.
///
/// Written inline, or as the path of a file, relative to the scenario's file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(try_from = "Value")]
#[schemars(with = "serde_json::Value")]
pub struct SchedulerConfiguration {
    file: Option<String>,
    read: SchedulerConfig,
}

impl TryFrom<Value> for SchedulerConfiguration {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        if let Value::String(file) = value {
            return Ok(Self {
                file: Some(file.to_string()),
                read: SchedulerConfig::default(),
            });
        }
        let read = SchedulerConfig::parse(&value.to_string());
        Ok(Self {
            file: None,
            read: read.map_err(|error| error.to_string())?,
        })
    }
}

impl SchedulerConfiguration {
    /// Takes the configuration out of the file that it names, of which `read` knows the text.
    pub(super) fn load(
        &mut self,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<(), String> {
        if let Some(file) = &self.file {
            let config = SchedulerConfig::parse(&read(file)?);
            self.read = config.map_err(|error| format!("{file}: {error}"))?;
        }
        Ok(())
    }

    /// Returns the configuration in the form that the scheduler uses.
    #[must_use]
    pub fn read(&self) -> &SchedulerConfig {
        &self.read
    }
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::*;

    const TEXT: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                        profiles: [{schedulerName: mine}]";

    fn names(config: &SchedulerConfiguration) -> Vec<&str> {
        config.read().profile_names().collect()
    }

    #[test]
    fn a_configuration_is_inline_or_in_a_file() {
        let mut of_file = SchedulerConfiguration::try_from(json!("profiles.yaml")).unwrap();
        let mut read = |file: &str| match file {
            "profiles.yaml" => Ok(TEXT.to_owned()),
            _ => Err("there is no such file".to_owned()),
        };
        of_file.load(&mut read).unwrap();
        assert_eq!(names(&of_file), ["mine"]);
        let mut inline = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        });
        let read = SchedulerConfiguration::try_from(inline.clone()).unwrap();
        assert_eq!(names(&read), ["default-scheduler"]);
        inline["profile"] = json!([]);
        let refused = SchedulerConfiguration::try_from(inline).unwrap_err();
        assert_eq!(refused, "strict decoding error: unknown field \"profile\"");
    }
}
