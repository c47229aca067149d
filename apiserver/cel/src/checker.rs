//! Finds the type of every part of an expression, and what each name and call refers to.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    ast::{Call, Comprehension, Element, Entry, Expr, ExprKind, MessageField},
    declarations::{function, type_named},
    message,
    schema::escape_keyword,
    source::Issues,
    types::{DeclType, Type},
    unify::{Bindings, most_general, renumbered},
    value::Value,
};

/// How many parts a type may have: maps of maps could double without end.
const TYPE_PARTS_MAX: usize = 1000;

/// The variables and object types that an expression may refer to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    /// Types of variables, by name.
    pub(super) variables: BTreeMap<Arc<str>, Type>,
    /// Objects, by the name of their type.
    pub(super) objects: BTreeMap<Arc<str>, Arc<DeclType>>,
    /// Whether there are literals of objects and of JSON patches.
    pub(super) has_patch_types: bool,
    /// Whether there is the macro `cel.bind`.
    pub(super) has_bindings: bool,
}

/// The declaration that a name or a call refers to.
#[derive(Clone, Debug)]
pub(super) enum Reference {
    Variable(Arc<str>),
    Type(Arc<str>),
    /// The overloads of a function that fit.
    Overloads(Vec<&'static str>),
}

/// An expression without issues.
pub(super) struct Checked {
    pub expr: Expr,
    /// By the nodes' ids.
    pub types: Vec<Type>,
    pub references: BTreeMap<usize, Reference>,
}

impl Checked {
    pub(super) fn type_of(&self, expr: &Expr) -> &Type {
        &self.types[expr.id]
    }

    pub(super) fn overloads(&self, expr: &Expr) -> &[&'static str] {
        match self.references.get(&expr.id) {
            Some(Reference::Overloads(ids)) => ids,
            _ => &[],
        }
    }

    /// Whether a variable of this name is used.
    pub(super) fn uses(&self, variable: &str) -> bool {
        self.references
            .values()
            .any(|r| matches!(r, Reference::Variable(name) if **name == *variable))
    }
}

/// Checks `expr` in an environment.
pub(super) fn check(mut expr: Expr, environment: &Environment) -> Result<Checked, Issues> {
    let mut checker = Checker {
        environment,
        issues: Issues::default(),
        bindings: Bindings::default(),
        types: BTreeMap::new(),
        references: BTreeMap::new(),
        scopes: Vec::new(),
    };
    checker.check(&mut expr);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let ids = checker.types.last_key_value().map_or(0, |(id, _)| id + 1);
    let mut types = vec![Type::Dyn; ids];
    for (id, of) in &checker.types {
        types[*id] = checker.bindings.resolve_all(of);
    }
    Ok(Checked {
        expr,
        types,
        references: checker.references,
    })
}

struct Checker<'e> {
    environment: &'e Environment,
    issues: Issues,
    bindings: Bindings,
    types: BTreeMap<usize, Type>,
    references: BTreeMap<usize, Reference>,
    /// Variables of the comprehensions around, innermost last.
    scopes: Vec<(Arc<str>, Type)>,
}

