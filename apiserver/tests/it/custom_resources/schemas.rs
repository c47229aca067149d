//! Objects against their schema: expressions, URLs, enumerations, unknown fields.

use kubeproof_apiserver::json::{Value, json};

use super::{DEFINITIONS, WIDGETS, definition, send, send_as, server, widget};

/// A version whose `spec` has these fields.
fn spec_of(properties: Value) -> Value {
    json!({ "schema": { "openAPIV3Schema": { "type": "object", "properties": {
        "spec": { "type": "object", "properties": properties } } } } })
}

#[tokio::test]
async fn patterns_are_go_s() {
    let patterns = [
        r"\p{L}",
        r"[a\p{S}]",
        r"\p{^L}",
        r"\p{Han}",
        r"\x{10FFFF}",
        "(?<n>a)(?<n>b)",
        r"\010",
        "(?)",
        r"[\pL-z]",
    ];
    let fields = patterns.iter().enumerate().map(|(index, pattern)| {
        (
            format!("p{index}"),
            json!({ "type": "string", "pattern": pattern }),
        )
    });
    let mut properties: Value = fields.collect::<kubeproof_apiserver::json::Map>().into();
    properties["rule"] = json!({ "type": "string",
        "x-kubernetes-validations": [{ "rule": r"self.matches('^\\p{L}+$')" }] });
    let server = server(&spec_of(properties)).await;
    let post = format!("POST {WIDGETS}");
    let answer = send(
        &server,
        &post,
        widget("a", json!({ "p0": "é", "rule": "語" })),
    )
    .await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    let answer = send(
        &server,
        &post,
        widget("b", json!({ "p0": "1", "rule": "1" })),
    )
    .await;
    let unmatched = r#"spec.p0: Invalid value: "1": spec.p0 in body should match '\p{L}'"#;
    let failed = r#"spec.rule: Invalid value: "1": failed rule: self.matches('^\\p{L}+$')"#;
    assert_eq!(answer.causes(), [unmatched, failed]);
}

#[tokio::test]
async fn faults_of_patterns_are_worded_as_in_go() {
    let server = kubeproof_apiserver::ApiServer::builder().build();
    for (pattern, fault) in [
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        ("(a{100}){100}", "invalid repeat count: `{100}`"),
        (r"[a-\d]", r"invalid escape sequence: `\d`"),
        (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
        ("(?-:a)", "invalid or unsupported Perl syntax: `(?-:`"),
    ] {
        let version = spec_of(json!({ "p": { "type": "string", "pattern": pattern } }));
        let definition = definition(&json!({}), &version);
        let answer = send(&server, &format!("POST {DEFINITIONS}"), definition).await;
        let path = "spec.validation.openAPIV3Schema.properties[spec].properties[p].pattern";
        let want = format!(
            "{path}: Invalid value: {pattern:?}: must be a valid regular expression, but isn't: \
             error parsing regexp: {fault}"
        );
        assert_eq!(answer.causes(), [want]);
    }
}

#[tokio::test]
async fn urls_are_read_as_those_of_requests() {
    let rule = json!([{ "rule": "isURL(self)", "message": "no URL" }]);
    let url = json!({ "type": "string", "x-kubernetes-validations": rule });
    let server = server(&spec_of(json!({ "url": url }))).await;
    for (url, code) in [
        ("https://h:8200#f", 422),
        ("https://h#f", 422),
        ("https://h/p#f", 201),
        ("http://[fe80::1%en0]/", 422),
        ("http://[fe80::1%25en0]/", 201),
        ("https://%41/", 422),
        ("https://u^@h/", 422),
        ("https://u:p@h/", 201),
    ] {
        let post = format!("POST {WIDGETS}?dryRun=All");
        let answer = send(&server, &post, widget("a", json!({ "url": url }))).await;
        assert_eq!(answer.code, code, "{url}: {}", answer.body);
    }
}

#[tokio::test]
async fn limits_of_one_are_worded_in_the_singular() {
    let server = server(&spec_of(json!({
        "items": { "type": "array", "maxItems": 1, "items": { "type": "string" } },
        "text": { "type": "string", "maxLength": 1 },
        "none": { "type": "array", "maxItems": 0, "items": { "type": "string" } },
    })))
    .await;
    let spec = json!({ "items": ["a", "b"], "text": "ab", "none": ["a"] });
    let answer = send(&server, &format!("POST {WIDGETS}"), widget("a", spec)).await;
    assert_eq!(
        answer.causes(),
        [
            "spec.items: Too many: 2: must have at most 1 item",
            "spec.none: Too many: 1: must have at most 0 items",
            "spec.text: Too long: may not be more than 1 byte",
        ]
    );
}

#[tokio::test]
async fn enumerations_that_differ_are_faults_of_their_own() {
    let clauses = json!([{ "enum": ["A", "B"] }, { "enum": ["B", "C"] }, { "enum": ["A", "B"] }]);
    let outer = json!({ "type": "string", "enum": ["D"], "allOf": clauses });
    let server = server(&spec_of(json!({ "e": outer }))).await;
    let answer = send(
        &server,
        &format!("POST {WIDGETS}"),
        widget("a", json!({ "e": "x" })),
    )
    .await;
    assert_eq!(
        answer.causes(),
        [
            r#"spec.e: Unsupported value: "x": supported values: "A", "B""#,
            r#"spec.e: Unsupported value: "x": supported values: "B", "C""#,
            r#"<nil>: Invalid value: "": "spec.e" must validate all the schemas (allOf). None validated"#,
            r#"spec.e: Unsupported value: "x": supported values: "D""#,
        ]
    );
}

#[tokio::test]
async fn a_list_that_preserves_unknown_fields_keeps_those_of_its_items() {
    let list = json!({ "type": "array", "x-kubernetes-preserve-unknown-fields": true,
        "items": { "type": "object", "properties": {
            "p": { "type": "object", "properties": { "q": { "type": "string" } } } } } });
    let server = server(&spec_of(json!({ "l": list }))).await;
    let spec = json!({ "l": [{ "x": 1, "p": { "q": "a", "y": 2 } }] });
    let answer = send(&server, &format!("POST {WIDGETS}"), widget("a", spec)).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    assert_eq!(
        answer.body["spec"]["l"],
        json!([{ "x": 1, "p": { "q": "a" } }])
    );
    assert_eq!(
        answer.warnings,
        [r#"299 - "unknown field \"spec.l[0].p.y\"""#]
    );
    let owned = &answer.body["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(owned["f:spec"], json!({ ".": {}, "f:l": {} }));

    let applied = widget("b", json!({ "l": [{ "x": 1 }] })).to_string();
    let request = format!("PATCH {WIDGETS}/b?fieldManager=m");
    let media = "application/apply-patch+yaml";
    let answer = send_as(&server, &request, media, "application/json", &applied).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
}
