//! The commands of a simulated image.

mod archive;
mod compression;
mod condition;
mod dd;
mod ends;
mod files;
mod netcat;
mod system;

use std::time::Duration;

use super::arithmetic;
use super::filesystem::absolute;
use super::process::{Flow, Shell};
use super::shell::parse;
use super::streams::Streams;
use super::terminal::{Signal, Signals};

/// The duration of `sleep infinity`.
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);
/// The most lines that `seq` writes.
const SEQUENCE_MAX: i64 = 1_000_000;

/// The most bytes that a command holds in memory.
const MEMORY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The commands that are programs, not shell builtins; sorted.
pub(super) const PROGRAMS: &[&str] = &[
    "[", "[[", "ash", "bash", "cat", "cp", "dash", "date", "dd", "echo", "env", "expr", "false",
    "find", "grep", "gunzip", "gzip", "head", "hostname", "ls", "mkdir", "mv", "nc", "printenv",
    "printf", "ps", "pwd", "rm", "rmdir", "seq", "sh", "sleep", "sync", "tail", "tar", "tee",
    "test", "touch", "true", "uptime", "wc", "which", "whoami", "zcat",
];

/// Runs the command `name`. Returns `None` if it does not exist.
pub(super) async fn run(
    shell: &mut Shell,
    name: &str,
    arguments: &[String],
    io: &Streams,
) -> Option<Flow> {
    let name = without_directory(name);
    let code = match name {
        ":" | "true" | "set" | "sync" | "wait" => 0,
        "trap" => {
            shell.trap(arguments);
            0
        }
        "false" => 1,
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
        "echo" => echo(arguments, io),
        "printf" => printf(arguments, io),
        "hostname" => {
            io.stdout.line(&shell.hostname);
            0
        }
        "whoami" => {
            io.stdout.line("root");
            0
        }
        "pwd" => {
            io.stdout.line(&shell.directory);
            0
        }
        "env" | "printenv" => env(shell, arguments, io),
        "export" => {
            for (name, value) in arguments.iter().filter_map(|word| word.split_once('=')) {
                shell.variables.insert(name.to_owned(), value.to_owned());
            }
            0
        }
        "unset" => {
            for name in arguments {
                shell.variables.remove(name);
            }
            0
        }
        "cd" => change_directory(shell, arguments, io),
        "sleep" => sleep(arguments, io).await,
        "date" => system::date(shell, arguments, io),
        "ps" => system::ps(shell, arguments, io),
        "uptime" => system::uptime(shell, io),
        "which" => system::which(shell, arguments, io),
        "seq" => seq(arguments, io),
        "expr" => expr(arguments, io),
        "read" => read(shell, arguments, io).await,
        "nc" => netcat::run(shell, arguments, io).await?,
        "test" => i32::from(!condition::holds(shell, arguments)),
        // busybox also has `[[` with the same meaning.
        "[" | "[[" => {
            let closing = name.replace('[', "]");
            match arguments.split_last() {
                Some((last, rest)) if *last == closing => i32::from(!condition::holds(shell, rest)),
                _ => {
                    io.stderr.line(&format!("sh: {name}: missing {closing}"));
                    2
                }
            }
        }
        _ => files::run(shell, name, arguments, io).await?,
    };
    Some(Flow::Status(code))
}

/// Returns the base name of a program that is called by its path.
fn without_directory(name: &str) -> &str {
    match name.rsplit_once('/') {
        Some(("/bin" | "/usr/bin" | "/usr/local/bin" | "/sbin" | "/usr/sbin", base)) => base,
        _ => name,
    }
}

/// Returns whether a program of this name, or at this path, exists.
pub(crate) fn is_program(name: &str) -> bool {
    PROGRAMS.binary_search(&without_directory(name)).is_ok()
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

fn echo(arguments: &[String], io: &Streams) -> i32 {
    let options = arguments
        .iter()
        .take_while(|word| matches!(word.as_str(), "-n" | "-e" | "-ne" | "-en"));
    let option_count = options.clone().count();
    let has = |option| options.clone().any(|word| word.contains(option));
    let mut text = arguments[option_count..].join(" ");
    if has('e') {
        text = unescaped(&text);
    }
    if !has('n') {
        text.push('\n');
    }
    io.stdout.write(text.as_bytes());
    0
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('0') => out.push('\0'),
            Some('\\') | None => out.push('\\'),
            Some(other) => out.extend(['\\', other]),
        }
    }
    out
}

