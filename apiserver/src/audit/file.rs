//! A file that is rotated as lumberjack does it: `audit.log` becomes `audit-2026-01-01T00-00-00.000.log`.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// The form of the time in the name of a rotated file.
const TIME: &str = "%Y-%m-%dT%H-%M-%S%.3f";
const COMPRESSED: &str = ".gz";

/// When a file is rotated, and what of rotated files is kept; 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rotation {
    pub(super) bytes_max: u64,
    pub(super) days_max: u32,
    pub(super) backups_max: usize,
    pub(super) compress: bool,
}

/// The file, to which lines are appended.
#[derive(Debug)]
pub(super) struct RotatedFile {
    path: PathBuf,
    rotation: Rotation,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    bytes: u64,
    /// Whether rotated files have been looked through since the file was opened.
    is_tidy: bool,
}

/// A rotated file.
struct Backup {
    path: PathBuf,
    time: Timestamp,
    /// The path before compression.
    plain: PathBuf,
}

impl RotatedFile {
    /// Opens a file to append to it, or creates it with its directories.
    pub(super) fn open(path: &Path, rotation: Rotation) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let file = create(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self {
            path: path.to_owned(),
            rotation,
            open: Mutex::new(Open {
                file,
                bytes,
                is_tidy: false,
            }),
        })
    }

    /// Appends a line. The file is rotated first if it would become too large.
    pub(super) fn write(&self, line: &[u8], now: Timestamp) -> io::Result<()> {
        let (length, max) = (line.len() as u64, self.rotation.bytes_max);
        if max > 0 && length > max {
            let why = format!("write length {length} exceeds maximum file size {max}");
            return Err(io::Error::other(why));
        }
        // Lines are in the order of their events, so the lock is held while one is written.
        let mut open = self.open.lock();
        if max > 0 && open.bytes + length > max {
            fs::rename(&self.path, self.backup(now))?;
            *open = Open {
                file: create(&self.path)?,
                bytes: 0,
                is_tidy: false,
            };
        }
        open.file.write_all(line)?;
        open.bytes += length;
        if max > 0 && !open.is_tidy {
            open.is_tidy = true;
            self.tidy(now)?;
        }
        Ok(())
    }

    /// The path of a file that is rotated at `now`. Under simulated time many may be rotated at once.
    fn backup(&self, mut now: Timestamp) -> PathBuf {
        loop {
            let time = now.to_zoned(TimeZone::UTC).datetime().strftime(TIME);
            let (stem, extension) = self.name();
            let name = format!("{stem}-{time}{extension}");
            let path = self.path.with_file_name(name);
            let mut compressed = path.clone().into_os_string();
            compressed.push(COMPRESSED);
            if !path.exists() && !Path::new(&compressed).exists() {
                return path;
            }
            now = now
                .saturating_add(SignedDuration::from_millis(1))
                .unwrap_or(now);
        }
    }

    /// The name without the extension, and the extension with its dot.
    fn name(&self) -> (String, String) {
        let name = self.path.file_name().map(OsStr::to_string_lossy);
        let name = name.unwrap_or_default();
        match name.rfind('.') {
            Some(dot) => (name[..dot].to_owned(), name[dot..].to_owned()),
            None => (name.into_owned(), String::new()),
        }
    }

    /// Removes the rotated files that are too many or too old, and compresses the others.
    fn tidy(&self, now: Timestamp) -> io::Result<()> {
        let Rotation {
            days_max,
            backups_max,
            compress,
            ..
        } = self.rotation;
        let oldest = SignedDuration::from_hours(24 * i64::from(days_max));
        let oldest = now.saturating_sub(oldest).unwrap_or(now);
        for (at, backup) in self.backups()?.into_iter().enumerate() {
            let is_surplus = backups_max > 0 && at >= backups_max;
            if is_surplus || (days_max > 0 && backup.time < oldest) {
                fs::remove_file(&backup.path)?;
            } else if compress && backup.path == backup.plain {
                compress_file(&backup.path)?;
            }
        }
        Ok(())
    }

    /// The rotated files, the newest first.
    fn backups(&self) -> io::Result<Vec<Backup>> {
        let directory = match self.path.parent() {
            Some(directory) if directory != Path::new("") => directory,
            _ => Path::new("."),
        };
        let (stem, extension) = self.name();
        let mut backups = Vec::new();
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path.file_name().map(OsStr::to_string_lossy);
            let name = name.unwrap_or_default().into_owned();
            let plain = name.strip_suffix(COMPRESSED).unwrap_or(&name);
            let time = plain
                .strip_prefix(&stem)
                .and_then(|rest| rest.strip_prefix('-'))
                .and_then(|rest| rest.strip_suffix(&extension))
                .and_then(|time| DateTime::strptime(TIME, time).ok())
                .and_then(|time| time.to_zoned(TimeZone::UTC).ok());
            if let Some(time) = time {
                backups.push(Backup {
                    plain: path.with_file_name(plain),
                    path,
                    time: time.timestamp(),
                });
            }
        }
        backups.sort_by_key(|own| std::cmp::Reverse(own.time));
        Ok(backups)
    }
}