impl Checker<'_> {
    /// Checks a node and returns its type.
    fn check(&mut self, expr: &mut Expr) -> Type {
        let found = self.check_kind(expr);
        self.types.insert(expr.id, found.clone());
        found
    }

    fn check_kind(&mut self, expr: &mut Expr) -> Type {
        let (id, offset) = (expr.id, expr.offset);
        if let ExprKind::Select {
            test_only: false, ..
        } = expr.kind
            && let Some(name) = expr.qualified_name()
            && let Some((of, reference)) = self.look_up(&name)
        {
            expr.kind = ExprKind::Ident(name.into());
            self.references.insert(id, reference);
            return of;
        }
        match &mut expr.kind {
            ExprKind::Literal(value) => literal_type(value),
            ExprKind::Ident(name) => match self.look_up(name) {
                Some((of, reference)) => {
                    self.references.insert(id, reference);
                    of
                }
                None => self.undeclared(offset, name),
            },
            ExprKind::Select {
                operand,
                field,
                test_only,
            } => {
                let selected = self.select(offset, operand, field, false);
                if *test_only {
                    Type::Bool
                } else {
                    self.bindings.resolve(&selected)
                }
            }
            ExprKind::Call(_) => self.call(expr),
            ExprKind::List(items) => self.list(items),
            ExprKind::Map(entries) => self.map(offset, entries),
            ExprKind::Message { type_name, fields } => self.message(offset, type_name, fields),
            ExprKind::Comprehension(loops) => self.comprehension(loops),
        }
    }

    fn message(&mut self, offset: usize, name: &str, fields: &mut [MessageField]) -> Type {
        let name = name.strip_prefix('.').unwrap_or(name);
        let declared = self.environment.has_patch_types && message::is_declared(name);
        for field in fields {
            let found = self.check(&mut field.value);
            let found = self.unwrapped(field.value.offset, field.optional, found);
            if !declared {
                continue;
            }
            let Some(wanted) = message::field_type(name, &field.name) else {
                let message = format!("undefined field '{}'", field.name);
                self.issues.report(field.offset, message);
                continue;
            };
            if !self.bindings.assign_one(&wanted, &found) {
                let (field_name, found) = (&field.name, self.bindings.resolve_all(&found));
                let message = format!(
                    "expected type of field '{field_name}' is '{wanted}' but provided type is \
                     '{found}'"
                );
                self.issues.report(field.offset, message);
            }
        }
        match type_named(name) {
            _ if declared => Type::Object(name.into()),
            Some(_) => {
                let message = format!("'{name}' is not a message type");
                self.issues.report(offset, message);
                Type::Error
            }
            None => self.undeclared(offset, name),
        }
    }

    fn look_up(&self, name: &str) -> Option<(Type, Reference)> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let scoped = self
            .scopes
            .iter()
            .rev()
            .find(|(variable, _)| **variable == *name);
        let variable = scoped
            .map(|(_, of)| of)
            .or_else(|| self.environment.variables.get(name));
        if let Some(of) = variable {
            return Some((of.clone(), Reference::Variable(name.into())));
        }
        let of = type_named(name)?;
        Some((Type::Type(Some(Arc::new(of))), Reference::Type(name.into())))
    }

    fn undeclared(&mut self, offset: usize, name: &str) -> Type {
        let message = format!("undeclared reference to '{name}' (in container '')");
        self.issues.report(offset, message);
        Type::Error
    }

    fn mismatch(&mut self, offset: usize, expected: &Type, found: &Type) {
        let message = format!("expected type '{expected}' but found '{found}'");
        self.issues.report(offset, message);
    }

    fn select(&mut self, offset: usize, operand: &mut Expr, field: &str, optional: bool) -> Type {
        let operand = self.check(operand);
        let operand = self.bindings.resolve(&operand);
        let within = operand.optional_value();
        let target = within.unwrap_or(&operand);
        let selected = match target {
            Type::Map(_, value) => Type::clone(value),
            Type::Object(name) => self.field(offset, name, field),
            Type::Var(_) => {
                self.bindings.assign_one(&Type::Dyn, target);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() {
                    let message = format!("type '{other}' does not support field selection");
                    self.issues.report(offset, message);
                }
                Type::Dyn
            }
        };
        if optional || within.is_some() {
            Type::optional(selected)
        } else {
            selected
        }
    }

    fn field(&mut self, offset: usize, object: &str, field: &str) -> Type {
        if self.environment.has_patch_types
            && message::is_declared(object)
            && let Some(of) = message::field_type(object, field)
        {
            return of;
        }
        let Some(declared) = self.environment.objects.get(object) else {
            self.issues.report(
                offset,
                format!("unexpected failed resolution of '{object}'"),
            );
            return Type::Error;
        };
        let keyword = || escape_keyword(field).and_then(|name| declared.field(&name));
        match declared.field(field).or_else(keyword) {
            Some(field) => field.expr_type(),
            None => {
                self.issues
                    .report(offset, format!("undefined field '{field}'"));
                Type::Error
            }
        }
    }

    fn call(&mut self, expr: &mut Expr) -> Type {
        let (id, offset) = (expr.id, expr.offset);
        let ExprKind::Call(call) = &mut expr.kind else {
            unreachable!("only calls come here")
        };
        if &*call.function == "_?._" {
            return self.optional_select(id, offset, call);
        }
        let mut args: Vec<Type> = call.args.iter_mut().map(|arg| self.check(arg)).collect();
        if let Some(target) = &mut call.target {
            let qualified = target
                .qualified_name()
                .map(|name| format!("{name}.{}", call.function));
            match qualified.filter(|name| function(name).is_some()) {
                Some(name) => {
                    call.target = None;
                    call.function = name.into();
                }
                None => args.insert(0, self.check(target)),
            }
        }
        let name = Arc::clone(&call.function);
        let known = function(&name)
            .filter(|_| self.environment.has_patch_types || &*name != message::ESCAPE_KEY);
        let Some(overloads) = known else {
            return self.undeclared(offset, &name);
        };
        if matches!(&*name, "_&&_" | "_||_") {
            return self.logic(id, call, &args);
        }
        let method = call.target.is_some();
        let mut result: Option<Type> = None;
        let mut fitting = Vec::new();
        for overload in overloads
            .iter()
            .filter(|overload| overload.method == method)
        {
            let first = self.fresh(overload.variables);
            let wanted: Vec<Type> = overload
                .parameters
                .iter()
                .map(|p| renumbered(p, first))
                .collect();
            if !self.bindings.assign_all(&args, &wanted) {
                continue;
            }
            fitting.push(overload.id);
            let returned = self.bindings.resolve(&renumbered(&overload.result, first));
            result = Some(match result {
                Some(before) if before != Type::Dyn && before != returned => Type::Dyn,
                Some(before) => before,
                None => returned,
            });
        }
        let Some(result) = result else {
            let shown: Vec<String> = args
                .iter()
                .map(|arg| self.bindings.resolve_all(arg).to_string())
                .collect();
            let signature = match shown.split_first() {
                Some((target, rest)) if method => format!("{target}.({})", rest.join(", ")),
                _ => format!("({})", shown.join(", ")),
            };
            let message =
                format!("found no matching overload for '{name}' applied to '{signature}'");
            self.issues.report(offset, message);
            return Type::Error;
        };
        self.references.insert(id, Reference::Overloads(fitting));
        result
    }

    fn fresh(&mut self, count: usize) -> usize {
        let mut first = None;
        for _ in 0..count {
            let variable = self.bindings.variable();
            first.get_or_insert(variable);
        }
        first.unwrap_or_default()
    }

    fn logic(&mut self, id: usize, call: &Call, args: &[Type]) -> Type {
        let mut fits = true;
        for (arg, of) in call.args.iter().zip(args) {
            if !self.bindings.assign_one(of, &Type::Bool) {
                self.mismatch(arg.offset, &Type::Bool, of);
                fits = false;
            }
        }
        let overload = if &*call.function == "_&&_" {
            "logical_and"
        } else {
            "logical_or"
        };
        self.references
            .insert(id, Reference::Overloads(vec![overload]));
        if fits { Type::Bool } else { Type::Error }
    }

    fn optional_select(&mut self, id: usize, offset: usize, call: &mut Call) -> Type {
        let [operand, field] = call.args.as_mut_slice() else {
            unreachable!("the parser makes two arguments")
        };
        let ExprKind::Literal(Value::String(name)) = &field.kind else {
            unreachable!("the parser makes the second a string")
        };
        self.types.insert(field.id, Type::String);
        let selected = self.select(offset, operand, name, true);
        self.references
            .insert(id, Reference::Overloads(vec!["select_optional_field"]));
        self.bindings.resolve(&selected)
    }

    /// The type within an optional entry of a literal.
    fn unwrapped(&mut self, offset: usize, optional: bool, found: Type) -> Type {
        if !optional {
            return found;
        }
        match found.optional_value() {
            Some(within) => within.clone(),
            None => {
                if found != Type::Dyn {
                    self.mismatch(offset, &Type::optional(found.clone()), &found);
                }
                found
            }
        }
    }

    /// One type for a part of a literal and those before it.
    fn join(&mut self, before: Option<Type>, found: Type) -> Type {
        match before {
            None => found,
            Some(before) if self.bindings.assign_one(&before, &found) => {
                most_general(&before, &found)
            }
            Some(_) => Type::Dyn,
        }
    }

    fn list(&mut self, items: &mut [Element]) -> Type {
        let mut joined = None;
        for Element { value, optional } in items {
            let found = self.check(value);
            let found = self.unwrapped(value.offset, *optional, found);
            joined = Some(self.join(joined, found));
        }
        Type::list(joined.unwrap_or_else(|| Type::Var(self.bindings.variable())))
    }

    fn map(&mut self, offset: usize, entries: &mut [Entry]) -> Type {
        let (mut keys, mut values) = (None, None);
        for Entry {
            key,
            value,
            optional,
        } in entries
        {
            let found = self.check(key);
            keys = Some(self.join(keys, found));
            let found = self.check(value);
            let found = self.unwrapped(value.offset, *optional, found);
            values = Some(self.join(values, found));
        }
        let key = keys.unwrap_or_else(|| Type::Var(self.bindings.variable()));
        let value = values.unwrap_or_else(|| Type::Var(self.bindings.variable()));
        let of = Type::map(key, value);
        if parts(&self.bindings.resolve(&of), TYPE_PARTS_MAX) == 0 {
            self.issues
                .report(offset, "type of map literal is too complex");
            return Type::Error;
        }
        of
    }

    fn comprehension(&mut self, loops: &mut Comprehension) -> Type {
        let range = self.check(&mut loops.range);
        let accumulator = self.check(&mut loops.init);
        let range = self.bindings.resolve(&range);
        let two = loops.value_variable.is_some();
        let (first, second) = match &range {
            Type::List(item) if two => (Type::Int, Type::clone(item)),
            Type::List(item) => (Type::clone(item), Type::Error),
            Type::Map(key, value) => (Type::clone(key), Type::clone(value)),
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.bindings.assign_one(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be \
                     list, map, or dynamic)"
                );
                self.issues.report(loops.range.offset, message);
                (Type::Error, Type::Error)
            }
        };
        let outer = self.scopes.len();
        self.scopes
            .push((Arc::clone(&loops.accumulator), accumulator.clone()));
        self.scopes.push((Arc::clone(&loops.variable), first));
        if let Some(variable) = &loops.value_variable {
            self.scopes.push((Arc::clone(variable), second));
        }
        self.assert(&mut loops.condition, &Type::Bool);
        self.assert(&mut loops.step, &accumulator);
        self.scopes.truncate(outer + 1);
        let result = self.check(&mut loops.result);
        self.scopes.truncate(outer);
        self.bindings.resolve(&result)
    }

    fn assert(&mut self, expr: &mut Expr, wanted: &Type) {
        let found = self.check(expr);
        if !self.bindings.assign_one(wanted, &found) {
            self.mismatch(expr.offset, wanted, &found);
        }
    }
}

fn literal_type(value: &Value) -> Type {
    match value {
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Uint(_) => Type::Uint,
        Value::Double(_) => Type::Double,
        Value::String(_) => Type::String,
        Value::Bytes(_) => Type::Bytes,
        _ => Type::Null,
    }
}

/// How many of `budget` are left after a type's parts; 0 if it has more.
fn parts(of: &Type, budget: usize) -> usize {
    let budget = budget.saturating_sub(1);
    if budget == 0 {
        return 0;
    }
    match of {
        Type::List(item) => parts(item, budget),
        Type::Map(key, value) => parts(value, parts(key, budget)),
        Type::Type(Some(of)) => parts(of, budget),
        Type::Opaque(_, of) => of.iter().fold(budget, |budget, of| parts(of, budget)),
        _ => budget,
    }
}
