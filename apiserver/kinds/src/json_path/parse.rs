//! Reading a path.

use super::{Filter, JsonPath, Node, Slice};
use crate::json::Value;

/// The steps of a path; `None` when it is malformed.
pub(super) fn action(text: &str) -> Option<Vec<Node>> {
    let mut parser = Parser {
        rest: text,
        nodes: Vec::new(),
    };
    while !parser.rest.is_empty() {
        parser.step()?;
    }
    Some(parser.nodes)
}

struct Parser<'t> {
    rest: &'t str,
    nodes: Vec<Node>,
}

impl<'t> Parser<'t> {
    fn step(&mut self) -> Option<()> {
        if let Some(rest) = self.rest.strip_prefix("[?(") {
            return self.filter(rest);
        }
        if let Some(rest) = self.rest.strip_prefix("..") {
            if self.nodes.last() == Some(&Node::Recursive) {
                return None;
            }
            self.nodes.push(Node::Recursive);
            self.rest = rest;
            if rest.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_') {
                self.field();
            }
            return Some(());
        }
        let letter = self.rest.chars().next()?;
        let rest = &self.rest[letter.len_utf8()..];
        match letter {
            ' ' | '@' | '$' => self.rest = rest,
            '[' => return self.bracket(rest),
            '"' | '\'' => return self.quoted(letter),
            '.' => {
                self.rest = rest;
                self.field();
            }
            '+' | '-' | '0'..='9' => return self.number(),
            letter if letter.is_alphanumeric() || letter == '_' => {
                let node = match self.word() {
                    "true" => Node::Literal(true.into()),
                    "false" => Node::Literal(false.into()),
                    _ => Node::Identifier,
                };
                self.nodes.push(node);
            }
            _ => return None,
        }
        Some(())
    }

    /// Takes the text before the next terminator without a backslash.
    fn word(&mut self) -> &'t str {
        let mut escaped = false;
        let end = self.rest.find(|letter: char| {
            let ends = !escaped
                && matches!(
                    letter,
                    ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}'
                );
            escaped = !escaped && letter == '\\';
            ends
        });
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    fn field(&mut self) {
        let node = match self.word() {
            "*" => Node::Wildcard,
            name => Node::Field(name.replace('\\', "")),
        };
        self.nodes.push(node);
    }

    fn number(&mut self) -> Option<()> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let end = self.rest[sign..].find(|letter: char| letter != '.' && !letter.is_ascii_digit());
        let (text, rest) = self
            .rest
            .split_at(end.map_or(self.rest.len(), |end| end + sign));
        self.rest = rest;
        let integer = text.parse::<i64>().ok().map(Value::from);
        let number = integer.or_else(|| text.parse::<f64>().ok().map(Value::from))?;
        self.nodes.push(Node::Literal(number));
        Some(())
    }

    fn quoted(&mut self, quote: char) -> Option<()> {
        let (text, rest) = string(self.rest, quote)?;
        self.nodes.push(Node::Literal(text.into()));
        self.rest = rest;
        Some(())
    }

    /// Parses the content of brackets: `*`, an index, a slice, a key, or several of these.
    fn bracket(&mut self, rest: &'t str) -> Option<()> {
        let (text, rest) = rest.split_once(']')?;
        self.rest = rest;
        let parts: Vec<&str> = text.split(',').collect();
        if parts.len() > 1 {
            let paths = parts.iter().map(|part| {
                let path = format!("[{}]", part.trim_matches(' '));
                action(&path).map(JsonPath)
            });
            self.nodes.push(Node::Union(paths.collect::<Option<_>>()?));
            return Some(());
        }
        let key = text
            .strip_prefix('\'')
            .and_then(|text| text.strip_suffix('\''));
        if let Some(key) = key {
            self.nodes.extend(action(&format!(".{key}"))?);
            return Some(());
        }
        self.nodes.push(Node::Slice(slice(text)?));
        Some(())
    }

    fn filter(&mut self, rest: &'t str) -> Option<()> {
        let mut quote = None;
        let mut before = ' ';
        let end = rest.char_indices().find_map(|(at, letter)| {
            match (letter, quote) {
                ('"' | '\'', None) => quote = Some(letter),
                (letter, Some(open)) if letter == open && before != '\\' => quote = None,
                (')', None) => return Some(at),
                _ => {}
            }
            before = letter;
            None
        })?;
        self.rest = rest[end + 1..].strip_prefix(']')?;
        let text = &rest[..end];
        let operator = text.find(['!', '<', '>', '=']).filter(|at| *at > 0);
        let filter = match operator {
            None => Filter {
                left: JsonPath(action(text)?),
                operator: String::new(),
                right: None,
            },
            Some(at) => {
                let after = text[at..].trim_start_matches(['!', '<', '>', '=']);
                Filter {
                    left: JsonPath(action(&text[..at])?),
                    operator: text[at..text.len() - after.len()].to_owned(),
                    right: Some(JsonPath(action(after)?)),
                }
            }
        };
        self.nodes.push(Node::Filter(filter));
        Some(())
    }
}

/// The string that `text` begins with, and what follows it.
fn string(text: &str, quote: char) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut letters = text.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\n' => return None,
            '\\' => out.push(match letters.next()?.1 {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                other => other,
            }),
            letter if letter == quote => return Some((out, &text[at + letter.len_utf8()..])),
            letter => out.push(letter),
        }
    }
    None
}

/// `*`, `index` or `start:end:step`, each part optional.
fn slice(text: &str) -> Option<Slice> {
    let text = if text == "*" { ":" } else { text };
    let parts: Vec<&str> = text.split(':').collect();
    let number = |at: usize| match parts.get(at).copied().unwrap_or_default() {
        "" => Some(None),
        digits => digits.parse::<i64>().ok().map(Some),
    };
    let (start, end, step) = (number(0)?, number(1)?, number(2)?);
    if parts.len() > 3 || (parts.len() == 1 && start.is_none()) {
        return None;
    }
    let is_index = parts.len() == 1;
    Some(Slice {
        start,
        end: if is_index {
            // As Go's integers do: the index itself is out of any range then.
            start.map(|start| start.wrapping_add(1))
        } else {
            end
        },
        step,
        is_index,
    })
}
