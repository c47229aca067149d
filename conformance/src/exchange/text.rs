//! JSON as text: as the files hold it, and as bodies are sent.
//!
//! Both have a space after each colon and comma. The files were first written by a Python program,
//! so numbers are spelled as Python does: recorded again, an equal answer leaves its line alone.

use std::io::{self, Write};

use kubeproof_machinery::json::Value;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Integers this large are read as floating point numbers; those below `TEN_TO_21` are what Go
/// writes without an exponent.
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;
const TEN_TO_21: f64 = 1e21;

/// A body as JSON, or as its text if it is not JSON.
pub(super) fn decoded(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| String::from_utf8_lossy(body).into())
}

/// `value` on a line, characters as they are.
pub(super) fn spaced(value: &Value) -> String {
    write(value, Spaced { ascii: false })
}

/// `value` on a line, characters beyond ASCII escaped.
pub(super) fn ascii(value: &Value) -> String {
    write(value, Spaced { ascii: true })
}

fn write(value: &Value, formatter: Spaced) -> String {
    let mut written = Vec::new();
    value
        .serialize(&mut Serializer::with_formatter(&mut written, formatter))
        .expect("a value can be written to memory");
    String::from_utf8(written).expect("JSON is text")
}

struct Spaced {
    ascii: bool,
}

impl Formatter for Spaced {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if !self.ascii || fragment.is_ascii() {
            return writer.write_all(fragment.as_bytes());
        }
        for character in fragment.chars() {
            if character.is_ascii() {
                write!(writer, "{character}")?;
                continue;
            }
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }

    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first {
            Ok(())
        } else {
            writer.write_all(b", ")
        }
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first {
            Ok(())
        } else {
            writer.write_all(b", ")
        }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

fn float(value: f64) -> String {
    if value.fract() == 0.0 && (TWO_TO_64..TEN_TO_21).contains(&value.abs()) {
        return format!("{value}");
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').expect("it has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    if (-4..16).contains(&exponent) {
        return format!("{value:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use kubeproof_machinery::json::json;

    use super::*;

    #[test]
    fn text_is_spaced_and_escaped_on_demand() {
        let value = json!({"b": ["ü\n", "😀"], "a": {}, "c": []});
        assert_eq!(spaced(&value), r#"{"a": {}, "b": ["ü\n", "😀"], "c": []}"#);
        assert_eq!(
            ascii(&value),
            r#"{"a": {}, "b": ["\u00fc\n", "\ud83d\ude00"], "c": []}"#
        );
    }

    #[test]
    fn floating_point_numbers_are_spelled_as_in_python() {
        for (value, text) in [
            (1.0, "1.0"),
            (0.0001, "0.0001"),
            (1e-7, "1e-07"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (TWO_TO_64, "18446744073709552000"),
        ] {
            assert_eq!(float(value), text);
        }
    }
}
