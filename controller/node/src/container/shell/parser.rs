//! The shell's parser: a recursive-descent parser from text to commands.

use std::sync::Arc;

use super::{Command, Part, PartValue, Redirect, RedirectKind, Simple, Word};

/// The maximum depth of nested commands and substitutions.
const DEPTH_MAX: usize = 64;
/// Words that end a list of commands.
const CLOSING: [&str; 7] = ["then", "elif", "else", "fi", "do", "done", "}"];

/// An error in the syntax of a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Syntax error: {0}")]
pub(crate) struct SyntaxError(String);

impl SyntaxError {
    /// Returns whether more text could complete the script.
    pub(crate) fn is_incomplete(&self) -> bool {
        matches!(&*self.0, END_UNEXPECTED | UNTERMINATED | UNCLOSED)
    }
}

const END_UNEXPECTED: &str = "end of file unexpected";
const UNTERMINATED: &str = "Unterminated quoted string";
const UNCLOSED: &str = "Missing '))'";

type Parsed<T> = Result<T, SyntaxError>;

/// Parses a script.
///
/// # Errors
/// [`SyntaxError`] for a script that is not valid or uses unsupported grammar.
pub(crate) fn parse(script: &str) -> Parsed<Command> {
    let mut parser = Parser {
        text: script.chars().collect(),
        at: 0,
        depth: 0,
    };
    let command = parser.list()?;
    match parser.peek() {
        None => Ok(command),
        Some(_) => Err(parser.unexpected()),
    }
}

struct Parser {
    text: Vec<char>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn starts_with(&self, what: &str) -> bool {
        let mut at = self.at;
        what.chars().all(|wanted| {
            at += 1;
            self.text.get(at - 1) == Some(&wanted)
        })
    }

    fn eat(&mut self, what: &str) -> bool {
        let found = self.starts_with(what);
        if found {
            self.at += what.chars().count();
        }
        found
    }

