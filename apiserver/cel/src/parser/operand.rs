//! Reads the operands of operators: names, calls, literals.

use super::{OPERAND, Parsed, Parser, Stop, is_number, starts_operand};
use crate::{
    ast::{Call, Element, Entry, Expr, ExprKind, MessageField},
    lexer::{RESERVED, Token, TokenKind, unquote},
    macros,
    value::Value,
};

/// The tokens that start an item or end a list.
const ITEM: &str = "'[', ']', '{', '(', '.', ',', '-', '!', '?', 'true', 'false', 'null', \
                    NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER";

/// The tokens that start an entry or end a map.
const ENTRY: &str = "'[', '{', '}', '(', '.', ',', '-', '!', '?', 'true', 'false', 'null', \
                     NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER";

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> Parsed {
        let token = self.peek();
        match token.kind {
            TokenKind::Symbol("(") => {
                self.take();
                let inner = self.expr()?;
                self.expect(")")?;
                Ok(inner)
            }
            TokenKind::Symbol("[") => self.list(),
            TokenKind::Symbol("{") => self.map(),
            TokenKind::Symbol(".") if self.after(1).kind == TokenKind::Ident => {
                self.take();
                self.name(true)
            }
            TokenKind::Ident => self.name(false),
            TokenKind::Symbol(word @ ("true" | "false" | "null")) => {
                self.take();
                let value = if word == "null" {
                    Value::Null
                } else {
                    Value::Bool(word == "true")
                };
                Ok(self.builder.node(token.start, ExprKind::Literal(value)))
            }
            TokenKind::Symbol("-") if is_number(self.after(1)) => {
                self.take();
                Ok(self.number(token.start, "-"))
            }
            TokenKind::Int | TokenKind::Uint | TokenKind::Double => {
                Ok(self.number(token.start, ""))
            }
            TokenKind::String | TokenKind::Bytes => Ok(self.literal_text()),
            _ => self.no_operand(token),
        }
    }

    /// Recovers from a missing operand: continues after that place, or stops.
    fn no_operand(&mut self, token: Token) -> Parsed {
        if let TokenKind::Symbol(symbol @ ("." | "-" | "!")) = token.kind {
            self.take();
            let next = self.text(self.peek());
            self.syntax_error(format!("no viable alternative at input '{symbol}{next}'"));
            return Err(Stop);
        }
        self.sync_operand(OPERAND);
        let operator = matches!(
            token.kind,
            TokenKind::Symbol(
                "==" | "!="
                    | "<"
                    | "<="
                    | ">"
                    | ">="
                    | "in"
                    | "&&"
                    | "||"
                    | "+"
                    | "*"
                    | "/"
                    | "%"
                    | "?"
            )
        );
        if operator && self.peek().start == token.start {
            Ok(self
                .builder
                .node(token.start, ExprKind::Literal(Value::Null)))
        } else if starts_operand(self.peek()) {
            self.unary()
        } else {
            Err(Stop)
        }
    }

    fn number(&mut self, start: usize, sign: &str) -> Expr {
        let token = self.take();
        let text = self.text(token);
        let digits = text.trim_end_matches(['u', 'U']);
        let (radix, digits) = match digits.strip_prefix("0x") {
            Some(hex) if token.kind != TokenKind::Double => (16, hex),
            _ => (10, digits),
        };
        let signed = format!("{sign}{digits}");
        let (what, value) = match token.kind {
            TokenKind::Uint => (
                "uint",
                u64::from_str_radix(digits, radix).ok().map(Value::Uint),
            ),
            TokenKind::Double => {
                let number = format!("{sign}{text}")
                    .parse()
                    .ok()
                    .filter(|n: &f64| n.is_finite());
                ("double", number.map(Value::Double))
            }
            _ => (
                "int",
                i64::from_str_radix(&signed, radix).ok().map(Value::Int),
            ),
        };
        if value.is_none() {
            self.builder
                .issues
                .report(start, format!("invalid {what} literal"));
        }
        self.builder
            .node(start, ExprKind::Literal(value.unwrap_or(Value::Null)))
    }

    fn literal_text(&mut self) -> Expr {
        let token = self.take();
        let bytes = unquote(&self.text(token));
        let value = match (token.kind, bytes) {
            (TokenKind::Bytes, Some(bytes)) => Some(Value::Bytes(bytes.into())),
            (_, Some(bytes)) => String::from_utf8(bytes)
                .ok()
                .map(|text| Value::string(&text)),
            (_, None) => None,
        };
        if value.is_none() {
            self.builder
                .issues
                .report(token.start, "unable to unescape string");
        }
        self.builder
            .node(token.start, ExprKind::Literal(value.unwrap_or(Value::Null)))
    }

    /// A variable, a call of a function, or a message literal.
    fn name(&mut self, absolute: bool) -> Parsed {
        let token = self.take();
        let word = self.text(token);
        let prefix = if absolute { "." } else { "" };
        if let Some(fields) = self.message_ahead() {
            return self.message(format!("{prefix}{word}"), fields);
        }
        let reserved = RESERVED.contains(&word.as_str());
        if reserved {
            let start = if absolute {
                token.start - 1
            } else {
                token.start
            };
            self.builder
                .issues
                .report(start, format!("reserved identifier: {word}"));
        }
        let function = format!("{prefix}{word}");
        if let Some(open) = self.take_if("(") {
            let args = self.arguments()?;
            let call = Call {
                function: function.into(),
                target: None,
                args,
            };
            return Ok(macros::expand(&mut self.builder, open.start, call));
        }
        let kind = match reserved {
            true => ExprKind::Literal(Value::Null),
            false => ExprKind::Ident(function.into()),
        };
        Ok(self.builder.node(token.start, kind))
    }

    /// How many `.name` stand before a brace that follows, if one does.
    fn message_ahead(&self) -> Option<usize> {
        let mut names = 0;
        while self.after(2 * names).kind == TokenKind::Symbol(".")
            && self.after(2 * names + 1).kind == TokenKind::Ident
        {
            names += 1;
        }
        (self.after(2 * names).kind == TokenKind::Symbol("{")).then_some(names)
    }

    fn message(&mut self, mut type_name: String, names: usize) -> Parsed {
        for _ in 0..names {
            self.take();
            let name = self.take();
            type_name = format!("{type_name}.{}", self.text(name));
        }
        let open = self.take();
        let mut fields = Vec::new();
        while !self.is("}") {
            let optional = self.take_if("?").is_some();
            let name = self.peek();
            if name.kind != TokenKind::Ident {
                let shown = self.shown(name);
                let expected = if fields.is_empty() {
                    "'}', ',', '?', "
                } else {
                    ""
                };
                self.syntax_error(format!(
                    "mismatched input '{shown}' expecting {{{expected}IDENTIFIER, ESC_IDENTIFIER}}"
                ));
                return Err(Stop);
            }
            self.take();
            let colon = self.expect(":")?;
            let value = self.expr()?;
            fields.push(MessageField {
                offset: colon.start,
                name: self.text(name),
                value,
                optional,
            });
            if self.take_if(",").is_none() {
                break;
            }
        }
        self.expect("}")?;
        Ok(self
            .builder
            .node(open.start, ExprKind::Message { type_name, fields }))
    }

    fn list(&mut self) -> Parsed {
        let open = self.take();
        let mut items = Vec::new();
        while !self.is("]") {
            if self.is(",") && items.is_empty() {
                self.take();
                break;
            }
            let optional = self.take_if("?").is_some();
            if items.is_empty() && !optional {
                self.sync_operand(ITEM);
            }
            items.push(Element {
                value: self.expr()?,
                optional,
            });
            if self.take_if(",").is_none() {
                break;
            }
            // The list might end behind any comma.
            if self.shown(self.peek()) == "<EOF>" {
                self.syntax_error("missing ']' at '<EOF>'".to_owned());
                return Err(Stop);
            }
        }
        self.close("]", "']', ','")?;
        Ok(self.builder.node(open.start, ExprKind::List(items)))
    }

    fn map(&mut self) -> Parsed {
        let open = self.take();
        let mut entries = Vec::new();
        while !self.is("}") {
            if self.is(",") && entries.is_empty() {
                self.take();
                break;
            }
            let optional = self.take_if("?").is_some();
            if entries.is_empty() && !optional {
                self.sync_operand(ENTRY);
            }
            let key = self.expr()?;
            self.expect(":")?;
            entries.push(Entry {
                key,
                value: self.expr()?,
                optional,
            });
            if self.take_if(",").is_none() {
                break;
            }
        }
        self.close("}", "'}', ','")?;
        Ok(self.builder.node(open.start, ExprKind::Map(entries)))
    }

    /// Takes the bracket that ends a literal.
    fn close(&mut self, symbol: &'static str, expected: &str) -> Parsed<()> {
        if self.take_if(symbol).is_some() {
            return Ok(());
        }
        let shown = self.shown(self.peek());
        let next = self.after(1).kind;
        if next == TokenKind::Symbol(symbol) {
            self.syntax_error(format!(
                "extraneous input '{shown}' expecting {{{expected}}}"
            ));
            self.skip();
            self.take();
            return Ok(());
        }
        self.syntax_error(format!(
            "mismatched input '{shown}' expecting {{{expected}}}"
        ));
        Err(Stop)
    }
}
