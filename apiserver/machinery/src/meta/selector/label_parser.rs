//! The query form of label selectors.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::vec::IntoIter;

use super::SelectorError;
use super::requirement::{Operator, Requirement};
use crate::meta::validation::qualified_name;
use crate::status::quoted;

const SYMBOLS: &[char] = &['=', '!', '(', ')', ',', '>', '<'];
const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// A token keeps its text for error messages.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// One of the symbols of the grammar.
    Symbol(&'static str),
    /// A key, a value, or one of the words `in` and `notin`.
    Word(String),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Symbol(text) => text,
            Self::Word(text) => text,
            Self::End => "",
        }
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self, Self::Symbol(text) if *text == symbol)
    }

    fn starts_requirement(&self) -> bool {
        matches!(self, Self::Word(_)) || self.is("!")
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn tokens(mut rest: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    loop {
        rest = rest.trim_start_matches(is_space);
        let Some(first) = rest.chars().next() else {
            tokens.push(Token::End);
            return tokens;
        };
        let length = if SYMBOLS.contains(&first) {
            let known = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
            let symbol = known.into_iter().find(|symbol| rest.starts_with(symbol));
            let symbol = symbol.expect("each single symbol is known");
            tokens.push(Token::Symbol(symbol));
            symbol.len()
        } else {
            let end = rest.find(|c| is_space(c) || SYMBOLS.contains(&c));
            let word = &rest[..end.unwrap_or(rest.len())];
            tokens.push(Token::Word(word.to_owned()));
            word.len()
        };
        rest = &rest[length..];
    }
}

struct Parser {
    tokens: Peekable<IntoIter<Token>>,
}

/// The requirements in the order written.
pub(super) fn parse(selector: &str) -> Result<Vec<Requirement>, SelectorError> {
    let tokens = tokens(selector).into_iter().peekable();
    Parser { tokens }.requirements().map_err(SelectorError)
}

impl Parser {
    fn peek(&mut self) -> Token {
        self.tokens.peek().cloned().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token {
        self.tokens.next().unwrap_or(Token::End)
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            let token = self.peek();
            if token == Token::End {
                return Ok(requirements);
            }
            if !token.starts_requirement() {
                let found = token.text();
                return Err(format!(
                    "found '{found}', expected: !, identifier, or 'end of string'"
                ));
            }
            let requirement = self
                .requirement()
                .map_err(|fault| format!("unable to parse requirement: {fault}"))?;
            requirements.push(requirement);
            let token = self.next();
            if token == Token::End {
                return Ok(requirements);
            }
            if !token.is(",") {
                let found = token.text();
                return Err(format!("found '{found}', expected: ',' or 'end of string'"));
            }
            let token = self.peek();
            if !token.starts_requirement() {
                let found = token.text();
                return Err(format!("found '{found}', expected: identifier after ','"));
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let mut token = self.next();
        let negated = token.is("!");
        if negated {
            token = self.next();
        }
        let Token::Word(key) = token else {
            return Err(format!("found '{}', expected: identifier", token.text()));
        };
        let faults = qualified_name(&key);
        if !faults.is_empty() {
            // Upstream has no path for the key of a query and prints that.
            let faults = faults.join("; ");
            return Err(format!("<nil>: Invalid value: {}: {faults}", quoted(&key)));
        }
        let token = self.peek();
        let (operator, values) = if negated {
            (Operator::DoesNotExist, BTreeSet::new())
        } else if token == Token::End || token.is(",") {
            (Operator::Exists, BTreeSet::new())
        } else {
            let operator = self.operator()?;
            let values = match operator {
                Operator::In | Operator::NotIn => self.values()?,
                _ => self.exact_value()?,
            };
            (operator, values)
        };
        Requirement::try_new(&key, operator, values.into_iter().collect()).map_err(|error| error.0)
    }

    fn operator(&mut self) -> Result<Operator, String> {
        let token = self.next();
        Ok(match token.text() {
            "in" => Operator::In,
            "notin" => Operator::NotIn,
            "=" => Operator::Equals,
            "==" => Operator::DoubleEquals,
            "!=" => Operator::NotEquals,
            ">" => Operator::GreaterThan,
            "<" => Operator::LessThan,
            found => return Err(format!("found '{found}', expected: {OPERATORS}")),
        })
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let token = self.next();
        if !token.is("(") {
            return Err(format!("found '{}' expected: '('", token.text()));
        }
        let token = self.peek();
        if token.is(")") {
            self.next();
            return Ok(BTreeSet::from([String::new()]));
        }
        if !matches!(token, Token::Word(_)) && !token.is(",") {
            let found = token.text();
            return Err(format!("found '{found}', expected: ',', ')' or identifier"));
        }
        let mut values = BTreeSet::new();
        loop {
            let token = self.next();
            let following = self.peek();
            match token {
                Token::Word(value) => {
                    values.insert(value);
                    if !following.is(",") && !following.is(")") {
                        let found = following.text();
                        return Err(format!("found '{found}', expected: ',' or ')'"));
                    }
                }
                _ if token.is(",") => {
                    // An empty value may be before, between or after commas.
                    if values.is_empty() || following.is(",") || following.is(")") {
                        values.insert(String::new());
                    }
                }
                _ => {
                    let found = token.text();
                    return Err(format!("found '{found}', expected: ',', or identifier"));
                }
            }
            if following.is(")") {
                self.next();
                return Ok(values);
            }
        }
    }

    fn exact_value(&mut self) -> Result<BTreeSet<String>, String> {
        let token = self.peek();
        if token == Token::End || token.is(",") {
            return Ok(BTreeSet::from([String::new()]));
        }
        match self.next() {
            Token::Word(value) => Ok(BTreeSet::from([value])),
            token => Err(format!("found '{}', expected: identifier", token.text())),
        }
    }
}
