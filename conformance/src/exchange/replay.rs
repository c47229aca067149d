//! Replays a case against a server.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt;
use kubeproof_apiserver::{ApiServer, Clock};
use kubeproof_machinery::json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::time::EPOCH;

use super::error::TransportError;
use super::format::{Case, Request, Selection, Step};
use super::http1::AnswerBody;
use super::normalize::Normalizer;
use super::selection::{Missing, dig, drop_path, pick};
use super::text;
use super::text::decoded;
use super::transport::{Call, Target, latin1};
use super::variables::Variables;
use super::watch::Watch;

/// A request without an answer for this long is given up.
const ANSWER_WAIT: Duration = Duration::from_secs(30);
/// A watch gets a moment to begin before the next step.
const WATCH_START: Duration = Duration::from_millis(50);

const JSON: &str = "application/json";

/// Why a step has no answer. Its text stands in the answer's place.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error(transparent)]
    Missing(#[from] Missing),
    #[error("there is no watch {0:?}")]
    NoWatch(String),
    #[error("{0:?} is not a method and a path")]
    RequestLine(String),
}

impl StepError {
    fn instead_of_an_answer(self) -> Value {
        let why = self.to_string();
        match self {
            // There was an answer, and that it lacks something is a fact about it.
            Self::Missing(_) => json!({ "missing": why }),
            Self::Transport(_) | Self::NoWatch(_) | Self::RequestLine(_) => json!({ "error": why }),
        }
    }
}

/// Replays `case` against a server of its own in this process, under virtual time.
///
/// Returns the normalized answers: one for each step except sleeps.
///
/// # Errors
/// When no runtime can be built.
pub fn replay_in_process(case: &Case) -> std::io::Result<Vec<Value>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    Ok(runtime.block_on(async {
        let builder = ApiServer::builder().clock(Clock::simulated(EPOCH));
        replay(&Target::in_process(builder), case).await
    }))
}

/// Replays `case` against `target`.
///
/// Returns the normalized answers: one for each step except sleeps. Never fails: a missing answer is
/// `{"error": WHY}`, and an answer without the part to pick is `{"missing": WHY}`.
///
/// Cancel safety: requests that were sent stay sent; watches end.
pub async fn replay(target: &Target, case: &Case) -> Vec<Value> {
    let mut replay = Replay {
        target,
        variables: Variables::of_case(&case.name),
        normalizer: Normalizer::default(),
        watches: BTreeMap::new(),
    };
    if case.needs_namespace
        && let Err(why) = replay.create_namespace().await
    {
        return vec![json!({ "error": why })];
    }
    let mut answers = Vec::new();
    for step in &case.steps {
        let answer = match step {
            Step::Sleep(time) => {
                sleep(*time).await;
                continue;
            }
            Step::Watch { name, request } => replay.watch(name, request).await,
            Step::Collect {
                name,
                events_max,
                wait,
                selection,
            } => replay.collect(name, *events_max, *wait, selection).await,
            Step::Send {
                request,
                lines,
                selection,
            } => replay.send(request, *lines, selection).await,
        };
        answers.push(answer.unwrap_or_else(StepError::instead_of_an_answer));
    }
    answers
}

/// A case on its way.
struct Replay<'a> {
    target: &'a Target,
    variables: Variables,
    normalizer: Normalizer,
    watches: BTreeMap<String, Watch>,
}

