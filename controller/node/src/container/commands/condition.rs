//! The commands `test` and `[`.

use super::super::filesystem::absolute;
use super::super::state::Shell;

/// Evaluates an expression; one that can't be parsed is false.
pub(super) fn holds(shell: &Shell, words: &[String]) -> bool {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    any(shell, &words)
}

fn any(shell: &Shell, words: &[&str]) -> bool {
    words.split(|word| *word == "-o").any(|part| {
        part.split(|word| *word == "-a")
            .all(|part| single(shell, part))
    })
}

fn single(shell: &Shell, words: &[&str]) -> bool {
    match words {
        [] => false,
        ["!", rest @ ..] => !single(shell, rest),
        [word] => !word.is_empty(),
        [operator, operand] => unary(shell, operator, operand),
        [left, operator, right] => binary(left, operator, right),
        _ => false,
    }
}

fn unary(shell: &Shell, operator: &str, operand: &str) -> bool {
    let path = absolute(&shell.directory, operand);
    let files = &shell.files;
    match operator {
        "-n" => !operand.is_empty(),
        "-z" => operand.is_empty(),
        "-e" | "-r" | "-w" => files.exists(&path),
        "-d" => files.is_directory(&path),
        "-f" => files.exists(&path) && !files.is_directory(&path),
        "-s" => files.read(&path).is_ok_and(|bytes| !bytes.is_empty()),
        _ => false,
    }
}

fn binary(left: &str, operator: &str, right: &str) -> bool {
    let numbers = || {
        Some((
            left.trim().parse::<i64>().ok()?,
            right.trim().parse::<i64>().ok()?,
        ))
    };
    let compare = |holds: fn(&i64, &i64) -> bool| numbers().is_some_and(|(l, r)| holds(&l, &r));
    match operator {
        "=" | "==" => left == right,
        "!=" => left != right,
        "-eq" => compare(i64::eq),
        "-ne" => compare(i64::ne),
        "-lt" => compare(i64::lt),
        "-le" => compare(i64::le),
        "-gt" => compare(i64::gt),
        "-ge" => compare(i64::ge),
        _ => false,
    }
}
