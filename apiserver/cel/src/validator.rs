//! Validation of custom resources by the rules of their schema.

mod correlated;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use kubeproof_machinery::json::Value as Json;

use super::{
    error::EvalError,
    program::Program,
    rules::{CompiledRule, OLD_SELF, SELF, compile_rules, field_path},
    schema::{decl_type, escape, to_value, with_type_and_object_meta},
    types::DeclType,
    value::Value,
};
use correlated::{Correlated, Memo, Ratchet};
use kubeproof_machinery::{
    cancellation,
    schema::structural::{Structural, ValidationRule},
    status::{CauseReason, FieldErrors, FieldPath},
};

/// The most that all rules may cost for one object.
const OBJECT_COST_MAX: i64 = 10_000_000;

/// The longest message that an expression may make.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// The rules of a schema and of all its parts, compiled.
pub struct Validator {
    schema: Structural,
    rules: Vec<(ValidationRule, CompiledRule)>,
    /// Whether expressions see nothing of the values.
    hidden: bool,
    items: Option<Box<Self>>,
    properties: BTreeMap<String, Self>,
    values: Option<Box<Self>>,
    all_of: Vec<Self>,
}

impl std::fmt::Debug for Validator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Validator")
            .field("rules", &self.rules.len())
            .finish_non_exhaustive()
    }
}

impl Validator {
    /// Compiles the rules of whole resources of `schema`; `None` if the schema has no rules.
    pub fn new(schema: &Structural) -> Option<Self> {
        if !has_rules(schema) {
            return None;
        }
        let decl = decl_type(schema, true);
        let mut root = Self::node(schema, schema, decl.as_ref(), Resource::Yes)?;
        root.schema = with_type_and_object_meta(schema);
        Some(root)
    }

    /// The rules of a node: those of `rules`, about values of `schema`.
    fn node(
        rules: &Structural,
        schema: &Structural,
        decl: Option<&DeclType>,
        resource: Resource,
    ) -> Option<Self> {
        let compiled = match decl {
            Some(decl) if !rules.validations.is_empty() => compile_rules(&rules.validations, decl),
            _ => Vec::new(),
        };
        let hidden = decl.is_none() && !rules.validations.is_empty();
        let element = decl.and_then(DeclType::element).map(|element| &**element);
        let child = |rules: &Structural, schema: &Structural, decl: Option<&DeclType>| {
            Self::node(rules, schema, decl, Resource::of(schema))
        };
        let items = match (&rules.items, &schema.items) {
            (Some(rules), Some(schema)) => child(rules, schema, element).map(Box::new),
            _ => None,
        };
        let mut properties = BTreeMap::new();
        for (name, rules) in &rules.properties {
            let Some(schema) = schema.properties.get(name) else {
                continue;
            };
            let validator = match escape(name) {
                Some(escaped) => match decl.and_then(|decl| decl.field(&escaped)) {
                    Some(decl) => child(rules, schema, Some(decl)),
                    None => None,
                },
                None => decl_type(schema, schema.embedded_resource)
                    .and_then(|decl| child(rules, schema, Some(&decl))),
            };
            properties.extend(validator.map(|validator| (name.clone(), validator)));
        }
        let values = match (rules.map_values(), schema.map_values()) {
            (Some(rules), Some(schema)) => child(rules, schema, element).map(Box::new),
            _ => None,
        };
        let all_of: Vec<Self> = rules
            .value
            .all_of
            .iter()
            .filter_map(|clause| Self::node(clause, schema, decl, resource))
            .collect();
        let empty = compiled.is_empty()
            && !hidden
            && items.is_none()
            && properties.is_empty()
            && values.is_none()
            && all_of.is_empty();
        let schema = match resource {
            // A node without rules of its own is only used for the identity of its items.
            _ if rules.validations.is_empty() => Structural {
                list_type: schema.list_type,
                list_map_keys: schema.list_map_keys.clone(),
                ..Structural::default()
            },
            Resource::Yes => with_type_and_object_meta(schema),
            Resource::No => schema.clone(),
        };
        (!empty).then(|| Self {
            schema,
            rules: rules.validations.iter().cloned().zip(compiled).collect(),
            hidden,
            items,
            properties,
            values,
            all_of,
        })
    }

    /// Returns the faults of `object`, which replaces `old` in an update; faults of unchanged
    /// values are ignored.
    #[must_use]
    pub fn validate(&self, object: &Json, old: Option<&Json>) -> FieldErrors {
        let mut run = Run {
            budget: OBJECT_COST_MAX,
            errors: FieldErrors::new(),
            memo: Memo::default(),
        };
        let current = old.map(|old| Correlated {
            schema: &self.schema,
            old,
            new: object,
        });
        let ratchet = Ratchet {
            current,
            parent: None,
        };
        // Running out of budget ends the validation, and the faults say so.
        let _ended = run.visit(self, &FieldPath::default(), object, old, ratchet);
        run.errors
    }
}

