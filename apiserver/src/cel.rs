//! CEL, the expression language of validation rules, as Kubernetes v1.36 configures it.

mod ast;
mod checker;
mod condition;
mod cost;
mod declarations;
mod definition;
mod eval;
mod lexer;
mod library;
mod macros;
mod numbers;
mod parser;
mod program;
mod rules;
mod runtime_cost;
mod schema;
mod source;
mod time;
mod types;
mod unify;
mod validator;
mod value;

pub(crate) use condition::{Condition, Variables};
pub(crate) use definition::{RuleFaults, RuleScope};
pub(crate) use library::{Authorize, Question, ResourceCheck};
pub(crate) use validator::Validator;

#[cfg(test)]
mod tests;
