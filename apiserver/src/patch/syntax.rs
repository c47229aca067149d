//! Why a text is not JSON, in the words of Go's `encoding/json`.

/// Where the reader of a document is.
#[derive(Clone, Copy)]
enum Inside {
    Array,
    Object,
}

/// The offending byte, `None` at the end of the text, and what was being read.
type Fault = (Option<u8>, &'static str);

/// The first fault of `text`; `None` if it is well formed.
pub(super) fn fault(text: &[u8]) -> Option<String> {
    let (byte, context) = Scanner { text, at: 0 }.document().err()?;
    Some(match byte {
        None => "unexpected end of JSON input".to_owned(),
        Some(byte) => format!("invalid character {} {context}", quote(byte)),
    })
}

/// Go takes the byte for a character of its own and quotes it.
fn quote(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        0x07 => r"'\a'".to_owned(),
        0x08 => r"'\b'".to_owned(),
        0x0b => r"'\v'".to_owned(),
        0x0c => r"'\f'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        0..0x20 | 0x7f => format!(r"'\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!(r"'\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}

struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek();
        self.at += 1;
        byte
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn skip_digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn document(&mut self) -> Result<(), Fault> {
        // A stack of its own: a hostile document may be nested deeply.
        let mut inside: Vec<Inside> = Vec::new();
        loop {
            let opened = self.value(&mut inside)?;
            if opened {
                continue;
            }
            // A value has ended, and perhaps those around it.
            loop {
                self.skip_space();
                match (inside.last(), self.next()) {
                    (None, None) => return Ok(()),
                    (None, byte) => return Err((byte, "after top-level value")),
                    (Some(Inside::Array), Some(b',')) => break,
                    (Some(Inside::Object), Some(b',')) => {
                        self.key()?;
                        break;
                    }
                    (Some(Inside::Array), Some(b']')) | (Some(Inside::Object), Some(b'}')) => {
                        inside.pop();
                    }
                    (Some(Inside::Array), byte) => return Err((byte, "after array element")),
                    (Some(Inside::Object), byte) => {
                        return Err((byte, "after object key:value pair"));
                    }
                }
            }
        }
    }

    /// Reads a value, or opens one that has others in it and answers so.
    fn value(&mut self, inside: &mut Vec<Inside>) -> Result<bool, Fault> {
        self.skip_space();
        match self.next() {
            Some(b'[') => {
                self.skip_space();
                if self.peek() == Some(b']') {
                    self.at += 1;
                    return Ok(false);
                }
                inside.push(Inside::Array);
                Ok(true)
            }
            Some(b'{') => {
                self.skip_space();
                if self.peek() == Some(b'}') {
                    self.at += 1;
                    return Ok(false);
                }
                inside.push(Inside::Object);
                self.key()?;
                Ok(true)
            }
            Some(b'"') => self.string().map(|()| false),
            Some(b't') => self.literal("true").map(|()| false),
            Some(b'f') => self.literal("false").map(|()| false),
            Some(b'n') => self.literal("null").map(|()| false),
            Some(first @ (b'-' | b'0'..=b'9')) => self.number(first).map(|()| false),
            byte => Err((byte, "looking for beginning of value")),
        }
    }

    fn key(&mut self) -> Result<(), Fault> {
        self.skip_space();
        match self.next() {
            Some(b'"') => self.string()?,
            byte => return Err((byte, "looking for beginning of object key string")),
        }
        self.skip_space();
        match self.next() {
            Some(b':') => Ok(()),
            byte => Err((byte, "after object key")),
        }
    }

    fn string(&mut self) -> Result<(), Fault> {
        loop {
            match self.next() {
                Some(b'"') => return Ok(()),
                Some(b'\\') => match self.next() {
                    Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => {}
                    Some(b'u') => {
                        for _ in 0..4 {
                            let byte = self.next();
                            if !byte.is_some_and(|byte| byte.is_ascii_hexdigit()) {
                                return Err((byte, "in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    byte => return Err((byte, "in string escape code")),
                },
                Some(0x20..) => {}
                byte => return Err((byte, "in string literal")),
            }
        }
    }

    fn number(&mut self, first: u8) -> Result<(), Fault> {
        let digit = match first {
            b'-' => self.next(),
            _ => Some(first),
        };
        match digit {
            Some(b'0') => {}
            Some(b'1'..=b'9') => self.skip_digits(),
            byte => return Err((byte, "in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            let byte = self.next();
            if !byte.is_some_and(|byte| byte.is_ascii_digit()) {
                return Err((byte, "after decimal point in numeric literal"));
            }
            self.skip_digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            let byte = self.next();
            if !byte.is_some_and(|byte| byte.is_ascii_digit()) {
                return Err((byte, "in exponent of numeric literal"));
            }
            self.skip_digits();
        }
        Ok(())
    }

    fn literal(&mut self, literal: &'static str) -> Result<(), Fault> {
        for expected in literal.bytes().skip(1) {
            let byte = self.next();
            if byte != Some(expected) {
                return Err((byte, in_literal(literal, expected)));
            }
        }
        Ok(())
    }
}

fn in_literal(literal: &str, expected: u8) -> &'static str {
    match (literal, expected) {
        ("true", b'r') => "in literal true (expecting 'r')",
        ("true", b'u') => "in literal true (expecting 'u')",
        ("true", _) => "in literal true (expecting 'e')",
        ("false", b'a') => "in literal false (expecting 'a')",
        ("false", b'l') => "in literal false (expecting 'l')",
        ("false", b's') => "in literal false (expecting 's')",
        ("false", _) => "in literal false (expecting 'e')",
        (_, b'u') => "in literal null (expecting 'u')",
        _ => "in literal null (expecting 'l')",
    }
}

#[cfg(test)]
mod tests {
    use super::fault;

    #[test]
    fn well_formed_documents_have_no_fault() {
        for text in [
            "null",
            " true ",
            "-0.5e+7",
            r#""a\u00e9\n""#,
            "[]",
            "{}",
            "[[], {}, 1]",
            r#"{"a": [1, {"b": false}], "c": ""}"#,
        ] {
            assert_eq!(fault(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn faults_are_named_in_gos_words() {
        for (text, message) in [
            ("", "unexpected end of JSON input"),
            ("{\"a\":", "unexpected end of JSON input"),
            (
                "not",
                "invalid character 'o' in literal null (expecting 'u')",
            ),
            ("{} x", "invalid character 'x' after top-level value"),
            ("[1 2]", "invalid character '2' after array element"),
            (
                "{a:1}",
                "invalid character 'a' looking for beginning of object key string",
            ),
            ("{\"a\",1}", "invalid character ',' after object key"),
            (
                "{\"a\":1 \"b\"}",
                "invalid character '\"' after object key:value pair",
            ),
            (
                "[1,]",
                "invalid character ']' looking for beginning of value",
            ),
            (
                "{\"a\":1,}",
                "invalid character '}' looking for beginning of object key string",
            ),
            (
                "'a'",
                r"invalid character '\'' looking for beginning of value",
            ),
            ("01", "invalid character '1' after top-level value"),
            ("-x", "invalid character 'x' in numeric literal"),
            (
                "1.x",
                "invalid character 'x' after decimal point in numeric literal",
            ),
            (
                "1ex",
                "invalid character 'x' in exponent of numeric literal",
            ),
            ("\"\n\"", r"invalid character '\n' in string literal"),
            (r#""\x""#, "invalid character 'x' in string escape code"),
            (
                r#""\u12g""#,
                r"invalid character 'g' in \u hexadecimal character escape",
            ),
        ] {
            assert_eq!(fault(text.as_bytes()).as_deref(), Some(message), "{text}");
        }
    }
}
