//! The checks of single values: types, numbers, strings and their formats.

use super::Outcome;
use super::fault::{Fault, Kind};
use crate::json::{Number, Value};
use crate::schema::number::printed_float;
use crate::schema::structural::{Structural, format as formats};

/// The greatest whole number up to which floats represent every whole number.
const WHOLE_FLOAT_MAX: f64 = 9_007_199_254_740_991.0;

impl Structural {
    /// Returns the format if it is validated, or else an empty text.
    pub(super) fn supported_format(&self) -> &str {
        let format = self.value.format.as_str();
        let value_type = if self.int_or_string {
            "integer,string"
        } else {
            &self.value_type
        };
        if !format.is_empty() && formats::is_supported(value_type, format) {
            format
        } else {
            ""
        }
    }

    /// The types that a value may have, in the words of a fault.
    fn types(&self) -> &str {
        if self.int_or_string {
            "integer,string"
        } else {
            &self.value_type
        }
    }
}

/// Whether the value has the type of the schema.
pub(super) fn types(schema: &Structural, path: &str, value: &Value) -> Outcome {
    let types = schema.types();
    let has = |wanted: &str| types.split(',').any(|own| own == wanted);
    let passed = || Outcome {
        matches: 1,
        ..Outcome::default()
    };
    let wrong = |wanted: &str, found: &str| {
        let kind = Kind::TypeInvalid(found.into());
        Outcome::of(Fault::at(
            path,
            kind,
            &format!("must be of type {wanted}: {found:?}"),
        ))
    };
    if value.is_null() {
        return match types {
            "" => passed(),
            types if schema.nullable => {
                let _: &str = types;
                passed()
            }
            types => wrong(types, "null"),
        };
    }
    let (found, found_format) = match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) if number.is_f64() => ("number", "float64"),
        Value::Number(_) => ("integer", "int64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    };
    let is_whole = |number: &Number| {
        let float = number.as_f64().unwrap_or(f64::NAN);
        float.fract() == 0.0 && float.abs() <= WHOLE_FLOAT_MAX
    };
    let whole_float =
        found == "number" && value.as_number().is_some_and(is_whole) && has("integer");
    let integer_as_float = found == "integer" && has("number");
    let fits = has(found) || whole_float || integer_as_float;
    let format = schema.supported_format();
    let is_text = matches!(found, "string" | "array");
    if !format.is_empty() && !is_text && !fits && found_format != format {
        return wrong(format, found_format);
    }
    let is_numeric = has("number") || has("integer");
    if fits || (!format.is_empty() && is_text && !is_numeric) {
        return passed();
    }
    wrong(types, found)
}

/// Length and pattern of a string: the first fault ends the checks.
pub(super) fn string(schema: &Structural, path: &str, text: &str) -> Outcome {
    let rules = &schema.value;
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let invalid = |why: &str| Outcome::of(Fault::at(path, Kind::Invalid(text.into()), why));
    if let Some(max) = rules.max_length.filter(|max| length > *max) {
        let why = format!("should be at most {max} chars long");
        return Outcome::of(Fault::at(path, Kind::TooLong(max), &why));
    }
    if let Some(min) = rules.min_length.filter(|min| length < *min) {
        return invalid(&format!("should be at least {min} chars long"));
    }
    match &rules.pattern {
        Some(pattern) if !pattern.is_match(text) => {
            invalid(&format!("should match '{}'", pattern.text))
        }
        _ => Outcome::default(),
    }
}

/// Whether a string has a format.
pub(super) fn format(format: &str, path: &str, text: &str) -> Outcome {
    if formats::matches(format, text) {
        return Outcome::default();
    }
    let kind = Kind::TypeInvalid(text.into());
    let shown = Value::from(text);
    Outcome::of(Fault::at(
        path,
        kind,
        &format!("must be of type {format}: {shown}"),
    ))
}

