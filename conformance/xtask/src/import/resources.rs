//! `resources.json`: names, verbs, subresources, field labels and columns of every resource, as a
//! server's discovery, tables and errors show them.

use std::collections::{BTreeMap, BTreeSet};

use super::go;
use super::json::{Json, spaced_fields};
use super::{Inputs, Server};

const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
/// A field label that no resource has.
const NO_LABEL: &str = "noSuchLabel";
/// The directory of the API's conversions, including those of field labels.
const CONVERSIONS: &str = "pkg/apis";
/// The directory of the API's types, some with constants for field labels.
const TYPES: &str = "staging/src/k8s.io/api";
const EVERYWHERE: [&str; 2] = ["metadata.name", "metadata.namespace"];

/// Returns the text of the file.
///
/// # Errors
/// The server does not answer, or the checkout lacks a file.
pub(crate) fn generate(inputs: &Inputs) -> anyhow::Result<String> {
    let labels = candidates(inputs)?;
    let mut groups = vec![("".to_owned(), vec!["v1".to_owned()])];
    groups.extend(named_groups(inputs.server)?);
    let mut read = Vec::new();
    for (group, versions) in groups {
        let mut lists = Vec::new();
        for version in versions {
            let path = match group.as_str() {
                "" => format!("/api/{version}"),
                group => format!("/apis/{group}/{version}"),
            };
            let resources = resources(inputs.server, &path, &labels)?;
            lists.push((version, resources));
        }
        read.push((group, lists));
    }
    let resources = || {
        let lists = read.iter().flat_map(|(_, lists)| lists);
        lists.flat_map(|(_, resources)| resources)
    };
    let columns: Vec<&Json> = resources().flat_map(|own| &own.columns).collect();
    let texts = Texts {
        name: most_frequent(&columns, |column| column.text("format") == "name"),
        created: most_frequent(&columns, |column| column.text("name") == "Age"),
    };
    Ok(written(
        &inputs.provenance("discovery, tables and errors of the server"),
        &texts,
        &read,
    ))
}

/// The groups of `/apis` in its order, each with its versions, the preferred one first.
fn named_groups(server: &dyn Server) -> anyhow::Result<Vec<(String, Vec<String>)>> {
    let document = server.document("/apis", JSON)?;
    let groups = document.items("groups").iter().map(|group| {
        let versions = group.items("versions").iter();
        let versions = versions.map(|version| version.text("version").to_owned());
        (group.text("name").to_owned(), versions.collect())
    });
    Ok(groups.collect())
}

/// The string literals of the sources that convert field labels, and those in constants of the API
/// that name a field: the labels are among them, and the server says which they are.
fn candidates(inputs: &Inputs) -> anyhow::Result<BTreeSet<String>> {
    let mut found: BTreeSet<String> = EVERYWHERE.map(str::to_owned).into();
    for path in inputs.tree.files_below(CONVERSIONS, "conversion.go")? {
        let text = inputs.tree.read(&path)?;
        if text.contains("AddFieldLabelConversionFunc") {
            let literals = go::strings(&text).into_iter();
            found.extend(literals.filter(|literal| is_label(literal)));
        }
    }
    for path in inputs.tree.files_below(TYPES, "/types.go")? {
        let literals = go::strings(&inputs.tree.read(&path)?).into_iter();
        let is_field = |text: &String| {
            is_label(text) && (text.starts_with("spec.") || text.starts_with("status."))
        };
        found.extend(literals.filter(is_field));
    }
    Ok(found)
}

/// Whether `text` looks like `spec.nodeName`.
fn is_label(text: &str) -> bool {
    let parts = text.split('.');
    let is_part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_lowercase())
            && part.chars().all(|other| other.is_ascii_alphanumeric())
    };
    let mut parts = parts.into_iter();
    parts.all(is_part)
}

/// A resource and what it looks like.
struct Resource {
    /// The values of discovery, by name of the field in the file.
    fields: Vec<(String, Json)>,
    subresources: Vec<Json>,
    /// Columns as the server describes them.
    columns: Vec<Json>,
}

fn resources(
    server: &dyn Server,
    path: &str,
    labels: &BTreeSet<String>,
) -> anyhow::Result<Vec<Resource>> {
    let document = server.document(path, JSON)?;
    let all = document.items("resources");
    let plain = all.iter().filter(|own| !own.text("name").contains('/'));
    let mut found = Vec::new();
    for own in plain {
        let plural = own.text("name");
        let prefix = format!("{plural}/");
        let subresources = all.iter().filter_map(|sub| {
            let name = sub.text("name").strip_prefix(&prefix)?;
            Some(subresource(name, sub))
        });
        let mut resource = Resource {
            fields: discovered(plural, own),
            subresources: subresources.collect(),
            columns: Vec::new(),
        };
        if own.texts("verbs").contains(&"list") {
            shown(server, &format!("{path}/{plural}"), labels, &mut resource)?;
        }
        found.push(resource);
    }
    found.sort_by(|left, right| {
        left.fields[0]
            .1
            .to_string()
            .cmp(&right.fields[0].1.to_string())
    });
    Ok(found)
}

