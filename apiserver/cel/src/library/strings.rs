//! Functions on strings.

use super::{RESULT_SIZE_MAX, format};
use crate::{
    error::{EvalError, failed},
    value::{Evaluated, Value},
};

pub(super) fn call(function: &str, args: &[Value], room: u64) -> Option<Evaluated> {
    let number = |number: usize| Ok(Value::Int(i64::try_from(number).unwrap_or(i64::MAX)));
    Some(match (function, args) {
        ("contains", [Value::String(text), Value::String(part)]) => {
            Ok(Value::Bool(text.contains(&**part)))
        }
        ("startsWith", [Value::String(text), Value::String(part)]) => {
            Ok(Value::Bool(text.starts_with(&**part)))
        }
        ("endsWith", [Value::String(text), Value::String(part)]) => {
            Ok(Value::Bool(text.ends_with(&**part)))
        }
        ("charAt", [Value::String(text), Value::Int(index)]) => {
            let count = text.chars().count();
            match usize::try_from(*index) {
                Ok(at) if at <= count => {
                    let found: String = text.chars().skip(at).take(1).collect();
                    Ok(Value::string(&found))
                }
                _ => out_of_range(*index),
            }
        }
        ("indexOf", [Value::String(text), Value::String(part)]) => index_of(text, part, 0),
        ("indexOf", [Value::String(text), Value::String(part), Value::Int(from)]) => {
            index_of(text, part, *from)
        }
        ("lastIndexOf", [Value::String(text), Value::String(part)]) => {
            if part.is_empty() {
                return Some(number(text.chars().count()));
            }
            last_index_of(text, part, i64::MAX)
        }
        ("lastIndexOf", [Value::String(text), Value::String(part), Value::Int(from)]) => {
            let count = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
            match *from {
                from if part.is_empty() => Ok(Value::Int(from)),
                from if from < 0 => out_of_range(from),
                from if from >= count => Ok(Value::Int(-1)),
                from => last_index_of(text, part, from),
            }
        }
        ("lowerAscii", [Value::String(text)]) => Ok(Value::string(&text.to_ascii_lowercase())),
        ("upperAscii", [Value::String(text)]) => Ok(Value::string(&text.to_ascii_uppercase())),
        ("trim", [Value::String(text)]) => Ok(Value::string(text.trim())),
        ("replace", [Value::String(text), Value::String(old), Value::String(new)]) => {
            replace(text, old, new, -1)
        }
        (
            "replace",
            [
                Value::String(text),
                Value::String(old),
                Value::String(new),
                Value::Int(count),
            ],
        ) => replace(text, old, new, *count),
        ("split", [Value::String(text), Value::String(separator)]) => split(text, separator, -1),
        (
            "split",
            [
                Value::String(text),
                Value::String(separator),
                Value::Int(count),
            ],
        ) => split(text, separator, *count),
        ("substring", [Value::String(text), Value::Int(start)]) => substring(
            text,
            *start,
            i64::try_from(text.chars().count()).unwrap_or(i64::MAX),
            false,
        ),
        ("substring", [Value::String(text), Value::Int(start), Value::Int(end)]) => {
            substring(text, *start, *end, true)
        }
        ("strings.quote", [Value::String(text)]) => Ok(Value::string(&quote(text))),
        ("join", [Value::List(list)]) => join(&list.items, "", room),
        ("join", [Value::List(list), Value::String(separator)]) => {
            join(&list.items, separator, room)
        }
        ("format", [Value::String(text), Value::List(list)]) => format::format(text, &list.items),
        _ => return None,
    })
}

fn out_of_range(index: i64) -> Evaluated {
    failed(format!("index out of range: {index}"))
}

/// The place of a byte offset, in characters.
fn place(text: &str, byte: Option<usize>) -> Evaluated {
    let place = byte.map_or(-1, |byte| {
        i64::try_from(text[..byte].chars().count()).unwrap_or(i64::MAX)
    });
    Ok(Value::Int(place))
}

fn index_of(text: &str, part: &str, from: i64) -> Evaluated {
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let Ok(skipped) = usize::try_from(from) else {
        return out_of_range(from);
    };
    let Some((start, _)) = text.char_indices().nth(skipped) else {
        return Ok(Value::Int(-1));
    };
    place(text, text[start..].find(part).map(|at| at + start))
}

/// The last place of `part` that starts at character `from` or before.
fn last_index_of(text: &str, part: &str, from: i64) -> Evaluated {
    let until = usize::try_from(from)
        .ok()
        .and_then(|from| text.char_indices().nth(from));
    let end = until.map_or(text.len(), |(start, _)| text.len().min(start + part.len()));
    // An end within a character can't end a match either.
    let end = (0..=end)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or_default();
    place(text, text[..end].rfind(part))
}

fn substring(text: &str, start: i64, end: i64, ranged: bool) -> Evaluated {
    let count = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if ranged && start > end {
        return failed(format!(
            "invalid substring range. start: {start}, end: {end}"
        ));
    }
    for index in [start, end] {
        if index < 0 || index > count {
            return out_of_range(index);
        }
    }
    let (start, length) = (
        usize::try_from(start).unwrap_or_default(),
        usize::try_from(end - start).unwrap_or_default(),
    );
    let part: String = text.chars().skip(start).take(length).collect();
    Ok(Value::string(&part))
}

fn replace(text: &str, old: &str, new: &str, count: i64) -> Evaluated {
    let all = if old.is_empty() {
        text.chars().count() + 1
    } else {
        text.matches(old).count()
    };
    let count = usize::try_from(count).map_or(all, |count| count.min(all));
    if text.len().saturating_add(count.saturating_mul(new.len())) > RESULT_SIZE_MAX {
        return Err(EvalError::CostLimit);
    }
    Ok(Value::string(&text.replacen(old, new, count)))
}

fn split(text: &str, separator: &str, count: i64) -> Evaluated {
    let limit = usize::try_from(count).unwrap_or(usize::MAX);
    let parts: Vec<String> = match limit {
        0 => Vec::new(),
        _ if separator.is_empty() => {
            let letters = text.chars().count();
            let alone = if letters <= limit { letters } else { limit - 1 };
            let mut chars = text.chars();
            let mut parts: Vec<String> = chars.by_ref().take(alone).map(String::from).collect();
            parts.extend(Some(chars.collect::<String>()).filter(|rest| !rest.is_empty()));
            parts
        }
        _ => text.splitn(limit, separator).map(str::to_owned).collect(),
    };
    Ok(Value::list(
        parts.iter().map(|part| Value::string(part)).collect(),
    ))
}

fn join(items: &[Value], separator: &str, room: u64) -> Evaluated {
    let mut joined = String::new();
    // The result costs a fifth of its length.
    let max = usize::try_from(room.saturating_mul(20))
        .unwrap_or(usize::MAX)
        .min(RESULT_SIZE_MAX);
    for (index, item) in items.iter().enumerate() {
        let Value::String(text) = item else {
            return failed(format!("join: invalid input: {item}"));
        };
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
        if joined.len() > max {
            return Err(EvalError::CostLimit);
        }
    }
    Ok(Value::string(&joined))
}

/// A string in double quotes, with CEL's escapes.
fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
