//! `definitions.txt`: the schemas of the API's types, as the OpenAPI documents of a server have them.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};

use super::json::Json;
use super::{Inputs, Server};

const JSON: &str = "application/json";
const KINDS: &str = "x-kubernetes-group-version-kind";

const FORMAT: &str = "\
# A definition a line: its name, and its schema as OpenAPI v2 has it, but that $ref is the bare name of
# a definition, and that defaults, and the oneOf of types with two encodings, are kept.
";

/// Returns the text of the file.
///
/// Documents of v3 have defaults, those of v2 do not. The latter have the type of what has two
/// encodings, and every group's version of the kinds that all groups have.
///
/// # Errors
/// The server does not answer, or two documents differ in a schema.
pub(crate) fn generate(inputs: &Inputs) -> anyhow::Result<String> {
    let second = inputs.server.document("/openapi/v2", JSON)?;
    let second = second.get("definitions").context("v2 has definitions")?;
    let third = third(inputs.server)?;
    let mut lines = BTreeMap::new();
    for (name, old) in second.fields() {
        let schema = third.get(name);
        let mut schema = schema
            .cloned()
            .with_context(|| format!("v3 has no {name}"))?;
        for keyword in [KINDS, "type"] {
            if let Some(value) = old.get(keyword) {
                schema.set(keyword, value.clone());
            }
        }
        lines.insert(name.as_str(), sorted(plain(schema)));
    }
    let unknown = third.keys().find(|name| !lines.contains_key(name.as_str()));
    ensure!(
        unknown.is_none(),
        "v2 has no {}",
        unknown.map_or("", |name| name)
    );
    let provenance = inputs.provenance("the OpenAPI documents of the server, v3 completed by v2");
    let mut text = format!("# {provenance}\n{FORMAT}");
    for (name, schema) in lines {
        text.push_str(&format!("{name} {schema}\n"));
    }
    Ok(text)
}

/// The schemas of all documents of v3 by name, without their kinds: a document has only those of its
/// own group.
fn third(server: &dyn Server) -> anyhow::Result<BTreeMap<String, Json>> {
    let index = server.document("/openapi/v3", JSON)?;
    let mut found: BTreeMap<String, Json> = BTreeMap::new();
    let documents = index.get("paths").map_or(&[][..], Json::fields);
    for (path, document) in documents {
        let document = server.document(document.text("serverRelativeURL"), JSON)?;
        let components = document.get("components");
        let schemas = components.and_then(|components| components.get("schemas"));
        for (name, schema) in schemas.map_or(&[][..], Json::fields) {
            let mut schema = schema.clone();
            schema.remove(&[KINDS]);
            let known = found.entry(name.clone()).or_insert_with(|| schema.clone());
            ensure!(*known == schema, "{path} has another {name}");
        }
    }
    Ok(found)
}

/// A schema without what only v3 has: paths in references, and `allOf` around those with siblings.
pub(super) fn plain(schema: Json) -> Json {
    match schema {
        Json::Array(items) => items.into_iter().map(plain).collect(),
        Json::Object(fields) => {
            let fields = fields
                .into_iter()
                .map(|(name, value)| match (&*name, value) {
                    ("$ref", Json::String(path)) => {
                        let target = path.rsplit('/').next().unwrap_or(&path);
                        (name, target.into())
                    }
                    ("allOf", Json::Array(all)) if all.len() == 1 && is_reference(&all[0]) => {
                        let target = all[0].text("$ref").rsplit('/').next();
                        ("$ref".to_owned(), target.unwrap_or_default().into())
                    }
                    (_, value) => (name, plain(value)),
                });
            Json::Object(fields.collect())
        }
        scalar => scalar,
    }
}

fn is_reference(schema: &Json) -> bool {
    schema.fields().len() == 1 && schema.get("$ref").is_some()
}

/// The value with the fields of objects sorted.
pub(super) fn sorted(value: Json) -> Json {
    match value {
        Json::Array(items) => items.into_iter().map(sorted).collect(),
        Json::Object(fields) => {
            let fields = fields
                .into_iter()
                .map(|(name, value)| (name, sorted(value)));
            let fields: BTreeMap<String, Json> = fields.collect();
            Json::Object(fields.into_iter().collect())
        }
        scalar => scalar,
    }
}

#[cfg(test)]
mod tests {
    use super::super::server::Canned;
    use super::super::tree::Files;
    use super::*;

    const INDEX: &str = r#"{"paths":{"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1?hash=1"},
        "apis/sea/v1":{"serverRelativeURL":"/openapi/v3/apis/sea/v1?hash=2"}}}"#;

    fn generated(second: &str, core: &str, sea: &str) -> anyhow::Result<String> {
        let third = |schemas: &str| format!(r#"{{"components":{{"schemas":{schemas}}}}}"#);
        let server = Canned::default()
            .with("/openapi/v2", &format!(r#"{{"definitions":{second}}}"#))
            .with("/openapi/v3", INDEX)
            .with("/openapi/v3/api/v1?hash=1", &third(core))
            .with("/openapi/v3/apis/sea/v1?hash=2", &third(sea));
        let text = generate(&Inputs::of(&server, &Files::with(&[])))?;
        let (_, lines) = text.split_once(FORMAT).unwrap();
        Ok(lines.to_owned())
    }

    #[test]
    fn a_schema_has_the_defaults_of_v3_and_the_kinds_and_types_of_v2() {
        let second = r##"{"z.Oar":{"type":"string","description":"v2"},
            "a.Boat":{"type":"object","x-kubernetes-group-version-kind":[{"kind":"Boat"},{"kind":"Ship"}]}}"##;
        let boat = r##"{"a.Boat":{"type":"object","properties":{"oar":{"default":{},"allOf":[
                {"$ref":"#/components/schemas/z.Oar"}]},"other":{"$ref":"#/components/schemas/z.Oar"}},
            "x-kubernetes-group-version-kind":[{"kind":"Boat"}]}}"##;
        let oar =
            r#"{"z.Oar":{"oneOf":[{"type":"integer"},{"type":"string"}],"description":"v3"}}"#;
        let expected = r#"a.Boat {"properties":{"oar":{"$ref":"z.Oar","default":{}},"other":{"$ref":"z.Oar"}},"type":"object","x-kubernetes-group-version-kind":[{"kind":"Boat"},{"kind":"Ship"}]}
z.Oar {"description":"v3","oneOf":[{"type":"integer"},{"type":"string"}],"type":"string"}
"#;
        assert_eq!(generated(second, boat, oar).unwrap(), expected);
    }

    #[test]
    fn documents_that_contradict_each_other_are_refused() {
        let [one, other] = [r#"{"a":{"type":"object"}}"#, r#"{"a":{"type":"string"}}"#];
        assert!(generated(one, one, other).is_err());
        assert!(generated(one, one, one).is_ok());
        assert!(generated(r#"{"b":{}}"#, one, one).is_err());
    }
}
