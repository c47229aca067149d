//! Reads expressions. Syntax errors read as those of cel-go's generated parser.

mod operand;

use std::sync::Arc;

use super::{
    ast::{Call, Expr, ExprKind},
    builder::Builder,
    lexer::{Token, TokenKind, tokens},
    macros,
    source::{Issues, Source},
    value::Value,
};

/// How deep an expression may nest.
const DEPTH_MAX: usize = 250;

/// The longest expression, in characters.
const CHARS_MAX: usize = 100_000;

/// The tokens that start an operand.
const OPERAND: &str = "'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, \
                       NUM_UINT, STRING, BYTES, IDENTIFIER";

/// The tokens that start an operand or end a list of arguments.
const ARGUMENT: &str = "'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, \
                        NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER";

/// Reads the expression of `source`. `has_bindings` says whether `cel.bind` is a macro there.
pub(super) fn parse(source: &Source, has_bindings: bool) -> Result<Expr, Issues> {
    let mut issues = Issues::default();
    let size = source.chars().len();
    if size > CHARS_MAX {
        issues.report_whole(format!(
            "expression code point size exceeds limit: size: {size}, limit {CHARS_MAX}"
        ));
        return Err(issues);
    }
    let tokens = tokens(source, &mut issues);
    let mut parser = Parser {
        source,
        tokens,
        at: 0,
        depth: 0,
        recovering: false,
        builder: Builder::new(issues),
    };
    parser.builder.has_bindings = has_bindings;
    let parsed = parser.start();
    let issues = parser.builder.issues;
    match parsed {
        Ok(expr) if issues.is_empty() => Ok(expr),
        _ => Err(issues),
    }
}

/// Ends the reading of an expression; the issue is reported.
pub(super) struct Stop;

struct Parser<'s> {
    source: &'s Source,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// Whether an issue was reported and no token taken since.
    recovering: bool,
    builder: Builder,
}

type Parsed<T = Expr> = Result<T, Stop>;

