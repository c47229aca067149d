//! Command lines as Go programs read them: those of spf13/pflag, and those of Go's package `flag`.
//!
//! A program's flags are a table, which [`FlagSet`] reads from a data file. The words of errors are those of the two
//! libraries, because people search for them.
//! Source: pflag `flag.go` and `errors.go`, Go `flag/flag.go`, Kubernetes `component-base/cli/flag`.

mod csv;
mod go;
mod help;
mod kind;
mod parse;
mod parsed;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use parsed::Parsed;

use kind::Kind;
use table::Flag;

/// Reads a duration such as `1h2.5m`; `None` for other texts and negative durations.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let nanoseconds = go::nanoseconds(text).ok()?;
    Some(Duration::from_nanos(u64::try_from(nanoseconds).ok()?))
}

/// How a program reads its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// pflag's: two dashes, one for shorthands, positional arguments anywhere. Underscores in names are dashes.
    Pflag,
    /// Go's package `flag`: one dash or two, up to the first positional argument.
    Go,
}

/// The flags of a program, and how it reads them.
#[derive(Clone, Debug)]
pub(crate) struct FlagSet {
    syntax: Syntax,
    flags: Arc<BTreeMap<&'static str, Flag>>,
    /// In the order of the help.
    sections: Arc<[&'static str]>,
}

/// A fault of a command line, in the words of the library that would have read it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FlagError {
    /// No flag has this name.
    #[error("unknown flag: --{0}")]
    Unknown(String),
    /// No flag has this shorthand.
    #[error("unknown shorthand flag: {letter:?} in -{letters}")]
    UnknownShorthand { letter: char, letters: String },
    /// The command line ends before the flag's value.
    #[error("flag needs an argument: {0}")]
    NeedsArgument(String),
    /// The flag has no name.
    #[error("bad flag syntax: {0}")]
    BadSyntax(String),
    /// The flag cannot have this value. `flag` has the dashes.
    #[error("invalid argument {} for {flag:?} flag: {why}", go::quoted(.value))]
    Invalid {
        flag: String,
        value: String,
        why: String,
    },
    /// No flag has this name, in the words of Go's `flag`.
    #[error("flag provided but not defined: -{0}")]
    NotDefined(String),
    /// The flag cannot have this value, in the words of Go's `flag`.
    #[error("invalid value {} for flag -{name}: {why}", go::quoted(.value))]
    InvalidValue {
        name: String,
        value: String,
        why: String,
    },
    /// The switch cannot have this value, in the words of Go's `flag`.
    #[error("invalid boolean value {} for -{name}: {why}", go::quoted(.value))]
    InvalidBoolean {
        name: String,
        value: String,
        why: String,
    },
    /// Help was asked for, and is no flag of the program. Go's `flag` ends there.
    #[error("flag: help requested")]
    Help,
}
