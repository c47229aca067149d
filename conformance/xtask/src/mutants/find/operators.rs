//! Operators, conditions, match arms and fields of structs.

use syn::spanned::Spanned as _;
use syn::visit::Visit as _;
use syn::{BinOp, Expr, ExprBinary, ExprMatch, ExprStruct, ExprUnary, Pat, UnOp};

use super::{Finder, one_line, range};
use crate::mutants::mutant::Splice;

/// The replacements of an operator.
fn replacements(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::Lt(_) => &["==", ">", "<="],
        BinOp::Gt(_) => &["==", "<", ">="],
        BinOp::Le(_) => &[">"],
        BinOp::Ge(_) => &["<"],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Add(_) => &["-", "*"],
        BinOp::Sub(_) => &["+", "/"],
        BinOp::Mul(_) => &["+", "/"],
        BinOp::Div(_) => &["%", "*"],
        BinOp::Rem(_) => &["/", "+"],
        BinOp::BitAnd(_) => &["|", "^"],
        BinOp::BitOr(_) => &["&", "^"],
        BinOp::BitXor(_) => &["|", "&"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::AddAssign(_) => &["-=", "*="],
        BinOp::SubAssign(_) => &["+=", "/="],
        BinOp::MulAssign(_) => &["+=", "/="],
        BinOp::DivAssign(_) => &["%=", "*="],
        BinOp::BitAndAssign(_) => &["|=", "^="],
        BinOp::BitOrAssign(_) => &["&=", "^="],
        _ => &[],
    }
}

/// Whether a condition binds variables, so that its operands cannot be moved.
fn binds(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(one) if matches!(one.op, BinOp::And(_)) => {
            binds(&one.left) || binds(&one.right)
        }
        _ => false,
    }
}

/// Whether a pattern matches everything.
fn is_catch_all(pattern: &Pat) -> bool {
    match pattern {
        Pat::Wild(_) => true,
        Pat::Ident(one) => {
            let name = one.ident.to_string();
            one.subpat.is_none() && name.starts_with(|first: char| first.is_lowercase())
        }
        _ => false,
    }
}

impl Finder<'_> {
    pub(super) fn add_binary(&mut self, binary: &ExprBinary) {
        let operator = self.text(range(&binary.op)).to_owned();
        let left = self.text(range(&*binary.left)).to_owned();
        let right = self.text(range(&*binary.right)).to_owned();
        let at = range(&binary.op).start;
        for with in replacements(&binary.op) {
            let splice = Splice::replace(range(binary), &format!("({left}) {with} ({right})"));
            self.add(format!("replace {operator} with {with}"), at, splice);
        }
    }

    pub(super) fn add_unary(&mut self, unary: &ExprUnary) {
        let operator = match unary.op {
            UnOp::Not(_) => "!",
            UnOp::Neg(_) => "-",
            _ => return,
        };
        let operand = self.text(range(&*unary.expr)).to_owned();
        let splice = Splice::replace(range(unary), &operand);
        self.add(format!("delete {operator}"), range(unary).start, splice);
    }

    /// Visits the condition of an `if` or a `while`. Each part of a chain with `let` that is no `let` is deleted.
    pub(super) fn visit_condition(&mut self, condition: &Expr) {
        match condition {
            Expr::Binary(one) if binds(condition) => {
                self.visit_condition(&one.left);
                self.visit_condition(&one.right);
                for part in [&one.left, &one.right] {
                    if !binds(part) {
                        let text = one_line(self.text(range(&**part)));
                        let splice = Splice::around(range(&**part), "(IS || (".to_owned(), "))");
                        let change =
                            format!("delete condition `{}`", super::statements::short(&text));
                        self.add(change, range(&**part).start, splice);
                    }
                }
            }
            Expr::Let(one) => self.visit_expr(&one.expr),
            other => self.visit_expr(other),
        }
    }

    /// Visits a `match`: guards are replaced, and arms deleted if a later one takes everything.
    pub(super) fn visit_arms(&mut self, one: &ExprMatch, is_unit: bool) {
        self.visit_expr(&one.expr);
        let last = one.arms.iter().rposition(|arm| is_catch_all(&arm.pat));
        for (index, arm) in one.arms.iter().enumerate() {
            if let Pat::Guard(guarded) = &arm.pat {
                let guard = &guarded.guard;
                let text = one_line(self.text(range(&**guard)));
                let text = super::statements::short(&text);
                let at = range(&**guard).start;
                if binds(guard) {
                    let splice = Splice::around(range(&**guard), "!IS && ".to_owned(), "");
                    self.add(format!("replace guard `{text}` with false"), at, splice);
                } else {
                    let with_true = Splice::around(range(&**guard), "(IS || (".to_owned(), "))");
                    self.add(format!("replace guard `{text}` with true"), at, with_true);
                    let with_false = Splice::around(range(&**guard), "(!IS && (".to_owned(), "))");
                    self.add(format!("replace guard `{text}` with false"), at, with_false);
                }
                self.visit_condition(guard);
            } else if last.is_some_and(|last| index < last) {
                let pattern = range(&arm.pat);
                let text = one_line(self.text(pattern.clone()));
                let splice = Splice::around(pattern.end..pattern.end, " if !IS".to_owned(), "");
                let change = format!("delete arm `{}`", super::statements::short(&text));
                self.add(change, pattern.start, splice);
            }
            self.is_unit = is_unit;
            self.visit_expr(&arm.body);
        }
    }

    /// Fields whose value another struct would give.
    pub(super) fn add_fields(&mut self, one: &ExprStruct) {
        let Some(rest) = &one.rest else {
            return;
        };
        let base = one_line(self.text(range(&**rest)));
        let of = self.type_name(&one.path);
        for field in &one.fields {
            let name = one_line(self.text(field.member.span().byte_range()));
            let with = match base.as_str() {
                // Only the struct knows the type.
                "Default::default()" => base.clone(),
                base => format!("({base}).{name}"),
            };
            let value = range(&field.expr);
            let splice = match field.colon_token {
                Some(_) => Splice::replace(value, &with),
                None => {
                    let before = format!("{name}: (if IS {{ {with} }} else {{ ");
                    Splice::around(value, before, " })")
                }
            };
            let at = field.member.span().byte_range().start;
            self.add(format!("delete field {name} of {of}"), at, splice);
        }
    }
}
