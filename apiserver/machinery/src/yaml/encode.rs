//! Responses in YAML, laid out like those of Go's encoder: block style, natural order of keys, and
//! long texts folded at their spaces.

mod scalar;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use crate::json::{Map, SmolStr, Value};

use scalar::{Style, style};

/// The number of spaces of one indentation level.
const INDENT: usize = 2;
/// A text is folded at the first space after this column.
const WIDTH: usize = 80;
/// A longer key has a line of its own, after a question mark; the value follows a colon.
const SIMPLE_KEY_BYTES_MAX: usize = 128;

/// `value` as a YAML document.
pub fn to_string(value: &Value) -> String {
    let mut emitter = Emitter::default();
    match value {
        Value::Object(entries) if !entries.is_empty() => emitter.mapping(entries, 0),
        Value::Array(items) if !items.is_empty() => emitter.sequence(items, 0),
        scalar => emitter.leaf(scalar, 0),
    }
    if emitter.column > 0 {
        emitter.end_line();
    }
    emitter.text
}

/// The text so far, and the column in its last line.
#[derive(Default)]
struct Emitter {
    text: String,
    column: usize,
    /// Nothing but indentation and indicators is in the line, so that a collection may begin here.
    opens: bool,
}

impl Emitter {
    fn put(&mut self, letter: char) {
        self.text.push(letter);
        self.column += 1;
    }

    fn write(&mut self, text: &str) {
        text.chars().for_each(|letter| self.put(letter));
    }

    fn end_line(&mut self) {
        self.text.push('\n');
        self.column = 0;
    }

    /// Moves to column `indent` of a new line, or of this one if it has only been opened.
    fn indent_to(&mut self, indent: usize) {
        if self.column > 0 && !(self.opens && self.column <= indent) {
            self.end_line();
        }
        while self.column < indent {
            self.put(' ');
        }
        self.opens = false;
    }

    fn mapping(&mut self, entries: &Map, indent: usize) {
        for (key, value) in in_natural_order(entries.iter().collect()) {
            self.indent_to(indent);
            if key.len() > SIMPLE_KEY_BYTES_MAX {
                self.write("? ");
                self.string(key, indent + INDENT, Place::Value);
                self.indent_to(indent);
                self.put(':');
                self.opens = true;
                self.inside(value, indent);
            } else {
                self.string(key, indent, Place::Key);
                self.put(':');
                match value {
                    // The dashes of a sequence are below its key, not indented.
                    Value::Array(items) if !items.is_empty() => self.sequence(items, indent),
                    value => self.inside(value, indent),
                }
            }
        }
    }

    fn sequence(&mut self, items: &[Value], indent: usize) {
        for item in items {
            self.indent_to(indent);
            self.put('-');
            self.opens = true;
            self.inside(item, indent);
        }
    }

    /// Writes a value after an indicator at `indent`.
    fn inside(&mut self, value: &Value, indent: usize) {
        let indent = indent + INDENT;
        match value {
            Value::Object(entries) if !entries.is_empty() => self.mapping(entries, indent),
            Value::Array(items) if !items.is_empty() => self.sequence(items, indent),
            leaf => {
                self.put(' ');
                self.leaf(leaf, indent);
            }
        }
    }

    /// Anything that has no block of its own.
    fn leaf(&mut self, value: &Value, indent: usize) {
        self.opens = false;
        match value {
            Value::Null => self.write("null"),
            Value::Bool(set) => self.write(if *set { "true" } else { "false" }),
            Value::Number(number) => self.write(&scalar::number(number)),
            Value::String(text) => self.string(text, indent, Place::Value),
            Value::Array(_) => self.write("[]"),
            Value::Object(_) => self.write("{}"),
        }
    }

    /// A text, going on at `indent` where it is broken.
    fn string(&mut self, text: &str, indent: usize, place: Place) {
        match style(text, place) {
            Style::Plain => self.folded(text, indent, place, Style::Plain),
            Style::SingleQuoted => {
                self.put('\'');
                self.folded(text, indent, place, Style::SingleQuoted);
                self.put('\'');
            }
            Style::DoubleQuoted => self.double_quoted(text, indent, place),
            Style::Literal => self.literal(text, indent),
        }
    }

