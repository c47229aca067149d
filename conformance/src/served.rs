//! The log and the page that a server leaves after a test run.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use kubeproof_apiserver::audit::{Audit, Event, Level, Policy, Rule, Stage};
use kubeproof_apiserver::{ApiServer, EventType, JournalEntry};
use kubeproof_machinery::json::Value;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::log::Recorder;
use crate::report::served::{FailedRequest, ServedPage, WrittenObject};
use crate::timeline::{Timeline, since};
use crate::user_agent::actor;

/// The number of lines of the timeline that a page shows.
const LINES_MAX: usize = 10_000;
/// The number of kinds of failures that a page shows.
const FAILURES_MAX: usize = 1000;
/// Only its owner reads what may hold Secrets.
#[cfg(unix)]
const OWNER_ONLY: u32 = 0o600;

/// The requests of a server that failed: those with a code of 400 or more. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct FailedRequests(Arc<Mutex<BTreeMap<Failure, (Timestamp, usize)>>>);

/// A way of failing: actor, request, code and message.
type Failure = (String, String, u16, String);

impl FailedRequests {
    /// The auditing that collects them, for [`ApiServerBuilder::audit`](kubeproof_apiserver::ApiServerBuilder::audit).
    pub fn audit(&self) -> Audit {
        let everything = Rule {
            level: Level::Metadata,
            omit_stages: vec![Stage::RequestReceived],
            ..Rule::default()
        };
        let policy = Policy {
            rules: vec![everything],
            ..Policy::default()
        };
        self.also(Audit::new(policy))
    }

    /// Collects the failures among the requests that `audit` records.
    pub fn also(&self, audit: Audit) -> Audit {
        let held = self.clone();
        audit.sink(move |event: &Event| held.note(event))
    }

    fn note(&self, event: &Event) {
        // The start of a response is the only stage of a request whose user is not known.
        let status = event.response_status.as_ref();
        let Some(status) = status.filter(|own| own.code >= 400) else {
            return;
        };
        let is_end = match event.stage {
            Stage::RequestReceived => false,
            Stage::ResponseStarted => event.user.username.is_empty(),
            Stage::ResponseComplete | Stage::Panic => true,
        };
        if !is_end {
            return;
        }
        let path = event.request_uri.split('?').next().unwrap_or_default();
        let failure = (
            actor(&event.user_agent).to_owned(),
            format!("{} {path}", event.verb),
            status.code,
            status.message.clone(),
        );
        let mut held = self.0.lock();
        if let Some((_, count)) = held.get_mut(&failure) {
            *count += 1;
        } else if held.len() < FAILURES_MAX {
            held.insert(failure, (event.request_received, 1));
        }
    }

    /// The failures in the order in which they first happened.
    fn since(&self, began: Timestamp) -> Vec<FailedRequest> {
        let held = self.0.lock();
        let mut all: Vec<_> = held.iter().collect();
        all.sort_by_key(|(_, (time, _))| *time);
        let all =
            all.into_iter().map(
                |((actor, request, code, message), (time, count))| FailedRequest {
                    time: since(began, *time),
                    actor: actor.clone(),
                    request: request.clone(),
                    code: *code,
                    message: message.clone(),
                    count: *count,
                },
            );
        all.collect()
    }
}

/// A server whose writes are recorded, with their writers, until [`ServedRun::end`].
#[derive(Debug)]
pub struct ServedRun {
    task: JoinHandle<io::Result<Course>>,
    stop: watch::Sender<bool>,
}

/// The record so far.
#[derive(Debug)]
struct Course {
    server: ApiServer,
    recorder: Recorder,
    failed: FailedRequests,
    /// The log.
    path: PathBuf,
    began: Timestamp,
    words: Timeline,
    timeline: Vec<String>,
    lines_left_out: usize,
    writers: BTreeMap<String, [usize; 3]>,
    objects: BTreeMap<(String, String), WrittenObject>,
}

