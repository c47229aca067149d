//! The environment of a container from its pod's spec: program, variables, files.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container as Spec, EnvVarSource, KeyToPath, ObjectFieldSelector, Volume as PodVolume,
};
use kubeproof_runtime::clock::Now;
use kubeproof_runtime::pod::Pod;

use super::config_sources::{ConfigSources, Data, SourceKind};
use super::container::{Container, FileSystem, Volume, absolute, default_variables, is_program};
use super::identity;
use super::image::Image;
use super::small_map::SmallMap;
use super::start_error::start_error;

/// The known files of images: a part of the image's name, a path, and the file's content.
const PAGES: &[(&str, &str, &str)] = &[
    (
        "httpd",
        "/usr/local/apache2/htdocs/index.html",
        "<html><body><h1>It works!</h1></body></html>\n",
    ),
    (
        "nginx",
        "/usr/share/nginx/html/index.html",
        "<!DOCTYPE html>\n<html>\n<head>\n<title>Welcome to nginx!</title>\n</head>\n<body>\n\
         <h1>Welcome to nginx!</h1>\n</body>\n</html>\n",
    ),
    // The file that the probes of Kubernetes' own tests ask for.
    (
        "agnhost",
        "/localhost.crt",
        "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
    ),
];

/// The reason why a container can't be created, with the message of upstream's events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Missing {
    /// A ConfigMap or Secret that is not optional does not exist.
    #[error("{kind} \"{name}\" not found")]
    Object { kind: &'static str, name: String },
    /// The ConfigMap or Secret lacks the key.
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    Key {
        kind: &'static str,
        namespace: String,
        name: String,
        key: String,
    },
    /// A volume can't be mounted.
    #[error("MountVolume.SetUp failed for volume \"{volume}\" : {cause}")]
    Volume { volume: String, cause: Box<Self> },
    /// The pod may not use one of its ResourceClaims.
    #[error("Failed to prepare dynamic resources: prepare dynamic resources: {0}")]
    Devices(String),
}

impl Missing {
    /// The reason of the event about a pod that cannot start.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Devices(_) => "FailedPrepareDynamicResources",
            Self::Object { .. } | Self::Key { .. } | Self::Volume { .. } => "FailedMount",
        }
    }
}

/// The inputs from which containers of one pod are created.
pub(super) struct Materials<'a> {
    pub(super) pod: &'a Pod,
    pub(super) sources: &'a ConfigSources,
    /// The pod's volumes by name.
    pub(super) volumes: &'a SmallMap<Volume>,
    pub(super) host_ip: &'a str,
    pub(super) pod_ip: &'a str,
    pub(super) now: &'a Now,
}

/// A container that is ready to start.
pub(super) struct Prepared {
    pub(super) container: Container,
    /// The command line of the main process; empty if only the image knows it.
    pub(super) argv: Vec<String>,
    /// The runtime's error if it cannot start the container.
    pub(super) start_error: Option<String>,
}

