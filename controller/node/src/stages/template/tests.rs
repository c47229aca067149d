use kubeproof_machinery::json::json;

use super::*;

struct Clock;

impl Functions for Clock {
    fn call(&self, name: &str, arguments: &[Value]) -> Option<Value> {
        match (name, arguments) {
            ("Now", []) => Some(json!("2026-01-01T00:00:00Z")),
            ("NodeIPWith", [name]) => Some(json!(format!("ip of {name}"))),
            _ => None,
        }
    }
}

fn render(text: &str) -> Result<String, String> {
    let document = json!({
        "spec": {
            "nodeName": "node-1",
            "containers": [{ "name": "a", "image": "x" }, { "name": "b", "image": "y" }],
            "empty": [],
        },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    Template::parse(text)?.render(&document, &Clock)
}

#[test]
fn everything_that_is_understood() {
    for (text, expected) in [
        ("plain {{/* said */}}text", "plain text"),
        ("{{ .spec.nodeName }}", "node-1"),
        ("a {{- \" b \" -}} c", "a b c"),
        (
            "{{ $now := Now }}{{ $now | Quote }}",
            "\"2026-01-01T00:00:00Z\"",
        ),
        (
            "{{ if .spec.empty }}x{{ else if .none }}y{{ else }}z{{ end }}",
            "z",
        ),
        (
            "{{ range $i, $c := .spec.containers }}{{ $i }}={{ $c.name }}/{{ .image }} {{ end }}",
            "0=a/x 1=b/y ",
        ),
        ("{{ range .spec.empty }}x{{ else }}none{{ end }}", "none"),
        (
            "{{ with .spec.none }}{{ . }}{{ else }}{{ .spec.nodeName }}{{ end }}",
            "node-1",
        ),
        (
            "{{ $n := 0 }}{{ range .spec.containers }}{{ $n = add $n 2 }}{{ end }}{{ $n }}",
            "4",
        ),
        ("{{ index .spec.containers 1 | len }}", "2"),
        ("{{ (index .status.conditions 0).status }}", "True"),
        (
            "{{ or .none \"d\" | printf \"%s-%q\" .spec.nodeName }}",
            "node-1-\"d\"",
        ),
        (
            "{{ if and (eq .spec.nodeName \"x\" \"node-1\") (not .none) }}yes{{ end }}",
            "yes",
        ),
        ("{{ NodeIPWith .spec.nodeName }}", "ip of \"node-1\""),
        (
            "{{ define \"t\" }}<{{ .v }}>{{ end }}{{ template \"t\" dict \"v\" 1 }}",
            "<1>",
        ),
        (
            "{{ YAML .status.conditions 1 }}",
            "  [{\"status\":\"True\",\"type\":\"Ready\"}]",
        ),
        (
            "{{ if gt (len .spec.containers) 1 }}many{{ end }}{{ \"}}\" }}",
            "many}}",
        ),
        ("{{ .none.deeper }}", "<no value>"),
    ] {
        assert_eq!(render(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_not_understood_says_so() {
    for text in [
        "{{ if }}x{{ end }}",
        "{{ range .a }}",
        "{{ end }}",
        "{{ .a",
        "{{ break }}",
        "{{ Unknown }}",
        "{{ $x }}",
        "{{ .a .b }}",
        "{{ template \"none\" }}",
    ] {
        assert!(render(text).is_err(), "{text}");
    }
}
