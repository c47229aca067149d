//! Estimates of the costs of calls.

use super::{CallEstimate, Coster, Entries, Estimate, Node};
use crate::{
    ast::{Call, Expr, ExprKind},
    runtime_cost::{LIST_COST, is_nominal},
    types::Type,
    value::Value,
};

/// The cost of going through a character.
const TRAVERSAL: f64 = 0.1;

/// The cost of a character of a regular expression.
const REGEX: f64 = 0.25;

const ONE: Estimate = Estimate::fixed(1);

fn only(cost: Estimate) -> Option<CallEstimate> {
    Some(CallEstimate { cost, size: None })
}

fn sized(cost: Estimate, size: Estimate) -> Option<CallEstimate> {
    Some(CallEstimate {
        cost,
        size: Some(size),
    })
}

impl<'e> Coster<'e> {
    /// The cost of one overload of a call, its operands included.
    pub(super) fn overload(
        &mut self,
        expr: &'e Expr,
        call: &'e Call,
        overload: &str,
        target: Option<&Node<'e>>,
        args: &[Node<'e>],
        costs: &[Estimate],
    ) -> CallEstimate {
        let operands = costs
            .iter()
            .fold(Estimate::fixed(0), |sum, cost| sum.plus(*cost));
        let by_library = list_extension(overload, target, args)
            .or_else(|| self.kubernetes(call, overload, target, args));
        if let Some(CallEstimate { cost, size }) = by_library {
            return CallEstimate {
                cost: cost.plus(operands),
                size,
            };
        }
        match overload {
            "logical_or" | "logical_and" => {
                let cost = Estimate {
                    min: costs[0].min,
                    max: operands.max,
                };
                CallEstimate { cost, size: None }
            }
            "conditional" => {
                let size = known(&args[1]).union(known(&args[2]));
                let entries =
                    Entries::union(self.entries_of(args[1].expr), self.entries_of(args[2].expr));
                self.set_entries(expr, entries);
                let cost = costs[0].plus(costs[1].union(costs[2]));
                CallEstimate {
                    cost,
                    size: Some(size),
                }
            }
            "add_string" | "add_bytes" | "add_list" => {
                let entries =
                    Entries::union(self.entries_of(args[0].expr), self.entries_of(args[1].expr));
                self.set_entries(expr, entries);
                let size = known(&args[0]).plus(known(&args[1]));
                let cost = if overload == "add_list" {
                    ONE
                } else {
                    size.scaled(TRAVERSAL)
                };
                CallEstimate {
                    cost: cost.plus(operands),
                    size: Some(size),
                }
            }
            _ => {
                let CallEstimate { cost, size } =
                    standard(overload, target, args).unwrap_or(CallEstimate {
                        cost: ONE,
                        size: None,
                    });
                CallEstimate {
                    cost: cost.plus(operands),
                    size,
                }
            }
        }
    }

    /// Costs of the Kubernetes libraries, which go by function.
    fn kubernetes(
        &mut self,
        call: &Call,
        overload: &str,
        target: Option<&Node<'e>>,
        args: &[Node<'e>],
    ) -> Option<CallEstimate> {
        match &*call.function {
            "check" => only(Estimate::fixed(350_000)),
            function if is_nominal(function) => only(ONE),
            "fieldSelector" | "labelSelector" => {
                let length = known(args.first()?);
                let requirements = length.scaled(0.5).scaled(50.0);
                only(
                    Estimate::fixed(LIST_COST)
                        .plus(length.scaled(TRAVERSAL))
                        .plus(requirements),
                )
            }
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                let target = target?;
                let size = known(target);
                match self.item(target) {
                    Some((of, item)) => {
                        let text = matches!(of, Type::String | Type::Bytes);
                        let each = if text {
                            ONE.plus(item.scaled(TRAVERSAL))
                        } else {
                            ONE
                        };
                        only(size.times(each))
                    }
                    None => only(size.scaled(TRAVERSAL)),
                }
            }
            "url" => {
                let size = known(args.first()?);
                sized(size.scaled(TRAVERSAL), size)
            }
            "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                let size = known(target?);
                sized(size.scaled(TRAVERSAL), size)
            }
            "replace" => {
                let size = known(target?);
                let made = replaced(size, known(args.first()?), known(args.get(1)?));
                sized(size.scaled(2.0 * TRAVERSAL), made)
            }
            "split" => {
                let size = known(target?);
                let max = args
                    .get(1)
                    .and_then(integer)
                    .map_or(size.max, i64::cast_unsigned);
                sized(size.scaled(2.0 * TRAVERSAL), Estimate { min: 0, max })
            }
            "join" => Some(self.join(target?, args.first())),
            "find" | "findAll" => {
                let size = known(target?);
                let text = size.plus(ONE).scaled(TRAVERSAL);
                let cost = text.times(known(args.first()?).scaled(REGEX));
                sized(
                    cost,
                    Estimate {
                        min: 0,
                        max: size.max,
                    },
                )
            }
            "ip" if overload == "cidr_ip" => only(ONE),
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver"
            | "isSemver" => only(known(args.first()?).scaled(TRAVERSAL)),
            "ip.isCanonical" => only(known(args.first()?).scaled(2.0 * TRAVERSAL)),
            "containsIP" | "containsCIDR" => only(contains(overload, known(args.first()?))),
            "validate" => {
                let text = known(args.first()?).scaled(TRAVERSAL);
                only(text.scaled(128.0 * REGEX))
            }
            "_==_" => self.equality(args),
            _ => None,
        }
    }

