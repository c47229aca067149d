//! Files of recorded exchanges: a line a case, with the answers wanted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kubeproof_machinery::json::{Map, Value};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::text;

/// The wait of a `collect` unless the step sets it.
const COLLECT_WAIT: Duration = Duration::from_secs(3);

/// The recorded exchanges of this project, where it was built.
#[must_use]
pub fn recorded_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/recorded")
}

/// A file that is not one of recorded exchanges.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The file cannot be read or written.
    #[error("cannot read or write {}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line of the file is not a recorded case.
    #[error("{}, line {line}: {why}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from one.
        line: usize,
        /// Why.
        why: String,
    },
}

/// A file of recorded exchanges, named by its group: `protocol-watch` for `protocol-watch.jsonl`.
#[derive(Clone, Debug)]
pub struct RecordedFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The subject of the cases: the file's name without its extension.
    pub group: String,
    /// The cases, in the order of the file.
    pub exchanges: Vec<Exchange>,
}

impl RecordedFile {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`FormatError`] with the line at fault.
    pub fn read(path: &Path) -> Result<Self, FormatError> {
        let content = std::fs::read_to_string(path).map_err(|source| FormatError::Io {
            path: path.to_owned(),
            source,
        })?;
        let exchanges = content.lines().enumerate().map(|(index, line)| {
            Exchange::parse(line).map_err(|why| FormatError::Line {
                path: path.to_owned(),
                line: index + 1,
                why,
            })
        });
        Ok(Self {
            path: path.to_owned(),
            group: path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            exchanges: exchanges.collect::<Result<_, _>>()?,
        })
    }

    /// Reads all files of recorded exchanges in `dir`, in the order of their names.
    ///
    /// # Errors
    /// [`FormatError`] with the file and line at fault.
    pub fn read_all(dir: &Path) -> Result<Vec<Self>, FormatError> {
        let io_error = |source| FormatError::Io {
            path: dir.to_owned(),
            source,
        };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(io_error)? {
            let path = entry.map_err(io_error)?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "jsonl")
            {
                paths.push(path);
            }
        }
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    /// `GROUP/CASE`, by which a case of this file is known among all files.
    #[must_use]
    pub fn id(&self, case: &Case) -> String {
        format!("{}/{}", self.group, case.name)
    }

    /// Writes the file back.
    ///
    /// # Errors
    /// [`FormatError::Io`].
    pub fn write(&self) -> Result<(), FormatError> {
        let lines: String = self.exchanges.iter().map(Exchange::line).collect();
        std::fs::write(&self.path, lines).map_err(|source| FormatError::Io {
            path: self.path.clone(),
            source,
        })
    }
}

/// A case and the answers it wants.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The requests to send.
    pub case: Case,
    /// The normalized answers: one for each step except sleeps; empty in a case not recorded yet.
    pub want: Vec<Value>,
}

impl Exchange {
    /// Reads a line of a file.
    ///
    /// # Errors
    /// The reason why the line is not a recorded case.
    pub fn parse(line: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Line {
            case: Value,
            #[serde(default)]
            want: Vec<Value>,
        }
        let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
        Ok(Self {
            case: Case::parse(line.case)?,
            want: line.want,
        })
    }

    /// The line of the file, with its end.
    #[must_use]
    pub fn line(&self) -> String {
        let fields = [
            ("case".to_owned(), self.case.source.clone()),
            ("want".to_owned(), Value::Array(self.want.clone())),
        ];
        let mut line = text::spaced(&Value::Object(Map::from_iter(fields)));
        line.push('\n');
        line
    }
}

/// Requests that belong together, and run in a namespace of their own.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name of the case, unique among all files.
    pub name: String,
    pub(super) steps: Vec<Step>,
    /// Whether some step names `${ns}`, which then is created first.
    pub(super) needs_namespace: bool,
    /// The case as it was read, to be written back.
    source: Value,
}

impl Case {
    /// The case as its file has it.
    pub(super) fn source(&self) -> &Value {
        &self.source
    }

