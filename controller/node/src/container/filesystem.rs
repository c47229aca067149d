//! The files of a container: its own tree, and the volumes mounted into it.

mod image_root;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::changes::Changes;
use super::device::{Device, Endless, Randomness};
use image_root::{ImageFiles, ImageRoot};

/// The maximum size of a file.
const FILE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The most symbolic links that a path may lead through, as in Linux.
const LINKS_MAX: usize = 40;

/// An error of a file operation, with the C library's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FileError {
    /// ENOENT.
    #[error("No such file or directory")]
    NotFound,
    /// EISDIR.
    #[error("Is a directory")]
    IsDirectory,
    /// ENOTDIR.
    #[error("Not a directory")]
    NotDirectory,
    /// EEXIST.
    #[error("File exists")]
    Exists,
    /// ENOTEMPTY.
    #[error("Directory not empty")]
    NotEmpty,
    /// ENOSPC: the file would exceed its maximum size.
    #[error("No space left on device")]
    NoSpace,
    /// ELOOP.
    #[error("Too many levels of symbolic links")]
    TooManyLinks,
    /// ENOMEM: an endless file can't be read as a whole.
    #[error("Cannot allocate memory")]
    NoMemory,
}

/// The content of an opened file.
pub(super) enum Content {
    Bytes(Vec<u8>),
    Endless(Endless),
}

/// A file, a directory or a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    File(Vec<u8>),
    Device(Device),
    /// The path that the link has, absolute or relative to its directory.
    Link(Box<str>),
    Directory(Directory),
}

/// The entries of a directory by name. Containers of one image share the directories that they have not changed.
type Directory = Arc<BTreeMap<String, Entry>>;

/// The content of every new tree.
static EMPTY: LazyLock<Directory> = LazyLock::new(Directory::default);

/// Whether the last part of a path is followed if it is a symbolic link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Followed,
    Kept,
}

/// A tree of files that containers can share: a volume, or the root of one container.
#[derive(Clone, Debug, Default)]
pub(crate) struct Volume {
    tree: Arc<Tree>,
    /// The path in the tree at which the volume begins.
    below: Box<[String]>,
}

#[derive(Debug)]
struct Tree {
    root: Mutex<Directory>,
    /// Notifies the readers that follow a file (`tail -f`) of every change in the tree.
    changed: Changes,
}

impl Default for Tree {
    fn default() -> Self {
        Self {
            root: Mutex::new(Arc::clone(&EMPTY)),
            changed: Changes::default(),
        }
    }
}

impl Volume {
    fn of(root: Directory) -> Self {
        let tree = Tree {
            root: Mutex::new(root),
            changed: Changes::default(),
        };
        Self {
            tree: Arc::new(tree),
            below: Box::default(),
        }
    }

    /// Returns a file system with this volume as its root.
    pub(crate) fn as_root(&self) -> FileSystem {
        FileSystem {
            root: self.clone(),
            ..FileSystem::default()
        }
    }

    /// Returns the subtree at `path` as a volume, creating a directory if `path` does not exist.
    pub(crate) fn below(&self, path: &str) -> Self {
        self.as_root().make_directories(path);
        let mut below = self.below.to_vec();
        below.extend(parts(&absolute("/", path)).map(str::to_owned));
        Self {
            tree: Arc::clone(&self.tree),
            below: below.into(),
        }
    }
}

/// The file system that a container sees below `/`.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileSystem {
    root: Volume,
    image: Arc<ImageRoot>,
    /// The volumes at the mount points of `image`, in the same order.
    mounted: Box<[Volume]>,
    randomness: Randomness,
}

impl FileSystem {
    /// Creates a root with the directories that every image has, and `mounts` by absolute path.
    #[cfg(test)]
    pub(crate) fn new(mounts: Vec<(String, Volume)>) -> Self {
        Self::of_image(ImageFiles::new(), mounts)
    }

    /// Creates a root with the directories that every image has, the files of an image, and `mounts` by absolute path.
    /// A mount hides what the image has there.
    pub(crate) fn of_image(image: ImageFiles, mounts: Vec<(String, Volume)>) -> Self {
        let mounts = mounts.into_iter();
        let mut mounts: Vec<_> = mounts
            .map(|(path, volume)| (absolute("/", &path), volume))
            .collect();
        // The innermost mount point wins.
        mounts.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        let (mount_points, mounted): (Vec<_>, Vec<_>) = mounts.into_iter().unzip();
        let image = ImageRoot::of(image, mount_points);
        Self {
            root: Volume::of(Arc::clone(&image.directory)),
            image,
            mounted: mounted.into(),
            randomness: Randomness::default(),
        }
    }

