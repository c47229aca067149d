//! `tar` for the files of a container: plain files and directories only.

use std::io::Read;

use tar::{Archive, Builder, EntryType, Header};

use super::super::filesystem::{FileError, absolute};
use super::super::streams::Output;
use super::compression;
use super::files::Task;

/// The operation of one run of `tar`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Create,
    Extract,
    List,
}

/// The parsed arguments of `tar`.
#[derive(Debug)]
struct Plan<'a> {
    mode: Mode,
    /// The archive, `-` for a standard stream.
    file: &'a str,
    gzips: bool,
    is_verbose: bool,
    /// `-O`: extracted files go to standard output.
    shows: bool,
    strips: usize,
    /// The members to archive, each with the directory that it is relative to.
    members: Vec<(String, &'a str)>,
    directory: String,
}

impl<'a> Plan<'a> {
    fn read(arguments: &'a [String], from: &str) -> Result<Self, String> {
        let mut plan = Self {
            mode: Mode::List,
            file: "-",
            gzips: false,
            is_verbose: false,
            shows: false,
            strips: 0,
            members: Vec::new(),
            directory: from.to_owned(),
        };
        let mut mode = None;
        let mut words = arguments.iter().map(String::as_str).enumerate();
        while let Some((index, word)) = words.next() {
            if let Some(long) = word.strip_prefix("--") {
                plan.long(long, &mut mode)?;
                continue;
            }
            let letters = match word.strip_prefix('-') {
                Some(letters) if !letters.is_empty() => letters,
                // The dash is optional in the first word.
                _ if index == 0 => word,
                _ => {
                    plan.members.push((plan.directory.clone(), word));
                    continue;
                }
            };
            let bundled = index == 0 && !word.starts_with('-');
            let mut rest = letters;
            while let Some(letter) = rest.chars().next() {
                rest = &rest[letter.len_utf8()..];
                if matches!(letter, 'f' | 'C' | 'X' | 'T') {
                    let own = (!bundled && !rest.is_empty()).then_some(rest);
                    let next = || words.next().map(|(_, word)| word);
                    let value = own.or_else(next);
                    let value = value
                        .ok_or_else(|| format!("option requires an argument -- '{letter}'"))?;
                    plan.valued(letter, value)?;
                    rest = if bundled { rest } else { "" };
                    continue;
                }
                plan.letter(letter, &mut mode)?;
            }
        }
        let Some(mode) = mode else {
            return Err("need at least one option of c, x and t".to_owned());
        };
        plan.mode = mode;
        Ok(plan)
    }

    fn long(&mut self, long: &'a str, mode: &mut Option<Mode>) -> Result<(), String> {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        match (name, value) {
            ("create", None) => *mode = Some(Mode::Create),
            ("extract" | "get", None) => *mode = Some(Mode::Extract),
            ("list", None) => *mode = Some(Mode::List),
            ("gzip" | "ungzip", None) => self.gzips = true,
            ("verbose", None) => self.is_verbose = true,
            ("to-stdout", None) => self.shows = true,
            ("file", Some(file)) => self.file = file,
            ("directory", Some(directory)) => self.valued('C', directory)?,
            ("strip-components", Some(count)) => {
                let invalid = || format!("invalid number '{count}'");
                self.strips = count.parse().map_err(|_| invalid())?;
            }
            // All files belong to root here, and have no times.
            (
                "no-same-owner"
                | "same-owner"
                | "no-same-permissions"
                | "same-permissions"
                | "preserve-permissions"
                | "overwrite"
                | "touch"
                | "numeric-owner"
                | "dereference",
                None,
            ) => {}
            _ => return Err(format!("unrecognized option: {name}")),
        }
        Ok(())
    }

    fn letter(&mut self, letter: char, mode: &mut Option<Mode>) -> Result<(), String> {
        match letter {
            'c' => *mode = Some(Mode::Create),
            'x' => *mode = Some(Mode::Extract),
            't' => *mode = Some(Mode::List),
            'z' => self.gzips = true,
            'v' => self.is_verbose = true,
            'O' => self.shows = true,
            'm' | 'p' | 'o' | 'h' | 'a' | 'S' | 'P' => {}
            _ => return Err(format!("unrecognized option: {letter}")),
        }
        Ok(())
    }

    fn valued(&mut self, letter: char, value: &'a str) -> Result<(), String> {
        match letter {
            'f' => self.file = value,
            'C' => self.directory = absolute(&self.directory, value),
            _ => return Err(format!("unrecognized option: {letter}")),
        }
        Ok(())
    }

    fn wants(&self, name: &str) -> bool {
        let mut members = self.members.iter().map(|(_, member)| {
            let member = member.trim_end_matches('/');
            name == member || name.starts_with(&format!("{member}/"))
        });
        self.members.is_empty() || members.any(|wanted| wanted)
    }
}

