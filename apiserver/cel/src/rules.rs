//! The rules of a schema's node, compiled.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    checker::Environment,
    program::{Program, compile},
    schema::REQUEST_BYTES_MAX,
    types::{DeclType, Type},
};
use kubeproof_machinery::schema::structural::{Structural, ValidationRule};

/// The variable for the value a rule is about.
pub(super) const SELF: &str = "self";

/// The variable for the value before an update.
pub(super) const OLD_SELF: &str = "oldSelf";

/// The result of compiling a rule.
#[derive(Default)]
pub(super) struct CompiledRule {
    /// The compilation error of the rule; `None` for a valid rule.
    pub error: Option<String>,
    /// The rule; `None` if it is empty or wrong.
    pub program: Option<Program>,
    pub uses_old_self: bool,
    /// The most that one evaluation may cost.
    pub cost_max: u64,
    /// How often the rule may run, where nothing but the size of requests bounds it.
    pub cardinality_max: u64,
    /// The compilation error of the message expression; `None` for a valid expression.
    pub message_error: Option<String>,
    pub message: Option<Program>,
    pub message_cost_max: u64,
}

/// Compiles the rules of a node whose values expressions see as `decl`.
pub(super) fn compile_rules(rules: &[ValidationRule], decl: &DeclType) -> Vec<CompiledRule> {
    // Expressions can't name the type, since upstream names it differently each time.
    let scoped = Arc::new(decl.named("selfType0"));
    let mut objects = BTreeMap::new();
    scoped.collect(&mut objects);
    let environment = |old: Type| Environment {
        variables: BTreeMap::from([(SELF.into(), scoped.expr_type()), (OLD_SELF.into(), old)]),
        objects: objects.clone(),
        has_patch_types: false,
        has_bindings: false,
    };
    let plain = environment(scoped.expr_type());
    let optional = environment(Type::optional(scoped.expr_type()));
    let cardinality_max = REQUEST_BYTES_MAX / (decl.min_serialized_size + 1);
    rules
        .iter()
        .map(|rule| {
            let environment = match rule.optional_old_self {
                Some(true) => &optional,
                _ => &plain,
            };
            let compiled = compile_rule(rule, environment, &scoped);
            CompiledRule {
                cardinality_max,
                ..compiled
            }
        })
        .collect()
}

fn compile_rule(rule: &ValidationRule, environment: &Environment, decl: &DeclType) -> CompiledRule {
    let mut compiled = CompiledRule::default();
    if rule.rule.trim().is_empty() {
        return compiled;
    }
    match compile(&rule.rule, environment) {
        Err(issues) => compiled.error = Some(format!("compilation failed: {issues}")),
        Ok(expr) if *expr.output() != Type::Bool => {
            compiled.error = Some("cel expression must evaluate to a bool".to_owned());
        }
        Ok(expr) => {
            compiled.uses_old_self = expr.uses(OLD_SELF);
            compiled.cost_max = expr.cost_max(decl);
            match expr.program() {
                Ok(program) => compiled.program = Some(program),
                Err(error) => {
                    compiled.cost_max = 0;
                    compiled.error = Some(format!("program instantiation failed: {error}"));
                }
            }
        }
    }
    if compiled.error.is_none() && !rule.message_expression.is_empty() {
        match compile(&rule.message_expression, environment) {
            Err(issues) => {
                compiled.message_error =
                    Some(format!("messageExpression compilation failed: {issues}"));
            }
            Ok(expr) if *expr.output() != Type::String => {
                compiled.message_error =
                    Some("messageExpression must evaluate to a string".to_owned());
            }
            Ok(expr) => {
                let cost = expr.cost_max(decl);
                match expr.program() {
                    Ok(program) => {
                        compiled.message = Some(program);
                        compiled.message_cost_max = cost;
                    }
                    Err(error) => {
                        compiled.message_error =
                            Some(format!("messageExpression instantiation failed: {error}"));
                    }
                }
            }
        }
    }
    compiled
}

/// Returns the path to a field below a node, as faults show it; `None` if there is no such field.
pub(super) fn field_path(path: &str, schema: &Structural) -> Option<String> {
    let mut shown = String::new();
    let mut schema = Some(schema);
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        let name;
        match first {
            '.' => {
                let end = rest[1..]
                    .find(['.', '[', ']'])
                    .map_or(rest.len(), |at| at + 1);
                name = rest[1..end].to_owned();
                rest = &rest[end..];
            }
            '[' => {
                let quoted = rest[1..].strip_prefix('\'')?;
                let mut previous = '\'';
                let end = quoted.find(|c| {
                    let closes = c == '\'' && previous != '\\';
                    previous = c;
                    closes
                })?;
                name = unescaped(&quoted[..end])?;
                rest = quoted[end + 1..].strip_prefix(']')?;
            }
            _ => return None,
        }
        let node = schema?;
        if node.properties.is_empty() {
            node.additional_properties.as_ref()?;
            shown.push_str(&format!("[{name}]"));
            schema = node.map_values();
        } else {
            if !shown.is_empty() {
                shown.push('.');
            }
            shown.push_str(&name);
            schema = Some(node.properties.get(&name)?);
        }
    }
    Some(shown)
}

fn unescaped(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next()? {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                quoted @ ('\'' | '\\') => quoted,
                _ => return None,
            },
            letter => letter,
        });
    }
    Some(plain)
}
