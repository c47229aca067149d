//! Finds the declarations of functions in Go source.

use std::collections::BTreeMap;

use anyhow::Context as _;

use super::evaluate::Scope;
use super::groups::{braces, group, inside, split, statement};
use crate::import::go::{Kind, Token};

/// Appends each overload that `tokens` declare, with its function's name before it.
///
/// # Errors
/// A declaration is not understood.
pub(super) fn declarations(
    tokens: &[Token],
    scope: &Scope,
    into: &mut Vec<(String, String)>,
) -> anyhow::Result<()> {
    walk(tokens, None, scope, into)
}

fn walk(
    tokens: &[Token],
    function: Option<&str>,
    scope: &Scope,
    into: &mut Vec<(String, String)>,
) -> anyhow::Result<()> {
    let mut at = 0;
    while at < tokens.len() {
        let rest = &tokens[at..];
        let is_declared = at > 0 && tokens[at - 1].word() == Some("func");
        let call = match (rest[0].word(), rest.get(1)) {
            (Some(word), Some(open)) if open.is('(') && !is_declared => {
                group(&rest[1..]).map(|group| (word, group, split(inside(group))))
            }
            _ => None,
        };
        match call {
            Some(("Function" | "function", call, arguments)) if arguments.len() > 1 => {
                if !is_disabled(call) && !is_spread(arguments[1]) {
                    let name = scope.text(arguments[0])?;
                    walk(&call[arguments[0].len() + 1..], Some(&name), scope, into)?;
                }
                at += 1 + call.len();
            }
            Some((kind @ ("Overload" | "MemberOverload"), call, arguments))
                if arguments.len() > 2 =>
            {
                let name = function.context("an overload belongs to no function")?;
                into.push((name.to_owned(), overload(kind, &arguments, scope)?));
                at += 1 + call.len();
            }
            Some(("templatedOverloads", call, arguments)) if arguments.len() == 2 => {
                for bound in templates(&arguments, scope)? {
                    walk(&bound, function, scope, into)?;
                }
                at += 1 + call.len();
            }
            _ => at += step(rest, function, scope, into)?,
        }
    }
    Ok(())
}

/// Walks what begins `rest` if it is an entry of a map of functions, an addition to one, or depends
/// on the version; returns how many tokens to go on by.
fn step(
    rest: &[Token],
    function: Option<&str>,
    scope: &Scope,
    into: &mut Vec<(String, String)>,
) -> anyhow::Result<usize> {
    let sign = |at: usize, sign: char| rest.get(at).is_some_and(|token: &Token| token.is(sign));
    if let Kind::Text(name) = &rest[0].kind {
        // An entry `"name": {...}`, or `"name": templatedOverloads(...)`.
        if sign(1, ':') && function.is_none() {
            let value = split(&rest[2..]).first().map_or(0, |value| value.len());
            walk(&rest[2..2 + value], Some(name), scope, into)?;
            return Ok(2 + value);
        }
        // `functions["name"] = append(...)`.
        if sign(1, ']') && sign(2, '=') && function.is_none() {
            let value = statement(&rest[3..]).unwrap_or_default();
            walk(value, Some(name), scope, into)?;
            return Ok(3 + value.len());
        }
    }
    if rest[0].word() == Some("if")
        && let Some(required) = required_version(rest)
        && let Some(open) = rest.iter().position(|token| token.is('{'))
    {
        let then = group(&rest[open..]).context("an if has no end")?;
        let mut length = open + then.len();
        let mut otherwise = &rest[..0];
        if rest.get(length).and_then(Token::word) == Some("else") {
            otherwise = group(&rest[length + 1..]).context("an else has no end")?;
            length += 1 + otherwise.len();
        }
        let taken = if scope.version >= required {
            then
        } else {
            otherwise
        };
        walk(taken, function, scope, into)?;
        return Ok(length);
    }
    Ok(1)
}

/// The number of `if lib.version >= 2`.
fn required_version(condition: &[Token]) -> Option<u64> {
    let [_, _, dot, version, greater, equal, number, ..] = condition else {
        return None;
    };
    let is = dot.is('.') && version.word() == Some("version") && greater.is('>') && equal.is('=');
    match &number.kind {
        Kind::Literal(number) if is => number.parse().ok(),
        _ => None,
    }
}

/// Whether an argument is `overloads...`, of a loop over declarations that are found where they are.
fn is_spread(argument: &[Token]) -> bool {
    matches!(argument, [name, dots @ ..] if name.word().is_some() && dots.len() == 3 && dots.iter().all(|dot| dot.is('.')))
}

/// Whether a function is declared for evaluation only.
fn is_disabled(call: &[Token]) -> bool {
    let words = call.iter().filter_map(Token::word);
    words.into_iter().any(|word| word == "DisableDeclaration")
}

fn overload(kind: &str, arguments: &[&[Token]], scope: &Scope) -> anyhow::Result<String> {
    let id = scope.text(arguments[0])?;
    let list = arguments[1];
    // `[]*cel.Type{...}`, or `argTypes(...)`.
    let parameters = braces(list).or_else(|| {
        let open = list.iter().position(|token| token.is('('))?;
        group(&list[open..]).map(inside)
    });
    let parameters = parameters.with_context(|| format!("{id} has no list of parameters"))?;
    let parameters = split(parameters).into_iter();
    let parameters: Vec<String> = parameters
        .map(|parameter| scope.type_text(parameter))
        .collect::<anyhow::Result<_>>()?;
    let result = scope.type_text(arguments[2])?;
    let dot = if kind == "MemberOverload" { "." } else { "" };
    Ok(format!("{dot}{id}({}) -> {result}", parameters.join(", ")))
}

/// The body of the function that is the second argument, once for each type of the list that is
/// the first, with these instead of its parameters.
fn templates(arguments: &[&[Token]], scope: &Scope) -> anyhow::Result<Vec<Vec<Token>>> {
    let list = arguments[0]
        .last()
        .and_then(Token::word)
        .unwrap_or_default();
    let list = scope
        .value(list)
        .with_context(|| format!("there is no list {list}"))?;
    let items = braces(list).context("the list has no items")?;
    let function = arguments[1];
    let parameters = function
        .get(1..)
        .and_then(group)
        .context("it is no function")?;
    let body = &function[1 + parameters.len()..];
    let names = split(inside(parameters)).into_iter();
    let names: Vec<&str> = names
        .filter_map(|parameter| parameter.first()?.word())
        .collect();
    let items = split(items).into_iter().map(|item| {
        // `{typeName: "int", celType: cel.IntType}`, or the type alone.
        let values: Vec<&[Token]> = match item.first().is_some_and(|token| token.is('{')) {
            true => split(inside(item))
                .into_iter()
                .map(|field| &field[2..])
                .collect(),
            false => vec![item],
        };
        let bound: BTreeMap<&str, &[Token]> = names.iter().copied().zip(values).collect();
        let replaced = body.iter().flat_map(|token| {
            let value = token.word().and_then(|word| bound.get(word).copied());
            value.unwrap_or(std::slice::from_ref(token)).to_vec()
        });
        replaced.collect()
    });
    Ok(items.collect())
}