impl Task<'_> {
    /// Runs `tar`.
    pub(super) async fn archive(&self, arguments: &[String]) -> i32 {
        let plan = match Plan::read(arguments, &self.shell.directory) {
            Ok(plan) => plan,
            Err(message) => return self.complain(&message),
        };
        if !self.shell.files.is_directory(&plan.directory) {
            let (directory, error) = (&plan.directory, FileError::NotFound);
            return self.complain(&format!("can't change directory to '{directory}': {error}"));
        }
        let done = match plan.mode {
            Mode::Create => self.create(&plan).await,
            Mode::Extract | Mode::List => self.extract(&plan).await,
        };
        done.unwrap_or_else(|message| self.complain(&message))
    }

    async fn create(&self, plan: &Plan<'_>) -> Result<i32, String> {
        if plan.members.is_empty() {
            return Err("empty archive".to_owned());
        }
        let to_stdout = plan.file == "-";
        let names = match (plan.is_verbose, to_stdout) {
            (false, _) => Output::Null,
            (true, true) => self.io.stderr.clone(),
            (true, false) => self.io.stdout.clone(),
        };
        let mut builder = Builder::new(Vec::new());
        let (mut failed, mut has_stripped) = (false, false);
        for (directory, member) in &plan.members {
            let name = member.trim_start_matches('/').trim_end_matches('/');
            if member.starts_with('/') && !std::mem::replace(&mut has_stripped, true) {
                self.complain("removing leading '/' from member names");
            }
            let name = if name.is_empty() { "." } else { name };
            let mut left = vec![(name.to_owned(), absolute(directory, member))];
            while let Some((name, path)) = left.pop() {
                match self.add(&mut builder, &name, &path) {
                    Ok(below) => {
                        names.line(&name);
                        left.extend(below.into_iter().rev());
                    }
                    Err(error) => {
                        failed = true;
                        self.complain(&format!("{name}: {error}"));
                    }
                }
            }
        }
        let archive = builder.into_inner().map_err(|error| error.to_string())?;
        let archive = match plan.gzips {
            true => compression::compressed(&archive),
            false => archive,
        };
        if to_stdout {
            self.io.stdout.ready().await;
            self.io.stdout.write(&archive);
        } else {
            let path = self.path(plan.file);
            let written = self.shell.files.write(&path, &archive, false);
            written.map_err(|error| format!("can't open '{}': {error}", plan.file))?;
        }
        if failed {
            return Err("error exit delayed from previous errors".to_owned());
        }
        Ok(0)
    }

    /// Adds one member to the archive. Returns the entries below it.
    fn add(
        &self,
        builder: &mut Builder<Vec<u8>>,
        name: &str,
        path: &str,
    ) -> Result<Vec<(String, String)>, FileError> {
        let files = &self.shell.files;
        let mut header = Header::new_gnu();
        let seconds = (self.shell.now)().as_second();
        header.set_mtime(u64::try_from(seconds).unwrap_or(0));
        header.set_uid(0);
        header.set_gid(0);
        let (shown, data, below) = if files.is_directory(path) {
            header.set_entry_type(EntryType::Directory);
            header.set_mode(0o755);
            let below = files.list(path)?.into_iter();
            let below = below.map(|own| (format!("{name}/{own}"), format!("{path}/{own}")));
            (format!("{name}/"), Vec::new(), below.collect())
        } else {
            header.set_mode(0o644);
            (name.to_owned(), files.read(path)?, Vec::new())
        };
        header.set_size(u64::try_from(data.len()).unwrap_or(u64::MAX));
        let added = builder.append_data(&mut header, shown, data.as_slice());
        // Writing to memory cannot fail; only a name can be invalid.
        added.map_err(|_| FileError::NotFound)?;
        Ok(below)
    }

    async fn extract(&self, plan: &Plan<'_>) -> Result<i32, String> {
        let archive = self.whole(plan.file).await;
        let archive = archive.map_err(|error| format!("can't open '{}': {error}", plan.file))?;
        let archive = match plan.gzips || compression::is_compressed(&archive) {
            true => compression::decompressed(&archive)?,
            false => archive,
        };
        if archive.len() < 512 {
            return Err("short read".to_owned());
        }
        let mut reader = Archive::new(archive.as_slice());
        let magic = |_| "invalid tar magic".to_owned();
        let mut code = 0;
        for entry in reader.entries().map_err(magic)? {
            let mut entry = entry.map_err(magic)?;
            let kind = entry.header().entry_type();
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let name = name.trim_end_matches('/');
            if !plan.wants(name) {
                continue;
            }
            if plan.mode == Mode::List || plan.is_verbose && !plan.shows {
                self.io.stdout.line(name);
            }
            if plan.mode == Mode::List {
                continue;
            }
            let mut bytes = Vec::new();
            let read = entry.read_to_end(&mut bytes);
            read.map_err(|_| "short read".to_owned())?;
            let link = entry.link_name_bytes();
            let link = link.map(|link| String::from_utf8_lossy(&link).into_owned());
            if let Err(message) = self.unpack(plan, (name, kind), &bytes, link.as_deref()) {
                code = self.complain(&message);
            }
        }
        Ok(code)
    }

    /// Creates the file or directory of one member of an archive.
    fn unpack(
        &self,
        plan: &Plan<'_>,
        (name, kind): (&str, EntryType),
        bytes: &[u8],
        link: Option<&str>,
    ) -> Result<(), String> {
        let parts = name.split('/').filter(|part| !matches!(*part, "" | "."));
        let parts: Vec<&str> = parts.skip(plan.strips).collect();
        if parts.contains(&"..") {
            return Err(format!("name with '..' is skipped: '{name}'"));
        }
        if plan.shows {
            self.io.stdout.write(bytes);
            return Ok(());
        }
        if parts.is_empty() {
            return Ok(());
        }
        let files = &self.shell.files;
        let path = absolute(&plan.directory, &parts.join("/"));
        if kind.is_dir() {
            files.make_directories(&path);
            return match files.is_directory(&path) {
                true => Ok(()),
                false => Err(format!("can't make dir {name}: {}", FileError::Exists)),
            };
        }
        if let Some((above, _)) = path.rsplit_once('/') {
            files.make_directories(above);
        }
        let made = match kind {
            kind if kind.is_hard_link() => {
                let target = absolute(&plan.directory, link.unwrap_or_default());
                files.copy(&target, &path)
            }
            kind if kind.is_file() || kind == EntryType::Continuous => {
                files.write(&path, bytes, false)
            }
            _ => {
                let what = if kind.is_symlink() { "symlink" } else { "node" };
                return Err(format!(
                    "can't create {what} '{name}': Operation not permitted"
                ));
            }
        };
        made.map_err(|error| format!("can't open '{name}': {error}"))
    }
}