/// `printf`: the format is repeated while arguments are left.
fn printf(arguments: &[String], io: &Streams) -> i32 {
    let Some((format, rest)) = arguments.split_first() else {
        io.stderr.line("printf: usage: printf FORMAT [ARGUMENT...]");
        return 2;
    };
    let format = unescaped(format);
    let mut values = rest.iter();
    loop {
        let mut out = String::new();
        let mut used = 0;
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let conversion = chars
                .by_ref()
                .find(|c| c.is_ascii_alphabetic() || *c == '%');
            match conversion {
                Some('%') | None => out.push('%'),
                Some('b') => {
                    used += 1;
                    out += &values
                        .next()
                        .map_or_else(String::new, |value| unescaped(value));
                }
                Some('d' | 'i' | 'u') => {
                    used += 1;
                    let value = values.next().and_then(|value| value.parse::<i64>().ok());
                    out += &value.unwrap_or(0).to_string();
                }
                Some(_) => {
                    used += 1;
                    out += values.next().map_or("", String::as_str);
                }
            }
        }
        io.stdout.write(out.as_bytes());
        if used == 0 || values.len() == 0 {
            return 0;
        }
    }
}

fn env(shell: &Shell, arguments: &[String], io: &Streams) -> i32 {
    if let Some(name) = arguments.first() {
        return match shell.variables.get(name) {
            Some(value) => {
                io.stdout.line(value);
                0
            }
            None => 1,
        };
    }
    for (name, value) in &shell.variables {
        io.stdout.line(&format!("{name}={value}"));
    }
    0
}

fn change_directory(shell: &mut Shell, arguments: &[String], io: &Streams) -> i32 {
    let target = arguments.first().map_or("/root", String::as_str);
    let path = absolute(&shell.directory, target);
    if shell.files.is_directory(&path) {
        shell.directory = path;
        return 0;
    }
    io.stderr.line(&format!("sh: cd: can't cd to {target}"));
    2
}

/// `sleep`: waits for the sum of its arguments, each a number with an optional unit.
async fn sleep(arguments: &[String], io: &Streams) -> i32 {
    let mut total = Duration::ZERO;
    for argument in arguments {
        let Some(duration) = duration(argument) else {
            io.stderr
                .line(&format!("sleep: invalid number '{argument}'"));
            return 1;
        };
        total = total.saturating_add(duration).min(FOREVER);
    }
    tokio::time::sleep(total).await;
    0
}

fn duration(text: &str) -> Option<Duration> {
    if matches!(text, "inf" | "infinity") {
        return Some(FOREVER);
    }
    let unit = match text.chars().last()? {
        'm' => 60.0,
        'h' => 3600.0,
        'd' => 86400.0,
        _ => 1.0,
    };
    let seconds: f64 = text.trim_end_matches(['s', 'm', 'h', 'd']).parse().ok()?;
    Some(Duration::try_from_secs_f64(seconds * unit).map_or(FOREVER, |time| time.min(FOREVER)))
}

/// `expr`: integers with operators between them; a result of 0 is a failure.
fn expr(arguments: &[String], io: &Streams) -> i32 {
    let words = arguments.iter().map(|word| match word.as_str() {
        "=" => "==",
        "|" => "||",
        "&" => "&&",
        word => word,
    });
    let words: Vec<&str> = words.collect();
    let value = match words.as_slice() {
        [] => {
            io.stderr.line("expr: missing operand");
            return 2;
        }
        words => arithmetic::evaluate(&words.join(" "), &|_| String::new()),
    };
    io.stdout.line(&value.to_string());
    i32::from(value == 0)
}

fn seq(arguments: &[String], io: &Streams) -> i32 {
    let numbers: Option<Vec<i64>> = arguments.iter().map(|word| word.parse().ok()).collect();
    let (first, step, last) = match numbers.as_deref() {
        Some([last]) => (1, 1, *last),
        Some([first, last]) => (*first, 1, *last),
        Some([first, step, last]) if *step != 0 => (*first, *step, *last),
        _ => {
            io.stderr.line("seq: invalid argument");
            return 1;
        }
    };
    let mut value = first;
    for _ in 0..SEQUENCE_MAX {
        if (step > 0 && value > last) || (step < 0 && value < last) {
            break;
        }
        io.stdout.line(&value.to_string());
        value = value.saturating_add(step);
    }
    0
}

/// `read`: splits one line into variables; the last variable takes the rest.
async fn read(shell: &mut Shell, arguments: &[String], io: &Streams) -> i32 {
    let names: Vec<&String> = arguments
        .iter()
        .filter(|word| !word.starts_with('-'))
        .collect();
    let Some(line) = io.stdin.line().await else {
        return 1;
    };
    let mut rest = line.trim();
    for (index, name) in names.iter().enumerate() {
        let is_last = index + 1 == names.len();
        let (field, after) = match rest.split_once(char::is_whitespace) {
            Some((field, after)) if !is_last => (field, after.trim_start()),
            _ => (rest, ""),
        };
        shell.variables.insert((*name).clone(), field.to_owned());
        rest = after;
    }
    0
}
