//! Evaluates expressions and counts their costs.

mod fold;

use std::{collections::BTreeMap, sync::Arc};

pub(super) use fold::fold;

use super::{
    ast::{ACCUMULATOR, Call, Comprehension, Expr, ExprKind, MessageField},
    checker::Checked,
    error::{EvalError, failed},
    library,
    runtime_cost::{LIST_COST, MAP_COST, MESSAGE_COST, call_cost},
    schema::escape_keyword,
    value::{Evaluated, Key, Map, Message, Value},
};

/// Evaluates `checked` with these variables; returns its value and cost.
pub(super) fn evaluate(
    checked: &Checked,
    variables: &BTreeMap<&str, Value>,
    limit: u64,
) -> (Evaluated, u64) {
    let mut evaluator = Evaluator {
        checked,
        variables,
        scopes: Vec::new(),
        cost: 0,
        limit,
    };
    let value = evaluator.eval(&checked.expr);
    (value, evaluator.cost)
}

struct Evaluator<'e> {
    checked: &'e Checked,
    variables: &'e BTreeMap<&'e str, Value>,
    /// Variables of the comprehensions around, innermost last.
    scopes: Vec<(Arc<str>, Evaluated)>,
    cost: u64,
    limit: u64,
}

/// A step from a value to one within.
struct Qualifier<'e> {
    key: QualifierKey<'e>,
    optional: bool,
    test_only: bool,
}

