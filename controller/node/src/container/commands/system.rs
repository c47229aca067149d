//! Commands about the machine: `date`, `ps`, `uptime`, `which`.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use super::super::filesystem::absolute;
use super::super::state::Shell;
use super::super::streams::Streams;
use super::is_program;

/// The default format of `date`.
const DATE_FORMAT: &str = "%a %b %e %H:%M:%S UTC %Y";

/// `ps`: lists the container's first process and itself. Options are ignored; the columns are
/// busybox's.
pub(super) fn ps(shell: &Shell, arguments: &[String], io: &Streams) -> i32 {
    io.stdout.line("PID   USER     TIME  COMMAND");
    let own = ["ps".to_owned()]
        .into_iter()
        .chain(arguments.iter().cloned());
    let own = own.collect::<Vec<_>>().join(" ");
    for (id, command) in [(1, &shell.command), (2, &own)] {
        io.stdout.line(&format!("{id:>5} root      0:00 {command}"));
    }
    0
}

/// `date [-u] [-d TIME] [-r FILE] [+FORMAT]`.
pub(super) fn date(shell: &Shell, arguments: &[String], io: &Streams) -> i32 {
    match shown_date(shell, arguments) {
        Ok(text) => {
            io.stdout.line(&text);
            0
        }
        Err(message) => {
            io.stderr.line(&format!("date: {message}"));
            1
        }
    }
}

fn shown_date(shell: &Shell, arguments: &[String]) -> Result<String, String> {
    let mut time = (shell.now)();
    let mut format = None;
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut value = |own: &'static str| {
            let joined = word.strip_prefix(own).filter(|rest| !rest.is_empty());
            let value = joined.map(|rest| rest.trim_start_matches('='));
            let value = value.or_else(|| words.next());
            value.ok_or_else(|| format!("option requires an argument: {own}"))
        };
        match word {
            "-u" | "--utc" | "--universal" => {}
            "-R" | "--rfc-2822" | "--rfc-email" => format = Some("%a, %d %b %Y %H:%M:%S +0000"),
            "-Iseconds" => format = Some("%Y-%m-%dT%H:%M:%S+00:00"),
            "-Iminutes" => format = Some("%Y-%m-%dT%H:%M+00:00"),
            "-Ihours" => format = Some("%Y-%m-%dT%H+00:00"),
            "-I" | "-Idate" => format = Some("%Y-%m-%d"),
            _ if word.starts_with("--date") => time = instant(value("--date")?, time)?,
            _ if word.starts_with("-d") => time = instant(value("-d")?, time)?,
            _ if word.starts_with("-r") => {
                let file = value("-r")?;
                let path = absolute(&shell.directory, file);
                if !shell.files.exists(&path) {
                    return Err(format!("{file}: No such file or directory"));
                }
            }
            _ if word.starts_with("-s") || word.starts_with(|c: char| c.is_ascii_digit()) => {
                let text = match word.starts_with('-') {
                    true => value("-s")?,
                    false => word,
                };
                // Only the node's administrator may set the date.
                let valid = digits(text).is_some() || instant(text, time).is_ok();
                return Err(match valid {
                    true => "can't set date: Operation not permitted".to_owned(),
                    false => format!("invalid date '{text}'"),
                });
            }
            _ if word.starts_with('+') => format = Some(&word[1..]),
            _ if word.starts_with('-') => return Err(format!("unrecognized option: {word}")),
            _ => return Err(format!("invalid date '{word}'")),
        }
    }
    let format = format.unwrap_or(DATE_FORMAT);
    jiff::fmt::strtime::format(format, &time.to_zoned(TimeZone::UTC))
        .map_err(|_| format!("invalid date '+{format}'"))
}

/// Parses a time in one of busybox's formats.
fn instant(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let invalid = || format!("invalid date '{text}'");
    if let Some(seconds) = text.strip_prefix('@') {
        let seconds = seconds.parse().ok();
        let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
        return time.ok_or_else(invalid);
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    let today = now.to_zoned(TimeZone::UTC).date();
    let date_time = text
        .parse::<DateTime>()
        .or_else(|_| text.parse::<Time>().map(|time| today.to_datetime(time)))
        .or_else(|_| {
            text.parse::<Date>()
                .map(|date| date.to_datetime(Time::midnight()))
        });
    let zoned = date_time
        .ok()
        .and_then(|own| own.to_zoned(TimeZone::UTC).ok());
    zoned.as_ref().map(Zoned::timestamp).ok_or_else(invalid)
}

/// Checks the format `MMDDhhmm[[YY]YY][.ss]`.
fn digits(text: &str) -> Option<()> {
    let digits = text.split_once('.').map_or(text, |(digits, _)| digits);
    let all = digits.bytes().all(|byte| byte.is_ascii_digit());
    (all && matches!(digits.len(), 8 | 10 | 12)).then_some(())
}

/// `uptime`: the machine is taken to have started with the container.
pub(super) fn uptime(shell: &Shell, io: &Streams) -> i32 {
    let now = (shell.now)();
    let minutes = now.duration_since(shell.started).as_mins().max(0);
    let (days, hours, minutes) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    let days = match days {
        0 => String::new(),
        1 => "1 day, ".to_owned(),
        days => format!("{days} days, "),
    };
    let up = match hours {
        0 => format!("{minutes} min"),
        hours => format!("{hours:2}:{minutes:02}"),
    };
    let time = now.to_zoned(TimeZone::UTC).strftime("%H:%M:%S").to_string();
    io.stdout.line(&format!(
        " {time} up {days}{up},  0 users,  load average: 0.00, 0.00, 0.00"
    ));
    0
}

/// `which`: prints the paths of programs. Fails if one of them does not exist.
pub(super) fn which(shell: &Shell, arguments: &[String], io: &Streams) -> i32 {
    let names = arguments.iter().filter(|word| !word.starts_with('-'));
    let mut code = i32::from(names.clone().next().is_none());
    for name in names {
        let is_path = name.contains('/');
        let path = absolute(&shell.directory, name);
        let exists = is_path && shell.files.exists(&path) && !shell.files.is_directory(&path);
        if exists || is_path && is_program(name) {
            io.stdout.line(name);
        } else if !is_path && is_program(name) {
            io.stdout.line(&format!("/bin/{name}"));
        } else {
            code = 1;
        }
    }
    code
}
