//! The kubeconfig files of a command: one that a flag names, those of KUBECONFIG, or the user's.
//!
//! Files are JSON values, so that a change keeps what this program does not know.
//! Source: client-go `tools/clientcmd/{loader,config}.go`.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use kubeproof_machinery::json::{Map, Value, json};
use kubeproof_machinery::yaml::decode::Yaml;

use super::failure::Failure;
use super::printing;
use crate::cli::serve::kubeconfig::write_private;

/// A section of a kubeconfig: the name of its list, and of the body in an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Clusters,
    Contexts,
    Users,
}

impl Section {
    pub(super) const ALL: [Self; 3] = [Self::Clusters, Self::Contexts, Self::Users];

    pub(super) fn list(self) -> &'static str {
        match self {
            Self::Clusters => "clusters",
            Self::Contexts => "contexts",
            Self::Users => "users",
        }
    }

    pub(super) fn body(self) -> &'static str {
        match self {
            Self::Clusters => "cluster",
            Self::Contexts => "context",
            Self::Users => "user",
        }
    }
}

/// Fields with paths, which are relative to the directory of their file.
const PATHS: [(Section, &str); 4] = [
    (Section::Clusters, "certificate-authority"),
    (Section::Users, "client-certificate"),
    (Section::Users, "client-key"),
    (Section::Users, "tokenFile"),
];

/// A kubeconfig file, which may not exist yet.
#[derive(Debug)]
struct File {
    path: PathBuf,
    exists: bool,
    config: Value,
}

/// The files of a command, in the order of precedence. There is at least one.
#[derive(Debug)]
pub(super) struct Files {
    is_explicit: bool,
    files: Vec<File>,
}

/// The entries of all files.
#[derive(Debug, Default)]
pub(super) struct Merged {
    pub(super) clusters: BTreeMap<String, Value>,
    pub(super) contexts: BTreeMap<String, Value>,
    pub(super) users: BTreeMap<String, Value>,
    /// Empty for no current context.
    pub(super) current_context: String,
}

impl Merged {
    pub(super) fn section(&self, section: Section) -> &BTreeMap<String, Value> {
        match section {
            Section::Clusters => &self.clusters,
            Section::Contexts => &self.contexts,
            Section::Users => &self.users,
        }
    }

    pub(super) fn section_mut(&mut self, section: Section) -> &mut BTreeMap<String, Value> {
        match section {
            Section::Clusters => &mut self.clusters,
            Section::Contexts => &mut self.contexts,
            Section::Users => &mut self.users,
        }
    }

    /// Returns a kubeconfig with all entries.
    pub(super) fn to_config(&self) -> Value {
        let mut config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": self.current_context,
        });
        for section in Section::ALL {
            let entries = self.section(section).iter();
            let entries: Vec<Value> = entries
                .map(|(name, body)| json!({"name": name, section.body(): body}))
                .collect();
            config[section.list()] = match entries.is_empty() {
                true => Value::Null,
                false => entries.into(),
            };
        }
        config
    }
}

