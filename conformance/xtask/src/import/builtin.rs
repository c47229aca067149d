//! `builtin.txt`: the Go types behind the API, field by field.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, ensure};

use super::go::{Declaration, Field, Packages, Type, markers};
use super::tree::Tree;
use super::{Inputs, Server};

const META: &str = "k8s.io/apimachinery/pkg/apis/meta/v1";

/// Packages of the API, by where they are in a checkout.
const PLACES: [&str; 4] = [
    "k8s.io/api",
    "k8s.io/apiextensions-apiserver/pkg/apis",
    "k8s.io/kube-aggregator/pkg/apis",
    "k8s.io/apimachinery/pkg/apis",
];

/// The use of a type as an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Clients send it as an object.
    Kind,
    /// The server writes it as an object, and no client sends it.
    Answer,
}

/// Objects that discovery does not list: package, type and role. Evictions are also taken in the
/// version that they first had.
const MORE: [(&str, &str, Role); 11] = [
    ("k8s.io/api/policy/v1beta1", "Eviction", Role::Kind),
    (META, "DeleteOptions", Role::Kind),
    (META, "PartialObjectMetadata", Role::Kind),
    (META, "Status", Role::Kind),
    (META, "APIGroup", Role::Answer),
    (META, "APIGroupList", Role::Answer),
    (META, "APIResourceList", Role::Answer),
    (META, "APIVersions", Role::Answer),
    (META, "PartialObjectMetadataList", Role::Answer),
    (
        "k8s.io/apimachinery/pkg/apis/meta/v1beta1",
        "PartialObjectMetadataList",
        Role::Answer,
    ),
    (
        "k8s.io/api/apidiscovery/v2",
        "APIGroupDiscoveryList",
        Role::Answer,
    ),
];
/// Types with an encoding of their own: package, name, and what the file calls them.
const SCALARS: [(&str, &str, &str); 12] = [
    (META, "Time", "time"),
    (META, "MicroTime", "microtime"),
    (META, "FieldsV1", "fields"),
    (
        "k8s.io/apimachinery/pkg/api/resource",
        "Quantity",
        "quantity",
    ),
    (
        "k8s.io/apimachinery/pkg/util/intstr",
        "IntOrString",
        "intorstring",
    ),
    ("k8s.io/apimachinery/pkg/runtime", "RawExtension", "raw"),
    ("k8s.io/apimachinery/pkg/types", "UID", "<types.UID>string"),
    (
        "k8s.io/apimachinery/pkg/types",
        "NodeName",
        "<types.NodeName>string",
    ),
    (EXTENSIONS, "JSON", "raw"),
    (EXTENSIONS, "JSONSchemaPropsOrArray", "schemaorarray"),
    (EXTENSIONS, "JSONSchemaPropsOrBool", "schemaorbool"),
    (
        EXTENSIONS,
        "JSONSchemaPropsOrStringArray",
        "schemaorstringarray",
    ),
];
const EXTENSIONS: &str = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1";

/// Marks a struct that is inlined without a number; its fields are outside of the message.
const UNNUMBERED: &str = "-";

const FORMAT: &str = "\
#
# %package group
# @Type [kind|answer] [atomic]              kind: can be decoded as an object of its own; answer: is
#   an object of its own that is written only
# name flags type [attributes]              p: pointer, e: omitempty, z: omitzero, then the numbers of
#   the field in protobuf: one, or 2.1 where the message at 2 is inlined in JSON; k: an empty list is
#   not left out before it is validated (and refused)
# type: [<Go name>] []items | {}values | scalar | Type | package.Type
# attributes: patch=strategies key=patchMergeKey list=listType keys=listMapKeys atomic|granular
";

/// Returns the text of the file.
///
/// # Errors
/// The server does not answer, or the checkout lacks a type or says what the format cannot.
pub(crate) fn generate(inputs: &Inputs) -> anyhow::Result<String> {
    let groups = groups(inputs.tree)?;
    let mut roots: Vec<(String, String, Role)> = Vec::new();
    for (group, version, kind) in served_kinds(inputs.server)? {
        let path = groups.get(&(group.clone(), version.clone()));
        let path = path.with_context(|| format!("no package of {group}/{version}"))?;
        roots.push((path.clone(), kind, Role::Kind));
    }
    let more = MORE
        .iter()
        .map(|(path, name, role)| ((*path).to_owned(), (*name).to_owned(), *role));
    roots.extend(more);
    let mut writer = Writer {
        packages: Packages::new(inputs.tree),
        open: Vec::new(),
        roles: BTreeMap::new(),
        written: BTreeMap::new(),
    };
    for (path, name, role) in roots {
        writer.roles.insert((path.clone(), name.clone()), role);
        writer.open.push((path, name));
    }
    writer.run()?;
    let provenance =
        inputs.provenance("the types of every kind that the server serves, order kept");
    Ok(format!("# {provenance}\n{FORMAT}{}", writer.text(&groups)))
}