impl Materials<'_> {
    /// Creates the container of `spec` with its own file system.
    pub(super) fn prepare(&self, spec: &Spec) -> Result<Prepared, Missing> {
        let variables = self.variables(spec)?;
        let mounts = spec.volume_mounts.iter().flatten().filter_map(|mount| {
            let volume = self.volumes.get(mount.name.as_str())?;
            let expression = mount.sub_path_expr.as_ref().or(mount.sub_path.as_ref());
            let below = expression.map(|path| expand(path, &variables));
            let volume = match below.as_deref() {
                None | Some("") => volume.clone(),
                Some(below) => volume.below(below),
            };
            Some((mount.mount_path.clone(), volume))
        });
        let now = (self.now)();
        let image = spec.image.as_deref().unwrap_or_default();
        let pages = PAGES.iter().filter(|(name, ..)| image.contains(name));
        let pages = pages.map(|(_, path, page)| (*path, *page)).collect();
        let files = FileSystem::of_image(pages, mounts.collect()).seeded(self.seed(spec, now));
        let directory = spec.working_dir.as_deref().unwrap_or("/");
        files.make_directories(directory);
        let argv = argv(spec, &variables);
        let command = match argv.is_empty() {
            // The program of an image usually has the image's name.
            true => Image::parse(image).map_or_else(|_| String::new(), |own| own.name().to_owned()),
            false => argv.join(" "),
        };
        let defaults = default_variables(self.hostname());
        let own = variables.into_iter();
        let own = own.filter(|(name, value)| defaults.get(name) != Some(value));
        let container = Container {
            command: command.into(),
            files,
            hostname: self.hostname().into(),
            variables: own.map(|(name, value)| (name.into(), value)).collect(),
            directory: absolute("/", directory).into(),
            now: self.now.clone(),
            started: now,
            listeners: OnceLock::new(),
        };
        let mounts = spec.volume_mounts.iter().flatten();
        let mounts: Vec<String> = mounts.map(|mount| mount.mount_path.clone()).collect();
        let start_error = match (argv.first(), Image::parse(image)) {
            (Some(name), Ok(image)) => start_error(name, &image, &container, &mounts),
            _ => None,
        };
        Ok(Prepared {
            container,
            argv,
            start_error,
        })
    }

    /// Returns the seed of the randomness of one run of a container.
    fn seed(&self, spec: &Spec, now: Timestamp) -> u64 {
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        let time = now.as_nanosecond().to_string();
        identity::draw(&[uid, &spec.name, &time], u64::MAX)
    }

    fn hostname(&self) -> &str {
        let spec = self.pod.spec.as_ref();
        let own = spec.and_then(|spec| spec.hostname.as_deref());
        own.filter(|name| !name.is_empty())
            .or(self.pod.metadata.name.as_deref())
            .unwrap_or_default()
    }

    fn variables(&self, spec: &Spec) -> Result<BTreeMap<String, String>, Missing> {
        let mut variables = default_variables(self.hostname());
        for source in spec.env_from.iter().flatten() {
            let map = source.config_map_ref.as_ref();
            let map = map.map(|map| (SourceKind::ConfigMap, &map.name, map.optional));
            let secret = source.secret_ref.as_ref();
            let secret = secret.map(|own| (SourceKind::Secret, &own.name, own.optional));
            for (kind, name, optional) in map.into_iter().chain(secret) {
                let prefix = source.prefix.as_deref().unwrap_or_default();
                for (key, value) in self.data(kind, name, optional)?.into_iter().flatten() {
                    let value = String::from_utf8_lossy(value).into_owned();
                    variables.insert(format!("{prefix}{key}"), value);
                }
            }
        }
        for variable in spec.env.iter().flatten() {
            let value = match &variable.value_from {
                None => Some(expand(
                    variable.value.as_deref().unwrap_or_default(),
                    &variables,
                )),
                Some(source) => self.value(source)?,
            };
            if let Some(value) = value {
                variables.insert(variable.name.clone(), value);
            }
        }
        Ok(variables)
    }

    fn value(&self, source: &EnvVarSource) -> Result<Option<String>, Missing> {
        if let Some(field) = &source.field_ref {
            return Ok(Some(self.field(field)));
        }
        let map = source.config_map_key_ref.as_ref();
        let map = map.map(|map| (SourceKind::ConfigMap, &map.name, &map.key, map.optional));
        let secret = source.secret_key_ref.as_ref();
        let secret = secret.map(|own| (SourceKind::Secret, &own.name, &own.key, own.optional));
        let Some((kind, name, key, optional)) = map.or(secret) else {
            return Ok(None);
        };
        let Some(data) = self.data(kind, name, optional)? else {
            return Ok(None);
        };
        match data.get(key) {
            Some(value) => Ok(Some(String::from_utf8_lossy(value).into_owned())),
            None if optional == Some(true) => Ok(None),
            None => Err(Missing::Key {
                kind: match kind {
                    SourceKind::ConfigMap => "ConfigMap",
                    SourceKind::Secret => "Secret",
                },
                namespace: self.pod.metadata.namespace.clone().unwrap_or_default(),
                name: name.clone(),
                key: key.clone(),
            }),
        }
    }

    fn data(
        &self,
        kind: SourceKind,
        name: &str,
        optional: Option<bool>,
    ) -> Result<Option<&Data>, Missing> {
        match self.sources.get(kind, name) {
            Some(data) => Ok(Some(data)),
            None if optional == Some(true) => Ok(None),
            None => Err(Missing::Object {
                kind: match kind {
                    SourceKind::ConfigMap => "configmap",
                    SourceKind::Secret => "secret",
                },
                name: name.to_owned(),
            }),
        }
    }

    /// Returns a field of the pod by its `fieldPath`.
    fn field(&self, selector: &ObjectFieldSelector) -> String {
        let metadata = &self.pod.metadata;
        let spec = self.pod.spec.as_ref();
        let path = selector.field_path.as_str();
        if let Some((map, key)) = path
            .strip_suffix("']")
            .and_then(|path| path.split_once("['"))
        {
            let entries = match map {
                "metadata.labels" => metadata.labels.as_ref(),
                "metadata.annotations" => metadata.annotations.as_ref(),
                _ => None,
            };
            return entries
                .and_then(|entries| entries.get(key).cloned())
                .unwrap_or_default();
        }
        let value = match path {
            "metadata.name" => metadata.name.as_deref(),
            "metadata.namespace" => metadata.namespace.as_deref(),
            "metadata.uid" => metadata.uid.as_deref(),
            "spec.nodeName" => spec.and_then(|spec| spec.node_name.as_deref()),
            "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.as_deref()),
            "status.hostIP" | "status.hostIPs" => Some(self.host_ip),
            "status.podIP" | "status.podIPs" => Some(self.pod_ip),
            _ => None,
        };
        value.unwrap_or_default().to_owned()
    }

    /// Returns the content of a volume that API objects make up; empty for any other volume.
    pub(super) fn projected(&self, volume: &PodVolume) -> Result<Volume, Missing> {
        let files = Volume::default();
        let map = volume.config_map.as_ref();
        let map = map.map(|map| {
            (
                SourceKind::ConfigMap,
                map.name.as_str(),
                &map.items,
                map.optional,
            )
        });
        let secret = volume.secret.as_ref().map(|own| {
            let name = own.secret_name.as_deref().unwrap_or_default();
            (SourceKind::Secret, name, &own.items, own.optional)
        });
        for (kind, name, items, optional) in map.into_iter().chain(secret) {
            if let Some(data) = self.data(kind, name, optional)? {
                fill(&files, data, items.as_deref());
            }
        }
        Ok(files)
    }
}