impl Replay<'_> {
    async fn create_namespace(&self) -> Result<(), String> {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": self.variables.text("${ns}")},
        });
        let call =
            Call::new("POST", "/api/v1/namespaces", None).with_body(JSON, text::ascii(&namespace));
        let status = match self.target.send(call).await {
            Ok(answer) => answer.status().as_u16(),
            Err(why) => return Err(format!("namespace not created: {why}")),
        };
        match status {
            // On a server that was used before, it may be there.
            201 | 409 => Ok(()),
            _ => Err(format!("namespace not created: {status}")),
        }
    }

    async fn watch(&mut self, name: &str, request: &Request) -> Result<Value, StepError> {
        let line = self.variables.text(&request.line);
        let (method, path) = split_line(&line)?;
        let accept = request
            .accept
            .as_ref()
            .map(|accept| self.variables.text(accept));
        let call = Call::new(method, path, accept.as_deref());
        let watch = Watch::start(self.target, call).await?;
        let answer = json!({ "watch": watch.status() });
        self.watches.insert(self.variables.text(name), watch);
        sleep(WATCH_START).await;
        Ok(answer)
    }

    async fn collect(
        &mut self,
        name: &str,
        events_max: Option<usize>,
        wait: Duration,
        selection: &Selection,
    ) -> Result<Value, StepError> {
        let name = self.variables.text(name);
        let watch = self
            .watches
            .get_mut(&name)
            .ok_or(StepError::NoWatch(name))?;
        let events = watch.collect(events_max, wait).await;
        let answer = json!({ "watch": watch.status(), "events": events });
        self.finish(answer, selection)
    }

    async fn send(
        &mut self,
        request: &Request,
        lines: bool,
        selection: &Selection,
    ) -> Result<Value, StepError> {
        let answer = timeout(ANSWER_WAIT, self.target.send(self.call(request)?));
        let answer = answer.await.map_err(|_| TransportError::Silent)??;
        let (head, body) = answer.into_parts();
        let body = read(body).await?;
        let body = if lines {
            let lines = body.split(|byte| matches!(byte, b'\n' | b'\r'));
            lines
                .filter(|line| !line.trim_ascii().is_empty())
                .map(decoded)
                .collect()
        } else {
            decoded(&body)
        };
        let answer = json!({
            "status": head.status.as_u16(),
            "type": content_type(&head.headers),
            "warnings": warnings(&head.headers),
            "body": body,
        });
        self.finish(answer, selection)
    }

    /// The request with its variables replaced.
    fn call(&self, request: &Request) -> Result<Call, StepError> {
        let text = |template: &String| self.variables.text(template);
        let line = text(&request.line);
        let (method, path) = split_line(&line)?;
        let mut call = Call::new(method, path, request.accept.as_ref().map(text).as_deref());
        let body = request.body.as_ref().map(|body| self.variables.value(body));
        if let Some(body) = body.filter(|body| !body.is_null()) {
            let named = request.content_type.as_ref().map(text);
            let content_type = media_type(named.as_deref().unwrap_or("json"));
            let bytes = match &body {
                Value::String(raw) => latin1(raw)
                    .ok_or_else(|| TransportError::Unsendable(format!("the body {raw:?}")))?,
                other => text::ascii(other).into_bytes(),
            };
            call = call.with_body(content_type, bytes);
        }
        for (name, value) in &request.headers {
            call.headers.push((text(name), text(value)));
        }
        Ok(call)
    }

    /// Saves, picks, normalizes and leaves out the parts that the step names.
    fn finish(&mut self, mut answer: Value, selection: &Selection) -> Result<Value, StepError> {
        let saved_from = answer.get("body").unwrap_or(&answer);
        for (name, path) in &selection.save {
            let value = dig(saved_from, path).cloned();
            self.variables
                .set(name, value.unwrap_or_else(|_| "<unsaved>".into()));
        }
        if let Some(path) = &selection.pick {
            let body = dig(&answer, "body")?;
            answer["body"] = pick(body, path, &self.variables)?;
        }
        let mut answer = self.normalizer.value(&answer);
        let compared = match answer.get_mut("body") {
            Some(body) => body,
            None => &mut answer,
        };
        for path in &selection.ignore {
            drop_path(compared, &path.split('.').collect::<Vec<_>>());
        }
        Ok(answer)
    }
}

fn split_line(line: &str) -> Result<(&str, &str), StepError> {
    let parts = line.split_once(' ');
    parts.ok_or_else(|| StepError::RequestLine(line.to_owned()))
}

/// The media type that a step's `type` stands for; `type` itself if it is not a short name.
fn media_type(name: &str) -> &str {
    match name {
        "json" => JSON,
        "yaml" => "application/yaml",
        "jsonpatch" => "application/json-patch+json",
        "merge" => "application/merge-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        other => other,
    }
}

async fn read(mut body: AnswerBody) -> Result<Bytes, TransportError> {
    let mut read = BytesMut::new();
    loop {
        let frame = timeout(ANSWER_WAIT, body.frame()).await;
        match frame.map_err(|_| TransportError::Silent)? {
            Some(frame) => read.extend_from_slice(frame?.data_ref().unwrap_or(&Bytes::new())),
            None => return Ok(read.freeze()),
        }
    }
}

fn content_type(headers: &HeaderMap) -> String {
    let content_type = headers
        .get(CONTENT_TYPE)
        .map(from_latin1)
        .unwrap_or_default();
    let media_type = content_type.split(';').next();
    media_type.unwrap_or_default().to_owned()
}

fn warnings(headers: &HeaderMap) -> Vec<String> {
    let mut warnings: Vec<String> = headers.get_all("warning").iter().map(from_latin1).collect();
    warnings.sort();
    warnings
}

fn from_latin1(value: &HeaderValue) -> String {
    value.as_bytes().iter().copied().map(char::from).collect()
}
