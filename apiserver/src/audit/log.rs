//! The sink that writes events to a file or to standard output, a line each.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use jiff::Timestamp;

use super::event::{Event, Level};
use super::file::{RotatedFile, Rotation};
use super::{Sink, SinkError};

/// The annotation of an event that lost its objects.
const TRUNCATED: &str = "audit.k8s.io/truncated";

/// The form of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The event as JSON.
    #[default]
    Json,
    /// Some of its facts as text.
    Legacy,
}

impl Format {
    /// Every format, in upstream's order.
    pub const ALL: [Self; 2] = [Self::Legacy, Self::Json];

    /// Returns the name of the format.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Legacy => "legacy",
        }
    }
}

/// How requests depend on the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Events wait in a queue of this length; events beyond it are lost.
    Batch(usize),
    /// Requests wait until events are written, and do not see errors.
    Blocking,
    /// As [`Mode::Blocking`], but a request whose first event cannot be written is refused.
    BlockingStrict,
}

/// The limits of an event's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// The bytes of an event as JSON beyond which it loses its objects, or else is dropped.
    pub event_bytes_max: usize,
}

/// Settings of a [`Log`]. The defaults are those of kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogOptions {
    /// The form of lines.
    pub format: Format,
    /// How requests depend on the log.
    pub mode: Mode,
    /// The limits of events; `None` is no limit.
    pub truncation: Option<Truncation>,
    /// The megabytes of a file before it is rotated; 0 is no rotation.
    pub megabytes_max: u64,
    /// The days that rotated files are kept; 0 is no limit.
    pub days_max: u32,
    /// The number of rotated files that are kept; 0 is no limit.
    pub backups_max: usize,
    /// Whether rotated files are compressed.
    pub compress: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            format: Format::Json,
            mode: Mode::Blocking,
            truncation: None,
            megabytes_max: 100,
            days_max: 366,
            backups_max: 100,
            compress: false,
        }
    }
}

/// A log of events. Dropping it waits until everything is written.
#[derive(Debug)]
pub struct Log {
    output: Output,
    mode: Mode,
    truncation: Option<Truncation>,
}

#[derive(Debug)]
enum Output {
    Direct(Arc<Lines>),
    Queue(Queue),
}

/// Writes events one after the other, in a thread.
#[derive(Debug)]
struct Queue {
    /// Present until the queue is dropped.
    sender: Option<SyncSender<Event>>,
    thread: Option<JoinHandle<()>>,
}

/// Writes events as lines.
#[derive(Debug)]
struct Lines {
    format: Format,
    target: Target,
}

#[derive(Debug)]
enum Target {
    StandardOutput,
    File(RotatedFile),
}

impl Log {
    /// A log in a file, which is created with its directories if it is missing. Only its owner can read a new file.
    ///
    /// # Errors
    /// The error about the file.
    pub fn to_file(path: impl AsRef<Path>, options: &LogOptions) -> io::Result<Self> {
        let rotation = Rotation {
            bytes_max: options.megabytes_max * 1024 * 1024,
            days_max: options.days_max,
            backups_max: options.backups_max,
            compress: options.compress,
        };
        let file = RotatedFile::open(path.as_ref(), rotation)?;
        Self::new(Target::File(file), options)
    }

    /// A log on standard output.
    ///
    /// # Errors
    /// The error of a thread that cannot be started, in [`Mode::Batch`].
    pub fn to_standard_output(options: &LogOptions) -> io::Result<Self> {
        Self::new(Target::StandardOutput, options)
    }

    fn new(target: Target, options: &LogOptions) -> io::Result<Self> {
        let format = options.format;
        let lines = Arc::new(Lines { format, target });
        let output = match options.mode {
            Mode::Batch(events_max) => Output::Queue(Queue::start(lines, events_max)?),
            Mode::Blocking | Mode::BlockingStrict => Output::Direct(lines),
        };
        Ok(Self {
            output,
            mode: options.mode,
            truncation: options.truncation,
        })
    }

    fn write(&self, event: &Event) -> Result<(), SinkError> {
        match &self.output {
            Output::Direct(lines) => lines.write(event).map_err(|why| SinkError(why.to_string())),
            Output::Queue(queue) => queue.push(event),
        }
    }
}

