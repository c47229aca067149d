//! Expressions as trees.

use std::sync::Arc;

use super::value::Value;

/// The variable in which macros gather their results; no expression can spell it.
pub(super) const ACCUMULATOR: &str = "@result";

/// The iteration variable of comprehensions that only bind another one.
pub(super) const UNUSED: &str = "#unused";

/// A node of an expression.
#[derive(Clone, Debug)]
pub(super) struct Expr {
    /// Unique within the tree.
    pub id: usize,
    /// Where issues with the node point at.
    pub offset: usize,
    pub kind: ExprKind,
}

/// The forms of nodes.
#[derive(Clone, Debug)]
pub(super) enum ExprKind {
    Literal(Value),
    Ident(Arc<str>),
    Select {
        operand: Box<Expr>,
        field: Arc<str>,
        /// Whether the selection only tests for the presence of the field, as `has()` does.
        test_only: bool,
    },
    Call(Call),
    List(Vec<Element>),
    Map(Vec<Entry>),
    /// A message literal. Only mutations of admission policies have types for one.
    Message {
        type_name: String,
        fields: Vec<MessageField>,
    },
    Comprehension(Box<Comprehension>),
}

/// The call of a function, an operator or a method.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub function: Arc<str>,
    pub target: Option<Box<Expr>>,
    pub args: Vec<Expr>,
}

impl Call {
    /// The target, if any, and the arguments.
    pub(super) fn operands(&self) -> impl Iterator<Item = &Expr> {
        self.target.as_deref().into_iter().chain(&self.args)
    }
}

/// An item of a list literal.
#[derive(Clone, Debug)]
pub(super) struct Element {
    pub value: Expr,
    /// Whether the element is an optional, whose value is used if present.
    pub optional: bool,
}

/// An entry of a map literal.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub key: Expr,
    pub value: Expr,
    /// Whether the value is an optional, the entry absent with it.
    pub optional: bool,
}

/// A field of a message literal.
#[derive(Clone, Debug)]
pub(super) struct MessageField {
    /// Where issues with the field point at.
    pub offset: usize,
    pub name: String,
    pub value: Expr,
    /// Whether the value is an optional, the field absent with it.
    pub optional: bool,
}

/// A loop over a list or map, as macros expand to.
#[derive(Clone, Debug)]
pub(super) struct Comprehension {
    pub range: Expr,
    pub variable: Arc<str>,
    /// The second variable: the values, the first one being keys or indices.
    pub value_variable: Option<Arc<str>>,
    pub accumulator: Arc<str>,
    pub init: Expr,
    pub condition: Expr,
    pub step: Expr,
    pub result: Expr,
}

impl Comprehension {
    /// Whether the comprehension has no loop and only names a value.
    pub(super) fn is_bind(&self) -> bool {
        matches!(&self.range.kind, ExprKind::List(items) if items.is_empty())
            && matches!(self.condition.kind, ExprKind::Literal(Value::Bool(false)))
            && &*self.accumulator != ACCUMULATOR
    }
}

impl Expr {
    /// `a.b.c` of nothing but names.
    pub(super) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            ExprKind::Ident(name) => Some(name.to_string()),
            ExprKind::Select {
                operand,
                field,
                test_only: false,
            } => Some(format!("{}.{field}", operand.qualified_name()?)),
            _ => None,
        }
    }

    /// How many nodes are one within the other, at most.
    pub(super) fn depth(&self) -> usize {
        let below = |parts: &mut dyn Iterator<Item = &Self>| {
            parts.map(Self::depth).max().unwrap_or_default()
        };
        1 + match &self.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => 0,
            ExprKind::Select { operand, .. } => operand.depth(),
            ExprKind::Call(call) => below(&mut call.operands()),
            ExprKind::List(items) => below(&mut items.iter().map(|item| &item.value)),
            ExprKind::Map(entries) => {
                below(&mut entries.iter().flat_map(|entry| [&entry.key, &entry.value]))
            }
            ExprKind::Message { fields, .. } => below(&mut fields.iter().map(|field| &field.value)),
            ExprKind::Comprehension(loops) => {
                let Comprehension {
                    range,
                    init,
                    condition,
                    step,
                    result,
                    ..
                } = &**loops;
                below(&mut [range, init, condition, step, result].into_iter())
            }
        }
    }

    /// Shows every node to `visit`, a parent before its children.
    pub(super) fn walk<'e>(&'e self, visit: &mut dyn FnMut(&'e Self)) {
        visit(self);
        match &self.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select { operand, .. } => operand.walk(visit),
            ExprKind::Call(call) => call.operands().for_each(|operand| operand.walk(visit)),
            ExprKind::List(items) => items.iter().for_each(|item| item.value.walk(visit)),
            ExprKind::Map(entries) => {
                for entry in entries {
                    entry.key.walk(visit);
                    entry.value.walk(visit);
                }
            }
            ExprKind::Message { fields, .. } => fields.iter().for_each(|f| f.value.walk(visit)),
            ExprKind::Comprehension(loops) => {
                let Comprehension {
                    range,
                    init,
                    condition,
                    step,
                    result,
                    ..
                } = &**loops;
                for part in [range, init, condition, step, result] {
                    part.walk(visit);
                }
            }
        }
    }
}