fn discovered(plural: &str, own: &Json) -> Vec<(String, Json)> {
    let mut fields = vec![
        ("plural".to_owned(), plural.into()),
        ("singular".to_owned(), own.text("singularName").into()),
        ("kind".to_owned(), own.text("kind").into()),
    ];
    for name in [
        "namespaced",
        "shortNames",
        "categories",
        "storageVersionHash",
        "verbs",
    ] {
        match own.get(name) {
            None | Some(Json::Bool(false)) => {}
            Some(value) => fields.push((name.to_owned(), value.clone())),
        }
    }
    fields
}

fn subresource(name: &str, sub: &Json) -> Json {
    let mut fields = vec![
        ("name".to_owned(), name.into()),
        ("kind".to_owned(), sub.text("kind").into()),
    ];
    for name in ["group", "version", "verbs"] {
        if let Some(value) = sub.get(name) {
            fields.push((name.to_owned(), value.clone()));
        }
    }
    Json::Object(fields)
}

/// Adds what lists of the resource at `path` show: warnings, field labels and columns.
fn shown(
    server: &dyn Server,
    path: &str,
    labels: &BTreeSet<String>,
    resource: &mut Resource,
) -> anyhow::Result<()> {
    let table = server.ask(path, TABLE)?;
    let document = Json::parse(&table.body)?;
    resource.columns = document.items("columnDefinitions").to_vec();
    if let Some(warning) = table.warnings.first() {
        resource
            .fields
            .push(("warning".to_owned(), warning.as_str().into()));
    }
    let select =
        |label: &str| server.ask(&format!("{path}?limit=1&fieldSelector={label}%3Dx"), JSON);
    let mut known = Vec::new();
    for label in labels {
        if select(label)?.status == 200 {
            known.push(label.as_str());
        }
    }
    let refused = Json::parse(&select(NO_LABEL)?.body)?;
    let error = refused.text("message").replace(NO_LABEL, "<label>");
    // Discovery's own wording names the labels, so the file leaves both out.
    if !error.contains("is not a known field selector: only") {
        let known = known.into_iter().map(Json::from).collect();
        resource.fields.push(("fieldLabels".to_owned(), known));
        resource
            .fields
            .push(("fieldLabelError".to_owned(), error.as_str().into()));
    }
    Ok(())
}

/// Descriptions that most columns of a kind have, which the file states once.
struct Texts {
    name: String,
    created: String,
}

fn most_frequent(columns: &[&Json], of: impl Fn(&Json) -> bool) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for column in columns.iter().filter(|column| of(column)) {
        *counts.entry(column.text("description")).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map_or_else(String::new, |(text, _)| text.to_owned())
}

/// The entry of a column, without the values that most columns have.
fn column(served: &Json, texts: &Texts) -> Json {
    let mut fields = vec![("name".to_owned(), served.text("name").into())];
    let kind = served.text("type");
    if kind != "string" {
        fields.push(("type".to_owned(), kind.into()));
    }
    let format = served.text("format");
    if !format.is_empty() {
        fields.push(("format".to_owned(), format.into()));
    }
    match served.get("priority") {
        Some(Json::Number(priority)) if priority.as_u64() != Some(0) => {
            fields.push(("priority".to_owned(), Json::Number(priority.clone())));
        }
        _ => {}
    }
    let common = match format {
        "name" => &texts.name,
        _ => &texts.created,
    };
    let description = served.text("description");
    if description != common {
        fields.push(("description".to_owned(), description.into()));
    }
    Json::Object(fields)
}

type Groups = [(String, Vec<(String, Vec<Resource>)>)];

fn written(provenance: &str, texts: &Texts, groups: &Groups) -> String {
    let quoted = |text: &str| Json::from(text).to_string();
    let groups = groups.iter().map(|(group, versions)| {
        let versions = versions.iter().map(|(version, resources)| {
            let resources = resources.iter().map(|own| written_resource(own, texts));
            let resources: Vec<String> = resources.collect();
            format!(
                "  {{\"version\": {}, \"resources\": [\n{}\n  ]}}",
                quoted(version),
                resources.join(",\n")
            )
        });
        let versions: Vec<String> = versions.collect();
        format!(
            " {{\"group\": {}, \"versions\": [\n{}\n ]}}",
            quoted(group),
            versions.join(",\n")
        )
    });
    let groups: Vec<String> = groups.collect();
    format!(
        "{{\"source\": {},\n\"nameColumn\": {},\n\"timeColumn\": {},\n\"groups\": [\n{}\n]}}\n",
        quoted(provenance),
        quoted(&texts.name),
        quoted(&texts.created),
        groups.join(",\n")
    )
}