/// Whether values of a node are whole resources.
#[derive(Clone, Copy)]
enum Resource {
    Yes,
    No,
}

impl Resource {
    fn of(schema: &Structural) -> Self {
        if schema.embedded_resource {
            Self::Yes
        } else {
            Self::No
        }
    }
}

fn has_rules(schema: &Structural) -> bool {
    !schema.validations.is_empty()
        || schema.items.as_deref().is_some_and(has_rules)
        || schema.map_values().is_some_and(has_rules)
        || schema.properties.values().any(has_rules)
}

/// The budget is spent.
struct Ended;

struct Run<'v> {
    budget: i64,
    errors: FieldErrors,
    memo: Memo<'v>,
}

impl<'v> Run<'v> {
    fn visit(
        &mut self,
        validator: &'v Validator,
        path: &FieldPath,
        value: &'v Json,
        old: Option<&'v Json>,
        ratchet: Ratchet<'v>,
    ) -> Result<(), Ended> {
        if value.is_null() {
            return Ok(());
        }
        if cancellation::is_requested() {
            return Err(Ended);
        }
        self.rules(
            validator,
            path,
            value,
            old.filter(|old| !old.is_null()),
            ratchet,
        )?;
        for clause in &validator.all_of {
            let ratchet = Ratchet {
                current: None,
                parent: ratchet.parent,
            };
            self.visit(clause, path, value, old, ratchet)?;
        }
        match value {
            Json::Array(items) => {
                let Some(of_items) = &validator.items else {
                    return Ok(());
                };
                for (index, item) in items.iter().enumerate() {
                    let old = self.memo.old_item(&validator.schema, old, item);
                    let ratchet = ratchet.index(index, &mut self.memo);
                    self.visit(of_items, &path.index(index), item, old, ratchet)?;
                }
            }
            Json::Object(fields) => {
                let old = |name: &str| old.and_then(|old| old.get(name));
                if let Some(of_values) = &validator.values {
                    for (name, value) in fields {
                        let path = path.key(name);
                        self.visit(of_values, &path, value, old(name), ratchet.key(name))?;
                    }
                }
                for (name, of_field) in &validator.properties {
                    if let Some(value) = fields.get(name) {
                        let path = path.child(name);
                        self.visit(of_field, &path, value, old(name), ratchet.key(name))?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn rules(
        &mut self,
        validator: &Validator,
        path: &FieldPath,
        value: &Json,
        old: Option<&Json>,
        ratchet: Ratchet<'v>,
    ) -> Result<(), Ended> {
        let schema = &validator.schema;
        if validator.hidden {
            let detail = "rule compiler initialization error: failed to convert to declType for \
                          CEL validation rules";
            self.invalid(path, schema, detail);
            return Ok(());
        }
        if validator.rules.is_empty() {
            return Ok(());
        }
        if self.budget <= 0 {
            return self.out_of_budget(path, schema);
        }
        let this = to_value(value, schema);
        let uses_old = validator
            .rules
            .iter()
            .any(|(_, compiled)| compiled.uses_old_self);
        let before = old.filter(|_| uses_old).map(|old| to_value(old, schema));
        let mut plain = BTreeMap::from([(SELF, this.clone())]);
        plain.extend(before.clone().map(|before| (OLD_SELF, before)));
        let optional = Value::Optional(before.map(std::sync::Arc::new));
        let with_optional = BTreeMap::from([(SELF, this), (OLD_SELF, optional)]);
        for (rule, compiled) in &validator.rules {
            let optional = rule.optional_old_self == Some(true);
            if let Some(error) = &compiled.error {
                self.invalid(path, schema, &format!("rule compile error: {error}"));
                continue;
            }
            let Some(program) = &compiled.program else {
                continue;
            };
            if compiled.uses_old_self && old.is_none() && !optional {
                continue;
            }
            let variables = if optional { &with_optional } else { &plain };
            if self.holds(program, rule, path, schema, variables)? {
                continue;
            }
            let message = self.message(compiled, path, schema, variables, ratchet)?;
            let detail = message.unwrap_or_else(|| match rule.message.trim() {
                _ if rule.message.is_empty() => format!("failed rule: {}", rule.rule.trim()),
                message => message.to_owned(),
            });
            let place = field_path(&rule.field_path, schema)
                .filter(|below| !below.is_empty())
                .map_or_else(|| path.clone(), |below| path.child(&below));
            let mut found = FieldErrors::new();
            fault(&mut found, rule, &place, schema, value, &detail);
            let forgiven = !compiled.uses_old_self && ratchet.forgives(&mut self.memo);
            self.add(found, forgiven);
        }
        Ok(())
    }

    /// Evaluates a rule. An evaluation error is recorded and the rule counts as satisfied.
    fn holds(
        &mut self,
        program: &Program,
        rule: &ValidationRule,
        path: &FieldPath,
        schema: &Structural,
        variables: &BTreeMap<&str, Value>,
    ) -> Result<bool, Ended> {
        let (value, cost) = program.evaluate(variables);
        let cost = i64::try_from(cost).unwrap_or(i64::MAX);
        if cost > self.budget {
            return self.out_of_budget(path, schema).map(|()| true);
        }
        self.budget -= cost;
        let shown = match rule.message.trim() {
            _ if rule.message.is_empty() => rule.rule.trim(),
            message => message,
        };
        match value {
            Ok(Value::Bool(true)) => Ok(true),
            Ok(_) => Ok(false),
            Err(error @ EvalError::CostLimit) => {
                let detail = format!(
                    "'{}': no further validation rules will be run due to call cost exceeds limit \
                     for rule: {shown}",
                    error.message()
                );
                self.invalid(path, schema, &detail);
                Err(Ended)
            }
            Err(EvalError::Failed(error)) => {
                let detail = if error.starts_with("no such overload") {
                    format!(
                        "'{error}': call arguments did not match a supported operator, function or \
                         macro signature for rule: {shown}"
                    )
                } else {
                    format!("{error} evaluating rule: {shown}")
                };
                self.invalid(path, schema, &detail);
                Ok(true)
            }
        }
    }

    /// The message that an expression makes, if it makes one that is fit to be shown.
    fn message(
        &mut self,
        compiled: &CompiledRule,
        path: &FieldPath,
        schema: &Structural,
        variables: &BTreeMap<&str, Value>,
        ratchet: Ratchet<'v>,
    ) -> Result<Option<String>, Ended> {
        let Some(program) = &compiled.message else {
            return Ok(None);
        };
        let (value, cost) = program.evaluate(variables);
        let cost = i64::try_from(cost).unwrap_or(i64::MAX);
        let refused = if cost > self.budget {
            Some(
                "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run",
            )
        } else if value == Err(EvalError::CostLimit) {
            Some(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression",
            )
        } else {
            None
        };
        if let Some(detail) = refused {
            let mut found = FieldErrors::new();
            push_invalid(&mut found, path, &schema.value_type, detail);
            let forgiven = !compiled.uses_old_self && ratchet.forgives(&mut self.memo);
            self.add(found, forgiven);
            return Err(Ended);
        }
        self.budget -= cost;
        let Ok(Value::String(text)) = value else {
            return Ok(None);
        };
        let text = text.trim();
        let fit = !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
        Ok(fit.then(|| text.to_owned()))
    }

    fn add(&mut self, found: FieldErrors, forgiven: bool) {
        if forgiven {
            self.errors.forgive(&found);
        } else {
            self.errors.extend(found);
        }
    }

    fn invalid(&mut self, path: &FieldPath, schema: &Structural, detail: &str) {
        push_invalid(&mut self.errors, path, &schema.value_type, detail);
    }

    fn out_of_budget(&mut self, path: &FieldPath, schema: &Structural) -> Result<(), Ended> {
        let detail = "validation failed due to running out of cost budget, no further validation \
                      rules will be run";
        self.invalid(path, schema, detail);
        Err(Ended)
    }
}

/// A fault that shows the type of the value in the value's place.
fn push_invalid(errors: &mut FieldErrors, path: &FieldPath, value_type: &str, detail: &str) {
    errors.invalid(&shown(path), &value_type.into(), detail);
}

/// Returns the path as faults show it: the path of the whole object is `<nil>`.
fn shown(path: &FieldPath) -> FieldPath {
    if path.to_string().is_empty() {
        FieldPath::new("<nil>")
    } else {
        path.clone()
    }
}

/// Reports a value that violates a rule.
fn fault(
    errors: &mut FieldErrors,
    rule: &ValidationRule,
    path: &FieldPath,
    schema: &Structural,
    value: &Json,
    detail: &str,
) {
    let path = &shown(path);
    let omitted = matches!(schema.value_type.as_str(), "object" | "array");
    match rule.reason.as_str() {
        "FieldValueForbidden" => errors.forbidden(path, detail),
        "FieldValueRequired" => errors.required(path, detail),
        "FieldValueDuplicate" if omitted => {
            errors.push(CauseReason::Duplicate, path, "Duplicate value".to_owned());
        }
        "FieldValueDuplicate" => errors.duplicate(path, value),
        _ if omitted => {
            errors.push(
                CauseReason::Invalid,
                path,
                format!("Invalid value: {detail}"),
            );
        }
        _ => errors.invalid(path, value, detail),
    }
}
