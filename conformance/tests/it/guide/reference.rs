//! The pages of the reference that are made of the program: its commands and flags, and the format of scenarios.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::Command;

use regex::Regex;
use serde_json::Value;

use super::page::{read, root};

/// Lines of prose are broken at this many characters.
const WIDTH: usize = 128;

fn printed(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kubeproof"))
        .args(arguments)
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("it prints UTF-8")
}

/// Writes or checks a file that is made of the program. `INSTA_UPDATE=always` writes it.
fn keep(path: &str, wanted: &str) {
    let path = root().join(path);
    if std::fs::read_to_string(&path).is_ok_and(|stored| stored == wanted) {
        return;
    }
    let writes = std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always");
    assert!(writes, "INSTA_UPDATE=always writes {}", path.display());
    std::fs::write(&path, wanted).expect("a page can be written");
}

/// Appends `text` as lines that begin with `first`, and further ones with `indent`.
fn wrap(page: &mut String, first: &str, indent: &str, text: &str) {
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(page, "{}", line.trim_end());
            indent.clone_into(&mut line);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    let _ = writeln!(page, "{}", line.trim_end());
}

/// Words in angle brackets are no elements of HTML, stars no emphasis, and columns have no bars. Code stays as it is.
fn escaped(text: &str) -> String {
    let parts = text
        .split('`')
        .enumerate()
        .map(|(index, part)| match index % 2 {
            0 => part.replace('<', "&lt;").replace('*', "\\*"),
            _ => part.to_owned(),
        });
    parts.collect::<Vec<_>>().join("`").replace('|', "\\|")
}

/// The names of the commands below those of `arguments`.
fn commands(help: &str) -> Vec<&str> {
    let Some((_, list)) = help.split_once("\nCommands:\n") else {
        return Vec::new();
    };
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names
        .filter(|name| !name.is_empty() && *name != "help")
        .collect()
}

/// The section of one command, made of its help.
fn command(page: &mut String, names: &[&str]) {
    let help = printed(&[names, &["--help"]].concat());
    let (about, rest) = help.split_once("\n\n").expect("a help has paragraphs");
    let _ = write!(page, "\n## kubeproof {}\n\n", names.join(" "));
    wrap(page, "", "", &escaped(about));
    for paragraph in rest.split("\n\n") {
        if let Some(usage) = paragraph.strip_prefix("Usage: ") {
            let _ = write!(page, "\n```text\n{}\n```\n", usage.trim());
            continue;
        }
        let (title, list) = paragraph.split_once(":\n").expect("a list has a title");
        if title == "Commands" {
            continue;
        }
        let _ = write!(page, "\n{title}:\n\n");
        let mut entries: Vec<(String, String)> = Vec::new();
        for line in list.lines().filter(|line| !line.is_empty()) {
            let text = line.trim_start();
            let indent = line.len() - text.len();
            if indent > 6 {
                let (_, words) = entries.last_mut().expect("words follow a name");
                words.push(' ');
                words.push_str(text);
            } else {
                let (name, words) = text.split_once("  ").unwrap_or((text, ""));
                entries.push((name.to_owned(), words.trim().to_owned()));
            }
        }
        for (name, words) in entries {
            if !name.starts_with("-h") {
                wrap(page, &format!("- `{name}`: "), "  ", &escaped(&words));
            }
        }
        if page.ends_with(&format!("{title}:\n\n")) {
            page.truncate(page.len() - title.len() - ":\n\n\n".len());
        }
    }
    for name in commands(&help) {
        command(page, &[names, &[name]].concat());
    }
}

#[test]
fn the_page_of_commands_is_that_of_the_program() {
    let mut page = String::from(
        "# Command line\n\nThis page is made of `kubeproof COMMAND --help`. `kubeproof completions SHELL` prints a completion \
         script,\n`kubeproof man DIR` writes manual pages. Exit codes: 0 for success, 1 for a difference or a failed \
         scenario, 2 for wrong\nusage or trouble.\n",
    );
    for name in commands(&printed(&["--help"])) {
        command(&mut page, &[name]);
    }
    keep("docs/cli.md", &page);
}

