//! Runs commands of the shell. Time is tokio's, so a `sleep` under virtual time takes no real time.

mod builtins;

use std::sync::Arc;

use bytes::BytesMut;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::arithmetic;
use super::filesystem::absolute;
use super::shell::{Command, Part, PartValue, Redirect, RedirectKind, Simple, Word, parse};
use super::signals::Signals;
use super::state::{Shell, Stranger, TURN};
use super::streams::{Input, Output, Streams};

/// The exit code for a command that does not exist.
const NOT_FOUND: i32 = 127;
/// The exit code of a shell that can't parse its script.
const BAD_SYNTAX: i32 = 2;
/// The maximum depth of nested function calls.
const CALLS_MAX: usize = 64;

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// The command ended with this code, and the script goes on.
    Status(i32),
    /// The whole shell exits.
    Exit(i32),
    /// The enclosing loop ends.
    Break,
    /// The next iteration of the enclosing loop begins.
    Continue,
    /// The enclosing function returns.
    Return(i32),
}

impl Shell {
    /// Runs a script to its end.
    pub(super) async fn script(&mut self, script: &str, io: &Streams) -> i32 {
        match parse(script) {
            Ok(command) => match self.run(&command, io).await {
                Flow::Status(code) | Flow::Exit(code) | Flow::Return(code) => code,
                Flow::Break | Flow::Continue => self.last,
            },
            Err(error) => {
                io.stderr.line(&format!("sh: {error}"));
                BAD_SYNTAX
            }
        }
    }

    /// Runs one line of an interactive script.
    async fn statement(&mut self, line: &str, io: &Streams) -> Flow {
        match parse(line) {
            Ok(command) => self.run(&command, io).await,
            Err(error) => {
                io.stderr.line(&format!("sh: {error}"));
                Flow::Status(BAD_SYNTAX)
            }
        }
    }

    /// Runs a program with its arguments as a container runtime does, without a shell.
    pub(super) async fn program(&mut self, argv: &[String], io: &Streams) -> Option<i32> {
        let (name, arguments) = argv.split_first()?;
        self.hands_on = true;
        match builtins::run(self, name, arguments, io).await? {
            Flow::Status(code) | Flow::Exit(code) | Flow::Return(code) => Some(code),
            Flow::Break | Flow::Continue => Some(0),
        }
    }

