//! `dd`.

use bytes::BytesMut;

use super::super::filesystem::{FileError, absolute};
use super::super::state::TURN;
use super::super::streams::Input;
use super::MEMORY_BYTES_MAX;
use super::files::Task;

/// The level of the final summary: `status=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatusLevel {
    All,
    Records,
    Nothing,
}

impl StatusLevel {
    fn of(status: &str) -> Result<Self, String> {
        match status {
            "none" => Ok(Self::Nothing),
            "noxfer" => Ok(Self::Records),
            "progress" => Ok(Self::All),
            _ => Err(format!("invalid argument '{status}' to 'status'")),
        }
    }
}

/// The parsed operands of `dd`.
#[derive(Debug, PartialEq, Eq)]
struct Plan<'a> {
    from: Option<&'a str>,
    to: Option<&'a str>,
    input_block: usize,
    output_block: usize,
    count: Option<usize>,
    skip: usize,
    seek: usize,
    keeps: bool,
    appends: bool,
    status: StatusLevel,
}

impl<'a> Plan<'a> {
    fn read(arguments: &'a [String]) -> Result<Self, String> {
        let mut plan = Self {
            from: None,
            to: None,
            input_block: 512,
            output_block: 512,
            count: None,
            skip: 0,
            seek: 0,
            keeps: false,
            appends: false,
            status: StatusLevel::All,
        };
        for argument in arguments {
            let unknown = || format!("unrecognized operand '{argument}'");
            let (key, value) = argument.split_once('=').ok_or_else(unknown)?;
            match key {
                "if" => plan.from = Some(value),
                "of" => plan.to = Some(value),
                "bs" => {
                    plan.input_block = block(value)?;
                    plan.output_block = plan.input_block;
                }
                "ibs" => plan.input_block = block(value)?,
                "obs" => plan.output_block = block(value)?,
                "count" => plan.count = Some(number(value)?),
                "skip" | "iseek" => plan.skip = number(value)?,
                "seek" | "oseek" => plan.seek = number(value)?,
                "conv" => {
                    for word in value.split(',') {
                        match word {
                            "notrunc" => plan.keeps = true,
                            "fsync" | "fdatasync" | "noerror" => {}
                            _ => return Err(format!("invalid argument '{word}' to 'conv'")),
                        }
                    }
                }
                "iflag" => {}
                "oflag" => plan.appends = value.split(',').any(|word| word == "append"),
                "status" => plan.status = StatusLevel::of(value)?,
                _ => return Err(unknown()),
            }
        }
        Ok(plan)
    }
}

fn block(text: &str) -> Result<usize, String> {
    let size = number(text)?;
    if size == 0 || size > MEMORY_BYTES_MAX {
        return Err(format!(
            "number {text} is not in 1..{MEMORY_BYTES_MAX} range"
        ));
    }
    Ok(size)
}

fn number(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: usize = match &text[digits.len()..] {
        "" | "c" => 1,
        "w" => 2,
        "b" => 512,
        "kB" => 1000,
        "k" | "K" | "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "m" | "M" | "MiB" => 1 << 20,
        "GB" => 1_000_000_000,
        "g" | "G" | "GiB" => 1 << 30,
        _ => 0,
    };
    let number = digits.parse::<usize>().ok().filter(|_| unit > 0);
    let number = number.ok_or_else(|| format!("invalid number '{text}'"))?;
    Ok(number.saturating_mul(unit))
}

/// Counts of full and partial blocks, of the input or of the output.
#[derive(Debug, Default)]
struct Records {
    whole: u64,
    partial: u64,
}

impl Records {
    fn count(&mut self, bytes: usize, block: usize) {
        match bytes {
            0 => {}
            bytes if bytes == block => self.whole += 1,
            _ => self.partial += 1,
        }
    }
}

/// The input, read in blocks.
struct Blocks {
    input: Input,
    rest: BytesMut,
}

impl Blocks {
    /// Returns the next block, smaller at the end of the input.
    async fn next(&mut self, size: usize) -> BytesMut {
        while self.rest.len() < size {
            match self.input.chunk().await {
                Some(chunk) => self.rest.extend_from_slice(&chunk),
                None => break,
            }
        }
        let size = size.min(self.rest.len());
        self.rest.split_to(size)
    }
}

/// The output file, and the offset of the next write.
struct Target<'a> {
    path: String,
    name: &'a str,
    at: usize,
}