#[test]
fn the_page_of_pods_lists_every_annotation() {
    let source = read("controller/node/src/annotations.rs");
    let key = Regex::new(r#"value\("([a-z-]+)"\)"#).expect("a pattern");
    let keys: BTreeSet<&str> = key
        .captures_iter(&source)
        .filter_map(|found| Some(found.get(1)?.as_str()))
        .collect();
    assert!(keys.contains("ready"), "{keys:?}");
    let page = read("docs/pods.md");
    let (table, _) = page
        .split_once("An annotation of the namespace")
        .expect("a table");
    let missing: Vec<&str> = keys
        .into_iter()
        .filter(|key| !table.contains(key))
        .collect();
    assert!(missing.is_empty(), "not in docs/pods.md: {missing:?}");
}

/// The name of a definition that `schema` refers to.
fn reference(schema: &Value) -> Option<&str> {
    let one = schema["$ref"]
        .as_str()
        .or(schema["allOf"][0]["$ref"].as_str())?;
    one.strip_prefix("#/definitions/")
}

/// The type of a field in words, with links to the definitions that have a section.
fn kind(schema: &Value) -> String {
    if let Some(name) = reference(schema) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let choices = choices.iter().filter(|choice| choice["type"] != "null");
        return choices.map(kind).collect::<Vec<_>>().join(" or ");
    }
    if let Some(values) = schema["enum"].as_array() {
        let values = values.iter().filter_map(Value::as_str);
        return values
            .map(|value| format!("`{value}`"))
            .collect::<Vec<_>>()
            .join(", ");
    }
    let name = match &schema["type"] {
        Value::Array(types) => types
            .iter()
            .filter_map(Value::as_str)
            .find(|name| *name != "null"),
        one => one.as_str(),
    };
    match name {
        Some("array") => format!("list of {}", kind(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("map to {}", kind(&schema["additionalProperties"]))
        }
        Some(name) => name.to_owned(),
        None => "any value".to_owned(),
    }
}

fn fields(page: &mut String, schema: &Value) {
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    let required = schema["required"].as_array();
    page.push_str("\n| field | type | meaning |\n| --- | --- | --- |\n");
    for (name, field) in properties {
        let words = escaped(field["description"].as_str().unwrap_or_default());
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_needed = required.is_some_and(|names| names.iter().any(|one| one == name.as_str()));
        let needed = if is_needed { ", required" } else { "" };
        let _ = writeln!(page, "| `{name}` | {}{needed} | {words} |", kind(field));
    }
}

fn definition(page: &mut String, name: &str, schema: &Value) {
    let _ = write!(page, "\n## {name}\n\n");
    let words = schema["description"].as_str();
    let words = match name {
        "Step" => {
            "One action, with its options. [Steps](scenarios.md#steps) describes each action."
        }
        _ => words.unwrap_or_default(),
    };
    for (index, paragraph) in words.split("\n\n").enumerate() {
        if index > 0 {
            page.push('\n');
        }
        wrap(page, "", "", &escaped(paragraph));
    }
    if words.is_empty() {
        page.truncate(page.len() - "\n\n".len());
    }
    let choices = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
    if let Some(choices) = choices {
        page.push('\n');
        for choice in choices {
            let form = match (&choice["const"], choice["properties"].as_object()) {
                (Value::String(value), _) => format!("`{value}`"),
                (_, Some(fields)) => {
                    let fields = fields
                        .iter()
                        .map(|(name, field)| format!("`{name}`: {}", kind(field)));
                    fields.collect::<Vec<_>>().join(", ")
                }
                _ => kind(choice),
            };
            let words = escaped(choice["description"].as_str().unwrap_or_default());
            match words.is_empty() {
                true => wrap(page, "- ", "  ", &form),
                false => wrap(page, "- ", "  ", &format!("{form}: {words}")),
            }
        }
    } else if schema["properties"].is_object() {
        fields(page, schema);
    } else if reference(schema).is_some() || !schema["enum"].is_null() {
        let _ = write!(page, "\n{}\n", kind(schema));
    }
}

#[test]
fn the_schema_and_the_page_of_scenarios_are_those_of_the_program() {
    let text = printed(&["schema"]);
    keep("docs/scenario.schema.json", &text);
    let schema: Value = serde_json::from_str(&text).expect("a schema is JSON");
    let mut page = String::from(
        "# Scenario format\n\nThis page is made of the JSON Schema of scenarios, which is \
         [`scenario.schema.json`](scenario.schema.json) and is\nprinted by `kubeproof schema`. Editors with the YAML language \
         server complete and check a scenario that begins with this line:\n\n```yaml\n# yaml-language-server: \
         $schema=scenario.schema.json\n```\n\n[Scenarios](scenarios.md) explains what the fields do.\n\n## Scenario\n",
    );
    fields(&mut page, &schema);
    for (name, schema) in schema["definitions"]
        .as_object()
        .expect("a schema has definitions")
    {
        definition(&mut page, name, schema);
    }
    keep("docs/scenario-format.md", &page);
}