impl Sink for Log {
    fn take(&self, event: &Event) -> Result<(), SinkError> {
        let written = match self.truncation.map(|limit| limit.apply(event)) {
            None | Some(Fit::Whole) => self.write(event),
            Some(Fit::Without(event)) => self.write(&event),
            Some(Fit::Nothing) => {
                let error = "event is too large even after truncating";
                tracing::error!(error, audit_id = event.audit_id, "audit event lost");
                return Ok(());
            }
        };
        match (self.mode, written) {
            (Mode::BlockingStrict, written) => written,
            (_, Ok(())) => Ok(()),
            (Mode::Batch(_) | Mode::Blocking, Err(error)) => {
                tracing::error!(%error, audit_id = event.audit_id, "audit event lost");
                Ok(())
            }
        }
    }
}

/// The part of an event that fits.
enum Fit {
    Whole,
    /// All but its objects.
    Without(Box<Event>),
    Nothing,
}

impl Truncation {
    fn apply(self, event: &Event) -> Fit {
        // Upstream counts the end of the line, too.
        let fits = |event: &Event| event.to_json().len() < self.event_bytes_max;
        if fits(event) {
            return Fit::Whole;
        }
        if event.level < Level::Request {
            return Fit::Nothing;
        }
        let mut event = Box::new(event.clone());
        (event.request_object, event.response_object) = (None, None);
        let annotations = &mut event.annotations;
        annotations.insert(TRUNCATED.to_owned(), "true".to_owned());
        match fits(&event) {
            true => Fit::Without(event),
            false => Fit::Nothing,
        }
    }
}

impl Queue {
    fn start(lines: Arc<Lines>, events_max: usize) -> io::Result<Self> {
        let (sender, events): (_, Receiver<Event>) = sync_channel(events_max);
        let write = move || {
            for event in events {
                if let Err(error) = lines.write(&event) {
                    tracing::error!(%error, audit_id = event.audit_id, "audit event lost");
                }
            }
        };
        let thread = std::thread::Builder::new().name("audit-log".to_owned());
        Ok(Self {
            sender: Some(sender),
            thread: Some(thread.spawn(write)?),
        })
    }

    fn push(&self, event: &Event) -> Result<(), SinkError> {
        let sender = self.sender.as_ref().expect("the queue is not dropped");
        let pushed = sender.try_send(event.clone());
        pushed.map_err(|error| match error {
            TrySendError::Full(_) => SinkError("audit buffer queue blocked".to_owned()),
            TrySendError::Disconnected(_) => SinkError("audit backend shut down".to_owned()),
        })
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        drop(self.sender.take());
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!("the thread of the audit log has panicked");
        }
    }
}

impl Lines {
    fn write(&self, event: &Event) -> io::Result<()> {
        let mut line = match self.format {
            Format::Json => event.to_json(),
            Format::Legacy => event.to_line(),
        };
        line.push('\n');
        self.target.write(line.as_bytes(), event.stage_time)
    }
}

