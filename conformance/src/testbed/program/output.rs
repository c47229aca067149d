//! The output of a program, which is kept in a file or shown.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// The number of last lines of output that are shown of a failed run.
const LINES_SHOWN: usize = 20;

/// The output of all lives of a program.
#[derive(Clone, Debug)]
pub(super) struct Output {
    /// The number of the program, counted from one.
    number: usize,
    /// The file; `None` for the standard error of this process.
    path: Option<PathBuf>,
    /// Whether the file stays after the run.
    is_kept: bool,
}

impl Output {
    /// The output of the program with this index, in a new file: one that begins with `kept`, or in `directory`.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub(super) fn of(kept: Option<&Path>, index: usize, directory: &Path) -> io::Result<Self> {
        let number = index + 1;
        let path = match kept {
            Some(kept) => {
                let mut path = kept.as_os_str().to_owned();
                path.push(format!(".program-{number}.log"));
                PathBuf::from(path)
            }
            None => directory.join(format!("program-{number}.log")),
        };
        File::create(&path)?;
        Ok(Self {
            number,
            path: Some(path),
            is_kept: kept.is_some(),
        })
    }

    /// The output of the program with this index, which goes to the standard error of this process.
    pub(super) fn shown(index: usize) -> Self {
        Self {
            number: index + 1,
            path: None,
            is_kept: false,
        }
    }

    /// Opens the file for a life of the program.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(super) fn open(&self) -> io::Result<File> {
        match &self.path {
            Some(path) => File::options().create(true).append(true).open(path),
            None => Ok(io::stderr().as_fd().try_clone_to_owned()?.into()),
        }
    }

    /// The last lines, under a heading; `None` if nothing was printed, or all was shown.
    pub(super) fn last_lines(&self) -> Option<String> {
        let path = self.path.as_ref()?;
        let bytes = std::fs::read(path).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.trim_end().lines().collect();
        if lines.is_empty() {
            return None;
        }
        let first = lines.len().saturating_sub(LINES_SHOWN);
        let place = match self.is_kept {
            true => format!(" in {}", path.display()),
            false => String::new(),
        };
        let heading = match first {
            0 => format!("program {} printed{place}:", self.number),
            _ => format!(
                "program {} printed {} lines{place}, at last:",
                self.number,
                lines.len()
            ),
        };
        let shown = lines[first..].iter().map(|line| format!("\n  {line}"));
        Some(format!("{heading}{}", shown.collect::<String>()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_last_lines_are_shown_with_the_place_of_all() {
        let directory = std::env::temp_dir().join(format!("output-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let output = Output::of(Some(&directory.join("a")), 0, &directory).unwrap();
        assert_eq!(output.last_lines(), None);
        let path = directory.join("a.program-1.log");
        writeln!(output.open().unwrap(), "one\ntwo").unwrap();
        let heading = format!("program 1 printed in {}:", path.display());
        assert_eq!(
            output.last_lines(),
            Some(format!("{heading}\n  one\n  two"))
        );
        for line in 0..30 {
            writeln!(output.open().unwrap(), "line {line}").unwrap();
        }
        let said = output.last_lines().unwrap();
        assert!(
            said.starts_with(&format!(
                "program 1 printed 32 lines in {}, at last:\n  line 10\n",
                path.display()
            )),
            "{said}"
        );
        assert!(said.ends_with("\n  line 29"), "{said}");
        std::fs::remove_dir_all(directory).unwrap();
    }
}
