//! The subset of the POSIX shell's grammar that tests use in containers.

mod parser;

use std::sync::Arc;

pub(crate) use parser::parse;

/// A command, simple or compound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// `NAME=value… word… <redirections>`.
    Simple(Simple),
    /// `a | b`.
    Pipeline(Vec<Command>),
    /// `! a`.
    Not(Box<Command>),
    /// `a && b`.
    And(Box<Command>, Box<Command>),
    /// `a || b`.
    Or(Box<Command>, Box<Command>),
    /// `a; b`.
    Sequence(Vec<Command>),
    /// `a &`.
    Background(Box<Command>),
    /// `for name in words; do body; done`.
    For {
        name: String,
        words: Vec<Word>,
        body: Box<Command>,
    },
    /// `while condition; do body; done`, or `until`.
    While {
        condition: Box<Command>,
        body: Box<Command>,
        until: bool,
    },
    /// `if a; then b; elif c; then d; else e; fi`.
    If {
        branches: Vec<(Command, Command)>,
        otherwise: Option<Box<Command>>,
    },
    /// `name() a`.
    Function { name: String, body: Arc<Command> },
    /// `{ a; } <redirections>`, or with `subshell` `( a )`.
    Group {
        body: Box<Command>,
        redirects: Vec<Redirect>,
        subshell: bool,
    },
}

/// A simple command: assignments, words and redirections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Simple {
    pub(crate) assignments: Vec<(String, Word)>,
    pub(crate) words: Vec<Word>,
    pub(crate) redirects: Vec<Redirect>,
}

/// A redirection, such as `2> word`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) descriptor: u32,
    pub(crate) kind: RedirectKind,
    pub(crate) target: Word,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedirectKind {
    /// `<`
    Read,
    /// `>`
    Write,
    /// `>>`
    Append,
    /// `>&`
    Duplicate,
}

/// A word, which expands to fields.
pub(crate) type Word = Vec<Part>;

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) value: PartValue,
    /// Whether the part is quoted, so that its expansion is not split into fields.
    pub(crate) quoted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PartValue {
    Text(String),
    /// `$name`, or `${name:-default}`.
    Variable {
        name: String,
        default: Option<Word>,
    },
    /// `$(command)`.
    Output(Box<Command>),
    /// `$((1 + 2))`.
    Arithmetic(Word),
}
