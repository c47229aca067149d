//! The state at some moment of a log.

use std::str::FromStr;

use jiff::Timestamp;
use kubeproof_apiserver::meta::ResourceVersion;
use kubeproof_apiserver::{ApiServer, ApiServerBuilder, Clock, JournalEntry, ServerState};

use super::format::{Line, LogError, Step, further, read};
use crate::time::HumanDuration;

/// A moment of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// After the commit of this version.
    ResourceVersion(ResourceVersion),
    /// At this virtual time, after all writes of that instant.
    Time(Timestamp),
    /// At this time after the beginning.
    Since(HumanDuration),
    /// At this time after a step of the scenario began, by the number of the step.
    Step(u64, HumanDuration),
    /// The end of the log.
    End,
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(rv) = text.parse() {
            return Ok(Self::ResourceVersion(rv));
        }
        if let Ok(time) = text.parse() {
            return Ok(Self::Time(time));
        }
        if let Some(since) = text.strip_prefix('+') {
            return since.parse().map(Self::Since);
        }
        if let Some((step, since)) = text.split_once('+')
            && let Ok(step) = step.parse()
        {
            return since.parse().map(|since| Self::Step(step, since));
        }
        Err(format!(
            "{text:?} is not a resourceVersion (57), a time (2026-01-01T00:10:00Z), a time since the beginning (+10m) \
             or a time since a step (1+5s)"
        ))
    }
}

/// The initial state of a log.
#[derive(Clone, Debug)]
enum Beginning {
    /// A fresh server with this seed.
    Fresh(u64),
    /// The stored state of a server when it began to write the log.
    Held(ServerState),
}

/// The content of a log, in order.
struct Content {
    beginning: Beginning,
    began: Timestamp,
    steps: Vec<Step<'static>>,
    commits: Vec<JournalEntry>,
}

/// The writes of a log up to some moment.
#[derive(Clone, Debug)]
pub struct State {
    beginning: Beginning,
    began: Timestamp,
    /// When that moment is.
    pub time: Timestamp,
    /// The version of the last write before it.
    pub rv: ResourceVersion,
    commits: Vec<JournalEntry>,
    /// Whether it is how everything ended.
    is_end: bool,
}

impl State {
    /// Reads the state of `text`, a log or the [`ServerState`] of a server, at `moment`.
    ///
    /// # Errors
    /// [`LogError`] when the text is neither, or has no such moment.
    pub fn read(text: &str, moment: Moment) -> Result<Self, LogError> {
        let Content {
            beginning,
            began,
            steps,
            mut commits,
        } = content(text)?;
        let (first, end, end_time) = match (&beginning, commits.first(), commits.last()) {
            (Beginning::Held(state), _, Some(last)) => {
                (state.resource_version(), last.rv, last.time)
            }
            (Beginning::Held(state), _, None) => {
                (state.resource_version(), state.resource_version(), began)
            }
            (Beginning::Fresh(_), Some(first), Some(last)) => (first.rv, last.rv, last.time),
            (Beginning::Fresh(_), _, _) => {
                return Err(LogError::Moment("the log has no commits".to_owned()));
            }
        };
        let time = match moment {
            Moment::ResourceVersion(rv) if !(first..=end).contains(&rv) => {
                let message =
                    format!("the log has no resourceVersion {rv}; it has {first} to {end}");
                return Err(LogError::Moment(message));
            }
            Moment::ResourceVersion(rv) => {
                commits.retain(|entry| entry.rv <= rv);
                commits.last().map_or(began, |entry| entry.time)
            }
            Moment::Time(time) => time,
            Moment::Since(since) => after(began, since),
            Moment::Step(number, since) => after(begin_of(&steps, number)?, since),
            Moment::End => end_time,
        };
        commits.retain(|entry| entry.time <= time || moment == Moment::End);
        let begun = match &beginning {
            Beginning::Held(state) => state.resource_version(),
            Beginning::Fresh(_) => ResourceVersion::ZERO,
        };
        let rv = commits.last().map_or(begun, |entry| entry.rv);
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
            beginning,
            began,
            time,
            rv,
            commits,
            is_end: moment == Moment::End,
        })
    }

    /// Builds the server of `builder` with the objects of that moment, their versions, and the past that the
    /// log has.
    ///
    /// The clock of the server continues from there in real time, with one exception: the end of the log of a server,
    /// or of its state, is continued by the clock of `builder`, as after a restart.
    #[must_use]
    pub fn open(&self, builder: ApiServerBuilder) -> ApiServer {
        self.open_with(builder, Clock::real_from)
    }

    /// Like [`Self::open`], with the clock that `clock_from` returns instead of one in real time.
    #[must_use]
    pub fn open_with(
        &self,
        builder: ApiServerBuilder,
        clock_from: impl FnOnce(Timestamp) -> Clock,
    ) -> ApiServer {
        let clock = clock_from(self.began);
        let (builder, has_own_time) = match &self.beginning {
            Beginning::Fresh(seed) => (builder.seed(*seed).clock(clock), true),
            Beginning::Held(state) if self.is_end => (builder.holding(state.clone()), false),
            Beginning::Held(state) => (builder.holding(state.clone()).clock(clock), true),
        };
        let server = builder.build();
        server.restore(&self.commits);
        if has_own_time {
            server.jump(self.time.duration_since(server.clock().now()));
        }
        server
    }
}

/// Reads a log, or the state of a server with its commits since.
fn content(text: &str) -> Result<Content, LogError> {
    let (beginning, began, lines) = match ServerState::is_begun_by(text) {
        true => {
            let (state, rest) = ServerState::read(text)?;
            let read = text.len() - rest.len();
            let number = text[..read].lines().count();
            // A server that was killed may have left a part of a line.
            let (rest, _) = rest.rsplit_once('\n').unwrap_or_default();
            let lines: Result<Vec<_>, _> = further(rest, number).collect();
            (Beginning::Held(state.clone()), state.time(), lines?)
        }
        false => {
            let (recipe, lines) = read(text)?;
            let began = recipe.began.parse().map_err(|_| LogError::Line {
                number: 1,
                message: format!("{:?} is not a time", recipe.began),
            })?;
            (Beginning::Fresh(recipe.seed), began, lines)
        }
    };
    let mut content = Content {
        beginning,
        began,
        steps: Vec::new(),
        commits: Vec::new(),
    };
    for (number, line) in lines {
        match line {
            Line::Step(step) => content.steps.push(step),
            Line::Commit(commit) => {
                let entry = commit.to_entry().ok_or_else(|| LogError::Line {
                    number,
                    message: "this is not a commit".to_owned(),
                })?;
                content.commits.push(entry);
            }
            _ => {}
        }
    }
    // Servers write them as they come, from several tables.
    content.commits.sort_by_key(|entry| entry.rv);
    Ok(content)
}

fn after(time: Timestamp, since: HumanDuration) -> Timestamp {
    time.checked_add(since.0).unwrap_or(Timestamp::MAX)
}

/// When the step of that number began.
fn begin_of(steps: &[Step<'_>], number: u64) -> Result<Timestamp, LogError> {
    let heading = format!("{number}. ");
    let step = steps.iter().find(|step| step.words.starts_with(&heading));
    let time = step.and_then(|step| step.time.parse().ok());
    time.ok_or_else(|| {
        let known: Vec<&str> = steps.iter().map(|step| &*step.words).collect();
        LogError::Moment(match known.as_slice() {
            [] => format!("the log has no step {number}, nor any other"),
            known => format!("the log has no step {number}; it has\n{}", known.join("\n")),
        })
    })
}
