//! Declarations of types.

use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::Context as _;

use super::token::{Kind, Token};

/// A declared type.
#[derive(Clone, Debug)]
pub(crate) struct Declaration {
    /// The type that it is declared to be.
    pub(crate) of: Type,
    /// Lines of the comment right above it.
    pub(crate) comment: Vec<String>,
    /// Paths of the file's imports, by the names they have in the file.
    pub(crate) imports: Rc<BTreeMap<String, String>>,
}

impl Declaration {
    /// The path of the package that this declaration, of the package at `path`, calls `package`.
    ///
    /// # Errors
    /// The file does not import it.
    pub(crate) fn path_of(&self, path: &str, package: Option<&str>) -> anyhow::Result<String> {
        let Some(package) = package else {
            return Ok(path.to_owned());
        };
        let found = self.imports.get(package);
        found
            .cloned()
            .with_context(|| format!("{path} does not import {package}"))
    }
}

/// A type expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// A name, after that of its package where it is of another.
    Named(Option<String>, String),
    /// `*T`.
    Pointer(Box<Type>),
    /// `[]T`, and arrays.
    List(Box<Type>),
    /// `map[K]V`.
    Map(Box<Type>, Box<Type>),
    /// A struct.
    Struct(Vec<Field>),
    /// An interface, function or channel.
    Opaque,
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// Name in Go; that of the type if it is embedded.
    pub(crate) name: String,
    /// Whether it is embedded.
    pub(crate) embedded: bool,
    /// Type.
    pub(crate) of: Type,
    /// Tag, such as `json:"a"`.
    pub(crate) tag: String,
    /// Lines of the comment right above it.
    pub(crate) comment: Vec<String>,
}

impl Field {
    /// The part of the tag under `key`.
    pub(crate) fn tag(&self, key: &str) -> Option<&str> {
        let mut rest = self.tag.as_str();
        while let Some((name, after)) = rest.split_once(":\"") {
            let (value, after) = after.split_once('"')?;
            if name.trim() == key {
                return Some(value);
            }
            rest = after;
        }
        None
    }
}

/// The values of the markers `+name=value` in a comment.
pub(crate) fn markers<'a>(comment: &'a [String], name: &str) -> Vec<&'a str> {
    let lines = comment.iter().map(|line| line.trim());
    let values = lines.filter_map(|line| {
        line.strip_prefix('+')?
            .strip_prefix(name)?
            .strip_prefix('=')
    });
    values.collect()
}

/// The name after `package`.
pub(crate) fn package_name(tokens: &[Token]) -> &str {
    let words = tokens.windows(2);
    let mut names = words.filter(|pair| pair[0].word() == Some("package"));
    names
        .next()
        .and_then(|pair| pair[1].word())
        .unwrap_or_default()
}

/// The types that a file declares at its top level.
pub(crate) fn types(tokens: &[Token]) -> BTreeMap<String, Declaration> {
    let mut reader = Reader { tokens, at: 0 };
    let imports = Rc::new(imports(tokens));
    let mut found = BTreeMap::new();
    let mut depth = 0;
    while let Some(token) = reader.peek() {
        match &token.kind {
            Kind::Sign('{' | '(' | '[') => depth += 1,
            Kind::Sign('}' | ')' | ']') => depth -= 1,
            Kind::Word(word) if word == "type" && depth == 0 => {
                let comment = reader.comment_above(reader.at);
                reader.at += 1;
                reader.declarations(comment, &imports, &mut found);
                continue;
            }
            _ => {}
        }
        reader.at += 1;
    }
    found
}

fn imports(tokens: &[Token]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut inside = false;
    let mut alias = None;
    for token in tokens {
        match &token.kind {
            Kind::Word(word) if word == "import" => inside = true,
            Kind::Word(word) if ["type", "func", "var", "const"].contains(&word.as_str()) => break,
            Kind::Word(word) if inside => alias = Some(word.clone()),
            Kind::Text(path) if inside => {
                let last = path.rsplit('/').next().unwrap_or(path);
                found.insert(
                    alias.take().unwrap_or_else(|| last.to_owned()),
                    path.clone(),
                );
            }
            _ => {}
        }
    }
    found
}

struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    /// The next token that is no comment.
    fn next(&mut self) -> Option<&'a Token> {
        self.skip_comments();
        let token = self.peek()?;
        self.at += 1;
        Some(token)
    }

    fn skip_comments(&mut self) {
        while self
            .peek()
            .is_some_and(|token| matches!(token.kind, Kind::Comment(_)))
        {
            self.at += 1;
        }
    }

    fn is_at(&mut self, sign: char) -> bool {
        self.skip_comments();
        self.peek().is_some_and(|token| token.is(sign))
    }

    fn eat(&mut self, sign: char) -> bool {
        let is = self.is_at(sign);
        self.at += usize::from(is);
        is
    }

    fn word(&mut self) -> Option<&'a str> {
        self.skip_comments();
        let word = self.peek()?.word()?;
        self.at += 1;
        Some(word)
    }

    /// The lines of the comments that end on the line above the token at `at`.
    fn comment_above(&self, at: usize) -> Vec<String> {
        let mut line = self.tokens[at].line;
        let before = self.tokens[..at].iter().rev();
        let mut lines = Vec::new();
        for token in before {
            match &token.kind {
                Kind::Comment(text) if token.line + text.matches('\n').count() + 1 == line => {
                    lines.extend(text.lines().rev().map(str::to_owned));
                    line = token.line;
                }
                _ => break,
            }
        }
        lines.reverse();
        lines
    }

    /// Parses the declarations after `type`: one, or several in parentheses.
    fn declarations(
        &mut self,
        comment: Vec<String>,
        imports: &Rc<BTreeMap<String, String>>,
        found: &mut BTreeMap<String, Declaration>,
    ) {
        let grouped = self.eat('(');
        let mut comment = comment;
        loop {
            if grouped {
                self.skip_comments();
                if self.eat(')') {
                    return;
                }
                comment = self.comment_above(self.at);
            }
            let Some(name) = self.word() else {
                return;
            };
            self.type_parameters();
            self.eat('=');
            let of = self.type_expression();
            let declaration = Declaration {
                of,
                comment: std::mem::take(&mut comment),
                imports: Rc::clone(imports),
            };
            found.insert(name.to_owned(), declaration);
            if !grouped {
                return;
            }
        }
    }

    /// Skips `[T any]`, but not the brackets of `[]T` or `[4]T`.
    fn type_parameters(&mut self) {
        let named = self
            .tokens
            .get(self.at + 1)
            .is_some_and(|token| token.word().is_some());
        if self.is_at('[') && named {
            self.skip_group();
        }
    }

    /// Skips from an opening bracket to the token after the closing one.
    fn skip_group(&mut self) {
        let mut depth = 0;
        while let Some(token) = self.next() {
            match token.kind {
                Kind::Sign('{' | '(' | '[') => depth += 1,
                Kind::Sign('}' | ')' | ']') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn type_expression(&mut self) -> Type {
        if self.eat('*') {
            return Type::Pointer(Box::new(self.type_expression()));
        }
        if self.is_at('[') {
            self.skip_group();
            return Type::List(Box::new(self.type_expression()));
        }
        match self.word() {
            Some("map") => {
                self.eat('[');
                let key = self.type_expression();
                self.eat(']');
                Type::Map(Box::new(key), Box::new(self.type_expression()))
            }
            Some("struct") => Type::Struct(self.fields()),
            Some("interface") => {
                self.skip_group();
                Type::Opaque
            }
            Some("func" | "chan") | None => {
                self.skip_line();
                Type::Opaque
            }
            Some(name) => self.named(name),
        }
    }

    fn named(&mut self, first: &str) -> Type {
        let named = match self.eat('.') {
            true => {
                let name = self.word().unwrap_or_default().to_owned();
                Type::Named(Some(first.to_owned()), name)
            }
            false => Type::Named(None, first.to_owned()),
        };
        // Arguments of a generic type, which are on the line of its name.
        let line = self.tokens[self.at - 1].line;
        if self
            .peek()
            .is_some_and(|token| token.is('[') && token.line == line)
        {
            self.skip_group();
        }
        named
    }

    /// Skips to the end of the line, or of the brackets that are open at it.
    fn skip_line(&mut self) {
        let line = self.tokens[self.at.saturating_sub(1)].line;
        while let Some(token) = self.peek() {
            if token.line != line || token.is('}') {
                return;
            }
            match token.kind {
                Kind::Sign('(' | '{') => self.skip_group(),
                _ => self.at += 1,
            }
        }
    }

    /// The fields between braces.
    fn fields(&mut self) -> Vec<Field> {
        self.eat('{');
        let mut fields = Vec::new();
        while !self.is_at('}') {
            if self.peek().is_none() {
                break;
            }
            let comment = self.comment_above(self.at);
            let (names, of) = self.names_and_type();
            let tag = match self.peek().map(|token| &token.kind) {
                Some(Kind::Text(tag)) => {
                    self.at += 1;
                    tag.clone()
                }
                _ => String::new(),
            };
            let embedded = names.is_empty();
            let names = match &of {
                _ if !embedded => names,
                Type::Named(_, name) => vec![name.clone()],
                Type::Pointer(of) => match &**of {
                    Type::Named(_, name) => vec![name.clone()],
                    _ => Vec::new(),
                },
                _ => Vec::new(),
            };
            fields.extend(names.into_iter().map(|name| Field {
                name,
                embedded,
                of: of.clone(),
                tag: tag.clone(),
                comment: comment.clone(),
            }));
            self.eat(';');
        }
        self.eat('}');
        fields
    }

    /// Parses the names of fields and their type; an embedded field has no name.
    fn names_and_type(&mut self) -> (Vec<String>, Type) {
        let start = self.at;
        let line = self.peek().map_or(0, |token| token.line);
        let mut names = Vec::new();
        while let Some(name) = self.word() {
            names.push(name.to_owned());
            if !self.eat(',') {
                break;
            }
        }
        let ends = match self.peek() {
            None => true,
            Some(token) if token.line != line => true,
            Some(token) => matches!(
                token.kind,
                Kind::Text(_) | Kind::Sign('.' | '}' | ';') | Kind::Comment(_)
            ),
        };
        if names.is_empty() || ends {
            self.at = start;
            return (Vec::new(), self.type_expression());
        }
        (names, self.type_expression())
    }
}

#[cfg(test)]
mod tests {
    use super::super::token::tokens;
    use super::*;

    const SOURCE: &str = r#"
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Boat floats.
// +structType=atomic
type Boat struct {
	metav1.TypeMeta `json:",inline"`
	// Far above.

	// Oars are long.
	// +listType=map
	// +listMapKey=side
	// +listMapKey=length
	Oars []Oar `json:"oars,omitempty" protobuf:"bytes,2,rep,name=oars"`
	*Hull
	Left, Right *types.UID // a comment
	Crew map[string][]byte `json:"crew"`
	Inner struct {
		Deep int32
	} `json:"inner"`
	Call func(a int) (string, error)
	Any  interface{}
	List Generic[string] `json:"list"`
}

type (
	// Oar is one of two.
	Oar string
	Generic[T any] struct{ Value T }
	Alias = metav1.Time
)

func (b *Boat) Sail() {
	type hidden struct{}
}
"#;

    fn named(package: Option<&str>, name: &str) -> Type {
        Type::Named(package.map(str::to_owned), name.to_owned())
    }

    #[test]
    fn types_are_read_with_comments_tags_and_imports() {
        let types = types(&tokens(SOURCE));
        assert_eq!(
            types.keys().collect::<Vec<_>>(),
            ["Alias", "Boat", "Generic", "Oar"]
        );
        let boat = &types["Boat"];
        assert_eq!(markers(&boat.comment, "structType"), ["atomic"]);
        assert_eq!(boat.imports["types"], "k8s.io/apimachinery/pkg/types");
        assert_eq!(types["Alias"].of, named(Some("metav1"), "Time"));
        assert_eq!(types["Oar"].comment, [" Oar is one of two."]);
    }

    #[test]
    fn fields_have_names_types_tags_and_markers() {
        let types = types(&tokens(SOURCE));
        let Type::Struct(fields) = &types["Boat"].of else {
            panic!("no struct");
        };
        let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "TypeMeta", "Oars", "Hull", "Left", "Right", "Crew", "Inner", "Call", "Any", "List"
            ]
        );
        let field = |name: &str| fields.iter().find(|field| field.name == name).unwrap();
        let oars = field("Oars");
        assert_eq!(markers(&oars.comment, "listMapKey"), ["side", "length"]);
        assert!(!oars.comment.concat().contains("Far above"));
        assert_eq!(oars.tag("protobuf"), Some("bytes,2,rep,name=oars"));
        assert_eq!(oars.tag("patchStrategy"), None);
        assert_eq!(
            field("Right").of,
            Type::Pointer(Box::new(named(Some("types"), "UID")))
        );
        let bytes = Type::List(Box::new(named(None, "byte")));
        let crew = Type::Map(Box::new(named(None, "string")), Box::new(bytes));
        assert_eq!(field("Crew").of, crew);
        assert_eq!(field("Inner").tag("json"), Some("inner"));
        assert_eq!(field("List").of, named(None, "Generic"));
        let embedded: Vec<bool> = fields.iter().map(|field| field.embedded).collect();
        assert_eq!(embedded[..3], [true, false, true]);
    }
}
