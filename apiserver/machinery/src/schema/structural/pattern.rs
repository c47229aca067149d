//! Regular expressions in Go's syntax.
//!
//! An expression is parsed as Go parses it, which yields Go's own fault or a tree; the tree is
//! written in the syntax of our engines.

mod node;
mod parse;
mod unicode;

use std::sync::OnceLock;

/// A `pattern`, compiled when a value is first matched against it.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// As the definition has it.
    pub text: String,
    regexp: OnceLock<Option<Regexp>>,
}

impl Pattern {
    /// Keeps the text of a pattern; [`Pattern::is_match`] compiles it.
    pub fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            regexp: OnceLock::new(),
        }
    }

    /// Whether some part of `value` matches; a pattern that is not a regular expression matches
    /// every value.
    #[must_use]
    pub fn is_match(&self, value: &str) -> bool {
        let regexp = self.regexp.get_or_init(|| Regexp::compile(&self.text).ok());
        regexp.as_ref().is_none_or(|regexp| regexp.is_match(value))
    }
}

/// Returns the fault of an expression in Go's words; `None` when it is well-formed.
#[must_use]
pub fn go_regexp_fault(text: &str) -> Option<String> {
    parse::parse(text).err().map(in_words)
}

fn in_words((what, part): parse::Fault<'_>) -> String {
    format!("error parsing regexp: {what}: `{part}`")
}

/// The largest program of the compact engine, in bytes.
const PROGRAM_BYTES_MAX: usize = 128 << 20;

/// A compiled expression.
#[derive(Clone, Debug)]
pub enum Regexp {
    /// The engine for nearly all expressions.
    Fast(regex::Regex),
    /// The engine whose programs, as Go's, have one instruction for a class: counts of large
    /// classes such as `(\pL{1,100}){1,10}` stay small in it.
    Compact(regex_lite::Regex),
}

impl Regexp {
    /// Compiles an expression.
    ///
    /// # Errors
    ///
    /// Go's fault, in its words.
    pub fn compile(text: &str) -> Result<Self, String> {
        let node = parse::parse(text).map_err(in_words)?;
        let mut fast = String::with_capacity(text.len());
        node.write("(?-u:\\_)", &mut fast);
        if let Ok(regex) = regex::Regex::new(&fast) {
            return Ok(Self::Fast(regex));
        }
        let mut compact = String::with_capacity(text.len());
        node.write("\\_", &mut compact);
        let mut builder = regex_lite::RegexBuilder::new(&compact);
        builder.size_limit(PROGRAM_BYTES_MAX).nest_limit(u32::MAX);
        let compiled = builder.build().map(Self::Compact);
        compiled.map_err(|_| in_words(("expression too large", text)))
    }

    /// Whether some part of `text` matches.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        match self {
            Self::Fast(regex) => regex.is_match(text),
            Self::Compact(regex) => regex.is_match(text),
        }
    }

    /// Returns the first `limit` parts that match, without overlaps.
    pub fn find<'t>(&self, text: &'t str, limit: usize) -> Vec<&'t str> {
        match self {
            Self::Fast(regex) => {
                let found = regex.find_iter(text).take(limit);
                found.map(|found| found.as_str()).collect()
            }
            Self::Compact(regex) => {
                let found = regex.find_iter(text).take(limit);
                found.map(|found| found.as_str()).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests;
