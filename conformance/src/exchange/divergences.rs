//! The cases that are known to differ from their recordings, the reasons, and the table of them in
//! `docs/fidelity.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::format::RecordedFile;

/// Stands for the reason of a case that differs and was not listed before.
const UNEXPLAINED: &str = "unexplained";

/// The lines around the table in `docs/fidelity.md`.
const TABLE_BEGIN: &str = "<!-- recorded exchanges: begin -->\n";
const TABLE_END: &str = "<!-- recorded exchanges: end -->";

/// Errors of a list of divergences, or of a page with the table.
#[derive(Debug, thiserror::Error)]
pub enum DivergencesError {
    /// The file cannot be read.
    #[error("cannot read {}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line is not `GROUP/CASE: REASON`.
    #[error("line {line} is not `GROUP/CASE: REASON`, or its case is listed twice: {text}")]
    Line {
        /// Counted from one.
        line: usize,
        /// The line.
        text: String,
    },
    /// The page has no place for the table.
    #[error("the page has no lines {TABLE_BEGIN:?} and {TABLE_END:?}")]
    NoTable,
}

/// The file `DIVERGES`: `GROUP/CASE: REASON` a line, after comments that begin with `#`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Divergences {
    comments: String,
    reasons: BTreeMap<String, String>,
}

impl Divergences {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`DivergencesError`] with the line at fault.
    pub fn read(path: &Path) -> Result<Self, DivergencesError> {
        let text = std::fs::read_to_string(path).map_err(|source| DivergencesError::Io {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text)
    }

    /// Reads the file's text.
    ///
    /// # Errors
    /// [`DivergencesError::Line`].
    pub fn parse(text: &str) -> Result<Self, DivergencesError> {
        let mut read = Self::default();
        for (index, line) in text.lines().enumerate() {
            if line.starts_with('#') {
                read.comments.push_str(line);
                read.comments.push('\n');
                continue;
            }
            let entry = line.split_once(": ").filter(|(id, reason)| {
                id.contains('/') && !reason.is_empty() && !read.reasons.contains_key(*id)
            });
            let (id, reason) = entry.ok_or_else(|| DivergencesError::Line {
                line: index + 1,
                text: line.to_owned(),
            })?;
            read.reasons.insert(id.to_owned(), reason.to_owned());
        }
        Ok(read)
    }

    /// The file's text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.comments.clone();
        for (id, reason) in &self.reasons {
            let _ = writeln!(text, "{id}: {reason}");
        }
        text
    }

    /// Why the case `GROUP/CASE` differs; none if it should not.
    #[must_use]
    pub fn reason(&self, id: &str) -> Option<&str> {
        self.reasons.get(id).map(String::as_str)
    }

    /// All cases listed, as `GROUP/CASE`.
    pub fn cases(&self) -> impl Iterator<Item = &str> {
        self.reasons.keys().map(String::as_str)
    }

    /// Returns the cases that differ and still lack a reason.
    pub fn unexplained(&self) -> impl Iterator<Item = &str> {
        let waiting = self
            .reasons
            .iter()
            .filter(|(_, reason)| *reason == UNEXPLAINED);
        waiting.map(|(id, _)| id.as_str())
    }

    /// Lists just the cases of `differing`; those listed before keep their reasons.
    pub fn update(&mut self, differing: &BTreeSet<String>) {
        let reasons = differing.iter().map(|id| {
            let reason = self.reason(id).unwrap_or(UNEXPLAINED);
            (id.clone(), reason.to_owned())
        });
        self.reasons = reasons.collect();
    }
}

/// The number of recorded cases with equal answers.
#[derive(Clone, Debug)]
pub struct Summary<'a> {
    /// Equal and all cases, by group.
    groups: BTreeMap<&'a str, (usize, usize)>,
    /// Cases by the reason of their divergence.
    reasons: BTreeMap<&'a str, usize>,
}

