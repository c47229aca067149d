//! Which built-in APIs a server serves, as `--runtime-config` chooses them.
//!
//! Source: apiserver `pkg/server/options/api_enablement.go`,
//! `pkg/server/resourceconfig/helpers.go`, `pkg/controlplane/instance.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::meta::{GroupVersion, GroupVersionResource};
use crate::registry::catalog::Catalog;

/// The versions that a cluster serves if asked. This server has none of their kinds.
const OFF: [&str; 18] = [
    "admissionregistration.k8s.io/v1alpha1",
    "admissionregistration.k8s.io/v1beta1",
    "authentication.k8s.io/v1alpha1",
    "authentication.k8s.io/v1beta1",
    "certificates.k8s.io/v1alpha1",
    "certificates.k8s.io/v1beta1",
    "coordination.k8s.io/v1alpha2",
    "coordination.k8s.io/v1beta1",
    "internal.apiserver.k8s.io/v1alpha1",
    "networking.k8s.io/v1beta1",
    "resource.k8s.io/v1alpha3",
    "resource.k8s.io/v1beta1",
    "resource.k8s.io/v1beta2",
    "scheduling.k8s.io/v1alpha2",
    "storage.k8s.io/v1alpha1",
    "storage.k8s.io/v1beta1",
    "storagemigration.k8s.io/v1beta1",
    "imagepolicy.k8s.io/v1alpha1",
];

/// The versions that a cluster knows and serves nothing of.
const EMPTY: [&str; 21] = [
    "apps/v1beta1",
    "apps/v1beta2",
    "authorization.k8s.io/v1beta1",
    "autoscaling/v2beta1",
    "autoscaling/v2beta2",
    "batch/v1beta1",
    "discovery.k8s.io/v1beta1",
    "events.k8s.io/v1beta1",
    "extensions/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta2",
    "flowcontrol.apiserver.k8s.io/v1beta3",
    "node.k8s.io/v1alpha1",
    "node.k8s.io/v1beta1",
    "policy/v1beta1",
    "rbac.authorization.k8s.io/v1alpha1",
    "rbac.authorization.k8s.io/v1beta1",
    "scheduling.k8s.io/v1alpha1",
    "scheduling.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1beta1",
    "apiregistration.k8s.io/v1beta1",
];

/// The keys for many versions at once, in the order in which they count.
const MATCHERS: [(&str, Option<&str>); 4] = [
    ("api/all", None),
    ("api/ga", Some("")),
    ("api/beta", Some("beta")),
    ("api/alpha", Some("alpha")),
];

/// Which built-in APIs are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeConfig {
    /// Versions whose setting differs from the default.
    versions: BTreeMap<String, bool>,
    /// Resources that are set by themselves, as `group/version/resource`.
    resources: BTreeMap<String, bool>,
}