fn written_resource(own: &Resource, texts: &Texts) -> String {
    let mut text = format!("   {{{}", spaced_fields(&own.fields));
    let columns: Vec<Json> = own
        .columns
        .iter()
        .map(|served| column(served, texts))
        .collect();
    for (name, items) in [("subresources", &own.subresources), ("columns", &columns)] {
        if !items.is_empty() {
            let items = items.iter().map(|item| format!("     {}", item.spaced()));
            let items: Vec<String> = items.collect();
            text.push_str(&format!(",\n    \"{name}\": [\n{}]", items.join(",\n")));
        }
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use super::super::server::Canned;
    use super::super::tree::Files;
    use super::*;

    const CONVERSION: &str = r#"
        scheme.AddFieldLabelConversionFunc(kind, func(label, value string) (string, string, error) {
            switch label {
            case "metadata.name", SelectorColor:
                return label, value, nil
            }
            return "", "", fmt.Errorf("no label %s", label)
        })"#;
    const TYPES_GO: &str = r#"const SelectorColor = "spec.color"; const Other = "color""#;
    const TABLE_OF_BOATS: &str = r#"{"columnDefinitions":[
        {"name":"Name","type":"string","format":"name","description":"the name","priority":0},
        {"name":"Oars","type":"integer","format":"","description":"how many","priority":1},
        {"name":"Age","type":"string","format":"","description":"the time","priority":0}]}"#;

    fn server() -> Canned {
        let boats = "/apis/sea.example/v1/boats";
        let select = |label: &str| format!("{boats}?limit=1&fieldSelector={label}%3Dx");
        Canned::default()
            .with("/apis", r#"{"groups":[{"name":"sea.example","versions":[{"version":"v1"}]}]}"#)
            .with("/api/v1", r#"{"resources":[]}"#)
            .with(
                "/apis/sea.example/v1",
                r#"{"resources":[
                    {"name":"boats","singularName":"boat","namespaced":true,"kind":"Boat","verbs":["get","list"],"shortNames":["bo"]},
                    {"name":"boats/scale","singularName":"","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get"]},
                    {"name":"anchors","singularName":"anchor","namespaced":false,"kind":"Anchor","verbs":["create"]}]}"#,
            )
            .with(&format!("{boats} as=Table"), TABLE_OF_BOATS)
            .warning(&format!("{boats} as=Table"), "boats are old")
            .with(&select("metadata.name"), "{}")
            .with(&select("spec.color"), "{}")
            .failing(&select("metadata.namespace"), "no label metadata.namespace")
            .failing(&select(NO_LABEL), "no label noSuchLabel")
    }

    #[test]
    fn a_resource_is_what_discovery_tables_and_errors_say() {
        let files = Files::with(&[
            ("pkg/apis/sea/v1/conversion.go", CONVERSION),
            ("staging/src/k8s.io/api/sea/v1/types.go", TYPES_GO),
        ]);
        let server = server();
        let text = generate(&Inputs::of(&server, &files)).unwrap();
        let (_, groups) = text.split_once("\"groups\": ").unwrap();
        let expected = r#"[
 {"group": "", "versions": [
  {"version": "v1", "resources": [

  ]}
 ]},
 {"group": "sea.example", "versions": [
  {"version": "v1", "resources": [
   {"plural": "anchors", "singular": "anchor", "kind": "Anchor", "verbs": ["create"]},
   {"plural": "boats", "singular": "boat", "kind": "Boat", "namespaced": true, "shortNames": ["bo"], "verbs": ["get", "list"], "warning": "boats are old", "fieldLabels": ["metadata.name", "spec.color"], "fieldLabelError": "no label <label>",
    "subresources": [
     {"name": "scale", "kind": "Scale", "group": "autoscaling", "version": "v1", "verbs": ["get"]}],
    "columns": [
     {"name": "Name", "format": "name"},
     {"name": "Oars", "type": "integer", "priority": 1, "description": "how many"},
     {"name": "Age"}]}
  ]}
 ]}
]}
"#;
        assert_eq!(groups, expected);
        assert!(text.contains("\"nameColumn\": \"the name\""), "{text}");
    }

    #[test]
    fn a_label_is_a_path_of_names() {
        for (text, is) in [
            ("spec.nodeName", true),
            ("type", true),
            ("field label not supported: %s", false),
            ("", false),
            ("Pod", false),
        ] {
            assert_eq!(is_label(text), is, "{text}");
        }
    }
}