impl Task<'_> {
    /// Runs `dd`.
    pub(super) async fn convert(&self, arguments: &[String]) -> i32 {
        let plan = match Plan::read(arguments) {
            Ok(plan) => plan,
            Err(message) => return self.complain(&message),
        };
        let input = match self.open(plan.from.unwrap_or("-")) {
            Ok(input) => input,
            Err(error) => {
                let from = plan.from.unwrap_or_default();
                return self.complain(&format!("can't open '{from}': {error}"));
            }
        };
        let mut target = match self.target(&plan) {
            Ok(target) => target,
            Err(message) => return self.complain(&message),
        };
        let mut blocks = Blocks {
            input,
            rest: BytesMut::new(),
        };
        for _ in 0..plan.skip {
            if blocks.next(plan.input_block).await.is_empty() {
                break;
            }
        }
        let began = (self.shell.now)();
        let (mut read, mut written) = (Records::default(), Records::default());
        let (mut total, mut since_turn) = (0_usize, 0);
        let mut code = 0;
        let mut left = plan.count.unwrap_or(usize::MAX);
        while left > 0 {
            left -= 1;
            let block = blocks.next(plan.input_block).await;
            if block.is_empty() {
                break;
            }
            read.count(block.len(), plan.input_block);
            if let Err(error) = self.put(target.as_mut(), &block).await {
                let name = target.as_ref().map_or("standard output", |own| own.name);
                code = self.complain(&format!("error writing '{name}': {error}"));
                break;
            }
            for part in block.chunks(plan.output_block) {
                written.count(part.len(), plan.output_block);
            }
            total += block.len();
            since_turn += block.len().max(512);
            if since_turn >= 1 << 20 {
                since_turn = 0;
                tokio::time::sleep(TURN).await;
            }
        }
        let seconds = (self.shell.now)().duration_since(began).as_secs_f64();
        self.summarize(&plan, &[read, written], total, seconds);
        code
    }

    fn target<'a>(&self, plan: &Plan<'a>) -> Result<Option<Target<'a>>, String> {
        let Some(name) = plan.to else {
            return Ok(None);
        };
        let path = absolute(&self.shell.directory, name);
        if path == "/dev/stdout" {
            return Ok(None);
        }
        let files = &self.shell.files;
        let keeps = plan.keeps || plan.appends;
        let opened = files.write(&path, b"", true);
        opened.map_err(|error| format!("can't open '{name}': {error}"))?;
        let old = files.read(&path).unwrap_or_default();
        let at = match plan.appends {
            true => old.len(),
            false => plan.seek.saturating_mul(plan.output_block),
        };
        if !keeps {
            // Truncates the file at the seek offset, or pads it with zeros up to there.
            let mut start = old;
            if at > MEMORY_BYTES_MAX {
                return Err(format!("can't open '{name}': {}", FileError::NoSpace));
            }
            start.resize(at, 0);
            let cut = files.write(&path, &start, false);
            cut.map_err(|error| format!("can't open '{name}': {error}"))?;
        }
        Ok(Some(Target { path, name, at }))
    }

    async fn put(&self, target: Option<&mut Target<'_>>, block: &[u8]) -> Result<(), FileError> {
        let Some(target) = target else {
            self.io.stdout.ready().await;
            self.io.stdout.write(block);
            return Ok(());
        };
        let files = &self.shell.files;
        if files.is_device(&target.path) {
            return Ok(());
        }
        let end = target.at + block.len();
        if target.at == files.size(&target.path)? {
            files.write(&target.path, block, true)?;
        } else {
            let mut bytes = files.read(&target.path)?;
            if end > MEMORY_BYTES_MAX {
                return Err(FileError::NoSpace);
            }
            let size = bytes.len().max(end);
            bytes.resize(size, 0);
            bytes[target.at..end].copy_from_slice(block);
            files.write(&target.path, &bytes, false)?;
        }
        target.at = end;
        Ok(())
    }

    fn summarize(&self, plan: &Plan<'_>, records: &[Records; 2], total: usize, seconds: f64) {
        if plan.status == StatusLevel::Nothing {
            return;
        }
        for (records, way) in records.iter().zip(["in", "out"]) {
            let Records { whole, partial } = records;
            self.io
                .stderr
                .line(&format!("{whole}+{partial} records {way}"));
        }
        if plan.status == StatusLevel::All {
            #[expect(clippy::cast_precision_loss, reason = "it is rounded to three digits")]
            let size = total as f64;
            let rate = if seconds > 0.0 { size / seconds } else { size };
            self.io.stderr.line(&format!(
                "{total} bytes ({}B) copied, {seconds:.6} seconds, {}B/s",
                human(size),
                human(rate)
            ));
        }
    }
}

/// Formats a number with its unit, as busybox does.
fn human(number: f64) -> String {
    let (mut number, mut unit) = (number, "");
    for larger in ["K", "M", "G", "T"] {
        if number < 1024.0 {
            break;
        }
        (number, unit) = (number / 1024.0, larger);
    }
    match unit {
        "" => format!("{number:.0}"),
        unit => format!("{number:.1}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        for (text, size) in [
            ("3", 3),
            ("2b", 1024),
            ("1K", 1024),
            ("1kB", 1000),
            ("1M", 1 << 20),
        ] {
            assert_eq!(number(text), Ok(size), "{text}");
        }
        assert!(number("x").is_err() && number("1Q").is_err() && block("0").is_err());
        assert_eq!(human(512.0) + &human(1_572_864.0), "5121.5M");
    }
}
