//! The `format()` function of strings, and the check of its literal arguments before evaluation.

use std::fmt::Write;

use super::RESULT_SIZE_MAX;
use crate::{
    ast::{Element, Expr, ExprKind},
    checker::Checked,
    error::{EvalError, failed},
    numbers,
    types::Type,
    value::{Evaluated, Value},
};

/// The default number of digits after the point.
const PRECISION: usize = 6;

/// The most digits after the point. Go's formatter rejects clauses with more.
const PRECISION_MAX: usize = 1_000_000;

/// How many digits after the point a double has at most; further ones are zeros.
const DIGITS_MAX: usize = 1100;

/// Go's output for a clause that it rejects.
const NO_VERB: &str = "%!(NOVERB)";

/// A part of a text with clauses.
enum Part<'t> {
    Text(&'t str),
    Clause(Clause),
}

/// The format of one argument.
#[derive(Clone, Copy)]
struct Clause {
    verb: char,
    precision: usize,
}

/// Reads the parts of a text, of which each clause takes one of `count` arguments.
fn read<E: From<String>>(
    text: &str,
    count: usize,
    mut each: impl FnMut(Part<'_>, usize) -> Result<(), E>,
) -> Result<usize, E> {
    let mut rest = text;
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        each(Part::Text(&rest[..at]), next)?;
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            each(Part::Text("%"), next)?;
            rest = after;
            continue;
        }
        if rest.is_empty() {
            return Err("unexpected end of string".to_owned().into());
        }
        if next >= count {
            return Err(format!("index {next} out of range").into());
        }
        let (clause, after) = Clause::read(rest)
            .map_err(|why| E::from(format!("could not parse formatting clause: {why}")))?;
        each(Part::Clause(clause), next)?;
        next += 1;
        rest = after;
    }
    each(Part::Text(rest), next)?;
    Ok(next)
}

impl Clause {
    /// The clause after a `%`, and what follows it.
    fn read(text: &str) -> Result<(Self, &str), String> {
        let mut precision = PRECISION;
        let mut rest = text;
        if let Some(after) = text.strip_prefix('.') {
            let failed = |why: String| Err(format!("error while parsing precision: {why}"));
            let Some(end) = after.find(|letter: char| !letter.is_ascii_digit()) else {
                return failed("could not find end of precision specifier".to_owned());
            };
            let (digits, after) = after.split_at(end);
            precision = match digits.parse::<i64>().map(usize::try_from) {
                Ok(Ok(number)) => number,
                _ => {
                    let why = if digits.is_empty() {
                        "invalid syntax"
                    } else {
                        "value out of range"
                    };
                    return failed(format!(
                        "error while converting precision to integer: strconv.Atoi: parsing \
                         {digits:?}: {why}"
                    ));
                }
            };
            rest = after;
        }
        let mut letters = rest.chars();
        match letters.next() {
            Some(verb) if "sdfebxXo".contains(verb) => {
                Ok((Self { verb, precision }, letters.as_str()))
            }
            Some(other) => Err(format!("unrecognized formatting clause \"{other}\"")),
            None => Err("unexpected end of string".to_owned()),
        }
    }

    /// Returns the error text that names the types which the clause accepts.
    fn rule(self) -> &'static str {
        match self.verb {
            's' => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, \
                 lists, types, durations, and timestamps"
            }
            'd' => "decimal clause can only be used on integers",
            'f' => "fixed-point clause can only be used on doubles",
            'e' => "scientific clause can only be used on doubles",
            'b' => "only integers and bools can be formatted as binary",
            'o' => "octal clause can only be used on integers",
            _ => "only integers, byte buffers, and strings can be formatted as hex",
        }
    }

    fn refusal(self, type_name: &str) -> String {
        let rule = self.rule();
        format!("error during formatting: {rule}, was given {type_name}")
    }
}

/// The text with each `%` clause replaced by one of `args`.
pub(super) fn format(text: &str, args: &[Value]) -> Evaluated {
    let mut out = String::new();
    let read = read::<EvalError>(text, args.len(), |part, index| {
        if out.len() > RESULT_SIZE_MAX {
            return Err(EvalError::CostLimit);
        }
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Clause(clause) => write_clause(clause, &args[index], &mut out)?,
        }
        Ok(())
    });
    read.map(|_| Value::string(&out))
}