/// Opens a file to append to it; only its owner can read a new one.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Replaces a file by a compressed one.
fn compress_file(path: &Path) -> io::Result<()> {
    let mut target = path.as_os_str().to_owned();
    target.push(COMPRESSED);
    let mut encoder = GzEncoder::new(create(Path::new(&target))?, Compression::default());
    io::copy(&mut File::open(path)?, &mut encoder)?;
    encoder.finish()?;
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    /// A directory that is removed in the end.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let name = format!("kubeproof-audit-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }

        /// The files with their contents, in the order of their names.
        fn files(&self) -> Vec<(String, String)> {
            let mut files: Vec<_> = fs::read_dir(&self.0)
                .unwrap()
                .map(|entry| {
                    let path = entry.unwrap().path();
                    let mut text = String::new();
                    let mut file = File::open(&path).unwrap();
                    if path.extension() == Some(OsStr::new("gz")) {
                        GzDecoder::new(file).read_to_string(&mut text).unwrap();
                    } else {
                        file.read_to_string(&mut text).unwrap();
                    }
                    let name = path.file_name().unwrap().to_string_lossy();
                    (name.into_owned(), text)
                })
                .collect();
            files.sort();
            files
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// Writes a line of ten bytes a day into a file for two of them; returns the files.
    fn written(name: &str, days: std::ops::RangeInclusive<u8>, rotation: Rotation) -> Vec<String> {
        let directory = Directory::new(name);
        let path = directory.0.join("below").join("audit.log");
        let rotation = Rotation {
            bytes_max: 20,
            ..rotation
        };
        let file = RotatedFile::open(&path, rotation).unwrap();
        for day in days {
            let now = time(&format!("2026-01-{day:02}T01:02:03.004Z"));
            file.write(format!("line {day:04}\n").as_bytes(), now)
                .unwrap();
        }
        let below = Directory(directory.0.join("below"));
        let files = below.files().into_iter();
        let files = files.map(|(name, text)| format!("{name}: {}", text.replace('\n', " ")));
        files.collect()
    }

    #[test]
    fn a_full_file_gets_the_time_in_its_name() {
        let got = written("full", 1..=5, Rotation::default());
        let want = [
            "audit-2026-01-03T01-02-03.004.log: line 0001 line 0002 ",
            "audit-2026-01-05T01-02-03.004.log: line 0003 line 0004 ",
            "audit.log: line 0005 ",
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn the_oldest_and_the_surplus_files_are_removed_and_others_compressed() {
        let rotation = Rotation {
            backups_max: 2,
            compress: true,
            ..Rotation::default()
        };
        let want = [
            "audit-2026-01-05T01-02-03.004.log.gz: line 0003 line 0004 ",
            "audit-2026-01-07T01-02-03.004.log.gz: line 0005 line 0006 ",
            "audit.log: line 0007 ",
        ];
        assert_eq!(written("surplus", 1..=7, rotation), want);
        let rotation = Rotation {
            days_max: 3,
            ..Rotation::default()
        };
        let want = [
            "audit-2026-01-05T01-02-03.004.log: line 0003 line 0004 ",
            "audit-2026-01-07T01-02-03.004.log: line 0005 line 0006 ",
            "audit.log: line 0007 ",
        ];
        assert_eq!(written("oldest", 1..=7, rotation), want);
    }

    #[test]
    fn files_of_one_moment_do_not_replace_each_other() {
        let directory = Directory::new("moment");
        let rotation = Rotation {
            bytes_max: 10,
            ..Rotation::default()
        };
        let file = RotatedFile::open(&directory.0.join("log"), rotation).unwrap();
        for line in ["first\n", "second\n", "third\n"] {
            let now = time("2026-01-01T00:00:00Z");
            file.write(line.as_bytes(), now).unwrap();
        }
        let names: Vec<String> = directory
            .files()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        let want = [
            "log",
            "log-2026-01-01T00-00-00.000",
            "log-2026-01-01T00-00-00.001",
        ];
        assert_eq!(names, want);
        let error = file.write(&[b'x'; 11], Timestamp::UNIX_EPOCH).unwrap_err();
        assert_eq!(
            error.to_string(),
            "write length 11 exceeds maximum file size 10"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_file_goes_on_and_only_its_owner_can_read_it() {
        use std::os::unix::fs::PermissionsExt;

        let directory = Directory::new("private");
        let path = directory.0.join("audit.log");
        for line in ["a\n", "b\n"] {
            let file = RotatedFile::open(&path, Rotation::default()).unwrap();
            file.write(line.as_bytes(), Timestamp::UNIX_EPOCH).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\nb\n");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
