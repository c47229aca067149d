//! The subset of Go's templates in stages.
//!
//! Supported are text, comments, trim marks, pipelines with `.a.b`, `$x`, `$x.a`, parentheses,
//! strings, numbers, booleans and nil, the assignments `:=` and `=`, `if`/`else if`/`else`, `range`
//! with up to two variables and `else`, `with` with `else`, `define` and `template`. Functions:
//! `and or not eq ne lt le gt ge len index print printf default add add1 sub dict list`, KWOK's
//! `Quote`, `YAML` and `Now`, and those of the caller.

mod functions;
mod parse;
mod render;

use std::collections::BTreeMap;

use kubeproof_machinery::json::Value;

/// A parsed template.
#[derive(Clone, Debug)]
pub(super) struct Template {
    body: Vec<Node>,
    defined: BTreeMap<String, Vec<Node>>,
}

/// The functions of a template's caller.
pub(super) trait Functions {
    /// Calls a function. Returns `None` if it does not exist.
    fn call(&self, name: &str, arguments: &[Value]) -> Option<Value>;
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Text(String),
    Show(Pipeline),
    Assign {
        variable: String,
        declares: bool,
        pipeline: Pipeline,
    },
    /// The first branch whose condition is true; the last may have no condition.
    If(Vec<Branch>),
    With(Block),
    Range(Block),
    Template(String, Option<Pipeline>),
}

/// A condition and the nodes rendered if it is true.
type Branch = (Option<Pipeline>, Vec<Node>);

/// The common part of `with` and `range`.
#[derive(Clone, Debug, PartialEq)]
struct Block {
    variables: Vec<String>,
    pipeline: Pipeline,
    body: Vec<Node>,
    otherwise: Vec<Node>,
}

/// Commands; each gets the result of the previous one as its last argument.
type Pipeline = Vec<Vec<Operand>>;

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Literal(Value),
    /// A path in the current document.
    Field(Vec<String>),
    Variable(String, Vec<String>),
    Function(String),
    Group(Pipeline, Vec<String>),
}

impl Template {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        parse::parse(text)
    }

    /// Renders the template for `document`.
    pub(super) fn render(
        &self,
        document: &Value,
        functions: &dyn Functions,
    ) -> Result<String, String> {
        render::render(self, document, functions)
    }
}

#[cfg(test)]
mod tests;
