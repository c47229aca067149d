//! The commands that run others, or change the course of a script.

use super::super::commands::{self, without_directory};
use super::super::filesystem::absolute;
use super::super::shell::parse;
use super::super::state::Shell;
use super::super::streams::Streams;
use super::super::terminal_signals::{Signal, Signals};
use super::Flow;

/// Runs the command `name`. Returns `None` if it does not exist.
pub(super) async fn run(
    shell: &mut Shell,
    name: &str,
    arguments: &[String],
    io: &Streams,
) -> Option<Flow> {
    let name = without_directory(name);
    let code = match name {
        "trap" => {
            trap(shell, arguments);
            0
        }
        "exit" => return Some(Flow::Exit(exit_code(arguments, shell.last))),
        "break" => return Some(Flow::Break),
        "continue" => return Some(Flow::Continue),
        "return" => return Some(Flow::Return(exit_code(arguments, shell.last))),
        "exec" => {
            let Some((program, rest)) = arguments.split_first() else {
                return Some(Flow::Status(0));
            };
            // A signal handler belongs to the program that has set it; `exec` drops it.
            if let Some(signals) = &shell.signals {
                signals.trap(None);
            }
            shell.hands_on = true;
            let flow = Box::pin(run(shell, program, rest, io)).await?;
            return Some(match flow {
                Flow::Status(code) => Flow::Exit(code),
                flow => flow,
            });
        }
        "sh" | "bash" | "ash" | "dash" => nested(shell, arguments, io).await,
        _ => commands::run(shell, name, arguments, io).await?,
    };
    Some(Flow::Status(code))
}

/// `trap ACTION SIGNAL…`; the action `-` or none removes the handler.
fn trap(shell: &Shell, arguments: &[String]) {
    let arguments = match arguments {
        [dashes, rest @ ..] if dashes == "--" => rest,
        all => all,
    };
    let Some((action, names)) = arguments.split_first() else {
        return;
    };
    let terminates = |name: &String| {
        let name = name.to_uppercase();
        matches!(name.trim_start_matches("SIG"), "TERM" | "15")
    };
    if let Some(signals) = shell
        .signals
        .as_ref()
        .filter(|_| names.iter().any(terminates))
    {
        let action = (!matches!(action.as_str(), "-" | "")).then(|| action.clone());
        signals.trap(action);
    }
}

fn exit_code(arguments: &[String], last: i32) -> i32 {
    let code = arguments.first().and_then(|code| code.parse::<i32>().ok());
    code.map_or(last, |code| code & 0xff)
}

/// `sh -c script name argument…`, `sh file`, or a script from standard input.
async fn nested(shell: &mut Shell, arguments: &[String], io: &Streams) -> i32 {
    let hands_on = std::mem::take(&mut shell.hands_on);
    let mut child = shell.clone();
    if !hands_on {
        child.signals = None;
    }
    let options = arguments.iter().take_while(|word| word.starts_with('-'));
    let option_count = options.clone().count();
    let is_inline = options.clone().any(|word| word.contains('c'));
    let rest = &arguments[option_count..];
    if is_inline {
        let Some((script, own)) = rest.split_first() else {
            io.stderr.line("sh: -c requires an argument");
            return 2;
        };
        child.arguments = own.to_vec();
        let code = Box::pin(child.script(script, io)).await;
        shell.ends_unknown = child.ends_unknown;
        return code;
    }
    if let Some(file) = rest.first() {
        let path = absolute(&shell.directory, file);
        child.arguments = rest.to_vec();
        return match shell.files.read(&path) {
            Ok(bytes) => {
                let script = String::from_utf8_lossy(&bytes).into_owned();
                let code = Box::pin(child.script(&script, io)).await;
                shell.ends_unknown = child.ends_unknown;
                code
            }
            Err(_) => {
                io.stderr.line(&format!("sh: can't open '{file}'"));
                2
            }
        };
    }
    Box::pin(typed(&mut child, io)).await
}

/// Runs the commands on standard input, each as soon as it is complete.
async fn typed(shell: &mut Shell, io: &Streams) -> i32 {
    let (mut code, mut script) = (0, String::new());
    let signals = io.stdin.signals();
    loop {
        if signals.is_some() {
            let prompt = prompt(shell, script.is_empty());
            io.stderr.write(prompt.as_bytes());
        }
        let line = match interrupted(signals.as_deref(), io.stdin.line()).await {
            Ok(line) => line,
            Err(signal) => {
                io.stderr.line("");
                (code, shell.last) = (signal.code(), signal.code());
                script.clear();
                continue;
            }
        };
        let is_end = line.is_none();
        script += line.as_deref().unwrap_or_default();
        let waits = parse(&script).is_err_and(|error| error.is_incomplete());
        if waits && !is_end {
            script.push('\n');
            continue;
        }
        if !script.is_empty() {
            let statement = std::mem::take(&mut script);
            let statement = Box::pin(shell.statement(&statement, io));
            match interrupted(signals.as_deref(), statement).await {
                Ok(Flow::Status(status)) => code = status,
                Ok(Flow::Exit(status)) => return status,
                Ok(Flow::Break | Flow::Continue | Flow::Return(_)) => {}
                Err(signal) => {
                    io.stderr.line("");
                    (code, shell.last) = (signal.code(), signal.code());
                }
            }
        }
        if is_end {
            return code;
        }
    }
}

/// Runs `work` to its end, or until a signal of the terminal arrives.
async fn interrupted<T>(
    signals: Option<&Signals>,
    work: impl Future<Output = T>,
) -> Result<T, Signal> {
    let Some(signals) = signals else {
        return Ok(work.await);
    };
    tokio::select! {
        biased;
        done = work => Ok(done),
        signal = signals.next() => Err(signal),
    }
}

/// The prompt of a shell at a terminal: `PS1` before a command, `PS2` before each further line of
/// one. The defaults are those of Debian's shell for root.
fn prompt(shell: &Shell, is_first: bool) -> String {
    let (name, default) = if is_first {
        ("PS1", "# ")
    } else {
        ("PS2", "> ")
    };
    let prompt = shell.variables.get(name);
    prompt.map_or(default, String::as_str).to_owned()
}
