//! Statements that are deleted.

use syn::visit::Visit as _;
use syn::{Block, Expr, Local, Pat, Stmt};

use super::{Finder, one_line, range};
use crate::mutants::mutant::Splice;

/// The length of a text in a name, in characters.
const SHORT: usize = 60;

/// Macros that only log or check something.
const SILENT: [&str; 10] = [
    "trace",
    "debug",
    "info",
    "warn",
    "error",
    "assert",
    "assert_eq",
    "debug_assert",
    "debug_assert_eq",
    "unreachable",
];

/// The beginning of a text that is long.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(SHORT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Whether what follows an expression is never reached.
fn diverges(expr: &Expr) -> bool {
    match expr {
        Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => true,
        Expr::Loop(_) => true,
        Expr::Macro(one) => is_named(&one.mac, &["panic", "unreachable", "todo"]),
        Expr::If(one) => {
            let other = one.else_branch.as_ref();
            other.is_some_and(|(_, other)| diverges(other)) && ends(&one.then_branch)
        }
        Expr::Match(one) => one.arms.iter().all(|arm| diverges(&arm.body)),
        Expr::Block(one) => ends(&one.block),
        _ => false,
    }
}

fn ends(block: &Block) -> bool {
    match block.stmts.last() {
        Some(Stmt::Expr(last, _)) => diverges(last),
        Some(Stmt::Macro(last)) => is_named(&last.mac, &["panic", "unreachable", "todo"]),
        _ => false,
    }
}

fn is_named(called: &syn::Macro, names: &[&str]) -> bool {
    let last = called.path.segments.last();
    last.is_some_and(|last| names.iter().any(|name| last.ident == name))
}

impl Finder<'_> {
    /// Visits a block, which is known to be of type `()` if `is_unit`.
    pub(super) fn visit_statements(&mut self, block: &Block, is_unit: bool) {
        let last = block.stmts.len().saturating_sub(1);
        for (index, statement) in block.stmts.iter().enumerate() {
            let is_last = index == last;
            match statement {
                Stmt::Expr(expr, semicolon) => {
                    let is_value = is_last && semicolon.is_none() && !is_unit;
                    // The type of a block that ends without a value is another if it ends elsewhere.
                    let is_needed = is_last && !is_unit && diverges(expr);
                    if !is_value && !is_needed {
                        self.add_deletion(statement);
                    }
                    self.is_unit = semicolon.is_none() && !is_value;
                    self.visit_expr(expr);
                }
                Stmt::Macro(one) => {
                    let is_value = is_last && one.semi_token.is_none() && !is_unit;
                    if !is_value && !is_named(&one.mac, &SILENT) {
                        self.add_deletion(statement);
                    }
                }
                Stmt::Local(local) => {
                    if is_discarded(local) {
                        self.add_deletion(statement);
                    }
                    if let Some(init) = &local.init {
                        self.visit_expr(&init.expr);
                        if let Some((_, otherwise)) = &init.diverge {
                            self.visit_expr(otherwise);
                        }
                    }
                }
                Stmt::Item(item) => self.visit_item(item),
            }
        }
        self.is_unit = false;
    }

    fn add_deletion(&mut self, statement: &Stmt) {
        let place = range(statement);
        let text = one_line(self.text(place.clone()));
        let change = format!("delete `{}`", short(&text));
        let at = place.start;
        self.add(change, at, Splice::delete(place));
    }
}

/// Whether nothing is bound, as in `let _ = f();`.
fn is_discarded(local: &Local) -> bool {
    let init = local.init.as_ref();
    matches!(local.pat, Pat::Wild(_)) && init.is_some_and(|init| init.diverge.is_none())
}