impl<'a> Summary<'a> {
    /// Counts `files` against the list.
    #[must_use]
    pub fn new(files: &'a [RecordedFile], divergences: &'a Divergences) -> Self {
        let mut summary = Self {
            groups: BTreeMap::new(),
            reasons: BTreeMap::new(),
        };
        for file in files {
            let (equal, all) = summary.groups.entry(&file.group).or_default();
            for exchange in &file.exchanges {
                *all += 1;
                match divergences.reason(&file.id(&exchange.case)) {
                    Some(reason) => *summary.reasons.entry(reason).or_default() += 1,
                    None => *equal += 1,
                }
            }
        }
        summary
    }

    /// The table of groups and the list of reasons, in Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = "| group | equal | of |\n| --- | ---: | ---: |\n".to_owned();
        let (mut equal_sum, mut all_sum) = (0, 0);
        for (group, (equal, all)) in &self.groups {
            let _ = writeln!(text, "| `{group}` | {equal} | {all} |");
            equal_sum += equal;
            all_sum += all;
        }
        let _ = writeln!(text, "| all | {equal_sum} | {all_sum} |");
        if !self.reasons.is_empty() {
            text.push_str("\nThe others differ because:\n\n");
        }
        for (reason, count) in &self.reasons {
            let _ = writeln!(text, "- {reason} ({count})");
        }
        text
    }

    /// Returns `page` with this summary instead of its last one.
    ///
    /// # Errors
    /// [`DivergencesError::NoTable`].
    pub fn written_into(&self, page: &str) -> Result<String, DivergencesError> {
        let parts = page.split_once(TABLE_BEGIN).and_then(|(before, rest)| {
            let (_, after) = rest.split_once(TABLE_END)?;
            Some((before, after))
        });
        let (before, after) = parts.ok_or(DivergencesError::NoTable)?;
        let table = self.markdown();
        Ok(format!("{before}{TABLE_BEGIN}{table}{TABLE_END}{after}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# Why.\na/one: it is late: very late\na/two: no reason\n";

    #[test]
    fn an_update_keeps_comments_and_the_reasons_of_cases_that_still_differ() {
        let mut divergences = Divergences::parse(LIST).unwrap();
        assert_eq!(divergences.text(), LIST);
        let differing = ["a/one", "b/new"].map(str::to_owned);
        divergences.update(&BTreeSet::from(differing));
        assert_eq!(
            divergences.text(),
            "# Why.\na/one: it is late: very late\nb/new: unexplained\n"
        );
        assert_eq!(divergences.unexplained().collect::<Vec<_>>(), ["b/new"]);
    }

    #[test]
    fn a_line_without_a_reason_or_for_the_second_time_is_refused() {
        for text in ["a/one\n", "a/one: \n", "one: x\n", "a/one: x\na/one: y\n"] {
            assert!(Divergences::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_page_gets_the_numbers_of_each_group() {
        let exchange = |name: &str| {
            let line = format!(r#"{{"case": {{"case": "{name}", "steps": []}}}}"#);
            super::super::Exchange::parse(&line).unwrap()
        };
        let files = [RecordedFile {
            path: PathBuf::new(),
            group: "a".to_owned(),
            exchanges: ["one", "two", "three"].map(exchange).to_vec(),
        }];
        let divergences = Divergences::parse(LIST).unwrap();
        let summary = Summary::new(&files, &divergences);
        let old = format!("before\n{TABLE_BEGIN}old\n{TABLE_END}\nafter\n");
        let table = "| group | equal | of |\n| --- | ---: | ---: |\n| `a` | 1 | 3 |\n\
            | all | 1 | 3 |\n\nThe others differ because:\n\n\
            - it is late: very late (1)\n- no reason (1)\n";
        let expected = format!("before\n{TABLE_BEGIN}{table}{TABLE_END}\nafter\n");
        let new = summary.written_into(&old).unwrap();
        assert_eq!(new, expected);
        assert_eq!(summary.written_into(&new).unwrap(), expected);
        assert!(summary.written_into("no table").is_err());
    }
}