/// Returns the command line of the main process; empty if only its image knows it.
fn argv(spec: &Spec, variables: &BTreeMap<String, String>) -> Vec<String> {
    let expanded = |words: &Option<Vec<String>>| -> Vec<String> {
        let words = words.iter().flatten();
        words.map(|word| expand(word, variables)).collect()
    };
    let (command, arguments) = (expanded(&spec.command), expanded(&spec.args));
    if !command.is_empty() {
        return [command, arguments].concat();
    }
    let image = Image::parse(spec.image.as_deref().unwrap_or_default());
    let default = image.ok().and_then(|image| image.command());
    match (arguments.first(), default) {
        (None, Some(program)) => vec![program.to_owned()],
        (Some(_), Some(_)) => arguments,
        // Most entrypoints run the program in their arguments.
        (Some(first), None) if is_program(first) => arguments,
        (_, None) => Vec::new(),
    }
}

/// Writes the keys in `items`, or all keys.
fn fill(volume: &Volume, data: &Data, items: Option<&[KeyToPath]>) {
    let files = volume.as_root();
    for (key, value) in data {
        let paths: Vec<&str> = match items {
            None => vec![key.as_str()],
            Some(items) => {
                let items = items.iter().filter(|item| item.key == *key);
                items.map(|item| item.path.as_str()).collect()
            }
        };
        for path in paths {
            let path = absolute("/", path);
            let directory = path
                .rsplit_once('/')
                .map_or("/", |(directory, _)| directory);
            files.make_directories(directory);
            // If two items name one path as a file and as a directory, the first wins.
            let _ = files.write(&path, value, false);
        }
    }
}