impl Parser<'_> {
    fn start(&mut self) -> Parsed {
        let expr = self.expr()?;
        if self.peek().kind != TokenKind::End {
            let what = if self.after(1).kind == TokenKind::End {
                "extraneous"
            } else {
                "mismatched"
            };
            let shown = self.shown(self.peek());
            self.syntax_error(format!("{what} input '{shown}' expecting <EOF>"));
        }
        Ok(expr)
    }

    fn peek(&self) -> Token {
        self.after(0)
    }

    fn after(&self, count: usize) -> Token {
        self.tokens[(self.at + count).min(self.tokens.len() - 1)]
    }

    fn take(&mut self) -> Token {
        let token = self.peek();
        self.recovering = false;
        self.skip();
        token
    }

    fn skip(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    fn text(&self, token: Token) -> String {
        self.source.text(token.start, token.end)
    }

    fn shown(&self, token: Token) -> String {
        if token.kind == TokenKind::End {
            "<EOF>".to_owned()
        } else {
            self.text(token)
        }
    }

    fn is(&self, symbol: &'static str) -> bool {
        self.peek().kind == TokenKind::Symbol(symbol)
    }

    fn take_if(&mut self, symbol: &'static str) -> Option<Token> {
        self.is(symbol).then(|| self.take())
    }

    fn syntax_error(&mut self, message: String) {
        if !self.recovering {
            self.recovering = true;
            self.builder
                .issues
                .report(self.peek().start, format!("Syntax error: {message}"));
        }
    }

    /// Takes a closing `symbol`, or reports it as missing and continues as if it were present.
    fn expect(&mut self, symbol: &'static str) -> Parsed<Token> {
        if self.is(symbol) {
            return Ok(self.take());
        }
        let shown = self.shown(self.peek());
        if self.after(1).kind == TokenKind::Symbol(symbol) {
            self.syntax_error(format!("extraneous input '{shown}' expecting '{symbol}'"));
            self.skip();
            return Ok(self.take());
        }
        let inserted = matches!(
            self.peek().kind,
            TokenKind::End
                | TokenKind::Symbol(
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
                        | ":"
                        | ","
                        | "]"
                        | "}"
                        | ")"
                )
        );
        if inserted && symbol != ":" {
            self.syntax_error(format!("missing '{symbol}' at '{shown}'"));
            return Ok(self.peek());
        }
        self.syntax_error(format!("mismatched input '{shown}' expecting '{symbol}'"));
        Err(Stop)
    }

    fn descend<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == DEPTH_MAX || self.builder.is_full() {
            return self.too_deep();
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn too_deep<T>(&mut self) -> Parsed<T> {
        let message = format!("expression recursion limit exceeded: {DEPTH_MAX}");
        self.builder.issues.report_whole(message);
        Err(Stop)
    }

    fn expr(&mut self) -> Parsed {
        self.descend(|parser| {
            let condition = parser.logic("||", "_||_")?;
            let Some(mark) = parser.take_if("?") else {
                return Ok(condition);
            };
            let yes = parser.logic("||", "_||_")?;
            parser.expect(":")?;
            let no = parser.expr()?;
            Ok(parser
                .builder
                .call(mark.start, "_?_:_", vec![condition, yes, no]))
        })
    }

    /// Terms between `||`, or between `&&`.
    fn logic(&mut self, symbol: &'static str, function: &str) -> Parsed {
        let term = |parser: &mut Self| match symbol {
            "||" => parser.logic("&&", "_&&_"),
            _ => parser.binary(0),
        };
        let first = term(self)?;
        let Some(mark) = self.take_if(symbol) else {
            return Ok(first);
        };
        let mut args = vec![first, term(self)?];
        while self.take_if(symbol).is_some() {
            args.push(term(self)?);
        }
        Ok(self.builder.call(mark.start, function, args))
    }

    /// Operands between the operators of `level` and above.
    fn binary(&mut self, level: usize) -> Parsed {
        const LEVELS: [&[(&str, &str)]; 3] = [
            &[
                ("==", "_==_"),
                ("!=", "_!=_"),
                ("<", "_<_"),
                ("<=", "_<=_"),
                (">", "_>_"),
                (">=", "_>=_"),
                ("in", "@in"),
            ],
            &[("+", "_+_"), ("-", "_-_")],
            &[("*", "_*_"), ("/", "_/_"), ("%", "_%_")],
        ];
        let operand = |parser: &mut Self| match level {
            2 => parser.unary(),
            _ => parser.binary(level + 1),
        };
        let mut left = operand(self)?;
        let mut length = 0;
        while let TokenKind::Symbol(symbol) = self.peek().kind
            && let Some((_, function)) = LEVELS[level].iter().find(|(s, _)| *s == symbol)
        {
            length += 1;
            if length + self.depth > DEPTH_MAX {
                return self.too_deep();
            }
            let mark = self.take();
            let right = operand(self)?;
            left = self.builder.call(mark.start, function, vec![left, right]);
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed {
        self.sync_operand(OPERAND);
        let mark = self.peek();
        let symbol = match mark.kind {
            TokenKind::Symbol("!") => "!",
            // A sign directly before digits belongs to the literal.
            TokenKind::Symbol("-") if !is_number(self.after(1)) => "-",
            _ => return self.member(),
        };
        let mut count = 0;
        while self.is(symbol) && (symbol == "!" || !is_number(self.after(1)) || count % 2 == 0) {
            self.take();
            count += 1;
        }
        let operand = self.member()?;
        if count % 2 == 0 {
            return Ok(operand);
        }
        let function = if symbol == "!" { "!_" } else { "-_" };
        Ok(self.builder.call(mark.start, function, vec![operand]))
    }

    /// Drops a token that no operand starts with, if an operand follows it; else reports it.
    fn sync_operand(&mut self, expected: &str) {
        if starts_operand(self.peek()) {
            return;
        }
        let shown = self.shown(self.peek());
        if starts_operand(self.after(1)) {
            self.syntax_error(format!(
                "extraneous input '{shown}' expecting {{{expected}}}"
            ));
            self.skip();
        } else {
            self.syntax_error(format!(
                "mismatched input '{shown}' expecting {{{expected}}}"
            ));
        }
    }

    fn member(&mut self) -> Parsed {
        let mut expr = self.primary()?;
        let mut length = 0;
        loop {
            length += 1;
            if length + self.depth > DEPTH_MAX {
                return self.too_deep();
            }
            if let Some(dot) = self.take_if(".") {
                expr = self.select(dot, expr)?;
            } else if let Some(open) = self.take_if("[") {
                let function = if self.take_if("?").is_some() {
                    "_[?_]"
                } else {
                    "_[_]"
                };
                let index = self.expr()?;
                self.expect("]")?;
                expr = self.builder.call(open.start, function, vec![expr, index]);
            } else {
                return Ok(expr);
            }
        }
    }

    fn select(&mut self, dot: Token, operand: Expr) -> Parsed {
        let optional = self.take_if("?").is_some();
        let name = self.peek();
        match name.kind {
            TokenKind::Ident => {}
            TokenKind::EscapedIdent => {
                self.builder
                    .issues
                    .report(name.start, "unsupported syntax: '`'");
            }
            TokenKind::Symbol(word @ ("true" | "false" | "null")) if !optional => {
                self.syntax_error(format!("mismatched input '{word}' expecting IDENTIFIER"));
                return Err(Stop);
            }
            TokenKind::Symbol(_) if optional => {
                let shown = self.shown(name);
                self.syntax_error(format!("no viable alternative at input '.?{shown}'"));
                return Err(Stop);
            }
            _ => {
                let shown = self.text(name);
                self.syntax_error(format!("no viable alternative at input '.{shown}'"));
                return Err(Stop);
            }
        }
        self.take();
        let field: Arc<str> = self.text(name).into();
        if optional {
            let field = self
                .builder
                .node(name.start, ExprKind::Literal(Value::String(field)));
            return Ok(self.builder.call(dot.start, "_?._", vec![operand, field]));
        }
        if let Some(open) = self.take_if("(") {
            let args = self.arguments()?;
            let target = Some(Box::new(operand));
            let call = Call {
                function: field,
                target,
                args,
            };
            return Ok(macros::expand(&mut self.builder, open.start, call));
        }
        let kind = ExprKind::Select {
            operand: Box::new(operand),
            field,
            test_only: false,
        };
        Ok(self.builder.node(dot.start, kind))
    }

    /// The arguments of a call whose bracket is open.
    fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        let mut args = Vec::new();
        if self.take_if(")").is_some() {
            return Ok(args);
        }
        self.sync_operand(ARGUMENT);
        args.push(self.expr()?);
        while self.take_if(",").is_some() {
            args.push(self.expr()?);
        }
        self.expect(")")?;
        Ok(args)
    }
}

fn is_number(token: Token) -> bool {
    matches!(token.kind, TokenKind::Int | TokenKind::Double)
}

fn starts_operand(token: Token) -> bool {
    match token.kind {
        TokenKind::Symbol(symbol) => {
            matches!(
                symbol,
                "[" | "{" | "(" | "." | "-" | "!" | "true" | "false" | "null"
            )
        }
        TokenKind::EscapedIdent | TokenKind::End => false,
        TokenKind::Int
        | TokenKind::Uint
        | TokenKind::Double
        | TokenKind::String
        | TokenKind::Bytes
        | TokenKind::Ident => true,
    }
}
