//! CEL, the expression language of validation rules, as Kubernetes v1.36 configures it.

mod ast;
mod checker;
mod cluster;
mod cost;
mod declarations;
mod definition;
mod eval;
mod lexer;
mod library;
mod macros;
mod message;
mod numbers;
mod parser;
mod policy;
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

pub(crate) use cluster::ClusterState;
pub(crate) use definition::{RuleFaults, RuleScope};
pub(crate) use library::authorization::{Authorizer, Question, Verdict};
pub(crate) use library::url::reference_fault;
pub(crate) use policy::{Activation, Expression, Outcome, Returns, Scope, resource_type};
pub(crate) use validator::Validator;

#[cfg(test)]
mod tests;
