//! Which faults rules find in objects, and which of them are forgiven.

use kubeproof_machinery::json::{Value as Json, json};

use super::Validator;
use kubeproof_machinery::schema::structural::Structural;

/// Faults, and forgiven ones.
fn check(schema: &Json, object: &Json, old: Option<&Json>) -> (Vec<String>, Vec<String>) {
    let schema = Structural::parse(schema);
    let validator = Validator::new(&schema).expect("the schema has rules");
    let found = validator.validate(object, old);
    let shown = found
        .causes()
        .iter()
        .map(|cause| format!("{}: {}", cause.field, cause.message));
    (shown.collect(), found.warnings().to_vec())
}

fn faults(schema: &Json, object: &Json, old: Option<&Json>) -> Vec<String> {
    check(schema, object, old).0
}

/// A schema whose `spec` is `schema`.
fn spec(schema: Json) -> Json {
    json!({"type": "object", "properties": {"spec": schema}})
}

/// A schema of one rule.
fn ruled(mut schema: Json, rule: Json) -> Json {
    schema["x-kubernetes-validations"] = json!([rule]);
    schema
}

fn integer(rule: Json) -> Json {
    ruled(json!({"type": "integer"}), rule)
}

#[test]
fn messages_come_from_the_expression_the_message_or_the_rule() {
    let small = |extra: Json| {
        let mut rule = json!({"rule": " self < 5 "});
        rule.as_object_mut()
            .expect("an object")
            .extend(extra.as_object().expect("an object").clone());
        spec(integer(rule))
    };
    let table = [
        (json!({}), "spec: Invalid value: 7: failed rule: self < 5"),
        (
            json!({"message": " too big "}),
            "spec: Invalid value: 7: too big",
        ),
        (
            json!({"message": "m", "messageExpression": "'is ' + string(self)"}),
            "spec: Invalid value: 7: is 7",
        ),
        (
            json!({"message": "m", "messageExpression": "' '"}),
            "spec: Invalid value: 7: m",
        ),
        (
            json!({"message": "m", "messageExpression": "'a\\nb'"}),
            "spec: Invalid value: 7: m",
        ),
        (
            json!({"message": "m", "messageExpression": "string(1 / (self - 7))"}),
            "spec: Invalid value: 7: m",
        ),
        (
            json!({"reason": "FieldValueForbidden"}),
            "spec: Forbidden: failed rule: self < 5",
        ),
        (
            json!({"reason": "FieldValueRequired"}),
            "spec: Required value: failed rule: self < 5",
        ),
        (
            json!({"reason": "FieldValueDuplicate"}),
            "spec: Duplicate value: 7",
        ),
    ];
    for (extra, want) in table {
        assert_eq!(
            faults(&small(extra.clone()), &json!({"spec": 7}), None),
            [want],
            "{extra}"
        );
        assert!(faults(&small(extra), &json!({"spec": 4}), None).is_empty());
    }
}

#[test]
fn a_field_path_names_the_field_that_is_at_fault() {
    let object = |path: &str| {
        let rule = json!({"rule": "false", "fieldPath": path, "message": "no"});
        let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
        spec(ruled(
            json!({"type": "object", "properties": {"a.b": map, "c": map}}),
            rule,
        ))
    };
    let table = [
        ("", "spec: Invalid value: no"),
        (".c", "spec.c: Invalid value: no"),
        (".c.key", "spec.c[key]: Invalid value: no"),
        ("['a.b']['it\\'s']", "spec.a.b[it's]: Invalid value: no"),
    ];
    for (path, want) in table {
        assert_eq!(
            faults(&object(path), &json!({"spec": {}}), None),
            [want],
            "{path}"
        );
    }
}

#[test]
fn the_place_of_the_whole_object_is_no_path() {
    let schema = ruled(
        json!({"type": "object"}),
        json!({"rule": "self.metadata.name == 'a' && self.kind != ''", "message": "no"}),
    );
    let object = |name: &str| json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": name}});
    assert_eq!(
        faults(&schema, &object("b"), None),
        ["<nil>: Invalid value: no"]
    );
    assert!(faults(&schema, &object("a"), None).is_empty());
}

#[test]
fn transition_rules_wait_for_an_old_value() {
    let grows = json!({"rule": "self >= oldSelf", "message": "shrinks"});
    let schema = spec(integer(grows.clone()));
    assert!(faults(&schema, &json!({"spec": 1}), None).is_empty());
    assert!(faults(&schema, &json!({"spec": 1}), Some(&json!({}))).is_empty());
    let found = faults(&schema, &json!({"spec": 1}), Some(&json!({"spec": 2})));
    assert_eq!(found, ["spec: Invalid value: 1: shrinks"]);

    let item = json!({"type": "object", "properties": {
        "k": {"type": "string"}, "v": integer(grows),
    }});
    let mut list = json!({"type": "array", "items": item, "maxItems": 9});
    let old = json!({"spec": [{"k": "a", "v": 1}, {"k": "b", "v": 5}]});
    let new = json!({"spec": [{"k": "b", "v": 4}, {"k": "a", "v": 2}, {"k": "c", "v": 0}]});
    assert!(
        faults(&spec(list.clone()), &new, Some(&old)).is_empty(),
        "items have no identity"
    );
    list["x-kubernetes-list-type"] = "map".into();
    list["x-kubernetes-list-map-keys"] = json!(["k"]);
    let found = faults(&spec(list), &new, Some(&old));
    assert_eq!(found, ["spec[0].v: Invalid value: 4: shrinks"]);
}

