//! Constant parts of expressions, evaluated once.

use std::{collections::BTreeMap, sync::Arc};

use super::{EvalError, failed};
use kubeproof_machinery::schema::structural::go_regexp_fault;

use crate::{
    ast::{Call, Comprehension, Expr, ExprKind},
    checker::{Checked, Reference},
    library,
    value::{Key, Map, Value},
};

/// Evaluates the parts of a checked expression that never change, as cel-go does when it plans.
///
/// # Errors
///
/// The failure of such a part.
pub(crate) fn fold(checked: &mut Checked) -> Result<(), EvalError> {
    let Checked {
        expr, references, ..
    } = checked;
    fold_expr(expr, references)
}

fn fold_expr(expr: &mut Expr, references: &BTreeMap<usize, Reference>) -> Result<(), EvalError> {
    let folded = match &mut expr.kind {
        ExprKind::Literal(_) => None,
        ExprKind::Ident(_) => match references.get(&expr.id) {
            Some(Reference::Type(name)) => Some(Value::Type(Arc::clone(name))),
            _ => None,
        },
        ExprKind::Select { operand, .. } => {
            fold_expr(operand, references)?;
            None
        }
        ExprKind::List(items) => {
            for item in items.iter_mut() {
                fold_expr(&mut item.value, references)?;
            }
            let values = items
                .iter()
                .map(|item| literal(&item.value).filter(|_| !item.optional));
            values.collect::<Option<Vec<Value>>>().map(Value::list)
        }
        ExprKind::Map(entries) => {
            let mut values = Some(BTreeMap::new());
            for entry in entries {
                fold_expr(&mut entry.key, references)?;
                fold_expr(&mut entry.value, references)?;
                let known = literal(&entry.key).as_ref().and_then(Key::new);
                let value = literal(&entry.value).filter(|_| !entry.optional);
                values = match (values, known, value) {
                    (Some(mut values), Some(key), Some(value)) => {
                        values.insert(key, value);
                        Some(values)
                    }
                    _ => None,
                };
            }
            values.map(|values| Value::Map(Map::new(values)))
        }
        ExprKind::Message { .. } => None,
        ExprKind::Call(call) => {
            for operand in call.target.as_deref_mut().into_iter().chain(&mut call.args) {
                fold_expr(operand, references)?;
            }
            fold_call(call)?
        }
        ExprKind::Comprehension(loops) => {
            let Comprehension {
                range,
                init,
                condition,
                step,
                result,
                ..
            } = &mut **loops;
            for part in [range, init, condition, step, result] {
                fold_expr(part, references)?;
            }
            None
        }
    };
    if let Some(value) = folded {
        expr.kind = ExprKind::Literal(value);
    }
    Ok(())
}

fn literal(expr: &Expr) -> Option<Value> {
    match &expr.kind {
        ExprKind::Literal(value) => Some(value.clone()),
        _ => None,
    }
}

fn fold_call(call: &Call) -> Result<Option<Value>, EvalError> {
    let converts = matches!(
        &*call.function,
        "bool"
            | "bytes"
            | "double"
            | "duration"
            | "dyn"
            | "int"
            | "string"
            | "timestamp"
            | "type"
            | "uint"
    );
    if let ([arg], None, true) = (call.args.as_slice(), &call.target, converts)
        && let Some(value) = literal(arg)
    {
        return library::call(&call.function, "", &[value], u64::MAX).map(Some);
    }
    if matches!(&*call.function, "matches" | "find" | "findAll") {
        let pattern = call.operands().nth(1).and_then(literal);
        if let Some(Value::String(pattern)) = pattern {
            go_regexp_fault(&pattern).map_or(Ok(()), failed)?;
        }
    }
    Ok(None)
}
