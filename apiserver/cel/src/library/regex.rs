//! Regular expressions.

use kubeproof_machinery::schema::structural::Regexp;

use crate::{
    error::failed,
    value::{Evaluated, Value},
};

pub(super) fn call(function: &str, args: &[Value]) -> Option<Evaluated> {
    let [Value::String(text), Value::String(pattern), rest @ ..] = args else {
        return None;
    };
    let limit = match (function, rest) {
        ("matches" | "find" | "findAll", []) => -1,
        ("findAll", [Value::Int(limit)]) => *limit,
        _ => return None,
    };
    let regex = match Regexp::compile(pattern) {
        Ok(regex) => regex,
        Err(message) if function == "matches" => return Some(failed(message)),
        Err(message) => return Some(failed(format!("Illegal regex: {message}"))),
    };
    Some(Ok(match function {
        "matches" => Value::Bool(regex.is_match(text)),
        "find" => Value::string(regex.find(text, 1).first().copied().unwrap_or_default()),
        _ => {
            let count = usize::try_from(limit).unwrap_or(usize::MAX);
            let found = regex.find(text, count);
            Value::list(found.into_iter().map(Value::string).collect())
        }
    }))
}