impl RuntimeConfig {
    /// Reads the settings, by key; an empty value is `true` but for the keys that begin with `api/`.
    ///
    /// # Errors
    /// Each fault, in upstream's words.
    pub fn read(settings: &BTreeMap<String, String>) -> Result<Self, Vec<String>> {
        let settings = &normalized(settings);
        if settings.len() == 1 && settings.get("api/all").is_some_and(|own| own == "false") {
            return Err(vec![
                "invalid runtime-config with only api/all=false".to_owned(),
            ]);
        }
        let served = served();
        let is_known = |version: &str| {
            let others = OFF.iter().chain(&EMPTY);
            served.contains(version) || others.into_iter().any(|own| *own == version)
        };
        let group_of = |version: &str| {
            version
                .rsplit_once('/')
                .map_or("", |(group, _)| group)
                .to_owned()
        };
        let all = served.iter().map(String::as_str);
        let groups: BTreeSet<String> = all.chain(OFF).chain(EMPTY).map(group_of).collect();
        let mut unknown = BTreeSet::new();
        let mut keys = Vec::new();
        for key in settings.keys().filter(|key| !is_matcher(key)) {
            let parts: Vec<&str> = key.split('/').collect();
            let (version, resource) = match parts.as_slice() {
                [group, version] => (format!("{group}/{version}"), None),
                [group, version, resource] => (format!("{group}/{version}"), Some(*resource)),
                _ => return Err(vec![format!("runtime-config invalid key {key}")]),
            };
            if !groups.contains(&group_of(&version)) {
                unknown.insert(version.clone());
            }
            keys.push((key, version, resource));
        }
        if !unknown.is_empty() {
            let unknown: Vec<String> = unknown.into_iter().collect();
            return Err(vec![format!("unknown api groups {}", unknown.join(","))]);
        }
        let mut own = Self::default();
        let fault = |why: String| vec![why];
        for (key, stage) in MATCHERS {
            let is_on = match settings.get(key).map(String::as_str) {
                None => continue,
                Some("true") => true,
                Some("false") => false,
                Some(value) => return Err(fault(format!("invalid value {key}={value}"))),
            };
            let all = served.iter().map(String::as_str).chain(OFF);
            let matching = all.filter(|own| stage.is_none_or(|stage| stage_of(own) == stage));
            own.versions
                .extend(matching.map(|version| (version.to_owned(), is_on)));
        }
        for (key, version, resource) in keys {
            if !is_known(&version) {
                let version = version.strip_prefix('/').unwrap_or(&version);
                let why = format!("group version {version} that has not been registered");
                return Err(fault(why));
            }
            let is_on = value_of(key, &settings[key]).map_err(fault)?;
            match resource {
                None => {
                    own.versions.insert(version, is_on);
                }
                Some(resource) if resource.to_lowercase() != resource => {
                    return Err(fault(format!(
                        "invalid key {key}: group/version/resource and resource is always \
                         lowercase plural, not {resource:?}"
                    )));
                }
                Some(_) => {
                    own.resources.insert(key.clone(), is_on);
                }
            }
        }
        own.versions
            .retain(|version, is_on| *is_on != served.contains(version));
        Ok(own)
    }

    /// The resources of `builtin` that are served.
    pub(crate) fn served(&self, builtin: &Arc<Catalog>) -> Arc<Catalog> {
        match self.versions.is_empty() && self.resources.is_empty() {
            true => Arc::clone(builtin),
            false => Arc::new(builtin.only(|own| self.serves(own))),
        }
    }

    fn serves(&self, gvr: &GroupVersionResource) -> bool {
        let version = format!("{}/{}", gvr.group, gvr.version);
        let resource = format!("{version}/{}", gvr.resource);
        let own = self.resources.get(&resource).copied();
        own.unwrap_or_else(|| self.versions.get(&version).copied().unwrap_or(true))
    }

    /// The versions and resources that are on and that this server does not have.
    #[must_use]
    pub fn without_effect(&self) -> Vec<&str> {
        let served = served();
        let all = self.versions.iter().chain(&self.resources);
        let on = all
            .filter(|(_, is_on)| **is_on)
            .map(|(key, _)| key.as_str());
        let is_absent = |key: &&str| {
            let mut parts = key.split('/');
            let version = [parts.next(), parts.next()].map(Option::unwrap_or_default);
            let version = version.join("/");
            !served.contains(&version) && !EMPTY.contains(&version.as_str())
        };
        on.filter(is_absent).collect()
    }
}

/// The versions of the built-in resources, each as `group/version`.
fn served() -> BTreeSet<String> {
    let versions = Catalog::builtin().groups().iter();
    let versions = versions.flat_map(|group| &group.versions);
    let text = |own: &GroupVersion| format!("{}/{}", own.group, own.version);
    versions.map(|own| text(&own.group_version)).collect()
}

/// The settings under the keys of today: `v1` and `api/v1` are the core group, and `api/legacy` has no meaning left.
fn normalized(settings: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let kept = settings.iter().filter(|(key, _)| *key != "api/legacy");
    let renamed = kept.map(|(key, value)| {
        let old = key.strip_prefix("api/").unwrap_or(key);
        let is_core = old == "v1" || old.starts_with("v1/");
        let key = if is_core {
            format!("/{old}")
        } else {
            key.clone()
        };
        (key, value.clone())
    });
    renamed.collect()
}