    fn run<'a>(&'a mut self, command: &'a Command, io: &'a Streams) -> BoxFuture<'a, Flow> {
        async move {
            let flow = self.step(command, io).await;
            let Flow::Status(code) = flow else {
                return flow;
            };
            self.last = code;
            let action = self.signals.as_ref().and_then(Signals::due);
            match action.map(|action| parse(&action)) {
                None => flow,
                Some(Err(error)) => self.refused(&error.to_string(), io),
                Some(Ok(action)) => match self.run(&action, io).await {
                    Flow::Status(_) => flow,
                    end => end,
                },
            }
        }
        .boxed()
    }

    /// Returns a subshell for a part of the script that runs as its own process.
    fn fork(&self) -> Self {
        Self {
            signals: None,
            ..self.clone()
        }
    }

    async fn step(&mut self, command: &Command, io: &Streams) -> Flow {
        match command {
            Command::Simple(simple) => self.simple(simple, io).await,
            Command::Pipeline(commands) => self.pipeline(commands, io).await,
            Command::Not(inner) => match self.run(inner, io).await {
                Flow::Status(code) => Flow::Status(i32::from(code == 0)),
                flow => flow,
            },
            Command::And(left, right) => match self.run(left, io).await {
                Flow::Status(0) => self.run(right, io).await,
                flow => flow,
            },
            Command::Or(left, right) => match self.run(left, io).await {
                Flow::Status(code) if code != 0 => self.run(right, io).await,
                flow => flow,
            },
            Command::Sequence(commands) => {
                let mut flow = Flow::Status(0);
                for command in commands {
                    flow = self.run(command, io).await;
                    if !matches!(flow, Flow::Status(_)) {
                        break;
                    }
                }
                flow
            }
            // There is no concurrency here: a background command completes before the next one
            // starts.
            Command::Background(inner) => {
                let mut child = self.fork();
                let signals = self.signals.clone();
                let arrives = async {
                    match signals {
                        Some(signals) => signals.arrive().await,
                        None => std::future::pending().await,
                    }
                };
                // A script that waits for it hears of signals meanwhile.
                tokio::select! {
                    biased;
                    _ = child.run(inner, io) => self.ends_unknown = child.ends_unknown,
                    () = arrives => {}
                }
                Flow::Status(0)
            }
            Command::For { name, words, body } => self.for_loop(name, words, body, io).await,
            Command::While {
                condition,
                body,
                until,
            } => self.while_loop(condition, body, *until, io).await,
            Command::If {
                branches,
                otherwise,
            } => {
                for (condition, body) in branches {
                    match self.run(condition, io).await {
                        Flow::Status(0) => return self.run(body, io).await,
                        Flow::Status(_) => {}
                        flow => return flow,
                    }
                }
                match otherwise {
                    Some(body) => self.run(body, io).await,
                    None => Flow::Status(0),
                }
            }
            Command::Function { name, body } => {
                self.functions.insert(name.clone(), Arc::clone(body));
                Flow::Status(0)
            }
            Command::Group {
                body,
                redirects,
                subshell,
            } => {
                let io = match self.redirected(redirects, io).await {
                    Ok(io) => io,
                    Err(message) => return self.refused(&message, io),
                };
                if !subshell {
                    return self.run(body, &io).await;
                }
                let mut child = self.fork();
                match child.run(body, &io).await {
                    Flow::Exit(code) | Flow::Return(code) => Flow::Status(code),
                    flow => flow,
                }
            }
        }
    }

    fn refused(&self, message: &str, io: &Streams) -> Flow {
        io.stderr.line(&format!("sh: {message}"));
        Flow::Status(1)
    }

    async fn for_loop(&mut self, name: &str, words: &[Word], body: &Command, io: &Streams) -> Flow {
        let mut flow = Flow::Status(0);
        for value in self.fields(words, io).await {
            self.variables.insert(name.to_owned(), value);
            match self.run(body, io).await {
                Flow::Break => return Flow::Status(0),
                Flow::Continue => {}
                end @ (Flow::Exit(_) | Flow::Return(_)) => return end,
                status => flow = status,
            }
        }
        flow
    }

    async fn while_loop(
        &mut self,
        condition: &Command,
        body: &Command,
        until: bool,
        io: &Streams,
    ) -> Flow {
        let mut flow = Flow::Status(0);
        loop {
            match self.run(condition, io).await {
                Flow::Status(code) if (code == 0) != until => {}
                Flow::Status(_) | Flow::Break => return flow,
                Flow::Continue => continue,
                end @ (Flow::Exit(_) | Flow::Return(_)) => return end,
            }
            match self.run(body, io).await {
                Flow::Break => return Flow::Status(0),
                Flow::Continue => {}
                end @ (Flow::Exit(_) | Flow::Return(_)) => return end,
                status => flow = status,
            }
            tokio::time::sleep(TURN).await;
        }
    }

    /// Runs a pipeline; each command gets the complete output of the previous one.
    async fn pipeline(&mut self, commands: &[Command], io: &Streams) -> Flow {
        let mut flow = Flow::Status(0);
        let mut stdin = io.stdin.clone();
        for (index, command) in commands.iter().enumerate() {
            let memory = Arc::new(Mutex::new(BytesMut::new()));
            let last = index + 1 == commands.len();
            let stdout = match last {
                true => io.stdout.clone(),
                false => Output::Memory(Arc::clone(&memory)),
            };
            let streams = Streams {
                stdin,
                stdout,
                stderr: io.stderr.clone(),
            };
            let mut child = self.fork();
            flow = match child.run(command, &streams).await {
                Flow::Exit(code) | Flow::Return(code) => Flow::Status(code),
                flow => flow,
            };
            self.ends_unknown = child.ends_unknown;
            stdin = Input::of(memory.lock().split().freeze());
        }
        flow
    }

    async fn simple(&mut self, simple: &Simple, io: &Streams) -> Flow {
        io.stdout.ready().await;
        let mut assigned = Vec::new();
        for (name, value) in &simple.assignments {
            assigned.push((name.clone(), self.text(value, io).await));
        }
        let argv = self.fields(&simple.words, io).await;
        let streams = match self.redirected(&simple.redirects, io).await {
            Ok(streams) => streams,
            Err(message) => return self.refused(&message, io),
        };
        let Some((name, arguments)) = argv.split_first() else {
            self.variables.extend(assigned);
            return Flow::Status(0);
        };
        let before = self.variables.clone();
        let temporary = !assigned.is_empty();
        self.variables.extend(assigned);
        let flow = match self.functions.get(name).cloned() {
            Some(body) => Some(self.call(&body, arguments, &streams).await),
            // Boxed, because every nested function call keeps this future on the stack.
            None => Box::pin(builtins::run(self, name, arguments, &streams)).await,
        };
        if temporary {
            self.variables = before;
        }
        // A nested shell has already set this from its own last command; `wait` keeps the earlier
        // value.
        if !matches!(name.as_str(), "sh" | "bash" | "ash" | "dash" | "wait") {
            self.ends_unknown = flow.is_none();
        }
        match (flow, self.stranger) {
            (Some(flow), _) => flow,
            (None, Stranger::Trusted) if name == "exec" => Flow::Exit(0),
            (None, Stranger::Trusted) => Flow::Status(0),
            (None, Stranger::Missing) => {
                streams.stderr.line(&format!("sh: {name}: not found"));
                Flow::Status(NOT_FOUND)
            }
        }
    }

    /// Calls a function with its arguments as the shell's positional parameters.
    async fn call(&mut self, body: &Command, arguments: &[String], io: &Streams) -> Flow {
        if self.calls >= CALLS_MAX {
            return self.refused("too many calls", io);
        }
        let shell = self.arguments.first().cloned();
        let mut own = vec![shell.unwrap_or_else(|| "sh".to_owned())];
        own.extend_from_slice(arguments);
        std::mem::swap(&mut self.arguments, &mut own);
        self.calls += 1;
        let flow = self.run(body, io).await;
        self.calls -= 1;
        self.arguments = own;
        match flow {
            Flow::Return(code) => Flow::Status(code),
            flow => flow,
        }
    }

    async fn redirected(
        &mut self,
        redirects: &[Redirect],
        io: &Streams,
    ) -> Result<Streams, String> {
        let mut streams = io.clone();
        for redirect in redirects {
            let target = self.text(&redirect.target, io).await;
            let path = absolute(&self.directory, &target);
            let output = match redirect.kind {
                RedirectKind::Read => {
                    if path == "/dev/stdin" {
                        continue;
                    }
                    let content = self.files.open(&path);
                    let content =
                        content.map_err(|error| format!("can't open {target}: {error}"))?;
                    streams.stdin = Input::of_content(content);
                    continue;
                }
                RedirectKind::Duplicate if target == "1" => streams.stdout.clone(),
                RedirectKind::Duplicate if target == "2" => streams.stderr.clone(),
                RedirectKind::Duplicate => return Err(format!("{target}: bad file descriptor")),
                RedirectKind::Write | RedirectKind::Append => match path.as_str() {
                    "/dev/null" => Output::Null,
                    "/dev/stdout" | "/proc/1/fd/1" => streams.stdout.clone(),
                    "/dev/stderr" | "/proc/1/fd/2" => streams.stderr.clone(),
                    _ => {
                        let append = redirect.kind == RedirectKind::Append;
                        let opened = self.files.write(&path, b"", append);
                        opened.map_err(|error| format!("can't create {target}: {error}"))?;
                        Output::File(self.files.clone(), path)
                    }
                },
            };
            match redirect.descriptor {
                2 => streams.stderr = output,
                _ => streams.stdout = output,
            }
        }
        Ok(streams)
    }

    /// Expands words into fields.
    async fn fields(&mut self, words: &[Word], io: &Streams) -> Vec<String> {
        let mut fields = Vec::new();
        for word in words {
            let mut field: Option<String> = None;
            for part in word {
                let text = self.part(part, io).await;
                if part.quoted || matches!(part.value, PartValue::Text(_)) {
                    field.get_or_insert_default().push_str(&text);
                    continue;
                }
                if text.starts_with(char::is_whitespace) {
                    fields.extend(field.take());
                }
                let mut pieces = text.split_whitespace().peekable();
                while let Some(piece) = pieces.next() {
                    field.get_or_insert_default().push_str(piece);
                    if pieces.peek().is_some() || text.ends_with(char::is_whitespace) {
                        fields.extend(field.take());
                    }
                }
            }
            fields.extend(field);
        }
        fields
    }

    /// Expands a word into one string.
    fn text<'a>(&'a mut self, word: &'a Word, io: &'a Streams) -> BoxFuture<'a, String> {
        async move {
            let mut text = String::new();
            for part in word {
                text += &self.part(part, io).await;
            }
            text
        }
        .boxed()
    }

    async fn part(&mut self, part: &Part, io: &Streams) -> String {
        match &part.value {
            PartValue::Text(text) => text.clone(),
            PartValue::Variable { name, default } => {
                let value = self.variable(name);
                match default {
                    Some(default) if value.is_empty() => self.text(default, io).await,
                    _ => value,
                }
            }
            PartValue::Output(command) => {
                let memory = Arc::new(Mutex::new(BytesMut::new()));
                let streams = Streams {
                    stdout: Output::Memory(Arc::clone(&memory)),
                    ..io.clone()
                };
                let mut child = self.fork();
                if let Flow::Status(code) | Flow::Exit(code) | Flow::Return(code) =
                    child.run(command, &streams).await
                {
                    self.last = code;
                }
                let text = String::from_utf8_lossy(&memory.lock()).into_owned();
                text.trim_end_matches('\n').to_owned()
            }
            PartValue::Arithmetic(word) => {
                let text = self.text(word, io).await;
                arithmetic::evaluate(&text, &|name| self.variable(name)).to_string()
            }
        }
    }

    fn variable(&self, name: &str) -> String {
        match name {
            "?" => self.last.to_string(),
            "#" => self.arguments.len().saturating_sub(1).to_string(),
            "$" => "1".to_owned(),
            "@" | "*" => self.arguments.get(1..).unwrap_or_default().join(" "),
            name => match name.parse::<usize>() {
                Ok(index) => self.arguments.get(index).cloned().unwrap_or_default(),
                Err(_) => self.variables.get(name).cloned().unwrap_or_default(),
            },
        }
    }
}
