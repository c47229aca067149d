//! Commands about files.

use super::super::filesystem::{FileError, absolute, base_name};
use super::super::state::{Shell, TURN};
use super::super::streams::{Input, Streams};

/// Runs the command `name` about files. Returns `None` if it does not exist.
pub(super) async fn run(
    shell: &mut Shell,
    name: &str,
    arguments: &[String],
    io: &Streams,
) -> Option<i32> {
    let is_option = |word: &&String| word.starts_with('-') && word.len() > 1;
    let options: String = arguments
        .iter()
        .filter(is_option)
        .flat_map(|word| word.chars().skip(1))
        .collect();
    let operands: Vec<&str> = arguments
        .iter()
        .filter(|word| !is_option(word))
        .map(String::as_str)
        .collect();
    let task = Task {
        shell,
        name,
        options: &options,
        io,
    };
    Some(match name {
        "cat" => task.cat(&operands).await,
        "ls" => task.list(&operands),
        "touch" => task.touch(&operands),
        "mkdir" => task.make_directories(&operands),
        "rmdir" => task.each(&operands, |path| task.shell.files.remove_directory(path)),
        "rm" => task.remove(&operands),
        "mv" => task.carry(&operands, true),
        "cp" => task.carry(&operands, false),
        "ln" => task.link(&operands),
        "find" => task.find(&operands),
        "wc" => task.count(&operands).await,
        "head" | "tail" => task.ends(arguments).await,
        "dd" => task.convert(arguments).await,
        "tar" => task.archive(arguments).await,
        "gzip" | "gunzip" | "zcat" => task.compress(&operands).await,
        "grep" => task.grep(&operands).await,
        "tee" => task.tee(&operands).await,
        _ => return None,
    })
}

/// One call of a command.
pub(super) struct Task<'a> {
    pub(super) shell: &'a Shell,
    pub(super) name: &'a str,
    options: &'a str,
    pub(super) io: &'a Streams,
}

