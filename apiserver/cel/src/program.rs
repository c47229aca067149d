//! Expressions from their text to their value.

use std::collections::BTreeMap;

use super::{
    ast::{Element, Entry, Expr, ExprKind},
    checker::{Checked, Environment, check},
    cost::estimate,
    eval::{evaluate, fold},
    library::format,
    numbers,
    parser::parse,
    source::{Issues, Source},
    types::{DeclType, Type},
    value::{Evaluated, Value},
};
use kubeproof_machinery::nesting::with_stack;
use kubeproof_machinery::schema::structural::go_regexp_fault;

/// The most that one evaluation may cost.
pub(crate) const CALL_COST_MAX: u64 = 1_000_000;

/// The limits below which an expression is safe on any thread's stack: its length in bytes, the
/// number of its opening brackets, the depth of its tree.
const SHORT_BYTES_MAX: usize = 400;
const OPENINGS_MAX: usize = 25;
const SHALLOW_DEPTH_MAX: usize = 40;

/// A stack for the deepest expressions that are allowed.
const STACK_BYTES: usize = 64 << 20;

/// An expression without issues, not yet ready to be evaluated.
pub(crate) struct Compiled(Checked);

/// An expression that can be evaluated.
pub(crate) struct Program {
    checked: Checked,
    depth: usize,
}

/// Reads and checks an expression.
///
/// # Errors
///
/// The issues, as cel-go prints them.
pub(crate) fn compile(text: &str, environment: &Environment) -> Result<Compiled, String> {
    let openings = text.bytes().filter(|byte| b"([{?".contains(byte)).count();
    if text.len() > SHORT_BYTES_MAX || openings > OPENINGS_MAX {
        return on_own_stack(|| compile_here(text, environment));
    }
    compile_here(text, environment)
}

/// Runs on a stack that is deep enough for any expression.
fn on_own_stack<T>(run: impl FnOnce() -> T) -> T {
    with_stack(STACK_BYTES, run)
}

fn compile_here(text: &str, environment: &Environment) -> Result<Compiled, String> {
    let source = Source::new(text);
    let checked = parse(&source, environment.has_bindings)
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

    /// Whether the expression uses a variable.
    pub(crate) fn uses(&self, variable: &str) -> bool {
        self.0.uses(variable)
    }

    /// The most it may cost where variables are values of `root`.
    pub(crate) fn cost_max(&self, root: &DeclType) -> u64 {
        if self.0.expr.depth() > SHALLOW_DEPTH_MAX {
            return on_own_stack(|| estimate(&self.0, root));
        }
        estimate(&self.0, root)
    }

    /// Prepares the expression for evaluation: folds its constants.
    ///
    /// # Errors
    ///
    /// A constant part of the expression fails.
    pub(crate) fn program(mut self) -> Result<Program, String> {
        let depth = self.0.expr.depth();
        let folded = if depth > SHALLOW_DEPTH_MAX {
            on_own_stack(|| fold(&mut self.0))
        } else {
            fold(&mut self.0)
        };
        folded.map_err(|error| error.message().to_owned())?;
        Ok(Program {
            checked: self.0,
            depth,
        })
    }
}

impl Program {
    /// Returns the value of the expression with these variables, and the cost of the evaluation.
    pub(crate) fn evaluate(&self, variables: &BTreeMap<&str, Value>) -> (Evaluated, u64) {
        self.evaluate_within(variables, CALL_COST_MAX)
    }

    /// Evaluates the program at a cost of `cost_max` at most.
    pub(crate) fn evaluate_within(
        &self,
        variables: &BTreeMap<&str, Value>,
        cost_max: u64,
    ) -> (Evaluated, u64) {
        if self.depth > SHALLOW_DEPTH_MAX {
            return on_own_stack(|| evaluate(&self.checked, variables, cost_max));
        }
        evaluate(&self.checked, variables, cost_max)
    }
}

/// Finds the faults of constants, and of literals that mix types.
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
        if let Some((text, args)) = literal_format(expr)
            && let Err((message, offset)) = format::check(text, args, &checked)
        {
            issues.report(offset.unwrap_or(expr.offset), message);
        }
    });
    if issues.is_empty() {
        Ok(checked)
    } else {
        Err(issues)
    }
}

/// The text and the arguments of a call of `format()` that are both literals.
fn literal_format(expr: &Expr) -> Option<(&str, &[Element])> {
    let ExprKind::Call(call) = &expr.kind else {
        return None;
    };
    let target = call.target.as_deref().map(|target| &target.kind);
    match (&*call.function, target, call.args.as_slice()) {
        ("format", Some(ExprKind::Literal(Value::String(text))), [args]) => match &args.kind {
            ExprKind::List(items) => Some((text, items)),
            _ => None,
        },
        _ => None,
    }
}

fn is_faulty(function: &str, value: &Value) -> bool {
    match (function, value) {
        ("duration", value) => numbers::to_duration(value).is_some_and(|made| made.is_err()),
        ("timestamp", value) => numbers::to_timestamp(value).is_some_and(|made| made.is_err()),
        ("matches", Value::String(pattern)) => go_regexp_fault(pattern).is_some(),
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
    if let Some((other, of)) = types.find(|(_, of)| first != *of) {
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
            if first != of {
                issues.report(
                    expr.offset,
                    format!("expected type '{first}' but found '{of}'"),
                );
            }
        }
    }
}
