//! Systems on which programs cannot be traced: everything says so.

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::Command;

use crate::{Threads, Time, Unavailable};

const WORDS: &str = "it takes Linux for x86-64";

/// A program under virtual time, which this system does not have.
#[derive(Clone, Debug)]
pub enum Tracee {}

impl Tracee {
    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn of(_command: &[&OsStr], _seed: u64) -> io::Result<(Self, Command)> {
        Err(io::Error::new(io::ErrorKind::Unsupported, WORDS))
    }

    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn in_turns(command: &[&OsStr], seed: u64) -> io::Result<(Self, Command)> {
        Self::of(command, seed)
    }

    /// Is never called.
    ///
    /// # Errors
    /// None.
    pub fn begin(&self, _time: Time) -> io::Result<()> {
        match *self {}
    }

    /// Is never called.
    ///
    /// # Errors
    /// None.
    pub fn advance(&self, _time: Time) -> io::Result<()> {
        match *self {}
    }

    /// Is never called.
    ///
    /// # Errors
    /// None.
    pub fn settle(&self) -> io::Result<Option<Threads>> {
        match *self {}
    }

    /// Is never called.
    ///
    /// # Errors
    /// None.
    pub fn look(&self) -> io::Result<Option<Threads>> {
        match *self {}
    }
}

/// How much a thread of this process has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {}

/// A thread of this process, of which this system does not tell whether it sleeps.
#[derive(Debug)]
pub enum OwnThread {}

impl OwnThread {
    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn current() -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, WORDS))
    }

    /// Is never called.
    #[must_use]
    pub fn asleep(&self) -> Option<Observed> {
        match *self {}
    }
}

/// Says that this system cannot trace.
///
/// # Errors
/// Always.
pub fn check() -> Result<(), Unavailable> {
    Err(Unavailable(WORDS.to_owned()))
}

/// Returns `None`: this process is no tracer.
pub fn helper(_arguments: impl IntoIterator<Item = OsString>) -> Option<i32> {
    None
}
