//! Tokens of Go source.

/// A token and the line it begins on, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// Kind of token, with its text.
    pub(crate) kind: Kind,
    /// Line of its first character.
    pub(crate) line: usize,
}

/// Kinds of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name or keyword.
    Word(String),
    /// A string literal's value.
    Text(String),
    /// A number or rune, as it is written.
    Literal(String),
    /// A comment without its slashes.
    Comment(String),
    /// Any other character.
    Sign(char),
}

impl Token {
    /// Whether it is the character `sign`.
    pub(crate) fn is(&self, sign: char) -> bool {
        self.kind == Kind::Sign(sign)
    }

    /// The name or keyword that it is.
    pub(crate) fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// The tokens of `source`, comments among them.
pub(crate) fn tokens(source: &str) -> Vec<Token> {
    let mut reader = Reader {
        rest: source,
        line: 1,
    };
    let mut found = Vec::new();
    while let Some(first) = reader.rest.chars().next() {
        let line = reader.line;
        let kind = match first {
            _ if first.is_whitespace() => {
                reader.take(first.len_utf8());
                continue;
            }
            _ if reader.rest.starts_with("//") => {
                let end = reader.rest.find('\n').unwrap_or(reader.rest.len());
                Kind::Comment(reader.take(end)[2..].to_owned())
            }
            _ if reader.rest.starts_with("/*") => {
                let end = reader
                    .rest
                    .find("*/")
                    .map_or(reader.rest.len(), |end| end + 2);
                Kind::Comment(reader.take(end).trim_matches(['/', '*']).to_owned())
            }
            '`' => {
                let end = reader.rest[1..]
                    .find('`')
                    .map_or(reader.rest.len(), |end| end + 2);
                Kind::Text(reader.take(end).trim_matches('`').to_owned())
            }
            '"' => Kind::Text(unescaped(reader.quoted('"'))),
            '\'' => Kind::Literal(reader.quoted('\'').to_owned()),
            _ if first.is_alphabetic() || first == '_' => {
                Kind::Word(reader.take_while(is_of_word).to_owned())
            }
            _ if first.is_ascii_digit() => {
                Kind::Literal(reader.take_while(|c| is_of_word(c) || c == '.').to_owned())
            }
            _ => {
                reader.take(first.len_utf8());
                Kind::Sign(first)
            }
        };
        found.push(Token { kind, line });
    }
    found
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn take_while(&mut self, of: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !of(c)).unwrap_or(self.rest.len());
        self.take(end)
    }

    /// Takes a literal between `quote`s, and returns it with them.
    fn quoted(&mut self, quote: char) -> &'a str {
        let mut is_escaped = false;
        let end = self.rest[1..].find(|c| {
            let ends = c == quote && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        });
        let end = end.map_or(self.rest.len(), |end| end + 2);
        self.take(end)
    }
}

/// The value of the string literal `quoted`. Go's escapes equal JSON's, except for escapes of bytes.
fn unescaped(quoted: &str) -> String {
    serde_json::from_str(quoted).unwrap_or_else(|_| quoted.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_is_words_literals_comments_and_signs() {
        let source = "a.B(\"x\\\"y\", `raw \"`) // end\n/* two\nlines */ 'c' 0x1F";
        let kinds: Vec<Kind> = tokens(source).into_iter().map(|token| token.kind).collect();
        let word = |text: &str| Kind::Word(text.to_owned());
        let text = |text: &str| Kind::Text(text.to_owned());
        assert_eq!(
            kinds,
            [
                word("a"),
                Kind::Sign('.'),
                word("B"),
                Kind::Sign('('),
                text("x\"y"),
                Kind::Sign(','),
                text("raw \""),
                Kind::Sign(')'),
                Kind::Comment(" end".to_owned()),
                Kind::Comment(" two\nlines ".to_owned()),
                Kind::Literal("'c'".to_owned()),
                Kind::Literal("0x1F".to_owned()),
            ]
        );
    }

    #[test]
    fn lines_are_counted_through_literals_and_comments() {
        let lines: Vec<usize> = tokens("a `\n` /*\n*/ b\nc")
            .iter()
            .map(|t| t.line)
            .collect();
        assert_eq!(lines, [1, 1, 2, 3, 4]);
    }
}