    /// Breaks at single spaces beyond the width; a text without line breaks.
    fn folded(&mut self, text: &str, indent: usize, place: Place, style: Style) {
        let letters: Vec<char> = text.chars().collect();
        for (index, letter) in letters.iter().enumerate() {
            let before = index.checked_sub(1).map(|before| letters[before]);
            let after = letters.get(index + 1);
            let is_inner = before.is_some_and(|before| before != ' ')
                && after.is_some_and(|after| *after != ' ');
            if *letter == ' ' && is_inner && place == Place::Value && self.column > WIDTH {
                self.break_at(indent);
                continue;
            }
            if *letter == '\'' && style == Style::SingleQuoted {
                self.put('\'');
            }
            self.put(*letter);
        }
    }

    fn double_quoted(&mut self, text: &str, indent: usize, place: Place) {
        self.put('"');
        let letters: Vec<char> = text.chars().collect();
        let mut was_space = false;
        for (index, letter) in letters.iter().enumerate() {
            if let Some(escaped) = scalar::escape(*letter) {
                self.write(&escaped);
                was_space = false;
                continue;
            }
            let is_inner = index > 0 && index + 1 < letters.len();
            let folds = *letter == ' ' && !was_space && is_inner && place == Place::Value;
            if folds && self.column > WIDTH {
                self.break_at(indent);
                // The reader would take further spaces for indentation.
                if letters.get(index + 1) == Some(&' ') {
                    self.put('\\');
                }
            } else {
                self.put(*letter);
            }
            was_space = *letter == ' ';
        }
        self.put('"');
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.put('|');
        if text.starts_with([' ', '\n']) {
            self.write(&INDENT.to_string());
        }
        match text.strip_suffix('\n') {
            None => self.put('-'),
            Some(rest) if rest.is_empty() || rest.ends_with('\n') => self.put('+'),
            Some(_) => {}
        }
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            self.end_line();
            if !line.is_empty() {
                self.write(&" ".repeat(indent));
                self.write(line);
            }
        }
        if text.ends_with('\n') {
            self.end_line();
        }
    }

    fn break_at(&mut self, indent: usize) {
        self.end_line();
        self.write(&" ".repeat(indent));
    }
}

/// The position of a text; a key stays on one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Key,
    Value,
}

/// Entries in the natural order of their keys. That of upstream has circles among odd keys, which
/// the sort of the standard library may panic at.
fn in_natural_order<'v>(
    mut entries: Vec<(&'v SmolStr, &'v Value)>,
) -> Vec<(&'v SmolStr, &'v Value)> {
    if entries.len() < 2 {
        return entries;
    }
    let right = entries.split_off(entries.len() / 2);
    let mut left = in_natural_order(entries).into_iter().peekable();
    let mut right = in_natural_order(right).into_iter().peekable();
    let mut merged = Vec::with_capacity(left.len() + right.len());
    while let (Some((a, _)), Some((b, _))) = (left.peek(), right.peek()) {
        let next = match natural_order(a, b) {
            Ordering::Greater => right.next(),
            Ordering::Less | Ordering::Equal => left.next(),
        };
        merged.extend(next);
    }
    merged.extend(left.chain(right));
    merged
}

/// Orders letters after other characters, and numbers by value.
fn natural_order(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let common = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let (Some(&first), Some(&second)) = (a.get(common), b.get(common)) else {
        return a.len().cmp(&b.len());
    };
    let behind_digit = common > 0 && a[common - 1].is_ascii_digit();
    match (first.is_alphabetic(), second.is_alphabetic()) {
        (true, true) => return first.cmp(&second),
        // A number followed by more digits is greater than one followed by a letter.
        (true, false) if behind_digit => return Ordering::Less,
        (false, true) if behind_digit => return Ordering::Greater,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // Zeros at the difference count for something only inside of a number.
    let is_inside = (first == '0' || second == '0')
        && a[..common]
            .iter()
            .rev()
            .take_while(|letter| letter.is_ascii_digit())
            .any(|digit| *digit != '0');
    let number = |letters: &[char]| {
        let digits = letters[common..]
            .iter()
            .map_while(|letter| letter.to_digit(10));
        let start = (i64::from(is_inside), 0_usize);
        digits.fold(start, |(value, length), digit| {
            (
                value.wrapping_mul(10).wrapping_add(i64::from(digit)),
                length + 1,
            )
        })
    };
    number(&a).cmp(&number(&b)).then(first.cmp(&second))
}
