//! `head` and `tail`.

use futures::FutureExt;
use futures::future::select_all;

use super::super::filesystem::FileError;
use super::super::streams::Input;
use super::files::Task;

/// The part of the input to show.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// `-c`: the count is in bytes, not lines.
    bytes: bool,
    /// `+3`: everything from there on.
    from: bool,
    count: Option<usize>,
    follow: bool,
}

impl Options {
    /// Parses the options of a command. Returns them and its operands.
    fn read(arguments: &[String]) -> Result<(Self, Vec<&str>), String> {
        let (mut options, mut operands) = (Self::default(), Vec::new());
        let mut words = arguments.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
                operands.push(word);
                continue;
            };
            if letters.starts_with(|c: char| c.is_ascii_digit()) {
                options.amount(letters)?;
                continue;
            }
            let mut rest = letters;
            while let Some(letter) = rest.chars().next() {
                rest = &rest[letter.len_utf8()..];
                match letter {
                    'f' | 'F' => options.follow = true,
                    'n' | 'c' => {
                        options.bytes = letter == 'c';
                        let amount = match rest {
                            "" => words.next().ok_or("option requires an argument")?,
                            rest => rest,
                        };
                        options.amount(amount)?;
                        rest = "";
                    }
                    'q' | 'v' => {}
                    _ => return Err(format!("unrecognized option: {letter}")),
                }
            }
        }
        Ok((options, operands))
    }

    fn amount(&mut self, text: &str) -> Result<(), String> {
        self.from = text.starts_with('+');
        let digits = text.trim_start_matches(['+', '-']);
        let end = digits.trim_end_matches(['b', 'k', 'm']);
        let unit: usize = match &digits[end.len()..] {
            "" => 1,
            "b" => 512,
            "k" => 1024,
            "m" => 1024 * 1024,
            _ => 0,
        };
        let count = end.parse::<usize>().ok().filter(|_| unit > 0);
        let count = count.ok_or_else(|| format!("invalid number '{text}'"))?;
        self.count = Some(count.saturating_mul(unit));
        Ok(())
    }

    /// Returns the part that `head` shows.
    fn head<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let count = self.count.unwrap_or(10);
        let end = match self.bytes {
            true => count.min(bytes.len()),
            false => starts(bytes).nth(count).unwrap_or(bytes.len()),
        };
        &bytes[..end]
    }

    /// Returns the part that `tail` shows.
    fn tail<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let count = self.count.unwrap_or(10);
        let (all, bytes_too) = (starts(bytes).count(), self.bytes);
        let size = if bytes_too { bytes.len() } else { all };
        // `+1` is the first line or byte.
        let skipped = match self.from {
            true => count.saturating_sub(1).min(size),
            false => size.saturating_sub(count),
        };
        let start = match bytes_too {
            true => skipped,
            false => starts(bytes).nth(skipped).unwrap_or(bytes.len()),
        };
        &bytes[start..]
    }
}

/// Returns the offset of each line.
fn starts(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let after = bytes.iter().enumerate();
    let after = after.filter(|(_, byte)| **byte == b'\n');
    let after = after.map(|(at, _)| at + 1).filter(|at| *at < bytes.len());
    (!bytes.is_empty()).then_some(0).into_iter().chain(after)
}

impl Task<'_> {
    /// `head` and `tail`: 10 lines unless the options set a count.
    pub(super) async fn ends(&self, arguments: &[String]) -> i32 {
        let (options, operands) = match Options::read(arguments) {
            Ok(read) => read,
            Err(message) => return self.complain(&message),
        };
        let is_head = self.name == "head";
        let mut code = 0;
        let operands = match operands.as_slice() {
            [] => vec!["-"],
            operands => operands.to_vec(),
        };
        for (index, operand) in operands.iter().enumerate() {
            if operands.len() > 1 {
                let gap = if index == 0 { "" } else { "\n" };
                self.io.stdout.line(&format!("{gap}==> {operand} <=="));
            }
            let read = match is_head {
                true => self.beginning(operand, &options).await,
                false => self.whole(operand).await,
            };
            match read {
                Ok(bytes) if is_head => self.io.stdout.write(options.head(&bytes)),
                Ok(bytes) => self.io.stdout.write(options.tail(&bytes)),
                // An endless file has no end to show; `tail -f` of it never returns.
                Err(FileError::NoMemory) if options.follow => {}
                Err(error) => code = self.fail(operand, error),
            }
        }
        if options.follow && !is_head {
            let named: Vec<&str> = operands.into_iter().filter(|own| *own != "-").collect();
            self.follow(&named).await;
        }
        code
    }

    /// Reads the part of a file that `head` needs, so that `head -c` works on an endless file.
    async fn beginning(&self, operand: &str, options: &Options) -> Result<Vec<u8>, FileError> {
        let input = self.open(operand)?;
        let Some(count) = options.count.filter(|_| options.bytes) else {
            return input.all().await.ok_or(FileError::NoMemory);
        };
        let mut bytes = Vec::new();
        while bytes.len() < count.min(super::MEMORY_BYTES_MAX) {
            let Some(chunk) = input.chunk().await else {
                break;
            };
            bytes.extend_from_slice(&chunk);
            if !matches!(input, Input::Endless(_)) && bytes.len() > count {
                break;
            }
        }
        Ok(bytes)
    }

    /// Writes the bytes that are appended to the files; never returns.
    async fn follow(&self, operands: &[&str]) {
        let files = &self.shell.files;
        let mut known: Vec<(String, usize)> = Vec::new();
        for operand in operands {
            let path = self.path(operand);
            let size = files.read(&path).map_or(0, |bytes| bytes.len());
            known.push((path, size));
        }
        if known.is_empty() {
            return;
        }
        loop {
            let changes = known.iter().map(|(path, _)| {
                let changed = files.changed(path);
                async move { changed.notified().await }.boxed()
            });
            let mut changed = select_all(changes);
            // Registers for changes before it reads the files.
            let waits = futures::poll!(&mut changed).is_pending();
            for (path, size) in &mut known {
                let bytes = files.read(path).unwrap_or_default();
                // A file that has shrunk is shown from its beginning.
                if bytes.len() < *size {
                    *size = 0;
                }
                if bytes.len() > *size {
                    self.io.stdout.ready().await;
                    self.io.stdout.write(&bytes[*size..]);
                    *size = bytes.len();
                }
            }
            if waits {
                changed.await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_in_lines_or_bytes() {
        for (name, words, part) in [
            ("head", "-n 1", "a\n"),
            ("head", "-2", "a\nb\n"),
            ("head", "-c3", "a\nb"),
            ("tail", "-n 1", "c"),
            ("tail", "-fn2", "b\nc"),
            ("tail", "-c +3", "b\nc"),
            ("tail", "-n +3", "c"),
            ("tail", "-n +9", ""),
            ("tail", "-n 0", ""),
            ("tail", "-c1k", "a\nb\nc"),
        ] {
            let arguments: Vec<String> = words.split(' ').map(str::to_owned).collect();
            let (options, operands) = Options::read(&arguments).unwrap();
            let bytes = b"a\nb\nc";
            let found = match name {
                "head" => options.head(bytes),
                _ => options.tail(bytes),
            };
            assert_eq!(String::from_utf8_lossy(found), part, "{name} {words}");
            assert!(operands.is_empty());
        }
    }
}