    /// Returns the directory `/`, without what is mounted.
    fn root_directory(&self) -> Directory {
        self.root.tree.root.lock().clone()
    }

    /// Returns these files with the random devices seeded by `seed`.
    pub(crate) fn seeded(self, seed: u64) -> Self {
        Self {
            randomness: Randomness::of(seed),
            ..self
        }
    }

    /// Reads a whole file, which must not be endless.
    pub(crate) fn read(&self, path: &str) -> Result<Vec<u8>, FileError> {
        match self.open(path)? {
            Content::Bytes(bytes) => Ok(bytes),
            Content::Endless(_) => Err(FileError::NoMemory),
        }
    }

    /// Opens a file for reading.
    pub(super) fn open(&self, path: &str) -> Result<Content, FileError> {
        self.entry(path, |entry| match entry {
            Some(Entry::File(bytes)) => Ok(Content::Bytes(bytes.clone())),
            Some(Entry::Device(Device::Null)) => Ok(Content::Bytes(Vec::new())),
            Some(Entry::Device(Device::Zero)) => Ok(Content::Endless(Endless::Zeros)),
            Some(Entry::Device(Device::Random)) => {
                let randomness = self.randomness.clone();
                Ok(Content::Endless(Endless::Random(randomness)))
            }
            Some(Entry::Directory(_)) => Err(FileError::IsDirectory),
            Some(Entry::Link(_)) | None => Err(FileError::NotFound),
        })
    }

    /// Returns the size of a file in bytes; 0 for a device.
    pub(super) fn size(&self, path: &str) -> Result<usize, FileError> {
        self.entry(path, |entry| match entry {
            Some(Entry::File(bytes)) => Ok(bytes.len()),
            Some(Entry::Device(_)) => Ok(0),
            Some(Entry::Directory(_)) => Err(FileError::IsDirectory),
            Some(Entry::Link(_)) | None => Err(FileError::NotFound),
        })
    }

    /// Returns the notifier of the volume that holds `path`; any change in the volume triggers it.
    pub(super) fn changed(&self, path: &str) -> Arc<Notify> {
        let path = self.resolve(path, Last::Followed);
        let path = path.as_deref().unwrap_or("/");
        Arc::clone(self.place(path).0.tree.changed.notifier())
    }

    pub(super) fn is_device(&self, path: &str) -> bool {
        self.entry(path, |entry| matches!(entry, Some(Entry::Device(_))))
    }

    /// Creates or replaces a file, or appends to it.
    pub(crate) fn write(&self, path: &str, bytes: &[u8], append: bool) -> Result<(), FileError> {
        let path = self.resolve(path, Last::Followed)?;
        self.in_parent(&path, |siblings, name| match siblings.get_mut(name) {
            Some(Entry::Directory(_)) => Err(FileError::IsDirectory),
            Some(Entry::Device(_)) => Ok(()),
            _ if bytes.len() > FILE_BYTES_MAX => Err(FileError::NoSpace),
            Some(Entry::File(old)) if append => {
                if bytes.len() > FILE_BYTES_MAX - old.len() {
                    return Err(FileError::NoSpace);
                }
                old.extend_from_slice(bytes);
                Ok(())
            }
            _ => {
                siblings.insert(name.to_owned(), Entry::File(bytes.to_vec()));
                Ok(())
            }
        })
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.entry(path, |entry| entry.is_some())
    }

    pub(crate) fn is_directory(&self, path: &str) -> bool {
        self.entry(path, |entry| matches!(entry, Some(Entry::Directory(_))))
    }

    /// Returns the names in a directory, sorted.
    pub(crate) fn list(&self, path: &str) -> Result<Vec<String>, FileError> {
        self.entry(path, |entry| match entry {
            Some(Entry::Directory(children)) => Ok(children.keys().cloned().collect()),
            Some(Entry::File(_) | Entry::Device(_)) => Err(FileError::NotDirectory),
            Some(Entry::Link(_)) | None => Err(FileError::NotFound),
        })
    }