impl ServedRun {
    /// Begins the log of `server`, which has a journal, in the directory, as `<n>.log` with the next free number.
    ///
    /// It runs in the current runtime of tokio. From here on, only this run may take the server's journal.
    ///
    /// # Errors
    /// When the directory or the log cannot be written.
    pub fn begin(server: &ApiServer, dir: &Path, failed: &FailedRequests) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let path = reserve(dir)?;
        let commits = server.subscribe();
        let course = Course {
            recorder: Recorder::begin(server, &path)?,
            server: server.clone(),
            failed: failed.clone(),
            path,
            began: server.clock().now(),
            words: Timeline::default(),
            timeline: Vec::new(),
            lines_left_out: 0,
            writers: BTreeMap::new(),
            objects: BTreeMap::new(),
        };
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(course.follow(commits, stopped));
        Ok(Self { task, stop })
    }

    /// Writes the last commits and the page `<n>.html` next to the log; returns the path of the page.
    ///
    /// # Errors
    /// When one of the files could not be written, now or before.
    ///
    /// # Panics
    /// Never, unless recording has panicked.
    pub async fn end(self) -> io::Result<PathBuf> {
        self.stop.send_replace(true);
        let course = self.task.await.expect("recording does not panic")?;
        course.write_page()
    }
}

/// Creates an empty log with the next free number. Several processes may do so at once.
fn reserve(dir: &Path) -> io::Result<PathBuf> {
    let mut number = 1_u32;
    loop {
        let path = dir.join(format!("{number}.log"));
        match private().create_new(true).open(&path) {
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Options to write a file that only its owner can read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, OWNER_ONLY);
    options
}

impl Course {
    async fn follow(
        mut self,
        mut commits: watch::Receiver<u64>,
        mut stopped: watch::Receiver<bool>,
    ) -> io::Result<Self> {
        loop {
            let is_over = tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => true,
                changed = commits.changed() => changed.is_err(),
            };
            for entry in self.recorder.write_entries()? {
                self.note(&entry);
            }
            if is_over {
                return Ok(self);
            }
        }
    }

    fn note(&mut self, entry: &JournalEntry) {
        for line in self.words.lines_of(entry, self.began) {
            match self.timeline.len() < LINES_MAX {
                true => self.timeline.push(line),
                false => self.lines_left_out += 1,
            }
        }
        let writer = match &*entry.user_agent {
            "" => "the server",
            user_agent => actor(user_agent),
        };
        let counts = self.writers.entry(writer.to_owned()).or_default();
        counts[match entry.event {
            EventType::Added => 0,
            EventType::Modified => 1,
            EventType::Deleted => 2,
        }] += 1;
        let key = (
            entry.gvr.group_resource().to_string(),
            name_of(&entry.object),
        );
        let object = self
            .objects
            .entry(key.clone())
            .or_insert_with(|| WrittenObject {
                resource: key.0,
                name: key.1,
                created_by: String::new(),
                written_by: String::new(),
                writes: 0,
                is_gone: false,
            });
        if entry.event == EventType::Added {
            writer.clone_into(&mut object.created_by);
        }
        writer.clone_into(&mut object.written_by);
        object.writes += 1;
        object.is_gone = entry.event == EventType::Deleted;
    }

    fn write_page(self) -> io::Result<PathBuf> {
        let file_name = |path: &Path| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        let ended = self.server.clock().now();
        let length = since(self.began, ended);
        let number = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let page = ServedPage {
            name: format!("control plane {number}"),
            log: file_name(&self.path),
            when: format!(
                "from {} on for {}",
                self.began,
                length.trim_start_matches('+')
            ),
            writers: self.writers.into_iter().collect(),
            failures: self.failed.since(self.began),
            panics: self.server.panics(),
            timeline: self.timeline,
            lines_left_out: self.lines_left_out,
            objects: self.objects.into_values().collect(),
        };
        let path = self.path.with_extension("html");
        let mut file = private().create(true).truncate(true).open(&path)?;
        file.write_all(page.to_html().as_bytes())?;
        Ok(path)
    }
}

/// Namespace and name of an object.
fn name_of(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    }
}
