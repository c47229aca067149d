//! Files of a checkout of Kubernetes.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// A checkout, asked by paths from its root.
pub(crate) trait Tree {
    /// The text of the file at `path`.
    ///
    /// # Errors
    /// When the file cannot be read.
    fn read(&self, path: &str) -> anyhow::Result<String>;

    /// The paths of the files below `dir` whose names end in `suffix`, sorted.
    ///
    /// # Errors
    /// A directory cannot be listed.
    fn files_below(&self, dir: &str, suffix: &str) -> anyhow::Result<Vec<String>>;
}

/// A checkout in a directory.
pub(crate) struct Checkout(pub(crate) PathBuf);

impl Tree for Checkout {
    fn read(&self, path: &str) -> anyhow::Result<String> {
        let path = self.0.join(path);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    fn files_below(&self, dir: &str, suffix: &str) -> anyhow::Result<Vec<String>> {
        let mut open = vec![self.0.join(dir)];
        let mut found = Vec::new();
        while let Some(dir) = open.pop() {
            let entries = std::fs::read_dir(&dir);
            let entries = entries.with_context(|| format!("cannot list {}", dir.display()))?;
            for entry in entries {
                let path = entry?.path();
                if path.is_dir() {
                    open.push(path);
                } else if path.to_string_lossy().ends_with(suffix) {
                    found.push(self.relative(&path));
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

impl Checkout {
    fn relative(&self, path: &Path) -> String {
        let relative = path.strip_prefix(&self.0).unwrap_or(path);
        relative.to_string_lossy().into_owned()
    }
}

/// Files in memory, for tests.
#[cfg(test)]
pub(crate) struct Files(std::collections::BTreeMap<String, String>);

#[cfg(test)]
impl Files {
    /// Files with these paths and texts.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let files = files.iter();
        Self(
            files
                .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
                .collect(),
        )
    }
}

#[cfg(test)]
impl Tree for Files {
    fn read(&self, path: &str) -> anyhow::Result<String> {
        let text = self.0.get(path);
        text.cloned().with_context(|| format!("cannot read {path}"))
    }

    fn files_below(&self, dir: &str, suffix: &str) -> anyhow::Result<Vec<String>> {
        let paths = self.0.keys();
        let below = paths.filter(|path| path.starts_with(dir) && path.ends_with(suffix));
        Ok(below.cloned().collect())
    }
}
