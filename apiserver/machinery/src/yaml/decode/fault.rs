//! Syntax errors of text that is not YAML, in the words of Go's parser.

use granit_parser::{ErrorKind, ScanError, Span};

/// A collection inside of 10,000 others of its style.
const TOO_DEEP: &str = "exceeded max depth of 10000";

/// Which half of Go's parser finds a fault: they count lines differently.
#[derive(PartialEq)]
enum Finder {
    /// Counts from one, and keeps silent about the first line.
    Scanner,
    /// Counts from zero, and keeps silent about that.
    Parser,
}

/// The position of Go's parser when it finds a fault.
enum Place {
    /// At the fault.
    There,
    /// At the next line that is not empty.
    NextLine,
    /// At the end of the text.
    End,
}

/// Go's message for an error of the parser in use here.
pub(super) fn message(error: &ScanError, text: &str) -> String {
    use Finder::{Parser, Scanner};
    use Place::{End, NextLine, There};
    const NO_TOKEN: &str = "found character that cannot start any token";
    let (finder, place, problem) = match error.kind() {
        ErrorKind::RecursionLimitExceeded => (Scanner, There, TOO_DEEP),
        ErrorKind::MappingValueNotAllowed => (
            Scanner,
            There,
            "mapping values are not allowed in this context",
        ),
        ErrorKind::MappingKeyNotAllowed => (
            Scanner,
            There,
            "mapping keys are not allowed in this context",
        ),
        ErrorKind::BlockSequenceEntryNotAllowed => {
            let problem = "block sequence entries are not allowed in this context";
            (Scanner, There, problem)
        }
        ErrorKind::UnexpectedCharacter { .. }
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabNotAllowed
        | ErrorKind::TabInIndentation => (Scanner, There, NO_TOKEN),
        ErrorKind::TabInPlainScalar => {
            let problem = "found a tab character that violates indentation";
            (Scanner, NextLine, problem)
        }
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => {
            (Scanner, NextLine, "could not find expected ':'")
        }
        ErrorKind::UnclosedQuotedScalar | ErrorKind::InvalidQuotedScalarIndent => {
            (Scanner, End, "found unexpected end of stream")
        }
        ErrorKind::UnknownQuotedScalarEscape => (Scanner, There, "found unknown escape character"),
        // A value is missing after the last separator.
        ErrorKind::UnclosedFlowCollection { .. }
            if text.trim_end().ends_with(['[', '{', ',', ':']) =>
        {
            (Parser, End, "did not find expected node content")
        }
        ErrorKind::UnclosedFlowCollection { open: '[' }
        | ErrorKind::ExpectedFlowSequenceSeparator => {
            (Parser, End, "did not find expected ',' or ']'")
        }
        ErrorKind::UnclosedFlowCollection { .. } | ErrorKind::ExpectedFlowMappingSeparator => {
            (Parser, End, "did not find expected ',' or '}'")
        }
        ErrorKind::ExpectedBlockSequenceEntry => {
            (Parser, There, "did not find expected '-' indicator")
        }
        ErrorKind::ExpectedNodeContent => (Parser, There, "did not find expected node content"),
        ErrorKind::UnknownAnchor => {
            let name = alias_at(text, error.marker().byte_offset());
            return format!("yaml: unknown anchor '{name}' referenced");
        }
        _ => (Parser, There, "did not find expected key"),
    };
    let line = error.marker().line();
    let index = match place {
        There => line.saturating_sub(1),
        NextLine => {
            let rest = text.lines().enumerate().skip(line);
            let mut used = rest.filter(|(_, line)| !line.trim().is_empty());
            used.next().map_or(line, |(index, _)| index)
        }
        // Go's scanner ends the last line itself before it reports the end to the parser.
        End if finder == Parser && !text.ends_with('\n') => text.matches('\n').count() + 1,
        End => text.matches('\n').count(),
    };
    match (finder, index) {
        (_, 0) => format!("yaml: {problem}"),
        (Scanner, index) => format!("yaml: line {}: {problem}", index + 1),
        (Parser, index) => format!("yaml: line {index}: {problem}"),
    }
}

/// A fault of the parser at a place.
pub(super) fn at(problem: &str, span: Span) -> String {
    match span.start.line().saturating_sub(1) {
        0 => format!("yaml: {problem}"),
        index => format!("yaml: line {index}: {problem}"),
    }
}

/// The name of the alias that begins at `offset`.
fn alias_at(text: &str, offset: Option<usize>) -> &str {
    let rest = offset
        .and_then(|offset| text.get(offset..))
        .unwrap_or_default();
    let name = rest.trim_start_matches('*');
    let ends = |letter: char| letter.is_whitespace() || ",[]{}".contains(letter);
    name.split(ends).next().unwrap_or_default()
}