impl Target {
    fn write(&self, line: &[u8], now: Timestamp) -> io::Result<()> {
        match self {
            Self::File(file) => file.write(line, now),
            Self::StandardOutput => {
                let mut output = io::stdout().lock();
                output.write_all(line)?;
                output.flush()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use super::*;
    use crate::audit::{Audit, Facts, Policy, RequestAttributes, Stage};
    use crate::clock::Clock;

    /// The first event of a request at a level, with the object that the level records.
    fn event(level: &str) -> Event {
        let text =
            format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{{level: {level}}}]");
        let policy = Policy::read(text.as_bytes()).unwrap();
        let kept = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let sink = Arc::clone(&kept);
        let audit = Audit::new(policy).sink(move |event: &Event| sink.lock().push(event.clone()));
        let groups = ["a".to_owned(), "b\"c".to_owned()];
        let attributes = RequestAttributes {
            user: Some(("tim", &groups)),
            verb: "create",
            path: "/x",
            resource: None,
        };
        let facts = || Facts {
            audit_id: "1".to_owned(),
            request_uri: "/x".to_owned(),
            user: crate::audit::UserInfo {
                username: "tim".to_owned(),
                groups: groups.to_vec(),
                ..crate::audit::UserInfo::default()
            },
            source_ips: vec!["10.0.0.1".to_owned()],
            user_agent: "curl".to_owned(),
            received: "2026-01-01T00:00:00.5Z".parse().unwrap(),
        };
        let record = audit.record(&attributes, &Clock::real(), facts).unwrap();
        let object = crate::json::json!({"metadata": {"namespace": "n"}, "data": "x".repeat(500)});
        record.request_object(&object, |_| {});
        record.reach(Stage::RequestReceived);
        kept.lock().remove(0)
    }

    #[test]
    fn the_legacy_format_is_a_line_of_some_facts() {
        let mut event = event("Metadata");
        let head = r#"2026-01-01T00:00:00.5Z AUDIT: id="1" stage="RequestReceived" ip="10.0.0.1" method="create" user="tim" groups="\"a\",\"b\\\"c\"""#;
        let rest = r#"user-agent="curl" namespace="n" uri="/x""#;
        let want =
            format!(r#"{head} as="<self>" asgroups="<lookup>" {rest} response="<deferred>""#);
        assert_eq!(event.to_line(), want);
        event.source_ips.clear();
        event.user = crate::audit::UserInfo::default();
        event.impersonated_user = Some(crate::audit::UserInfo {
            username: "tom".to_owned(),
            groups: vec!["d".to_owned()],
            ..crate::audit::UserInfo::default()
        });
        event.response_status = Some(crate::audit::ResponseStatus {
            code: 201,
            ..crate::audit::ResponseStatus::default()
        });
        let want = format!(
            r#"2026-01-01T00:00:00.5Z AUDIT: id="1" stage="RequestReceived" ip="<unknown>" method="create" user="<none>" groups="<none>" as="tom" asgroups="\"d\"" {rest} response="201""#
        );
        assert_eq!(event.to_line(), want);
    }

    #[test]
    fn an_event_that_is_too_large_loses_its_objects() {
        let limit = |event_bytes_max| Truncation { event_bytes_max };
        let (large, small) = (event("Request"), event("Metadata"));
        assert!(matches!(limit(5000).apply(&large), Fit::Whole));
        let Fit::Without(cut) = limit(700).apply(&large) else {
            panic!("it fits without its object");
        };
        assert!(cut.request_object.is_none());
        assert_eq!(cut.annotations[TRUNCATED], "true");
        assert!(matches!(limit(10).apply(&large), Fit::Nothing));
        assert!(matches!(limit(700).apply(&small), Fit::Whole));
        assert!(matches!(limit(10).apply(&small), Fit::Nothing));
    }

    /// Writes three events into a file, ends the log, and returns the lines.
    fn lines(name: &str, options: &LogOptions) -> Vec<String> {
        let path = std::env::temp_dir().join(format!("kubeproof-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let log = Log::to_file(&path, options).unwrap();
        for _ in 0..3 {
            log.take(&event("Metadata")).unwrap();
        }
        drop(log);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn every_mode_has_written_all_lines_when_the_log_is_dropped() {
        for mode in [Mode::Batch(10), Mode::Blocking, Mode::BlockingStrict] {
            let options = LogOptions {
                mode,
                ..LogOptions::default()
            };
            let want = vec![event("Metadata").to_json(); 3];
            assert_eq!(lines("modes", &options), want, "{mode:?}");
        }
        let options = LogOptions {
            format: Format::Legacy,
            ..LogOptions::default()
        };
        assert_eq!(
            lines("legacy", &options),
            vec![event("Metadata").to_line(); 3]
        );
    }

    #[test]
    fn only_the_strict_mode_reports_what_is_lost() {
        for (mode, is_reported) in [(Mode::Blocking, false), (Mode::BlockingStrict, true)] {
            let path =
                std::env::temp_dir().join(format!("kubeproof-strict-{}", std::process::id()));
            let options = LogOptions {
                mode,
                ..LogOptions::default()
            };
            let log = Log::to_file(&path, &options).unwrap();
            let mut large = event("Request");
            // More than a file may have.
            large.user_agent = "x".repeat(101 * 1024 * 1024);
            assert_eq!(log.take(&large).is_err(), is_reported, "{mode:?}");
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn the_thread_of_a_queue_ends_with_it() {
        let path = std::env::temp_dir().join(format!("kubeproof-queue-{}", std::process::id()));
        let file = RotatedFile::open(&path, Rotation::default()).unwrap();
        let lines = Arc::new(Lines {
            format: Format::Json,
            target: Target::File(file),
        });
        let held: Weak<Lines> = Arc::downgrade(&lines);
        drop(Queue::start(lines, 1).unwrap());
        assert!(held.upgrade().is_none());
        std::fs::remove_file(&path).unwrap();
    }
}