/// Packages of the API by group and version.
fn groups(tree: &dyn Tree) -> anyhow::Result<BTreeMap<(String, String), String>> {
    let mut found = BTreeMap::new();
    for place in PLACES {
        for path in tree.files_below(&format!("staging/src/{place}"), "/register.go")? {
            let source = tree.read(&path)?;
            let name = source.lines().find_map(|line| {
                let line = line.trim().trim_start_matches("const ");
                let value = line
                    .strip_prefix("GroupName ")?
                    .trim_start()
                    .strip_prefix('=')?;
                Some(value.trim().trim_matches('"').to_owned())
            });
            let dir = path
                .strip_prefix("staging/src/")
                .and_then(|path| path.rsplit_once('/'));
            let (Some(group), Some((dir, _))) = (name, dir) else {
                continue;
            };
            let version = dir.rsplit('/').next().unwrap_or_default();
            found.insert((group, version.to_owned()), dir.to_owned());
        }
    }
    Ok(found)
}

/// Returns group, version and kind of every resource and subresource, except for the options of connections, which
/// are not bodies.
fn served_kinds(server: &dyn Server) -> anyhow::Result<BTreeSet<(String, String, String)>> {
    let json = "application/json";
    let document = server.document("/apis", json)?;
    let groups = document.items("groups").iter();
    let versions = groups.flat_map(|group| group.items("versions"));
    let mut paths: Vec<(String, String)> = versions
        .map(|version| version.text("groupVersion"))
        .map(|own| (own.to_owned(), format!("/apis/{own}")))
        .collect();
    paths.push(("/v1".to_owned(), "/api/v1".to_owned()));
    let mut found = BTreeSet::new();
    for (group_version, path) in paths {
        let (group, version) = group_version.split_once('/').unwrap_or_default();
        for own in server.document(&path, json)?.items("resources") {
            let kind = own.text("kind");
            let or = |name: &str, default: &str| match own.text(name) {
                _ if own.text("version").is_empty() => default.to_owned(),
                stated => stated.to_owned(),
            };
            if !kind.ends_with("Options") {
                found.insert((or("group", group), or("version", version), kind.to_owned()));
            }
        }
    }
    Ok(found)
}

/// Types that are written, and those that they lead to.
struct Writer<'a> {
    packages: Packages<'a>,
    /// Package and name of types that are still to be written.
    open: Vec<(String, String)>,
    roles: BTreeMap<(String, String), Role>,
    /// The lines of each type, by package and name.
    written: BTreeMap<(String, String), String>,
}

