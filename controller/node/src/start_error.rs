//! Containers that a runtime creates but cannot start, because their image lacks the program.

use super::container::{Container, PATH, absolute};
use super::image::Image;

/// The exit code of a container that could not be started.
pub(super) const EXIT_CODE: i32 = 128;

/// The prefix of the error of containerd and runc.
const PREFIX: &str = "failed to create containerd task: failed to create shim task: OCI runtime create failed: \
    runc create failed: unable to start container process: error during container init: ";

/// Returns the runtime's error if `image` lacks the program `name`; `None` if it has the program,
/// or if that is not known: for images other than base images, other search paths, and directories
/// below `mounts`.
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
    let searched = container.variables.get("PATH").is_none();
    let is_known = programs.contains(name) || !searched || directories.any(is_mounted);
    (!is_known).then(|| format!("{PREFIX}exec: {name:?}: executable file not found in $PATH"))
}