/// Replaces `$(NAME)` if the variable is defined; `$$` stands for a dollar sign.
fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let reference = rest.strip_prefix('(').and_then(|own| own.split_once(')'));
        match reference {
            Some((name, after)) => {
                match variables.get(name) {
                    Some(value) => out.push_str(value),
                    None => out.push_str(&format!("$({name})")),
                }
                rest = after;
            }
            None => out.push('$'),
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::HTTPGetAction;
    use kubeproof_machinery::json::{Value, json};
    use kubeproof_runtime::decode::from_value;

    use super::super::container::PATH;
    use super::super::server::{Answer, Server};
    use super::*;

    fn prepare(container: Value, sources: &ConfigSources) -> Result<Prepared, Missing> {
        let pod: Pod = from_value(json!({
            "metadata": {
                "name": "web-0", "namespace": "ns", "uid": "u", "labels": {"app": "web"},
            },
            "spec": {
                "nodeName": "node-1",
                "containers": [container],
                "volumes": [{"name": "config", "configMap": {
                    "name": "settings", "items": [{"key": "a", "path": "sub/a.txt"}]}}],
            },
        }))
        .unwrap();
        let now: Now = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
        let spec = pod.spec.as_ref().unwrap();
        let mut materials = Materials {
            pod: &pod,
            sources,
            volumes: &SmallMap::new(),
            host_ip: "172.18.0.2",
            pod_ip: "10.244.1.2",
            now: &now,
        };
        let volume = materials.projected(&spec.volumes.as_ref().unwrap()[0])?;
        let volumes = SmallMap::from_iter([("config".into(), volume)]);
        materials.volumes = &volumes;
        materials.prepare(&spec.containers[0])
    }

    fn settings() -> ConfigSources {
        let data = BTreeMap::from([("a".to_owned(), b"1".to_vec())]);
        ConfigSources::of(SourceKind::ConfigMap, "settings", data)
    }

    #[test]
    fn an_image_decides_what_runs_without_a_command() {
        for (image, command, args, argv) in [
            (
                "busybox:1.36",
                vec![],
                vec!["sh", "-c", "exit 3"],
                "sh -c exit 3",
            ),
            ("busybox", vec![], vec!["nc", "-l"], "nc -l"),
            ("alpine", vec![], vec![], "/bin/sh"),
            ("nginx", vec![], vec![], ""),
            (
                "nginx",
                vec![],
                vec!["/bin/sh", "-c", "true"],
                "/bin/sh -c true",
            ),
            ("nginx", vec![], vec!["-g", "daemon off;"], ""),
            ("nginx", vec!["x"], vec!["$(HOSTNAME)"], "x web-0"),
        ] {
            let spec = json!({"name": "main", "image": image, "command": command, "args": args});
            let prepared = prepare(spec, &settings()).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(prepared.argv.join(" "), argv, "{image} {args:?}");
        }
    }

    #[test]
    fn a_base_image_without_the_program_does_not_start() {
        for (image, command, directory, cause) in [
            (
                "busybox",
                "sdkfjk",
                "/",
                Some("executable file not found in $PATH"),
            ),
            (
                "busybox",
                "",
                "/",
                Some("executable file not found in $PATH"),
            ),
            (
                "busybox",
                "/bin/bash",
                "/",
                Some("stat /bin/bash: no such file or directory"),
            ),
            (
                "busybox",
                "./run",
                "/work",
                Some("stat ./run: no such file or directory"),
            ),
            ("busybox", "./run", "/etc/config", None),
            ("busybox", "/etc/config/run", "/", None),
            ("busybox", "/bin/httpd", "/", None),
            ("ubuntu", "bash", "/", None),
            (
                "alpine",
                "$(HOSTNAME)",
                "/",
                Some("executable file not found in $PATH"),
            ),
            ("nginx", "sdkfjk", "/", None),
            ("mine.io/own/busybox", "sdkfjk", "/", None),
        ] {
            let spec = json!({"name": "main", "image": image, "command": [command], "workingDir": directory,
                "volumeMounts": [{"name": "config", "mountPath": "/etc/config"}]});
            let prepared = prepare(spec, &settings()).unwrap_or_else(|error| panic!("{error}"));
            let name = command.replace("$(HOSTNAME)", "web-0");
            let message = cause.map(|cause| {
                format!(
                    "failed to create containerd task: failed to create shim task: OCI runtime create \
                     failed: runc create failed: unable to start container process: error during \
                     container init: exec: {name:?}: {cause}"
                )
            });
            assert_eq!(prepared.start_error, message, "{image} {command}");
        }
        let path = json!({"name": "main", "image": "busybox", "command": ["sdkfjk"],
            "env": [{"name": "PATH", "value": "/opt/bin"}]});
        let prepared = prepare(path, &settings()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(prepared.start_error, None);
    }

    #[test]
    fn references_are_expanded() {
        let variables = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        for (text, expanded) in [
            ("$(A)$(A)", "11"),
            ("$$(A) $A ${A}", "$(A) $A ${A}"),
            ("$(B) $(A", "$(B) $(A"),
            ("$", "$"),
        ] {
            assert_eq!(expand(text, &variables), expanded, "{text}");
        }
    }

    #[test]
    fn variables_come_from_values_fields_and_objects() {
        let spec = json!({
            "name": "main",
            "command": ["sh", "-c", "echo $(NAME)"],
            "args": ["$(LIST)"],
            "envFrom": [{"configMapRef": {"name": "settings"}, "prefix": "S_"}],
            "env": [
                {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "APP", "valueFrom": {"fieldRef": {
                    "fieldPath": "metadata.labels['app']"}}},
                {"name": "LIST", "value": "$(NAME),$(APP),$(S_a)"},
                {"name": "NONE", "valueFrom": {"secretKeyRef": {
                    "name": "none", "key": "k", "optional": true}}},
                {"name": "HOME", "value": "/srv"},
                {"name": "HOSTNAME", "value": "web"},
                {"name": "PATH", "value": PATH},
            ],
        });
        let prepared = prepare(spec, &settings()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(prepared.argv, ["sh", "-c", "echo web-0", "web-0,web,1"]);
        let container = prepared.container;
        for name in ["NONE", "PATH"] {
            assert!(!container.variables.contains_key(name), "{name}");
        }
        let variables = container.environment();
        for (name, value) in [("HOME", "/srv"), ("HOSTNAME", "web"), ("PATH", PATH)] {
            assert_eq!(variables[name], value, "{name}");
        }
        let plain = prepare(json!({"name": "main"}), &settings());
        let plain = plain.unwrap_or_else(|error| panic!("{error}")).container;
        assert_eq!(plain.environment()["HOSTNAME"], "web-0");
        assert_eq!((plain.variables.len(), plain.environment().len()), (0, 3));
    }

    #[test]
    fn files_come_from_the_image_and_from_volumes() {
        let spec = json!({
            "name": "main", "image": "registry.k8s.io/e2e-test-images/httpd:2.4.38-4",
            "workingDir": "/work",
            "volumeMounts": [{"name": "config", "mountPath": "/etc/config"}],
        });
        let prepared = prepare(spec, &settings()).unwrap_or_else(|error| panic!("{error}"));
        let files = prepared.container.files;
        assert!(files.exists("/usr/local/apache2/htdocs/index.html"));
        assert!(files.is_directory("/work"));
        assert_eq!(files.read("/etc/config/sub/a.txt").unwrap(), b"1");
        assert!(prepared.argv.is_empty());
    }

    #[test]
    fn a_probe_of_the_file_of_the_tests_image_fails_once_it_is_moved_away() {
        let spec = json!({
            "name": "main", "image": "registry.k8s.io/e2e-test-images/agnhost:2.59",
            "args": ["test-webserver"],
        });
        let prepared = prepare(spec.clone(), &settings()).unwrap_or_else(|error| panic!("{error}"));
        let server = Server::of(&from_value(spec).unwrap());
        let get = json!({"path": "/localhost.crt", "port": 80});
        let get: HTTPGetAction = from_value(get).unwrap();
        let container = prepared.container;
        assert_eq!(server.get(&get, &container), Answer::Status(200));
        container.files.remove("/localhost.crt", false).unwrap();
        assert_eq!(server.get(&get, &container), Answer::Status(404));
    }

    #[test]
    fn what_is_missing_is_named() {
        let reference = |key: &str| {
            json!({"name": "main", "env": [{"name": "A", "valueFrom": {
                "configMapKeyRef": {"name": "settings", "key": key}}}]})
        };
        let missing = prepare(reference("b"), &settings()).err().unwrap();
        let message = "couldn't find key b in ConfigMap ns/settings";
        assert_eq!(missing.to_string(), message);
        let missing = prepare(reference("a"), &ConfigSources::default())
            .err()
            .unwrap();
        assert_eq!(missing.to_string(), "configmap \"settings\" not found");
    }
}
