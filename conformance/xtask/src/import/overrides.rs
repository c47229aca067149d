//! Differences of the data from its sources that are intended, written by hand.

use anyhow::{Context as _, bail};

/// The overrides of all files.
pub(crate) struct Overrides(Vec<Override>);

/// A line of a file that is replaced or left out.
#[derive(Debug)]
struct Override {
    file: String,
    /// Lines above it, in order, which distinguish it from equal lines.
    under: Vec<String>,
    /// The line, or how it begins.
    line: Line,
    /// Whether the sources may lack the line.
    optional: bool,
    /// The lines of the replacement.
    instead: Vec<String>,
}

#[derive(Debug)]
enum Line {
    Whole(String),
    Beginning(String),
}

impl Line {
    fn is(&self, line: &str) -> bool {
        match self {
            Self::Whole(own) => own == line,
            Self::Beginning(own) => line.starts_with(own.as_str()),
        }
    }
}

impl Overrides {
    /// Parses the format that `overrides.txt` describes.
    ///
    /// # Errors
    /// A line does not keep to it, or an override has no reason.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut found: Vec<Override> = Vec::new();
        let (mut file, mut under, mut has_reason) = (String::new(), Vec::new(), false);
        for line in text.lines() {
            let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
            match mark {
                "" => {
                    under.clear();
                    has_reason = false;
                }
                "#" => has_reason = true,
                "file" => rest.clone_into(&mut file),
                "under" => under.push(rest.to_owned()),
                "-" | "-?" if !has_reason => bail!("no reason is given for {line:?}"),
                "-" | "-?" => found.push(Override {
                    file: file.clone(),
                    under: under.clone(),
                    line: match rest.strip_suffix(" ...") {
                        Some(beginning) => Line::Beginning(beginning.to_owned()),
                        None => Line::Whole(rest.to_owned()),
                    },
                    optional: mark == "-?",
                    instead: Vec::new(),
                }),
                "+" => {
                    let last = found.last_mut();
                    let last = last.with_context(|| format!("{line:?} replaces nothing"))?;
                    last.instead.push(rest.to_owned());
                }
                _ => bail!("{line:?} begins with none of #, file, under, -, -? and +"),
            }
        }
        Ok(Self(found))
    }

    /// Returns `text`, the data of `file`, with its overrides.
    ///
    /// # Errors
    /// An override has nothing to replace, so it may have to go.
    pub(crate) fn apply(&self, file: &str, text: &str) -> anyhow::Result<String> {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for own in self.0.iter().filter(|own| own.file == file) {
            match own.find(&lines) {
                Some(at) => {
                    lines.splice(at..=at, own.instead.iter().cloned());
                }
                None if own.optional => {}
                None => bail!("{file} does not have the line that overrides.txt replaces: {own:?}"),
            }
        }
        Ok(lines.into_iter().map(|line| line + "\n").collect())
    }
}

impl Override {
    fn find(&self, lines: &[String]) -> Option<usize> {
        let mut from = 0;
        for above in &self.under {
            from += lines[from..].iter().position(|line| line == above)? + 1;
        }
        let found = lines[from..].iter().position(|line| self.line.is(line))?;
        Some(from + found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "%a\n@T\nx 1\n%b\n@T\nx 1\ny 2 long\n";

    fn apply(overrides: &str) -> anyhow::Result<String> {
        Overrides::parse(overrides)?.apply("data.txt", TEXT)
    }

    #[test]
    fn a_line_is_replaced_where_its_context_is() {
        let text = apply("file data.txt\n\n# why\nunder %b\nunder @T\n- x 1\n+ x 3\n").unwrap();
        assert_eq!(text, "%a\n@T\nx 1\n%b\n@T\nx 3\ny 2 long\n");
    }

    #[test]
    fn a_line_is_left_out_by_its_beginning() {
        let text = apply("file data.txt\n\n# why\n- y ...\n").unwrap();
        assert_eq!(text, "%a\n@T\nx 1\n%b\n@T\nx 1\n");
        assert_eq!(apply("file other.txt\n\n# why\n- y ...\n").unwrap(), TEXT);
    }

    #[test]
    fn an_override_needs_a_reason_and_something_to_replace() {
        assert!(apply("file data.txt\n\n# why\n- z\n").is_err());
        assert!(apply("file data.txt\n\n# why\n-? z\n").is_ok());
        assert!(apply("file data.txt\n\n- x 1\n").is_err());
        assert!(apply("file data.txt\n\n# why\n- x 1\n\n- y ...\n").is_err());
    }
}