    /// The type and the size of a list's items.
    fn item(&mut self, list: &Node<'e>) -> Option<(Type, Estimate)> {
        let of = match self.checked.type_of(list.expr) {
            Type::List(item) => Type::clone(item),
            Type::Map(key, _) => Type::clone(key),
            _ => return None,
        };
        let mut path = list.path.clone();
        if !path.is_empty() {
            path.push("@items".to_owned());
        }
        Some((of, self.size_at(&path).unwrap_or(Estimate::UNKNOWN)))
    }

    fn join(&mut self, list: &Node<'e>, separator: Option<&Node<'e>>) -> CallEstimate {
        let count = known(list);
        let mut size = match self.item(list) {
            Some((_, item)) => count.times(item),
            None => Estimate::fixed(0),
        };
        if let Some(separator) = separator {
            let between = Estimate {
                min: count.min.saturating_sub(1),
                max: count.max.saturating_sub(1),
            };
            size = size.plus(known(separator).times(between));
        }
        CallEstimate {
            cost: size.scaled(TRAVERSAL),
            size: Some(size),
        }
    }

    /// Comparisons of values that no size says anything of.
    fn equality(&self, args: &[Node<'e>]) -> Option<CallEstimate> {
        let [a, b] = args else { return None };
        let of = self.checked.type_of(a.expr);
        if of != self.checked.type_of(b.expr) {
            return None;
        }
        match of {
            Type::Opaque(name, _) if matches!(&**name, "net.IP" | "net.CIDR") => only(ONE),
            Type::Object(name) => match &**name {
                "kubernetes.Quantity" | "kubernetes.Semver" => only(ONE),
                "kubernetes.NamedFormat" => only(Estimate { min: 1, max: 64 }.scaled(TRAVERSAL)),
                "kubernetes.URL" => {
                    let max = b.size.map_or(1, |size| size.max);
                    only(Estimate { min: 1, max }.scaled(TRAVERSAL))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

fn known(node: &Node<'_>) -> Estimate {
    node.size.unwrap_or(Estimate::UNKNOWN)
}

fn integer(node: &Node<'_>) -> Option<i64> {
    match node.expr.kind {
        ExprKind::Literal(Value::Int(number)) => Some(number),
        _ => None,
    }
}

/// The size of a text in which each `old` became a `new`.
fn replaced(size: Estimate, old: Estimate, new: Estimate) -> Estimate {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "upstream computes sizes in floats"
    )]
    let divided = |a: u64, b: u64| (a as f64 / b as f64).ceil() as u64;
    let (count_max, kept_max) = if old.min == 0 {
        (size.max.saturating_add(1), size.max)
    } else if new.max <= old.min {
        (0, size.max)
    } else {
        (divided(size.max, old.min), 0)
    };
    let (count_min, kept_min) = if old.max == 0 {
        (size.min.saturating_add(1), size.min)
    } else if old.max <= new.min {
        (0, size.min)
    } else {
        (divided(size.min, old.max), 0)
    };
    Estimate {
        min: count_min,
        max: count_max,
    }
    .times(new)
    .plus(Estimate {
        min: kept_min,
        max: kept_max,
    })
}

fn contains(overload: &str, other: Estimate) -> Estimate {
    let address = Estimate { min: 4, max: 16 };
    let mut cost = address.plus(address).scaled(TRAVERSAL);
    if overload.starts_with("cidr_contains_cidr") {
        cost = cost.plus(address.scaled(TRAVERSAL)).plus(ONE);
    }
    if overload.ends_with("_string") {
        cost = cost.plus(other.scaled(TRAVERSAL));
    }
    cost
}

/// Costs of cel-go's extensions for lists and sets.
fn list_extension(
    overload: &str,
    target: Option<&Node<'_>>,
    args: &[Node<'_>],
) -> Option<CallEstimate> {
    let number = |node: &Node<'_>, default: u64| {
        integer(node).map_or(default, |number| u64::try_from(number).unwrap_or_default())
    };
    let made = |factor: f64, size: Estimate| {
        sized(
            size.scaled(factor).plus(Estimate::fixed(1 + LIST_COST)),
            size,
        )
    };
    let sorted = |list: &Node<'_>| {
        let text = overload.starts_with("list_string") || overload.starts_with("list_bytes");
        let size = known(list);
        made(if text { 2.0 + TRAVERSAL } else { 2.0 }, size.times(size))
    };
    match overload {
        "list_sets_contains_list" | "list_sets_intersects_list" | "list_sets_equivalent_list" => {
            let twice = if overload == "list_sets_equivalent_list" {
                2.0
            } else {
                1.0
            };
            only(
                known(&args[0])
                    .times(known(&args[1]))
                    .scaled(twice)
                    .plus(ONE),
            )
        }
        "list_slice" => {
            let end = number(&args[1], known(target?).max);
            made(1.0, Estimate::fixed(end.wrapping_sub(number(&args[0], 0))))
        }
        "lists_range" => made(1.0, Estimate::fixed(number(&args[0], u64::MAX))),
        "list_reverse" => made(1.0, known(target?)),
        "list_flatten" | "list_flatten_int" => {
            let depth = args.first().map_or(1, |depth| number(depth, u64::MAX));
            #[expect(
                clippy::cast_precision_loss,
                reason = "upstream computes costs in floats"
            )]
            let depth = depth as f64;
            made(depth, known(target?))
        }
        "list_distinct" => {
            let size = known(target?);
            made(2.0, size.times(size))
        }
        _ if overload.ends_with("_sort") => sorted(target?),
        _ if overload.ends_with("_sortByAssociatedKeys") => sorted(args.first()?),
        _ => None,
    }
}

/// Costs of CEL's own functions that depend on the size of their operands.
fn standard(overload: &str, target: Option<&Node<'_>>, args: &[Node<'_>]) -> Option<CallEstimate> {
    match overload {
        "string_format" => only(known(target?).scaled(TRAVERSAL)),
        "string_to_bytes" => {
            let size = known(&args[0]);
            let max = size.max.wrapping_mul(4);
            sized(size.scaled(TRAVERSAL), Estimate { max, ..size })
        }
        "bytes_to_string" => {
            let size = known(&args[0]);
            sized(
                size.scaled(TRAVERSAL),
                Estimate {
                    min: size.min / 4,
                    ..size
                },
            )
        }
        "strings_quote" => {
            let size = known(&args[0]);
            let made = Estimate {
                min: size.min.wrapping_add(2),
                max: size.max.wrapping_mul(2).wrapping_add(2),
            };
            sized(size.scaled(TRAVERSAL), made)
        }
        "starts_with_string" | "ends_with_string" => only(known(&args[0]).scaled(TRAVERSAL)),
        "in_list" => only(known(&args[1]).scaled(1.0)),
        "matches_string" => {
            let text = known(target?).plus(ONE).scaled(TRAVERSAL);
            only(text.times(known(&args[0]).scaled(REGEX)))
        }
        "contains_string" => only(
            known(target?)
                .scaled(TRAVERSAL)
                .times(known(&args[0]).scaled(TRAVERSAL)),
        ),
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes"
        | "equals"
        | "not_equals" => {
            let max = known(&args[0]).max.min(known(&args[1]).max);
            only(
                Estimate {
                    min: max.min(1),
                    max,
                }
                .scaled(TRAVERSAL),
            )
        }
        _ => None,
    }
}
