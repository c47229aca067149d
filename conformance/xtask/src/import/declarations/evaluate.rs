//! Strings and types that Go source writes as expressions.

use anyhow::{Context as _, bail};

use super::groups::{group, inside, split, statement};
use crate::import::go::{Kind, Token};

/// The constants and types that a library can name.
pub(super) struct Scope<'a> {
    /// Sources in which a name may be declared, with their packages, the library's own first.
    sources: Vec<(&'a str, &'a [Token])>,
    /// The version that the library is limited to.
    pub(super) version: u64,
}

impl<'a> Scope<'a> {
    /// The names of a source file.
    pub(super) fn of(source: &'a [Token], version: u64) -> Self {
        Self {
            sources: vec![("", source)],
            version,
        }
    }

    /// Adds the names of another source file, which is of `package`.
    pub(super) fn add(&mut self, package: &'a str, source: &'a [Token]) {
        self.sources.push((package, source));
    }

    /// The declaration of a name: the rest of the statement after `=`.
    pub(super) fn value(&self, name: &str) -> Option<&'a [Token]> {
        let sources = self.sources.iter();
        find(sources.map(|(_, source)| *source), name)
    }

    /// The declaration of a name of another package.
    fn value_in(&self, package: &str, name: &str) -> Option<&'a [Token]> {
        let sources = self.sources.iter().filter(|(own, _)| *own == package);
        find(sources.map(|(_, source)| *source), name)
    }

    /// The string that an expression is.
    pub(super) fn text(&self, expression: &[Token]) -> anyhow::Result<String> {
        if let [
            Token {
                kind: Kind::Text(text),
                ..
            },
        ] = expression
        {
            return Ok(text.clone());
        }
        if let [typed @ .., dot, method, open, close] = expression
            && dot.is('.')
            && method.word() == Some("TypeName")
            && open.is('(')
            && close.is(')')
        {
            return Ok(runtime_name(&self.type_text(typed)?));
        }
        let words = expression.iter().filter_map(Token::word);
        let words: Vec<&str> = words.collect();
        match (words.as_slice(), expression.last()) {
            (["fmt", "Sprintf", ..], Some(close)) if close.is(')') => self.formatted(expression),
            ([name], Some(last)) if last.word().is_some() => {
                self.text(self.value(name).with_context(|| unknown(name))?)
            }
            ([package, name], Some(last)) if last.word().is_some() => {
                let value = self.value_in(package, name);
                self.text(value.with_context(|| unknown(name))?)
            }
            _ => bail!("{words:?} is no string"),
        }
    }

    /// `fmt.Sprintf` with `%s` only.
    fn formatted(&self, call: &[Token]) -> anyhow::Result<String> {
        let open = call.iter().position(|token| token.is('('));
        let arguments = open.and_then(|open| group(&call[open..]));
        let arguments = split(inside(arguments.unwrap_or_default()));
        let (format, values) = arguments.split_first().context("nothing is formatted")?;
        let mut text = self.text(format)?;
        for value in values {
            text = text.replacen("%s", &self.text(value)?, 1);
        }
        Ok(text)
    }

    /// The type that an expression is, as the data writes it.
    pub(super) fn type_text(&self, expression: &[Token]) -> anyhow::Result<String> {
        let expression = match expression {
            [package, dot, rest @ ..] if package.word().is_some() && dot.is('.') => rest,
            all => all,
        };
        let (name, rest) = expression.split_first().context("a type is missing")?;
        let name = name.word().context("a type has no name")?;
        match group(rest) {
            Some(arguments) => self.constructed(name, &split(inside(arguments))),
            None => self.named_type(name),
        }
    }

    /// The type that has a name.
    pub(super) fn named_type(&self, name: &str) -> anyhow::Result<String> {
        Ok(match name {
            "BoolType" => "bool",
            "BytesType" => "bytes",
            "DoubleType" => "double",
            "DurationType" => "duration",
            "DynType" => "dyn",
            "IntType" => "int",
            "StringType" => "string",
            "TimestampType" => "timestamp",
            "UintType" => "uint",
            _ => {
                return self.type_text(self.value(name).with_context(|| unknown(name))?);
            }
        }
        .to_owned())
    }

    /// The type that a function such as `ListType` or `NewListType` makes.
    fn constructed(&self, name: &str, arguments: &[&[Token]]) -> anyhow::Result<String> {
        let of = |at: usize| {
            let argument = arguments.get(at).context("a type lacks a parameter")?;
            self.type_text(argument)
        };
        Ok(match name.strip_prefix("New").unwrap_or(name) {
            "ListType" => format!("list({})", of(0)?),
            "MapType" => format!("map({}, {})", of(0)?, of(1)?),
            "OptionalType" => format!("optional({})", of(0)?),
            "TypeTypeWithParam" => format!("type({})", of(0)?),
            "TypeParamType" | "OpaqueType" | "ObjectType" => {
                self.text(arguments.first().context("a type has no name")?)?
            }
            _ => bail!("{name} makes no type that is known"),
        })
    }
}

fn unknown(name: &str) -> String {
    format!("{name} is not known")
}

/// The rest of the first statement that declares `name`, after `=` or `:=`.
fn find<'a>(mut sources: impl Iterator<Item = &'a [Token]>, name: &str) -> Option<&'a [Token]> {
    sources.find_map(|source| {
        let mut values = source.windows(3).enumerate().filter_map(|(at, own)| {
            let is = own[0].word() == Some(name);
            match is {
                true if own[1].is('=') && !own[2].is('=') => Some(at + 2),
                true if own[1].is(':') && own[2].is('=') => Some(at + 3),
                _ => None,
            }
        });
        statement(&source[values.next()?..])
    })
}

/// Returns cel-go's name of a type at run time.
fn runtime_name(text: &str) -> String {
    match text {
        "duration" => "google.protobuf.Duration",
        "timestamp" => "google.protobuf.Timestamp",
        plain => plain,
    }
    .to_owned()
}