    pub(crate) fn make_directory(&self, path: &str) -> Result<(), FileError> {
        self.in_parent(path, |siblings, name| {
            if siblings.contains_key(name) {
                return Err(FileError::Exists);
            }
            let directory = Entry::Directory(Directory::default());
            siblings.insert(name.to_owned(), directory);
            Ok(())
        })
    }

    /// Creates a directory and its missing parents.
    pub(crate) fn make_directories(&self, path: &str) {
        let mut reached = String::new();
        for part in parts(path) {
            reached = format!("{reached}/{part}");
            // An attempt copies the directories that containers share, even if it fails. It fails if there is a file, which
            // its first user reports.
            if !self.is_directory(&reached) {
                let _ = self.make_directory(&reached);
            }
        }
    }

    /// Removes a file, or with `recursive` a directory and everything below it.
    pub(crate) fn remove(&self, path: &str, recursive: bool) -> Result<(), FileError> {
        self.in_parent(path, |siblings, name| match siblings.get(name) {
            None => Err(FileError::NotFound),
            Some(Entry::Directory(_)) if !recursive => Err(FileError::IsDirectory),
            Some(_) => {
                siblings.remove(name);
                Ok(())
            }
        })
    }

    /// Removes an empty directory.
    pub(crate) fn remove_directory(&self, path: &str) -> Result<(), FileError> {
        self.in_parent(path, |siblings, name| match siblings.get(name) {
            None => Err(FileError::NotFound),
            Some(Entry::File(_) | Entry::Device(_) | Entry::Link(_)) => {
                Err(FileError::NotDirectory)
            }
            Some(Entry::Directory(children)) if !children.is_empty() => Err(FileError::NotEmpty),
            Some(Entry::Directory(_)) => {
                siblings.remove(name);
                Ok(())
            }
        })
    }

    /// Copies a file or a directory to `to`, which becomes its name. Reads the content of a device.
    pub(crate) fn copy(&self, from: &str, to: &str) -> Result<(), FileError> {
        let entry = self.entry(from, |entry| entry.cloned().ok_or(FileError::NotFound))?;
        if matches!(entry, Entry::Device(_)) || self.is_device(to) {
            return self.write(to, &self.read(from)?, false);
        }
        self.in_parent(to, |siblings, name| {
            siblings.insert(name.to_owned(), entry);
            Ok(())
        })
    }

