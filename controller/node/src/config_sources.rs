//! The ConfigMaps and Secrets from which a pod's containers are created.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Container, PodSpec, Secret};
use kube::{Api, Client};

use super::container_spec;

/// The kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SourceKind {
    ConfigMap,
    Secret,
}

/// The contents of ConfigMaps and Secrets by kind and name, without those that do not exist.
#[derive(Clone, Debug, Default)]
pub(super) struct ConfigSources(BTreeMap<(SourceKind, String), Data>);

/// The values of one object by key.
pub(super) type Data = BTreeMap<String, Vec<u8>>;

impl ConfigSources {
    /// Reads all sources that `spec` refers to.
    pub(super) async fn read(
        client: &Client,
        namespace: &str,
        spec: &PodSpec,
    ) -> Result<Self, kube::Error> {
        let mut read = BTreeMap::new();
        for (kind, name) in named(spec) {
            let data = match kind {
                SourceKind::ConfigMap => {
                    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
                    api.get_opt(&name).await?.map(config_map_data)
                }
                SourceKind::Secret => {
                    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
                    api.get_opt(&name).await?.map(secret_data)
                }
            };
            if let Some(data) = data {
                read.insert((kind, name), data);
            }
        }
        Ok(Self(read))
    }

    pub(super) fn get(&self, kind: SourceKind, name: &str) -> Option<&Data> {
        self.0.get(&(kind, name.to_owned()))
    }

    #[cfg(test)]
    pub(super) fn of(kind: SourceKind, name: &str, data: Data) -> Self {
        Self(BTreeMap::from([((kind, name.to_owned()), data)]))
    }
}

fn config_map_data(object: ConfigMap) -> Data {
    let text = object.data.unwrap_or_default().into_iter();
    let binary = object.binary_data.unwrap_or_default().into_iter();
    text.map(|(key, value)| (key, value.into_bytes()))
        .chain(binary.map(|(key, value)| (key, value.0)))
        .collect()
}

fn secret_data(object: Secret) -> Data {
    let data = object.data.unwrap_or_default().into_iter();
    data.map(|(key, value)| (key, value.0)).collect()
}

fn named(spec: &PodSpec) -> BTreeSet<(SourceKind, String)> {
    let mut names = BTreeSet::new();
    for volume in spec.volumes.iter().flatten() {
        if let Some(source) = &volume.config_map {
            names.insert((SourceKind::ConfigMap, source.name.clone()));
        }
        if let Some(name) = volume.secret.as_ref().and_then(|s| s.secret_name.as_ref()) {
            names.insert((SourceKind::Secret, name.clone()));
        }
    }
    for (_, container) in container_spec::containers(spec) {
        named_by_environment(&container, &mut names);
    }
    names
}

fn named_by_environment(container: &Container, names: &mut BTreeSet<(SourceKind, String)>) {
    for source in container.env_from.iter().flatten() {
        let map = source.config_map_ref.as_ref();
        names.extend(map.map(|map| (SourceKind::ConfigMap, map.name.clone())));
        let secret = source.secret_ref.as_ref();
        names.extend(secret.map(|secret| (SourceKind::Secret, secret.name.clone())));
    }
    let sources = container.env.iter().flatten();
    for source in sources.filter_map(|variable| variable.value_from.as_ref()) {
        let map = source.config_map_key_ref.as_ref();
        names.extend(map.map(|map| (SourceKind::ConfigMap, map.name.clone())));
        let secret = source.secret_key_ref.as_ref();
        names.extend(secret.map(|secret| (SourceKind::Secret, secret.name.clone())));
    }
}
