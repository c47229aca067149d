//! The state of a shell, which its commands read and change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kubeproof_runtime::clock::Now;

use super::filesystem::FileSystem;
use super::listeners::Listeners;
use super::shell::Command;
use super::signals::Signals;

/// The duration of one iteration of a `while` loop, so that a loop that polls lets time pass.
pub(super) const TURN: Duration = Duration::from_millis(1);

/// The treatment of a program that only the image knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stranger {
    /// The program does not exist: a client that types commands has mistyped.
    Missing,
    /// The program succeeds: a command that a manifest names is in its image.
    Trusted,
}

/// The state of a shell, which child processes inherit as a copy.
#[derive(Clone)]
pub(super) struct Shell {
    /// The command line of the container's first process.
    pub(super) command: String,
    pub(super) files: FileSystem,
    pub(super) directory: String,
    pub(super) variables: BTreeMap<String, String>,
    pub(super) hostname: String,
    pub(super) now: Now,
    /// The start of the container.
    pub(super) started: Timestamp,
    /// The ports on which programs of the container listen.
    pub(super) listeners: Listeners,
    pub(super) last: i32,
    pub(super) arguments: Vec<String>,
    /// The functions by name.
    pub(super) functions: BTreeMap<String, Arc<Command>>,
    /// The depth of nested function calls.
    pub(super) calls: usize,
    pub(super) stranger: Stranger,
    /// Whether the last command was a program that only the image knows.
    pub(super) ends_unknown: bool,
    /// The signals of a container's first process; other processes receive none.
    pub(super) signals: Option<Signals>,
    /// Whether the next program replaces this shell, signals included.
    pub(super) hands_on: bool,
}
