//! The built-in types, compiled from `builtin.txt` on first use.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, OnceLock};

use crate::meta::GroupVersionKind;

use super::names::NameIndex;
use super::{Alternative, Field, ListType, Object, PatchStrategy, Schema};

/// The format is described in the file.
const SOURCE: &str = include_str!("builtin.txt");

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::index(SOURCE));

/// The types of the metrics APIs, which no kube-apiserver has of its own.
static METRICS: LazyLock<Table> = LazyLock::new(|| Table::index(include_str!("metrics.txt")));

/// The types that [`install`] has added.
static INSTALLED: OnceLock<Table> = OnceLock::new();

/// Adds the types of `source`, in the format of `builtin.txt`, for the whole process. Only the
/// first call has an effect. Upstream: `AddToScheme`.
pub fn install(source: &'static str) {
    INSTALLED.get_or_init(|| Table::index(source));
}

/// The schema of a built-in kind; the kinds of `meta/v1`, such as `DeleteOptions`, are of every
/// group and version.
#[must_use]
pub fn builtin(gvk: &GroupVersionKind) -> Option<&'static Arc<Object>> {
    kind_of((&gvk.group, &gvk.version), &gvk.kind)
}

fn kind_of((group, version): (&str, &str), kind: &str) -> Option<&'static Arc<Object>> {
    let find = |table: &'static Table, group: &str, version: &str| {
        let mut kinds = table.names.candidates(kind).map(|at| &table.kinds[at]);
        kinds.find(|own| (own.version, own.group) == (version, group) && own.object.name == kind)
    };
    let found = find(&TABLE, group, version)
        .or_else(|| find(INSTALLED.get()?, group, version))
        .or_else(|| find(&TABLE, "meta.k8s.io", "v1"))?;
    Some(&found.object)
}

/// Finds the schema of a built-in kind, or of a document that is only ever written, such as those of
/// discovery, which name no group.
pub(super) fn written_type(api_version: &str, kind: &str) -> Option<&'static Arc<Object>> {
    let group_version = match api_version.split_once('/') {
        Some((_, version)) if version.contains('/') => return None,
        Some(split) => split,
        None => ("", api_version),
    };
    let own = match group_version {
        ("", "" | "v1") => ("meta.k8s.io", "v1"),
        other => other,
    };
    let answer = |table: &'static Table| {
        let mut answers = table.answers.iter();
        answers.find(|answer| answer.object.name == kind && (answer.group, answer.version) == own)
    };
    kind_of(group_version, kind).or_else(|| {
        let found = answer(&TABLE).or_else(|| answer(&METRICS))?;
        Some(&found.object)
    })
}

/// `JSONSchemaProps`, the type of a custom resource's schema.
pub(super) fn json_schema_props() -> &'static Arc<Object> {
    let found = TABLE.types.get(&("apiextensions/v1", "JSONSchemaProps"));
    found.expect("builtin.txt has JSONSchemaProps")
}

/// `ObjectMeta`, the metadata of every object.
pub fn object_meta() -> &'static Arc<Object> {
    let found = TABLE.types.get(&("meta/v1", "ObjectMeta"));
    found.expect("builtin.txt has ObjectMeta")
}

/// `ListMeta`, the metadata of every list.
pub(super) fn list_meta() -> &'static Arc<Object> {
    let found = TABLE.types.get(&("meta/v1", "ListMeta"));
    found.expect("builtin.txt has ListMeta")
}

/// A type of the core group, an object of its own or not.
pub fn core_type(name: &str) -> &'static Arc<Object> {
    let find = |(package, own): &&(&str, &str)| *package == "core/v1" && *own == name;
    let key = TABLE.types.keys().find(find);
    let key = key.expect("builtin.txt has every type of the core group");
    &TABLE.types[key]
}

/// The schema of a JSON patch, for finding duplicate and unknown members of operations.
pub(super) static JSON_PATCH: LazyLock<Schema> = LazyLock::new(|| {
    let operation = Object {
        name: Cow::Borrowed("jsonPatchOp"),
        atomic: false,
        open: false,
        package: Cow::Borrowed("handlers"),
        source: "op - string\npath - string\nfrom - string\nvalue - any",
        fields: OnceLock::new(),
    };
    Schema::array(Schema::Object(Arc::new(operation)), None)
});

/// Every built-in kind.
#[cfg(test)]
pub(super) fn kinds() -> impl Iterator<Item = &'static Arc<Object>> {
    TABLE.kinds.iter().map(|kind| &kind.object)
}

struct Table {
    /// By package and type.
    types: BTreeMap<(&'static str, &'static str), Arc<Object>>,
    kinds: Vec<Kind>,
    /// The types of documents that no client sends.
    answers: Vec<Kind>,
    /// The kinds by their names.
    names: NameIndex,
}

/// A type that is an object of its own.
struct Kind {
    group: &'static str,
    version: &'static str,
    object: Arc<Object>,
}

