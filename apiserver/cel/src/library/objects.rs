//! Functions of the values of the Kubernetes libraries.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use kubeproof_machinery::{
    meta::validation::{NameRule, label_value, qualified_name},
    schema::quantity::Quantity,
};

use crate::{
    error::failed,
    message, time,
    value::{self, Cidr, Evaluated, Format, Key, Map, Object, Semver, Url, Value, parse_ip},
};

fn object(object: Object) -> Value {
    Value::Object(Arc::new(object))
}

fn made(result: Result<Object, String>) -> Evaluated {
    result.map(object).or_else(failed)
}

pub(super) fn call(function: &str, args: &[Value]) -> Option<Evaluated> {
    match args {
        [] => Some(Ok(object(Object::Format(Format::named(
            function.strip_prefix("format.")?,
        )?)))),
        [Value::String(text)] => from_text(function, text),
        [Value::String(text), Value::Bool(normalize)] => {
            let version = if *normalize {
                Semver::parse_tolerant(text)
            } else {
                Semver::parse(text)
            };
            match function {
                "semver" => Some(made(version.map(Object::Semver))),
                "isSemver" => Some(Ok(Value::Bool(version.is_ok()))),
                _ => None,
            }
        }
        [Value::Object(target), rest @ ..] => match &**target {
            Object::Url(url) if rest.is_empty() => url_part(function, url),
            Object::Quantity(quantity) => on_quantity(function, quantity, rest),
            Object::Ip(address) if rest.is_empty() => match function {
                "family" => Some(Ok(Value::Int(if address.is_ipv4() { 4 } else { 6 }))),
                _ => Some(Ok(Value::Bool(value::is(function, *address)?))),
            },
            Object::Cidr(cidr) => on_cidr(function, *cidr, rest),
            Object::Semver(version) => on_semver(function, version, rest),
            Object::Format(format) => match (function, rest) {
                ("validate", [Value::String(text)]) => Some(Ok(validate(*format, text))),
                _ => None,
            },
            Object::Authorization(authorization) => authorization.call(function, rest),
            Object::Url(_) | Object::Ip(_) | Object::Message(_) => None,
        },
        _ => None,
    }
}

fn from_text(function: &str, text: &str) -> Option<Evaluated> {
    let flag = |flag: bool| Some(Ok(Value::Bool(flag)));
    match function {
        "url" => Some(made(Url::parse(text).map(Object::Url).map_err(|fault| {
            format!("URL parse error during conversion from string: {fault}")
        }))),
        "isURL" => flag(Url::parse(text).is_ok()),
        "quantity" => Some(made(
            Quantity::parse(text)
                .map(Object::Quantity)
                .map_err(|fault| fault.to_string()),
        )),
        "isQuantity" => flag(Quantity::parse(text).is_ok()),
        "ip" => Some(made(parse_ip(text).map(Object::Ip))),
        "isIP" => flag(parse_ip(text).is_ok()),
        "ip.isCanonical" => Some(match parse_ip(text) {
            Ok(address) => Ok(Value::Bool(address.to_string() == text)),
            Err(fault) => failed(fault),
        }),
        "cidr" => Some(made(cidr(text).map(Object::Cidr))),
        "isCIDR" => flag(Cidr::parse(text).is_ok()),
        "semver" => Some(made(Semver::parse(text).map(Object::Semver))),
        "isSemver" => flag(Semver::parse(text).is_ok()),
        message::ESCAPE_KEY => Some(Ok(Value::string(&message::escaped_key(text)))),
        "format.named" => Some(Ok(match Format::named(text) {
            Some(format) => Value::some(object(Object::Format(format))),
            None => Value::Optional(None),
        })),
        _ => None,
    }
}

fn cidr(text: &str) -> Result<Cidr, String> {
    Cidr::parse(text).map_err(|fault| {
        format!("network address parse error during conversion from string: {fault}")
    })
}

fn url_part(function: &str, url: &Url) -> Option<Evaluated> {
    let text = match function {
        "getScheme" => url.scheme.clone(),
        "getHost" => url.host.clone(),
        "getHostname" => url.hostname().to_owned(),
        "getPort" => url.port().to_owned(),
        "getEscapedPath" => url.escaped_path(),
        "getQuery" => {
            let entries: BTreeMap<Key, Value> = url
                .query()
                .into_iter()
                .map(|(key, values)| {
                    let values = values.iter().map(|value| Value::string(value)).collect();
                    (Key::String(key.into()), Value::list(values))
                })
                .collect();
            return Some(Ok(Value::Map(Map::new(entries))));
        }
        _ => return None,
    };
    Some(Ok(Value::string(&text)))
}

/// Returns the result of a comparison function; `None` for other functions.
fn ordered(function: &str, order: Ordering) -> Option<Value> {
    match function {
        "isGreaterThan" => Some(Value::Bool(order.is_gt())),
        "isLessThan" => Some(Value::Bool(order.is_lt())),
        "compareTo" => Some(Value::Int(order as i64)),
        _ => None,
    }
}

