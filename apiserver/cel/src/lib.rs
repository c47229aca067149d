//! CEL, the expression language of validation rules and admission policies, as Kubernetes v1.36 configures it: its
//! type checker, its cost estimates and limits, its libraries, and its error messages.
//!
//! | | |
//! | --- | --- |
//! | [`Scope`], [`Expression`] | expressions of admission policies, checked against declared variables |
//! | [`Activation`], [`Outcome`] | the values of the variables in one request, and the result |
//! | [`RuleScope`], [`Validator`] | the `x-kubernetes-validations` of a CustomResourceDefinition: checked once, then run on objects |
//! | [`Authorizer`] | the server's answers to the `authorizer` variable |
//! | [`Value`], [`Key`], [`Map`], [`Time`] | values |
//!
//! The path of an expression: `lexer` and `parser` make the tree of `ast`, with `macros` expanded; `checker` gives it
//! types (`types`, `unify`, `declarations`), `cost` an upper bound; `program` evaluates it with `eval` and `library`,
//! while `runtime_cost` counts. `policy` and `validator` are the two users.
//!
//! ```
//! use kubeproof_cel::{Activation, Outcome, Returns, Scope};
//! use kubeproof_machinery::json::json;
//!
//! # fn main() -> Result<(), String> {
//! let rule = Scope::new().compile("object.spec.replicas <= 5", Returns::Bool)?;
//! let deployment = json!({"spec": {"replicas": 7}});
//! let mut activation = Activation::new([("object", &deployment)]);
//! assert!(matches!(activation.evaluate(&rule)?, Outcome::Bool(false)));
//! assert!(Scope::new().compile("1 + '1'", Returns::Anything).is_err());
//! # Ok(())
//! # }
//! ```

mod ast;
mod builder;
mod checker;
mod cost;
mod declarations;
mod definition;
mod error;
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

pub use definition::{RuleFaults, RuleScope};
pub use lexer::is_reserved;
pub use policy::{Activation, Expression, Outcome, Returns, Scope, of_json, resource_type};
pub use time::Time;
pub use validator::Validator;
pub use value::{Authorizer, Check, Decision, Key, Map, Value, reference_fault};

#[cfg(test)]
mod tests;