    fn unexpected(&self) -> SyntaxError {
        let rest: String = self.text[self.at..].iter().take(20).collect();
        let token = rest.split_whitespace().next().unwrap_or("end of file");
        SyntaxError(if rest.is_empty() {
            END_UNEXPECTED.to_owned()
        } else {
            format!("\"{token}\" unexpected")
        })
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEPTH_MAX {
            return Err(SyntaxError("too deeply nested".to_owned()));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Skips blanks, escaped line ends and comments.
    fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\r') => self.at += 1,
                Some('\\') if self.text.get(self.at + 1) == Some(&'\n') => self.at += 2,
                Some('#') if self.at == 0 || self.text[self.at - 1].is_whitespace() => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn skip_lines(&mut self) {
        loop {
            self.skip_blanks();
            if self.peek() != Some('\n') {
                return;
            }
            self.at += 1;
        }
    }

    /// Returns the bare word ahead, if it can be a reserved word.
    fn reserved(&self) -> Option<String> {
        let rest = &self.text[self.at..];
        let end = rest
            .iter()
            .position(|c| c.is_whitespace() || ";&|()<>\"'$`\\".contains(*c))
            .unwrap_or(rest.len());
        let word: String = rest[..end].iter().collect();
        (!word.is_empty()).then_some(word)
    }

    fn expect(&mut self, word: &str) -> Parsed<()> {
        self.skip_lines();
        if self.reserved().as_deref() == Some(word) {
            self.at += word.len();
            return Ok(());
        }
        Err(self.unexpected())
    }

    /// Parses commands up to a closing word, a closing bracket or the end.
    fn list(&mut self) -> Parsed<Command> {
        self.deeper(|parser| {
            let mut commands = Vec::new();
            loop {
                parser.skip_lines();
                if parser.at_end_of_list() {
                    break;
                }
                let mut command = parser.and_or()?;
                parser.skip_blanks();
                if parser.peek() == Some('&') && !parser.starts_with("&&") {
                    parser.at += 1;
                    command = Command::Background(Box::new(command));
                    commands.push(command);
                    continue;
                }
                commands.push(command);
                if !(parser.eat(";") || parser.eat("\n")) {
                    break;
                }
            }
            Ok(match commands.len() {
                1 => commands.remove(0),
                _ => Command::Sequence(commands),
            })
        })
    }

    fn at_end_of_list(&self) -> bool {
        match self.peek() {
            None | Some(')' | '`') => true,
            Some(_) => self
                .reserved()
                .is_some_and(|word| CLOSING.contains(&word.as_str())),
        }
    }

    fn and_or(&mut self) -> Parsed<Command> {
        let mut left = self.pipeline()?;
        loop {
            self.skip_blanks();
            let join: fn(Box<Command>, Box<Command>) -> Command = if self.eat("&&") {
                Command::And
            } else if self.eat("||") {
                Command::Or
            } else {
                return Ok(left);
            };
            self.skip_lines();
            left = join(Box::new(left), Box::new(self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Parsed<Command> {
        self.skip_blanks();
        if self.reserved().as_deref() == Some("!") {
            self.at += 1;
            return Ok(Command::Not(Box::new(self.pipeline()?)));
        }
        let mut commands = vec![self.command()?];
        loop {
            self.skip_blanks();
            if self.starts_with("||") || !self.eat("|") {
                break;
            }
            self.skip_lines();
            commands.push(self.command()?);
        }
        Ok(match commands.len() {
            1 => commands.remove(0),
            _ => Command::Pipeline(commands),
        })
    }

    fn command(&mut self) -> Parsed<Command> {
        self.skip_blanks();
        if self.eat("(") {
            return self.group(")", true);
        }
        match self.reserved().as_deref() {
            Some("{") => {
                self.at += 1;
                self.group("}", false)
            }
            Some("for") => self.for_loop(),
            Some("while") => self.while_loop(false),
            Some("until") => self.while_loop(true),
            Some("if") => self.conditional(),
            _ => match self.function_name() {
                Some(name) => {
                    self.skip_lines();
                    let body = Arc::new(self.deeper(Self::command)?);
                    Ok(Command::Function { name, body })
                }
                None => self.simple(),
            },
        }
    }

    /// Consumes a `name()` ahead and returns its name.
    fn function_name(&mut self) -> Option<String> {
        let start = self.at;
        let name = self.name();
        self.skip_blanks();
        if !name.is_empty() && self.eat("(") {
            self.skip_blanks();
            if self.eat(")") {
                return Some(name);
            }
        }
        self.at = start;
        None
    }

    fn group(&mut self, closing: &str, subshell: bool) -> Parsed<Command> {
        let body = Box::new(self.list()?);
        self.skip_lines();
        if !self.eat(closing) {
            return Err(self.unexpected());
        }
        let mut redirects = Vec::new();
        while let Some(redirect) = self.redirect()? {
            redirects.push(redirect);
        }
        Ok(Command::Group {
            body,
            redirects,
            subshell,
        })
    }

    fn for_loop(&mut self) -> Parsed<Command> {
        self.expect("for")?;
        self.skip_blanks();
        let name = self.name();
        if name.is_empty() {
            return Err(self.unexpected());
        }
        self.expect("in")?;
        let mut words = Vec::new();
        loop {
            self.skip_blanks();
            match self.word()? {
                Some(word) => words.push(word),
                None => break,
            }
        }
        if !(self.eat(";") || self.eat("\n")) {
            return Err(self.unexpected());
        }
        let body = self.body()?;
        Ok(Command::For { name, words, body })
    }

    fn while_loop(&mut self, until: bool) -> Parsed<Command> {
        self.expect(if until { "until" } else { "while" })?;
        let condition = Box::new(self.list()?);
        let body = self.body()?;
        Ok(Command::While {
            condition,
            body,
            until,
        })
    }

    fn body(&mut self) -> Parsed<Box<Command>> {
        self.expect("do")?;
        let body = Box::new(self.list()?);
        self.expect("done")?;
        Ok(body)
    }

    fn conditional(&mut self) -> Parsed<Command> {
        self.expect("if")?;
        let mut branches = Vec::new();
        let mut otherwise = None;
        loop {
            let condition = self.list()?;
            self.expect("then")?;
            branches.push((condition, self.list()?));
            self.skip_lines();
            match self.reserved().as_deref() {
                Some("elif") => self.at += 4,
                Some("else") => {
                    self.at += 4;
                    otherwise = Some(Box::new(self.list()?));
                    break;
                }
                _ => break,
            }
        }
        self.expect("fi")?;
        Ok(Command::If {
            branches,
            otherwise,
        })
    }

    fn simple(&mut self) -> Parsed<Command> {
        let mut simple = Simple::default();
        loop {
            self.skip_blanks();
            if let Some(redirect) = self.redirect()? {
                simple.redirects.push(redirect);
                continue;
            }
            if simple.words.is_empty()
                && let Some(name) = self.assigned_name()
            {
                let value = self.word()?.unwrap_or_default();
                simple.assignments.push((name, value));
                continue;
            }
            match self.word()? {
                Some(word) => simple.words.push(word),
                None => break,
            }
        }
        if simple == Simple::default() {
            return Err(self.unexpected());
        }
        Ok(Command::Simple(simple))
    }

    fn name(&mut self) -> String {
        let start = self.at;
        while self
            .peek()
            .is_some_and(|c| c == '_' || c.is_ascii_alphanumeric())
        {
            self.at += 1;
        }
        self.text[start..self.at].iter().collect()
    }

    /// Consumes a `NAME=` ahead and returns its name.
    fn assigned_name(&mut self) -> Option<String> {
        let start = self.at;
        let name = self.name();
        let named = name.chars().next().is_some_and(|c| !c.is_ascii_digit());
        if named && self.eat("=") {
            return Some(name);
        }
        self.at = start;
        None
    }

    fn redirect(&mut self) -> Parsed<Option<Redirect>> {
        self.skip_blanks();
        let start = self.at;
        let digit = self.peek().and_then(|c| c.to_digit(10));
        if digit.is_some() {
            self.at += 1;
        }
        let (kind, standard) = if self.eat(">>") {
            (RedirectKind::Append, 1)
        } else if self.eat(">&") {
            (RedirectKind::Duplicate, 1)
        } else if self.eat(">") {
            (RedirectKind::Write, 1)
        } else if self.starts_with("<<") {
            return Err(SyntaxError("here-documents are not supported".to_owned()));
        } else if self.eat("<") {
            (RedirectKind::Read, 0)
        } else {
            self.at = start;
            return Ok(None);
        };
        self.skip_blanks();
        let target = self.word()?.ok_or_else(|| self.unexpected())?;
        Ok(Some(Redirect {
            descriptor: digit.unwrap_or(standard),
            kind,
            target,
        }))
    }

    /// Parses the next word; `None` at an operator, a line end or the end of the text.
    fn word(&mut self) -> Parsed<Option<Word>> {
        let mut word = Word::new();
        let mut quotes = false;
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                '\'' => {
                    self.at += 1;
                    quotes = true;
                    let text = self.until('\'')?;
                    push_text(&mut word, &text, true);
                }
                '"' => {
                    self.at += 1;
                    quotes = true;
                    self.double_quoted(&mut word)?;
                }
                '\\' => {
                    self.at += 1;
                    if let Some(escaped) = self.peek() {
                        self.at += 1;
                        if escaped != '\n' {
                            push_text(&mut word, &escaped.to_string(), true);
                        }
                    }
                }
                '$' | '`' => self.expansion(&mut word, false)?,
                c => {
                    self.at += 1;
                    push_text(&mut word, &c.to_string(), false);
                }
            }
        }
        if word.is_empty() && quotes {
            push_text(&mut word, "", true);
        }
        Ok((!word.is_empty()).then_some(word))
    }

    fn until(&mut self, closing: char) -> Parsed<String> {
        let start = self.at;
        while let Some(c) = self.peek() {
            self.at += 1;
            if c == closing {
                return Ok(self.text[start..self.at - 1].iter().collect());
            }
        }
        Err(SyntaxError(UNTERMINATED.to_owned()))
    }

    fn double_quoted(&mut self, word: &mut Word) -> Parsed<()> {
        push_text(word, "", true);
        loop {
            match self.peek() {
                None => return Err(SyntaxError(UNTERMINATED.to_owned())),
                Some('"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('$' | '`') => self.expansion(word, true)?,
                Some('\\') => {
                    self.at += 1;
                    let escaped = self.peek().unwrap_or('\\');
                    self.at += 1;
                    match escaped {
                        '\n' => {}
                        '"' | '$' | '`' | '\\' => push_text(word, &escaped.to_string(), true),
                        other => push_text(word, &format!("\\{other}"), true),
                    }
                }
                Some(c) => {
                    self.at += 1;
                    push_text(word, &c.to_string(), true);
                }
            }
        }
    }

    fn expansion(&mut self, word: &mut Word, quoted: bool) -> Parsed<()> {
        let value = if self.eat("`") {
            let inner = self.until('`')?;
            let parsed = self.deeper(|_| parse(&inner))?;
            PartValue::Output(Box::new(parsed))
        } else if self.eat("$((") {
            let start = self.at;
            while self.peek().is_some() && !self.starts_with("))") {
                self.at += 1;
            }
            let inner: String = self.text[start..self.at].iter().collect();
            if !self.eat("))") {
                return Err(SyntaxError(UNCLOSED.to_owned()));
            }
            PartValue::Arithmetic(vec![Part {
                value: PartValue::Text(inner),
                quoted: true,
            }])
        } else if self.eat("$(") {
            let inner = self.list()?;
            self.skip_lines();
            if !self.eat(")") {
                return Err(self.unexpected());
            }
            PartValue::Output(Box::new(inner))
        } else if self.eat("${") {
            self.braced()?
        } else {
            self.at += 1;
            let special = self.peek().filter(|c| "?#@*$!0123456789".contains(*c));
            let name = match special {
                Some(c) => {
                    self.at += 1;
                    c.to_string()
                }
                None => self.name(),
            };
            if name.is_empty() {
                push_text(word, "$", quoted);
                return Ok(());
            }
            PartValue::Variable {
                name,
                default: None,
            }
        };
        word.push(Part { value, quoted });
        Ok(())
    }

    /// Parses the rest of `${name}` or `${name:-default}`.
    fn braced(&mut self) -> Parsed<PartValue> {
        let name = self.name();
        let default = if self.eat(":-") || self.eat("-") {
            let text = self.until('}')?;
            let inner = Parser {
                text: text.chars().collect(),
                at: 0,
                depth: self.depth + 1,
            };
            Some(inner.whole_word()?)
        } else if self.eat("}") {
            None
        } else {
            return Err(SyntaxError("Bad substitution".to_owned()));
        };
        Ok(PartValue::Variable { name, default })
    }

    fn whole_word(mut self) -> Parsed<Word> {
        let mut word = Word::new();
        while self.peek().is_some() {
            match self.word()? {
                Some(parts) => word.extend(parts),
                None => {
                    let c = self.text[self.at];
                    self.at += 1;
                    push_text(&mut word, &c.to_string(), true);
                }
            }
        }
        Ok(word)
    }
}

/// Appends text to the word, merging it into the last part if both are quoted alike.
fn push_text(word: &mut Word, text: &str, quoted: bool) {
    if let Some(Part {
        value: PartValue::Text(last),
        quoted: same,
    }) = word.last_mut()
        && *same == quoted
    {
        last.push_str(text);
        return;
    }
    word.push(Part {
        value: PartValue::Text(text.to_owned()),
        quoted,
    });
}
