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
use super::state::Shell;
use super::streams::Streams;

/// The duration of `sleep infinity`.
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);
/// The most lines that `seq` writes.
const SEQUENCE_MAX: i64 = 1_000_000;

/// The most bytes that a command holds in memory.
const MEMORY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The commands that are programs, not shell builtins; sorted.
pub(super) const PROGRAMS: &[&str] = &[
    "[", "[[", "ash", "bash", "cat", "cp", "dash", "date", "dd", "echo", "env", "expr", "false",
    "find", "grep", "gunzip", "gzip", "head", "hostname", "ln", "ls", "mkdir", "mv", "nc",
    "printenv", "printf", "ps", "pwd", "rm", "rmdir", "seq", "sh", "sleep", "sync", "tail", "tar",
    "tee", "test", "touch", "true", "uptime", "wc", "which", "whoami", "zcat",
];

/// Runs the command `name`, which needs no shell to run others. Returns its exit code, or `None` if it does not exist.
pub(super) async fn run(
    shell: &mut Shell,
    name: &str,
    arguments: &[String],
    io: &Streams,
) -> Option<i32> {
    let code = match name {
        ":" | "true" | "set" | "sync" | "wait" => 0,
        "false" => 1,
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
    Some(code)
}

/// Returns the base name of a program that is called by its path.
pub(super) fn without_directory(name: &str) -> &str {
    match name.rsplit_once('/') {
        Some(("/bin" | "/usr/bin" | "/usr/local/bin" | "/sbin" | "/usr/sbin", base)) => base,
        _ => name,
    }
}

/// Returns whether a program of this name, or at this path, exists.
pub(crate) fn is_program(name: &str) -> bool {
    PROGRAMS.binary_search(&without_directory(name)).is_ok()
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
