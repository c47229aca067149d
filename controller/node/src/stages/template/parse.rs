//! The parser of templates: from text to nodes.

use std::collections::BTreeMap;

use kubeproof_machinery::json::Value;

use super::{Block, Branch, Node, Operand, Pipeline, Template};

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(String),
    /// The text between the braces.
    Action(String),
}

/// The end of a list of nodes.
enum Stop {
    End,
    /// An `else`, with the text after it.
    Else(String),
    Text,
}

pub(super) fn parse(text: &str) -> Result<Template, String> {
    let mut parser = Parser {
        pieces: pieces(text)?.into_iter(),
        defined: BTreeMap::new(),
    };
    let (body, end) = parser.nodes()?;
    match end {
        Stop::Text => Ok(Template {
            body,
            defined: parser.defined,
        }),
        Stop::End | Stop::Else(_) => Err("an end or else without its beginning".to_owned()),
    }
}

fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut trims = false;
    loop {
        let (before, action) = match rest.split_once("{{") {
            Some((before, action)) => (before, Some(action)),
            None => (rest, None),
        };
        let mut before = if trims { before.trim_start() } else { before };
        let mut action = action;
        if let Some(trimmed) = action.and_then(|action| action.strip_prefix("- ")) {
            before = before.trim_end();
            action = Some(trimmed);
        }
        if !before.is_empty() {
            pieces.push(Piece::Text(before.to_owned()));
        }
        let Some(action) = action else {
            return Ok(pieces);
        };
        let end = action_end(action).ok_or("an action that does not end")?;
        let (inner, after) = (&action[..end], &action[end + 2..]);
        trims = inner.ends_with(" -");
        let inner = inner.strip_suffix(" -").unwrap_or(inner).trim();
        if !(inner.starts_with("/*") && inner.ends_with("*/")) {
            pieces.push(Piece::Action(inner.to_owned()));
        }
        rest = after;
    }
}

/// Returns the offset of the closing braces, ignoring those in strings.
fn action_end(action: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in action.char_indices() {
        match quote {
            Some('"') if escaped => escaped = false,
            Some('"') if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '"' || c == '`' => quote = Some(c),
            None if action[at..].starts_with("}}") => return Some(at),
            None => {}
        }
    }
    None
}

struct Parser {
    pieces: std::vec::IntoIter<Piece>,
    defined: BTreeMap<String, Vec<Node>>,
}

impl Parser {
    fn nodes(&mut self) -> Result<(Vec<Node>, Stop), String> {
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.next() {
            let action = match piece {
                Piece::Text(text) => {
                    nodes.push(Node::Text(text));
                    continue;
                }
                Piece::Action(action) => action,
            };
            let (word, rest) = action
                .split_once(char::is_whitespace)
                .map_or((action.as_str(), ""), |(word, rest)| (word, rest.trim()));
            match word {
                "end" => return Ok((nodes, Stop::End)),
                "else" => return Ok((nodes, Stop::Else(rest.to_owned()))),
                "if" => nodes.push(Node::If(self.branches(rest)?)),
                "with" => nodes.push(Node::With(self.block(rest)?)),
                "range" => nodes.push(Node::Range(self.block(rest)?)),
                "define" => {
                    let (name, _) = template_name(rest)?;
                    let (body, _) = self.closed()?;
                    self.defined.insert(name, body);
                }
                "template" => {
                    let (name, rest) = template_name(rest)?;
                    let argument = (!rest.is_empty()).then(|| pipeline(&rest)).transpose()?;
                    nodes.push(Node::Template(name, argument));
                }
                "break" | "continue" | "block" => {
                    return Err(format!("{word} is not understood"));
                }
                _ => nodes.push(statement(&action)?),
            }
        }
        Ok((nodes, Stop::Text))
    }

    /// Parses the nodes up to an `end`, and those after an `else`.
    fn closed(&mut self) -> Result<(Vec<Node>, Vec<Node>), String> {
        let (body, end) = self.nodes()?;
        let otherwise = match end {
            Stop::End => Vec::new(),
            Stop::Else(rest) if rest.is_empty() => match self.nodes()? {
                (otherwise, Stop::End) => otherwise,
                _ => return Err("an else without its end".to_owned()),
            },
            Stop::Else(rest) => return Err(format!("else {rest} is not understood here")),
            Stop::Text => return Err("a beginning without its end".to_owned()),
        };
        Ok((body, otherwise))
    }

    fn branches(&mut self, condition: &str) -> Result<Vec<Branch>, String> {
        let mut branches = Vec::new();
        let mut condition = Some(pipeline(condition)?);
        loop {
            let (body, end) = self.nodes()?;
            let is_last = condition.is_none();
            branches.push((condition, body));
            condition = match end {
                Stop::End => return Ok(branches),
                Stop::Else(rest) if rest.is_empty() && !is_last => None,
                Stop::Else(rest) => match rest.strip_prefix("if ") {
                    Some(rest) if !is_last => Some(pipeline(rest)?),
                    _ => return Err("an else too many".to_owned()),
                },
                Stop::Text => return Err("an if without its end".to_owned()),
            };
        }
    }

