//! Which rules definitions may not have.

use kubeproof_machinery::json::{Value as Json, json};

use super::{RuleFaults, RuleScope};
use kubeproof_machinery::status::FieldPath;

/// The faults of the rules of `schema`, a node in `scope`.
fn faults(schema: &Json, scope: &RuleScope) -> Vec<String> {
    let path = FieldPath::new("schema");
    let mut faults = RuleFaults::default();
    faults.check(schema, &path, scope);
    let errors = faults.into_errors(&path);
    let shown = errors
        .causes()
        .iter()
        .map(|cause| format!("{}: {}", cause.field, cause.message));
    shown
        .map(|text| text.replace("schema.x-kubernetes-validations", "rules"))
        .collect()
}

fn list(rule: &str, max_items: Option<u64>) -> Json {
    let mut list = json!({"type": "array", "items": {"type": "string"}});
    list["x-kubernetes-validations"] = json!([{"rule": rule}]);
    if let Some(max) = max_items {
        list["maxItems"] = max.into();
    }
    list
}

fn over(what: &str, factor: &str) -> String {
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, \
         maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

#[test]
fn rules_that_could_cost_too_much_are_refused() {
    let rule = "self.all(x, self.all(y, x == y))";
    let root = RuleScope::root();
    assert!(faults(&list(rule, Some(5)), &root).is_empty());
    let refused = faults(&list(rule, None), &root);
    assert_eq!(
        refused[0],
        format!(
            "rules[0].rule: Forbidden: {}",
            over("estimated rule cost", "more than 100x")
        )
    );
    assert_eq!(
        refused[1],
        "rules[0].rule: Forbidden: contributed to estimated rule cost total exceeding cost limit \
         for entire OpenAPIv3 schema"
    );
    let total = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
    assert_eq!(
        refused[2],
        format!("schema: Forbidden: {}", over(total, "more than 100x"))
    );
}

#[test]
fn rules_below_lists_cost_as_often_as_they_may_run() {
    let item = json!({
        "type": "string", "maxLength": 100,
        "x-kubernetes-validations": [{"rule": "self.startsWith('abc')"}],
    });
    let scope = |max: Option<u64>| {
        let mut list = json!({"type": "array"});
        if let Some(max) = max {
            list["maxItems"] = max.into();
        }
        RuleScope::root().items(&list, &FieldPath::new("l"))
    };
    assert!(faults(&item, &scope(Some(1000))).is_empty());
    assert!(
        faults(&item, &scope(None)).is_empty(),
        "requests are not that big"
    );
    let refused = faults(&item, &scope(Some(20_000_000)));
    assert_eq!(
        refused[0],
        format!(
            "rules[0].rule: Forbidden: {}",
            over("estimated rule cost", "4.0x")
        )
    );
}

#[test]
fn old_values_need_an_identity() {
    let item =
        json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]});
    let atomic = RuleScope::root().items(&json!({"type": "array"}), &FieldPath::new("the.list"));
    let want = "rules[0].rule: Invalid value: \"self >= oldSelf\": oldSelf cannot be used on the \
                uncorrelatable portion of the schema within the.list";
    assert_eq!(faults(&item, &atomic), [want]);
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "maxItems": 3});
    assert!(
        faults(
            &item,
            &RuleScope::root().items(&keyed, &FieldPath::new("l"))
        )
        .is_empty()
    );
}

#[test]
fn faults_show_the_rule_as_go_does() {
    let schema = json!({"type": "integer", "x-kubernetes-validations": [{
        "rule": "self > 'a' && true", "message": "m", "reason": "FieldValueInvalid",
        "optionalOldSelf": false,
    }]});
    let want = "rules[0].rule: Invalid value: {\"Rule\":\"self \\u003e 'a' \\u0026\\u0026 true\",\
                \"Message\":\"m\",\"MessageExpression\":\"\",\"Reason\":\"FieldValueInvalid\",\
                \"FieldPath\":\"\",\"OptionalOldSelf\":false}: compilation failed: ERROR: \
                <input>:1:6: found no matching overload for '_>_' applied to '(int, string)'\n \
                | self > 'a' && true\n | .....^";
    let found = faults(&schema, &RuleScope::root());
    assert_eq!(found[0], want);
    assert_eq!(
        found[1],
        "rules[0].optionalOldSelf: Invalid value: false: may not be set if oldSelf is not used in rule"
    );
}
