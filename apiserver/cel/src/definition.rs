//! The faults of the rules that a definition's schema has.

#[cfg(test)]
mod tests;

use kubeproof_machinery::json::Value as Json;

use super::{
    rules::{CompiledRule, compile_rules},
    schema::decl_type,
};
use kubeproof_machinery::{
    schema::structural::{Structural, ValidationRule},
    status::{CauseReason, FieldErrors, FieldPath},
};

/// The most that a rule may cost, by estimate.
const RULE_COST_MAX: u64 = 10_000_000;

/// The most that all rules of a schema may cost together.
const SCHEMA_COST_MAX: u64 = 100_000_000;

/// How many of the most expensive rules are named when all are too expensive.
const EXPENSIVE_MAX: usize = 4;

/// The position of a schema node, as far as it matters for the rules of the node.
#[derive(Clone, Debug)]
pub struct RuleScope {
    /// Whether values are whole resources.
    root: bool,
    /// How many values of the node an object may have; `None` if nothing bounds it.
    cardinality: Option<u64>,
    /// The innermost list around whose items have no identity.
    uncorrelatable: Option<FieldPath>,
}

/// The faults of a schema's rules and the rules' total cost.
#[derive(Debug, Default)]
pub struct RuleFaults {
    errors: FieldErrors,
    total: u64,
    expensive: Vec<(FieldPath, u64)>,
}

impl RuleScope {
    /// Returns the scope of a whole schema.
    pub fn root() -> Self {
        Self {
            root: true,
            cardinality: Some(1),
            uncorrelatable: None,
        }
    }

    /// Returns the scope of a part of `schema`: a property or the values of a map.
    pub fn part(&self, schema: &Json) -> Self {
        let factor = match schema["type"].as_str() {
            Some("object") if !schema["additionalProperties"].is_null() => {
                schema["maxProperties"].as_i64()
            }
            Some("array") => schema["maxItems"].as_i64(),
            _ => Some(1),
        };
        let factor = factor.map(|factor| u64::try_from(factor).unwrap_or_default());
        Self {
            root: false,
            cardinality: self
                .cardinality
                .zip(factor)
                .map(|(a, b)| a.saturating_mul(b)),
            uncorrelatable: self.uncorrelatable.clone(),
        }
    }

    /// Returns the scope of the items of `schema`, a list at `path`.
    pub fn items(&self, schema: &Json, path: &FieldPath) -> Self {
        let mut scope = self.part(schema);
        if schema["x-kubernetes-list-type"] != "map" && scope.uncorrelatable.is_none() {
            scope.uncorrelatable = Some(path.clone());
        }
        scope
    }
}

impl RuleFaults {
    /// Checks the rules of `schema`, a node at `path` without faults otherwise.
    pub fn check(&mut self, schema: &Json, path: &FieldPath, scope: &RuleScope) {
        if schema["x-kubernetes-validations"]
            .as_array()
            .is_none_or(Vec::is_empty)
        {
            return;
        }
        let path = path.child("x-kubernetes-validations");
        let structural = Structural::parse(schema);
        let Some(decl) = decl_type(&structural, scope.root || structural.embedded_resource) else {
            let message = "Internal error: internal error: failed to construct type information \
                           for x-kubernetes-validations rules: unable to convert structural schema \
                           to CEL declarations";
            self.errors
                .push(CauseReason::Internal, &path, message.to_owned());
            return;
        };
        let compiled = compile_rules(&structural.validations, &decl);
        for (index, (rule, compiled)) in structural.validations.iter().zip(&compiled).enumerate() {
            self.check_rule(rule, compiled, &path.index(index), scope);
        }
    }

    fn check_rule(
        &mut self,
        rule: &ValidationRule,
        compiled: &CompiledRule,
        path: &FieldPath,
        scope: &RuleScope,
    ) {
        let rule_path = path.child("rule");
        let cardinality = scope.cardinality.unwrap_or(compiled.cardinality_max);
        let cost = compiled.cost_max.saturating_mul(cardinality);
        self.observe(&rule_path, cost, "estimated rule cost");
        if let Some(error) = &compiled.error {
            self.invalid(rule, &rule_path, error);
        }
        let message_path = path.child("messageExpression");
        if let Some(error) = &compiled.message_error {
            self.invalid(rule, &message_path, error);
        } else if compiled.message.is_some() {
            let what = "estimated messageExpression cost";
            self.observe(&message_path, compiled.message_cost_max, what);
        }
        if compiled.uses_old_self {
            if let Some(list) = &scope.uncorrelatable {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                self.errors
                    .invalid(&rule_path, &rule.rule.as_str().into(), &detail);
            }
        } else if let Some(optional) = rule.optional_old_self {
            let path = path.child("optionalOldSelf");
            let detail = "may not be set if oldSelf is not used in rule";
            self.errors.invalid(&path, &optional.into(), detail);
        }
    }

    fn observe(&mut self, path: &FieldPath, cost: u64, what: &str) {
        if cost > RULE_COST_MAX {
            self.errors
                .forbidden(path, &over_budget(what, cost, RULE_COST_MAX));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_COST_MAX / 100 {
            self.expensive.push((path.clone(), cost));
            self.expensive
                .sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.expensive.truncate(EXPENSIVE_MAX);
        }
    }

    fn invalid(&mut self, rule: &ValidationRule, path: &FieldPath, detail: &str) {
        let message = format!("Invalid value: {}: {detail}", show(rule));
        self.errors.push(CauseReason::Invalid, path, message);
    }

    /// All faults of the schema at `path`; with those of all rules together last.
    pub fn into_errors(mut self, path: &FieldPath) -> FieldErrors {
        if self.total > SCHEMA_COST_MAX {
            for (path, _) in &self.expensive {
                let detail = "contributed to estimated rule cost total exceeding cost limit for \
                              entire OpenAPIv3 schema";
                self.errors.forbidden(path, detail);
            }
            let what =
                "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
            self.errors
                .forbidden(path, &over_budget(what, self.total, SCHEMA_COST_MAX));
        }
        self.errors
    }
}

fn over_budget(what: &str, cost: u64, max: u64) -> String {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a factor is printed by its first digits"
    )]
    let factor = cost as f64 / max as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, \
         maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// A rule as Go shows it: its own form of it in JSON, fit for HTML.
fn show(rule: &ValidationRule) -> String {
    let text = |text: &str| {
        Json::from(text)
            .to_string()
            .replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('&', "\\u0026")
            .replace('\u{2028}', "\\u2028")
            .replace('\u{2029}', "\\u2029")
    };
    let reason = if rule.reason.is_empty() {
        "null".to_owned()
    } else {
        text(&rule.reason)
    };
    let optional = rule
        .optional_old_self
        .map_or("null".to_owned(), |flag| flag.to_string());
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{reason},\
         \"FieldPath\":{},\"OptionalOldSelf\":{optional}}}",
        text(&rule.rule),
        text(&rule.message),
        text(&rule.message_expression),
        text(&rule.field_path),
    )
}
