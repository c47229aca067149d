//! `parameters.txt`: the parameters of operations in the OpenAPI v2 document of a server.

use std::collections::BTreeMap;

use anyhow::ensure;

use super::Inputs;
use super::definitions::{plain, sorted};
use super::json::Json;

const FORMAT: &str = "\
# A parameter a line: its name in the document, or its own name where operations do not share it, and
# what it is; $ref is the bare name of a definition.
";

/// Returns the text of the file.
///
/// # Errors
/// The server does not answer, or two parameters of a query have one name.
pub(crate) fn generate(inputs: &Inputs) -> anyhow::Result<String> {
    let document = inputs.server.document("/openapi/v2", "application/json")?;
    let mut lines: BTreeMap<String, Json> = BTreeMap::new();
    let shared = document.get("parameters").map_or(&[][..], Json::fields);
    for (name, parameter) in shared {
        lines.insert(name.clone(), sorted(plain(parameter.clone())));
    }
    let paths = document.get("paths").map_or(&[][..], Json::fields);
    let operations = paths.iter().flat_map(|(_, path)| path.fields());
    let parameters = operations.flat_map(|(_, operation)| operation.items("parameters"));
    // Bodies and names in paths are those of one kind.
    for parameter in parameters.filter(|own| own.text("in") == "query") {
        let parameter = sorted(plain(parameter.clone()));
        let name = parameter.text("name").to_owned();
        let known = lines
            .entry(name.clone())
            .or_insert_with(|| parameter.clone());
        ensure!(*known == parameter, "two parameters are called {name}");
    }
    let provenance = inputs.provenance("the OpenAPI v2 document of the server");
    let mut text = format!("# {provenance}\n{FORMAT}");
    for (name, parameter) in lines {
        text.push_str(&format!("{name} {parameter}\n"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::server::Canned;
    use super::super::tree::Files;
    use super::*;

    fn generated(parameters: &str) -> anyhow::Result<String> {
        let document = format!(
            r##"{{"parameters":{{"body-1":{{"name":"body","in":"body","schema":{{"$ref":"#/definitions/a.B"}}}}}},
            "paths":{{"/boats":{{"post":{{"parameters":{parameters}}}}}}}}}"##
        );
        let server = Canned::default().with("/openapi/v2", &document);
        let text = generate(&Inputs::of(&server, &Files::with(&[])))?;
        let (_, lines) = text.split_once(FORMAT).unwrap();
        Ok(lines.to_owned())
    }

    #[test]
    fn shared_parameters_and_those_of_queries_are_listed() {
        let dry_run = r#"{"name":"dryRun","in":"query","type":"string"}"#;
        let more = format!(
            r##"[{dry_run},{dry_run},{{"name":"name","in":"path"}},{{"$ref":"#/parameters/body-1"}}]"##
        );
        let expected = r#"body-1 {"in":"body","name":"body","schema":{"$ref":"a.B"}}
dryRun {"in":"query","name":"dryRun","type":"string"}
"#;
        assert_eq!(generated(&more).unwrap(), expected);
        let other = format!(r#"[{dry_run},{{"name":"dryRun","in":"query","type":"boolean"}}]"#);
        assert!(generated(&other).is_err());
    }
}
