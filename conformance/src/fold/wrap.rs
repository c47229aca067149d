//! Lines that are too wide continue on further lines.

use super::{THEN, WIDTH};

/// Stands before what continues a line.
const CONTINUED: &str = "↳ ";
/// A line is broken after this many characters at the least.
const BROKEN_MIN: usize = 100;
/// Headings and lines of the header continue at this column.
const HEADING_INDENT: usize = 9;

/// `line`, broken at spaces into lines of at most [`WIDTH`] characters. A word that is wider stays whole.
pub(super) fn wrap(line: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let begin = continuation(line);
    let mut rest = line.to_owned();
    while rest.chars().count() > WIDTH {
        let Some(at) = breaking_point(&rest) else {
            break;
        };
        let next = format!("{begin}{CONTINUED}{}", rest[at..].trim_start());
        rest.truncate(at);
        lines.push(rest.trim_end().to_owned());
        rest = next;
    }
    lines.push(rest);
    lines
}

/// Undoes [`wrap`] for all lines of `text`.
pub(super) fn unwrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let rest = line.trim_start_matches(['#', ' ']).strip_prefix(CONTINUED);
        match (rest, lines.last_mut()) {
            (Some(rest), Some(last)) => {
                last.push(' ');
                last.push_str(rest);
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}

/// The beginning of the lines that continue `line`.
fn continuation(line: &str) -> String {
    if line.starts_with('#') {
        return format!("#{}", " ".repeat(HEADING_INDENT));
    }
    let indent = line.chars().take_while(|c| [' ', '►'].contains(c)).count();
    match line.trim_start_matches([' ', '►']).starts_with('+') {
        true => " ".repeat(super::timeline::WHAT_COLUMN),
        false => " ".repeat(indent + 2),
    }
}

/// The byte at which `line` is broken: before a further part of it, otherwise at a space.
fn breaking_point(line: &str) -> Option<usize> {
    let end = line.char_indices().nth(WIDTH).map(|(at, _)| at)?;
    let start = line.char_indices().nth(BROKEN_MIN).map(|(at, _)| at)?;
    let found = |sign: &str| line[start..end].rfind(sign).map(|at| start + at);
    found(THEN).or_else(|| found(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_lines_are_broken_at_spaces() {
        let line = format!("#   with {}", "{a: b}, ".repeat(60).trim_end());
        let lines = wrap(&line);
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH));
        assert_eq!(unwrapped(&lines.join("\n")), [line]);
        let wide = "x".repeat(300);
        assert_eq!(wrap(&wide), [wide]);
    }

    #[test]
    fn parts_stay_whole() {
        let part = "status 1/1/1/1/1 cur=A upd=B";
        let line = format!("  +0s  a  {}", [part; 8].join(THEN));
        let lines = wrap(&line);
        let next = lines[1].trim_start();
        assert!(next.starts_with("↳ · status "), "{next}");
        assert_eq!(unwrapped(&lines.join("\n")), [line]);
    }
}
