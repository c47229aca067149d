//! The configuration of PodSecurity: the policy without labels, and what is exempt from any.
//!
//! Source: pod-security-admission `admission/api`.

use std::collections::BTreeSet;

use super::policy::{LEVELS, Level, Policy, Standard, VERSIONS, level, minor};
use crate::admission::attributes::Attributes;
use crate::json::Value;
use crate::meta::object::namespace;
use crate::meta::validation::{dns1123_label, dns1123_subdomain};
use crate::status::{FieldErrors, FieldPath};

/// The configuration of PodSecurity; by default, pods of namespaces without labels may do anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodSecurityConfiguration {
    pub(super) defaults: Policy,
    users: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    runtime_classes: BTreeSet<String>,
}

impl PodSecurityConfiguration {
    /// Reads a PodSecurityConfiguration.
    ///
    /// # Errors
    /// The faults of it, in upstream's words.
    pub(in crate::admission) fn read(configuration: &Value) -> Result<Self, String> {
        let mut errors = FieldErrors::new();
        let mut standard = |mode: &str| {
            let path = FieldPath::new("defaults");
            let stated = |field: &str| {
                let own = configuration["defaults"][field].as_str();
                own.filter(|own| !own.is_empty()).map(str::to_owned)
            };
            let own = stated(mode);
            let level = own.as_deref().map_or(Some(Level::Privileged), level);
            if let (None, Some(own)) = (level, own) {
                errors.invalid(&path.child(mode), &own.into(), LEVELS);
            }
            let mode = format!("{mode}-version");
            let own = stated(&mode);
            let minor = own.as_deref().map_or(Some(None), minor);
            if let (None, Some(own)) = (minor, own) {
                errors.invalid(&path.child(&mode), &own.into(), VERSIONS);
            }
            Standard {
                level: level.unwrap_or_default(),
                minor: minor.flatten(),
            }
        };
        let (enforce, warn, audit) = (standard("enforce"), standard("warn"), standard("audit"));
        let mut exempt = |field: &str, faults: &dyn Fn(&str) -> Vec<String>| {
            let mut names = BTreeSet::new();
            let stated = configuration["exemptions"][field].as_array();
            for (index, own) in stated.into_iter().flatten().enumerate() {
                let path = FieldPath::new("exemptions").child(field).index(index);
                let name = own.as_str().unwrap_or_default();
                let faults = faults(name);
                if !faults.is_empty() {
                    errors.invalid(&path, &name.into(), &faults.join(", "));
                } else if !names.insert(name.to_owned()) {
                    errors.duplicate(&path, own);
                }
            }
            names
        };
        let namespaces = exempt("namespaces", &dns1123_label);
        let runtime_classes = exempt("runtimeClasses", &dns1123_subdomain);
        let users = exempt("usernames", &|name| match name {
            "" => vec!["username must not be empty".to_owned()],
            _ => Vec::new(),
        });
        match errors.is_empty() {
            false => Err(format!("PodSecurity configuration error: {errors}")),
            true => Ok(Self {
                defaults: Policy {
                    enforce,
                    audit,
                    warn,
                },
                users,
                namespaces,
                runtime_classes,
            }),
        }
    }

    /// The reason why a write is exempt, as audit events name it: its namespace or its user.
    pub(super) fn exempts(&self, attributes: Attributes<'_>) -> Option<&'static str> {
        let user = attributes.user.map_or("", |user| user.name.as_str());
        if self.namespaces.contains(namespace(attributes.object)) {
            return Some("namespace");
        }
        self.users.contains(user).then_some("user")
    }

    /// Whether the runtime class of a pod is exempt.
    pub(super) fn exempts_class(&self, spec: &Value) -> bool {
        let class = spec["runtimeClassName"].as_str();
        class.is_some_and(|class| self.runtime_classes.contains(class))
    }

    /// The warning that the labels of an exempt namespace have no effect, if it has such labels;
    /// `None` for a namespace that is not exempt.
    pub(super) fn exemption(&self, namespace: &str, labels: &Value) -> Option<Option<String>> {
        if !self.namespaces.contains(namespace) {
            return None;
        }
        let (policy, _) = Policy::of(labels, &self.defaults);
        if policy.is_privileged() || policy == self.defaults {
            return Some(None);
        }
        let is_stated = |mode: &str| {
            ["", "-version"].iter().any(|suffix| {
                let label = format!("pod-security.kubernetes.io/{mode}{suffix}");
                labels.get(&label).is_some()
            })
        };
        let modes = [
            ("enforce", &policy.enforce),
            ("audit", &policy.audit),
            ("warn", &policy.warn),
        ];
        let modes = modes
            .into_iter()
            .filter(|(mode, standard)| standard.level != Level::Privileged && is_stated(mode));
        let modes: Vec<String> = modes.map(|(mode, own)| format!("{mode}={own}")).collect();
        Some(Some(format!(
            "namespace {namespace:?} is exempt from Pod Security, and the policy ({}) will be \
             ignored",
            modes.join(", ")
        )))
    }
}