    fn block(&mut self, head: &str) -> Result<Block, String> {
        let (variables, expression) = match head.split_once(":=") {
            Some((names, expression)) => (names, expression),
            None => ("", head),
        };
        let variables = variables.split(',').map(str::trim);
        let variables = variables.filter(|name| !name.is_empty());
        let variables: Vec<String> = variables.map(str::to_owned).collect();
        let pipeline = pipeline(expression)?;
        let (body, otherwise) = self.closed()?;
        Ok(Block {
            variables,
            pipeline,
            body,
            otherwise,
        })
    }
}

/// Parses the quoted name at the start. Returns it and the rest.
fn template_name(text: &str) -> Result<(String, String), String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let name = values.next().and_then(Result::ok);
    let name = name.ok_or_else(|| format!("{text:?} names no template"))?;
    let rest = text[values.byte_offset()..].trim();
    Ok((name, rest.to_owned()))
}

/// Parses an assignment, or a pipeline whose result is rendered.
fn statement(action: &str) -> Result<Node, String> {
    if action.starts_with('$') {
        for (sign, declares) in [(":=", true), ("=", false)] {
            let Some((name, rest)) = action.split_once(sign) else {
                continue;
            };
            let name = name.trim();
            if name[1..]
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_')
            {
                return Ok(Node::Assign {
                    variable: name.to_owned(),
                    declares,
                    pipeline: pipeline(rest)?,
                });
            }
        }
    }
    Ok(Node::Show(pipeline(action)?))
}

fn pipeline(text: &str) -> Result<Pipeline, String> {
    let mut reader = Reader { rest: text };
    let pipeline = reader.pipeline()?;
    match reader.rest.trim() {
        "" => Ok(pipeline),
        rest => Err(format!("{rest:?} is not understood")),
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn pipeline(&mut self) -> Result<Pipeline, String> {
        let mut commands = Vec::new();
        loop {
            let mut operands = Vec::new();
            while let Some(operand) = self.operand()? {
                operands.push(operand);
            }
            if operands.is_empty() {
                return Err(format!("a value is missing at {:?}", self.rest));
            }
            commands.push(operands);
            match self.rest.strip_prefix('|') {
                Some(rest) => self.rest = rest,
                None => return Ok(commands),
            }
        }
    }

    fn operand(&mut self) -> Result<Option<Operand>, String> {
        self.rest = self.rest.trim_start();
        let Some(first) = self.rest.chars().next() else {
            return Ok(None);
        };
        let operand = match first {
            '|' | ')' => return Ok(None),
            '(' => {
                self.rest = &self.rest[1..];
                let inner = self.pipeline()?;
                let rest = self.rest.strip_prefix(')');
                self.rest = rest.ok_or("a parenthesis that does not close")?;
                Operand::Group(inner, self.fields())
            }
            '.' => Operand::Field(self.fields()),
            '$' => {
                let name = format!("${}", self.word(1));
                Operand::Variable(name, self.fields())
            }
            '`' => {
                let inner = self.rest[1..].split_once('`');
                let (text, rest) = inner.ok_or("a string that does not end")?;
                self.rest = rest;
                Operand::Literal(Value::from(text))
            }
            '-' | '0'..='9' => {
                let end = self
                    .rest
                    .find(|c: char| c.is_whitespace() || "|)".contains(c));
                let (number, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
                let value = serde_json::from_str(number);
                self.rest = rest;
                Operand::Literal(value.map_err(|_| format!("{number:?} is not a number"))?)
            }
            '"' => {
                let mut values = serde_json::Deserializer::from_str(self.rest).into_iter();
                let value: Option<Value> = values.next().and_then(Result::ok);
                let value = value.ok_or_else(|| format!("{:?} is not a literal", self.rest))?;
                self.rest = &self.rest[values.byte_offset()..];
                Operand::Literal(value)
            }
            _ => match self.word(0).as_str() {
                "" => return Err(format!("{:?} is not understood", self.rest)),
                "true" => Operand::Literal(Value::Bool(true)),
                "false" => Operand::Literal(Value::Bool(false)),
                "nil" => Operand::Literal(Value::Null),
                name => Operand::Function(name.to_owned()),
            },
        };
        Ok(Some(operand))
    }

    /// Consumes the name after `skip` bytes.
    fn word(&mut self, skip: usize) -> String {
        let text = &self.rest[skip..];
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (word, rest) = text.split_at(end.unwrap_or(text.len()));
        self.rest = rest;
        word.to_owned()
    }

    /// Consumes the path `.a.b` ahead, without spaces; a dot alone is the empty path.
    fn fields(&mut self) -> Vec<String> {
        let mut fields = Vec::new();
        while self.rest.starts_with('.') {
            let name = self.word(1);
            if !name.is_empty() {
                fields.push(name);
            }
        }
        fields
    }
}
