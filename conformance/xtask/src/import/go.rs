//! Reads as much of Go source as the data needs: string literals, and declarations of types with
//! their comments and tags.

mod declarations;
mod token;

use std::collections::BTreeMap;

use anyhow::Context as _;

use super::tree::Tree;
pub(crate) use declarations::{Declaration, Field, Type, markers, package_name};
pub(crate) use token::{Kind, Token, tokens};

/// The string literals of a source file, in order.
pub(crate) fn strings(source: &str) -> Vec<String> {
    let tokens = tokens(source).into_iter();
    let texts = tokens.filter_map(|token| match token.kind {
        Kind::Text(text) => Some(text),
        _ => None,
    });
    texts.collect()
}

/// The types that a package declares.
#[derive(Debug)]
pub(crate) struct Package {
    /// Name that its files give it, such as `v1`.
    pub(crate) name: String,
    /// Declarations by name.
    pub(crate) types: BTreeMap<String, Declaration>,
}

impl Package {
    /// Reads the package imported as `path`, tests left out.
    ///
    /// # Errors
    /// The checkout does not have it.
    pub(crate) fn read(tree: &dyn Tree, path: &str) -> anyhow::Result<Self> {
        let dir = directory(path);
        let files = tree.files_below(&dir, ".go")?;
        let own = files.into_iter().filter(|file| {
            let rest = file.strip_prefix(&dir).unwrap_or_default();
            !rest.trim_start_matches('/').contains('/') && !file.ends_with("_test.go")
        });
        let mut package = Self {
            name: String::new(),
            types: BTreeMap::new(),
        };
        for file in own {
            let source = tree.read(&file)?;
            let tokens = tokens(&source);
            if package.name.is_empty() {
                package.name = package_name(&tokens).to_owned();
            }
            package.types.extend(declarations::types(&tokens));
        }
        anyhow::ensure!(!package.name.is_empty(), "{dir} has no Go source");
        Ok(package)
    }
}

/// The directory of the package that is imported as `path`.
fn directory(path: &str) -> String {
    let staged = [
        "k8s.io/api/",
        "k8s.io/apimachinery/",
        "k8s.io/apiserver/",
        "k8s.io/apiextensions-apiserver/",
        "k8s.io/kube-aggregator/",
    ];
    if staged.iter().any(|prefix| path.starts_with(prefix)) {
        return format!("staging/src/{path}");
    }
    match path.strip_prefix("k8s.io/kubernetes/") {
        Some(own) => own.to_owned(),
        None => format!("vendor/{path}"),
    }
}

/// Packages that have been read, by the paths of their imports.
pub(crate) struct Packages<'a> {
    tree: &'a dyn Tree,
    read: BTreeMap<String, Package>,
}

impl<'a> Packages<'a> {
    /// Packages of a checkout.
    pub(crate) fn new(tree: &'a dyn Tree) -> Self {
        Self {
            tree,
            read: BTreeMap::new(),
        }
    }

    /// The package that is imported as `path`.
    ///
    /// # Errors
    /// The checkout does not have it.
    pub(crate) fn get(&mut self, path: &str) -> anyhow::Result<&Package> {
        if !self.read.contains_key(path) {
            let package = Package::read(self.tree, path);
            let package = package.with_context(|| format!("cannot read package {path}"))?;
            self.read.insert(path.to_owned(), package);
        }
        Ok(&self.read[path])
    }

    /// The type `name` of the package at `path`.
    ///
    /// # Errors
    /// The checkout does not have it.
    pub(crate) fn declaration(&mut self, path: &str, name: &str) -> anyhow::Result<Declaration> {
        let found = self.get(path)?.types.get(name);
        found
            .cloned()
            .with_context(|| format!("{path} has no type {name}"))
    }

    /// A type as Go prints it, such as `map[v1.ResourceName]resource.Quantity`, where `declared`, of
    /// the package at `path`, has it.
    ///
    /// # Errors
    /// When the type is a struct, or of an unknown package.
    pub(crate) fn printed(
        &mut self,
        path: &str,
        declared: &Declaration,
        of: &Type,
    ) -> anyhow::Result<String> {
        Ok(match of {
            Type::Pointer(of) => format!("*{}", self.printed(path, declared, of)?),
            Type::List(items) => format!("[]{}", self.printed(path, declared, items)?),
            Type::Map(key, values) => {
                let key = self.printed(path, declared, key)?;
                format!("map[{key}]{}", self.printed(path, declared, values)?)
            }
            Type::Named(None, name) if name.starts_with(|c: char| c.is_ascii_lowercase()) => {
                name.clone()
            }
            Type::Named(package, name) => {
                let target = declared.path_of(path, package.as_deref())?;
                format!("{}.{name}", self.get(&target)?.name)
            }
            Type::Struct(_) | Type::Opaque => anyhow::bail!("the type has no name"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Files;
    use super::*;

    #[test]
    fn a_package_is_its_files_without_tests_and_subdirectories() {
        let dir = "staging/src/k8s.io/api/sea/v1";
        let path = |name: &str| format!("{dir}/{name}");
        let files = Files::with(&[
            (&path("types.go"), "package v1\ntype Boat struct{}"),
            (&path("types_test.go"), "package v1\ntype Test struct{}"),
            (&path("more/types.go"), "package more\ntype More struct{}"),
        ]);
        let mut packages = Packages::new(&files);
        let package = packages.get("k8s.io/api/sea/v1").unwrap();
        assert_eq!(package.name, "v1");
        assert_eq!(package.types.keys().collect::<Vec<_>>(), ["Boat"]);
        assert!(packages.get("k8s.io/api/lake/v1").is_err());
    }
}
