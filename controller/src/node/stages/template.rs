//! The part of Go's templates that stages are written in.
//!
//! Understood are text, comments, trim marks, pipelines with `.a.b`, `$x`, `$x.a`, parentheses,
//! strings, numbers, booleans and nil, the assignments `:=` and `=`, `if`/`else if`/`else`,
//! `range` with up to two variables and `else`, `with` with `else`, `define` and `template`.
//! Functions: `and or not eq ne lt le gt ge len index print printf default add add1 sub dict list`
//! and KWOK's `Quote`, `YAML`, `Now` and what the caller adds.

mod functions;
mod parse;
mod render;

use std::collections::BTreeMap;

use serde_json::Value;

/// A template that has been read.
#[derive(Clone, Debug)]
pub(super) struct Template {
    body: Vec<Node>,
    defined: BTreeMap<String, Vec<Node>>,
}

/// What a template is filled with besides the document.
pub(super) trait Functions {
    /// The result of a function; `None` where there is none of that name.
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
    /// The first branch whose condition is true; the last may have none.
    If(Vec<Branch>),
    With(Block),
    Range(Block),
    Template(String, Option<Pipeline>),
}

/// A condition and what is shown where it holds.
type Branch = (Option<Pipeline>, Vec<Node>);

/// What `with` and `range` have in common.
#[derive(Clone, Debug, PartialEq)]
struct Block {
    variables: Vec<String>,
    pipeline: Pipeline,
    body: Vec<Node>,
    otherwise: Vec<Node>,
}

/// Commands, each of which gets the result of the one before as its last argument.
type Pipeline = Vec<Vec<Operand>>;

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Literal(Value),
    /// A part of the present document.
    Field(Vec<String>),
    Variable(String, Vec<String>),
    Function(String),
    Group(Pipeline, Vec<String>),
}

impl Template {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        parse::parse(text)
    }

    /// The text that the template makes of `document`.
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
