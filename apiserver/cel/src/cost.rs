//! Estimates the most that an expression may cost, from its schema alone.
//!
//! The server refuses definitions by these numbers, so they equal the numbers of cel-go and the
//! Kubernetes libraries, oddities included.

mod calls;

use std::{collections::BTreeMap, sync::Arc};

use super::{
    ast::{ACCUMULATOR, Call, Comprehension, Expr, ExprKind},
    checker::Checked,
    runtime_cost::{LIST_COST, MAP_COST},
    types::{DeclType, Type},
    value::Value,
};

/// A range of costs or of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    pub min: u64,
    pub max: u64,
}

impl Estimate {
    const UNKNOWN: Self = Self {
        min: 0,
        max: u64::MAX,
    };

    const fn fixed(number: u64) -> Self {
        Self {
            min: number,
            max: number,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    fn times(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    fn scaled(self, factor: f64) -> Self {
        Self {
            min: scaled(self.min, factor),
            max: scaled(self.max, factor),
        }
    }

    fn union(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "upstream computes costs in floats; the conversion back saturates as upstream's does"
)]
fn scaled(number: u64, factor: f64) -> u64 {
    (number as f64 * factor).ceil() as u64
}

/// The sizes of the keys and values of a list or map.
#[derive(Clone, Copy, Debug)]
struct Entries {
    is_list: bool,
    key: Estimate,
    value: Estimate,
}

impl Entries {
    fn union(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        let (a, b) = a.zip(b)?;
        Some(Self {
            key: a.key.union(b.key),
            value: a.value.union(b.value),
            ..a
        })
    }
}

/// A variable of a comprehension.
#[derive(Clone, Debug)]
struct Local {
    name: Arc<str>,
    path: Vec<String>,
    size: Option<Estimate>,
    entries: Option<Entries>,
}

/// An operand of a call: its expression, its path and, if known, its size.
struct Node<'e> {
    expr: &'e Expr,
    path: Vec<String>,
    size: Option<Estimate>,
}

/// The cost of a call without its operands, and how big its result is.
struct CallEstimate {
    cost: Estimate,
    size: Option<Estimate>,
}

/// The most that evaluating `checked` may cost, where variables are values of `root`.
pub(super) fn estimate(checked: &Checked, root: &DeclType) -> u64 {
    let mut coster = Coster {
        checked,
        root,
        locals: Vec::new(),
        sizes: BTreeMap::new(),
        entries: BTreeMap::new(),
        paths: BTreeMap::new(),
    };
    coster.cost(&checked.expr).max
}

struct Coster<'e> {
    checked: &'e Checked,
    root: &'e DeclType,
    locals: Vec<Local>,
    sizes: BTreeMap<usize, Estimate>,
    entries: BTreeMap<usize, Entries>,
    paths: BTreeMap<usize, Vec<String>>,
}

impl<'e> Coster<'e> {
    fn cost(&mut self, expr: &'e Expr) -> Estimate {
        match &expr.kind {
            ExprKind::Literal(_) => Estimate::fixed(0),
            ExprKind::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => vec![name.to_string()],
                };
                self.paths.insert(expr.id, path);
                Estimate::fixed(1)
            }
            // A test for the presence of a field costs nothing.
            ExprKind::Select {
                operand,
                test_only: true,
                ..
            } => self.cost(operand),
            ExprKind::Select { operand, field, .. } => {
                let mut sum = self.cost(operand);
                if matches!(
                    self.checked.type_of(operand),
                    Type::Map(..) | Type::Object(_)
                ) {
                    sum = sum.plus(Estimate::fixed(1));
                }
                let path = self.path_to(operand, field);
                self.paths.insert(expr.id, path);
                sum
            }
            ExprKind::Call(call) => self.call(expr, call),
            ExprKind::List(items) => {
                let mut sum = Estimate::fixed(LIST_COST);
                let mut value = Estimate {
                    min: u64::MAX,
                    max: 0,
                };
                if items.is_empty() {
                    value.min = 0;
                }
                for item in items {
                    sum = sum.plus(self.cost(&item.value));
                    value = value.union(self.size_or_unknown(&item.value));
                }
                let key = Estimate::fixed(1);
                self.entries.insert(
                    expr.id,
                    Entries {
                        is_list: true,
                        key,
                        value,
                    },
                );
                sum
            }
            ExprKind::Map(entries) => {
                let mut sum = Estimate::fixed(MAP_COST);
                let empty = if entries.is_empty() { 0 } else { u64::MAX };
                let mut key = Estimate { min: empty, max: 0 };
                let mut value = key;
                for entry in entries {
                    sum = sum
                        .plus(self.cost(&entry.key))
                        .plus(self.cost(&entry.value));
                    key = key.union(self.size_or_unknown(&entry.key));
                    value = value.union(self.size_or_unknown(&entry.value));
                }
                self.entries.insert(
                    expr.id,
                    Entries {
                        is_list: false,
                        key,
                        value,
                    },
                );
                sum
            }
            ExprKind::Message { .. } => Estimate::fixed(0),
            ExprKind::Comprehension(loops) if loops.is_bind() => self.bind(expr, loops),
            ExprKind::Comprehension(loops) => self.comprehension(expr, loops),
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| *local.name == *name)
    }

    fn path(&self, expr: &Expr) -> &[String] {
        if let ExprKind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return &local.path;
        }
        self.paths.get(&expr.id).map_or(&[], Vec::as_slice)
    }

    fn path_to(&self, expr: &Expr, part: &str) -> Vec<String> {
        let mut path = self.path(expr).to_vec();
        path.push(part.to_owned());
        path
    }

    /// The size of the values at a path from a variable.
    fn size_at(&self, path: &[String]) -> Option<Estimate> {
        let (_, parts) = path.split_first()?;
        let mut at = self.root;
        let mut keys = false;
        for part in parts {
            if keys {
                return None;
            }
            match part.as_str() {
                "@items" | "@values" => at = at.element()?,
                "@keys" => {
                    at.is_map().then_some(())?;
                    keys = true;
                }
                field => at = at.field(field)?,
            }
        }
        // Keys are plain strings, whose size upstream leaves at nothing.
        let max = if keys { 0 } else { at.max_elements };
        Some(Estimate { min: 0, max })
    }

    fn size(&mut self, expr: &Expr) -> Option<Estimate> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        if let Some(size) = literal_size(expr) {
            return Some(Estimate::fixed(size));
        }
        if let Some(size) = self.size_at(self.path(expr)) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(self.checked.type_of(expr)) {
            return Some(Estimate::fixed(1));
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> Estimate {
        self.size(expr).unwrap_or(Estimate::UNKNOWN)
    }

    fn entries_of(&self, expr: &Expr) -> Option<Entries> {
        if let Some(entries) = self.entries.get(&expr.id) {
            return Some(*entries);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.entries,
            _ => None,
        }
    }

    fn set_size(&mut self, expr: &Expr, size: Option<Estimate>) {
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
    }

    fn set_entries(&mut self, expr: &Expr, entries: Option<Entries>) {
        if let Some(entries) = entries {
            self.entries.insert(expr.id, entries);
        }
    }

    fn push_value(&mut self, name: &Arc<str>, expr: &Expr) {
        let local = Local {
            name: Arc::clone(name),
            path: self.path(expr).to_vec(),
            size: self.size(expr),
            entries: self.entries_of(expr),
        };
        self.locals.push(local);
    }

    /// A variable that takes the keys, or the values, of the range of a loop.
    fn push_iterated(&mut self, name: &Arc<str>, range: &Expr, wanted: Iterated) {
        let entries = self.entries_of(range);
        let is_list = entries.map_or_else(
            || matches!(self.checked.type_of(range), Type::List(_)),
            |entries| entries.is_list,
        );
        let values = match wanted {
            Iterated::Keys => false,
            Iterated::Values => true,
            Iterated::ItemsOrKeys => is_list,
        };
        let part = match (values, is_list) {
            (true, true) => "@items",
            (true, false) => "@values",
            (false, true) => "@indices",
            (false, false) => "@keys",
        };
        let local = Local {
            name: Arc::clone(name),
            path: self.path_to(range, part),
            size: entries.map(|entries| if values { entries.value } else { entries.key }),
            entries: None,
        };
        self.locals.push(local);
    }

    fn bind(&mut self, expr: &'e Expr, loops: &'e Comprehension) -> Estimate {
        let mut sum = self.cost(&loops.range);
        sum = sum.plus(self.cost(&loops.init));
        self.push_value(&loops.accumulator, &loops.init);
        sum = sum.plus(self.cost(&loops.result));
        self.locals.pop();
        let (size, entries) = (self.size(&loops.result), self.entries_of(&loops.result));
        self.set_size(expr, size);
        self.set_entries(expr, entries);
        sum
    }

    fn comprehension(&mut self, expr: &'e Expr, loops: &'e Comprehension) -> Estimate {
        let mut sum = self.cost(&loops.range);
        sum = sum.plus(self.cost(&loops.init));
        self.push_value(&loops.accumulator, &loops.init);
        let outer = self.locals.len();
        match &loops.value_variable {
            Some(value) => {
                self.push_iterated(&loops.variable, &loops.range, Iterated::Keys);
                self.push_iterated(value, &loops.range, Iterated::Values);
            }
            None => self.push_iterated(&loops.variable, &loops.range, Iterated::ItemsOrKeys),
        }
        let turn = self.cost(&loops.condition);
        let turn = turn.plus(self.cost(&loops.step));
        self.locals.truncate(outer);
        sum = sum.plus(self.cost(&loops.result));
        self.locals.pop();
        let turns = self.size_or_unknown(&loops.range);
        match &loops.init.kind {
            ExprKind::Literal(_) => {
                let size = self.size(&loops.init);
                self.set_size(expr, size);
            }
            ExprKind::List(_) | ExprKind::Map(_) => {
                self.set_size(expr, Some(turns));
                let entries = self.entries_of(&loops.step);
                self.set_entries(expr, entries);
            }
            _ => {}
        }
        sum.plus(turns.times(turn))
    }

    fn node(&mut self, expr: &'e Expr) -> Node<'e> {
        let mut path = self.path(expr).to_vec();
        if path.first().is_some_and(|first| first == ACCUMULATOR) {
            path.clear();
        }
        let size = self.size(expr);
        Node { expr, path, size }
    }

    fn call(&mut self, expr: &'e Expr, call: &'e Call) -> Estimate {
        if &*call.function == "dyn" {
            let arg = &call.args[0];
            let cost = self.cost(arg).plus(Estimate::fixed(1));
            let (size, entries) = (self.size(arg), self.entries_of(arg));
            self.set_size(expr, size);
            self.set_entries(expr, entries);
            return cost;
        }
        let mut costs = Vec::with_capacity(call.args.len());
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            costs.push(self.cost(arg));
            args.push(self.node(arg));
        }
        let mut sum = Estimate::fixed(0);
        let target = match &call.target {
            Some(target) => {
                sum = self.cost(target);
                Some(self.node(target))
            }
            None => None,
        };
        let mut cost = Estimate {
            min: u64::MAX,
            max: 0,
        };
        let mut size: Option<Estimate> = None;
        for overload in self.checked.overloads(expr) {
            let estimate = self.overload(expr, call, overload, target.as_ref(), &args, &costs);
            cost = cost.union(estimate.cost);
            if let Some(made) = estimate.size {
                size = Some(size.map_or(made, |size| size.union(made)));
            }
            let part = match *overload {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let Some(part) = part {
                size = self.entries_of(args[0].expr).map(|entries| entries.value);
                let path = self.path_to(args[0].expr, part);
                self.paths.insert(expr.id, path);
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        self.set_size(expr, size);
        sum.plus(cost)
    }
}

/// The values that a loop variable takes.
enum Iterated {
    Keys,
    Values,
    /// The items of a list, the keys of a map.
    ItemsOrKeys,
}

fn literal_size(expr: &Expr) -> Option<u64> {
    match &expr.kind {
        ExprKind::Literal(Value::String(text)) => Some(text.chars().count() as u64),
        ExprKind::Literal(Value::Bytes(bytes)) => Some(bytes.len() as u64),
        ExprKind::Literal(_) => Some(1),
        ExprKind::List(items) => Some(items.len() as u64),
        ExprKind::Map(entries) => Some(entries.len() as u64),
        _ => None,
    }
}

/// Whether all values of a type are of one size.
fn is_scalar(of: &Type) -> bool {
    match of {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => {
            true
        }
        _ => of.optional_value().is_some_and(is_scalar),
    }
}
