//! What there was at some moment of a log.

use std::str::FromStr;

use jiff::Timestamp;
use kubeproof_apiserver::{ApiServer, Clock, JournalEntry};

use super::format::{Line, LogError, Recipe, read};
use crate::scenario::HumanDuration;

/// A moment of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Behind the commit of this version.
    Revision(u64),
    /// At this virtual time, behind all that was written then.
    Time(Timestamp),
    /// So long after the beginning.
    Since(HumanDuration),
    /// In the end.
    End,
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(rv) = text.parse() {
            return Ok(Self::Revision(rv));
        }
        if let Ok(time) = text.parse() {
            return Ok(Self::Time(time));
        }
        if let Some(since) = text.strip_prefix('+') {
            return since.parse().map(Self::Since);
        }
        Err(format!(
            "{text:?} is no revision (57), time (2026-01-01T00:10:00Z) or time since the beginning (+10m)"
        ))
    }
}

/// The writes of a log up to some moment.
#[derive(Debug)]
pub struct State {
    recipe: Recipe,
    began: Timestamp,
    /// When that moment is.
    pub time: Timestamp,
    /// The version of the last write before it.
    pub rv: u64,
    commits: Vec<JournalEntry>,
}

impl State {
    /// What `text`, a log, has at `moment`.
    ///
    /// # Errors
    /// [`LogError`] when the text is no log, or has no such moment.
    pub fn read(text: &str, moment: Moment) -> Result<Self, LogError> {
        let (recipe, lines) = read(text)?;
        let mut commits = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            if let Line::Commit(commit) = line {
                let entry = commit.to_entry().ok_or_else(|| LogError::Line {
                    number: index + 2,
                    message: "this is no commit".to_owned(),
                })?;
                commits.push(entry);
            }
        }
        let nothing = || LogError::Moment("the log has no commits".to_owned());
        let last = commits.last().ok_or_else(nothing)?.clone();
        let began: Timestamp = recipe.began.parse().map_err(|_| LogError::Line {
            number: 1,
            message: format!("{:?} is no time", recipe.began),
        })?;
        let time = match moment {
            Moment::Revision(rv) => {
                let found = commits.iter().rfind(|entry| entry.rv <= rv);
                let found = found.filter(|_| rv <= last.rv).ok_or_else(|| {
                    let first = commits[0].rv;
                    LogError::Moment(format!(
                        "the log has no revision {rv}; it has {first} to {}",
                        last.rv
                    ))
                })?;
                let time = found.time;
                commits.retain(|entry| entry.rv <= rv);
                time
            }
            Moment::Time(_) | Moment::Since(_) | Moment::End => {
                let time = match moment {
                    Moment::Time(time) => time,
                    Moment::Since(since) => began.checked_add(since.0).unwrap_or(Timestamp::MAX),
                    Moment::Revision(_) | Moment::End => last.time,
                };
                commits.retain(|entry| entry.time <= time);
                time
            }
        };
        let rv = commits.last().map_or(0, |entry| entry.rv);
        if time < began {
            let message = format!("the log begins at {began}");
            return Err(LogError::Moment(message));
        }
        if time.duration_since(began).unsigned_abs() > HumanDuration::LONGEST.0 {
            let longest = HumanDuration::LONGEST;
            let message = format!("{time} is more than {longest} after {began}, the beginning");
            return Err(LogError::Moment(message));
        }
        Ok(Self {
            recipe,
            began,
            time,
            rv,
            commits,
        })
    }

    /// Lets a server that `builder` is for hold what there was: objects with their versions, and the past that
    /// led to them. Its clock goes on from there in real time.
    #[must_use]
    pub fn open(&self, builder: kubeproof_apiserver::ApiServerBuilder) -> ApiServer {
        let clock = Clock::real_from(self.began);
        let server = builder.seed(self.recipe.seed).clock(clock).build();
        server.restore(&self.commits);
        server.jump(self.time.duration_since(server.clock().now()));
        server
    }
}
