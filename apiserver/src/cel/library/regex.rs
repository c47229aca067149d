//! Regular expressions.

use regex::Regex;

use crate::{
    cel::{
        eval::{Evaluated, failed},
        value::Value,
    },
    schema::structural::{compile_pattern, go_regexp_fault},
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
    let regex = match compile(pattern) {
        Ok(regex) => regex,
        Err(message) if function == "matches" => return Some(failed(message)),
        Err(message) => return Some(failed(format!("Illegal regex: {message}"))),
    };
    Some(Ok(match function {
        "matches" => Value::Bool(regex.is_match(text)),
        "find" => Value::string(regex.find(text).map_or("", |found| found.as_str())),
        _ => {
            let count = usize::try_from(limit).unwrap_or(usize::MAX);
            let found = regex.find_iter(text).take(count);
            Value::list(found.map(|found| Value::string(found.as_str())).collect())
        }
    }))
}

/// Compiles an expression, or says what is wrong with it.
pub(in crate::cel) fn compile(pattern: &str) -> Result<Regex, String> {
    match go_regexp_fault(pattern) {
        Some(fault) => Err(fault),
        None => compile_pattern(pattern)
            .map_err(|_| format!("error parsing regexp: expression too large: `{pattern}`")),
    }
}