/// Checks a literal text against the literal list of its arguments, whatever their values. The
/// error is a message and the offset of the argument at fault, if there is one.
pub(crate) fn check(
    text: &str,
    args: &[Element],
    checked: &Checked,
) -> Result<(), (String, Option<usize>)> {
    let read = read::<Fault>(text, args.len(), |part, index| {
        let Part::Clause(clause) = part else {
            return Ok(());
        };
        let faulty = match clause.verb {
            's' => unprintable(&args[index].value, checked),
            _ => {
                let arg = &args[index].value;
                let fits = clause.takes(checked.type_of(arg));
                (!fits).then_some(arg)
            }
        };
        match faulty {
            None => Ok(()),
            Some(expr) => Err(Fault {
                message: clause.refusal(&checked.type_of(expr).runtime_name()),
                offset: Some(expr.offset),
            }),
        }
    });
    match read {
        Ok(used) if used < args.len() => {
            let given = args.len();
            let message = format!(
                "too many arguments supplied to string.format (expected {used}, got {given})"
            );
            Err((message, None))
        }
        Ok(_) => Ok(()),
        Err(fault) => Err((fault.message, fault.offset)),
    }
}

struct Fault {
    message: String,
    offset: Option<usize>,
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self {
            message,
            offset: None,
        }
    }
}

impl Clause {
    /// Whether values of a type may fit.
    fn takes(self, of: &Type) -> bool {
        match (self.verb, of) {
            (_, Type::Dyn)
            | ('d' | 'o' | 'b' | 'x' | 'X', Type::Int | Type::Uint)
            | ('f' | 'e', Type::Double | Type::String)
            | ('b', Type::Bool)
            | ('x' | 'X', Type::String | Type::Bytes) => true,
            ('s', of) => matches!(
                of,
                Type::List(_)
                    | Type::Map(..)
                    | Type::Int
                    | Type::Uint
                    | Type::Double
                    | Type::Bool
                    | Type::String
                    | Type::Timestamp
                    | Type::Bytes
                    | Type::Duration
                    | Type::Type(_)
                    | Type::Null
            ),
            _ => false,
        }
    }
}

/// Returns the first part of an argument that `%s` cannot show.
fn unprintable<'e>(arg: &'e Expr, checked: &Checked) -> Option<&'e Expr> {
    let clause = Clause {
        verb: 's',
        precision: PRECISION,
    };
    if !clause.takes(checked.type_of(arg)) {
        return Some(arg);
    }
    match &arg.kind {
        ExprKind::List(items) => {
            let mut items = items.iter();
            items.find_map(|item| unprintable(&item.value, checked))
        }
        ExprKind::Map(entries) => entries.iter().find_map(|entry| {
            unprintable(&entry.key, checked).or_else(|| unprintable(&entry.value, checked))
        }),
        _ => None,
    }
}

fn write_clause(clause: Clause, arg: &Value, out: &mut String) -> Result<(), EvalError> {
    let precision = clause.precision;
    let text = match (clause.verb, arg) {
        ('s', _) => Some(shown(arg)?),
        ('d', Value::Int(_) | Value::Uint(_)) => Some(arg.to_string()),
        ('f', arg) => double(arg).map(|number| fixed(number, precision)),
        ('e', arg) => double(arg).map(|number| scientific(number, precision)),
        ('b', Value::Bool(flag)) => Some(u8::from(*flag).to_string()),
        ('b', _) => radix(arg, |n| format!("{n:b}")),
        ('o', _) => radix(arg, |n| format!("{n:o}")),
        ('x' | 'X', Value::String(text)) => {
            hex_bytes(text.as_bytes(), clause.verb, out);
            return Ok(());
        }
        ('x' | 'X', Value::Bytes(bytes)) => {
            hex_bytes(bytes, clause.verb, out);
            return Ok(());
        }
        ('x', _) => radix(arg, |n| format!("{n:x}")),
        ('X', _) => radix(arg, |n| format!("{n:X}")),
        _ => None,
    };
    match text {
        Some(text) => {
            out.push_str(&text);
            Ok(())
        }
        None => Err(EvalError::from(clause.refusal(arg.type_name()))),
    }
}