    pub(super) fn parse(source: Value) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Fields {
            case: String,
            steps: Vec<StepFields>,
        }
        let fields = Fields::deserialize(&source).map_err(|error| error.to_string())?;
        let steps = fields.steps.into_iter().enumerate().map(|(index, step)| {
            Step::try_from(step).map_err(|why| format!("{}: step {index}: {why}", fields.case))
        });
        Ok(Self {
            steps: steps.collect::<Result<_, _>>()?,
            needs_namespace: source.to_string().contains("${ns}"),
            name: fields.case,
            source,
        })
    }
}

/// One action of a case.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Lets time pass; has no answer.
    Sleep(Duration),
    /// Starts a watch in the background; its answer is only the status.
    Watch { name: String, request: Request },
    /// Reads all that a watch has delivered since it began.
    Collect {
        name: String,
        /// Stops after this many events.
        events_max: Option<usize>,
        wait: Duration,
        selection: Selection,
    },
    /// Sends a request.
    Send {
        request: Request,
        /// The body is lines of JSON: a watch that ends by itself.
        lines: bool,
        selection: Selection,
    },
}

/// A request to send; all parts of it may name variables.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// `METHOD PATH`.
    pub(super) line: String,
    pub(super) body: Option<Value>,
    pub(super) content_type: Option<String>,
    pub(super) accept: Option<String>,
    pub(super) headers: BTreeMap<String, String>,
}

/// The processing of an answer before it is compared.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    /// Variables for later steps, and their paths in the answer.
    pub(super) save: BTreeMap<String, String>,
    /// Compare only this part of the body.
    pub(super) pick: Option<Vec<Pick>>,
    /// Paths that are not compared.
    pub(super) ignore: Vec<String>,
}

/// A step on the way to a part of a body.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Pick {
    /// An object's field.
    Key(String),
    /// An array's element; from its end if negative.
    Index(i64),
    /// An array's first element with these values at these paths.
    First(BTreeMap<String, Value>),
}

/// A step as the file has it.
#[derive(Deserialize)]
struct StepFields {
    sleep: Option<f64>,
    collect: Option<String>,
    watch: Option<String>,
    req: Option<String>,
    body: Option<Value>,
    r#type: Option<String>,
    accept: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    lines: Option<IgnoredAny>,
    events: Option<usize>,
    wait: Option<f64>,
    #[serde(default)]
    save: BTreeMap<String, String>,
    pick: Option<Vec<Pick>>,
    #[serde(default)]
    ignore: Vec<String>,
}

impl TryFrom<StepFields> for Step {
    type Error = String;

    fn try_from(fields: StepFields) -> Result<Self, String> {
        if let Some(sleep) = fields.sleep {
            return Ok(Self::Sleep(seconds(sleep)?));
        }
        let selection = Selection {
            save: fields.save,
            pick: fields.pick,
            ignore: fields.ignore,
        };
        if let Some(name) = fields.collect {
            return Ok(Self::Collect {
                name,
                events_max: fields.events,
                wait: fields.wait.map_or(Ok(COLLECT_WAIT), seconds)?,
                selection,
            });
        }
        let request = Request {
            line: fields.req.ok_or("it has no req, collect or sleep")?,
            body: fields.body,
            content_type: fields.r#type,
            accept: fields.accept,
            headers: fields.headers,
        };
        Ok(match fields.watch {
            Some(name) => Self::Watch { name, request },
            None => Self::Send {
                request,
                lines: fields.lines.is_some(),
                selection,
            },
        })
    }
}

fn seconds(count: f64) -> Result<Duration, String> {
    Duration::try_from_secs_f64(count).map_err(|error| format!("{count} seconds: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_back_as_it_was() {
        let line = concat!(
            r#"{"case": {"case": "a", "note": "kept", "steps": [{"body": {"f": 1e-07, "#,
            r#""s": "é"}, "req": "POST /api/v1/namespaces/${ns}/pods"}, {"sleep": 1.0}]}, "#,
            r#""want": [{"status": 201}]}"#,
            "\n"
        );
        let exchange = Exchange::parse(line).unwrap();
        assert_eq!(exchange.line(), line);
        assert!(exchange.case.needs_namespace);
    }

    #[test]
    fn a_step_that_does_nothing_is_refused() {
        let line = r#"{"case": {"case": "a", "steps": [{"req": "GET /api"}, {"body": {}}]}}"#;
        let why = Exchange::parse(line).unwrap_err();
        assert_eq!(why, "a: step 1: it has no req, collect or sleep");
    }
}
