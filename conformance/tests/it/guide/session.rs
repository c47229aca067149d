//! Runs the blocks of a page, one after the other, in a shell.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use regex::Regex;
use rustix::process::{Pid, Signal, kill_process_group};

use super::page::{Block, Directive, blocks, read};

/// Begins the line after a command's output, which has its exit code.
const END: &str = "\u{1}end of the command: ";
/// A session that takes longer ends, and its test fails.
const SECONDS_MAX: u32 = 600;

/// A shell in a directory of its own. What it has started ends with it.
struct Session {
    shell: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    directory: PathBuf,
}

impl Session {
    fn begin(directory: PathBuf) -> Self {
        let _ = std::fs::remove_dir_all(&directory);
        let (programs, home) = (directory.join("bin"), directory.join("home"));
        std::fs::create_dir_all(&programs).expect("a directory can be made");
        std::fs::create_dir_all(&home).expect("a directory can be made");
        let program = env!("CARGO_BIN_EXE_kubeproof");
        std::os::unix::fs::symlink(program, programs.join("kubeproof")).expect("a link");
        let path = std::env::var("PATH").expect("there is a PATH");
        let errors = std::fs::File::create(directory.join("errors")).expect("a file can be made");
        let mut shell = Command::new("bash")
            .args(["--norc", "--noprofile"])
            .current_dir(&home)
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("XDG_CACHE_HOME", directory.join("cache"))
            .env_remove("KUBECONFIG")
            .env_remove("KUBEBUILDER_ASSETS")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .process_group(0)
            .spawn()
            .expect("bash runs");
        let mut session = Self {
            input: shell.stdin.take().expect("it is piped"),
            output: BufReader::new(shell.stdout.take().expect("it is piped")),
            shell,
            directory: home,
        };
        session.write(&format!(
            "{{ sleep {SECONDS_MAX}; kill -KILL -- -$$; }} >/dev/null &\ndisown\n"
        ));
        session
    }

    fn write(&mut self, text: &str) {
        let written = self.input.write_all(text.as_bytes());
        written.expect("the shell reads");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let length = self
            .output
            .read_line(&mut line)
            .expect("the shell writes text");
        assert!(length > 0, "the shell has ended");
        line.trim_end().to_owned()
    }

    /// The output of a command and its exit code. Of a command in the background, as many lines as `wanted`.
    fn run(&mut self, command: &str, wanted: usize) -> (Vec<String>, i32) {
        if command.ends_with('&') {
            self.write(&format!("{command}\n"));
            return ((0..wanted).map(|_| self.line()).collect(), 0);
        }
        self.write(&format!(
            "{{ {command}\n}} </dev/null 2>&1; printf '\\n{END}%s\\n' \"$?\"\n"
        ));
        let mut lines = Vec::new();
        loop {
            let line = self.line();
            if let Some(code) = line.strip_prefix(END) {
                // The line break before the mark, and the empty lines that a command ends with.
                while lines.last().is_some_and(String::is_empty) {
                    lines.pop();
                }
                return (lines, code.parse().expect("an exit code"));
            }
            lines.push(line);
        }
    }

    fn does(&mut self, command: &str) -> bool {
        self.run(command, 0).1 == 0
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let group = i32::try_from(self.shell.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::TERM);
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.shell.wait();
    }
}

/// The lines with what differs from run to run replaced: ports of loopback, durations of real time, and the directory of
/// the page, which is `/home/you` there. The lines about the progress of runs that last longer than a minute are left out.
fn settled(lines: &[String], directory: &Path) -> String {
    let port = Regex::new(r"127\.0\.0\.1:\d+").expect("a pattern");
    let took = Regex::new(r"\(\d+ ms\)").expect("a pattern");
    let progress = Regex::new(r"^\d+ of \d+ runs, .* left$").expect("a pattern");
    let mut text = String::new();
    for line in lines.iter().filter(|line| !progress.is_match(line)) {
        let line = line.replace(&directory.display().to_string(), "/home/you");
        let line = port.replace_all(&line, "127.0.0.1:PORT");
        let _ = writeln!(text, "{}", took.replace_all(&line, "(N ms)"));
    }
    text
}

/// Whether `printed` is as `wanted` says, in which `...` stands for characters or lines.
fn is_as(printed: &str, wanted: &str) -> bool {
    let mut pattern = String::from("^(?:");
    for line in wanted.lines() {
        match line {
            "..." => pattern.push_str("(?:.*\n)*?"),
            _ => {
                let parts: Vec<String> = line.split("...").map(regex::escape).collect();
                pattern.push_str(&parts.join(".*"));
                pattern.push('\n');
            }
        }
    }
    pattern.push_str(")$");
    Regex::new(&pattern).expect("a pattern").is_match(printed)
}

/// Runs a page from its beginning to its end.
pub(super) fn follow(path: &str) {
    let name = path.replace(['/', '.'], "-");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("guide")
        .join(name);
    let mut session = Session::begin(directory);
    for block in blocks(&read(path)) {
        session.take(path, &block);
    }
}

impl Session {
    fn take(&mut self, path: &str, block: &Block) {
        let mut code = 0;
        for directive in &block.directives {
            match directive {
                Directive::File(name) => {
                    let file = self.directory.join(name);
                    let parent = file.parent().expect("a file has a directory");
                    std::fs::create_dir_all(parent).expect("a directory can be made");
                    std::fs::write(file, &block.text).expect("a file can be written");
                }
                Directive::Needs(command) => {
                    if !self.does(command) {
                        println!("{path}:{} is skipped: `{command}` fails here", block.line);
                        return;
                    }
                }
                Directive::Fails(with) => code = *with,
                Directive::NotRun(reason) => {
                    println!("{path}:{} is not run: {reason}", block.line);
                    return;
                }
                Directive::From(_) => return,
            }
        }
        if block.language != "console" {
            return;
        }
        let commands = block.commands();
        let last = commands.len() - 1;
        for (index, command) in commands.into_iter().enumerate() {
            let (printed, ended) = self.run(&command.command, command.printed.len());
            let printed = settled(&printed, &self.directory);
            let wanted = settled(&command.printed, &self.directory);
            let place = format!("{path}:{}: {}", command.line, command.command);
            let wanted_code = if index == last { code } else { 0 };
            assert_eq!(ended, wanted_code, "{place}\n{printed}");
            // A command without lines shows nothing of what it prints.
            assert!(
                wanted.is_empty() || is_as(&printed, &wanted),
                "{place}\nprinted:\n{printed}\nthe page says:\n{wanted}"
            );
        }
    }
}