    /// Moves a file, a directory or a link to `to`, which becomes its name.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), FileError> {
        let path = self.resolve(from, Last::Kept)?;
        let entry = self.raw(&path, |entry| entry.cloned().ok_or(FileError::NotFound))?;
        if let Entry::Link(target) = entry {
            self.in_parent(to, |siblings, name| {
                siblings.insert(name.to_owned(), Entry::Link(target));
                Ok(())
            })?;
        } else {
            self.copy(from, to)?;
        }
        self.remove(from, true)
    }

    /// Creates a symbolic link to `target`, which need not exist, in place of an older one if that is to be replaced.
    pub(crate) fn link(&self, target: &str, path: &str, replaces: bool) -> Result<(), FileError> {
        self.in_parent(path, |siblings, name| match siblings.get(name) {
            Some(Entry::Directory(_)) => Err(FileError::Exists),
            Some(_) if !replaces => Err(FileError::Exists),
            _ => {
                siblings.insert(name.to_owned(), Entry::Link(target.into()));
                Ok(())
            }
        })
    }

    /// Returns the path that symbolic links lead to.
    fn resolve(&self, path: &str, last: Last) -> Result<String, FileError> {
        let mut path = absolute("/", path);
        for _ in 0..=LINKS_MAX {
            let Some(next) = self.step(&path, last) else {
                return Ok(path);
            };
            path = next;
        }
        Err(FileError::TooManyLinks)
    }

    /// Follows the first symbolic link in an absolute path, and returns the new path. `None` without a link.
    fn step(&self, path: &str, last: Last) -> Option<String> {
        let mut reached = String::new();
        let mut rest = parts(path).peekable();
        while let Some(part) = rest.next() {
            let next = format!("{reached}/{part}");
            let is_followed = rest.peek().is_some() || last == Last::Followed;
            let target = self.raw(&next, |entry| match entry {
                Some(Entry::Link(target)) if is_followed => Some(target.clone()),
                _ => None,
            });
            if let Some(target) = target {
                let target = absolute(&reached, &target);
                let rest: Vec<&str> = rest.collect();
                return Some(absolute(&target, &rest.join("/")));
            }
            reached = next;
        }
        None
    }

    /// Returns the volume that holds `path`, and the path from the volume's mount point on.
    fn place(&self, path: &str) -> (&Volume, Vec<String>) {
        let path = absolute("/", path);
        let mut mounts = self.image.mount_points.iter().zip(&self.mounted);
        let mounted = mounts.find_map(|(point, volume)| {
            let rest = path.strip_prefix(point.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then_some((volume, rest))
        });
        let (volume, rest) = mounted.unwrap_or((&self.root, &path));
        (volume, parts(rest).map(str::to_owned).collect())
    }

    /// Looks at what symbolic links lead to.
    fn entry<T>(&self, path: &str, look: impl FnOnce(Option<&Entry>) -> T) -> T {
        match self.resolve(path, Last::Followed) {
            Ok(path) => self.raw(&path, look),
            Err(_) => look(None),
        }
    }

    /// Looks at what is at a path, without following links.
    fn raw<T>(&self, path: &str, look: impl FnOnce(Option<&Entry>) -> T) -> T {
        let (volume, parts) = self.place(path);
        // The lock is held throughout: a concurrent write would copy the directories that this look shares.
        let root = volume.tree.root.lock();
        let shared = Entry::Directory(Arc::clone(&root));
        let mut entry = Some(&shared);
        for part in volume.below.iter().chain(&parts) {
            entry = match entry {
                Some(Entry::Directory(children)) => children.get(part),
                _ => None,
            };
        }
        look(entry)
    }

    fn in_parent<T>(
        &self,
        path: &str,
        change: impl FnOnce(&mut BTreeMap<String, Entry>, &str) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let path = self.resolve(path, Last::Kept)?;
        let (volume, parts) = self.place(&path);
        // A mount point itself can't be replaced.
        let (name, above) = parts.split_last().ok_or(FileError::IsDirectory)?;
        let mut root = volume.tree.root.lock();
        let mut directory = &mut *root;
        for part in volume.below.iter().chain(above) {
            let entry = Arc::make_mut(directory).get_mut(part);
            directory = match entry.ok_or(FileError::NotFound)? {
                Entry::Directory(children) => children,
                _ => return Err(FileError::NotDirectory),
            };
        }
        let changed = change(Arc::make_mut(directory), name)?;
        volume.tree.changed.notify();
        Ok(changed)
    }
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

/// Returns `path` relative to the directory `from`, without `.`, `..` and doubled slashes.
pub(crate) fn absolute(from: &str, path: &str) -> String {
    let base = if path.starts_with('/') { "" } else { from };
    let mut kept: Vec<&str> = Vec::new();
    for part in parts(base).chain(parts(path)) {
        match part {
            "." => {}
            ".." => {
                kept.pop();
            }
            part => kept.push(part),
        }
    }
    format!("/{}", kept.join("/"))
}

/// Returns the last component of a path.
pub(crate) fn base_name(path: &str) -> &str {
    parts(path).last().unwrap_or("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_absolute() {
        assert_eq!(absolute("/a/b", "../c/./d"), "/a/c/d");
        assert_eq!(absolute("/a", "/x//y/"), "/x/y");
        assert_eq!(absolute("/", "../.."), "/");
    }

    #[test]
    fn a_volume_is_seen_by_all_who_mount_it_and_outlives_them() {
        let data = Volume::default();
        let one = FileSystem::new(vec![("/data".to_owned(), data.clone())]);
        one.write("/data/file", b"text", false).unwrap();
        one.write("/tmp/own", b"", false).unwrap();
        let other = FileSystem::new(vec![("/mnt/data/".to_owned(), data)]);
        drop(one);
        assert_eq!(other.read("/mnt/data/file").unwrap(), b"text");
        assert_eq!(other.read("/tmp/own"), Err(FileError::NotFound));
        assert_eq!(other.list("/mnt").unwrap(), ["data"]);
    }

    #[test]
    fn a_part_of_a_volume_can_be_mounted() {
        let data = Volume::default();
        let part = FileSystem::new(vec![("/own".to_owned(), data.below("a/b"))]);
        part.write("/own/file", b"text", false).unwrap();
        let whole = FileSystem::new(vec![("/all".to_owned(), data.clone())]);
        assert_eq!(whole.read("/all/a/b/file").unwrap(), b"text");
        let file = FileSystem::new(vec![("/etc/one".to_owned(), data.below("a/b/file"))]);
        assert_eq!(file.read("/etc/one").unwrap(), b"text");
    }

    #[test]
    fn a_symbolic_link_leads_to_the_file_that_it_names() {
        let files = FileSystem::new(Vec::new());
        files.make_directories("/data/logs");
        files.write("/data/name", b"web-0", false).unwrap();
        files.link("/data/name", "/data/absolute", false).unwrap();
        files.link("name", "/data/relative", false).unwrap();
        files.link("../data/logs", "/tmp/logs", false).unwrap();
        assert_eq!(files.read("/data/absolute").unwrap(), b"web-0");
        files.write("/data/relative", b"!", true).unwrap();
        assert_eq!(files.read("/data/name").unwrap(), b"web-0!");
        files.write("/tmp/logs/a", b"1", false).unwrap();
        assert_eq!(files.read("/data/logs/a").unwrap(), b"1");
        assert_eq!(
            files.link("x", "/data/relative", false),
            Err(FileError::Exists)
        );
        files.rename("/data/relative", "/data/moved").unwrap();
        assert_eq!(files.read("/data/moved").unwrap(), b"web-0!");
        files.remove("/data/moved", false).unwrap();
        assert!(files.exists("/data/name"), "only the link is removed");
        files.link("/data/gone", "/data/dangling", false).unwrap();
        assert_eq!(files.read("/data/dangling"), Err(FileError::NotFound));
        files.link("b", "/tmp/a", false).unwrap();
        files.link("a", "/tmp/b", false).unwrap();
        assert_eq!(
            files.write("/tmp/a", b"", false),
            Err(FileError::TooManyLinks)
        );
        assert!(!files.exists("/tmp/a"));
    }

    #[test]
    fn faults_are_those_of_a_kernel() {
        let files = FileSystem::new(Vec::new());
        files.write("/tmp/a", b"1", false).unwrap();
        files.write("/tmp/a", b"2", true).unwrap();
        assert_eq!(files.read("/tmp/a").unwrap(), b"12");
        assert_eq!(files.read("/tmp"), Err(FileError::IsDirectory));
        assert_eq!(
            files.write("/no/file", b"", false),
            Err(FileError::NotFound)
        );
        assert_eq!(
            files.write("/tmp/a/b", b"", false),
            Err(FileError::NotDirectory)
        );
        assert_eq!(files.read("/dev/zero"), Err(FileError::NoMemory));
        let much = vec![0; FILE_BYTES_MAX];
        assert_eq!(files.write("/tmp/a", &much, true), Err(FileError::NoSpace));
        assert_eq!(files.remove("/tmp", false), Err(FileError::IsDirectory));
        assert_eq!(files.remove_directory("/tmp"), Err(FileError::NotEmpty));
        assert_eq!(files.make_directory("/tmp"), Err(FileError::Exists));
        files.copy("/tmp", "/copy").unwrap();
        assert_eq!(files.read("/copy/a").unwrap(), b"12");
    }

    #[test]
    fn containers_of_one_image_share_its_files_until_they_change_them() {
        let page = "/usr/share/nginx/html/index.html";
        let of_image = |mounts| FileSystem::of_image(vec![(page, "hello")], mounts);
        let (one, other) = (of_image(Vec::new()), of_image(Vec::new()));
        one.write(page, b"changed", false).unwrap();
        one.remove("/tmp", true).unwrap();
        assert_eq!(one.read(page).unwrap(), b"changed");
        assert_eq!(other.read(page).unwrap(), b"hello");
        assert!(other.is_directory("/tmp"));
        assert_eq!(of_image(Vec::new()).read(page).unwrap(), b"hello");
        // A volume hides the files below its mount point.
        let data = Volume::default();
        let mounted = of_image(vec![("/usr/share/nginx".to_owned(), data.clone())]);
        assert_eq!(mounted.read(page), Err(FileError::NotFound));
        let alone = FileSystem::new(vec![("/data".to_owned(), data)]);
        assert_eq!(alone.list("/data").unwrap(), [""; 0]);
    }
}