impl Task<'_> {
    pub(super) fn path(&self, operand: &str) -> String {
        absolute(&self.shell.directory, operand)
    }

    pub(super) fn has(&self, option: char) -> bool {
        self.options.contains(option)
    }

    pub(super) fn fail(&self, operand: &str, error: FileError) -> i32 {
        let name = self.name;
        let line = match name {
            "cat" | "head" | "tail" | "wc" | "grep" => {
                format!("{name}: can't open '{operand}': {error}")
            }
            "ls" => format!("ls: {operand}: {error}"),
            "rm" => format!("rm: can't remove '{operand}': {error}"),
            "mv" => format!("mv: can't rename '{operand}': {error}"),
            "cp" => format!("cp: can't stat '{operand}': {error}"),
            "mkdir" => format!("mkdir: can't create directory '{operand}': {error}"),
            _ => format!("{name}: '{operand}': {error}"),
        };
        self.io.stderr.line(&line);
        1
    }

    pub(super) fn usage(&self) -> i32 {
        self.io
            .stderr
            .line(&format!("{}: missing operand", self.name));
        1
    }

    fn each(&self, operands: &[&str], act: impl Fn(&str) -> Result<(), FileError>) -> i32 {
        if operands.is_empty() {
            return self.usage();
        }
        let mut code = 0;
        for operand in operands {
            if let Err(error) = act(&self.path(operand)) {
                code = self.fail(operand, error);
            }
        }
        code
    }

    /// Reports an error on standard error, prefixed with the command's name. Returns exit code 1.
    pub(super) fn complain(&self, message: &str) -> i32 {
        let name = self.name;
        self.io.stderr.line(&format!("{name}: {message}"));
        1
    }

    /// Opens a file, or standard input for `-`.
    pub(super) fn open(&self, operand: &str) -> Result<Input, FileError> {
        if matches!(operand, "-" | "/dev/stdin") {
            return Ok(self.io.stdin.clone());
        }
        let content = self.shell.files.open(&self.path(operand))?;
        Ok(Input::of_content(content))
    }

    /// Reads all of a file, or of standard input.
    pub(super) async fn whole(&self, operand: &str) -> Result<Vec<u8>, FileError> {
        let input = self.open(operand)?;
        input.all().await.ok_or(FileError::NoMemory)
    }

    /// Reads the named files, or standard input. Returns the bytes and the exit code, 1 if a file
    /// failed.
    async fn input(&self, operands: &[&str]) -> (Vec<u8>, i32) {
        let mut bytes = Vec::new();
        let mut code = 0;
        let operands = if operands.is_empty() {
            &["-"]
        } else {
            operands
        };
        for operand in operands {
            match self.whole(operand).await {
                Ok(read) => bytes.extend(read),
                Err(error) => code = self.fail(operand, error),
            }
        }
        (bytes, code)
    }

    async fn cat(&self, operands: &[&str]) -> i32 {
        let operands = if operands.is_empty() {
            &["-"]
        } else {
            operands
        };
        let mut code = 0;
        for operand in operands {
            let copied = match self.open(operand) {
                Ok(input) => self.copy(&input).await,
                Err(error) => {
                    code = self.fail(operand, error);
                    continue;
                }
            };
            if let Err(error) = copied {
                return self.complain(&format!("write error: {error}"));
            }
        }
        code
    }

    /// Copies an input to standard output.
    async fn copy(&self, input: &Input) -> Result<(), FileError> {
        while let Some(chunk) = input.chunk().await {
            self.io.stdout.ready().await;
            if !matches!(input, Input::Endless(_)) {
                self.io.stdout.write(&chunk);
                continue;
            }
            if !self.io.stdout.write_on(&chunk)? {
                break;
            }
            // Other tasks get a turn.
            tokio::time::sleep(TURN).await;
        }
        Ok(())
    }

    fn list(&self, operands: &[&str]) -> i32 {
        let operands = if operands.is_empty() {
            &["."]
        } else {
            operands
        };
        let files = &self.shell.files;
        let mut code = 0;
        for operand in operands {
            let path = self.path(operand);
            if !files.exists(&path) {
                code = self.fail(operand, FileError::NotFound);
                continue;
            }
            if self.has('d') || !files.is_directory(&path) {
                self.entry(operand, &path);
                continue;
            }
            for name in files.list(&path).unwrap_or_default() {
                if self.has('a') || !name.starts_with('.') {
                    self.entry(&name, &format!("{path}/{name}"));
                }
            }
        }
        code
    }

    fn entry(&self, shown: &str, path: &str) {
        if !self.has('l') {
            self.io.stdout.line(shown);
            return;
        }
        let files = &self.shell.files;
        let mode = if files.is_directory(path) {
            "drwxr-xr-x"
        } else if files.is_device(path) {
            "crw-rw-rw-"
        } else {
            "-rw-r--r--"
        };
        let size = match files.read(path) {
            Ok(bytes) => bytes.len(),
            Err(FileError::IsDirectory) => 4096,
            Err(_) => 0,
        };
        let date = (self.shell.now)().strftime("%b %e %H:%M").to_string();
        let line = format!("{mode}    1 root     root     {size:>9} {date} {shown}");
        self.io.stdout.line(&line);
    }

    fn touch(&self, operands: &[&str]) -> i32 {
        self.each(operands, |path| match self.shell.files.is_directory(path) {
            true => Ok(()),
            false => self.shell.files.write(path, b"", true),
        })
    }

    fn make_directories(&self, operands: &[&str]) -> i32 {
        self.each(operands, |path| {
            if self.has('p') {
                self.shell.files.make_directories(path);
                return Ok(());
            }
            self.shell.files.make_directory(path)
        })
    }

    fn remove(&self, operands: &[&str]) -> i32 {
        let recursive = self.has('r') || self.has('R');
        self.each(operands, |path| {
            match self.shell.files.remove(path, recursive) {
                Err(FileError::NotFound) if self.has('f') => Ok(()),
                removed => removed,
            }
        })
    }

    /// `ln -s TARGET NAME`, and `ln -s TARGET... DIRECTORY`.
    fn link(&self, operands: &[&str]) -> i32 {
        if !self.has('s') {
            return self.complain("only symbolic links (-s) are simulated");
        }
        let Some((last, targets)) = operands.split_last().filter(|(_, from)| !from.is_empty())
        else {
            return self.usage();
        };
        let files = &self.shell.files;
        let path = self.path(last);
        let into = files.is_directory(&path) && !self.has('n');
        let mut code = 0;
        for target in targets {
            let name = match into {
                true => format!("{path}/{}", base_name(target)),
                false => path.clone(),
            };
            if let Err(error) = files.link(target, &name, self.has('f')) {
                code = self.fail(last, error);
            }
        }
        code
    }

    /// `mv` and `cp`: into a directory, or to a new name.
    fn carry(&self, operands: &[&str], and_remove: bool) -> i32 {
        let Some((target, sources)) = operands.split_last().filter(|(_, from)| !from.is_empty())
        else {
            return self.usage();
        };
        let files = &self.shell.files;
        let target_path = self.path(target);
        let into = files.is_directory(&target_path);
        let mut code = 0;
        for source in sources {
            let from = self.path(source);
            let (to, shown) = if into {
                let name = base_name(&from);
                let shown = format!("{}/{name}", target.trim_end_matches('/'));
                (format!("{target_path}/{name}"), shown)
            } else {
                (target_path.clone(), (*target).to_owned())
            };
            let whole = and_remove || self.has('r') || self.has('R') || self.has('a');
            if files.is_directory(&from) && !whole {
                self.io
                    .stderr
                    .line(&format!("cp: omitting directory '{source}'"));
                code = 1;
                continue;
            }
            let done = match from == to {
                true => Ok(()),
                false if and_remove => files.rename(&from, &to),
                false => files.copy(&from, &to),
            };
            match done {
                Ok(()) if self.has('v') && and_remove => {
                    self.io
                        .stdout
                        .line(&format!("renamed '{source}' -> '{shown}'"));
                }
                Ok(()) => {}
                Err(error) => code = self.fail(source, error),
            }
        }
        code
    }

    fn find(&self, operands: &[&str]) -> i32 {
        let start = operands.first().copied().unwrap_or(".");
        let path = self.path(start);
        if !self.shell.files.exists(&path) {
            return self.fail(start, FileError::NotFound);
        }
        let mut found = vec![(start.to_owned(), path)];
        while let Some((shown, path)) = found.pop() {
            self.io.stdout.line(&shown);
            let names = self.shell.files.list(&path).unwrap_or_default();
            let below = names.iter().rev();
            found.extend(below.map(|name| (format!("{shown}/{name}"), format!("{path}/{name}"))));
        }
        0
    }

    async fn count(&self, operands: &[&str]) -> i32 {
        let (bytes, code) = self.input(operands).await;
        let text = String::from_utf8_lossy(&bytes);
        let counts = [
            ('l', bytes.iter().filter(|byte| **byte == b'\n').count()),
            ('w', text.split_whitespace().count()),
            ('c', bytes.len()),
        ];
        let all = self.options.is_empty();
        let shown = counts
            .into_iter()
            .filter(|(option, _)| all || self.has(*option));
        let mut words: Vec<String> = shown.map(|(_, count)| count.to_string()).collect();
        words.extend(operands.first().map(|operand| (*operand).to_owned()));
        self.io.stdout.line(&words.join(" "));
        code
    }

    /// `grep`: lines that contain the text; patterns are not supported.
    async fn grep(&self, operands: &[&str]) -> i32 {
        let Some((pattern, files)) = operands.split_first() else {
            return self.usage();
        };
        let (bytes, _) = self.input(files).await;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let matching: Vec<&str> = text
            .lines()
            .filter(|line| line.contains(pattern) != self.has('v'))
            .collect();
        if self.has('c') {
            self.io.stdout.line(&matching.len().to_string());
        } else if !self.has('q') {
            for line in &matching {
                self.io.stdout.line(line);
            }
        }
        i32::from(matching.is_empty())
    }

    async fn tee(&self, operands: &[&str]) -> i32 {
        let (bytes, _) = self.input(&[]).await;
        self.io.stdout.write(&bytes);
        self.each(operands, |path| {
            self.shell.files.write(path, &bytes, self.has('a'))
        })
    }
}
