//! Expressions from their text to their value.

use std::collections::BTreeMap;

use super::{
    ast::{Element, Entry, Expr, ExprKind},
    checker::{Checked, Environment, check},
    cost::estimate,
    eval::{Evaluated, evaluate, fold},
    library::regex,
    numbers,
    parser::parse,
    source::{Issues, Source},
    types::{DeclType, Type},
    value::Value,
};

/// The most that one evaluation may cost.
pub(crate) const CALL_COST_MAX: u64 = 1_000_000;

/// An expression without issues, not yet ready to be evaluated.
pub(crate) struct Compiled(Checked);

/// An expression that can be evaluated.
pub(crate) struct Program(Checked);

/// Reads and checks an expression.
///
/// # Errors
///
/// The issues, as cel-go prints them.
pub(crate) fn compile(text: &str, environment: &Environment) -> Result<Compiled, String> {
    let source = Source::new(text);
    let checked = parse(&source)
        .and_then(|expr| check(expr, environment))
        .and_then(validated)
        .map_err(|issues| issues.show(&source))?;
    Ok(Compiled(checked))
}

impl Compiled {
    /// The type of the expression's values.
    pub(crate) fn output(&self) -> &Type {
        self.0.type_of(&self.0.expr)
    }

    /// Whether it uses a variable.
    pub(crate) fn uses(&self, variable: &str) -> bool {
        self.0.uses(variable)
    }

    /// The most it may cost where variables are values of `root`.
    pub(crate) fn cost_max(&self, root: &DeclType) -> u64 {
        estimate(&self.0, root)
    }

    /// Makes it ready to be evaluated.
    ///
    /// # Errors
    ///
    /// What fails whatever the variables are.
    pub(crate) fn program(mut self) -> Result<Program, String> {
        fold(&mut self.0).map_err(|error| error.message().to_owned())?;
        Ok(Program(self.0))
    }
}

impl Program {
    /// The value of the expression with these variables, and what it cost to find.
    pub(crate) fn evaluate(&self, variables: &BTreeMap<&str, Value>) -> (Evaluated, u64) {
        evaluate(&self.0, variables, CALL_COST_MAX)
    }
}

/// Finds what is wrong with constants, and with literals that mix types.
fn validated(checked: Checked) -> Result<Checked, Issues> {
    let mut issues = Issues::default();
    let mut formats = Vec::new();
    checked.expr.walk(&mut |expr| {
        if let ExprKind::Call(call) = &expr.kind {
            if &*call.function == "format" {
                call.operands().for_each(|operand| {
                    operand.walk(&mut |within| formats.push(within.id));
                });
            }
            let literal = match call.args.first().map(|arg| (arg, &arg.kind)) {
                Some((arg, ExprKind::Literal(value))) => Some((arg, value)),
                _ => None,
            };
            if let Some((arg, value)) = literal
                && is_faulty(&call.function, value)
            {
                let message = format!("invalid {} argument", call.function);
                issues.report(arg.offset, message);
            }
        }
    });
    checked.expr.walk(&mut |expr| {
        // Arguments of a format are of mixed types by nature.
        if !formats.contains(&expr.id) {
            match &expr.kind {
                ExprKind::List(items) => homogeneous_list(&checked, items, &mut issues),
                ExprKind::Map(entries) => homogeneous_map(&checked, entries, &mut issues),
                _ => {}
            }
        }
    });
    if issues.is_empty() {
        Ok(checked)
    } else {
        Err(issues)
    }
}

fn is_faulty(function: &str, value: &Value) -> bool {
    match (function, value) {
        ("duration", value) => numbers::to_duration(value).is_some_and(|made| made.is_err()),
        ("timestamp", value) => numbers::to_timestamp(value).is_some_and(|made| made.is_err()),
        ("matches", Value::String(pattern)) => regex::compile(pattern).is_err(),
        _ => false,
    }
}

fn part_type(checked: &Checked, expr: &Expr, optional: bool) -> Type {
    let of = checked.type_of(expr);
    let within = if optional { of.optional_value() } else { None };
    within.unwrap_or(of).clone()
}

fn homogeneous_list(checked: &Checked, items: &[Element], issues: &mut Issues) {
    let mut types = items
        .iter()
        .map(|item| (&item.value, part_type(checked, &item.value, item.optional)));
    let Some((_, first)) = types.next() else {
        return;
    };
    if let Some((other, of)) = types.find(|(_, of)| !first.is_equivalent(of)) {
        issues.report(
            other.offset,
            format!("expected type '{first}' but found '{of}'"),
        );
    }
}

fn homogeneous_map(checked: &Checked, entries: &[Entry], issues: &mut Issues) {
    let mut first: Option<(Type, Type)> = None;
    for entry in entries {
        let key = part_type(checked, &entry.key, false);
        let value = part_type(checked, &entry.value, entry.optional);
        let Some((first_key, first_value)) = &first else {
            first = Some((key, value));
            continue;
        };
        for (expr, first, of) in [
            (&entry.key, first_key, &key),
            (&entry.value, first_value, &value),
        ] {
            if !first.is_equivalent(of) {
                issues.report(
                    expr.offset,
                    format!("expected type '{first}' but found '{of}'"),
                );
            }
        }
    }
}
