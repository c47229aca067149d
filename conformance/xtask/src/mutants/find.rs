//! Finds the mutants of a source file.

mod operators;
mod returns;
mod statements;

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::Context as _;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ReturnType, Signature};

use super::mutant::{Mutant, Splice, hash};

/// Finds the mutants of the source of `file`, in the order of their places.
///
/// # Errors
/// The source is not Rust.
pub(crate) fn find(file: &str, source: &str) -> anyhow::Result<Vec<Mutant>> {
    let parsed = syn::parse_file(source).with_context(|| format!("cannot parse {file}"))?;
    let mut finder = Finder {
        file,
        source,
        scopes: Vec::new(),
        function: None,
        is_unit: false,
        found: Vec::new(),
    };
    finder.visit_file(&parsed);
    let mut found = finder.found;
    let mut ordinals = BTreeMap::new();
    for mutant in &mut found {
        let of_name = (mutant.change.clone(), mutant.function.clone());
        let ordinal: &mut usize = ordinals.entry(of_name).or_default();
        *ordinal += 1;
        mutant.ordinal = *ordinal;
    }
    Ok(found)
}

/// The function that is looked at.
#[derive(Clone)]
struct Function {
    name: String,
    hash: u64,
    body: Range<usize>,
}

struct Finder<'a> {
    file: &'a str,
    source: &'a str,
    /// Names of modules, types and functions around.
    scopes: Vec<String>,
    function: Option<Function>,
    /// Whether the expression to be visited next is known to be of type `()`.
    is_unit: bool,
    found: Vec<Mutant>,
}

/// The bytes of a part of the source.
fn range(part: &impl syn::spanned::Spanned) -> Range<usize> {
    part.span().byte_range()
}

impl Finder<'_> {
    fn text(&self, range: Range<usize>) -> &str {
        &self.source[range]
    }

    /// Adds a mutant of the function that is looked at. Outside of functions nothing is changed.
    fn add(&mut self, change: String, at: usize, splice: Splice) {
        let Some(function) = self.function.clone() else {
            return;
        };
        self.found.push(Mutant {
            file: self.file.to_owned(),
            function: function.name,
            change,
            line: self.source[..at].matches('\n').count() + 1,
            ordinal: 0,
            hash: function.hash,
            body: function.body,
            splice,
        });
    }

    fn in_scope(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.scopes.push(name);
        visit(self);
        self.scopes.pop();
    }

    fn visit_function(&mut self, attrs: &[syn::Attribute], signature: &Signature, block: &Block) {
        // A constant function cannot ask which mutant is active.
        if is_test(attrs) || signature.constness.is_some() {
            return;
        }
        let body = range(block);
        let whole = range(signature).start..body.end;
        self.scopes.push(signature.ident.to_string());
        let function = Function {
            name: self.scopes.join("::"),
            hash: hash(self.text(whole).as_bytes()),
            body,
        };
        let outer = self.function.replace(function);
        self.add_returns(signature, block);
        let is_unit = matches!(signature.output, ReturnType::Default);
        self.visit_statements(block, is_unit);
        self.function = outer;
        self.scopes.pop();
    }

    /// The source of a type, on one line.
    fn type_name(&self, part: &impl syn::spanned::Spanned) -> String {
        one_line(self.text(range(part)))
    }
}

/// A text without line breaks and indentation.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// Whether an item belongs to unit tests.
fn is_test(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|attr| {
        let is_cfg_test = attr.path().is_ident("cfg")
            && attr
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("test"));
        let is_test = attr.path().segments.last();
        is_cfg_test || is_test.is_some_and(|last| last.ident == "test")
    })
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.visit_function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.visit_function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.visit_function(&item.attrs, &item.sig, block);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let of = self.type_name(&*item.self_ty);
        let name = match &item.trait_ {
            // Output for debuggers is not behavior.
            Some((path, _)) if path.is_ident("Debug") || path.is_ident("fmt::Debug") => return,
            Some((path, _)) => format!("<impl {} for {of}>", self.type_name(path)),
            None => of,
        };
        if !is_test(&item.attrs) {
            self.in_scope(name, |finder| visit::visit_item_impl(finder, item));
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let name = item.ident.to_string();
        self.in_scope(name, |finder| visit::visit_item_trait(finder, item));
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            let name = item.ident.to_string();
            self.in_scope(name, |finder| visit::visit_item_mod(finder, item));
        }
    }

    // Constants are computed by the compiler, and so are lengths of arrays and patterns.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_block(&mut self, block: &'ast Block) {
        self.visit_statements(block, false);
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        let is_unit = std::mem::take(&mut self.is_unit);
        match expr {
            Expr::If(one) => {
                self.visit_condition(&one.cond);
                let is_unit = is_unit || one.else_branch.is_none();
                self.visit_statements(&one.then_branch, is_unit);
                if let Some((_, other)) = &one.else_branch {
                    self.is_unit = is_unit;
                    self.visit_expr(other);
                }
            }
            Expr::Match(one) => self.visit_arms(one, is_unit),
            Expr::Block(one) => self.visit_statements(&one.block, is_unit),
            Expr::While(one) => {
                self.visit_condition(&one.cond);
                self.visit_statements(&one.body, true);
            }
            Expr::Loop(one) => self.visit_statements(&one.body, true),
            Expr::ForLoop(one) => {
                self.visit_expr(&one.expr);
                self.visit_statements(&one.body, true);
            }
            Expr::Binary(one) => {
                self.add_binary(one);
                visit::visit_expr_binary(self, one);
            }
            Expr::Unary(one) => {
                self.add_unary(one);
                visit::visit_expr_unary(self, one);
            }
            Expr::Struct(one) => {
                self.add_fields(one);
                visit::visit_expr_struct(self, one);
            }
            other => visit::visit_expr(self, other),
        }
    }
}

#[cfg(test)]
mod tests;