#[test]
fn an_optional_old_value_may_be_absent() {
    let schema = spec(integer(json!({
        "rule": "oldSelf.hasValue() ? self >= oldSelf.value() : self == 1",
        "message": "starts at 1 and grows",
        "optionalOldSelf": true,
    })));
    let fault = |value: i32| {
        vec![format!(
            "spec: Invalid value: {value}: starts at 1 and grows"
        )]
    };
    assert_eq!(faults(&schema, &json!({"spec": 2}), None), fault(2));
    assert!(faults(&schema, &json!({"spec": 1}), None).is_empty());
    let old = json!({"spec": 1});
    assert!(faults(&schema, &json!({"spec": 3}), Some(&old)).is_empty());
    assert_eq!(faults(&schema, &json!({"spec": 0}), Some(&old)), fault(0));
}

#[test]
fn faults_of_what_is_as_it_was_are_forgiven() {
    let text = ruled(
        json!({"type": "string", "maxLength": 20}),
        json!({"rule": "self.size() < 3", "message": "is short"}),
    );
    let fields = json!({"a": text, "b": {"type": "string"}});
    let schema = spec(json!({"type": "object", "properties": fields}));
    let old = json!({"spec": {"a": "long", "b": "1"}});
    let (errors, warnings) = check(
        &schema,
        &json!({"spec": {"a": "long", "b": "2"}}),
        Some(&old),
    );
    assert!(errors.is_empty());
    assert_eq!(warnings, ["spec.a: Invalid value: \"long\": is short"]);
    let (errors, warnings) = check(&schema, &json!({"spec": {"a": "longer"}}), Some(&old));
    assert_eq!(errors, ["spec.a: Invalid value: \"longer\": is short"]);
    assert!(warnings.is_empty());

    let list = spec(json!({"type": "array", "items": text}));
    let old = json!({"spec": ["long"]});
    let (errors, warnings) = check(&list, &old, Some(&old));
    assert!(errors.is_empty(), "the list as a whole is as it was");
    assert_eq!(warnings, ["spec[0]: Invalid value: \"long\": is short"]);
    let (errors, _) = check(&list, &json!({"spec": ["long", "b"]}), Some(&old));
    assert_eq!(errors, ["spec[0]: Invalid value: \"long\": is short"]);
}

#[test]
fn an_evaluation_error_is_a_fault_of_its_own() {
    let rule = |rule: &str| {
        spec(ruled(
            json!({"x-kubernetes-int-or-string": true}),
            json!({"rule": rule}),
        ))
    };
    let object = json!({"spec": "5"});
    let found = faults(&rule("self > 5"), &object, None);
    let want = "spec: Invalid value: \"\": 'no such overload': call arguments did not match a \
                supported operator, function or macro signature for rule: self > 5";
    assert_eq!(found, [want]);
    let found = faults(&rule("int(self) / 0 == 1"), &object, None);
    assert_eq!(
        found,
        ["spec: Invalid value: \"\": division by zero evaluating rule: int(self) / 0 == 1"]
    );
}

#[test]
fn a_spent_budget_ends_the_checks() {
    // A search costs a hundredth of the product of both lengths.
    let text = |searched: usize, rules: usize| {
        let rule = format!("!self.contains('{}')", "y".repeat(searched));
        let mut text = json!({"type": "string"});
        text["x-kubernetes-validations"] =
            vec![json!({"rule": rule, "message": "x"}); rules].into();
        spec(text)
    };
    let object = json!({"spec": "x".repeat(100_000)});
    assert!(faults(&text(900, 10), &object, None).is_empty());
    let want = "spec: Invalid value: \"string\": validation failed due to running out of cost \
                budget, no further validation rules will be run";
    assert_eq!(faults(&text(900, 20), &object, None), [want]);
    let want = "spec: Invalid value: \"string\": 'operation cancelled: actual cost limit exceeded': \
                no further validation rules will be run due to call cost exceeds limit for rule: x";
    assert_eq!(faults(&text(1_100, 2), &object, None), [want]);
}

#[test]
fn rules_of_values_that_are_null_do_not_run() {
    let mut text = ruled(json!({"type": "string"}), json!({"rule": "self == 'a'"}));
    text["nullable"] = true.into();
    assert!(faults(&spec(text.clone()), &json!({"spec": null}), None).is_empty());
    assert_eq!(faults(&spec(text), &json!({"spec": "b"}), None).len(), 1);
}

#[test]
fn parts_of_lists_maps_and_clauses_have_rules_of_their_own() {
    let positive = || integer(json!({"rule": "self > 0", "message": "positive"}));
    let mut schema = spec(json!({"type": "object", "properties": {
        "l": {"type": "array", "items": positive()},
        "m": {"type": "object", "additionalProperties": positive()},
        "with-dash": positive(),
    }}));
    schema["properties"]["spec"]["allOf"] = json!([{"properties": {"l": {
        "x-kubernetes-validations": [{"rule": "self.size() < 3", "message": "short"}],
    }}}]);
    let object = json!({"spec": {"l": [1, 0, 2], "m": {"a": 0}, "with-dash": 0}});
    let want = [
        "spec.l: Invalid value: short",
        "spec.l[1]: Invalid value: 0: positive",
        "spec.m[a]: Invalid value: 0: positive",
        "spec.with-dash: Invalid value: 0: positive",
    ];
    assert_eq!(faults(&schema, &object, None), want);
}