/// Checks the bounds and the divisor of a number. Integers are compared with the whole part of a
/// bound, unless the schema is of integers only: then a fractional bound is a fault itself.
pub(super) fn number(schema: &Structural, path: &str, number: &Number) -> Outcome {
    let rules = &schema.value;
    let mut outcome = Outcome::default();
    let check_range = |what: &str, value: f64, integer: Option<i64>, outcome: &mut Outcome| {
        let fault = out_of_range(schema, what, value, integer, path);
        let fits = fault.is_none();
        fault.into_iter().for_each(|fault| outcome.add(fault));
        fits
    };
    let float = number.as_f64().unwrap_or_default();
    check_range("Checked", float, number.as_i64(), &mut outcome);
    let factor = rules.multiple_of;
    if let Some(factor) = factor.filter(|factor| *factor <= 0.0) {
        outcome.add(Fault::no_factor(path, &printed_float(factor)));
    }
    let mut checked = |what: &str, bound: f64, is_met: &dyn Fn(Operand) -> bool, why: &str| {
        let fits = check_range(what, bound, None, &mut outcome);
        let (operand, shown) = match number.as_i64().filter(|_| fits) {
            Some(value) => {
                #[expect(clippy::cast_possible_truncation, reason = "as upstream converts it")]
                let bound = bound as i64;
                (Operand::Integer(value, bound), bound.to_string())
            }
            None => (Operand::Float(float, bound), printed_float(bound)),
        };
        // An integer is compared with the integer part of a factor.
        if matches!((what, &operand), ("MultipleOf", Operand::Integer(_, 0))) {
            return outcome.add(Fault::no_factor(path, "0"));
        }
        if !is_met(operand) {
            let kind = Kind::Invalid(Value::Number(number.clone()));
            outcome.add(Fault::at(path, kind, &format!("{why} {shown}")));
        }
    };
    if let Some(factor) = factor.filter(|factor| *factor > 0.0) {
        checked(
            "MultipleOf",
            factor,
            &Operand::is_multiple,
            "should be a multiple of",
        );
    }
    if let Some(min) = rules.minimum {
        match rules.exclusive_minimum {
            true => checked(
                "Minimum boundary",
                min,
                &Operand::is_above,
                "should be greater than",
            ),
            false => {
                let why = "should be greater than or equal to";
                checked("Minimum boundary", min, &|pair| !pair.is_below(), why);
            }
        }
    }
    if let Some(max) = rules.maximum {
        match rules.exclusive_maximum {
            true => checked(
                "Maximum boundary",
                max,
                &Operand::is_below,
                "should be less than",
            ),
            false => {
                let why = "should be less than or equal to";
                checked("Maximum boundary", max, &|pair| !pair.is_above(), why);
            }
        }
    }
    outcome.matches += 1;
    outcome
}

/// A number and its bound.
#[derive(Clone, Copy)]
enum Operand {
    Integer(i64, i64),
    Float(f64, f64),
}

impl Operand {
    fn is_above(self) -> bool {
        match self {
            Self::Integer(value, bound) => value > bound,
            Self::Float(value, bound) => value > bound,
        }
    }

    fn is_below(self) -> bool {
        match self {
            Self::Integer(value, bound) => value < bound,
            Self::Float(value, bound) => value < bound,
        }
    }

    fn is_multiple(self) -> bool {
        match self {
            Self::Integer(value, factor) => factor > 0 && value % factor == 0,
            Self::Float(value, factor) => {
                let times = if factor < 1.0 {
                    1.0 / factor * value
                } else {
                    value / factor
                };
                factor > 0.0 && times.fract() == 0.0 && times.abs() <= WHOLE_FLOAT_MAX
            }
        }
    }
}

/// A number that the type and format of the schema can't hold.
fn out_of_range(
    schema: &Structural,
    what: &str,
    value: f64,
    integer: Option<i64>,
    path: &str,
) -> Option<Fault> {
    let format = schema.supported_format();
    let value_type = schema.value_type.as_str();
    let fits = match (value_type, format) {
        _ if schema.int_or_string => true,
        ("integer", "int32") => match integer {
            Some(integer) => i32::try_from(integer).is_ok(),
            None => value.fract() == 0.0 && value.abs() <= f64::from(i32::MAX),
        },
        ("integer", _) => integer.is_some() || (value.fract() == 0.0 && value.abs() < 9.3e18),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a float too large becomes infinite"
        )]
        ("number", "float") => (value as f32).is_finite(),
        _ => true,
    };
    let shown = match format {
        "" => "(default format)".to_owned(),
        format => format!("with format {format}"),
    };
    let message = format!("{what} value must be of type {value_type} {shown} in {path}");
    (!fits).then(|| Fault::whole(message))
}
