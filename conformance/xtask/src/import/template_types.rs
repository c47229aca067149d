//! `types.txt`: the Go structs of a pod template, as upstream's controllers print them for a hash.

use std::collections::{BTreeSet, VecDeque};

use anyhow::Context as _;

use super::Inputs;
use super::go::{Declaration, Field, Packages, Type};

const CORE: &str = "k8s.io/api/core/v1";
const ROOT: &str = "PodTemplateSpec";
/// Types that the reader of the file prints itself: times, quantities, numbers or strings, uids.
const PRINTED: [&str; 4] = [
    "v1.Time",
    "resource.Quantity",
    "intstr.IntOrString",
    "types.UID",
];
/// No template has managed fields.
const NEVER_SET: &str = "v1.ManagedFieldsEntry";

const FORMAT: &str = "\
#
# @Type
# <Go name> <name in JSON, - where its fields stand in the struct itself> <Go type>[=<what it is a name of>]
";

/// Returns the text of the file.
///
/// # Errors
/// The checkout lacks a type.
pub(crate) fn generate(inputs: &Inputs) -> anyhow::Result<String> {
    let mut packages = Packages::new(inputs.tree);
    let mut open = VecDeque::from([(CORE.to_owned(), ROOT.to_owned())]);
    let mut known = BTreeSet::from([ROOT.to_owned()]);
    let provenance = inputs.provenance("the types under v1.PodTemplateSpec, order kept");
    let mut text = format!("# {provenance}\n{FORMAT}");
    while let Some((path, name)) = open.pop_front() {
        let declared = packages.declaration(&path, &name)?;
        let Type::Struct(fields) = &declared.of else {
            anyhow::bail!("{path}.{name} is no struct");
        };
        text.push_str(&format!("@{}.{name}\n", packages.get(&path)?.name));
        for field in fields {
            let line = line(&mut packages, &path, &declared, field);
            let (line, target) = line.with_context(|| format!("{path}.{name}.{}", field.name))?;
            text.push_str(&line);
            if let Some((path, name)) = target
                && known.insert(name.clone())
            {
                open.push_back((path, name));
            }
        }
    }
    Ok(text)
}

/// The line of a field, and the package and name of the struct that it leads to.
fn line(
    packages: &mut Packages,
    path: &str,
    declared: &Declaration,
    field: &Field,
) -> anyhow::Result<(String, Option<(String, String)>)> {
    let json = field.tag("json").unwrap_or_default();
    let key = json.split(',').next().unwrap_or_default();
    let key = match key {
        "" => "-",
        key => key,
    };
    let printed = packages.printed(path, declared, &field.of)?;
    let mut line = format!("{} {key} {printed}", field.name);
    let mut target = None;
    if let Some((package, name)) = end(&field.of) {
        let package = declared.path_of(path, package)?;
        let own = packages.get(&package)?.name.clone();
        let printed = format!("{own}.{name}");
        if !PRINTED.contains(&printed.as_str()) && printed != NEVER_SET {
            let found = packages.declaration(&package, name)?;
            match &found.of {
                Type::Struct(_) => target = Some((package, name.to_owned())),
                of => line.push_str(&format!("={}", packages.printed(&package, &found, of)?)),
            }
        }
    }
    line.push('\n');
    Ok((line, target))
}

/// The package and name of the declared type that pointers, lists and maps lead to.
fn end(of: &Type) -> Option<(Option<&str>, &str)> {
    match of {
        Type::Pointer(of) | Type::List(of) | Type::Map(_, of) => end(of),
        Type::Named(None, name) if name.starts_with(|c: char| c.is_ascii_lowercase()) => None,
        Type::Named(package, name) => Some((package.as_deref(), name)),
        Type::Struct(_) | Type::Opaque => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::server::Canned;
    use super::super::tree::Files;
    use super::*;

    const CORE_TYPES: &str = r#"
package v1
import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)
type PodTemplateSpec struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec PodSpec `json:"spec,omitempty"`
}
type PodSpec struct {
	Handler `json:",inline"`
	Names []Name `json:"names"`
	Room *Room `json:"room"`
	Again []Handler `json:"again"`
}
type Handler struct {
	Seconds *int64 `json:"seconds"`
}
type Name string
type Room map[Name]resource.Quantity
"#;
    const META_TYPES: &str = r#"
package v1
type ObjectMeta struct {
	Created Time `json:"created"`
	Fields []ManagedFieldsEntry `json:"fields"`
}
"#;

    #[test]
    fn structs_are_printed_level_by_level_each_once() {
        let meta = "staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go";
        let files = Files::with(&[
            ("staging/src/k8s.io/api/core/v1/types.go", CORE_TYPES),
            (meta, META_TYPES),
            (
                "staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go",
                "package resource",
            ),
        ]);
        let server = Canned::default();
        let text = generate(&Inputs::of(&server, &files)).unwrap();
        let (_, types) = text.split_once(FORMAT).unwrap();
        let expected = "@v1.PodTemplateSpec
ObjectMeta metadata v1.ObjectMeta
Spec spec v1.PodSpec
@v1.ObjectMeta
Created created v1.Time
Fields fields []v1.ManagedFieldsEntry
@v1.PodSpec
Handler - v1.Handler
Names names []v1.Name=string
Room room *v1.Room=map[v1.Name]resource.Quantity
Again again []v1.Handler
@v1.Handler
Seconds seconds *int64
";
        assert_eq!(types, expected);
    }
}
