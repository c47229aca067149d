//! The roots of images, which containers share until they change them.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{Directory, Entry, FileSystem, Volume};
use crate::container::device::DEVICES;

/// The files of an image: absolute paths and contents.
pub(crate) type ImageFiles = Vec<(&'static str, &'static str)>;

/// The roots of the images that were started, by their files.
static IMAGE_ROOTS: Mutex<BTreeMap<ImageFiles, Directory>> = Mutex::new(BTreeMap::new());

/// The files of an image and the mount points of a container.
type MountKey = (ImageFiles, Vec<String>);

/// The roots with mount points.
static MOUNT_ROOTS: Mutex<MountRoots> = Mutex::new(MountRoots::new());

/// Roots by the files of the image and the mount points. The content of a root is dropped with the last container that
/// has it; its key and its memory block stay until the next sweep.
struct MountRoots {
    roots: BTreeMap<MountKey, Weak<ImageRoot>>,
    /// The number of roots at which those without a container are removed.
    sweep_at: usize,
}

/// The root of an image, with directories at the mount points of a container.
#[derive(Debug, Default)]
pub(super) struct ImageRoot {
    pub(super) directory: Directory,
    /// Absolute paths without trailing slash.
    pub(super) mount_points: Vec<String>,
}

impl MountRoots {
    const fn new() -> Self {
        Self {
            roots: BTreeMap::new(),
            sweep_at: 0,
        }
    }

    fn get(&self, key: &MountKey) -> Option<Arc<ImageRoot>> {
        self.roots.get(key).and_then(Weak::upgrade)
    }

    /// Adds a root. Removes those without a container first if the number of roots has grown by a fourth since the last
    /// sweep.
    fn insert(&mut self, key: MountKey, root: &Arc<ImageRoot>) {
        if self.roots.len() >= self.sweep_at {
            self.roots.retain(|_, root| root.strong_count() > 0);
            let kept = self.roots.len();
            self.sweep_at = kept + kept / 4 + 1;
        }
        self.roots.insert(key, Arc::downgrade(root));
    }
}

impl ImageRoot {
    /// Returns the root of an image with these files and directories at these mount points, which containers share.
    pub(super) fn of(image: ImageFiles, mount_points: Vec<String>) -> Arc<Self> {
        let key = (image, mount_points);
        let known = MOUNT_ROOTS.lock().get(&key);
        if let Some(root) = known {
            return root;
        }
        let (image, mount_points) = key.clone();
        let files = Volume::of(image_root(image)).as_root();
        for path in &mount_points {
            files.make_directories(path);
        }
        let root = Arc::new(Self {
            directory: files.root_directory(),
            mount_points,
        });
        MOUNT_ROOTS.lock().insert(key, &root);
        root
    }
}

fn image_root(image: ImageFiles) -> Directory {
    let mut roots = IMAGE_ROOTS.lock();
    if let Some(root) = roots.get(&image) {
        return root.clone();
    }
    let files = FileSystem::default();
    for path in ["/bin", "/dev", "/etc", "/root", "/tmp", "/usr", "/var"] {
        files.make_directories(path);
    }
    // The parent directories exist, so these changes can't fail.
    for (name, device) in DEVICES {
        let _ = files.in_parent(&format!("/dev/{name}"), |siblings, name| {
            siblings.insert(name.to_owned(), Entry::Device(*device));
            Ok(())
        });
    }
    for (path, content) in &image {
        let directory = path
            .rsplit_once('/')
            .map_or("/", |(directory, _)| directory);
        files.make_directories(directory);
        let _ = files.write(path, content.as_bytes(), false);
    }
    let root = files.root_directory();
    roots.insert(image, Arc::clone(&root));
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_of_one_image_with_the_same_mounts_share_the_root() {
        let page = "/usr/share/nginx/html/index.html";
        let mounted = |path: &str| {
            let mounts = vec![(path.to_owned(), Volume::default())];
            FileSystem::of_image(vec![(page, "shared root")], mounts)
        };
        let is_shared = |one: &FileSystem, other: &FileSystem| {
            Arc::ptr_eq(&one.root_directory(), &other.root_directory())
        };
        let (one, other) = (mounted("/var/run/token"), mounted("/var/run/token"));
        assert!(is_shared(&one, &other));
        assert!(!is_shared(&one, &mounted("/var/run/data")));
        one.make_directories("/var/run/token");
        assert!(is_shared(&one, &other), "the directory exists");
        one.write("/var/run/own", b"text", false).unwrap();
        assert_eq!(one.list("/var/run").unwrap(), ["own", "token"]);
        assert_eq!(other.list("/var/run").unwrap(), ["token"]);
        assert!(is_shared(&other, &mounted("/var/run/token/")));
        let image = Arc::downgrade(&one.image);
        drop((one, other));
        assert_eq!(image.strong_count(), 0);
        let next = mounted("/var/run/token");
        assert_eq!(next.list("/var/run").unwrap(), ["token"]);
    }

    #[test]
    fn roots_without_a_container_are_removed() {
        let mut roots = MountRoots::new();
        let kept = Arc::new(ImageRoot::default());
        let key = |path: usize| (ImageFiles::new(), vec![format!("/{path}")]);
        roots.insert(key(0), &kept);
        for path in 1..100 {
            roots.insert(key(path), &Arc::default());
            assert!(roots.roots.len() <= 3, "{path}");
        }
        let found = roots.get(&key(0));
        assert!(found.is_some_and(|own| Arc::ptr_eq(&own, &kept)));
        assert!(roots.get(&key(99)).is_none());
    }
}