fn on_quantity(function: &str, quantity: &Quantity, rest: &[Value]) -> Option<Evaluated> {
    let other = match rest {
        [] => {
            let integer = quantity.to_i64();
            return Some(match function {
                "sign" => Ok(Value::Int(quantity.compare(&Quantity::from(0)) as i64)),
                "isInteger" => Ok(Value::Bool(integer.is_some())),
                "asInteger" => match integer {
                    Some(integer) => Ok(Value::Int(integer)),
                    None => failed("cannot convert value to integer"),
                },
                "asApproximateFloat" => Ok(Value::Double(quantity.approximate())),
                _ => return None,
            });
        }
        [Value::Object(other)] => match &**other {
            Object::Quantity(other) => other.clone(),
            _ => return None,
        },
        [Value::Int(number)] if matches!(function, "add" | "sub") => Quantity::from(*number),
        _ => return None,
    };
    let result = match function {
        "add" => object(Object::Quantity(quantity.add(&other))),
        "sub" => object(Object::Quantity(quantity.add(&other.negated()))),
        _ => ordered(function, quantity.compare(&other))?,
    };
    Some(Ok(result))
}

fn on_cidr(function: &str, cidr: Cidr, rest: &[Value]) -> Option<Evaluated> {
    let result = match (function, rest) {
        ("ip", []) => object(Object::Ip(cidr.address)),
        ("prefixLength", []) => Value::Int(cidr.bits.into()),
        ("masked", []) => object(Object::Cidr(cidr.masked())),
        ("containsIP", [Value::String(text)]) => match parse_ip(text) {
            Ok(address) => Value::Bool(cidr.contains(address)),
            Err(fault) => return Some(failed(fault)),
        },
        ("containsCIDR", [Value::String(text)]) => match self::cidr(text) {
            Ok(other) => Value::Bool(cidr.contains_range(&other)),
            Err(fault) => return Some(failed(fault)),
        },
        (_, [Value::Object(other)]) => match (function, &**other) {
            ("containsIP", Object::Ip(address)) => Value::Bool(cidr.contains(*address)),
            ("containsCIDR", Object::Cidr(other)) => Value::Bool(cidr.contains_range(other)),
            _ => return None,
        },
        _ => return None,
    };
    Some(Ok(result))
}

fn on_semver(function: &str, version: &Semver, rest: &[Value]) -> Option<Evaluated> {
    let [major, minor, patch] = version.numbers;
    let number = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    let result = match (function, rest) {
        ("major", []) => number(major),
        ("minor", []) => number(minor),
        ("patch", []) => number(patch),
        (_, [Value::Object(other)]) => match &**other {
            Object::Semver(other) => ordered(function, version.compare(other))?,
            _ => return None,
        },
        _ => return None,
    };
    Some(Ok(result))
}

/// Returns an optional list of the faults of `text`; the optional is empty if there are no faults.
fn validate(format: Format, text: &str) -> Value {
    let unless = |valid: bool, fault: &str| {
        if valid {
            Vec::new()
        } else {
            vec![fault.to_owned()]
        }
    };
    let faults = match format.name() {
        "dns1123Label" => NameRule::DnsLabel.faults(text, false),
        "dns1123LabelPrefix" => NameRule::DnsLabel.faults(text, true),
        "dns1123Subdomain" => NameRule::DnsSubdomain.faults(text, false),
        "dns1123SubdomainPrefix" => NameRule::DnsSubdomain.faults(text, true),
        "dns1035Label" => NameRule::Dns1035Label.faults(text, false),
        "dns1035LabelPrefix" => NameRule::Dns1035Label.faults(text, true),
        "qualifiedName" => qualified_name(text),
        "labelValue" => label_value(text),
        "uri" => Url::parse(text).err().into_iter().collect(),
        "uuid" => unless(is_uuid(text), "does not match the UUID format"),
        "byte" => unless(is_base64(text), "invalid base64"),
        "date" => unless(time::parse_date(text).is_some(), "invalid date"),
        _ => unless(time::parse_timestamp(text).is_some(), "invalid datetime"),
    };
    if faults.is_empty() {
        return Value::Optional(None);
    }
    Value::some(Value::list(
        faults.iter().map(|fault| Value::string(fault)).collect(),
    ))
}

/// Hexadecimal digits in groups of 8, 4, 4, 4 and 12, with or without dashes between them.
fn is_uuid(text: &str) -> bool {
    let mut rest = text.as_bytes();
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 && rest.first() == Some(&b'-') {
            rest = &rest[1..];
        }
        if rest.len() < length || !rest[..length].iter().all(u8::is_ascii_hexdigit) {
            return false;
        }
        rest = &rest[length..];
    }
    rest.is_empty()
}

fn is_base64(text: &str) -> bool {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .is_ok()
}