fn is_matcher(key: &str) -> bool {
    MATCHERS.iter().any(|(own, _)| *own == key)
}

/// `alpha`, `beta` or nothing.
fn stage_of(version: &str) -> &str {
    let name = version.rsplit('/').next().unwrap_or_default();
    let name = name
        .trim_start_matches('v')
        .trim_matches(|own: char| own.is_ascii_digit());
    match name {
        "alpha" => "alpha",
        "beta" => "beta",
        _ => "",
    }
}

fn value_of(key: &str, value: &str) -> Result<bool, String> {
    match value {
        "" | "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        value => Err(format!(
            "invalid value of {key}: {value}, err: strconv.ParseBool: parsing {value:?}: invalid \
             syntax"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(settings: &[(&str, &str)]) -> Result<RuntimeConfig, Vec<String>> {
        let settings = settings.iter();
        let settings = settings.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        RuntimeConfig::read(&settings.collect())
    }

    #[test]
    fn faults_are_in_upstreams_words() {
        for (key, value, expected) in [
            (
                "api/all",
                "false",
                "invalid runtime-config with only api/all=false",
            ),
            ("api/ga", "no", "invalid value api/ga=no"),
            ("a", "true", "runtime-config invalid key a"),
            ("api/a", "true", "unknown api groups api/a"),
            ("a.example/v1", "true", "unknown api groups a.example/v1"),
            (
                "apps/v9",
                "true",
                "group version apps/v9 that has not been registered",
            ),
            (
                "apps/v1",
                "no",
                "invalid value of apps/v1: no, err: strconv.ParseBool: parsing \"no\": invalid \
                 syntax",
            ),
            (
                "apps/v1/Deployments",
                "true",
                "invalid key apps/v1/Deployments: group/version/resource and resource is always \
                 lowercase plural, not \"Deployments\"",
            ),
        ] {
            assert_eq!(read(&[(key, value)]).unwrap_err(), [expected]);
        }
    }

    #[test]
    fn what_is_on_and_absent_is_without_effect() {
        let config = read(&[("api/beta", "true"), ("apps/v1beta1", "true")]).unwrap();
        let absent = config.without_effect();
        assert!(absent.contains(&"resource.k8s.io/v1beta1"), "{absent:?}");
        assert!(
            !absent
                .iter()
                .any(|own| own.contains("alpha") || own.starts_with("apps"))
        );
        let ga = read(&[("api/ga", "true"), ("/v1", "true")]).unwrap();
        assert_eq!(ga, RuntimeConfig::default());
    }

    #[test]
    fn old_keys_are_read_as_those_of_today() {
        let core = read(&[("/v1", "false")]).unwrap();
        for key in ["v1", "api/v1"] {
            assert_eq!(read(&[(key, "false")]).unwrap(), core, "{key}");
        }
        let secrets = read(&[("/v1/secrets", "false")]).unwrap();
        assert_eq!(read(&[("api/v1/secrets", "false")]).unwrap(), secrets);
        let nothing = read(&[("api/legacy", "false")]).unwrap();
        assert_eq!(nothing, RuntimeConfig::default());
    }

    #[test]
    fn a_resource_counts_more_than_its_version() {
        let config = read(&[
            ("api/all", "false"),
            ("/v1", "true"),
            ("apps/v1/deployments", "true"),
            ("/v1/secrets", "false"),
        ]);
        let config = config.unwrap();
        let serves = |group: &str, resource: &str| {
            config.serves(&GroupVersionResource {
                group: group.to_owned(),
                version: "v1".to_owned(),
                resource: resource.to_owned(),
            })
        };
        assert!(serves("", "pods") && serves("apps", "deployments"));
        assert!(!serves("", "secrets") && !serves("apps", "statefulsets"));
        assert!(!serves("batch", "jobs"));
    }
}