/// A double, or one of the texts that stand for those without digits.
fn double(arg: &Value) -> Option<f64> {
    match arg {
        Value::Double(number) => Some(*number),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn radix(arg: &Value, digits: impl Fn(u64) -> String) -> Option<String> {
    match arg {
        Value::Int(number) => {
            let sign = if *number < 0 { "-" } else { "" };
            Some(format!("{sign}{}", digits(number.unsigned_abs())))
        }
        Value::Uint(number) => Some(digits(*number)),
        _ => None,
    }
}

fn hex_bytes(bytes: &[u8], verb: char, out: &mut String) {
    for byte in bytes {
        let written = if verb == 'X' {
            write!(out, "{byte:02X}")
        } else {
            write!(out, "{byte:02x}")
        };
        written.expect("writing to a String can't fail");
    }
}

/// A number with thousands set off, as the locale upstream uses writes it.
fn fixed(number: f64, precision: usize) -> String {
    if !number.is_finite() {
        return if number.is_nan() {
            "NaN"
        } else if number > 0.0 {
            "\u{221e}"
        } else {
            "-\u{221e}"
        }
        .to_owned();
    }
    if precision > PRECISION_MAX {
        return NO_VERB.to_owned();
    }
    let (precision, zeros) = (
        precision.min(DIGITS_MAX),
        precision.saturating_sub(DIGITS_MAX),
    );
    let plain = format!("{number:.precision$}");
    let (sign, digits) = plain
        .strip_prefix('-')
        .map_or(("", &*plain), |rest| ("-", rest));
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut grouped = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + fraction + &"0".repeat(zeros)
}

/// A number times a power of ten, as the locale upstream uses writes it.
fn scientific(number: f64, precision: usize) -> String {
    if !number.is_finite() {
        return fixed(number, precision);
    }
    if precision > PRECISION_MAX {
        return NO_VERB.to_owned();
    }
    let (precision, zeros) = (
        precision.min(DIGITS_MAX),
        precision.saturating_sub(DIGITS_MAX),
    );
    let plain = format!("{number:.precision$e}");
    let (digits, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let sign = if exponent < 0 { "\u{2212}" } else { "" };
    let superscript: String = exponent
        .unsigned_abs()
        .to_string()
        .chars()
        .map(|digit| SUPERSCRIPTS[digit.to_digit(10).unwrap_or_default() as usize])
        .collect();
    let padding = if exponent.abs() < 10 { "\u{2070}" } else { "" };
    let sign = if sign.is_empty() { "" } else { "\u{207b}" };
    let zeros = "0".repeat(zeros);
    format!("{digits}{zeros}\u{d7}10{sign}{padding}{superscript}")
}

const SUPERSCRIPTS: [char; 10] = [
    '\u{2070}', '\u{b9}', '\u{b2}', '\u{b3}', '\u{2074}', '\u{2075}', '\u{2076}', '\u{2077}',
    '\u{2078}', '\u{2079}',
];

/// A value as `%s` writes it.
fn shown(value: &Value) -> Result<String, EvalError> {
    match value {
        Value::Null => Ok("null".to_owned()),
        Value::Type(name) => Ok(name.to_string()),
        Value::List(list) => {
            let items: Result<Vec<String>, _> = list.items.iter().map(within).collect();
            Ok(format!("[{}]", items?.join(", ")))
        }
        Value::Map(map) => {
            let mut entries = Vec::new();
            for (key, value) in map.entries.iter() {
                entries.push(format!("{}:{}", within(&key.value())?, within(value)?));
            }
            entries.sort();
            Ok(format!("{{{}}}", entries.join(", ")))
        }
        _ => match numbers::to_string(value) {
            Some(Ok(Value::String(text))) => Ok(text.to_string()),
            Some(Err(error)) => Err(error),
            _ => {
                let clause = Clause {
                    verb: 's',
                    precision: PRECISION,
                };
                failed(clause.refusal(value.type_name()))
            }
        },
    }
}

/// A value within a list or a map, as CEL spells it.
fn within(value: &Value) -> Result<String, EvalError> {
    Ok(match value {
        Value::String(text) => format!("{text:?}"),
        Value::Bytes(_) => format!("b{:?}", shown(value)?),
        Value::Double(number) => format!("{number:.PRECISION$}"),
        Value::Duration(_) => format!("duration({:?})", shown(value)?),
        Value::Timestamp(_) => format!("timestamp({:?})", shown(value)?),
        _ => shown(value)?,
    })
}