impl Table {
    /// Finds where each type is declared, without compiling the declarations.
    fn index(source: &'static str) -> Self {
        let mut table = Self {
            types: BTreeMap::new(),
            kinds: Vec::new(),
            answers: Vec::new(),
            names: NameIndex::new(std::iter::empty()),
        };
        let mut package = ("", "");
        let mut header = None;
        let mut rest = source;
        while !rest.is_empty() {
            let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
            if line.starts_with(['%', '@'])
                && let Some((header, body)) = header.take()
            {
                table.declare(package, header, until(body, rest));
            }
            if let Some(line) = line.strip_prefix('%') {
                package = line.split_once(' ').unwrap_or((line, ""));
            } else if let Some(line) = line.strip_prefix('@') {
                header = Some((line, after));
            }
            rest = after;
        }
        if let Some((header, body)) = header {
            table.declare(package, header, body);
        }
        table.names = NameIndex::new(table.kinds.iter().map(|kind| &*kind.object.name));
        table
    }

    fn declare(
        &mut self,
        (package, group): (&'static str, &'static str),
        header: &'static str,
        source: &'static str,
    ) {
        let (name, flags) = header.split_once(' ').unwrap_or((header, ""));
        let object = Arc::new(Object {
            name: Cow::Borrowed(name),
            atomic: flags.ends_with("atomic"),
            open: false,
            package: Cow::Borrowed(package),
            source,
            fields: OnceLock::new(),
        });
        let kind = || Kind {
            group,
            version: package.rsplit('/').next().unwrap_or_default(),
            object: Arc::clone(&object),
        };
        if flags.starts_with("kind") {
            self.kinds.push(kind());
        } else if flags == "answer" {
            self.answers.push(kind());
        }
        self.types.insert((package, name), object);
    }
}

/// The part of `text` before its own tail `rest`.
fn until(text: &'static str, rest: &str) -> &'static str {
    &text[..text.len() - rest.len()]
}

/// Compiles the fields that `source` declares in `package`.
pub(super) fn compile_fields(package: &str, source: &'static str) -> Vec<Field> {
    source.lines().map(|line| field(package, line)).collect()
}

fn field(package: &str, line: &'static str) -> Field {
    let mut words = line.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (name, flags, kind) = (word(), word(), word());
    let mut field = Field {
        name: Cow::Borrowed(name),
        schema: schema(package, kind),
        default: None,
        pointer: flags.contains('p'),
        omit_empty: flags.contains('e'),
        keeps_empty: flags.contains('k'),
        omit_zero: flags.contains('z'),
        patch_strategy: PatchStrategy::default(),
        patch_merge_key: None,
        list_type: None,
        list_map_keys: Vec::new(),
        atomic: None,
        proto: numbers(flags),
    };
    for attribute in words {
        match attribute.split_once('=').unwrap_or((attribute, "")) {
            ("patch", strategies) => {
                field.patch_strategy = PatchStrategy {
                    merge: strategies.contains("merge"),
                    replace: strategies.contains("replace"),
                    retain_keys: strategies.contains("retainKeys"),
                };
            }
            ("key", key) => field.patch_merge_key = Some(Cow::Borrowed(key)),
            ("list", kind) => {
                field.list_type = Some(match kind {
                    "map" => ListType::Map,
                    "set" => ListType::Set,
                    _ => ListType::Atomic,
                });
            }
            ("keys", keys) => {
                field.list_map_keys = keys.split(',').map(Cow::Borrowed).collect();
            }
            ("atomic", _) => field.atomic = Some(true),
            ("granular", _) => field.atomic = Some(false),
            _ => unreachable!("builtin.txt has no attribute {attribute:?}"),
        }
    }
    field
}

/// The numbers that end `flags`, such as `pe2.1`.
fn numbers(flags: &str) -> Vec<u32> {
    let numbers = flags.trim_start_matches(['-', 'p', 'e', 'z', 'k']);
    let number = |text: &str| {
        text.parse()
            .expect("builtin.txt has numbers after the flags")
    };
    match numbers {
        "" => Vec::new(),
        numbers => numbers.split('.').map(number).collect(),
    }
}

fn schema(package: &str, text: &'static str) -> Schema {
    let (name, text) = match text.strip_prefix('<').and_then(|text| text.split_once('>')) {
        Some((name, text)) => (Some(Cow::Borrowed(name)), text),
        None => (None, text),
    };
    if let Some(items) = text.strip_prefix("[]") {
        return Schema::array(schema(package, items), name);
    }
    if let Some(values) = text.strip_prefix("{}") {
        return Schema::map(schema(package, values), name);
    }
    match text {
        "string" => Schema::String(name.unwrap_or(Cow::Borrowed("string"))),
        "bool" => Schema::Bool,
        "int32" => Schema::Int32,
        "int64" => Schema::Int64,
        "bytes" => Schema::Bytes,
        "time" => Schema::Time,
        "microtime" => Schema::MicroTime,
        "quantity" => Schema::Quantity,
        "intorstring" => Schema::IntOrString,
        "raw" | "fields" => Schema::Raw,
        "float64" => Schema::Float,
        "schemaorarray" => Schema::JsonSchemaOr(Alternative::Array),
        "schemaorbool" => Schema::JsonSchemaOr(Alternative::Bool),
        "schemaorstringarray" => Schema::JsonSchemaOr(Alternative::StringArray),
        "any" => Schema::Any,
        _ => {
            let (package, name) = text.rsplit_once('.').unwrap_or((package, text));
            let find = |table: &Table| table.types.get(&(package, name)).cloned();
            let object = find(&TABLE)
                .or_else(|| find(INSTALLED.get()?))
                .or_else(|| find(&METRICS));
            Schema::Object(object.expect("a type is declared where it is used"))
        }
    }
}