impl Files {
    /// Reads the file of `--kubeconfig`, or else those of the environment.
    pub(super) fn load(explicit: Option<&str>) -> Result<Self, Failure> {
        let paths = match explicit {
            Some(path) => vec![PathBuf::from(path)],
            None => of_environment(),
        };
        let files = paths.into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self {
            is_explicit: explicit.is_some(),
            files,
        })
    }

    /// Fails if `--kubeconfig` names a file that does not exist.
    pub(super) fn require(&self) -> Result<(), Failure> {
        let missing = self.files.iter().find(|file| !file.exists);
        match missing {
            Some(file) if self.is_explicit => Err(Failure::error(format_args!(
                "stat {}: no such file or directory",
                file.path.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Merges the files: the first that has an entry counts. Relative paths become absolute.
    pub(super) fn merged(&self) -> Merged {
        self.merged_with(|file, path| {
            let dir = file.path.parent().unwrap_or(Path::new(""));
            absolute(&dir.join(path)).display().to_string()
        })
    }

    /// Merges the files, with paths as they are written.
    pub(super) fn merged_as_written(&self) -> Merged {
        self.merged_with(|_, path| path.to_owned())
    }

    fn merged_with(&self, resolved: impl Fn(&File, &str) -> String) -> Merged {
        let mut merged = Merged::default();
        for file in &self.files {
            for section in Section::ALL {
                for (name, body) in entries(&file.config, section) {
                    let mut body = body.clone();
                    for (_, field) in PATHS.iter().filter(|(of, _)| *of == section) {
                        if let Some(path) = body[field].as_str().filter(|path| !path.is_empty()) {
                            body[field] = resolved(file, path).into();
                        }
                    }
                    let known = merged.section_mut(section);
                    known.entry(name.to_owned()).or_insert(body);
                }
            }
            if merged.current_context.is_empty() {
                let current = file.config["current-context"].as_str();
                merged.current_context = current.unwrap_or_default().to_owned();
            }
        }
        merged
    }

    /// The file for new entries: the first that exists, else the last.
    fn default_file(&mut self) -> &mut File {
        let existing = self.files.iter().position(|file| file.exists);
        let place = existing.unwrap_or(self.files.len() - 1);
        &mut self.files[place]
    }

    pub(super) fn default_path(&mut self) -> String {
        self.default_file().path.display().to_string()
    }

    /// Sets an entry in the file that has it, else in the default file, and writes the file.
    pub(super) fn set(&mut self, section: Section, name: &str, body: Value) -> Result<(), Failure> {
        let file = self.file_of(section, name);
        let mut body = body;
        for (_, field) in PATHS.iter().filter(|(of, _)| *of == section) {
            if let Some(path) = body[field].as_str() {
                body[field] = relative(&file.path, path).into();
            }
        }
        let list = &mut file.config[section.list()];
        if !list.is_array() {
            *list = json!([]);
        }
        let list = list.as_array_mut().expect("it was made a list");
        let entry = json!({"name": name, section.body(): body});
        match list.iter_mut().find(|entry| entry["name"] == name) {
            Some(known) => *known = entry,
            None => {
                let after = list
                    .iter()
                    .position(|entry| entry["name"].as_str() > Some(name));
                list.insert(after.unwrap_or(list.len()), entry);
            }
        }
        write(file)
    }

    /// Removes an entry from the file that has it. An entry that does not exist is no failure.
    pub(super) fn remove(&mut self, section: Section, name: &str) -> Result<(), Failure> {
        let file = self.file_of(section, name);
        if !entries(&file.config, section).any(|(known, _)| known == name) {
            return Ok(());
        }
        if let Some(list) = file.config[section.list()].as_array_mut() {
            list.retain(|entry| entry["name"] != name);
            if list.is_empty() {
                file.config[section.list()] = Value::Null;
            }
        }
        write(file)
    }

    /// Sets the current context; an empty name unsets it.
    pub(super) fn set_current_context(&mut self, name: &str) -> Result<(), Failure> {
        if !name.is_empty() {
            let file = self.default_file();
            file.config["current-context"] = name.into();
            return write(file);
        }
        for file in &mut self.files {
            let current = file.config["current-context"].as_str();
            if current.is_some_and(|current| !current.is_empty()) {
                file.config["current-context"] = "".into();
                write(file)?;
            }
        }
        Ok(())
    }

    fn file_of(&mut self, section: Section, name: &str) -> &mut File {
        let has = |file: &File| entries(&file.config, section).any(|(known, _)| known == name);
        match self.files.iter().position(has) {
            Some(place) => &mut self.files[place],
            None => self.default_file(),
        }
    }
}

/// Returns the files of KUBECONFIG, or the user's.
fn of_environment() -> Vec<PathBuf> {
    let variable = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in std::env::split_paths(&variable) {
        if !path.as_os_str().is_empty() && !paths.contains(&path) {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        let home = std::env::home_dir().unwrap_or_default();
        paths.push(home.join(".kube").join("config"));
    }
    paths
}

/// Reads a file; one that does not exist is empty.
fn read(path: PathBuf) -> Result<File, Failure> {
    let fault = |why: &dyn std::fmt::Display| {
        Failure::error(format_args!(
            "error loading config file {:?}: {why}",
            path.display().to_string()
        ))
    };
    let (exists, text) = match std::fs::read(&path) {
        Ok(text) => (true, text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (false, Vec::new()),
        Err(error) => return Err(fault(&error)),
    };
    let yaml = Yaml::parse(&text).map_err(|why| fault(&why))?;
    let config = match serde_json::from_slice(&yaml.json) {
        Ok(Value::Object(config)) => Value::Object(config),
        Ok(Value::Null) => Value::Object(Map::new()),
        _ => return Err(fault(&"it is not a kubeconfig")),
    };
    Ok(File {
        path,
        exists,
        config,
    })
}

fn write(file: &mut File) -> Result<(), Failure> {
    let config = &mut file.config;
    config["apiVersion"] = "v1".into();
    config["kind"] = "Config".into();
    if !config["current-context"].is_string() {
        config["current-context"] = "".into();
    }
    for section in Section::ALL {
        // Go writes lists without entries as null.
        let _ = &mut config[section.list()];
    }
    let failed =
        |error: std::io::Error| Failure::error(format_args!("{}: {error}", file.path.display()));
    if let Some(dir) = file.path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        std::fs::create_dir_all(dir).map_err(failed)?;
    }
    write_private(&file.path, &printing::to_yaml(config)).map_err(failed)?;
    file.exists = true;
    Ok(())
}

/// Returns the names and bodies of a section.
fn entries(config: &Value, section: Section) -> impl Iterator<Item = (&str, &Value)> {
    let entries = config[section.list()].as_array().into_iter().flatten();
    entries.filter_map(move |entry| Some((entry["name"].as_str()?, &entry[section.body()])))
}

/// Returns an absolute path without `.` and `..`, whether or not it exists.
pub(super) fn absolute(path: &Path) -> PathBuf {
    let current = std::env::current_dir().unwrap_or_default();
    let mut clean = PathBuf::new();
    for component in current.join(path).components() {
        match component {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}

/// Returns `path` relative to the directory of `file` when it is in it.
fn relative(file: &Path, path: &str) -> String {
    let dir = file.parent().unwrap_or(Path::new(""));
    let dir = absolute(dir);
    match Path::new(path).strip_prefix(dir) {
        Ok(inner) => inner.display().to_string(),
        Err(_) => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, config: Value) -> File {
        File {
            path: path.into(),
            exists: true,
            config,
        }
    }

    #[test]
    fn the_first_file_with_an_entry_counts_and_paths_are_relative_to_it() {
        let user = |key: &str| json!([{"name": "u", "user": {"client-key": key}}]);
        let files = Files {
            is_explicit: false,
            files: vec![
                file(
                    "/a/config",
                    json!({"users": user("k"), "current-context": ""}),
                ),
                file(
                    "/b/config",
                    json!({"users": user("other"), "current-context": "x",
                    "clusters": [{"name": "c", "cluster": {"server": "s", "certificate-authority": "/ca"}}]}),
                ),
            ],
        };
        let merged = files.merged();
        assert_eq!(merged.users["u"]["client-key"], "/a/k");
        assert_eq!(merged.clusters["c"]["certificate-authority"], "/ca");
        assert_eq!(merged.current_context, "x");
        assert_eq!(files.merged_as_written().users["u"]["client-key"], "k");
        assert_eq!(absolute(Path::new("/a/./b/../k")), Path::new("/a/k"));
        assert_eq!(relative(Path::new("/a/config"), "/a/b/k"), "b/k");
        assert_eq!(relative(Path::new("/a/config"), "/ab/k"), "/ab/k");
    }
}
