//! Containers that a runtime makes and cannot start, as their image lacks the program.

use super::container::{Container, absolute};
use super::image::Image;

/// The search path of a container whose image and spec say nothing of it.
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The exit code that a runtime notes for such a container.
pub(super) const EXIT_CODE: i32 = 128;

/// What `containerd` and `runc` say before the cause.
const PREFIX: &str = "failed to create containerd task: failed to create shim task: OCI runtime create failed: \
    runc create failed: unable to start container process: error during container init: ";

/// The runtime's message when `image` has no program `name`. Returns `None` when it has one, or when it is not
/// known what it has: images other than base images, other search paths, and directories below `mounts`.
pub(super) fn start_error(
    name: &str,
    image: &Image<'_>,
    container: &Container,
    mounts: &[String],
) -> Option<String> {
    let programs = image.programs()?;
    let is_mounted = |path: &str| {
        let mut above = mounts.iter().map(|mount| mount.trim_end_matches('/'));
        above.any(|mount| path == mount || path.starts_with(&format!("{mount}/")))
    };
    if name.contains('/') {
        let path = absolute(&container.directory, name);
        let (directory, base) = path.rsplit_once('/').unwrap_or(("", &path));
        let is_program = PATH.split(':').any(|own| own == directory) && programs.contains(base);
        let is_known = is_program || is_mounted(&path) || container.files.exists(&path);
        return (!is_known)
            .then(|| format!("{PREFIX}exec: {name:?}: stat {name}: no such file or directory"));
    }
    let mut directories = PATH.split(':');
    let searched = container.variables.get("PATH").map(String::as_str) == Some(PATH);
    let is_known = programs.contains(name) || !searched || directories.any(is_mounted);
    (!is_known).then(|| format!("{PREFIX}exec: {name:?}: executable file not found in $PATH"))
}
