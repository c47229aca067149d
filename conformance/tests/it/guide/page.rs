//! Pages of the guide as data: their blocks of code, and what a comment before a block says about it.

use std::path::{Path, PathBuf};

/// The instruction in the comment before a block. Readers of a page do not see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Directive {
    /// `<!-- file: PATH -->`: the block is the content of this file, which later blocks use.
    File(String),
    /// `<!-- from: PATH -->`: each paragraph of the block consists of consecutive lines of this file of the
    /// repository, whatever their indentation.
    From(String),
    /// `<!-- needs: COMMAND -->`: the block is run if this command of the shell succeeds.
    Needs(String),
    /// `<!-- fails: CODE -->`: the last command of the block ends with this exit code.
    Fails(i32),
    /// `<!-- not run: REASON -->`.
    NotRun(String),
}

/// A fenced block.
#[derive(Debug)]
pub(super) struct Block {
    /// The number of the first line after the fence.
    pub(super) line: usize,
    pub(super) language: String,
    pub(super) text: String,
    pub(super) directives: Vec<Directive>,
}

/// A command of a `console` block, with the lines that it prints.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) line: usize,
    pub(super) command: String,
    pub(super) printed: Vec<String>,
}

pub(super) fn root() -> PathBuf {
    let member = Path::new(env!("CARGO_MANIFEST_DIR"));
    member
        .parent()
        .expect("a member is below the root")
        .to_owned()
}

pub(super) fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The pages of `docs`, by their paths from the root of the repository.
pub(super) fn pages() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("docs")).expect("docs can be listed");
    let mut pages: Vec<String> = entries
        .filter_map(|entry| entry.expect("an entry").file_name().into_string().ok())
        .filter(|name| Path::new(name).extension().is_some_and(|end| end == "md"))
        .map(|name| format!("docs/{name}"))
        .collect();
    pages.sort();
    pages
}

fn directive(line: &str) -> Option<Directive> {
    let inner = line.strip_prefix("<!-- ")?.strip_suffix(" -->")?;
    let (name, value) = inner.split_once(": ")?;
    let value = value.to_owned();
    match name {
        "file" => Some(Directive::File(value)),
        "from" => Some(Directive::From(value)),
        "needs" => Some(Directive::Needs(value)),
        "fails" => Some(Directive::Fails(value.parse().ok()?)),
        "not run" => Some(Directive::NotRun(value)),
        _ => None,
    }
}

/// The fenced blocks of a page.
pub(super) fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut directives = Vec::new();
    let mut open: Option<(Block, usize)> = None;
    for (index, line) in text.lines().enumerate() {
        let fence = line.trim_start();
        match (&mut open, fence.strip_prefix("```")) {
            (None, Some(language)) => {
                let block = Block {
                    line: index + 2,
                    language: language.trim().to_owned(),
                    text: String::new(),
                    directives: std::mem::take(&mut directives),
                };
                open = Some((block, line.len() - fence.len()));
            }
            (Some(_), Some("")) => found.extend(open.take().map(|(block, _)| block)),
            (Some((block, indent)), _) => {
                block.text.push_str(line.get(*indent..).unwrap_or_default());
                block.text.push('\n');
            }
            (None, None) => match directive(fence) {
                Some(directive) => directives.push(directive),
                None if fence.is_empty() => {}
                None => directives.clear(),
            },
        }
    }
    assert!(open.is_none(), "a block has no end");
    found
}

impl Block {
    /// The commands of a `console` block. A line that ends with a backslash continues on the next.
    pub(super) fn commands(&self) -> Vec<Command> {
        let mut commands: Vec<Command> = Vec::new();
        let mut lines = self.text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            if let Some(first) = line.strip_prefix("$ ") {
                let mut command = first.to_owned();
                while command.ends_with('\\') {
                    let (_, next) = lines.next().expect("a continued command goes on");
                    command.push('\n');
                    command.push_str(next);
                }
                commands.push(Command {
                    line: self.line + index,
                    command,
                    printed: Vec::new(),
                });
            } else {
                let command = commands.last_mut();
                let command = command.unwrap_or_else(|| panic!("{line:?} follows no command"));
                command.printed.push(line.trim_end().to_owned());
            }
        }
        commands
    }
}
