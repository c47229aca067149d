//! Makes the nodes of a tree.

use super::{
    ast::{Call, Expr, ExprKind},
    source::Issues,
};

/// How many nodes an expression may become: macros repeat their targets.
const NODES_MAX: usize = 200_000;

/// Makes nodes.
pub(super) struct Builder {
    next_id: usize,
    /// Whether `cel.bind` is a macro.
    pub has_bindings: bool,
    pub issues: Issues,
}

impl Builder {
    pub(super) fn new(issues: Issues) -> Self {
        Self {
            next_id: 0,
            has_bindings: false,
            issues,
        }
    }

    pub(super) fn node(&mut self, offset: usize, kind: ExprKind) -> Expr {
        self.next_id += 1;
        Expr {
            id: self.next_id - 1,
            offset,
            kind,
        }
    }

    /// A copy whose nodes are new ones.
    pub(super) fn copy(&mut self, expr: &Expr) -> Expr {
        let mut copy = expr.clone();
        self.renumber(&mut copy);
        copy
    }

    fn renumber(&mut self, expr: &mut Expr) {
        expr.id = self.next_id;
        self.next_id += 1;
        match &mut expr.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select { operand, .. } => self.renumber(operand),
            ExprKind::Call(call) => {
                for operand in call.target.as_deref_mut().into_iter().chain(&mut call.args) {
                    self.renumber(operand);
                }
            }
            ExprKind::List(items) => items.iter_mut().for_each(|i| self.renumber(&mut i.value)),
            ExprKind::Map(entries) => {
                for entry in entries {
                    self.renumber(&mut entry.key);
                    self.renumber(&mut entry.value);
                }
            }
            ExprKind::Message { fields, .. } => {
                let values = fields.iter_mut().map(|field| &mut field.value);
                values.for_each(|value| self.renumber(value));
            }
            ExprKind::Comprehension(loops) => {
                self.renumber(&mut loops.range);
                self.renumber(&mut loops.init);
                self.renumber(&mut loops.condition);
                self.renumber(&mut loops.step);
                self.renumber(&mut loops.result);
            }
        }
    }

    pub(super) fn call(&mut self, offset: usize, function: &str, args: Vec<Expr>) -> Expr {
        self.node(
            offset,
            ExprKind::Call(Call {
                function: function.into(),
                target: None,
                args,
            }),
        )
    }

    /// Whether macros have made the expression too big to go on.
    pub(super) fn is_full(&self) -> bool {
        self.next_id > NODES_MAX
    }
}
