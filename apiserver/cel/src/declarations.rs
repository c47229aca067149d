//! The functions an expression may call, and the types it may name.
//!
//! The functions are data (`declarations.txt`, written by `cargo xtask import`).

use std::{
    collections::BTreeMap,
    iter::Peekable,
    str::CharIndices,
    sync::{Arc, LazyLock},
};

use super::types::Type;

/// One signature of a function.
#[derive(Clone, Debug)]
pub(super) struct Overload {
    pub id: &'static str,
    /// Whether the function is called on a target, which is its first parameter.
    pub method: bool,
    pub parameters: Vec<Type>,
    pub result: Type,
    /// How many type parameters it has: its variables are numbered from 0.
    pub variables: usize,
}

static FUNCTIONS: LazyLock<BTreeMap<&str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions: BTreeMap<&str, Vec<Overload>> = BTreeMap::new();
    let lines = include_str!("declarations.txt").lines();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, signature) = line.split_once(' ').expect("a declaration has a name");
        functions
            .entry(name)
            .or_default()
            .push(overload(signature.trim_start()));
    }
    functions
});

/// The overloads of a function.
pub(super) fn function(name: &str) -> Option<&'static [Overload]> {
    let name = name.strip_prefix('.').unwrap_or(name);
    FUNCTIONS.get(name).map(Vec::as_slice)
}

/// A name of a type that expressions can use as a value.
pub(super) fn type_named(name: &str) -> Option<Type> {
    let named = match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "int" => Type::Int,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "null_type" => Type::Null,
        "string" => Type::String,
        "type" => Type::Type(None),
        "uint" => Type::Uint,
        "optional_type" => Type::optional(Type::Param("V".into())),
        "net.IP" | "net.CIDR" => Type::Opaque(name.into(), Vec::new()),
        _ => return None,
    };
    Some(named)
}

fn overload(signature: &'static str) -> Overload {
    let method = signature.starts_with('.');
    let signature = signature.strip_prefix('.').unwrap_or(signature);
    let open = signature.find('(').expect("a signature has parameters");
    let mut reader = TypeReader {
        text: signature,
        chars: signature.char_indices().peekable(),
        variables: Vec::new(),
    };
    reader.skip_to(open + 1);
    let parameters = reader.list();
    let arrow = signature.find("-> ").expect("a signature has a result");
    reader.skip_to(arrow + 3);
    let result = reader.read();
    Overload {
        id: &signature[..open],
        method,
        parameters,
        result,
        variables: reader.variables.len(),
    }
}

struct TypeReader {
    text: &'static str,
    chars: Peekable<CharIndices<'static>>,
    variables: Vec<&'static str>,
}

impl TypeReader {
    fn skip_to(&mut self, at: usize) {
        while self.chars.next_if(|(index, _)| *index < at).is_some() {}
    }

    /// The types up to a closing bracket.
    fn list(&mut self) -> Vec<Type> {
        let mut types = Vec::new();
        loop {
            match self.chars.peek() {
                Some((_, ')')) | None => {
                    self.chars.next();
                    return types;
                }
                Some((_, ',' | ' ')) => {
                    self.chars.next();
                }
                Some(_) => types.push(self.read()),
            }
        }
    }

    fn read(&mut self) -> Type {
        let start = self.chars.peek().map_or(self.text.len(), |(at, _)| *at);
        while self
            .chars
            .next_if(|(_, c)| !matches!(c, '(' | ')' | ',' | ' '))
            .is_some()
        {}
        let end = self.chars.peek().map_or(self.text.len(), |(at, _)| *at);
        let name = &self.text[start..end];
        let mut parameters = match self.chars.next_if(|(_, c)| *c == '(') {
            Some(_) => self.list(),
            None => Vec::new(),
        };
        let mut parameter = || parameters.remove(0);
        match name {
            "list" => Type::list(parameter()),
            "map" => Type::Map(Arc::new(parameter()), Arc::new(parameter())),
            "optional" => Type::optional(parameter()),
            "type" => Type::Type(Some(Arc::new(parameter()))),
            "dyn" => Type::Dyn,
            "duration" => Type::Duration,
            "timestamp" => Type::Timestamp,
            _ if name.len() == 1 => Type::Var(self.variable(name)),
            _ if name.starts_with("kubernetes.") => Type::Object(name.into()),
            _ => type_named(name).expect("declarations name known types"),
        }
    }

    fn variable(&mut self, name: &'static str) -> usize {
        let known = self.variables.iter().position(|variable| *variable == name);
        known.unwrap_or_else(|| {
            self.variables.push(name);
            self.variables.len() - 1
        })
    }
}
