//! The text of an expression, and the issues found in it as cel-go prints them.

/// How many issues are reported; the rest is counted.
const ISSUES_MAX: usize = 100;

/// The widest line that is shown below an issue.
const SNIPPET_CHARS_MAX: usize = 16384;

/// An expression as characters; positions count characters.
pub(super) struct Source {
    chars: Vec<char>,
    lines: Vec<usize>,
}

impl Source {
    pub(super) fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let starts = chars
            .iter()
            .enumerate()
            .filter(|(_, c)| **c == '\n')
            .map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(starts).collect();
        Self { chars, lines }
    }

    pub(super) fn chars(&self) -> &[char] {
        &self.chars
    }

    pub(super) fn text(&self, start: usize, end: usize) -> String {
        let end = end.min(self.chars.len());
        self.chars[start.min(end)..end].iter().collect()
    }

    /// Line and column of `offset`, both from 0.
    fn position(&self, offset: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|start| *start <= offset) - 1;
        (line, offset - self.lines[line])
    }

    fn line(&self, line: usize) -> &[char] {
        let start = self.lines[line];
        let end = self
            .lines
            .get(line + 1)
            .map_or(self.chars.len(), |next| next - 1);
        &self.chars[start..end]
    }
}

/// Something wrong at a place of an expression.
struct Issue {
    /// `None` for an issue of the whole expression.
    offset: Option<usize>,
    message: String,
}

/// The errors found in an expression.
#[derive(Default)]
pub(super) struct Issues {
    issues: Vec<Issue>,
    truncated: usize,
}

impl Issues {
    pub(super) fn report(&mut self, offset: usize, message: impl Into<String>) {
        self.push(Some(offset), message.into());
    }

    pub(super) fn report_whole(&mut self, message: impl Into<String>) {
        self.push(None, message.into());
    }

    fn push(&mut self, offset: Option<usize>, message: String) {
        if self.issues.len() == ISSUES_MAX {
            self.truncated += 1;
        } else {
            self.issues.push(Issue { offset, message });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.issues.is_empty()
    }

    /// The issues by position, each with its line and a pointer at the place.
    pub(super) fn show(&self, source: &Source) -> String {
        let mut issues: Vec<&Issue> = self.issues.iter().collect();
        issues.sort_by_key(|issue| issue.offset);
        let mut parts: Vec<String> = issues
            .into_iter()
            .map(|issue| show(issue, source))
            .collect();
        if self.truncated > 0 {
            parts.push(format!("{} more errors were truncated", self.truncated));
        }
        parts.join("\n")
    }
}

fn show(issue: &Issue, source: &Source) -> String {
    let Some(offset) = issue.offset else {
        return format!("ERROR: <input>:-1:0: {}", issue.message);
    };
    let (line, column) = source.position(offset.min(source.chars.len()));
    let text = source.line(line);
    // An expression without a letter has no columns.
    if source.chars.is_empty() {
        return format!("ERROR: <input>:1:0: {}", issue.message);
    }
    let head = format!(
        "ERROR: <input>:{}:{}: {}",
        line + 1,
        column + 1,
        issue.message
    );
    if text.len() > SNIPPET_CHARS_MAX {
        return head;
    }
    let shown: String = text
        .iter()
        .map(|c| if *c == '\t' { ' ' } else { *c })
        .collect();
    let dots: String = text
        .iter()
        .take(column)
        .map(|c| if c.is_ascii() { '.' } else { '\u{ff0e}' })
        .collect();
    let wide = text.get(column).is_some_and(|c| !c.is_ascii());
    let pointer = if wide { '\u{ff3e}' } else { '^' };
    format!("{head}\n | {shown}\n | {dots}{pointer}")
}