impl Writer<'_> {
    fn run(&mut self) -> anyhow::Result<()> {
        while let Some(key) = self.open.pop() {
            if self.written.contains_key(&key) {
                continue;
            }
            let (path, name) = &key;
            let declared = self.packages.declaration(path, name)?;
            let Type::Struct(fields) = &declared.of else {
                anyhow::bail!("{path}.{name} is no struct");
            };
            let mut text = format!("@{name}");
            match self.roles.get(&key) {
                Some(Role::Kind) => text.push_str(" kind"),
                Some(Role::Answer) => text.push_str(" answer"),
                None => {}
            }
            if markers(&declared.comment, "structType") == ["atomic"] {
                text.push_str(" atomic");
            }
            text.push('\n');
            for field in fields {
                let lines = self.field(path, &declared, field, "");
                text.push_str(&lines.with_context(|| format!("{path}.{name}.{}", field.name))?);
            }
            self.written.insert(key, text);
        }
        Ok(())
    }

    /// The line of a field, or those of the fields of an embedded struct. `number` is that of the
    /// message that the struct is inlined from, and a dot.
    fn field(
        &mut self,
        path: &str,
        declared: &Declaration,
        field: &Field,
        number: &str,
    ) -> anyhow::Result<String> {
        let json = field.tag("json").unwrap_or_default();
        let (name, options) = json.split_once(',').unwrap_or((json, ""));
        let own_number = field.tag("protobuf").and_then(|tag| tag.split(',').nth(1));
        let is_private = field.name.starts_with(|first: char| first.is_lowercase());
        if name == "-" || is_private {
            return Ok(String::new());
        }
        if field.embedded && name.is_empty() {
            return self.inlined(
                path,
                declared,
                &field.of,
                own_number.map(|own| format!("{number}{own}.")),
            );
        }
        ensure!(!name.is_empty(), "it has no name in JSON");
        let (pointer, of) = match &field.of {
            Type::Pointer(of) => ("p", &**of),
            of => ("", of),
        };
        let has = |option: &str| options.split(',').any(|own| own == option);
        let mut flags = pointer.to_owned();
        for (option, flag) in [("omitempty", "e"), ("omitzero", "z")] {
            if has(option) {
                flags.push_str(flag);
            }
        }
        if let Some(own) = own_number.filter(|_| number != UNNUMBERED) {
            flags.push_str(&format!("{number}{own}"));
        }
        if flags.is_empty() {
            flags.push('-');
        }
        let mut line = format!("{name} {flags} {}", self.type_text(path, declared, of)?);
        line.push_str(&attributes(field));
        line.push('\n');
        Ok(line)
    }

    fn inlined(
        &mut self,
        path: &str,
        declared: &Declaration,
        of: &Type,
        number: Option<String>,
    ) -> anyhow::Result<String> {
        let Type::Named(package, name) = of else {
            anyhow::bail!("it inlines a type without a name");
        };
        let path = declared.path_of(path, package.as_deref())?;
        let declared = self.packages.declaration(&path, name)?;
        let Type::Struct(fields) = &declared.of else {
            anyhow::bail!("it inlines no struct");
        };
        let number = number.unwrap_or_else(|| UNNUMBERED.to_owned());
        let mut text = String::new();
        for field in fields {
            text.push_str(&self.field(&path, &declared, field, &number)?);
        }
        Ok(text)
    }

    /// A type as the file writes it.
    fn type_text(
        &mut self,
        path: &str,
        declared: &Declaration,
        of: &Type,
    ) -> anyhow::Result<String> {
        match of {
            Type::List(items) if **items == Type::Named(None, "byte".to_owned()) => {
                Ok("bytes".to_owned())
            }
            Type::List(items) => {
                let text = self.type_text(path, declared, items)?;
                // No other place shows the name that Go gives to a list of these.
                Ok(match text == "raw" {
                    true => format!("<{}>[]{text}", self.packages.printed(path, declared, of)?),
                    false => format!("[]{text}"),
                })
            }
            Type::Map(key, values) => {
                let text = self.type_text(path, declared, values)?;
                Ok(match **key == Type::Named(None, "string".to_owned()) {
                    true => format!("{{}}{text}"),
                    false => format!("<{}>{{}}{text}", self.packages.printed(path, declared, of)?),
                })
            }
            Type::Pointer(of) => self.type_text(path, declared, of),
            Type::Named(package, name) => self.named(path, declared, package.as_deref(), name),
            Type::Struct(_) | Type::Opaque => anyhow::bail!("its type has no name"),
        }
    }

    fn named(
        &mut self,
        path: &str,
        declared: &Declaration,
        package: Option<&str>,
        name: &str,
    ) -> anyhow::Result<String> {
        if package.is_none() && ["string", "bool", "int32", "int64", "float64"].contains(&name) {
            return Ok(name.to_owned());
        }
        let target = declared.path_of(path, package)?;
        let scalar = SCALARS
            .iter()
            .find(|(path, own, _)| (*path, *own) == (target.as_str(), name));
        if let Some((_, _, text)) = scalar {
            return Ok((*text).to_owned());
        }
        let found = self.packages.declaration(&target, name)?;
        if let Type::Struct(_) = found.of {
            self.open.push((target.clone(), name.to_owned()));
            return Ok(match target == path {
                true => name.to_owned(),
                false => format!("{}.{name}", label(&target)),
            });
        }
        let package = self.packages.get(&target)?.name.clone();
        // The name of a map stands for those of its keys and values.
        let of = match &found.of {
            Type::Map(_, values) => format!("{{}}{}", self.type_text(&target, &found, values)?),
            of => self.type_text(&target, &found, of)?,
        };
        Ok(format!("<{package}.{name}>{of}"))
    }

    /// The types by package, in the order of their names.
    fn text(&self, groups: &BTreeMap<(String, String), String>) -> String {
        let mut packages: BTreeMap<&str, (&str, Vec<&str>)> = BTreeMap::new();
        for ((path, _), lines) in &self.written {
            let (_, types) = packages.entry(label(path)).or_insert((path, Vec::new()));
            types.push(lines);
        }
        let mut text = String::new();
        for (label, (path, types)) in packages {
            let group = groups.iter().find(|(_, own)| own == &path);
            let group = group.map_or("", |((group, _), _)| group);
            text.push_str(format!("%{label} {group}").trim_end());
            text.push('\n');
            text.push_str(&types.concat());
        }
        text
    }
}

/// The label of a package in the file: its last two directories.
fn label(path: &str) -> &str {
    let slash = path.rmatch_indices('/').nth(1);
    slash.map_or(path, |(at, _)| &path[at + 1..])
}

fn attributes(field: &Field) -> String {
    let mut text = String::new();
    for (key, name) in [("patchStrategy", "patch"), ("patchMergeKey", "key")] {
        if let Some(value) = field.tag(key) {
            text.push_str(&format!(" {name}={value}"));
        }
    }
    if let Some(kind) = markers(&field.comment, "listType").first() {
        text.push_str(&format!(" list={kind}"));
    }
    let keys = markers(&field.comment, "listMapKey");
    if !keys.is_empty() {
        text.push_str(&format!(" keys={}", keys.join(",")));
    }
    let says = |what: &str| {
        ["structType", "mapType"]
            .iter()
            .any(|name| markers(&field.comment, name) == [what])
    };
    for what in ["atomic", "granular"] {
        if says(what) {
            text.push_str(&format!(" {what}"));
        }
    }
    text
}

#[cfg(test)]
mod tests;