enum QualifierKey<'e> {
    Field(&'e Arc<str>),
    Index(&'e Expr),
}

impl<'e> Evaluator<'e> {
    fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit {
            Err(EvalError::CostLimit)
        } else {
            Ok(())
        }
    }

    fn eval(&mut self, expr: &'e Expr) -> Evaluated {
        match &expr.kind {
            ExprKind::Literal(value) => Ok(value.clone()),
            ExprKind::List(items) => {
                let mut values = Vec::with_capacity(items.len());
                for item in items {
                    let value = self.eval(&item.value)?;
                    match (item.optional, value) {
                        (false, value) => values.push(value),
                        (true, Value::Optional(value)) => {
                            values.extend(value.map(Arc::unwrap_or_clone));
                        }
                        (true, other) => {
                            return failed(format!(
                                "cannot initialize optional list element from non-optional value \
                                 {other}"
                            ));
                        }
                    }
                }
                self.charge(LIST_COST)?;
                Ok(Value::list(values))
            }
            ExprKind::Map(_) => self.map(expr),
            ExprKind::Message { type_name, fields } => self.message(type_name, fields),
            ExprKind::Comprehension(loops) => self.comprehension(loops),
            ExprKind::Call(call) if !is_attribute(expr) => self.call(expr, call),
            ExprKind::Ident(_) | ExprKind::Select { .. } | ExprKind::Call(_) => {
                let value = self.resolve(expr);
                if value != Err(EvalError::CostLimit) && costs_as_attribute(expr) {
                    self.charge(1)?;
                }
                value
            }
        }
    }

    fn map(&mut self, expr: &'e Expr) -> Evaluated {
        let ExprKind::Map(literal) = &expr.kind else {
            unreachable!("only maps come here")
        };
        let mut entries = BTreeMap::new();
        for entry in literal {
            let key = self.eval(&entry.key)?;
            let value = self.eval(&entry.value)?;
            let Some(known) = Key::new(&key) else {
                return failed(format!("unsupported key type: {}", key.type_name()));
            };
            match (entry.optional, value) {
                (false, value) => {
                    entries.insert(known, value);
                }
                (true, Value::Optional(Some(value))) => {
                    entries.insert(known, Arc::unwrap_or_clone(value));
                }
                (true, Value::Optional(None)) => {
                    entries.remove(&known);
                }
                (true, other) => {
                    return failed(format!(
                        "cannot initialize optional entry '{key}' from non-optional value {other}"
                    ));
                }
            }
        }
        self.charge(MAP_COST)?;
        Ok(Value::Map(Map::new(entries)))
    }

    fn message(&mut self, type_name: &str, fields: &'e [MessageField]) -> Evaluated {
        let mut values = BTreeMap::new();
        for field in fields {
            let name: Arc<str> = field.name.as_str().into();
            match (field.optional, self.eval(&field.value)?) {
                (false, value) => {
                    values.insert(name, value);
                }
                (true, Value::Optional(Some(value))) => {
                    values.insert(name, Arc::unwrap_or_clone(value));
                }
                (true, Value::Optional(None)) => {}
                (true, other) => {
                    return failed(format!(
                        "cannot initialize optional entry '{name}' from non-optional value {other}"
                    ));
                }
            }
        }
        self.charge(MESSAGE_COST)?;
        Ok(Message::literal(type_name, values))
    }

    fn variable(&self, name: &str) -> Evaluated {
        if let Some((_, value)) = self.scopes.iter().rev().find(|(n, _)| **n == *name) {
            return value.clone();
        }
        match self.variables.get(name.strip_prefix('.').unwrap_or(name)) {
            Some(Value::Invalid(message)) => failed(&**message),
            Some(value) => Ok(value.clone()),
            None => failed(format!("no such attribute(s): {name}")),
        }
    }

    /// The value of an attribute, without the cost of the attribute as a whole.
    fn resolve(&mut self, expr: &'e Expr) -> Evaluated {
        match &expr.kind {
            ExprKind::Ident(name) => self.variable(name),
            ExprKind::Call(Call { function, args, .. }) if &**function == "_?_:_" => {
                match self.eval(&args[0])? {
                    Value::Bool(true) => self.branch(&args[1]),
                    Value::Bool(false) => self.branch(&args[2]),
                    _ => failed("no such overload"),
                }
            }
            _ => {
                let (root, qualifiers) = chain(expr);
                let value = self.branch(root)?;
                self.qualify_all(value, &qualifiers)
            }
        }
    }

    /// The value of a part that is an attribute's root, which an attribute itself is for nothing.
    fn branch(&mut self, expr: &'e Expr) -> Evaluated {
        if is_attribute(expr) {
            self.resolve(expr)
        } else {
            self.eval(expr)
        }
    }

    fn qualify_all(&mut self, root: Value, qualifiers: &[Qualifier<'e>]) -> Evaluated {
        let (mut value, mut optional) = match root {
            Value::Optional(None) => {
                let tested = qualifiers
                    .last()
                    .is_some_and(|qualifier| qualifier.test_only);
                return Ok(if tested {
                    Value::Bool(false)
                } else {
                    Value::Optional(None)
                });
            }
            Value::Optional(Some(value)) => (Arc::unwrap_or_clone(value), true),
            value => (value, false),
        };
        for qualifier in qualifiers {
            optional |= qualifier.optional;
            let found = self.qualify(&value, qualifier, optional || qualifier.test_only)?;
            if qualifier.test_only {
                self.charge(1)?;
                return Ok(Value::Bool(found.is_some()));
            }
            match found {
                Some(found) => {
                    self.charge(1)?;
                    value = found;
                }
                None => {
                    let tested = qualifiers.last().is_some_and(|last| last.test_only);
                    return Ok(if tested {
                        Value::Bool(false)
                    } else {
                        Value::Optional(None)
                    });
                }
            }
        }
        Ok(if optional { Value::some(value) } else { value })
    }

    fn qualify(
        &mut self,
        value: &Value,
        qualifier: &Qualifier<'e>,
        may_miss: bool,
    ) -> Result<Option<Value>, EvalError> {
        let key = match &qualifier.key {
            QualifierKey::Field(name) => Value::String(Arc::clone(name)),
            QualifierKey::Index(index) => self.branch(index)?,
        };
        let found = match find(value, &key) {
            Ok(Some(Value::Invalid(message))) => failed(&*message),
            Ok(None) if !may_miss => failed(match value {
                Value::List(_) => format!("index out of bounds: {key}"),
                _ => format!("no such key: {key}"),
            }),
            found => found,
        };
        if found.is_err() {
            self.charge(1)?;
        }
        found
    }

    fn call(&mut self, expr: &'e Expr, call: &'e Call) -> Evaluated {
        match &*call.function {
            "_&&_" | "_||_" => return self.logic(call),
            "@not_strictly_false" => {
                let value = self.eval(&call.args[0]);
                self.charge(1)?;
                return match value {
                    Err(EvalError::CostLimit) => value,
                    Ok(Value::Bool(flag)) => Ok(Value::Bool(flag)),
                    _ => Ok(Value::Bool(true)),
                };
            }
            "or" | "orValue" => return self.alternative(call),
            _ => {}
        }
        let overload = match self.checked.overloads(expr) {
            [one] => one,
            _ => "",
        };
        if let (ExprKind::Literal(Value::List(list)), "in_list") = (
            call.args.last().map_or(&expr.kind, |last| &last.kind),
            overload,
        ) {
            if list.items.is_empty() {
                return Ok(Value::Bool(false));
            }
            if list.items.iter().all(is_hashable) {
                // cel-go plans this as a look-up in a set, which costs nothing.
                let wanted = self.eval(&call.args[0])?;
                return Ok(Value::Bool(list.contains(&wanted)));
            }
        }
        let mut values = Vec::with_capacity(call.args.len() + 1);
        let mut first_error = None;
        let count = call.operands().count();
        for operand in call.operands() {
            match self.eval(operand) {
                Ok(value) => values.push(value),
                Err(EvalError::CostLimit) => return Err(EvalError::CostLimit),
                // Calls of up to two operands evaluate both before an error of either counts.
                Err(error) if count > 2 => return Err(error),
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        if let Some(error) = first_error {
            self.charge(1)?;
            return Err(error);
        }
        let room = self.limit.saturating_sub(self.cost);
        let result = library::call(&call.function, overload, &values, room);
        if result == Err(EvalError::CostLimit) {
            self.cost = self.limit.saturating_add(1);
            return result;
        }
        self.charge(call_cost(&call.function, overload, &values, &result))?;
        result
    }

    fn logic(&mut self, call: &'e Call) -> Evaluated {
        let absorbing = &*call.function == "_||_";
        let mut error = None;
        for arg in &call.args {
            let found = match self.eval(arg) {
                Err(EvalError::CostLimit) => return Err(EvalError::CostLimit),
                Ok(Value::Bool(flag)) if flag == absorbing => return Ok(Value::Bool(absorbing)),
                Ok(Value::Bool(_)) => continue,
                Ok(_) => EvalError::Failed("no such overload".to_owned()),
                Err(found) => found,
            };
            error.get_or_insert(found);
        }
        error.map_or(Ok(Value::Bool(!absorbing)), Err)
    }

    /// `a.or(b)` and `a.orValue(b)`, which evaluate `b` only if `a` has no value.
    fn alternative(&mut self, call: &'e Call) -> Evaluated {
        let target = call.target.as_deref().unwrap_or(&call.args[0]);
        match self.eval(target)? {
            Value::Optional(Some(value)) if &*call.function == "orValue" => {
                Ok(Arc::unwrap_or_clone(value))
            }
            Value::Optional(None) => self.eval(&call.args[call.args.len() - 1]),
            other => Ok(other),
        }
    }

    fn comprehension(&mut self, loops: &'e Comprehension) -> Evaluated {
        let range = self.eval(&loops.range)?;
        let init = self.eval(&loops.init);
        if init == Err(EvalError::CostLimit) {
            return init;
        }
        let outer = self.scopes.len();
        self.scopes.push((Arc::clone(&loops.accumulator), init));
        let looped = self.iterate(range, loops, outer);
        self.scopes.truncate(outer + 1);
        let result = looped.and_then(|()| self.eval(&loops.result));
        self.scopes.truncate(outer);
        result
    }

    fn iterate(
        &mut self,
        range: Value,
        loops: &'e Comprehension,
        accumulator: usize,
    ) -> Result<(), EvalError> {
        let second = loops.value_variable.as_ref();
        match range {
            Value::List(list) => {
                for (index, item) in list.items.iter().enumerate() {
                    let item = usable(item.clone());
                    let index = i64::try_from(index).unwrap_or(i64::MAX);
                    let (first, second) = match second {
                        Some(name) => (Ok(Value::Int(index)), Some((name, item))),
                        None => (item, None),
                    };
                    if !self.turn(loops, accumulator, first, second)? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for (key, value) in map.entries.iter() {
                    let second = second.map(|name| (name, usable(value.clone())));
                    if !self.turn(loops, accumulator, Ok(key.value()), second)? {
                        break;
                    }
                }
            }
            other => {
                return failed(format!(
                    "got '{}', expected iterable type",
                    other.type_name()
                ));
            }
        }
        Ok(())
    }

    /// One turn of a loop; false if the loop is over.
    fn turn(
        &mut self,
        loops: &'e Comprehension,
        accumulator: usize,
        first: Evaluated,
        second: Option<(&Arc<str>, Evaluated)>,
    ) -> Result<bool, EvalError> {
        self.scopes.truncate(accumulator + 1);
        self.scopes.push((Arc::clone(&loops.variable), first));
        if let Some((name, value)) = second {
            self.scopes.push((Arc::clone(name), value));
        }
        match self.eval(&loops.condition) {
            Err(EvalError::CostLimit) => return Err(EvalError::CostLimit),
            Ok(Value::Bool(false)) => return Ok(false),
            _ => {}
        }
        let value = self.step(&loops.step, accumulator);
        if value == Err(EvalError::CostLimit) {
            return Err(EvalError::CostLimit);
        }
        self.scopes[accumulator].1 = value;
        Ok(true)
    }

    /// The next value of the accumulator. What macros gather grows in place.
    fn step(&mut self, step: &'e Expr, accumulator: usize) -> Evaluated {
        let ExprKind::Call(call) = &step.kind else {
            return self.eval(step);
        };
        let gathers =
            |expr: &Expr| matches!(&expr.kind, ExprKind::Ident(name) if &**name == ACCUMULATOR);
        match (&*call.function, call.args.as_slice()) {
            ("_?_:_", [filter, more, same]) if gathers(same) => match self.eval(filter)? {
                Value::Bool(true) => self.step(more, accumulator),
                Value::Bool(false) => self.take(accumulator),
                _ => failed("no such overload"),
            },
            ("_+_", [so_far, more]) if gathers(so_far) => {
                self.charge(1)?;
                let before = self.take(accumulator);
                let more = self.eval(more);
                self.charge(1)?;
                library::add(before?, more?)
            }
            ("cel.@mapInsert", [so_far, more @ ..]) if gathers(so_far) => {
                self.charge(1)?;
                let mut operands = vec![self.take(accumulator)?];
                for expr in more {
                    operands.push(self.eval(expr)?);
                }
                self.charge(1)?;
                library::insert(operands)
            }
            _ => self.eval(step),
        }
    }

    fn take(&mut self, accumulator: usize) -> Evaluated {
        std::mem::replace(&mut self.scopes[accumulator].1, Ok(Value::Null))
    }
}

fn usable(value: Value) -> Evaluated {
    match value {
        Value::Invalid(message) => failed(&*message),
        value => Ok(value),
    }
}

/// Whether cel-go plans a node as a path from a variable or value: only paths extend for free.
fn is_attribute(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Ident(_) | ExprKind::Select { .. } => true,
        ExprKind::Call(call) => {
            matches!(&*call.function, "_?_:_" | "_[_]" | "_[?_]" | "_?._")
        }
        _ => false,
    }
}

/// Whether a path costs something in addition to its steps. A path that only tests for presence or
/// starts with a conditional does not.
fn costs_as_attribute(expr: &Expr) -> bool {
    if matches!(
        expr.kind,
        ExprKind::Select {
            test_only: true,
            ..
        }
    ) {
        return false;
    }
    let (root, _) = chain(expr);
    !matches!(&root.kind, ExprKind::Call(call) if &*call.function == "_?_:_")
}

/// The root of a path and the steps from it.
fn chain(mut expr: &Expr) -> (&Expr, Vec<Qualifier<'_>>) {
    let mut qualifiers = Vec::new();
    loop {
        let (next, key, optional, test_only) = match &expr.kind {
            ExprKind::Select {
                operand,
                field,
                test_only,
            } => (&**operand, QualifierKey::Field(field), false, *test_only),
            ExprKind::Call(Call { function, args, .. }) if &**function == "_[_]" => {
                (&args[0], QualifierKey::Index(&args[1]), false, false)
            }
            ExprKind::Call(Call { function, args, .. })
                if matches!(&**function, "_[?_]" | "_?._") =>
            {
                (&args[0], QualifierKey::Index(&args[1]), true, false)
            }
            _ => {
                qualifiers.reverse();
                return (expr, qualifiers);
            }
        };
        qualifiers.push(Qualifier {
            key,
            optional,
            test_only,
        });
        expr = next;
    }
}

/// The part of `value` that `key` names.
fn find(value: &Value, key: &Value) -> Result<Option<Value>, EvalError> {
    match value {
        Value::Map(map) => {
            let known = Key::lookup(key);
            let found = known.and_then(|key| map.entries.get(&key));
            let keyword = || match key {
                Value::String(name) => map.field(&escape_keyword(name)?),
                _ => None,
            };
            let found = found.or_else(keyword).cloned();
            let absent = || map.is_total.then(|| Value::Map(Map::new(BTreeMap::new())));
            Ok(found.or_else(absent))
        }
        Value::List(list) => match Key::lookup(key) {
            Some(Key::Number { number, .. }) => {
                let index = usize::try_from(number).ok();
                Ok(index.and_then(|index| list.items.get(index)).cloned())
            }
            _ => failed(format!(
                "unsupported index type '{}' in list",
                key.type_name()
            )),
        },
        Value::Invalid(message) => failed(&**message),
        Value::Object(object) => Ok(object.field(key)),
        _ => Ok(None),
    }
}

fn is_hashable(value: &Value) -> bool {
    matches!(
        value,
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_)
    )
}
