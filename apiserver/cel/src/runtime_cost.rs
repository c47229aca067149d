//! Costs of calls at evaluation.

use super::value::{Evaluated, Object, Value};

/// The cost of making a list.
pub(super) const LIST_COST: u64 = 10;

/// The cost of making a map.
pub(super) const MAP_COST: u64 = 30;

/// The cost of making a message, which selectors are charged for.
pub(super) const MESSAGE_COST: u64 = 40;

fn size(value: &Value) -> u64 {
    let value = match value {
        Value::Optional(Some(value)) => value,
        value => value,
    };
    value.size().map_or(1, |size| size as u64)
}

/// The cost of one pass over `size` characters, at a cost per character.
fn scaled(size: u64, factor: f64) -> u64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "upstream computes costs in floats"
    )]
    let cost = (size as f64 * factor).ceil();
    to_cost(cost)
}

fn to_cost(cost: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "costs are not negative, and the conversion saturates"
    )]
    let cost = cost as u64;
    cost
}

fn traversal(size: u64) -> u64 {
    scaled(size, 0.1)
}

fn regex_cost(text: &Value, pattern: u64) -> u64 {
    let text = scaled(size(text).saturating_add(1), 0.1);
    text.saturating_mul(scaled(pattern, 0.25))
}

/// The cost of a call with these operands and this result.
pub(super) fn call_cost(function: &str, overload: &str, args: &[Value], result: &Evaluated) -> u64 {
    list_extension_cost(overload, args, result)
        .or_else(|| kubernetes_cost(function, overload, args, result))
        .unwrap_or_else(|| standard_cost(overload, args))
}

/// Costs of cel-go's extensions for lists and sets, which go by overload.
fn list_extension_cost(overload: &str, args: &[Value], result: &Evaluated) -> Option<u64> {
    let made = |factor: f64, size: u64| Some(allocating(factor, size));
    let result_size = result.as_ref().map_or(1, size);
    match overload {
        "list_sets_contains_list" | "list_sets_intersects_list" => Some(
            size(&args[0])
                .saturating_mul(size(&args[1]))
                .saturating_add(1),
        ),
        "list_sets_equivalent_list" => {
            let pairs = size(&args[0]).saturating_mul(size(&args[1]));
            Some(pairs.saturating_mul(2).saturating_add(1))
        }
        "list_slice" | "lists_range" | "list_reverse" => made(1.0, result_size),
        "list_flatten" => made(1.0, size(&args[0])),
        "list_flatten_int" => match args.get(1) {
            #[expect(
                clippy::cast_precision_loss,
                reason = "upstream computes costs in floats"
            )]
            Some(Value::Int(depth)) => made(*depth as f64, size(&args[0])),
            _ => made(1.0, size(&args[0])),
        },
        "list_distinct" => self_compare(&args[0]),
        _ if overload.ends_with("_sort") => self_compare(&args[0]),
        _ if overload.ends_with("_sortByAssociatedKeys") => self_compare(args.get(1)?),
        _ => None,
    }
}

fn self_compare(list: &Value) -> Option<u64> {
    let Value::List(list) = list else { return None };
    let count = list.items.len() as u64;
    let factor = match list.items.first() {
        Some(Value::String(_) | Value::Bytes(_)) => 2.1,
        _ => 2.0,
    };
    Some(allocating(factor, count.saturating_mul(count)))
}

/// The cost of a call that makes a list.
fn allocating(factor: f64, size: u64) -> u64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "upstream computes costs in floats"
    )]
    let work = size as f64 * factor;
    to_cost(work).saturating_add(1 + LIST_COST)
}

/// Costs of the Kubernetes libraries, which go by function.
fn kubernetes_cost(
    function: &str,
    overload: &str,
    args: &[Value],
    result: &Evaluated,
) -> Option<u64> {
    let first = || args.first().map(size);
    match function {
        "check" => Some(350_000),
        _ if is_nominal(function) => Some(1),
        "fieldSelector" | "labelSelector" => {
            let length = args.get(1).map(size)?;
            let requirements = scaled(length, 0.5);
            let each = LIST_COST + MESSAGE_COST;
            Some(LIST_COST + traversal(length) + requirements.saturating_mul(each))
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            Some(args.first().map_or(0, tree_cost))
        }
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR"
        | "quantity" | "isQuantity" | "semver" | "isSemver" => first().map(traversal),
        "replace" | "split" | "ip.isCanonical" => first().map(|size| scaled(size, 0.2)),
        "join" => Some(scaled(result.as_ref().map_or(1, size), 0.2)),
        "find" | "findAll" => args
            .get(1)
            .map(|pattern| regex_cost(&args[0], size(pattern))),
        "ip" if overload == "cidr_ip" => Some(1),
        "ip" => first().map(traversal),
        "containsIP" => {
            let parsed = if overload == "cidr_contains_ip_string" {
                args.get(1).map(size)?
            } else {
                0
            };
            Some(scaled(size(&args[0]), 0.2) + traversal(parsed))
        }
        "containsCIDR" => {
            let cidr = size(&args[0]);
            let text = overload == "cidr_contains_cidr_string";
            let parsed = if text { args.get(1).map(size)? } else { 0 };
            Some(scaled(cidr, 0.2) + traversal(cidr) + 1 + traversal(parsed))
        }
        "validate" => match (args.first(), args.get(1)) {
            (Some(Value::Object(object)), Some(text)) => match &**object {
                Object::Format(format) => Some(regex_cost(text, format.regex_size())),
                _ => None,
            },
            _ => None,
        },
        "_==_" => matches!(args.first(), Some(Value::Object(_))).then_some(1),
        _ => None,
    }
}

/// Whether a function of the Kubernetes libraries only looks something up.
pub(super) fn is_nominal(function: &str) -> bool {
    matches!(
        function,
        "serviceAccount"
            | "path"
            | "group"
            | "resource"
            | "subresource"
            | "namespace"
            | "name"
            | "allowed"
            | "reason"
            | "error"
            | "errored"
            | "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery"
    )
}

/// The cost of going through a value and everything within.
fn tree_cost(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64 / 10,
        Value::Bytes(bytes) => bytes.len() as u64 / 10,
        Value::List(list) => list.items.iter().map(tree_cost).sum(),
        Value::Map(map) => map
            .entries
            .iter()
            .map(|(key, value)| tree_cost(&key.value()) + tree_cost(value))
            .sum(),
        _ => 1,
    }
}

fn standard_cost(overload: &str, args: &[Value]) -> u64 {
    match overload {
        "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string"
        | "strings_quote" | "string_format" => traversal(size(&args[0])),
        "in_list" => size(&args[1]),
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes"
        | "equals"
        | "not_equals" => traversal(size(&args[0]).min(size(&args[1]))),
        "add_string" | "add_bytes" => traversal(size(&args[0]).saturating_add(size(&args[1]))),
        "matches_string" => regex_cost(&args[0], size(&args[1])),
        "contains_string" => traversal(size(&args[0])).saturating_mul(traversal(size(&args[1]))),
        _ => 1,
    }
}
