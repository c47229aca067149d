//! The JSON Schema of scenarios: it takes what the reader takes, and refuses what that refuses.

use kubeproof::json::Value;
use kubeproof::scenario::{Scenario, schema};
use kubeproof::suite;

/// Why `value` is not as `schema` says, of the parts of JSON Schema that are used; `None` if it is.
fn wrong(root: &Value, schema: &Value, value: &Value) -> Option<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.trim_start_matches('#');
        let target = root.pointer(pointer).expect("references lead somewhere");
        return wrong(root, target, value);
    }
    for all in schema["allOf"].as_array().into_iter().flatten() {
        if let Some(why) = wrong(root, all, value) {
            return Some(why);
        }
    }
    for several in ["anyOf", "oneOf"] {
        if let Some(choices) = schema[several].as_array() {
            let whys: Vec<String> = choices
                .iter()
                .filter_map(|choice| wrong(root, choice, value))
                .collect();
            if whys.len() == choices.len() {
                return Some(whys.join(" or "));
            }
        }
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let types = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        _ => vec![kind],
    };
    let is_number = kind == "integer" && types.contains(&"number");
    if !(is_number || types.contains(&kind)) {
        return Some(format!("{value} is not of {types:?}"));
    }
    let constant = schema.get("const").map(std::slice::from_ref);
    let values = schema["enum"].as_array().map(Vec::as_slice).or(constant);
    if let Some(values) = values
        && !values.contains(value)
    {
        return Some(format!("{value} is none of {values:?}"));
    }
    match value {
        Value::Array(items) if schema["items"].is_object() => items
            .iter()
            .find_map(|item| wrong(root, &schema["items"], item)),
        Value::Object(fields) => {
            let required = schema["required"].as_array().into_iter().flatten();
            let missing = required
                .filter_map(Value::as_str)
                .find(|name| !fields.contains_key(name));
            if let Some(missing) = missing {
                return Some(format!("{missing} is missing"));
            }
            fields
                .iter()
                .find_map(|(name, field)| match &schema["properties"][name] {
                    Value::Null if schema["additionalProperties"] == false => {
                        Some(format!("{name} is unknown"))
                    }
                    Value::Null => None,
                    known => wrong(root, known, field).map(|why| format!("{name}: {why}")),
                })
        }
        _ => None,
    }
}

fn judge(text: &str) -> Option<String> {
    let schema = schema();
    wrong(
        &schema,
        &schema,
        &serde_saphyr::from_str(text).expect("it is YAML"),
    )
}

#[test]
fn every_scenario_of_the_suite_is_as_the_schema_says() {
    let paths = suite::find(&suite::scenarios_dir()).unwrap();
    assert!(paths.len() > 100);
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(judge(&text), None, "{}", path.display());
    }
}

#[test]
fn what_the_reader_refuses_the_schema_refuses() {
    let differs = |entry: &str| {
        format!("title: t\nsource: s\nsteps: []\ndiffers: [{{{entry}, because: b}}]\n")
    };
    let with = |step: &str| format!("title: t\nsource: s\nsteps: [{step}]\n");
    for (text, why) in [
        (
            "title: t\nsource: s\nstep: []\n".to_owned(),
            "steps is missing",
        ),
        (
            "title: t\nsource: s\nsteps: []\nport: true\n".to_owned(),
            "port is unknown",
        ),
        (with("{appply: x.yaml}"), "appply is unknown"),
        (
            with("{scale: {target: statefulset/web, replicas: many}}"),
            "replicas: \"many\"",
        ),
        (
            with("{fault: {name: a, hold: true, on: {verb: creat}}}"),
            "\"creat\"",
        ),
        (with("{fault: {name: a, holds: true}}"), "holds is unknown"),
        (with("{restart: everything}"), "\"everything\""),
        (
            "title: t\nsource: s\nsteps: []\nshows: [{text: t}]\n".to_owned(),
            "marks is missing",
        ),
        (
            "title: t\nsource: s\nsteps: []\nshows: [{text: t, marks: [], mark: a}]\n".to_owned(),
            "mark is unknown",
        ),
        (
            differs("with: {fault: crash, verb: create}"),
            "\"crash\" is none of",
        ),
        (
            differs("with: {fault: refuse, verb: create, times: 2}"),
            "times is unknown",
        ),
        (
            differs("with: order, in: [{event: Failed, regarding: pod/a}]"),
            "atMost is missing",
        ),
        (
            differs("with: order, in: [{object: pod/a, field: NODE}]"),
            "field is unknown",
        ),
    ] {
        let read: Result<Scenario, _> = serde_saphyr::from_str(&text);
        assert!(read.is_err(), "{text}");
        let refusal = judge(&text).expect("the schema refuses it");
        assert!(refusal.contains(why), "{text}: {refusal}");
    }
}

#[test]
fn the_program_prints_the_schema() {
    let printed = std::process::Command::new(env!("CARGO_BIN_EXE_kubeproof"))
        .arg("schema")
        .output()
        .unwrap();
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(printed, schema());
}

#[test]
fn fields_are_described_for_editors() {
    let schema = schema();
    let title = &schema["properties"]["title"]["description"];
    assert_eq!(title, "The claim of the scenario, as a sentence.");
}
